"""What onnxruntime's kernels say wrongly of int64, said otherwise.

- Min, Max, Clip, Sign, ReduceMin and ReduceMax compare two numbers with the same upper 32 bits by the lower ones, taken for
  signed (a defect of Eigen's code for SSE, onnxruntime's pull request 32475): of 5 and 3,000,000,000 the least is 3,000,000,000.
  Less is right, and so are all six on numbers of 32 bits.
- ReduceSum, ReduceProd, Pow and Mod like C's fmod compute in float64, which rounds beyond 2**53; Pow of INT32 too, where what
  overflows becomes the least number.

Sizes and indices are less than that, so that what computes with those alone need not ask here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx_ir as ir

from onnxport.graph.builder import OpBuilder

_INT64 = ir.DataType.INT64
_HALF, _WHOLE = 1 << 31, 1 << 32
# Integers and booleans of no more than 32 bits: sums of those cast to int64 do not reach 2**53.
_NARROW = frozenset(
    getattr(ir.DataType, name) for name in ("BOOL", "INT8", "UINT8", "INT16", "UINT16", "INT32", "UINT32")
)
# A reduction over axes that are settled: the operator, what is reduced, and whether the axes stay.
Reduction = Callable[[str, ir.Value, bool], ir.Value]


def extreme(op: OpBuilder, operator: str, a: ir.Value, b: ir.Value) -> ir.Value:
    """Max or Min of two operands of one type, broadcast."""
    if a.dtype != _INT64:
        return op.node(operator, a, b)
    return op.Where(op.Less(a, b) if operator == "Max" else op.Less(b, a), b, a)


def clipped(op: OpBuilder, x: ir.Value, low: ir.Value | None, high: ir.Value | None) -> ir.Value:
    """Clip; the bounds are scalars of the type of x.

    Where a bound of floating-point numbers is left out runtimes clip infinity to the type's greatest number; a Clip of a
    float64 Relu onnxruntime (1.31) does not load.
    """
    floating = x.dtype is not None and x.dtype.is_floating_point()
    if x.dtype != _INT64 and not (floating and _is_misread(x, low, high)):
        return op.Clip(x, low, high)
    x = x if low is None else extreme(op, "Max", x, low)
    return x if high is None else extreme(op, "Min", x, high)


def _is_misread(x: ir.Value, low: ir.Value | None, high: ir.Value | None) -> bool:
    """Whether runtimes take a Clip of floating-point numbers wrongly."""
    node = x.producer()
    return (
        low is None or high is None or (x.dtype == ir.DataType.DOUBLE and node is not None and node.op_type == "Relu")
    )


def sign(op: OpBuilder, x: ir.Value) -> ir.Value:
    """Sign of integers: rounded to float64 a number keeps it."""
    return op.Sign(x) if x.dtype != _INT64 else op.cast(op.Sign(op.cast(x, ir.DataType.DOUBLE)), _INT64)


def power(op: OpBuilder, x: ir.Value, exponent: ir.Value) -> ir.Value:
    """Pow of operands of one type: with an exponent that the graph knows and that is positive by squares."""
    known = op.constant(exponent)
    if (
        x.dtype not in (_INT64, ir.DataType.INT32)
        or known is None
        or known.size != 1
        or (left := int(known.ravel()[0])) < 1
    ):
        return op.Pow(x, exponent)
    found = None
    while left:
        if left & 1:
            found = x if found is None else op.Mul(found, x)
        left >>= 1
        x = op.Mul(x, x) if left else x
    assert found is not None
    return found


def reduced(op: OpBuilder, operator: str, x: ir.Value, *, keepdims: bool, reduce: Reduction) -> ir.Value:
    """A reduction: of int64 that can be large by the upper and lower 32 bits, each of which the kernels are right about."""
    if x.dtype != _INT64 or operator not in ("ReduceMax", "ReduceMin", "ReduceSum") or _is_narrow(x):
        return reduce(operator, x, keepdims)
    low = op.Mod(x, _WHOLE)
    high = op.Div(op.Sub(x, low), _WHOLE)
    if operator == "ReduceSum":
        return op.Add(op.Mul(reduce(operator, high, keepdims), _WHOLE), reduce(operator, low, keepdims))
    most = reduce(operator, high, True)
    beyond = -_HALF if operator == "ReduceMax" else _HALF - 1
    found = reduce(operator, op.Where(op.Equal(high, most), op.Sub(low, _HALF), beyond), keepdims)
    most = most if keepdims else reduce(operator, most, False)
    return op.Add(op.Mul(most, _WHOLE), op.Add(found, _HALF))


def product(op: OpBuilder, x: ir.Value, axes: Sequence[int], *, keepdims: bool) -> ir.Value:
    """ReduceProd: of int64, from opset 16 on, by multiplying into ones at one place."""
    if x.dtype != _INT64 or op.opset < 16:
        return op.reduce("ReduceProd", x, axes, keepdims=keepdims)
    for axis in axes:
        nowhere = op.Mul(x, 0)
        ones = op.Add(op.reduce("ReduceSum", nowhere, [axis], keepdims=True), 1)
        x = op.ScatterElements(ones, nowhere, x, axis=axis, reduction="mul")
    return x if keepdims or not axes else op.Squeeze(x, op.axes(*axes))


def _is_narrow(x: ir.Value) -> bool:
    """Whether x was a number of 32 bits before it was cast."""
    node = x.producer()
    return (
        node is not None and node.op_type == "Cast" and node.inputs[0] is not None and node.inputs[0].dtype in _NARROW
    )


# The functions for operators of the shared table.
BY_OPERATOR: dict[str, Callable[..., ir.Value]] = {
    "Max": lambda op, a, b: extreme(op, "Max", a, b),
    "Min": lambda op, a, b: extreme(op, "Min", a, b),
    "Sign": sign,
    "Pow": power,
}
