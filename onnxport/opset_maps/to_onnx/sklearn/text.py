"""Text: tokens by standard operators, terms counted and weighted.

A document is brought to lower case and cut at spaces, and each different piece is looked at once: characters that are no part
of a token become spaces in it (`characters`), and StringSplit cuts there again. For terms of characters each known character is
set apart by spaces instead; a space itself is spelled as a character that is no text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import Case, built, f64
from onnxport.opset_maps.maps import sklearn
from onnxport.opset_maps.to_onnx.sklearn.arrays import Array
from onnxport.opset_maps.to_onnx.sklearn.characters import (
    SOMETHING,
    SPACE,
    alphabet,
    cut_at_others,
    guarded,
    is_space,
    preparation,
    prepared,
    replaced,
    separators,
    split,
    without,
)
from onnxport.opset_maps.to_onnx.sklearn.fitted import made
from onnxport.opset_maps.to_onnx.sklearn.table import Table, floats, matrix
from onnxport.opset_maps.to_onnx.sklearn.token_patterns import TokenRule, token_rule

_HERE = "feature_extraction.text"
_SPACES = "".join(c for c in map(chr, range(0x3001)) if is_space(c))
# Spelled as noncharacters of Unicode, which no text holds: a space, and the other characters that \s matches.
MARKS = {space: chr(ord(SPACE) + i) for i, space in enumerate(" " + _SPACES.replace(" ", ""))}
_TEXT = ir.DataType.STRING
_BLANK = np.array("", object)


# -- documents to tokens -----------------------------------------------------------------------------------------------------


def documents_of(op: OpBuilder, model: Any, x: Table) -> ir.Value:
    """The documents as a vector, and another one after them: operators on text fail where there is none."""
    if op.opset < 20:
        raise UnsupportedOperator(f"{type(model).__name__}: text is split from opset 20 on: ask for target_opset=21")
    value = matrix(op, x)
    if value.dtype != _TEXT:
        raise UnsupportedOperator(f"{type(model).__name__}: documents are strings: give a list of them as inputs")
    if value.shape is not None and value.shape.rank() != 1:
        value = op.Reshape(value, [-1])
    return op.Concat(value, op.const(np.array([SOMETHING], object)), axis=0)


def _each_once(
    op: OpBuilder, pieces: ir.Value, change: Callable[[ir.Value], ir.Value], plain: str | None = None
) -> ir.Value:
    """What `change` makes of each different piece, [M] to [M, L], laid where the piece stands: [N, K, L].

    Pieces that match the expression `plain` in full stay as they are.
    """
    found, _, places, _ = op.node("Unique", pieces, outputs=4)
    found = op.typed(found, _TEXT, [None])
    places = op.Reshape(op.typed(places, ir.DataType.INT64, [None]), op.shape(pieces))
    count = op.Squeeze(op.shape(found), op.axes(0))
    numbers = op.Range(0, count, 1)
    if plain is None:
        changed = change(found)
        size = op.Squeeze(op.dim(changed, 1), op.axes(0))
        index = op.Add(op.Unsqueeze(op.Mul(numbers, size), op.axes(1)), op.Range(0, size, 1))
    else:
        odd = op.Not(op.RegexFullMatch(found, pattern=plain))
        chosen = op.typed(op.Compress(found, odd, axis=0), _TEXT, [None])
        more = op.const(np.array([SOMETHING, ""], object))
        changed = change(op.typed(op.Concat(chosen, more, axis=0), _TEXT, [None]))
        size = op.Squeeze(op.dim(changed, 1), op.axes(0))
        rank = op.Sub(op.CumSum(op.cast(odd, ir.DataType.INT64), op.const(np.int64(0))), 1)
        first = op.Where(odd, op.Add(op.Mul(rank, size), count), numbers)
        columns = op.Range(0, size, 1)
        within = op.Or(op.Unsqueeze(odd, op.axes(1)), op.Equal(columns, 0))
        index = op.Where(within, op.Add(op.Unsqueeze(first, op.axes(1)), columns), -1)  # the last one is empty
    letters = op.Reshape(changed, [-1])
    letters = letters if plain is None else op.Concat(found, letters, axis=0)
    # by element: onnxruntime's Gather takes only the first string of a row
    found = op.Gather(letters, op.Gather(index, places, axis=0), axis=0)
    return op.typed(found, _TEXT, [None, None, None])


def _in_rows(op: OpBuilder, x: ir.Value) -> ir.Value:
    """[N, K, L] as [N, K * L]."""
    return op.typed(op.Reshape(x, [0, -1]), _TEXT, [None, None])


def _moved_together(op: OpBuilder, items: ir.Value, out: ir.Value) -> ir.Value:
    """The items that are not out, moved to the front of their row; "" beyond them."""
    size = op.Squeeze(op.dim(items, 1), op.axes(0))
    keys = op.Add(op.Mul(op.cast(out, ir.DataType.INT64), size), op.Range(0, size, 1))
    order, index = op.TopK(keys, op.dim(items, 1), axis=1, largest=0, sorted=1)
    moved = op.GatherElements(items, index, axis=1)
    return op.Where(op.Less(order, size), moved, op.const(_BLANK))


def words(
    op: OpBuilder, model: Any, rule: TokenRule, x: ir.Value, terms: Sequence[str], *, compact: bool = False
) -> ir.Value:
    """The tokens of documents [N], as [N, K], "" where there is none.

    Args:
        op: the builder.
        model: the vectorizer.
        rule: what a token is.
        x: the documents.
        terms: the vocabulary.
        compact: leave no gaps between tokens, nor what is none; terms of several words have it so anyway.
    """
    x = prepared(op, preparation(model), x, {c for term in terms for c in term}, rule.is_inside)
    pieces, _ = split(op, x)
    outside = separators(rule.is_inside)

    def cut(found: ir.Value) -> ir.Value:
        for block in outside:
            found = without(op, found, [(c, " ") for c in block])
        found = cut_at_others(op, found, rule.class_of_runs, alphabet(rule.is_inside, terms))
        found = guarded(op, found, op.RegexFullMatch(found, pattern=f"[{rule.class_of_runs} ]*"))
        return split(op, found)[0]

    found = _in_rows(op, _each_once(op, pieces, cut, f"[{rule.class_of_runs}]*"))
    if model.ngram_range[1] == 1 and not compact:
        return found
    out = op.Not(op.RegexFullMatch(found, pattern=rule.re2))
    dropped = sorted(model.get_stop_words() or ())
    if dropped:
        stops = op.ml.LabelEncoder(found, keys_strings=dropped, values_int64s=[1] * len(dropped), default_int64=0)
        out = op.Or(out, op.Equal(op.typed(stops, ir.DataType.INT64, found.shape), 1))
    return _moved_together(op, found, out)


def _letters(op: OpBuilder, x: ir.Value, characters: Sequence[str]) -> ir.Value:
    """The characters of short texts [M], [M, L]: those known are apart from each other and from the others."""
    for character in characters:
        x = replaced(op, x, character, f" {character} ")
    return split(op, x)[0]


def _prepared_characters(op: OpBuilder, model: Any, x: ir.Value, terms: Sequence[str]) -> ir.Value:
    x = prepared(op, preparation(model), x, {c for term in terms for c in term}, is_space)
    return guarded(op, x, op.RegexFullMatch(x, pattern="(?s)[^\\x{FDD0}-\\x{FDEF}]*"))


def characters_of_text(op: OpBuilder, model: Any, x: ir.Value, terms: Sequence[str]) -> ir.Value:
    """The characters of documents [N], as [N, K], runs of spaces as one (analyzer="char")."""
    x = _prepared_characters(op, model, x, terms)
    x = without(op, x, [(space, mark) for space, mark in MARKS.items() if space != " "])
    pieces, counts = split(op, x, delimiter=" ")
    known = sorted({MARKS.get(c, c) for term in terms for c in term} | set(MARKS.values()))
    used = [c for c in known if c != SPACE and c not in MARKS.values()]
    marks = [mark for mark in MARKS.values() if mark != SPACE]

    def cut(found: ir.Value) -> ir.Value:
        spread = without(op, found, [(mark, f" {mark} ") for mark in marks])
        return _letters(op, spread, used)

    letters = _each_once(op, pieces, cut)
    places = op.Range(0, op.Squeeze(op.dim(pieces, 1), op.axes(0)), 1)
    inner = op.Less(places, op.Sub(op.Unsqueeze(counts, op.axes(1)), 1))
    space = op.Where(inner, op.const(np.array(SPACE, object)), op.const(_BLANK))
    found = _in_rows(op, op.Concat(letters, op.Unsqueeze(space, op.axes(2)), axis=2))
    found = _moved_together(op, found, op.Equal(found, op.const(_BLANK)))
    # of a run of spaces the first stays, as a plain space
    is_mark = op.RegexFullMatch(found, pattern="[\\x{FDD0}-\\x{FDEF}]")
    flags = op.cast(is_mark, ir.DataType.INT64)
    before = op.Pad(op.Slice(flags, [0], [-1], [1]), [0, 1, 0, 0])
    after = op.Pad(op.Slice(flags, [1], [np.iinfo(np.int64).max], [1]), [0, 0, 0, 1])
    found = op.Where(op.And(is_mark, op.Equal(after, 1)), op.const(np.array(SPACE, object)), found)
    return _moved_together(op, found, op.And(is_mark, op.Equal(before, 1)))


def characters_of_words(op: OpBuilder, model: Any, x: ir.Value, terms: Sequence[str]) -> tuple[ir.Value, ir.Value]:
    """The characters of documents' words, each between spaces and apart from the next, [N, K]; and the words, [N, W]."""
    x = _prepared_characters(op, model, x, terms)
    x = without(op, x, [(space, " ") for space in MARKS if space != " "])
    pieces, _ = split(op, x)
    used = sorted({MARKS.get(c, c) for term in terms for c in term} | {SPACE})

    def cut(found: ir.Value) -> ir.Value:
        mark = op.const(np.array([SPACE], object))
        padded = op.StringConcat(mark, op.StringConcat(found, mark))
        return _letters(op, op.Where(op.Equal(found, op.const(_BLANK)), found, padded), used)

    return _in_rows(op, _each_once(op, pieces, cut)), pieces


# -- tokens to counts --------------------------------------------------------------------------------------------------------


@dataclass
class _Pools:
    """Terms by their number of tokens, for TfIdfVectorizer."""

    low: int
    high: int

    def __post_init__(self) -> None:
        self.tokens: list[list[str]] = [[] for _ in range(self.high)]
        self.places: list[list[int]] = [[] for _ in range(self.high)]

    def add(self, parts: Sequence[str], place: int) -> None:
        """One term and its column."""
        self.tokens[len(parts) - 1] += parts
        self.places[len(parts) - 1].append(int(place))

    def counts(self, op: OpBuilder, items: ir.Value, width: int) -> Array | None:
        """How often each term occurs in the rows of items but the last, float32 [N, width]; None where there is no term."""
        places = [place for group in self.places for place in group]
        if not places:
            return None
        rows = op.Slice(items, [0], [-1], [0])  # of the strings, which are few beside the counts

        def none(b: OpBuilder) -> list[ir.Value]:
            return [b.Expand(b.const(np.float32(0)), b.const(np.array([0, width])))]

        def counted(b: OpBuilder) -> list[ir.Value]:
            found = b.TfIdfVectorizer(
                rows,
                mode="TF",
                min_gram_length=self.low,
                max_gram_length=self.high,
                max_skip_count=0,
                ngram_counts=np.cumsum([0, *(len(pool) for pool in self.tokens[:-1])]).tolist(),
                ngram_indexes=places,
                pool_strings=[word for pool in self.tokens for word in pool],
            )
            found = b.typed(found, ir.DataType.FLOAT, [None, max(places) + 1])
            missing = width - max(places) - 1
            return [b.Pad(found, [0, 0, 0, missing]) if missing else found]

        empty = op.Equal(op.Squeeze(op.dim(rows, 0), op.axes(0)), 0)
        found = op.If(empty, then_branch=op.body(none), else_branch=op.body(counted))
        return Array(op, op.typed(found, ir.DataType.FLOAT, [None, width]))


def term_counts(op: OpBuilder, model: Any, x: Table) -> Array:
    """How often each document has each term, float32 [N, V]."""
    batch = matrix(op, x).shape
    documents = documents_of(op, model, x)
    count = {"word": _counted_words, "char": _counted_characters, "char_wb": _counted_in_words}.get(str(model.analyzer))
    if count is None:
        raise UnsupportedOperator(f"{type(model).__name__}: analyzer={model.analyzer!r} has no ONNX form")
    found = [item for item in count(op, model, documents) if item is not None]
    if not found:
        raise UnsupportedOperator(f"{type(model).__name__}: no term of the vocabulary can occur in a document")
    total = found[0] if len(found) == 1 else found[0] + found[1]
    shape = [batch[0] if batch is not None else None, len(model.vocabulary_)]
    return Array(op, op.typed(total.value, ir.DataType.FLOAT, shape))


def _counted_words(op: OpBuilder, model: Any, x: ir.Value) -> list[Array | None]:
    preparation(model)
    rule = token_rule(model.token_pattern)
    pools, stops = _Pools(*model.ngram_range), model.get_stop_words() or ()
    for term, place in model.vocabulary_.items():
        parts = term.split(" ")
        if (
            pools.low <= len(parts) <= pools.high
            and all(map(rule.is_token, parts))
            and not any(p in stops for p in parts)
        ):
            pools.add(parts, place)  # others are no terms of this analyzer
    return [pools.counts(op, words(op, model, rule, x, list(model.vocabulary_)), len(model.vocabulary_))]


def _counted_characters(op: OpBuilder, model: Any, x: ir.Value) -> list[Array | None]:
    pools = _Pools(*model.ngram_range)
    for term, place in model.vocabulary_.items():
        if pools.low <= len(term) <= pools.high:
            pools.add([MARKS.get(c, c) for c in term], place)
    return [pools.counts(op, characters_of_text(op, model, x, list(model.vocabulary_)), len(model.vocabulary_))]


def _counted_in_words(op: OpBuilder, model: Any, x: ir.Value) -> list[Array | None]:
    pools, short = _Pools(*model.ngram_range), _Pools(1, 1)
    for term, place in model.vocabulary_.items():
        if pools.low <= len(term) <= pools.high:
            pools.add([MARKS.get(c, c) for c in term], place)
        elif len(term) < pools.low and len(term) > 2 and term[0] == term[-1] == " ":
            short.add([term[1:-1]], place)  # a word that is shorter than the shortest term counts whole
    letters, pieces = characters_of_words(op, model, x, list(model.vocabulary_))
    width = len(model.vocabulary_)
    return [pools.counts(op, letters, width), short.counts(op, pieces, width)]


# -- vectorizers -------------------------------------------------------------------------------------------------------------

_DOCUMENTS = [
    "The quick brown fox; the lazy dog. Isn't it QUICK?",
    "A na\u00efve caf\u00e9-owner paid 3.50 \u20ac for the \u201cfox\u201d",
    "dog dog fox",
    "we re-read the lazy docs: fox, dog & Co.",
]
_FRESH = np.array(
    [
        "The fox isn't lazy; THE DOG is!",
        "",
        "CAF\u00c9\u2026 na\u00efve (quick) a b dog",
        "nothing known",
        "lazy dog, lazy fox",
    ],
    object,
)


def _vectorizer(name: str, **options: Any) -> Any:
    return made(_HERE, name, **options).fit(_DOCUMENTS)


def _cases(name: str, *variants: dict[str, Any]) -> list[Case]:
    return [built(_maker(name, options), _FRESH, name=str(options)) for options in variants]


def _maker(name: str, options: dict[str, Any]) -> Any:
    return lambda: _vectorizer(name, **options)


@sklearn.lower(
    "CountVectorizer.transform",
    cases=_cases(
        "CountVectorizer",
        {},
        {"ngram_range": (1, 2)},
        {"binary": True, "lowercase": False},
        {"ngram_range": (2, 3), "stop_words": ["the", "is"]},
        {"token_pattern": r"(?u)\b\w+\b"},
        {"analyzer": "char", "ngram_range": (1, 2)},
        {"analyzer": "char_wb", "ngram_range": (3, 4)},
    ),
)
def counted(op: OpBuilder, model: Any, x: Table) -> Array:
    """How often each term occurs, or whether it does."""
    found = term_counts(op, model, x)
    return (np.minimum(found, 1.0) if model.binary else found).astype(model.dtype)


@sklearn.lower(
    "TfidfVectorizer.transform",
    cases=_cases(
        "TfidfVectorizer", {}, {"sublinear_tf": True, "norm": "l1"}, {"ngram_range": (1, 2), "use_idf": False}
    ),
)
def weighted_terms(op: OpBuilder, model: Any, x: Table) -> Array:
    """Counts, weighted by how rare the terms are among the fitted documents."""
    found = term_counts(op, model, x)
    return _weighted(model._tfidf, (np.minimum(found, 1.0) if model.binary else found).astype(model.dtype))


@sklearn.lower(
    "TfidfTransformer.transform",
    cases=[
        built(lambda: made(_HERE, "TfidfTransformer").fit(np.eye(4) + 1), f64(5, 4, low=0, high=3)),
        built(
            lambda: made(_HERE, "TfidfTransformer", sublinear_tf=True, norm=None).fit(np.eye(4)),
            f64(5, 4, low=1, high=3),
        ),
    ],
)
def weighted_counts(op: OpBuilder, model: Any, x: Table) -> Array:
    """Counts, weighted by how rare the terms are among the fitted documents."""
    return _weighted(model, floats(op, x))


def _weighted(model: Any, counts: Array) -> Array:
    """Term frequency times inverse document frequency (Manning, Raghavan and Schuetze, Information Retrieval, 6.2)."""
    if model.sublinear_tf:
        counts = np.where(counts > 0, np.log(np.where(counts > 0, counts, 1.0)) + 1.0, 0.0)
    if model.use_idf:
        counts = counts * np.asarray(model.idf_).astype(counts.dtype)
    return normalized_rows(counts, model.norm)


def normalized_rows(counts: Array, norm: str | None) -> Array:
    """Rows divided by their l1, l2 or greatest norm; those of zeros as they are."""
    if norm is None:
        return counts
    if norm == "l1":
        size = np.sum(np.abs(counts), axis=1, keepdims=True)
    elif norm == "l2":
        size = np.linalg.norm(counts, axis=1, keepdims=True)
    else:
        size = np.max(np.abs(counts), axis=1, keepdims=True)
    return counts / np.where(size == 0.0, 1.0, size)
