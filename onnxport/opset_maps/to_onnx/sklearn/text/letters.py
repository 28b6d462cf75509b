"""Words as the numbers of their characters.

No operator of ONNX gives a string's characters, but an expression can ask whether the one at some place is of a class. The number
of one among 63 is six such answers, which are its bits; no string is built for that. Words longer than the places asked, or that
have a character beyond these, are cut apart (`cells`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np
import onnx_ir as ir

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.to_onnx.sklearn.text.cells import any_of, apart, inside_of

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
    others = op.Not(op.RegexFullMatch(words, pattern=f"[{inside_of(common)}]{{0,{_BLOCK * _BLOCKS}}}"))

    def with_others(b: OpBuilder) -> list[ir.Value]:
        cells = apart(b, b.typed(b.Compress(words, others, axis=0), _TEXT, [None]), _groups(known))
        codes = b.ml.LabelEncoder(
            cells.strings,
            keys_strings=list(known),
            values_int64s=list(range(1, len(known) + 1)),
            default_int64=len(known) + 1,
        )
        rare = cells.in_rows(b, b.typed(codes, _INT, [None]), b.const(np.int64(0)))
        width = b.Max(b.dim(asked, 1), b.Mul(b.Div(b.Add(b.dim(rare, 1), _BLOCK - 1), _BLOCK), _BLOCK))
        pool = b.Concat(_widened(b, asked, width), _widened(b, rare, width), axis=0)
        count = b.Squeeze(b.shape(words), b.axes(0))
        flags = b.cast(others, _INT)
        rank = b.Add(b.Sub(b.CumSum(flags, b.const(np.int64(0))), 1), count)
        return [b.Gather(pool, b.Where(others, rank, b.Range(0, count, 1)), axis=0)]

    result = op.If(
        any_of(op, others), then_branch=op.body(with_others), else_branch=op.body(lambda b: [b.Identity(asked)])
    )
    return op.typed(result, _INT, [None, None])


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
        chosen = b.typed(b.Compress(words, longer, axis=0), _TEXT, [None])
        more = _asked_from(b, chosen, common, block + 1)
        flags = b.cast(longer, _INT)
        rank = b.Mul(b.CumSum(flags, b.const(np.int64(0))), flags)
        return [b.Gather(b.Pad(more, [1, 0, 0, 0]), rank, axis=0)]

    def nothing(b: OpBuilder) -> list[ir.Value]:
        return [b.Expand(b.const(np.int64(0)), b.Concat(b.shape(words), b.const([0]), axis=0))]

    more = op.If(any_of(op, longer), then_branch=op.body(rest), else_branch=op.body(nothing))
    return op.typed(op.Concat(asked, op.typed(more, _INT, [None, None]), axis=1), _INT, [None, None])


def _asked(op: OpBuilder, words: ir.Value, common: str, start: int) -> ir.Value:
    """The numbers of the characters at one block of places, int64 [M, _BLOCK]."""
    row, answers = op.Unsqueeze(words, op.axes(0)), []
    bits = len(common).bit_length()
    for place in range(start, start + _BLOCK):
        for bit in range(bits):
            asked = "".join(c for number, c in enumerate(common, 1) if number >> bit & 1)
            answers.append(op.RegexFullMatch(row, pattern=f"(?s).{{{place}}}[{inside_of(asked)}].*"))
    weights = np.kron(np.eye(_BLOCK), 2.0 ** np.arange(bits)).astype(np.float32)
    numbers = op.MatMul(op.const(weights), op.cast(op.Concat(*answers, axis=0), ir.DataType.FLOAT))
    return op.Transpose(op.cast(numbers, _INT), perm=[1, 0])
