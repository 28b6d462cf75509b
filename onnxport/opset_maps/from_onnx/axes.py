"""Axes, sizes and attributes in the form that primitives take them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxport.opset_maps.from_onnx.namespace import Namespace
from onnxport.opset_maps.from_onnx.values import (
    Host,
    Int,
    IntOp,
    Ints,
    Scalar,
    Tensor,
    UnknownUntilRun,
    host_array,
    known,
)


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


def is_single(xp: Namespace, x: Tensor) -> bool:
    """Whether a tensor is known to be a vector of one element."""
    sizes = xp.shape(x)
    return len(sizes) == 1 and known(sizes[0]) and sizes[0] == 1


def truncated_div(a: int, b: int) -> int:
    """a / b rounded toward zero."""
    if b > 0:  # not a comparison of comparisons: symbolic sizes have none
        return a // b if a >= 0 else -(-a // b)
    return -(a // -b) if a >= 0 else -a // -b


def ceil_div(a: int, b: int) -> int:
    """a / b rounded up."""
    return -(-a // b)


def select(condition: bool, a: object, b: object) -> Any:
    """a where the condition holds, else b."""
    return a if condition else b


def both(a: bool, b: bool) -> bool:
    """a and b."""
    return a and b


def either(a: bool, b: bool) -> bool:
    """a or b."""
    return a or b


# Arithmetic of sizes that are known at import.
INT_OPS: dict[str, Callable[..., Any]] = {
    **{name: getattr(operator, name) for name in "add sub mul mod neg eq lt le".split()},
    "div": truncated_div,
    "floor_div": operator.floordiv,
    "ceil_div": ceil_div,
    "min": min,
    "max": max,
    "abs": abs,
    "and": both,
    "or": either,
    "not": operator.not_,
    "where": select,
}


def int_op(xp: Namespace, name: IntOp, *operands: Int) -> Int:
    """One step of size arithmetic (see `Namespace.int_op`), done at once where everything is known."""
    operands = tuple(item.item() if isinstance(item, np.generic) else item for item in operands)
    if all(known(item) for item in operands):
        return INT_OPS[name](*operands)
    if len(operands) == 2:
        a, b = operands
        if (name == "mul" and a is not True and known(a) and a == 1) or (name == "add" and known(a) and a == 0):
            return b
        if (name in ("mul", "div", "floor_div", "ceil_div") and known(b) and b == 1) or (
            name in ("add", "sub") and known(b) and b == 0
        ):
            return a
    if name == "where" and known(operands[0]):
        return operands[1] if operands[0] else operands[2]
    return xp.int_op(name, *operands)


def product(xp: Namespace, sizes: Sequence[Int]) -> Int:
    """The product of sizes."""
    one: Int = 1
    return reduce(partial(int_op, xp, "mul"), sizes, one)
