"""Shape arithmetic on the Python side: ONNX operators on small arrays with dynamic ints among their elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxport.opset_maps.from_onnx.namespace import Namespace
from onnxport.opset_maps.from_onnx.values import Host, HostValue, Int, IntOp, known

_INTEGER = frozenset({ir.DataType.INT64, ir.DataType.INT32, ir.DataType.BOOL})
_ARITHMETIC: dict[str, IntOp] = {
    "Add": "add",
    "Sub": "sub",
    "Mul": "mul",
    "Div": "div",
    "Mod": "mod",
    "Min": "min",
    "Max": "max",
    "Equal": "eq",
    "Less": "lt",
    "LessOrEqual": "le",
    "And": "and",
    "Or": "or",
}
_UNARY: dict[str, IntOp] = {"Neg": "neg", "Abs": "abs", "Not": "not"}
_BOOLEAN = frozenset({"eq", "lt", "le", "and", "or", "not"})
_REDUCTIONS: dict[str, IntOp] = {"ReduceProd": "mul", "ReduceSum": "add", "ReduceMin": "min", "ReduceMax": "max"}

_KNOWN: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
    "floor_div": lambda a, b: a // b,
    "ceil_div": lambda a, b: -(-a // b),
    "mod": lambda a, b: a % b,
    "min": min,
    "max": max,
    "neg": lambda a: -a,
    "abs": abs,
    "eq": lambda a, b: a == b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
    "not": lambda a: not a,
    "where": lambda c, a, b: a if c else b,
}


def int_op(xp: Namespace, name: IntOp, *operands: Int) -> Int:
    """One step of size arithmetic (see `Namespace.int_op`), done at once where everything is known."""
    operands = tuple(item.item() if isinstance(item, np.generic) else item for item in operands)
    if all(known(item) for item in operands):
        return _KNOWN[name](*operands)
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
    total: Int = 1
    for size in sizes:
        total = int_op(xp, "mul", total, size)
    return total


def evaluate(
    xp: Namespace, op_type: str, inputs: Sequence[HostValue | None], attributes: dict[str, Any]
) -> HostValue | None:
    """An operator on host values of which some element is dynamic; None where that is no business of the host."""
    rule = _RULES.get(op_type)
    if rule is None or any(item is not None and item.dtype not in _INTEGER for item in inputs):
        return None
    first = inputs[0]
    dtype = first.dtype if first is not None else ir.DataType.INT64
    return rule(xp, op_type, dtype, [None if item is None else item.array for item in inputs], attributes)


def _elementwise(xp: Namespace, name: IntOp, *operands: Host) -> Host:
    arrays = np.broadcast_arrays(*operands)
    result = np.empty(arrays[0].shape, object)
    for index in np.ndindex(result.shape):
        result[index] = int_op(xp, name, *(item[index] for item in arrays))
    return result


def _settled(array: Host, dtype: ir.DataType) -> HostValue:
    array = np.asarray(array) if not isinstance(array, np.ndarray) else array
    if array.dtype == object and all(known(item) for item in array.ravel()):
        array = array.astype(dtype.numpy())
    return HostValue(array, dtype)


def _binary(
    xp: Namespace, op_type: str, dtype: ir.DataType, arrays: list[Host], attributes: dict[str, Any]
) -> HostValue | None:
    name = _ARITHMETIC[op_type]
    if op_type == "Mod" and attributes.get("fmod"):
        return None
    result = reduce(lambda a, b: _elementwise(xp, name, a, b), arrays)
    return _settled(result, ir.DataType.BOOL if name in _BOOLEAN else dtype)


def _unary(
    xp: Namespace, op_type: str, dtype: ir.DataType, arrays: list[Host], attributes: dict[str, Any]
) -> HostValue | None:
    name = _UNARY[op_type]
    return _settled(_elementwise(xp, name, arrays[0]), ir.DataType.BOOL if name in _BOOLEAN else dtype)


def _where(
    xp: Namespace, op_type: str, dtype: ir.DataType, arrays: list[Host], attributes: dict[str, Any]
) -> HostValue | None:
    return _settled(_elementwise(xp, "where", *arrays), ir.DataType.INT64)


def _cast(
    xp: Namespace, op_type: str, dtype: ir.DataType, arrays: list[Host], attributes: dict[str, Any]
) -> HostValue | None:
    wanted = ir.DataType(attributes["to"])
    if wanted not in (ir.DataType.INT64, ir.DataType.INT32) or dtype == ir.DataType.BOOL:
        return None
    return HostValue(arrays[0], wanted)


def _same(
    xp: Namespace, op_type: str, dtype: ir.DataType, arrays: list[Host], attributes: dict[str, Any]
) -> HostValue | None:
    return HostValue(arrays[0], dtype)


def _concat(
    xp: Namespace, op_type: str, dtype: ir.DataType, arrays: list[Host], attributes: dict[str, Any]
) -> HostValue | None:
    return _settled(np.concatenate([item.astype(object) for item in arrays], attributes["axis"]), dtype)


def _gather(
    xp: Namespace, op_type: str, dtype: ir.DataType, arrays: list[Host], attributes: dict[str, Any]
) -> HostValue | None:
    data, indices = arrays
    if indices.dtype == object:
        return None
    result = np.take(data, indices, attributes.get("axis", 0))
    if not isinstance(result, np.ndarray):  # NumPy unwraps a single object
        scalar = np.empty((), object)
        scalar[()] = result
        result = scalar
    return _settled(result, dtype)


def _slice(
    xp: Namespace, op_type: str, dtype: ir.DataType, arrays: list[Host], attributes: dict[str, Any]
) -> HostValue | None:
    data, *bounds = arrays
    if "starts" in attributes:  # attributes before opset 10
        bounds = [np.asarray(attributes[key]) for key in ("starts", "ends", "axes") if key in attributes]
    if any(item is not None and item.dtype == object for item in bounds):
        return None
    starts, ends, *rest = bounds
    axes = rest[0] if rest and rest[0] is not None else range(len(starts))
    steps = rest[1] if len(rest) > 1 and rest[1] is not None else [1] * len(starts)
    index: list[slice] = [slice(None)] * data.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        below = step < 0 and end < -data.shape[axis]
        index[axis] = slice(int(start), None if below else int(end), int(step))
    return _settled(data[tuple(index)], dtype)


def _axes(arrays: list[Host], attributes: dict[str, Any]) -> tuple[int, ...] | None:
    if "axes" in attributes:
        return tuple(attributes["axes"])
    if len(arrays) > 1 and arrays[1] is not None:
        return tuple(int(item) for item in arrays[1])
    return None


def _squeeze(
    xp: Namespace, op_type: str, dtype: ir.DataType, arrays: list[Host], attributes: dict[str, Any]
) -> HostValue | None:
    return _settled(np.squeeze(arrays[0], _axes(arrays, attributes)), dtype)


def _unsqueeze(
    xp: Namespace, op_type: str, dtype: ir.DataType, arrays: list[Host], attributes: dict[str, Any]
) -> HostValue | None:
    return _settled(np.expand_dims(arrays[0], _axes(arrays, attributes) or ()), dtype)


def _reshape(
    xp: Namespace, op_type: str, dtype: ir.DataType, arrays: list[Host], attributes: dict[str, Any]
) -> HostValue | None:
    shape = attributes.get("shape", arrays[1] if len(arrays) > 1 else None)
    if shape is None or not all(known(item) and item != 0 for item in shape):
        return None
    return _settled(arrays[0].reshape([int(item) for item in shape]), dtype)


def _reduction(
    xp: Namespace, op_type: str, dtype: ir.DataType, arrays: list[Host], attributes: dict[str, Any]
) -> HostValue | None:
    data, axes = arrays[0], _axes(arrays, attributes)
    if data.ndim != 1 or axes not in (None, (0,), (-1,)) or not data.size:
        return None
    total = np.empty(1, object)
    total[0] = reduce(lambda a, b: int_op(xp, _REDUCTIONS[op_type], a, b), list(data))
    return _settled(total if attributes.get("keepdims", 1) else total.reshape(()), dtype)


_Rule = Callable[[Namespace, str, ir.DataType, list[Any], dict[str, Any]], HostValue | None]
_RULES: dict[str, _Rule] = {
    **dict.fromkeys(_ARITHMETIC, _binary),
    **dict.fromkeys(_UNARY, _unary),
    **dict.fromkeys(_REDUCTIONS, _reduction),
    "Where": _where,
    "Cast": _cast,
    "Identity": _same,
    "Concat": _concat,
    "Gather": _gather,
    "Slice": _slice,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Reshape": _reshape,
}
