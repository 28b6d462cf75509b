"""Kernels of onnxruntime that give wrong results on whole numbers, of 64 bits mostly.

- Min, Max, Clip, Sign, ReduceMin and ReduceMax compare two numbers with the same upper 32 bits by the lower ones, taken for
  signed (a defect of Eigen's code for SSE): of 5 and 3,000,000,000 the least is 3,000,000,000. Less is right, and so are all six
  on numbers of 32 bits.
- ReduceSum, ReduceProd and Pow compute in float64, which rounds beyond 2**53; Pow of INT32 too, where what overflows becomes
  the least number.
- ReduceSum and ReduceProd of INT32 compute in float64 too, and give the type's limit where the result lies beyond it.
- Div and Mod of INT32 and INT64 end the process on the least number by -1: the processor traps on a quotient beyond the type.
"""

from __future__ import annotations

from functools import partial
from math import inf, log2

import numpy as np
import onnx_ir as ir

from onnxport.graph.builder import OpBuilder
from onnxport.graph.runtimes.casts import again, cast_row
from onnxport.graph.runtimes.defect import Defect, Written, dims, operand, optional, wholes

_INT64, _INT32 = ir.DataType.INT64, ir.DataType.INT32
_ONLY_INT64, _BOTH = frozenset({_INT64}), frozenset({_INT64, _INT32})
_HALF, _WHOLE = 1 << 31, 1 << 32
_EIGEN = "https://github.com/microsoft/onnxruntime/pull/32475"
# The bits of the magnitude of what is cast to int64 from these.
_WIDTHS: dict[ir.DataType | None, float] = {ir.DataType.BOOL: 1, ir.DataType.INT32: 31, ir.DataType.UINT32: 32}
_WIDTHS |= {ir.DataType[f"{sign}INT{width}"]: width for sign in ("", "U") for width in (8, 16)}
_SIZE = 15.5  # what a place or a size counts as: products of two are still sizes
# Operators whose results are places and sizes, and those that compute such from such.
_SIZES = frozenset(("ArgMax", "ArgMin", "NonZero", "Shape", "Size"))
_OF_SIZES = frozenset(
    "Add Clip Concat Div Expand Gather Identity Max Min Mod Mul Neg Range ReduceMax ReduceMin Reshape Slice Split Squeeze Sub "
    "Transpose Unsqueeze Where".split()
)
# How far back it is asked where a number comes from, and how many numbers of a constant are looked at.
_DEPTH, _LOOKED_AT = 6, 1 << 10


def extreme(op: OpBuilder, node: ir.Node) -> Written:
    """Max and Min by Less and Where, an operand after another."""
    result = operand(node, 0)
    for index in range(1, len(node.inputs)):
        other = operand(node, index)
        less = op.Less(result, other) if node.op_type == "Max" else op.Less(other, result)
        result = op.Where(less, other, result)
    return result


def clip(op: OpBuilder, node: ir.Node) -> Written:
    """Max with the lower bound and Min with the upper one."""
    x, low, high = operand(node, 0), optional(node, 1), optional(node, 2)
    x = x if low is None else op.Max(x, low)
    return x if high is None else op.Min(x, high)


def sign(op: OpBuilder, node: ir.Node) -> Written:
    """Sign of the number rounded to float64, which keeps it."""
    return op.cast(op.Sign(op.cast(operand(node, 0), ir.DataType.DOUBLE)), _INT64)


def power(op: OpBuilder, node: ir.Node) -> Written:
    """Products of squares."""
    x, left = operand(node, 0), _exponent(node)
    result: ir.Value | None = None
    while left:
        if left & 1:
            result = x if result is None else op.Mul(result, x)
        left >>= 1
        x = op.Mul(x, x) if left else x
    assert result is not None
    return result


def divided(op: OpBuilder, node: ir.Node) -> Written:
    """By -1 the negative, which wraps around, or the remainder 0: what a divisor of 1 gives of it."""
    a, b = operand(node, 0), operand(node, 1)
    negative = op.Equal(b, -1)
    one = op.Where(negative, op.const(1, b.dtype), b)
    if node.op_type == "Mod":
        return op.Mod(a, one)
    return op.Div(op.Where(negative, op.Neg(a), a), one)


def _traps(node: ir.Node) -> bool:
    """Whether the least number may be divided by -1, as far as the graph shows it."""
    if node.attributes.get_int("fmod", 0):
        return False
    dividend, divisor = operand(node, 0), operand(node, 1)
    if divisor.const_value is not None and not np.any(divisor.const_value.numpy() == -1):
        return False
    assert dividend.dtype is not None
    return bits(dividend) >= dividend.dtype.bitwidth - 1


def _exponent(node: ir.Node) -> int:
    """A positive whole exponent that the graph knows; else 0."""
    value = node.inputs[1]
    if value is None or value.const_value is None or value.const_value.size != 1:
        return 0
    number = float(value.const_value.numpy().reshape(()))
    return int(number) if number.is_integer() and number > 0 else 0


def reduction(op: OpBuilder, node: ir.Node) -> Written:
    """Upper and lower 32 bits on their own, of each of which the kernels are right."""
    x, *axes = node.inputs
    assert x is not None
    operator, keepdims = node.op_type, node.attributes.get_int("keepdims", 1)
    low = op.Mod(x, _WHOLE)
    high = op.Div(op.Sub(x, low), _WHOLE)

    def reduce(value: ir.Value, keep: int = keepdims) -> ir.Value:
        reduced = again(op, node, [value, *axes], keepdims=keep)
        assert isinstance(reduced, ir.Value)
        return reduced

    if operator == "ReduceSum":
        return op.Add(op.Mul(reduce(high), _WHOLE), reduce(low))
    most = reduce(high, 1)
    beyond = -_HALF if operator == "ReduceMax" else _HALF - 1
    total = reduce(op.Where(op.Equal(high, most), op.Sub(low, _HALF), beyond))
    return op.Add(op.Mul(most if keepdims else reduce(high), _WHOLE), op.Add(total, _HALF))


def product(op: OpBuilder, node: ir.Node) -> Written:
    """Multiplied into ones at one place, an axis after another."""
    x, axes = operand(node, 0), _known_axes(node)
    assert axes is not None
    for axis in axes:
        nowhere = op.Mul(x, 0)
        ones = op.Add(op.reduce("ReduceSum", nowhere, [axis], keepdims=True), 1)
        x = op.ScatterElements(ones, nowhere, x, axis=axis, reduction="mul")
    return x if node.attributes.get_int("keepdims", 1) or not axes else op.Squeeze(x, op.axes(*axes))


def _known_axes(node: ir.Node) -> list[int] | None:
    sizes, given = dims(node.inputs[0]), node.inputs[1] if len(node.inputs) > 1 else None
    if sizes is None:
        return None
    if given is not None:
        return None if given.const_value is None else [int(axis) for axis in given.const_value.numpy().ravel()]
    everything = [] if node.attributes.get_int("noop_with_empty_axes", 0) else list(range(len(sizes)))
    return wholes(node, "axes", everything)


def bits(value: ir.Value | None, depth: int = _DEPTH) -> float:
    """How many bits the magnitude of whole numbers takes at most, as far as the graph shows it; else infinity."""
    if value is None:
        return 0
    if value.const_value is not None:
        return _constant_bits(value.const_value)
    node = value.producer()
    if node is None or node.domain or not depth:
        return inf
    given = [item for item in node.inputs if item is not None]
    if node.op_type == "Cast":
        return _WIDTHS.get(given[0].dtype, bits(given[0], depth - 1)) if given[0].dtype else inf
    if node.op_type in _SIZES or (node.op_type == "TopK" and value is not node.outputs[0]):
        return _SIZE
    if node.op_type not in _OF_SIZES:
        return inf
    widths = [bits(item, depth - 1) for item in given if item.dtype == value.dtype]
    if node.op_type == "Mul":
        return sum(widths)
    return max(widths, default=inf) + (1 if node.op_type in ("Add", "Sub", "Neg") else 0)


def _constant_bits(constant: ir.TensorProtocol) -> float:
    if constant.size > _LOOKED_AT:
        return inf
    array = constant.numpy()
    if array.dtype.kind not in "iub":
        return inf
    return log2(max(float(np.abs(array.astype(np.float64)).max(initial=0)), 1))


def _is_large(node: ir.Node) -> bool:
    return any(bits(value) > 31 for value in node.inputs)


def _is_large_reduction(node: ir.Node) -> bool:
    return bits(node.inputs[0]) > (32 if node.op_type == "ReduceSum" else 31)  # 2**21 of them sum to 2**53


def _may_leave_int32(node: ir.Node) -> bool:
    return bits(node.inputs[0]) > 16  # 2**15 of them sum to 2**31


def _is_product(node: ir.Node) -> bool:
    return _known_axes(node) is not None and bits(node.inputs[0]) not in (_SIZE, 0, 1)


_WRONG = "onnxruntime takes the lower 32 bits for signed"
_ROUNDED = "onnxruntime computes in float64"
_CUT = "onnxruntime cuts it at the type's limits"

_halves = partial(
    Defect,
    write=reduction,
    instead="two halves of 32 bits",
    dtypes=_ONLY_INT64,
    operands=(0,),
    applies=_is_large_reduction,
)

WHOLE_NUMBERS = (
    Defect(
        ("Div", "Mod"),
        divided,
        "a divisor of 1 for -1",
        "onnxruntime ends the process on the least number by -1",
        _BOTH,
        operands=(0,),
        applies=_traps,
    ),
    Defect(("Max", "Min"), extreme, "Less and Where", _WRONG, _ONLY_INT64, applies=_is_large, link=_EIGEN),
    Defect(("Clip",), clip, "Less and Where", _WRONG, _ONLY_INT64, applies=_is_large, link=_EIGEN),
    Defect(("Sign",), sign, "Sign of float64", _WRONG, _ONLY_INT64, applies=_is_large, link=_EIGEN),
    _halves(("ReduceMax", "ReduceMin"), reason=_WRONG, link=_EIGEN),
    _halves(("ReduceSum",), reason=_ROUNDED),
    cast_row("ReduceSum", [_INT32], _INT64, _CUT, operands=(0,), applies=_may_leave_int32),
    Defect(("ReduceProd",), product, "ScatterElements", _ROUNDED, _BOTH, (0,), range(16, 27), _is_product),
    Defect(
        ("Pow",),
        power,
        "squares",
        _ROUNDED,
        _BOTH,
        operands=(0,),
        applies=lambda node: _exponent(node) > 0,
    ),
)
