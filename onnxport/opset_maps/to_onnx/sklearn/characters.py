"""Characters of documents: brought to lower case, without accents, replaced, told apart.

ONNX has no operator that sees single characters, but StringSplit cuts at one (`cells`). This is done for each character that
matters, of the blocks that text is usually written with. What other characters stand between words is found by setting apart
those that words are made of (`cut_at_others`). A document whose tokens can't be told so ends in an error of the runtime, at the
node `_GUARD`, not in wrong tokens.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.to_onnx.sklearn.cells import Cells, any_of, apart, blank, having
from onnxport.opset_maps.to_onnx.sklearn.token_patterns import class_of

# A document beside the user's own, which no replacement makes empty.
SOMETHING = "0"
_GUARD = "a_character_that_this_graph_can_not_split_at"
# Where the separators of ordinary text stand: ASCII and its controls, Latin-1, spaces, dashes and quotation marks, two signs.
SEPARATORS = ((0x00, 0x80), (0xA0, 0x100), (0x2000, 0x2030), (0x20AC, 0x20AD), (0x2122, 0x2123))
# Controls that are no spaces: they are found by what stands around them (`cut_at_others`), as all other characters are.
_RARE = frozenset(c for c in map(chr, (*range(0x20), 0x7F)) if not c.isspace())
# So many characters of words are told apart where other separators stand between them.
_ALPHABET = 128
# Where letters with accents stand, and the accents themselves: Latin of Europe and Vietnam, Greek, Cyrillic, letterlike.
_ACCENTED = (
    *((0x80, 0x100), (0x100, 0x180), (0x1A0, 0x1B1), (0x300, 0x30D), (0x323, 0x324), (0x327, 0x329), (0x386, 0x3CF)),
    *((0x400, 0x482), (0x1EA0, 0x1EFA), (0x2000, 0x2070), (0x2070, 0x208A), (0x2116, 0x2127), (0xFB00, 0xFB05)),
)


def is_space(character: str) -> bool:
    r"""Whether ``\s`` matches a character."""
    return re.match(r"\s", character) is not None


SPACES = "".join(filter(is_space, map(chr, range(0x3001))))


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


# Characters to replace and what by, in groups that are looked for together.
Changes = Sequence[Sequence[tuple[str, str]]]


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


def _changes(made: Preparation, known: frozenset[str], kind: Callable[[str], bool]) -> Changes:
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
) -> tuple[ir.Value, Changes]:
    """Documents in lower case of ASCII; and what else is to be replaced in them, as far as terms written with `characters` need.

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
    return x, _changes(made, known, kind)


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


def replaced(op: OpBuilder, x: ir.Value, changes: Changes) -> ir.Value:
    """Strings [N] with each character replaced by the text beside it."""
    new = dict(pair for group in changes for pair in group)
    if not new:
        return x

    def change(b: OpBuilder) -> list[ir.Value]:
        cells = apart(b, x, ["".join(old for old, _ in group) for group in changes])
        same = chr(0xFDEE)  # a noncharacter of Unicode
        found = b.ml.LabelEncoder(
            cells.strings, keys_strings=list(new), values_strings=list(new.values()), default_string=same
        )
        found = b.typed(found, ir.DataType.STRING, [None])
        strings = b.Where(b.Equal(found, b.const(np.array(same, object))), cells.strings, found)
        return [joined(b, replace(cells, strings=strings))]

    return op.typed(
        op.If(
            any_of(op, having(op, x, "".join(new))),
            then_branch=op.body(change),
            else_branch=op.body(lambda b: [b.Identity(x)]),
        ),
        ir.DataType.STRING,
        [None],
    )


def cut_at_others(op: OpBuilder, x: Cells, inside: str, known: Sequence[str]) -> Cells:
    """Cells cut at each run of characters outside a class, whatever they are.

    Known characters are set apart, so that what stands between them can be asked whether it is of the class
    as a whole or not at all; a run of both kinds is an error.

    Args:
        op: the builder.
        x: pieces of documents, without spaces.
        inside: the inside of RE2's class of the characters of words.
        known: characters of the class, those that matter most first.
    """

    def change(b: OpBuilder) -> list[ir.Value]:
        places = b.typed(b.Reshape(b.NonZero(strange), [-1]), ir.DataType.INT64, [None])
        chosen = b.typed(b.Gather(x.strings, places, axis=0), ir.DataType.STRING, [None])
        fine = apart(b, chosen, ["".join(sorted(known[:_ALPHABET]))])
        outside = b.RegexFullMatch(fine.strings, pattern=f"[^{inside}]+")
        strings = b.Where(outside, b.const(np.array(" ", object)), fine.strings)
        cut = joined(b, replace(fine, strings=strings))
        cut = guarded(b, cut, b.RegexFullMatch(cut, pattern=f"[{inside} ]*"))
        pieces, _ = split(b, b.typed(b.ScatterElements(x.strings, places, cut, axis=0), ir.DataType.STRING, [None]))
        rows = b.Expand(b.Unsqueeze(x.rows, b.axes(1)), b.Shape(pieces))
        found = Cells(b.Reshape(pieces, [-1]), b.Reshape(rows, [-1]), x.count).there(b)
        return [found.strings, found.rows]

    strange = op.Not(op.RegexFullMatch(x.strings, pattern=f"[{inside}]*"))
    strings, rows = op.If(
        any_of(op, strange),
        then_branch=op.body(change),
        else_branch=op.body(lambda b: [b.Identity(x.strings), b.Identity(x.rows)]),
        outputs=2,
    )
    return Cells(op.typed(strings, ir.DataType.STRING, [None]), op.typed(rows, ir.DataType.INT64, [None]), x.count)


def joined(op: OpBuilder, x: Cells) -> ir.Value:
    """The cells of each string one behind the other, [count]."""
    pieces = x.laid(op)

    def step(b: OpBuilder) -> list[ir.Value]:
        number = b.input("number", ir.DataType.INT64, [])
        going = b.input("going", ir.DataType.BOOL, [])
        before = b.input("before", ir.DataType.STRING, [None])
        return [b.Identity(going), b.StringConcat(before, b.Gather(pieces, number, axis=1))]

    size = op.Squeeze(op.dim(pieces, 1), op.axes(0))
    found = op.Loop(size, True, op.Expand(blank(op), x.count), body=op.body(step), outputs=1)
    return op.typed(found, ir.DataType.STRING, [None])


def alphabet(is_inside: Callable[[str], bool], terms: Iterable[str]) -> list[str]:
    """The characters that words are made of, of ASCII and then of a vocabulary, the most frequent ones first."""
    ascii_ones = [c for c in map(chr, range(0x21, 0x7F)) if is_inside(c)]
    often = Counter(c for term in terms for c in term if c != " " and not c.isascii())
    return [*ascii_ones, *(c for c, _ in often.most_common())]


def separators(is_inside: Callable[[str], bool]) -> list[str]:
    """The characters of ordinary text that are no part of a token: those of ASCII, and others."""
    found = [c for block in SEPARATORS for c in map(chr, range(*block)) if not is_inside(c) and c not in _RARE]
    return ["".join(c for c in found if c.isascii()), "".join(c for c in found if not c.isascii())]
