"""Terms of several words that follow each other in a row."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
import onnx_ir as ir
import tensorflow as tf

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import Case, case
from onnxport.opset_maps.lowerings import cutting
from onnxport.opset_maps.lowerings.scatter import scatter_elements
from onnxport.opset_maps.maps import tensorflow
from onnxport.opset_maps.to_onnx.tensorflow.operands import int64

_INT = ir.DataType.INT64


class _Rows:
    """Words of ragged rows, and what pads them.

    Attributes:
        lengths: how many words each row has.
        starts: where it begins.
        words: the words of all rows, then the one that pads on the left, then the one on the right.
        total: how many words all rows have, a vector of one element.
        separator: what stands between the words of a term.
    """

    def __init__(self, op: OpBuilder, data: ir.Value, splits: ir.Value, pads: tuple[str, str], separator: str) -> None:
        ends = op.Slice(splits, [1], [np.iinfo(np.int64).max], [0])
        self.starts = op.Slice(splits, [0], [-1], [0])
        self.lengths = op.Sub(ends, self.starts)
        self.words = op.Concat(data, op.const(np.array(pads, object)), axis=0)
        self.total = op.shape(data)
        self.separator = op.const(np.array(separator, object))

    def word(self, op: OpBuilder, rows: ir.Value, place: ir.Value) -> ir.Value:
        """The words of rows at some places, or what pads where a place is before or behind the row."""
        length, start = (op.Gather(item, rows, axis=0) for item in (self.lengths, self.starts))
        behind = op.Where(op.GreaterOrEqual(place, length), op.Add(self.total, 1), op.Add(start, place))
        return op.Gather(self.words, op.Where(op.Less(place, 0), self.total, behind), axis=0)

    def terms(self, op: OpBuilder, counts: ir.Value, width: int, padding: int) -> tuple[ir.Value, ir.Value, ir.Value]:
        """The terms of one width, row by row; the row of each, and its number in the row."""
        ends = op.CumSum(counts, op.const(np.int64(0)))
        every = op.reduce("ReduceSum", counts, [0], keepdims=False)
        number = op.Range(0, every, 1)
        passed = op.LessOrEqual(op.Unsqueeze(ends, op.axes(0)), op.Unsqueeze(number, op.axes(1)))
        rows = op.reduce("ReduceSum", op.cast(passed, _INT), [1], keepdims=False)
        within = op.Sub(number, op.Gather(op.Sub(ends, counts), rows, axis=0))
        first = op.Sub(within, padding)
        words = [self.word(op, rows, op.Add(first, step)) for step in range(width)]
        return reduce(lambda a, b: op.StringConcat(op.StringConcat(a, self.separator), b), words), rows, within

    def whole(self, op: OpBuilder, rows: ir.Value, longest: int, padding: int) -> ir.Value:
        """The whole row as one term, of rows that have `longest` words at most, padded on both sides."""
        length = op.Gather(self.lengths, rows, axis=0)
        text = None
        for step in range(-padding, longest + padding):
            word = self.word(op, rows, op.const(step))
            longer = word if text is None else op.StringConcat(op.StringConcat(text, self.separator), word)
            there = op.Less(op.const(step), op.Add(length, padding))
            text = op.Where(there, longer, cutting.blank(op) if text is None else text)
        return text  # type: ignore[return-value]


def _grams(width: Any, **options: Any) -> Case:
    def run(x: Any) -> Any:
        rows = tf.RaggedTensor.from_row_splits(x, tf.constant([0, 3, 3, 4, 6], tf.int64))
        result = tf.strings.ngrams(rows, width, **options)
        return result.values, result.row_splits

    return case(run, np.array(["a", "b", "c", "d", "e", "f"], object))


@tensorflow.lower(
    "StringNGrams",
    min_opset=20,
    cases=[
        _grams(2),
        _grams((1, 3), separator="-"),
        _grams((2, 1)),
        _grams(3, pad_values=("<", ">")),
        _grams((4, 2), pad_values="|", padding_width=1),
        _grams(3, preserve_short_sequences=True),
        _grams((6, 5), pad_values=("<", ">"), padding_width=1, preserve_short_sequences=True),
    ],
)
def string_ngrams(
    op: OpBuilder,
    data: ir.Value,
    data_splits: ir.Value,
    *,
    separator: str,
    ngram_widths: Sequence[int],
    left_pad: str = "",
    right_pad: str = "",
    pad_width: int = 0,
    preserve_short_sequences: bool = False,
) -> tuple[ir.Value, ir.Value]:
    """Terms of several words of ragged rows, in each row those of the first width, then those of the next."""
    table = _Rows(op, data, int64(op, data_splits), (left_pad, right_pad), separator)
    paddings = [width - 1 if pad_width < 0 else min(pad_width, width - 1) for width in ngram_widths]
    counts = [
        op.Max(op.Add(table.lengths, 2 * padding - width + 1), 0)
        for width, padding in zip(ngram_widths, paddings, strict=True)
    ]
    whole = reduce(op.Add, counts)
    short = op.And(op.Equal(whole, 0), op.Greater(table.lengths, 0))
    total = op.Add(whole, op.cast(short, _INT)) if preserve_short_sequences else whole
    row_ends = op.CumSum(total, op.const(np.int64(0)))
    offsets, pieces, targets = op.Sub(row_ends, total), [], []
    for width, padding, count in zip(ngram_widths, paddings, counts, strict=True):
        term, rows, within = table.terms(op, count, width, padding)
        pieces.append(term)
        targets.append(op.Add(op.Gather(offsets, rows, axis=0), within))
        offsets = op.Add(offsets, count)
    if preserve_short_sequences and (longest := min(ngram_widths) - 1 - 2 * max(pad_width, 0)) > 0:
        if pad_width < 0:
            raise UnsupportedOperator("StringNGrams: short rows that are kept and padded to any width have no entry")
        rows = op.Squeeze(op.NonZero(short), op.axes(0))
        pieces.append(table.whole(op, rows, longest, pad_width))
        targets.append(op.Gather(offsets, rows, axis=0))
    terms, order = (op.Concat(*items, axis=0) if len(items) > 1 else items[0] for items in (pieces, targets))
    result = scatter_elements(op, op.Expand(op.const(np.array("", object)), op.shape(order)), order, terms, 0)
    return result, op.cast_like(op.Concat(op.const([0]), row_ends, axis=0), data_splits)
