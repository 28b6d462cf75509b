"""Boxes that overlap a better one suppressed, or their scores lessened (Bodla et al., "Soft-NMS", 2017)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.lowerings.axes import size
from onnxport.opset_maps.lowerings.loops import loop

_FLOAT, _INT64 = ir.DataType.FLOAT, ir.DataType.INT64
# similarity(builder, i) gives how much each of the boxes [n + 1] resembles box i, an INT64 scalar; the last box is a spare one,
# so that there is always one to look at.
Similarity = Callable[[OpBuilder, ir.Value], ir.Value]


@dataclass(frozen=True)
class Kept:
    """What stays.

    Attributes:
        places: the boxes' numbers, best first, INT64 [count]; behind `valid` zeros.
        scores: their scores when they were taken; behind `valid` zeros.
        valid: how many there are, an INT64 vector of one element.
    """

    places: ir.Value
    scores: ir.Value
    valid: ir.Value


def overlap_of(op: OpBuilder, boxes: ir.Value) -> Similarity:
    """The quotient of intersection and union with one box, of corners [n, 4] in any order; 0 of a box without an area."""
    corners = op.Pad(op.cast(boxes, _FLOAT), op.const([0, 0, 1, 0]))
    a, b, c, d = (op.Gather(corners, i, axis=1) for i in range(4))
    top, left, bottom, right = op.Min(a, c), op.Min(b, d), op.Max(a, c), op.Max(b, d)
    area = op.Mul(op.Sub(bottom, top), op.Sub(right, left))

    def similarity(o: OpBuilder, i: ir.Value) -> ir.Value:
        top_i, left_i, bottom_i, right_i, area_i = (
            o.Gather(item, i, axis=0) for item in (top, left, bottom, right, area)
        )
        height = o.Max(o.Sub(o.Min(bottom, bottom_i), o.Max(top, top_i)), 0.0)
        width = o.Max(o.Sub(o.Min(right, right_i), o.Max(left, left_i)), 0.0)
        shared = o.Mul(height, width)
        empty = o.Or(o.LessOrEqual(area, 0.0), o.LessOrEqual(area_i, 0.0))
        return o.Where(empty, o.const(0.0), o.Div(shared, o.Sub(o.Add(area, area_i), shared)))

    return similarity


def corner_overlap_of(op: OpBuilder, boxes: ir.Value) -> Similarity:
    """The quotient of intersection and union with one box, of least and greatest corners [n, 4] in the boxes' own type.

    NaN of two boxes without an area.
    """
    corners = op.Pad(boxes, op.const([0, 0, 1, 0]))
    left, top, right, bottom = (op.Gather(corners, i, axis=1) for i in range(4))
    area = op.Mul(op.Sub(right, left), op.Sub(bottom, top))
    none = op.const(0.0, boxes.dtype)

    def similarity(o: OpBuilder, i: ir.Value) -> ir.Value:
        one = [o.Gather(item, i, axis=0) for item in (left, top, right, bottom, area)]
        width = o.Max(o.Sub(o.Min(right, one[2]), o.Max(left, one[0])), none)
        height = o.Max(o.Sub(o.Min(bottom, one[3]), o.Max(top, one[1])), none)
        shared = o.Mul(width, height)
        return o.Div(shared, o.Sub(o.Add(one[4], area), shared))

    return similarity


def selected(op: OpBuilder, boxes: ir.Value, scores: ir.Value, threshold: float) -> ir.Value:
    """The numbers of the boxes that stay, best first, by NonMaxSuppression; least and greatest corners and scores of float32."""
    every = op.const([np.iinfo(np.int64).max])
    places = op.NonMaxSuppression(
        _proper(op, boxes), op.Unsqueeze(scores, op.axes(0, 1)), every, op.const(np.float32(threshold))
    )
    return op.Gather(places, 2, axis=1)


def _proper(op: OpBuilder, boxes: ir.Value) -> ir.Value:
    """Boxes [1, n, 4] for NonMaxSuppression, which sorts a box's corners.

    A box with its corners exchanged overlaps none here, as one without an area there.
    """
    left, top, right, bottom = (op.Gather(boxes, i, axis=1) for i in range(4))
    exchanged = op.Unsqueeze(op.Or(op.Less(right, left), op.Less(bottom, top)), op.axes(1))
    return op.Unsqueeze(op.Where(exchanged, op.const(0.0), boxes), op.axes(0))


def selected_by_class(
    op: OpBuilder, boxes: ir.Value, scores: ir.Value, classes: ir.Value, threshold: float
) -> ir.Value:
    """As `selected`, where boxes suppress those of their own class alone; classes are numbers [n]."""
    spare = op.Concat(classes, op.cast_like(op.const([0]), classes), axis=0)  # so that there is one to look at
    _, _, dense, _ = op.Unique(spare, outputs=4)
    own = op.Slice(dense, op.const([0]), op.const([-1]))
    numbers = op.Range(0, op.Add(op.ReduceMax(dense, keepdims=0), 1), 1)
    least = op.const(np.float32(np.finfo(np.float32).min))
    mine = op.Equal(op.Unsqueeze(numbers, op.axes(1)), op.Unsqueeze(own, op.axes(0)))
    of_class = op.Unsqueeze(op.Where(mine, scores, op.const(-np.inf, _FLOAT)), op.axes(0))
    every, limit = op.const([np.iinfo(np.int64).max]), op.const(np.float32(threshold))
    places = op.Gather(op.NonMaxSuppression(_proper(op, boxes), of_class, every, limit, least), 2, axis=1)
    kept, _ = op.TopK(places, op.shape(places), axis=0, largest=0, outputs=2)  # of equal scores the first box is first
    _, order = op.TopK(op.Gather(scores, kept, axis=0), op.shape(kept), axis=0, outputs=2)
    return op.Gather(kept, order, axis=0)


def greedy(
    op: OpBuilder,
    scores: ir.Value,
    similarity: Similarity,
    count: ir.Value,
    threshold: ir.Value,
    least: ir.Value,
    sigma: ir.Value | None = None,
) -> Kept:
    """The best box again and again, each time without what it suppresses.

    Args:
        op: the builder.
        scores: floating-point numbers [n]; of equal ones the first is taken first.
        similarity: as above.
        count: how many boxes are kept at most, an INT64 vector of one element.
        threshold: what is more similar to a kept box than this is suppressed, a scalar of the scores' type.
        least: what does not score more than this is never taken, a scalar of the scores' type.
        sigma: where it is positive, scores are multiplied by exp(-similarity^2 / (2 sigma)) instead; a scalar of their type.
    """
    never = op.const(-math.inf, scores.dtype)
    start = op.Where(op.Greater(scores, least), scores, never)
    start = op.Concat(start, op.Reshape(never, [1]), axis=0)
    numbers = op.Range(0, size(op, start, 0), 1)
    places = op.Expand(op.const(0), count)
    turns = op.Range(0, op.Squeeze(count, op.axes(0)), 1)
    soft = None if sigma is None else op.Greater(sigma, op.const(0.0, scores.dtype))

    def step(b: OpBuilder, k: ir.Value, states: Sequence[ir.Value]) -> list[ir.Value]:
        rest, taken, values, valid = states
        best = b.ArgMax(rest, axis=0, keepdims=0)
        score = b.Gather(rest, best, axis=0)
        exists = b.Greater(score, never)
        alike = b.cast_like(similarity(b, best), scores)
        after = b.Where(b.Greater(alike, threshold), never, rest)
        if sigma is not None and soft is not None:
            factor = b.Exp(b.Mul(b.Mul(b.Div(b.const(-0.5, scores.dtype), sigma), alike), alike))
            lessened = b.Mul(rest, factor)
            lessened = b.Where(b.Greater(lessened, least), lessened, never)
            after = b.Where(soft, b.Where(b.Greater(rest, never), lessened, never), after)
        here = b.And(b.Equal(turns, k), exists)
        return [
            b.Where(b.Equal(numbers, best), never, after),
            b.Where(here, best, taken),
            b.Where(here, score, values),
            b.Add(valid, b.cast(b.Reshape(exists, [1]), _INT64)),
        ]

    nothing = op.Expand(op.const(0.0, scores.dtype), count)
    states = [start, places, nothing, op.const([0])]
    _, taken, values, valid = loop(op, size(op, turns, 0), states, step)
    return Kept(taken, values, valid)
