"""Isotonic regression: the nearest sequence, by squares, that never rises.

Source: Best and Chakravarti, "Active set algorithms for isotonic regression; a unifying framework", 1990: neighbouring pools of
which the later one's mean is greater become one.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.lowerings.axes import size
from onnxport.opset_maps.lowerings.loops import loop

_INT64 = ir.DataType.INT64


def decreasing(op: OpBuilder, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The sequences [rows, n] nearest to those of `x`, floating-point numbers, and the number of each element's pool, INT64.

    In each of 2 n steps a row's last two pools become one, where the later mean is greater, else the next element is a pool.
    Sums are those of the type of `x`, in that order, so that a tie is decided as it is where `x` was fitted before.
    """
    n = size(op, x, 1)
    places = op.Range(0, n, 1)
    zeros = op.Mul(op.cast(op.IsNaN(x), x.dtype or ir.DataType.FLOAT), 0.0)
    none = op.cast(op.reduce("ReduceSum", zeros, [1], keepdims=True), _INT64)
    # A pool's sum, its number of elements, and how many pools there are and elements were taken.
    states = [zeros, op.cast(zeros, _INT64), none, none]

    def step(b: OpBuilder, k: ir.Value, before: Sequence[ir.Value]) -> list[ir.Value]:
        sums, counts, pools, taken = before
        last, earlier = (b.Max(b.Sub(pools, i), b.const(0)) for i in (1, 2))

        def mean(at: ir.Value) -> ir.Value:
            number = b.Max(b.GatherElements(counts, at, axis=1), b.const(1))
            return b.Div(b.GatherElements(sums, at, axis=1), b.cast_like(number, x))

        merges = b.And(b.Greater(pools, 1), b.Greater(mean(last), mean(earlier)))
        pushes = b.And(b.Not(merges), b.Less(taken, n))
        at_last, at_earlier = b.Equal(places, last), b.Equal(places, earlier)
        at_next = b.And(pushes, b.Equal(places, pools))
        both = b.And(merges, at_earlier)
        gone = b.And(merges, at_last)
        element = b.GatherElements(x, b.Min(taken, b.Sub(n, 1)), axis=1)
        merged = b.Add(sums, b.GatherElements(sums, last, axis=1))
        joined = b.Add(counts, b.GatherElements(counts, last, axis=1))
        sums = b.Where(both, merged, b.Where(gone, b.const(0.0, x.dtype), b.Where(at_next, element, sums)))
        counts = b.Where(both, joined, b.Where(gone, b.const(0), b.Where(at_next, b.const(1), counts)))
        change = b.Sub(b.cast(pushes, _INT64), b.cast(merges, _INT64))
        return [sums, counts, b.Add(pools, change), b.Add(taken, b.cast(pushes, _INT64))]

    sums, counts, _, _ = loop(op, op.Mul(n, 2), states, step)
    means = op.Div(sums, op.cast_like(op.Max(counts, op.const(1)), x))
    ends = op.Unsqueeze(op.CumSum(counts, op.const(1)), op.axes(1))
    before = op.LessOrEqual(ends, op.Reshape(places, [1, -1, 1]))
    pool = op.reduce("ReduceSum", op.cast(before, _INT64), [2], keepdims=False)
    return op.GatherElements(means, op.Min(pool, op.Sub(n, 1)), axis=1), pool
