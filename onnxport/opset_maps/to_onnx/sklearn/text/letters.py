"""Words as the numbers of their characters, and whole documents, for terms of characters.

No operator of ONNX gives a string's characters, but an expression can ask whether the one at some place is of a class. The number
of one among 63 is six such answers, which are its bits; no string is built for that. Words longer than the places asked, or that
have a character beyond these, are cut apart (`cutting`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np
import onnx_ir as ir
from sklearn.base import BaseEstimator

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.lowerings import cutting
from onnxport.opset_maps.lowerings.strings import replaced
from onnxport.opset_maps.to_onnx.sklearn.text.characters import SPACES, is_space, prepared, split
from onnxport.opset_maps.to_onnx.sklearn.text.preparation import preparation
from onnxport.opset_maps.to_onnx.sklearn.text.tokens import cut_where_odd

_INT, _TEXT = ir.DataType.INT64, ir.DataType.STRING
_BITS = 6
# Places are asked in blocks, of words that are long enough for the block.
_BLOCK, _BLOCKS = 4, 6


def by_frequency(characters: Iterable[str]) -> str:
    """Each character once, the most frequent first; among equals what most texts have."""
    often = Counter(characters)
    return "".join(sorted(often, key=lambda c: (-often[c], not c.isascii(), not c.isalnum(), not c.islower(), c)))


def letters(op: OpBuilder, words: ir.Value, known: str) -> ir.Value:
    """The characters of words [M], int64 [M, L], L a multiple of 4: 1 and their place among the known ones, 0 behind a word.

    Unknown characters, of which several side by side count as one, have the number behind all of these.

    Args:
        op: the builder.
        words: strings.
        known: characters, the most frequent ones first.
    """
    common = known[: 2**_BITS - 1]
    asked = _asked_from(op, words, common, 0)
    others = op.Not(op.RegexFullMatch(words, pattern=f"[{cutting.inside_of(common)}]{{0,{_BLOCK * _BLOCKS}}}"))

    def with_others(b: OpBuilder) -> list[ir.Value]:
        cells = cutting.apart(b, b.Compress(words, others, axis=0), _groups(known))
        codes = cutting.encoded(b, cells.strings, {c: number for number, c in enumerate(known, 1)}, len(known) + 1)
        rare = cells.in_rows(b, codes, b.const(np.int64(0)))
        width = b.Max(b.dim(asked, 1), b.Mul(b.Div(b.Add(b.dim(rare, 1), _BLOCK - 1), _BLOCK), _BLOCK))
        pool = b.Concat(_widened(b, asked, width), _widened(b, rare, width), axis=0)
        count = b.Squeeze(b.shape(words), b.axes(0))
        flags = b.cast(others, _INT)
        rank = b.Add(b.Sub(b.CumSum(flags, b.const(np.int64(0))), 1), count)
        return [b.Gather(pool, b.Where(others, rank, b.Range(0, count, 1)), axis=0)]

    return cutting.changed_if_any(op, others, with_others, asked)


def _groups(characters: str) -> list[str]:
    """Characters in groups, what is rare in most texts by itself."""
    ordered = sorted(characters)
    common = [c for c in ordered if c > " " and c.isascii()]
    return ["".join(c for c in ordered if c <= " "), "".join(c for c in ordered if not c.isascii()), "".join(common)]


def _widened(op: OpBuilder, x: ir.Value, width: ir.Value) -> ir.Value:
    return op.Pad(x, op.Concat(op.const([0, 0, 0]), op.Sub(width, op.dim(x, 1)), axis=0))


def _asked_from(op: OpBuilder, words: ir.Value, common: str, block: int) -> ir.Value:
    """The numbers of the characters from some block of places on, of words [M], int64 [M, P]."""
    start = block * _BLOCK
    asked = _asked(op, words, common, start)
    if block == _BLOCKS - 1:
        return asked
    longer = op.RegexFullMatch(words, pattern=f"(?s).{{{start + _BLOCK + 1},}}")

    def rest(b: OpBuilder) -> list[ir.Value]:
        more = _asked_from(b, b.Compress(words, longer, axis=0), common, block + 1)
        flags = b.cast(longer, _INT)
        rank = b.Mul(b.CumSum(flags, b.const(np.int64(0))), flags)
        return [b.Gather(b.Pad(more, [1, 0, 0, 0]), rank, axis=0)]

    def nothing(b: OpBuilder) -> list[ir.Value]:
        return [b.Expand(b.const(np.int64(0)), b.Concat(b.shape(words), b.const([0]), axis=0))]

    more = op.If(cutting.any_of(op, longer), then_branch=op.body(rest), else_branch=op.body(nothing))
    return op.Concat(asked, more, axis=1)


def _asked(op: OpBuilder, words: ir.Value, common: str, start: int) -> ir.Value:
    """The numbers of the characters at one block of places, int64 [M, _BLOCK]."""
    row, answers = op.Unsqueeze(words, op.axes(0)), []
    bits = len(common).bit_length()
    for place in range(start, start + _BLOCK):
        for bit in range(bits):
            asked = "".join(c for number, c in enumerate(common, 1) if number >> bit & 1)
            answers.append(op.RegexFullMatch(row, pattern=f"(?s).{{{place}}}[{cutting.inside_of(asked)}].*"))
    weights = np.kron(np.eye(_BLOCK), 2.0 ** np.arange(bits)).astype(np.float32)
    numbers = op.MatMul(op.const(weights), op.cast(op.Concat(*answers, axis=0), ir.DataType.FLOAT))
    return op.Transpose(op.cast(numbers, _INT), perm=[1, 0])


def known_characters(terms: Iterable[str]) -> str:
    """Those of a vocabulary, the most frequent first, and spaces."""
    often = by_frequency("".join(terms))
    return often + "".join(c for c in SPACES if c not in often)


def _spelled(op: OpBuilder, words: ir.Value, known: str) -> ir.Value:
    """The characters of words [N, K], each different word looked at once, [N, K, L]."""
    result, _, places, _ = op.node("Unique", words, outputs=4)
    numbers = letters(op, result, known)
    return op.Gather(numbers, op.Reshape(places, op.shape(words)), axis=0)


def _moved_together(op: OpBuilder, items: ir.Value) -> ir.Value:
    """The items that are not 0, moved to the front of their row."""
    size = op.Squeeze(op.dim(items, 1), op.axes(0))
    out = op.cast(op.Equal(items, 0), _INT)
    _, index = op.TopK(op.Add(op.Mul(out, size), op.Range(0, size, 1)), op.dim(items, 1), axis=1, largest=0, sorted=1)
    return op.GatherElements(items, index, axis=1)


def characters_of_text(op: OpBuilder, model: BaseEstimator, x: ir.Value, known: str) -> ir.Value:
    """The characters of documents [N], as [N, K] (`letters`), runs of spaces as one (analyzer="char")."""
    x, changes = prepared(op, preparation(model), x, known, is_space)
    x = replaced(op, x, changes)
    pieces, counts = split(op, x, delimiter=" ")
    cells = _spelled(op, pieces, known)
    places = op.Range(0, op.Squeeze(op.dim(pieces, 1), op.axes(0)), 1)
    inner = op.Less(places, op.Sub(op.Unsqueeze(counts, op.axes(1)), 1))
    space = op.const(np.int64(known.index(" ") + 1))
    cells = op.Concat(cells, op.Unsqueeze(op.Where(inner, space, 0), op.axes(2)), axis=2)
    cells = _moved_together(op, op.Reshape(cells, [0, -1]))
    # of a run of spaces the first stays, as a plain space
    kinds = op.const(np.array([0, *(int(is_space(c)) for c in known), 0]))  # of unknown ones the last
    flags = op.Gather(kinds, cells, axis=0)
    before = op.Pad(op.Slice(flags, [0], [-1], [1]), [0, 1, 0, 0])
    after = op.Pad(op.Slice(flags, [1], [np.iinfo(np.int64).max], [1]), [0, 0, 0, 1])
    cells = op.Where(op.Equal(op.Mul(flags, after), 1), space, cells)
    return _moved_together(op, op.Where(op.Equal(op.Mul(flags, before), 1), 0, cells))


def characters_of_words(op: OpBuilder, model: BaseEstimator, x: ir.Value, known: str) -> tuple[ir.Value, ir.Value]:
    """The characters of documents' words (`letters`), each between spaces and apart from the next, [N, K]; the words, [N, W]."""
    x, changes = prepared(op, preparation(model), x, known, is_space)

    def cut(b: OpBuilder, cells: ir.Value) -> cutting.Cells:
        groups = ["".join(c for c in SPACES if c < " "), "".join(c for c in SPACES if c >= " ")]
        return cutting.between(b, cutting.whole(b, replaced(b, cells, changes)), groups)

    old = "".join(c for group in changes for c, _ in group)
    tokens = cut_where_odd(op, x, f"(?s)[^{cutting.inside_of(SPACES + old)}]+", cut)
    words = tokens.in_rows(op, tokens.strings, cutting.blank(op))
    space = op.const(np.array([" "], object))
    padded = op.StringConcat(space, op.StringConcat(words, space))
    padded = op.Where(op.Equal(words, cutting.blank(op)), cutting.blank(op), padded)
    apart = op.Pad(_spelled(op, padded, known), [0, 0, 0, 0, 0, 1])
    return op.Reshape(apart, [0, -1]), words
