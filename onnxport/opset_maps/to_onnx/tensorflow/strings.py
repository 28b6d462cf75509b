"""Strings replaced, trimmed and joined."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
import onnx_ir as ir
import tensorflow as tf

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import Case, case
from onnxport.opset_maps.lowerings import cutting, groups, strings
from onnxport.opset_maps.lowerings.patterns import pattern_of
from onnxport.opset_maps.lowerings.scatter import scatter_elements
from onnxport.opset_maps.maps import tensorflow
from onnxport.opset_maps.to_onnx.tensorflow.operands import int64, rank

_TEXTS = np.array(
    [["To be, or  not!", "<br />a<br/>b<br />"], ["", "\u00e9t\u00e9 [2]\t\n"], ["<br /><br />", "..x.."]], object
)
_PUNCTUATION = r"[!\"#$%&()\*\+,-\./:;<=>?@\[\\\]^_`{|}~']"
_INT = ir.DataType.INT64


def _replacing(expression: str, text: str) -> Case:
    return case(lambda x: tf.strings.regex_replace(x, expression, text), _TEXTS)


@tensorflow.lower(
    "StaticRegexReplace",
    "RegexReplace",
    min_opset=20,
    cases=[
        _replacing(_PUNCTUATION, ""),
        _replacing("<br />", " "),
        _replacing(r"\s+", "_"),
        _replacing("[a-z]", "xy"),
        _replacing("[^a-zA-Z ]", ""),
        _replacing(r"[^\w]+", "-"),
        _replacing("[[:punct:]]+", "."),
        _replacing("[^a-z ]", " "),
        _replacing("[.?!,]", r" \0 "),
        _replacing("([^a-z ]+)", r"<\1>"),
        _replacing("[ab]", r"\0\\\0"),
        case(lambda x: tf.strings.regex_replace(x, "[a-o]", "-", replace_global=False), _TEXTS),
        case(lambda x: tf.raw_ops.RegexReplace(input=x, pattern="o", rewrite="0"), _TEXTS),
    ],
)
def regex_replace(op: OpBuilder, input: ir.Value, *given: ir.Value, **attributes: Any) -> ir.Value:
    """Matches of the simpler expressions, by cutting the strings at them."""
    known = [op.constant(item) for item in given]
    if any(item is None for item in known):
        raise UnsupportedOperator("RegexReplace: the expression or the new text is computed when the model runs")
    expression, text = [str(item.reshape(())) for item in known if item is not None] or [
        attributes["pattern"],
        attributes["rewrite"],
    ]
    pattern, texts = pattern_of(expression), _texts(text, grouped="(" in expression)
    every = attributes.get("replace_global", True)
    if every and len(texts) == 1:
        return strings.each(op, input, lambda x: strings.substituted(op, x, pattern, texts[0]))
    return strings.each(op, input, lambda x: strings.around(op, x, pattern, texts, first_only=not every))


def _texts(rewrite: str, *, grouped: bool) -> list[str]:
    """What stands around references to the whole match in a new text."""
    pieces = re.split(r"\\(.)", rewrite, flags=re.DOTALL)
    texts = [pieces[0]]
    for kind, behind in zip(pieces[1::2], pieces[2::2], strict=True):
        if kind == "\\":
            texts[-1] += "\\" + behind
        elif kind == "0" or (kind == "1" and grouped):
            texts.append(behind)
        else:
            raise UnsupportedOperator(f"RegexReplace: the new text {rewrite!r} refers to a part of the match")
    return texts


@tensorflow.lower(
    "StringStrip",
    min_opset=20,
    cases=[case(lambda x: tf.strings.strip(x), np.array([["  To be ", "\t\n"], ["a \t b\r\n", ""]], object))],
)
def string_strip(op: OpBuilder, input: ir.Value) -> ir.Value:
    """Without the spaces at both ends, those of C's isspace."""
    return strings.each(op, input, lambda x: strings.without_ends(op, x))


_WORDS = np.array([["a", "b", "c"], ["d", "", "f"]], object)


@tensorflow.lower(
    "ReduceJoin",
    min_opset=20,
    cases=[
        case(lambda x: tf.strings.reduce_join(x, 1, separator="-"), _WORDS, dynamic=True),
        case(lambda x: tf.strings.reduce_join(x, 0, keepdims=True), _WORDS, dynamic=True),
        case(lambda x: tf.strings.reduce_join(x, [1, 0], keepdims=True, separator=" "), _WORDS),
    ],
)
def reduce_join(
    op: OpBuilder, inputs: ir.Value, reduction_indices: ir.Value, *, keep_dims: bool = False, separator: str = ""
) -> ir.Value:
    """Joined along one axis after the other, in the order that the axes are named in."""
    axes = op.constant(reduction_indices)
    if axes is None:
        raise UnsupportedOperator("ReduceJoin: the axes are computed when the model runs")
    places = [int(axis) % rank(inputs) for axis in axes.reshape(-1)]
    for axis in places:
        inputs = strings.all_joined(op, inputs, axis, separator, keepdims=True)
    return inputs if keep_dims else op.Squeeze(inputs, op.axes(*sorted(places))) if places else inputs


def _grams(width: Any, **options: Any) -> Case:
    def run(x: Any) -> Any:
        rows = tf.RaggedTensor.from_row_splits(x, tf.constant([0, 3, 3, 4, 6], tf.int64))
        result = tf.strings.ngrams(rows, width, **options)
        return result.values, result.row_splits

    return case(run, np.array(["a", "b", "c", "d", "e", "f"], object))


@tensorflow.lower("StringNGrams", min_opset=20, cases=[_grams(2), _grams((1, 3), separator="-"), _grams((2, 1))])
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
    if pad_width or preserve_short_sequences:
        raise UnsupportedOperator("StringNGrams: rows that are padded, and short rows that are kept, have no entry")
    splits = int64(op, data_splits)
    starts, ends = op.Slice(splits, [0], [-1], [0]), op.Slice(splits, [1], [np.iinfo(np.int64).max], [0])
    total = op.shape(data)
    places = op.Range(0, op.Squeeze(total, op.axes(0)), 1)
    passed = op.LessOrEqual(op.Unsqueeze(ends, [0]), op.Unsqueeze(places, [1]))
    rows = op.reduce("ReduceSum", op.cast(passed, _INT), [1], keepdims=False)
    lengths = op.Sub(ends, starts)
    counts = [op.Max(op.Sub(lengths, width - 1), 0) for width in ngram_widths]
    whole = reduce(op.Add, counts)
    row_ends = op.CumSum(whole, op.const(np.int64(0)))
    offsets, pieces, targets = op.Sub(row_ends, whole), [], []
    within = op.Sub(places, op.Gather(starts, rows, axis=0))
    for width, count in zip(ngram_widths, counts, strict=True):
        term = data
        for step in range(1, width):
            following = op.Gather(data, op.Min(op.Add(places, step), op.Sub(total, 1)), axis=0)
            term = op.StringConcat(op.StringConcat(term, op.const(np.array(separator, object))), following)
        whole_term = op.Less(within, op.Gather(count, rows, axis=0))
        pieces.append(op.Compress(term, whole_term, axis=0))
        targets.append(op.Compress(op.Add(op.Gather(offsets, rows, axis=0), within), whole_term, axis=0))
        offsets = op.Add(offsets, count)
    terms, order = (op.Concat(*items, axis=0) if len(items) > 1 else items[0] for items in (pieces, targets))
    result = scatter_elements(op, op.Expand(op.const(np.array("", object)), op.shape(order)), order, terms, 0)
    return result, op.cast_like(op.Concat(op.const([0]), row_ends, axis=0), data_splits)


def _segments(x: Any) -> Any:
    return tf.strings.unsorted_segment_join(x, [2, 0, 3, 2], 4, separator="/")


@tensorflow.lower(
    "UnsortedSegmentJoin",
    min_opset=20,
    cases=[
        case(_segments, np.array(["a", "b", "c", "\u00e9"], object)),
        case(
            lambda x: tf.strings.unsorted_segment_join(x, [[1, 0], [0, 1]], 2),
            np.array([["a", "b"], ["", "d"]], object),
        ),
    ],
)
def unsorted_segment_join(
    op: OpBuilder, inputs: ir.Value, segment_ids: ir.Value, num_segments: ir.Value, *, separator: str = ""
) -> ir.Value:
    """The strings of each segment as one, in their order."""
    if rank(inputs) != rank(segment_ids):
        raise UnsupportedOperator("UnsortedSegmentJoin: segments of rows have no entry")
    owner, texts = op.Reshape(int64(op, segment_ids), [-1]), op.Reshape(inputs, [-1])
    size = op.shape(owner)
    order = groups.ascending(op, op.Add(op.Mul(owner, size), op.Range(0, op.Squeeze(size, op.axes(0)), 1)))
    owner, texts = op.Gather(owner, order, axis=0), op.Gather(texts, order, axis=0)
    if separator:
        first = op.Equal(groups.ranks_within(op, owner), 0)
        before = op.Where(first, op.const(np.array("", object)), op.const(np.array(separator, object)))
        texts = op.StringConcat(before, texts)
    return strings.joined(op, cutting.Cells(texts, owner, op.Reshape(int64(op, num_segments), [1])))
