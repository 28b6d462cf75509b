"""Text: tokens by standard operators, terms counted and weighted.

A document is brought to lower case and cut at spaces, and each different piece is looked at once: it is cut at the characters
that are no part of a token (`characters`), or, for terms of characters, into those that are known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import Case, built, f64
from onnxport.opset_maps.maps import sklearn
from onnxport.opset_maps.to_onnx.sklearn.arrays import Array
from onnxport.opset_maps.to_onnx.sklearn.cells import apart, blank, having, inside_of, of_matrix
from onnxport.opset_maps.to_onnx.sklearn.characters import (
    SOMETHING,
    SPACES,
    Changes,
    alphabet,
    cut_at_others,
    is_space,
    preparation,
    prepared,
    replaced,
    separators,
    split,
)
from onnxport.opset_maps.to_onnx.sklearn.fitted import made
from onnxport.opset_maps.to_onnx.sklearn.sparse import Held, held
from onnxport.opset_maps.to_onnx.sklearn.sparse_rows import SparseRows
from onnxport.opset_maps.to_onnx.sklearn.table import Table, floats, matrix
from onnxport.opset_maps.to_onnx.sklearn.token_patterns import TokenRule, token_rule

_HERE = "feature_extraction.text"
_TEXT = ir.DataType.STRING
# Vocabularies of so many words are counted by LabelEncoder: TfIdfVectorizer writes a matrix of them all, twice.
_WIDE = 4096
_SCATTERED = (np.dtype(np.float64), np.dtype(np.float32), np.dtype(np.int64))
# RE2's class of the characters that \s matches.
_ANY_SPACE = f"[{inside_of(SPACES)}]"


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


def _each_once(op: OpBuilder, pieces: ir.Value, change: Callable[[ir.Value], ir.Value]) -> ir.Value:
    """What `change` makes of each different piece, [M] to [M, L], laid where the piece stands: [N, K, L]."""
    found, _, places, _ = op.node("Unique", pieces, outputs=4)
    changed = change(op.typed(found, _TEXT, [None]))
    places = op.Reshape(op.typed(places, ir.DataType.INT64, [None]), op.shape(pieces))
    size = op.Squeeze(op.dim(changed, 1), op.axes(0))
    index = op.Add(op.Unsqueeze(op.Mul(places, size), op.axes(-1)), op.Range(0, size, 1))
    # by element: onnxruntime's Gather takes only the first string of a row
    return op.typed(op.Gather(op.Reshape(changed, [-1]), index, axis=0), _TEXT, [None, None, None])


def _odd_ones(
    op: OpBuilder, pieces: ir.Value, odd: Callable[[ir.Value], ir.Value], change: Callable[[ir.Value], ir.Value]
) -> ir.Value:
    """As `_each_once`; a piece that is not `odd` stays as it is, with nothing behind it."""
    flat = op.typed(op.Reshape(pieces, [-1]), _TEXT, [None])
    which = odd(flat)
    nothing = op.const(np.array([""], object))
    chosen = op.typed(op.Concat(op.Compress(flat, which, axis=0), nothing, axis=0), _TEXT, [None])
    found, _, places, _ = op.node("Unique", chosen, outputs=4)
    changed = change(op.typed(found, _TEXT, [None]))
    size = op.Squeeze(op.dim(changed, 1), op.axes(0))
    count = op.Squeeze(op.shape(flat), op.axes(0))
    rank = op.Sub(op.CumSum(op.cast(which, ir.DataType.INT64), op.const(np.int64(0))), 1)
    own = op.Gather(op.typed(places, ir.DataType.INT64, [None]), rank, axis=0)
    first = op.Where(which, op.Add(op.Mul(own, size), count), op.Range(0, count, 1))
    columns = op.Range(0, size, 1)
    within = op.Or(op.Unsqueeze(which, op.axes(1)), op.Equal(columns, 0))
    index = op.Where(within, op.Add(op.Unsqueeze(first, op.axes(1)), columns), -1)  # the last one is empty
    index = op.Reshape(index, op.Concat(op.shape(pieces), op.const([-1]), axis=0))
    pool = op.Concat(flat, op.Reshape(changed, [-1]), nothing, axis=0)
    return op.typed(op.Gather(pool, index, axis=0), _TEXT, [None, None, None])


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
    x, changes = prepared(op, preparation(model), x, {c for term in terms for c in term}, rule.is_inside)
    pieces, _ = split(op, x)
    plain = f"[{rule.class_of_runs}]*"

    def cut(found: ir.Value) -> ir.Value:
        found = replaced(op, found, changes)
        cells = apart(op, found, separators(rule.is_inside))
        is_separator = op.RegexFullMatch(cells.strings, pattern=f"[{inside_of(''.join(separators(rule.is_inside)))}]")
        cells = replace(cells, strings=op.Where(is_separator, blank(op), cells.strings)).there(op)
        return cut_at_others(op, cells, rule.class_of_runs, alphabet(rule.is_inside, terms)).laid(op)

    found = _in_rows(op, _odd_ones(op, pieces, _oddness(op, plain, changes), cut))
    if model.ngram_range[1] == 1 and not compact:
        return found
    out = op.Not(op.RegexFullMatch(found, pattern=rule.re2))
    dropped = sorted(model.get_stop_words() or ())
    if dropped:
        stops = op.ml.LabelEncoder(found, keys_strings=dropped, values_int64s=[1] * len(dropped), default_int64=0)
        out = op.Or(out, op.Equal(op.typed(stops, ir.DataType.INT64, found.shape), 1))
    return _moved_together(op, found, out)


def joined_terms(op: OpBuilder, tokens: ir.Value, low: int, high: int, between: str) -> list[ir.Value]:
    """Terms of `low` to `high` tokens that stand side by side, each [N, K], "" where there is none."""
    nothing, found, term = blank(op), [], tokens
    column = op.Slice(tokens, [0], [1], [1])
    column = op.Where(op.Equal(column, nothing), column, nothing)
    following = tokens
    for size in range(1, high + 1):
        if size > 1:
            following = op.Concat(op.Slice(following, [1], [np.iinfo(np.int64).max], [1]), column, axis=1)
            longer = op.StringConcat(op.StringConcat(term, op.const(np.array([between], object))), following)
            some = op.And(op.Not(op.Equal(term, nothing)), op.Not(op.Equal(following, nothing)))
            term = op.Where(some, longer, nothing)
        if size >= low:
            found.append(term)
    return found


def side_by_side(op: OpBuilder, parts: Sequence[ir.Value]) -> ir.Value:
    """Matrices of strings as one."""
    return parts[0] if len(parts) == 1 else op.Concat(*parts, axis=1)


def _oddness(op: OpBuilder, plain: str, changes: Changes) -> Callable[[ir.Value], ir.Value]:
    """Which pieces do not match an expression in full or hold a character that changes."""
    old = "".join(character for group in changes for character, _ in group)

    def odd(found: ir.Value) -> ir.Value:
        other = op.Not(op.RegexFullMatch(found, pattern=plain))
        return op.Or(other, having(op, found, old)) if old else other

    return odd


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
    pieces, _ = split(op, x)

    def cut(found: ir.Value) -> ir.Value:
        cells = apart(op, replaced(op, found, changes), _blocks(set(SPACES)))
        spaces = op.RegexFullMatch(cells.strings, pattern=_ANY_SPACE)
        return replace(cells, strings=op.Where(spaces, blank(op), cells.strings)).there(op).laid(op)

    found = _in_rows(op, _odd_ones(op, pieces, _oddness(op, f"(?s)[^{_ANY_SPACE[1:]}*", changes), cut))
    words = of_matrix(op, found).laid(op)

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


def _known_terms(model: Any, rule: TokenRule) -> dict[str, int]:
    """The terms of the vocabulary that this analyzer can find."""
    (low, high), stops = model.ngram_range, model.get_stop_words() or ()
    return {
        term: int(place)
        for term, place in model.vocabulary_.items()
        if low <= len(parts := term.split(" ")) <= high
        and all(map(rule.is_token, parts))
        and not any(part in stops for part in parts)
    }


def _counted_words(op: OpBuilder, model: Any, x: ir.Value) -> list[Array | None]:
    preparation(model)
    rule = token_rule(model.token_pattern)
    pools = _Pools(*model.ngram_range)
    for term, place in _known_terms(model, rule).items():
        pools.add(term.split(" "), place)
    return [pools.counts(op, words(op, model, rule, x, list(model.vocabulary_)), len(model.vocabulary_))]


def _counted_characters(op: OpBuilder, model: Any, x: ir.Value) -> list[Array | None]:
    pools = _Pools(*model.ngram_range)
    for term, place in model.vocabulary_.items():
        if pools.low <= len(term) <= pools.high:
            pools.add(list(term), place)
    return [pools.counts(op, characters_of_text(op, model, x, list(model.vocabulary_)), len(model.vocabulary_))]


def _counted_in_words(op: OpBuilder, model: Any, x: ir.Value) -> list[Array | None]:
    pools, short = _Pools(*model.ngram_range), _Pools(1, 1)
    for term, place in model.vocabulary_.items():
        if pools.low <= len(term) <= pools.high:
            pools.add(list(term), place)
        elif len(term) < pools.low and len(term) > 2 and term[0] == term[-1] == " ":
            short.add([term[1:-1]], place)  # a word that is shorter than the shortest term counts whole
    letters, pieces = characters_of_words(op, model, x, list(model.vocabulary_))
    width = len(model.vocabulary_)
    return [pools.counts(op, letters, width), short.counts(op, pieces, width)]


def is_wide(model: Any) -> bool:
    """Whether counts of so many terms are better held as their entries."""
    return model.analyzer == "word" and len(model.vocabulary_) >= _WIDE and np.dtype(model.dtype) in _SCATTERED


def term_entries(op: OpBuilder, model: Any, x: Table) -> tuple[Array, Array]:
    """The terms in each document: columns, int64 [N, K], and how often they occur, float64 [N, K], 0 where there is none."""
    documents = documents_of(op, model, x)
    preparation(model)
    rule, (low, high) = token_rule(model.token_pattern), model.ngram_range
    places = _known_terms(model, rule)
    if not places:
        raise UnsupportedOperator(f"{type(model).__name__}: no term of the vocabulary can occur in a document")
    tokens = words(op, model, rule, documents, list(model.vocabulary_))
    found = side_by_side(op, joined_terms(op, tokens, low, high, " ")) if high > 1 else tokens
    found = op.Slice(found, [0], [-1], [0])
    columns = op.ml.LabelEncoder(
        found, keys_strings=list(places), values_int64s=list(places.values()), default_int64=-1
    )
    # equal ones come to stand side by side: a run's first one stands for all of them
    order, _ = op.TopK(op.typed(columns, ir.DataType.INT64, [None, None]), op.dim(columns, 1), axis=1, sorted=1)
    before = op.Pad(op.Slice(order, [0], [-1], [1]), [0, 1, 0, 0], -2)
    first = op.Not(op.Equal(order, before))
    runs = op.Sub(op.CumSum(op.cast(first, ir.DataType.INT64), op.const(np.int64(1))), 1)
    one = op.Expand(op.const(1.0, ir.DataType.DOUBLE), op.Shape(order))
    lengths = op.ScatterElements(op.Sub(one, one), runs, one, axis=1, reduction="add")
    times = op.GatherElements(lengths, runs, axis=1)
    counts = op.Where(op.And(first, op.GreaterOrEqual(order, 0)), times, op.const(0.0, ir.DataType.DOUBLE))
    batch = matrix(op, x).shape
    counts = op.typed(counts, ir.DataType.DOUBLE, [batch[0] if batch is not None else None, None])
    return Array(op, op.Max(order, op.const(np.int64(0)))), Array(op, counts)


def _dense(columns: Array, values: Array, model: Any) -> Array:
    rows = SparseRows(columns.value, values.astype(model.dtype).value, len(model.vocabulary_))
    return values.of(rows.dense(values.op))


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
    if is_wide(model):
        columns, found = term_entries(op, model, x)
        return _dense(columns, np.minimum(found, 1.0) if model.binary else found, model)
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
    if model.sublinear_tf and held(x) == Held.WITH_ZEROS:
        raise UnsupportedOperator(
            "TfidfTransformer: sublinear_tf=True is -inf of the zeros that a graph of distances stores"
        )
    inner = model._tfidf
    columns, found = term_entries(op, model, x) if is_wide(model) else (None, term_counts(op, model, x))
    found = (np.minimum(found, 1.0) if model.binary else found).astype(model.dtype)
    if columns is None:
        return _weighted(inner, found, inner.idf_ if inner.use_idf else None)
    idf = columns.of(op.Gather(op.const(inner.idf_), columns.value, axis=0)) if inner.use_idf else None
    return _dense(columns, _weighted(inner, found, idf), model)


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
    if model.sublinear_tf and held(x) == Held.WITH_ZEROS:
        raise UnsupportedOperator(
            "TfidfTransformer: sublinear_tf=True is -inf of the zeros that a graph of distances stores"
        )
    return _weighted(model, floats(op, x), model.idf_ if model.use_idf else None)


def _weighted(model: Any, counts: Array, idf: Any) -> Array:
    """Term frequency times inverse document frequency (Manning, Raghavan and Schuetze, Information Retrieval, 6.2)."""
    if model.sublinear_tf:
        stored = counts != 0  # of a negative count scikit-learn's logarithm is NaN
        counts = np.where(stored, np.log(np.where(stored, counts, 1.0)) + 1.0, 0.0)
    if idf is not None:
        counts = counts * idf.astype(counts.dtype)
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
