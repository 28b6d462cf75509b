"""Text as the numbers of its characters: of whole documents, and of their words, for terms of characters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.to_onnx.sklearn.text.cells import Cells, between, blank, inside_of, whole
from onnxport.opset_maps.to_onnx.sklearn.text.characters import SPACES, is_space, prepared, replaced, split
from onnxport.opset_maps.to_onnx.sklearn.text.letters import by_frequency, letters
from onnxport.opset_maps.to_onnx.sklearn.text.preparation import preparation
from onnxport.opset_maps.to_onnx.sklearn.text.tokens import cut_where_odd

if TYPE_CHECKING:
    from sklearn.feature_extraction.text import HashingVectorizer

_INT, _TEXT = ir.DataType.INT64, ir.DataType.STRING


def known_characters(terms: Iterable[str]) -> str:
    """Those of a vocabulary, the most frequent first, and spaces."""
    often = by_frequency("".join(terms))
    return often + "".join(c for c in SPACES if c not in often)


def _spelled(op: OpBuilder, words: ir.Value, known: str) -> ir.Value:
    """The characters of words [N, K], each different word looked at once, [N, K, L]."""
    result, _, places, _ = op.node("Unique", words, outputs=4)
    numbers = letters(op, op.typed(result, _TEXT, [None]), known)
    places = op.Reshape(op.typed(places, _INT, [None]), op.shape(words))
    return op.typed(op.Gather(numbers, places, axis=0), _INT, [None, None, None])


def _in_rows(op: OpBuilder, x: ir.Value) -> ir.Value:
    """[N, K, L] as [N, K * L]."""
    return op.typed(op.Reshape(x, [0, -1]), _INT, [None, None])


def _moved_together(op: OpBuilder, items: ir.Value) -> ir.Value:
    """The items that are not 0, moved to the front of their row."""
    size = op.Squeeze(op.dim(items, 1), op.axes(0))
    out = op.cast(op.Equal(items, 0), _INT)
    _, index = op.TopK(op.Add(op.Mul(out, size), op.Range(0, size, 1)), op.dim(items, 1), axis=1, largest=0, sorted=1)
    return op.GatherElements(items, index, axis=1)


def characters_of_text(op: OpBuilder, model: HashingVectorizer, x: ir.Value, known: str) -> ir.Value:
    """The characters of documents [N], as [N, K] (`letters`), runs of spaces as one (analyzer="char")."""
    x, changes = prepared(op, preparation(model), x, known, is_space)
    x = replaced(op, x, changes)
    pieces, counts = split(op, x, delimiter=" ")
    cells = _spelled(op, pieces, known)
    places = op.Range(0, op.Squeeze(op.dim(pieces, 1), op.axes(0)), 1)
    inner = op.Less(places, op.Sub(op.Unsqueeze(counts, op.axes(1)), 1))
    space = op.const(np.int64(known.index(" ") + 1))
    cells = op.Concat(cells, op.Unsqueeze(op.Where(inner, space, 0), op.axes(2)), axis=2)
    cells = _moved_together(op, _in_rows(op, cells))
    # of a run of spaces the first stays, as a plain space
    kinds = op.const(np.array([0, *(int(is_space(c)) for c in known), 0]))  # of unknown ones the last
    flags = op.Gather(kinds, cells, axis=0)
    before = op.Pad(op.Slice(flags, [0], [-1], [1]), [0, 1, 0, 0])
    after = op.Pad(op.Slice(flags, [1], [np.iinfo(np.int64).max], [1]), [0, 0, 0, 1])
    cells = op.Where(op.Equal(op.Mul(flags, after), 1), space, cells)
    return _moved_together(op, op.Where(op.Equal(op.Mul(flags, before), 1), 0, cells))


def characters_of_words(op: OpBuilder, model: HashingVectorizer, x: ir.Value, known: str) -> tuple[ir.Value, ir.Value]:
    """The characters of documents' words (`letters`), each between spaces and apart from the next, [N, K]; the words, [N, W]."""
    x, changes = prepared(op, preparation(model), x, known, is_space)

    def cut(b: OpBuilder, cells: ir.Value) -> Cells:
        groups = ["".join(c for c in SPACES if c < " "), "".join(c for c in SPACES if c >= " ")]
        return between(b, whole(b, replaced(b, cells, changes)), groups)

    old = "".join(c for group in changes for c, _ in group)
    tokens = cut_where_odd(op, x, f"(?s)[^{inside_of(SPACES + old)}]+", cut)
    words = tokens.in_rows(op, tokens.strings, blank(op))
    space = op.const(np.array([" "], object))
    padded = op.StringConcat(space, op.StringConcat(words, space))
    padded = op.Where(op.Equal(words, blank(op)), blank(op), padded)
    apart = op.Pad(_spelled(op, padded, known), [0, 0, 0, 0, 0, 1])
    return _in_rows(op, apart), words
