"""Axes and attributes in the form that primitives take them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from onnxport.opset_maps.from_onnx.namespace import Namespace
from onnxport.opset_maps.from_onnx.values import Host, Int, Ints, Scalar, Tensor, UnknownUntilRun, host_array, known


def resolved(axis: int, rank: int) -> int:
    """A non-negative axis.

    >>> resolved(-1, 3)
    2
    """
    return axis + rank if axis < 0 else axis


def given(operand: Host | Ints | None) -> tuple[int, ...] | None:
    """Axes, which early opsets give as an attribute and later ones as an operand of the same name.

    Raises:
        UnknownUntilRun: one is dynamic.
    """
    if operand is None:
        return None
    return tuple(number(item) for item in (operand.reshape(-1) if isinstance(operand, np.ndarray) else operand))


def number(item: object) -> int:
    """A host element that must be known at import, as a Python int.

    Raises:
        UnknownUntilRun: it is dynamic.
    """
    if not known(item):
        raise UnknownUntilRun("an axis or count is known only when the model runs")
    return int(item)


def scalar(operand: Host) -> Any:
    """The only element of a host operand: a Python number, or a dynamic int."""
    item = operand.reshape(-1)[0]
    if not isinstance(item, np.generic):
        return item
    result = item.item()
    return result if isinstance(result, (bool, int, float, complex)) else float(result)  # bfloat16 and its like


def real(item: object) -> float:
    """A host element that must be known at import, as a Python float.

    Raises:
        UnknownUntilRun: it is dynamic.
    """
    if not isinstance(item, (int, float, np.generic)):
        raise UnknownUntilRun("a scale or region is known only when the model runs")
    return float(item)


def sizes(operand: Host | Ints) -> list[Int]:
    """The elements of a host vector, or of an attribute that takes its place: Python ints or dynamic ints."""
    items = operand.reshape(-1) if isinstance(operand, np.ndarray) else operand
    return [int(item) if known(item) else item for item in items]


def size_operand(xp: Namespace, size: Int, dtype: ir.DataType = ir.DataType.INT64) -> Scalar:
    """A size as an operand of elementwise arithmetic: a Python int, or a scalar tensor of `dtype`."""
    return size if known(size) else xp.from_host(host_array(size), dtype)


def part(xp: Namespace, x: Tensor, axis: int, index: int) -> Tensor:
    """What stands at one place of an axis, without it."""
    return xp.squeeze(xp.slice(x, axis, index, index + 1), (axis,))


def per_axis(xp: Namespace, x: Tensor, rank: int, axis: int) -> Tensor:
    """A vector (or scalar) shaped so that it is broadcast along `axis` of a tensor of `rank`."""
    if xp.ndim(x) == 0:
        return x
    return xp.expand_dims(x, [i for i in range(rank) if i != axis])
