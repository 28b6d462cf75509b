"""Text as its characters: of whole documents, and of their words, for terms of characters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.to_onnx.sklearn.cells import Cells, apart, between, blank, inside_of, whole
from onnxport.opset_maps.to_onnx.sklearn.characters import SPACES, is_space, prepared, replaced, split
from onnxport.opset_maps.to_onnx.sklearn.preparation import preparation
from onnxport.opset_maps.to_onnx.sklearn.tokens import cut_where_odd

_TEXT = ir.DataType.STRING
# RE2's class of the characters that \s matches.
_ANY_SPACE = f"[{inside_of(SPACES)}]"


def _each_once(op: OpBuilder, pieces: ir.Value, change: Callable[[ir.Value], ir.Value]) -> ir.Value:
    """What `change` makes of each different piece, [M] to [M, L], laid where the piece stands: [N, K, L]."""
    found, _, places, _ = op.node("Unique", pieces, outputs=4)
    changed = change(op.typed(found, _TEXT, [None]))
    places = op.Reshape(op.typed(places, ir.DataType.INT64, [None]), op.shape(pieces))
    size = op.Squeeze(op.dim(changed, 1), op.axes(0))
    index = op.Add(op.Unsqueeze(op.Mul(places, size), op.axes(-1)), op.Range(0, size, 1))
    # by element: onnxruntime's Gather takes only the first string of a row
    return op.typed(op.Gather(op.Reshape(changed, [-1]), index, axis=0), _TEXT, [None, None, None])


def _in_rows(op: OpBuilder, x: ir.Value) -> ir.Value:
    """[N, K, L] as [N, K * L]."""
    return op.typed(op.Reshape(x, [0, -1]), _TEXT, [None, None])


def _moved_together(op: OpBuilder, items: ir.Value, out: ir.Value) -> ir.Value:
    """The items that are not out, moved to the front of their row; "" beyond them."""
    size = op.Squeeze(op.dim(items, 1), op.axes(0))
    keys = op.Add(op.Mul(op.cast(out, ir.DataType.INT64), size), op.Range(0, size, 1))
    order, index = op.TopK(keys, op.dim(items, 1), axis=1, largest=0, sorted=1)
    moved = op.GatherElements(items, index, axis=1)
    return op.Where(op.Less(order, size), moved, blank(op))


def characters_of_text(op: OpBuilder, model: Any, x: ir.Value, terms: Sequence[str]) -> ir.Value:
    """The characters of documents [N], as [N, K], runs of spaces as one (analyzer="char")."""
    known = {c for term in terms for c in term}
    x, changes = prepared(op, preparation(model), x, known, is_space)
    pieces, counts = split(op, x, delimiter=" ")

    def cut(found: ir.Value) -> ir.Value:
        return apart(op, replaced(op, found, changes), _blocks(known | set(SPACES))).laid(op)

    letters = _each_once(op, pieces, cut)
    places = op.Range(0, op.Squeeze(op.dim(pieces, 1), op.axes(0)), 1)
    inner = op.Less(places, op.Sub(op.Unsqueeze(counts, op.axes(1)), 1))
    space = op.const(np.array(" ", object))
    between = op.Where(inner, space, blank(op))
    found = _in_rows(op, op.Concat(letters, op.Unsqueeze(between, op.axes(2)), axis=2))
    found = _moved_together(op, found, op.Equal(found, blank(op)))
    # of a run of spaces the first stays, as a plain space
    is_space_ = op.RegexFullMatch(found, pattern=_ANY_SPACE)
    flags = op.cast(is_space_, ir.DataType.INT64)
    before = op.Pad(op.Slice(flags, [0], [-1], [1]), [0, 1, 0, 0])
    after = op.Pad(op.Slice(flags, [1], [np.iinfo(np.int64).max], [1]), [0, 0, 0, 1])
    found = op.Where(op.And(is_space_, op.Equal(after, 1)), space, found)
    return _moved_together(op, found, op.And(is_space_, op.Equal(before, 1)))


def characters_of_words(op: OpBuilder, model: Any, x: ir.Value, terms: Sequence[str]) -> tuple[ir.Value, ir.Value]:
    """The characters of documents' words, each between spaces and apart from the next, [N, K]; and the words, [N, W]."""
    known = {c for term in terms for c in term}
    x, changes = prepared(op, preparation(model), x, known, is_space)

    def cut(b: OpBuilder, found: ir.Value) -> Cells:
        return between(b, whole(b, replaced(b, found, changes)), _blocks(set(SPACES)))

    old = "".join(c for group in changes for c, _ in group)
    tokens = cut_where_odd(op, x, f"(?s)[^{_ANY_SPACE[1:-1]}{inside_of(old)}]+", cut)
    words = tokens.laid(op, tokens.strings, blank(op))

    def spell(found: ir.Value) -> ir.Value:
        space = op.const(np.array([" "], object))
        padded = op.StringConcat(space, op.StringConcat(found, space))
        padded = op.Where(op.Equal(found, blank(op)), found, padded)
        return apart(op, padded, _blocks(known | {" "})).laid(op)

    return _in_rows(op, _each_once(op, words, spell)), words


def _blocks(characters: set[str]) -> list[str]:
    """Characters in groups, what is rare in most texts by itself."""
    ordered = sorted(characters)
    common = [c for c in ordered if c > " " and c.isascii()]
    return ["".join(c for c in ordered if c <= " "), "".join(c for c in ordered if not c.isascii()), "".join(common)]
