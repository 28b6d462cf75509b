"""Characters of documents: brought to lower case, without accents, replaced, distinguished.

ONNX has no operator that sees single characters, but StringSplit cuts at one (`cutting`). This is done for each character that
matters, of the blocks that text is usually written with. Other characters between words show by setting apart
those of words (`_cut_at_unknown`). A document whose tokens don't show so ends in an error of the runtime, at the
node `GUARD`, not in wrong tokens.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np
import onnx_ir as ir

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.lowerings import cutting
from onnxport.opset_maps.lowerings.strings import joined, replaced
from onnxport.opset_maps.to_onnx.sklearn.text.preparation import Changes, Preparation, changes, refused
from onnxport.opset_maps.to_onnx.sklearn.text.token_patterns import TokenRule

# A document beside the user's own, which no replacement makes empty.
SOMETHING = "0"
GUARD = "a_character_that_this_graph_can_not_split_at"
# Where the separators of ordinary text stand: ASCII and its controls, Latin-1, spaces, dashes and quotation marks, two signs.
SEPARATORS = ((0x00, 0x80), (0xA0, 0x100), (0x2000, 0x2030), (0x20AC, 0x20AD), (0x2122, 0x2123))
# Those of them that most texts have, and quotation marks and dashes.
_OFTEN = "\n,.'-:;!?)\"(/"
_QUOTES = "\u00a0\u2026\u201d\u00bb\u2019\u2013\u2014\u201c\u00ab\u2018"
# Controls that are no spaces: what stands around them shows them (`_cut_at_unknown`), as all other characters are.
_RARE = frozenset(c for c in map(chr, (*range(0x20), 0x7F)) if not c.isspace())
# So many characters of words are distinguished where other separators stand between them.
_ALPHABET = 128


def is_space(character: str) -> bool:
    r"""Whether ``\s`` matches a character."""
    return re.match(r"\s", character) is not None


SPACES = "".join(filter(is_space, map(chr, range(0x3001))))


def prepared(
    op: OpBuilder, preparing: Preparation, x: ir.Value, characters: Iterable[str], kind: Callable[[str], bool]
) -> tuple[ir.Value, Changes]:
    """Documents in lower case of ASCII; and what else is to be replaced in them, as far as terms written with `characters` need.

    Args:
        op: the builder.
        preparing: what is done to documents.
        x: the documents, [N].
        characters: those of the vocabulary.
        kind: which characters belong to tokens, and which stand between them.
    """
    known = frozenset(characters)
    if preparing.lowercase:
        # only ASCII is distinguished by the locale "C", which every machine has
        x = op.StringNormalizer(x, case_change_action="LOWER", locale="C")
    left = refused(preparing, known, kind)
    if left:
        x = _guarded(op, x, f"(?s).*[{left}].*")
    return x, changes(preparing, known, kind)


def _guarded(op: OpBuilder, x: ir.Value, refused: str) -> ir.Value:
    """The documents, or an error of the runtime where one of them matches an expression."""
    out = op.cast(op.RegexFullMatch(x, pattern=refused), ir.DataType.INT64)
    # which has no element 1
    return op.StringConcat(x, op.node("Gather", op.const(np.array([""], object)), out, name=GUARD))


def split(op: OpBuilder, x: ir.Value, **options: object) -> tuple[ir.Value, ir.Value]:
    """Pieces [..., K], "" beyond the last one, with one column of "" at least; and how many there are."""
    pieces, counts = op.StringSplit(x, **options)
    column = op.Gather(op.const(np.array([""], object)), op.Mul(counts, 0), axis=0)
    return op.Concat(pieces, op.Unsqueeze(column, op.axes(-1)), axis=-1), counts


def cut_at_separators(
    op: OpBuilder, x: ir.Value, rule: TokenRule, changes: Changes, plain: str, known: Sequence[str]
) -> cutting.Cells:
    """Strings [N] cut at each run of characters that no token has, whatever they are.

    Args:
        op: the builder.
        x: pieces of documents, without spaces.
        rule: what a token is.
        changes: what is to be replaced before.
        plain: characters of tokens that nothing replaces.
        known: characters of tokens, those that matter most first.
    """
    often, quotes, others = _separators(rule.is_inside)
    inside = rule.class_of_runs
    words = cutting.whole(op, x)
    rare = _strange(op, words, cutting.inside_of(plain + often))

    def with_rare(b: OpBuilder) -> cutting.Cells:
        cells = words.only(b, rare)
        cells = cutting.between_few(b, replace(cells, strings=replaced(b, cells.strings, changes)), quotes)
        strange = _strange(b, cells, inside + cutting.inside_of(often))
        cells = cutting.where_any(b, cells, strange, lambda c: with_unknown(c, cells))
        return words.only(b, b.Not(rare)).and_then(b, cells)

    def with_unknown(b: OpBuilder, cells: cutting.Cells) -> cutting.Cells:
        cells = cutting.between_few(b, cutting.between(b, cells, others), often)
        strange = _strange(b, cells, inside)
        return cutting.where_any(b, cells, strange, lambda c: _cut_at_unknown(c, cells, strange, inside, known))

    return cutting.between_few(op, cutting.where_any(op, words, rare, with_rare), often)


def _strange(op: OpBuilder, x: cutting.Cells, inside: str) -> ir.Value:
    """Which cells have a character outside a class."""
    return op.Not(op.RegexFullMatch(x.strings, pattern=f"[{inside}]*"))


def _cut_at_unknown(
    op: OpBuilder, x: cutting.Cells, strange: ir.Value, inside: str, known: Sequence[str]
) -> cutting.Cells:
    """Strange cells cut at runs of any characters outside a class.

    Known characters are set apart, so that what stands between them can be asked whether it is of the class
    as a whole or not at all; a run of both kinds is an error.
    """
    places = op.Reshape(op.NonZero(strange), [-1])
    chosen = op.Gather(x.strings, places, axis=0)
    fine = cutting.apart(op, chosen, ["".join(sorted(known[:_ALPHABET]))])
    outside = op.RegexFullMatch(fine.strings, pattern=f"[^{inside}]+")
    strings = op.Where(outside, op.const(np.array(" ", object)), fine.strings)
    cut = joined(op, replace(fine, strings=strings))
    cut = _guarded(op, cut, f"(?s).*[^{inside} ].*")
    pieces, _ = split(op, op.ScatterElements(x.strings, places, cut, axis=0))
    rows = op.Expand(op.Unsqueeze(x.rows, op.axes(1)), op.Shape(pieces))
    return cutting.Cells(op.Reshape(pieces, [-1]), op.Reshape(rows, [-1]), x.count).there(op)


def alphabet(is_inside: Callable[[str], bool], terms: Iterable[str]) -> list[str]:
    """The characters of words, of ASCII and then of a vocabulary, the most frequent ones first."""
    ascii_ones = [c for c in map(chr, range(0x21, 0x7F)) if is_inside(c)]
    text = "".join(terms)
    often = Counter(text).most_common() if not text.isascii() else ()
    return [*ascii_ones, *(c for c, _ in often if not c.isascii())]


def _separators(is_inside: Callable[[str], bool]) -> tuple[str, str, list[str]]:
    """The characters of ordinary text that are no part of a token: what most texts have, quotes and dashes, other groups."""
    separators = [c for block in SEPARATORS for c in map(chr, range(*block)) if not is_inside(c) and c not in _RARE]
    often, quotes = ("".join(c for c in group if c in separators) for group in (_OFTEN, _QUOTES))
    rest = [c for c in separators if c not in often + quotes]
    ascii_ones = "".join(c for c in rest if c.isascii())
    return often, quotes, [ascii_ones, "".join(c for c in rest if not c.isascii())]
