"""Running products and logarithms of sums along an axis."""

from __future__ import annotations

import math
from collections.abc import Callable

import onnx_ir as ir

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.lowerings.arithmetic import logaddexp
from onnxport.opset_maps.lowerings.axes import rank
from onnxport.opset_maps.lowerings.loops import running, slice_like

_FLOAT = ir.DataType.FLOAT
Addition = Callable[[OpBuilder, ir.Value, ir.Value], ir.Value]


def cumprod(op: OpBuilder, x: ir.Value, axis: int) -> ir.Value:
    """CumProd from opset 26; before, and for whole numbers, a Scan."""
    dtype = x.dtype or _FLOAT
    if op.opset >= 26 and dtype.is_floating_point():
        return op.CumProd(x, op.const(axis))
    axis = axis % rank(x)
    one = slice_like(op, x, axis, 1, dtype)
    return running(op, x, axis, [one], lambda b, states, part: [b.Mul(states[0], part)], outputs=1)[0]


def logcumsumexp(op: OpBuilder, x: ir.Value, axis: int, add: Addition = logaddexp) -> ir.Value:
    """A Scan of `add`, the logarithm of a sum from the logarithms of its terms."""
    axis = axis % rank(x)
    start = slice_like(op, x, axis, -math.inf, x.dtype or _FLOAT)
    return running(op, x, axis, [start], lambda b, states, part: [add(b, states[0], part)], outputs=1)[0]
