"""Strings replaced, trimmed and joined."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import onnx_ir as ir
import tensorflow as tf

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import Case, case
from onnxport.opset_maps.lowerings import cutting, groups, strings
from onnxport.opset_maps.lowerings.patterns import pattern_of
from onnxport.opset_maps.maps import tensorflow
from onnxport.opset_maps.to_onnx.tensorflow.operands import int64, rank

_TEXTS = np.array(
    [["To be, or  not!", "<br />a<br/>b<br />"], ["", "\u00e9t\u00e9 [2]\t\n"], ["<br /><br />", "..x.."]], object
)
_PUNCTUATION = r"[!\"#$%&()\*\+,-\./:;<=>?@\[\\\]^_`{|}~']"


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


def _segments(x: Any) -> Any:
    return tf.strings.unsorted_segment_join(x, [2, 0, 3, 2], 4, separator="/")


@tensorflow.lower(
    "UnsortedSegmentJoin",
    min_opset=20,
    cases=[
        case(_segments, np.array(["a", "b", "c", "\u00e9"], object)),
        case(_segments, np.array(["", "b", "c", ""], object), name="empty first"),
        case(
            lambda x: tf.strings.unsorted_segment_join(x, [1, 0, 1], 3, separator="-"),
            np.array([["a", "b"], ["", "d"], ["e", ""]], object),
            name="rows",
        ),
        case(
            lambda x: tf.strings.unsorted_segment_join(x, [[1, 0], [0, 1]], 2),
            np.array([["a", "b"], ["", "d"]], object),
        ),
    ],
)
def unsorted_segment_join(
    op: OpBuilder, inputs: ir.Value, segment_ids: ir.Value, num_segments: ir.Value, *, separator: str = ""
) -> ir.Value:
    """The strings of each segment as one, in their order; no separator stands before the first one that is not empty."""
    owner, texts = op.Reshape(int64(op, segment_ids), [-1]), op.Reshape(inputs, [-1])
    count = op.Reshape(int64(op, num_segments), [1])
    sizes = op.Slice(op.shape(inputs), [rank(segment_ids)], [np.iinfo(np.int64).max], [0])
    if rank(inputs) > rank(segment_ids):  # an element of each row is a string of its own
        width = op.reduce("ReduceProd", sizes, [0], keepdims=True)
        columns = op.Range(0, op.Squeeze(width, op.axes(0)), 1)
        owner = op.Reshape(op.Add(op.Mul(op.Unsqueeze(owner, op.axes(1)), width), columns), [-1])
        whole = op.Mul(count, width)
    else:
        whole = count
    size = op.shape(owner)
    order = groups.ascending(op, op.Add(op.Mul(owner, size), op.Range(0, op.Squeeze(size, op.axes(0)), 1)))
    owner, texts = op.Gather(owner, order, axis=0), op.Gather(texts, order, axis=0)
    if separator:
        blank = cutting.blank(op)
        some = op.cast(op.Not(op.Equal(texts, blank)), ir.DataType.INT64)
        before = op.Sub(op.CumSum(some, op.const(np.int64(0))), some)
        first = op.Sub(op.Range(0, op.Squeeze(size, op.axes(0)), 1), groups.ranks_within(op, owner))
        bare = op.Equal(before, op.Gather(before, first, axis=0))
        texts = op.StringConcat(op.Where(bare, blank, op.const(np.array(separator, object))), texts)
    result = strings.joined(op, cutting.Cells(texts, owner, whole))
    return result if rank(inputs) == rank(segment_ids) else op.Reshape(result, op.Concat(count, sizes, axis=0))
