"""Characters of documents: brought to lower case, without accents, replaced, told apart.

ONNX has no operator that sees single characters, but StringSplit at one and StringConcat of the pieces replace it (`_replaced`).
This is done for each character that matters, of the blocks that text is usually written with, where a document has one of a
block. What other characters stand between words is found by setting apart those that words are made of (`cut_at_others`). A
document whose tokens can't be told so ends in an error of the runtime, at the node `_GUARD`, not in wrong tokens.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.to_onnx.sklearn.token_patterns import class_of

# A document beside the user's own, which no replacement makes empty.
SOMETHING = "0"
# How a space is spelled where it must not be a separator: a noncharacter of Unicode, which no text holds.
SPACE = chr(0xFDD0)
_GUARD = "a_character_that_this_graph_can_not_split_at"
# Where the separators of ordinary text stand: ASCII and its controls, Latin-1, spaces, dashes and quotation marks, two signs.
SEPARATORS = ((0x00, 0x80), (0xA0, 0x100), (0x2000, 0x2030), (0x20AC, 0x20AD), (0x2122, 0x2123))
# So many characters of words are told apart where other separators stand between them.
_ALPHABET = 128
# Where letters with accents stand, and the accents themselves: Latin of Europe and Vietnam, Greek, Cyrillic, letterlike.
_ACCENTED = (
    *((0x80, 0x100), (0x100, 0x180), (0x1A0, 0x1B1), (0x300, 0x30D), (0x323, 0x324), (0x327, 0x329), (0x386, 0x3CF)),
    *((0x400, 0x482), (0x1EA0, 0x1EFA), (0x2000, 0x2070), (0x2070, 0x208A), (0x2116, 0x2127), (0xFB00, 0xFB05)),
)


# -- what becomes of one character -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Preparation:
    """What a vectorizer does to a document before it looks for tokens.

    Attributes:
        lowercase: whether it is brought to lower case.
        strip: "ascii", "unicode" or None: which accents are taken away then.
    """

    lowercase: bool
    strip: str | None

    def of(self, character: str) -> str:
        """What becomes of a character."""
        found = character.lower() if self.lowercase else character
        if self.strip is None or found.isascii():
            return found
        found = unicodedata.normalize("NFKD", found)
        if self.strip == "ascii":
            return found.encode("ASCII", "ignore").decode("ASCII")
        return "".join(c for c in found if not unicodedata.combining(c))


def preparation(model: Any) -> Preparation:
    """What the arguments of a vectorizer say.

    Raises:
        UnsupportedOperator: a function does it.
    """
    for argument in ("preprocessor", "tokenizer"):
        if getattr(model, argument, None) is not None:
            raise UnsupportedOperator(
                f"{argument}={getattr(model, argument)!r} has no ONNX form; do that step before the model"
            )
    if callable(model.strip_accents):
        raise UnsupportedOperator(f"strip_accents={model.strip_accents!r} has no ONNX form; 'ascii' and 'unicode' have")
    return Preparation(bool(model.lowercase), model.strip_accents)


@cache
def _capitals() -> dict[str, str]:
    """For each character those outside ASCII whose lower case it is."""
    found: dict[str, str] = {}
    for code in range(0x80, 0x1E944):
        lower = chr(code).lower()
        if lower != chr(code) and len(lower) == 1:
            found[lower] = found.get(lower, "") + chr(code)
    return found


def _matters(character: str, becomes: str, known: frozenset[str], kind: Callable[[str], bool]) -> bool:
    """Whether a document's tokens can change where `character` is not replaced by what it `becomes`."""
    if becomes == character:
        return False
    if len(becomes) != 1 or kind(becomes) != kind(character):
        return True
    return becomes in known


def _changes(made: Preparation, known: frozenset[str], kind: Callable[[str], bool]) -> list[list[tuple[str, str]]]:
    """The characters to replace and what by, in groups that are looked for together."""
    if made.strip is None:
        if not made.lowercase:
            return []
        letters = [(u, c) for c in sorted(known) for u in _capitals().get(c, "")]
        return [[*letters, ("\u0130", "i\u0307")]]  # whose lower case is an i and a dot apart
    groups = []
    for block in _ACCENTED:
        pairs = [(chr(code), made.of(chr(code))) for code in range(*block) if not 0xD800 <= code < 0xE000]
        groups.append([(c, new) for c, new in pairs if _matters(c, new, known, kind)])
    return groups


@cache
def _strippable(made: Preparation) -> tuple[tuple[str, str], ...]:
    """Every character beyond ASCII that becomes another one, and what it becomes."""
    codes = (code for code in range(0x80, 0x110000) if not 0xD800 <= code < 0xE000)
    pairs = ((chr(code), made.of(chr(code))) for code in codes)
    return tuple((c, new) for c, new in pairs if c != new)


def _refused(made: Preparation, known: frozenset[str], kind: Callable[[str], bool]) -> str:
    """The inside of RE2's class of the characters that would have to be replaced and are not."""
    if made.strip is None:
        # at a word's end the lower case of a sigma is another one
        return "\u03a3" if made.lowercase and known & {"\u03c3", "\u03c2"} else ""
    done = {c for group in _changes(made, known, kind) for c, _ in group}
    left = [c for c, new in _strippable(made) if c not in done and _matters(c, new, known, kind)]
    if made.lowercase and known & {"\u03c3", "\u03c2"}:
        left.append("\u03a3")
    return class_of(_ranges(sorted(left))) if left else ""


def _ranges(characters: Sequence[str]) -> list[tuple[str, str]]:
    codes = np.array([ord(c) for c in characters])
    cuts = np.flatnonzero(np.diff(codes) != 1) + 1
    return [(chr(part[0]), chr(part[-1])) for part in np.split(codes, cuts)]


# -- in the graph ------------------------------------------------------------------------------------------------------------


def prepared(
    op: OpBuilder, made: Preparation, x: ir.Value, characters: Iterable[str], kind: Callable[[str], bool]
) -> ir.Value:
    """Documents in lower case and without accents, as far as terms written with `characters` need it.

    Args:
        op: the builder.
        made: what is done to documents.
        x: the documents, [N].
        characters: those of the vocabulary.
        kind: tells the characters that tokens are made of from those between them.
    """
    known = frozenset(characters)
    if made.lowercase:
        # only ASCII is told apart by the locale "C", which every machine has
        x = op.typed(op.StringNormalizer(x, case_change_action="LOWER", locale="C"), ir.DataType.STRING, x.shape)
    refused = _refused(made, known, kind)
    if refused:
        x = guarded(op, x, op.RegexFullMatch(x, pattern=f"(?s)[^{refused}]*"))
    for group in _changes(made, known, kind):
        x = without(op, x, group)
    return x


def guarded(op: OpBuilder, x: ir.Value, allowed: ir.Value) -> ir.Value:
    """The documents, or an error of the runtime where one of them is not allowed."""
    out = op.Sub(1, op.cast(allowed, ir.DataType.INT64))
    blank = op.node("Gather", op.const(np.array([""], object)), out, name=_GUARD)  # which has no element 1
    return op.typed(op.StringConcat(x, blank), ir.DataType.STRING, x.shape)


def split(op: OpBuilder, x: ir.Value, **options: Any) -> tuple[ir.Value, ir.Value]:
    """Pieces [..., K], "" beyond the last one, with one column of "" at least; and how many there are."""
    pieces, counts = op.StringSplit(x, **options)
    batch = list(x.shape or ())
    pieces = op.typed(pieces, ir.DataType.STRING, [*batch, None])
    column = op.Gather(op.const(np.array([""], object)), op.Mul(counts, 0), axis=0)
    return op.typed(
        op.Concat(pieces, op.Unsqueeze(column, op.axes(-1)), axis=-1), ir.DataType.STRING, [*batch, None]
    ), counts


def has(op: OpBuilder, x: ir.Value, characters: str) -> ir.Value:
    """Whether any document has one of the characters."""
    escaped = "".join(f"\\x{{{ord(c):x}}}" for c in characters)
    found = op.cast(op.RegexFullMatch(x, pattern=f"(?s).*[{escaped}].*"), ir.DataType.INT32)
    return op.cast(op.reduce("ReduceMax", found, [0], keepdims=False), ir.DataType.BOOL)


def _chosen(op: OpBuilder, condition: ir.Value, x: ir.Value, change: Callable[[OpBuilder], ir.Value]) -> ir.Value:
    """`x` changed where the condition holds."""
    found = op.If(condition, then_branch=op.body(lambda b: [change(b)]), else_branch=op.body(lambda b: [b.Identity(x)]))
    return op.typed(found, ir.DataType.STRING, x.shape)


def replaced(op: OpBuilder, x: ir.Value, old: str, new: str) -> ir.Value:
    """The documents with a character replaced by a text, at the cost of one step for each time a document has it.

    One of them must hold something (`SOMETHING`): onnxruntime splits nothing but empty strings into no pieces at all.
    """
    pieces, counts = op.StringSplit(x, delimiter=old)
    pieces = op.typed(pieces, ir.DataType.STRING, [x.shape[0] if x.shape is not None else None, None])

    def step(b: OpBuilder) -> list[ir.Value]:
        number = b.input("number", ir.DataType.INT64, [])
        going = b.input("going", ir.DataType.BOOL, [])
        joined = b.input("joined", ir.DataType.STRING, list(x.shape or ()))
        place = b.Add(number, 1)
        piece = b.StringConcat(b.const(np.array(new, object)), b.Gather(pieces, place, axis=1))
        piece = b.Where(b.Less(place, counts), piece, b.const(np.array("", object)))
        return [b.Identity(going), b.StringConcat(joined, piece)]

    last = op.Sub(op.ReduceMax(counts, keepdims=0), 1)
    found = op.Loop(last, True, op.Gather(pieces, np.int64(0), axis=1), body=op.body(step), outputs=1)
    return op.typed(found, ir.DataType.STRING, x.shape)


def without(op: OpBuilder, x: ir.Value, changes: Sequence[tuple[str, str]]) -> ir.Value:
    """The documents with each character replaced by the text beside it, one after the other, if they have any of them."""

    def all_of_them(b: OpBuilder) -> ir.Value:
        value = x
        for old, new in changes:
            value = replaced(b, value, old, new)
        return value

    return _chosen(op, has(op, x, "".join(old for old, _ in changes)), x, all_of_them) if changes else x


def cut_at_others(op: OpBuilder, x: ir.Value, inside: str, known: Sequence[str]) -> ir.Value:
    """The documents with a space in the place of each run of characters outside a class, whatever they are.

    Known characters are set apart, so that what stands between them can be asked whether it is of the class
    as a whole or not at all; a run of both kinds stays as it is.

    Args:
        op: the builder.
        x: the documents, with spaces between words already.
        inside: the inside of RE2's class of the characters of words.
        known: characters of the class, those that matter most first.
    """

    def change(b: OpBuilder) -> ir.Value:
        value = replaced(b, x, " ", f" {SPACE} ")
        for character in sorted(known[:_ALPHABET]):
            value = replaced(b, value, character, f" {character} ")
        pieces, _ = split(b, value)
        outside = b.RegexFullMatch(pieces, pattern=f"[^{inside}]+")
        return joined(b, b.Where(outside, b.const(np.array(" ", object)), pieces))

    strange = op.Not(op.RegexFullMatch(x, pattern=f"[{inside} ]*"))
    some = op.reduce("ReduceMax", op.cast(strange, ir.DataType.INT32), [0], keepdims=False)
    return _chosen(op, op.cast(some, ir.DataType.BOOL), x, change)


def joined(op: OpBuilder, pieces: ir.Value) -> ir.Value:
    """The strings of each row [N, K] one behind the other, [N]."""

    def step(b: OpBuilder) -> list[ir.Value]:
        number = b.input("number", ir.DataType.INT64, [])
        going = b.input("going", ir.DataType.BOOL, [])
        before = b.input("before", ir.DataType.STRING, [None])
        return [b.Identity(going), b.StringConcat(before, b.Gather(pieces, number, axis=1))]

    first = op.Gather(pieces, np.int64(0), axis=1)
    blank = op.Where(op.Equal(first, first), op.const(np.array("", object)), first)
    count = op.Squeeze(op.dim(pieces, 1), op.axes(0))
    found = op.Loop(count, True, blank, body=op.body(step), outputs=1)
    return op.typed(found, ir.DataType.STRING, [None])


def alphabet(is_inside: Callable[[str], bool], terms: Iterable[str]) -> list[str]:
    """The characters that words are made of, of ASCII and then of a vocabulary, the most frequent ones first."""
    ascii_ones = [c for c in map(chr, range(0x21, 0x7F)) if is_inside(c)]
    often = Counter(c for term in terms for c in term if c != " " and not c.isascii())
    return [*ascii_ones, *(c for c, _ in often.most_common())]


def separators(is_inside: Callable[[str], bool]) -> list[str]:
    """The characters of ordinary text that are no part of a token, a string for each block; a space is one already."""
    blocks = (map(chr, range(*block)) for block in SEPARATORS)
    return ["".join(c for c in block if not is_inside(c) and c not in " \0") for block in blocks]


def is_space(character: str) -> bool:
    r"""Whether ``\s`` matches a character."""
    return re.match(r"\s", character) is not None
