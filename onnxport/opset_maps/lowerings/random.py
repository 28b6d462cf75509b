"""Random numbers, drawn when the graph runs: of a distribution, never the source's own numbers."""

from __future__ import annotations

import math
from typing import Any

import onnx_ir as ir

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.lowerings.special import ndtri

_FLOAT = ir.DataType.FLOAT
# The least number above 0 that the generators give: -log of it is finite.
LEAST = 2.0**-24


def _filled(op: OpBuilder, kind: str, size: ir.Value, dtype: ir.DataType, **attributes: Any) -> ir.Value:
    """RandomUniformLike or RandomNormalLike of a tensor of `size`; drawn in float32, which is as fine as frameworks draw."""
    static = op.constant(size)
    if static is not None:
        result = op.node(f"Random{kind}", shape=[int(item) for item in static], dtype=int(_FLOAT), **attributes)
        result.type, result.shape = ir.TensorType(_FLOAT), ir.Shape([int(item) for item in static])
    else:
        result = op.node(f"Random{kind}Like", op.Expand(op.const(0.0, _FLOAT), size), dtype=int(_FLOAT), **attributes)
    return op.cast(result, dtype)


def is_drawn(x: ir.Value) -> bool:
    """Whether `x` depends on random numbers."""
    seen, waiting = {x}, [x]
    while waiting:
        node = waiting.pop().producer()
        if node is None:
            continue
        if node.op_type.startswith("Random"):
            return True
        new = [item for item in node.inputs if item is not None and item not in seen]
        seen.update(new)
        waiting += new
    return False


def uniform(
    op: OpBuilder, size: ir.Value, dtype: ir.DataType = _FLOAT, low: float = 0.0, high: float = 1.0
) -> ir.Value:
    """Uniform numbers between `low` and `high`."""
    return _filled(op, "Uniform", size, dtype, low=low, high=high)


def normal(op: OpBuilder, size: ir.Value, dtype: ir.DataType = _FLOAT) -> ir.Value:
    """Standard normal numbers."""
    return _filled(op, "Normal", size, dtype)


def integers(op: OpBuilder, size: ir.Value, start: ir.Value, stop: ir.Value) -> ir.Value:
    """floor of uniform numbers over [start, stop), all in double so that large ranges keep their integers."""
    spread = op.Mul(uniform(op, size, ir.DataType.DOUBLE), op.Sub(stop, start))
    return op.Min(op.Floor(op.Add(spread, start)), op.Sub(stop, 1.0))


def permutation(op: OpBuilder, size: ir.Value) -> ir.Value:
    """The numbers below `size`, an INT64 vector of one element, in the order of uniform numbers."""
    return op.TopK(uniform(op, size), size)[1]


def gumbel(op: OpBuilder, size: ir.Value) -> ir.Value:
    """-log(-log(u)) of uniform u: scores with this noise have their maximum where a softmax of them would draw.

    Source: Kool et al., "Stochastic Beams and Where to Find Them", 2019, section 2.3.
    """
    return op.Neg(op.Log(op.Neg(op.Log(uniform(op, size, low=LEAST)))))


def categorical(op: OpBuilder, scores: ir.Value, count: ir.Value) -> ir.Value:
    """`count` (an INT64 vector of one element) draws with replacement along the last axis of logarithms of weights."""
    rank = scores.shape.rank() if scores.shape is not None else 1
    size = op.Concat(*[op.dim(scores, i) for i in range(rank - 1)], count, op.dim(scores, -1), axis=0)
    return op.ArgMax(op.Add(op.Unsqueeze(scores, op.axes(rank - 1)), gumbel(op, size)), axis=-1, keepdims=0)


def truncated_normal(op: OpBuilder, size: ir.Value, dtype: ir.DataType = _FLOAT) -> ir.Value:
    """Standard normal numbers within two deviations, by the inverse of the distribution function in double."""
    edge = 0.5 * math.erfc(math.sqrt(2.0))  # the probability beyond two deviations on one side
    inner = op.cast(uniform(op, size, low=edge, high=1 - edge), ir.DataType.DOUBLE)
    return op.cast(op.Clip(ndtri(op, inner), -2.0, 2.0), dtype)
