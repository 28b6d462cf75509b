"""Shape arithmetic on the Python side: ONNX operators on small arrays with dynamic ints among their elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, cast

import numpy as np
import onnx_ir as ir

from onnxport.graph import folding
from onnxport.opset_maps.from_onnx.axes import int_op
from onnxport.opset_maps.from_onnx.namespace import Namespace
from onnxport.opset_maps.from_onnx.values import Host, HostValue, IntOp, host_array, known, object_array

_INTEGER = frozenset({ir.DataType.INT64, ir.DataType.INT32, ir.DataType.BOOL})
# Whole numbers may be cast to these and stay on the host, as bounds of a range.
_WHOLE = (ir.DataType.FLOAT, ir.DataType.DOUBLE)
_ARITHMETIC: dict[str, IntOp] = {
    **{name: cast(IntOp, name.lower()) for name in "Add Sub Mul Div Mod Min Max And Or Neg Abs Not".split()},
    "Equal": "eq",
    "Less": "lt",
    "LessOrEqual": "le",
}
_UNARY = frozenset({"neg", "abs", "not"})
_BOOLEAN = frozenset({"eq", "lt", "le", "and", "or", "not"})
_REDUCTIONS: dict[str, IntOp] = {"ReduceProd": "mul", "ReduceSum": "add", "ReduceMin": "min", "ReduceMax": "max"}


@dataclass(frozen=True)
class _Node:
    """An operator on host values: the element type of the first, their elements, the attributes."""

    xp: Namespace
    op_type: str
    dtype: ir.DataType
    arrays: list[Any]
    attributes: dict[str, Any]


def evaluate(
    xp: Namespace, op_type: str, inputs: Sequence[HostValue | None], attributes: dict[str, Any]
) -> HostValue | None:
    """An operator on host values of which some element is dynamic; None where that is no business of the host."""
    rule = _RULES.get(op_type)
    if rule is None or any(item is not None and item.dtype not in _INTEGER for item in inputs):
        return None
    first = inputs[0]
    dtype = first.dtype if first is not None else ir.DataType.INT64
    return rule(_Node(xp, op_type, dtype, [None if item is None else item.array for item in inputs], attributes))


def _elementwise(xp: Namespace, name: IntOp, *operands: Host) -> Host:
    arrays = np.broadcast_arrays(*operands)
    rows = zip(*(item.reshape(-1) for item in arrays), strict=True)
    return object_array([int_op(xp, name, *row) for row in rows], arrays[0].shape)


def _settled(array: Host, dtype: ir.DataType) -> HostValue:
    array = np.asarray(array) if not isinstance(array, np.ndarray) else array
    if array.dtype == object and all(known(item) for item in array.ravel()):
        array = array.astype(dtype.numpy())
    return HostValue(array, dtype)


def _arithmetic(node: _Node) -> HostValue | None:
    name = _ARITHMETIC[node.op_type]
    if node.op_type == "Mod" and node.attributes.get("fmod"):
        return None
    if name in _UNARY:
        result = _elementwise(node.xp, name, *node.arrays)
    else:
        result = reduce(partial(_elementwise, node.xp, name), node.arrays)
    return _settled(result, ir.DataType.BOOL if name in _BOOLEAN else node.dtype)


def _cast(node: _Node) -> HostValue | None:
    wanted = ir.DataType(node.attributes["to"])
    if wanted not in (ir.DataType.INT64, ir.DataType.INT32, *_WHOLE) or node.dtype == ir.DataType.BOOL:
        return None
    return HostValue(node.arrays[0], wanted)


def _gather(node: _Node) -> HostValue | None:
    data, indices = node.arrays
    if indices.dtype == object:
        return None
    result = np.take(data, indices, node.attributes.get("axis", 0))
    if not isinstance(result, np.ndarray):  # NumPy unwraps a single object
        result = host_array(result, node.dtype.numpy())
    return _settled(result, node.dtype)


def _slice(node: _Node) -> HostValue | None:
    data, *bounds = node.arrays
    if "starts" in node.attributes:  # attributes before opset 10
        bounds = [np.asarray(node.attributes[key]) for key in ("starts", "ends", "axes") if key in node.attributes]
    if any(item is not None and item.dtype == object for item in bounds):
        return None
    return _settled(folding.sliced(data, *bounds), node.dtype)


def _axes(node: _Node) -> tuple[int, ...] | None:
    """Axes: an attribute in early opsets, an operand later."""
    given = node.attributes.get("axes", node.arrays[1] if len(node.arrays) > 1 else None)
    return None if given is None else tuple(int(item) for item in given)


def _reshape(node: _Node) -> HostValue | None:
    shape = node.attributes.get("shape", node.arrays[1] if len(node.arrays) > 1 else None)
    if shape is None or not all(known(item) and item != 0 for item in shape):
        return None
    return _settled(node.arrays[0].reshape([int(item) for item in shape]), node.dtype)


def _reduction(node: _Node) -> HostValue | None:
    data, axes = node.arrays[0], _axes(node)
    if data.ndim != 1 or axes not in (None, (0,), (-1,)) or not data.size:
        return None
    total = host_array([reduce(partial(int_op, node.xp, _REDUCTIONS[node.op_type]), list(data))], node.dtype.numpy())
    return _settled(total if node.attributes.get("keepdims", 1) else total.reshape(()), node.dtype)


_RULES: dict[str, Callable[[_Node], HostValue | None]] = {
    **dict.fromkeys(_ARITHMETIC, _arithmetic),
    **dict.fromkeys(_REDUCTIONS, _reduction),
    "Where": lambda node: _settled(_elementwise(node.xp, "where", *node.arrays), ir.DataType.INT64),
    "Cast": _cast,
    "Identity": lambda node: HostValue(node.arrays[0], node.dtype),
    "Concat": lambda node: _settled(
        np.concatenate([item.astype(object) for item in node.arrays], node.attributes["axis"]), node.dtype
    ),
    "Gather": _gather,
    "Slice": _slice,
    "Squeeze": lambda node: _settled(np.squeeze(node.arrays[0], _axes(node)), node.dtype),
    "Unsqueeze": lambda node: _settled(np.expand_dims(node.arrays[0], _axes(node) or ()), node.dtype),
    "Reshape": _reshape,
    "Transpose": lambda node: HostValue(node.arrays[0].transpose(node.attributes.get("perm")), node.dtype),
}
