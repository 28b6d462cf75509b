"""Connectionist temporal classification decoded by a search of the best prefixes (Graves and Jaitly, 2014, algorithm 1).

All beams of all sequences go side by side. A beam is a prefix of labels with the logarithms of two probabilities: that it ends in
a blank, and that it does not. In each step it stays, or grows by one label; a prefix that another beam has already is not grown
once more, but gives that beam what it would. As in TensorFlow, beams grow one after the other, the best first, and one that falls
out of the best of them before its own parent grows does not grow any more (`_growing`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.lowerings.ctc import log_sum_exp
from onnxport.opset_maps.lowerings.loops import loop

_DOUBLE, _INT = ir.DataType.DOUBLE, ir.DataType.INT64


def beams(op: OpBuilder, scores: ir.Value, lengths: ir.Value, width: int, top: int) -> tuple[ir.Value, ir.Value]:
    """The best prefixes of sequences, INT64 [batch, top, time] with -1 behind the last label, and their logarithms [batch, top].

    Args:
        op: the builder.
        scores: [time, batch, classes], unnormalized logarithms; the last class is the blank.
        lengths: how many steps of each sequence count [batch], INT64.
        width: how many prefixes are kept.
        top: how many are wanted.
    """
    probabilities = op.LogSoftmax(op.cast(scores, _DOUBLE), axis=-1)
    time, batch = op.dim(scores, 0), op.dim(scores, 1)
    wide = op.Concat(batch, op.const([width]), axis=0)
    nothing = op.Expand(op.const(-np.inf, _DOUBLE), wide)
    first = np.where(np.arange(width) == 0, 0.0, -np.inf)
    labels = op.Expand(op.const(np.int64(-1)), op.Concat(wide, time, axis=0))
    none = op.Expand(op.const(np.int64(0)), wide)
    search = _Search(probabilities, lengths, width)
    start = [labels, none, op.Expand(op.const(first), wide), nothing]
    labels, _, blank, other = loop(op, op.Squeeze(time, op.axes(0)), start, search.step)
    total, best = op.TopK(log_sum_exp(op, blank, other), op.const([top]), axis=1)
    return _taken(op, labels, best), total


def _taken(op: OpBuilder, rows: ir.Value, places: ir.Value) -> ir.Value:
    """Rows [batch, beams, time] at places [batch, k]."""
    column = op.Unsqueeze(places, op.axes(2))
    return op.GatherElements(rows, op.Expand(column, op.Concat(op.shape(places), op.dim(rows, 2), axis=0)), axis=1)


class _Search:
    """What does not change from step to step."""

    def __init__(self, probabilities: ir.Value, lengths: ir.Value, width: int) -> None:
        self.probabilities, self.lengths, self.width = probabilities, lengths, width

    def step(self, op: OpBuilder, k: ir.Value, states: Sequence[ir.Value]) -> list[ir.Value]:
        """The beams after one more step: labels [batch, beams, time], how many, ending in a blank, ending in a label."""
        labels, count, blank, other = states
        now = op.Gather(self.probabilities, k, axis=0)
        emitted, silent = op.Slice(now, [0], [-1], [1]), op.Slice(now, [-1], [np.iinfo(np.int64).max], [1])
        classes = op.dim(emitted, 1)
        place = op.Range(0, op.Squeeze(op.dim(labels, 2), op.axes(0)), 1)
        at_end = op.Equal(place, op.Unsqueeze(op.Sub(count, 1), op.axes(2)))
        last = op.reduce("ReduceMax", op.Where(at_end, labels, -1), [2], keepdims=False)
        total = log_sum_exp(op, blank, other)
        parent = self._parents(op, labels, op.Where(at_end, -1, labels), total, count)

        stays_blank = op.Add(total, silent)
        stays_other = op.Add(
            log_sum_exp(op, other, self._from_parents(op, parent, last, blank, total)),
            op.GatherElements(emitted, op.Max(last, 0), axis=1),
        )
        stays = log_sum_exp(op, stays_blank, stays_other)
        grown = self._grown(op, parent, last, blank, total, emitted)
        going = op.Unsqueeze(self._growing(op, parent, last, stays, grown), op.axes(2))
        grown = op.Where(going, grown, op.const(-np.inf, _DOUBLE))

        flat = op.Concat(op.dim(count, 0), op.const([-1]), axis=0)
        best, index = op.TopK(op.Concat(stays, op.Reshape(grown, flat), axis=1), op.const([self.width]), axis=1)
        kept = op.Less(index, self.width)
        from_grown = op.Sub(index, self.width)
        source = op.Where(kept, index, op.Div(from_grown, classes))
        label = op.Mod(from_grown, classes)

        def of_source(x: ir.Value) -> ir.Value:
            return op.GatherElements(x, source, axis=1)

        before = of_source(count)
        here = op.And(op.Equal(place, op.Unsqueeze(before, op.axes(2))), op.Not(op.Unsqueeze(kept, op.axes(2))))
        following = [
            op.Where(here, op.Unsqueeze(label, op.axes(2)), _taken(op, labels, source)),
            op.Where(kept, before, op.Add(before, 1)),
            op.Where(kept, of_source(stays_blank), op.const(-np.inf, _DOUBLE)),
            op.Where(kept, of_source(stays_other), best),
        ]
        counts = op.Less(k, self.lengths)
        return [
            op.Where(op.Unsqueeze(counts, op.axes(*range(1, 3 if i == 0 else 2))), new, old)
            for i, (new, old) in enumerate(zip(following, states, strict=True))
        ]

    def _parents(
        self, op: OpBuilder, labels: ir.Value, shorter: ir.Value, total: ir.Value, count: ir.Value
    ) -> ir.Value:
        """Whether a beam is another one without its last label, [batch, beam, other]."""
        same = op.Equal(op.Unsqueeze(shorter, op.axes(2)), op.Unsqueeze(labels, op.axes(1)))
        differ = op.reduce("ReduceMax", op.cast(op.Not(same), ir.DataType.INT32), [3], keepdims=False)
        there = op.Greater(total, op.const(-np.inf, _DOUBLE))
        child = op.And(there, op.Greater(count, 0))
        both = op.And(op.Unsqueeze(child, op.axes(2)), op.Unsqueeze(there, op.axes(1)))
        return op.And(both, op.Equal(differ, op.const(0, ir.DataType.INT32)))

    def _from_parents(
        self, op: OpBuilder, parent: ir.Value, last: ir.Value, blank: ir.Value, total: ir.Value
    ) -> ir.Value:
        """What a beam's parent, which is a beam too, gives it: of the same last label only what ends in a blank."""
        again = op.Equal(op.Unsqueeze(last, op.axes(2)), op.Unsqueeze(last, op.axes(1)))
        given = op.Where(again, op.Unsqueeze(blank, op.axes(1)), op.Unsqueeze(total, op.axes(1)))
        given = op.Where(parent, given, op.const(-np.inf, _DOUBLE))
        return op.reduce("ReduceMax", given, [2], keepdims=False)

    def _grown(
        self, op: OpBuilder, parent: ir.Value, last: ir.Value, blank: ir.Value, total: ir.Value, emitted: ir.Value
    ) -> ir.Value:
        """Beams with one more label [batch, beam, label], -inf where a beam has that prefix already."""
        classes = op.Range(0, op.Squeeze(op.dim(emitted, 1), op.axes(0)), 1)
        ends = op.Equal(op.Unsqueeze(last, op.axes(2)), classes)
        before = op.Where(ends, op.Unsqueeze(blank, op.axes(2)), op.Unsqueeze(total, op.axes(2)))
        children = op.Transpose(op.cast(parent, ir.DataType.FLOAT), perm=[0, 2, 1])
        taken = op.Greater(op.MatMul(children, op.cast(ends, ir.DataType.FLOAT)), 0.0)
        return op.Where(taken, op.const(-np.inf, _DOUBLE), op.Add(before, op.Unsqueeze(emitted, op.axes(1))))

    def _growing(self, op: OpBuilder, parent: ir.Value, last: ir.Value, stays: ir.Value, grown: ir.Value) -> ir.Value:
        """Which beams grow [batch, beam].

        One does not that has fallen behind `width` others, those that stay and those that grew before the turn of its parent's
        growth by its own label, while the parent comes first and grows itself. This is asked again until it is settled.
        """
        real = ir.DataType.FLOAT
        number = op.const(np.arange(self.width))
        family = op.cast(parent, _INT)
        place = op.ArgMax(family, axis=2, keepdims=0)
        known = op.Greater(op.reduce("ReduceMax", family, [2], keepdims=False), 0)
        eligible = op.And(known, op.Less(place, number))
        own = op.Unsqueeze(stays, op.axes(2))
        above = op.reduce(
            "ReduceSum", op.cast(op.Greater(op.Unsqueeze(stays, op.axes(1)), own), real), [2], keepdims=False
        )
        classes = op.Range(0, op.Squeeze(op.dim(grown, 2), op.axes(0)), 1)
        turn = op.Add(op.Mul(op.Unsqueeze(number, op.axes(1)), op.dim(grown, 2)), classes)
        until = op.Add(op.Mul(place, op.dim(grown, 2)), last)
        before = op.Less(turn, op.Unsqueeze(until, op.axes(2, 3)))
        better = op.Greater(op.Unsqueeze(grown, op.axes(1)), op.Unsqueeze(own, op.axes(3)))
        ahead = op.reduce("ReduceSum", op.cast(op.And(before, better), real), [3], keepdims=False)

        def again(b: OpBuilder) -> list[ir.Value]:
            b.input("number", _INT, [])
            b.input("going", ir.DataType.BOOL, [])
            growing = b.input("growing", real, [None, self.width])
            passed = b.Squeeze(b.MatMul(ahead, b.Unsqueeze(growing, b.axes(2))), b.axes(2))
            behind = b.GreaterOrEqual(b.Add(above, passed), float(self.width))
            heard = b.Greater(b.GatherElements(growing, place, axis=1), 0.0)
            settled = b.cast(b.Not(b.And(b.And(eligible, heard), behind)), real)
            changed = b.Greater(b.ReduceMax(b.Abs(b.Sub(settled, growing)), keepdims=0), 0.0)
            return [changed, settled]

        start = op.cast(op.GreaterOrEqual(place, 0), real)
        result = op.Loop(None, True, start, body=op.body(again), outputs=1)
        return op.Greater(result, 0.0)
