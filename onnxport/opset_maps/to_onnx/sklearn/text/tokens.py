"""Documents to tokens: cut at spaces, and each piece that is more than a run of known characters cut at what is no part of words.

Most pieces of a text are words as they stand. Only the others go through the operators that cut (`cutting`); their pieces are
put in its order by numbers: strings are copied once.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import onnx_ir as ir
from sklearn.base import BaseEstimator

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.lowerings.cutting import Cells, blank, changed_if_any, encoded, inside_of
from onnxport.opset_maps.to_onnx.sklearn.tables.table import Table, matrix
from onnxport.opset_maps.to_onnx.sklearn.text.characters import SOMETHING, alphabet, cut_at_separators, prepared
from onnxport.opset_maps.to_onnx.sklearn.text.preparation import preparation
from onnxport.opset_maps.to_onnx.sklearn.text.token_patterns import TokenRule

_INT, _TEXT = ir.DataType.INT64, ir.DataType.STRING
# Later than any token.
_LATE = np.int64(1) << 62


@dataclass(frozen=True)
class Tokens:
    """Runs of characters in documents [N].

    Attributes:
        strings: the runs, [T].
        pieces: which piece each is of, of those that the documents were cut into at spaces, [T]; the runs of one piece stand side
            by side, in their order.
        shape: number of documents and of pieces in each, [2].
    """

    strings: ir.Value
    pieces: ir.Value
    shape: ir.Value

    def only(self, op: OpBuilder, kept: ir.Value) -> Tokens:
        """Some of them, by flags [T]."""
        strings, pieces = (op.Compress(item, kept, axis=0) for item in (self.strings, self.pieces))
        return Tokens(strings, pieces, self.shape)

    def in_rows(self, op: OpBuilder, values: ir.Value, nothing: ir.Value) -> ir.Value:
        """A value for each, [T], as a row for each document, [N, W], in their order; `nothing` beyond a row's last one, W > 0."""
        count = op.shape(self.pieces)
        numbers = op.Range(0, op.Squeeze(count, op.axes(0)), 1)
        size = op.ReduceProd(self.shape, keepdims=1)
        one, none = op.Expand(op.const(np.int64(1)), count), op.Expand(op.const(np.int64(0)), size)
        lengths = op.ScatterElements(none, self.pieces, one, axis=0, reduction="add")
        first = op.ScatterElements(op.Add(none, _LATE), self.pieces, numbers, axis=0, reduction="min")
        lengths = op.Reshape(lengths, self.shape)
        ends = op.CumSum(lengths, op.const(np.int64(1)))
        starts = op.Reshape(op.Sub(ends, lengths), [-1])
        width = op.Max(op.ReduceMax(ends, keepdims=0), op.const(np.int64(1)))
        within = op.Sub(op.Add(op.Gather(starts, self.pieces, axis=0), numbers), op.Gather(first, self.pieces, axis=0))
        rows = op.Div(self.pieces, op.Gather(self.shape, np.int64(1), axis=0))
        total = op.Concat(op.Gather(self.shape, [0], axis=0), op.Unsqueeze(width, op.axes(0)), axis=0)
        empty = op.Expand(nothing, op.ReduceProd(total, keepdims=1))
        result = op.ScatterElements(empty, op.Add(op.Mul(rows, width), within), values, axis=0)
        return op.Reshape(result, total)


def documents_of(op: OpBuilder, model: BaseEstimator, x: Table) -> ir.Value:
    """The documents as a vector, and another one after them: operators on text fail where there is none."""
    value = matrix(op, x)
    if value.dtype != _TEXT:
        raise UnsupportedOperator(f"{type(model).__name__}: documents are strings: give a list of them as inputs")
    if value.shape is not None and value.shape.rank() != 1:
        value = op.Reshape(value, [-1])
    return op.Concat(value, op.const(np.array([SOMETHING], object)), axis=0)


def cut_where_odd(op: OpBuilder, x: ir.Value, whole: str, cut: Callable[[OpBuilder, ir.Value], Cells]) -> Tokens:
    """The pieces of documents [N] between spaces, those that do not match the expression `whole` as what they are cut into."""
    pieces, _ = op.StringSplit(x)
    shape = op.Shape(pieces)
    flat = op.Reshape(pieces, [-1])
    is_whole = op.RegexFullMatch(flat, pattern=whole)
    odd = op.Not(op.Or(is_whole, op.Equal(flat, blank(op))))
    strings = op.Compress(flat, is_whole, axis=0)
    places = op.Reshape(op.NonZero(is_whole), [-1])

    def with_odd(b: OpBuilder) -> list[ir.Value]:
        chosen = b.Reshape(b.NonZero(odd), [-1])
        cells = cut(b, b.Gather(flat, chosen, axis=0))
        return [
            b.Concat(strings, cells.strings, axis=0),
            b.Concat(places, b.Gather(chosen, cells.rows, axis=0), axis=0),
        ]

    strings, places = changed_if_any(op, odd, with_odd, strings, places)
    return Tokens(strings, places, shape)


def runs(op: OpBuilder, model: BaseEstimator, rule: TokenRule, x: ir.Value, terms: Sequence[str]) -> Tokens:
    """The runs of characters of words in documents [N], tokens or not.

    Args:
        op: the builder.
        model: the vectorizer.
        rule: what a token is.
        x: the documents.
        terms: the vocabulary.
    """
    preparing = preparation(model)
    x, changes = prepared(op, preparing, x, set("".join(terms)), rule.is_inside)
    # of a sign such as that of trade marks capitals are left where accents are stripped
    capitals = string.ascii_uppercase if preparing.lowercase and preparing.strip is None else ""
    inside = alphabet(lambda c: rule.is_inside(c) and c not in capitals, terms)

    old = {character for group in changes for character, _ in group}
    plain = "".join(c for c in inside if c not in old and rule.is_inside(c))

    cut = partial(cut_at_separators, rule=rule, changes=changes, plain=plain, known=inside)
    return cut_where_odd(op, x, f"[{inside_of(plain)}]+", cut)


def words(op: OpBuilder, model: BaseEstimator, rule: TokenRule, x: ir.Value, terms: Sequence[str]) -> ir.Value:
    """The tokens of documents [N], as [N, W], "" where there is none; arguments as those of `runs`."""
    result = runs(op, model, rule, x, terms)
    dropped = sorted(model.get_stop_words() or ())
    kept = op.RegexFullMatch(result.strings, pattern=rule.re2)
    if dropped:
        kept = op.And(kept, op.Equal(encoded(op, result.strings, dict.fromkeys(dropped, 1), 0), 0))
    result = result.only(op, kept)
    return result.in_rows(op, result.strings, blank(op))
