"""Text: tokens by standard operators, terms counted and weighted.

A document is brought to lower case, each character that is no part of a word becomes a space, and StringSplit cuts at the
spaces. ONNX has no operator that sees single characters, but StringSplit at one and StringConcat of the pieces replace it
(`_replaced`); this is done for each character that is not part of a word, of those that text is usually written with, where a
document has it. What remains is checked: a document with another such character ends in an error of the runtime, at the node
`_GUARD`, not in wrong tokens.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import Case, built, f64
from onnxport.opset_maps.maps import sklearn
from onnxport.opset_maps.to_onnx.sklearn.arrays import Array
from onnxport.opset_maps.to_onnx.sklearn.fitted import made
from onnxport.opset_maps.to_onnx.sklearn.table import Table, floats, matrix

_HERE = "feature_extraction.text"
_GUARD = "a_character_that_this_graph_can_not_split_at"
# Where the separators of ordinary text stand: ASCII and its controls, Latin-1, punctuation, currencies, CJK punctuation.
_BLOCKS = ((0x00, 0x80), (0x80, 0x100), (0x2000, 0x2070), (0x20A0, 0x20D0), (0x3000, 0x3020), (0xFEFF, 0xFF10))
# Token patterns that say "words of at least so many characters".
_WORDS = {r"\b\w\w+\b": 2, r"\b\w+\b": 1, r"\w+": 1, r"\w\w+": 2, r"\b\w{2,}\b": 2, r"\w{2,}": 2, r"\b\w\w\w+\b": 3}
_INSIDE = r"[\p{L}\p{N}_ ]*"


@cache
def _separators() -> tuple[str, ...]:
    """The characters of `_BLOCKS` that are no part of a word, a string for each block; a space is one already."""
    blocks = (map(chr, range(*block)) for block in _BLOCKS)
    return tuple("".join(c for c in block if not re.match(r"\w", c) and c not in " \0") for block in blocks)


@cache
def _capitals() -> dict[str, str]:
    """For each character those outside ASCII whose lower case it is."""
    found: dict[str, str] = {}
    for code in range(0x80, 0x1E944):
        lower = chr(code).lower()
        if lower != chr(code) and len(lower) == 1:
            found[lower] = found.get(lower, "") + chr(code)
    return found


def _has(op: OpBuilder, x: ir.Value, characters: str) -> ir.Value:
    """Whether any document has one of the characters."""
    escaped = "".join(f"\\x{{{ord(c):x}}}" for c in characters)
    found = op.cast(op.RegexFullMatch(x, pattern=f"(?s).*[{escaped}].*"), ir.DataType.INT32)
    return op.cast(op.reduce("ReduceMax", found, [0], keepdims=False), ir.DataType.BOOL)


def _chosen(op: OpBuilder, condition: ir.Value, x: ir.Value, change: Callable[[OpBuilder], ir.Value]) -> ir.Value:
    """`x` changed where the condition holds."""
    found = op.If(condition, then_branch=op.body(lambda b: [change(b)]), else_branch=op.body(lambda b: [b.Identity(x)]))
    return op.typed(found, ir.DataType.STRING, x.shape)


def _replaced(op: OpBuilder, x: ir.Value, old: str, new: str) -> ir.Value:
    """The documents with a character replaced; at least one of them has it."""
    pieces, counts = op.StringSplit(x, delimiter=old)
    pieces = op.typed(pieces, ir.DataType.STRING, [x.shape[0] if x.shape is not None else None, None])
    first = op.Squeeze(op.Slice(pieces, [0], [1], [1]), op.axes(1))

    def step(b: OpBuilder) -> list[ir.Value]:
        number = b.input("number", ir.DataType.INT64, [])
        going = b.input("going", ir.DataType.BOOL, [])
        joined = b.input("joined", ir.DataType.STRING, list(x.shape or ()))
        place = b.Add(number, 1)
        piece = b.StringConcat(b.const(np.array(new, object)), b.Gather(pieces, place, axis=1))
        piece = b.Where(b.Less(place, counts), piece, b.const(np.array("", object)))
        return [b.Identity(going), b.StringConcat(joined, piece)]

    last = op.Sub(op.Squeeze(op.dim(pieces, 1), op.axes(0)), 1)
    found = op.Loop(last, True, first, body=op.body(step), outputs=1)
    return op.typed(found, ir.DataType.STRING, x.shape)


def _without(op: OpBuilder, x: ir.Value, changes: Sequence[tuple[str, str]]) -> ir.Value:
    """The documents with each character replaced by the text beside it."""

    def all_of_them(b: OpBuilder) -> ir.Value:
        value = x
        for old, new in changes:
            value = _chosen(b, _has(b, value, old), value, _replacer(value, old, new))
        return value

    return _chosen(op, _has(op, x, "".join(old for old, _ in changes)), x, all_of_them) if changes else x


def _replacer(x: ir.Value, old: str, new: str) -> Callable[[OpBuilder], ir.Value]:
    return lambda b: _replaced(b, x, old, new)


def tokens(op: OpBuilder, model: Any, x: ir.Value, characters: Iterable[str]) -> ir.Value:
    """The words of each document, [N + 1, K], "" beyond the last one; the document added is empty.

    Args:
        op: the builder.
        model: the vectorizer.
        x: the documents.
        characters: those that the vocabulary is written with.
    """
    least = _least_length(model)
    if x.shape is not None and x.shape.rank() != 1:
        x = op.Reshape(x, [-1])
    x = op.Concat(x, op.const(np.array([""], object)), axis=0)  # operators on text fail where there is none
    if model.lowercase:
        # only ASCII is told apart by the locale "C", which every machine has
        x = op.typed(op.StringNormalizer(x, case_change_action="LOWER", locale="C"), ir.DataType.STRING, x.shape)
        letters = [(u, c) for c in sorted(set(characters)) for u in _capitals().get(c, "")]
        x = _without(op, x, [*letters, ("\u0130", "i ")])  # whose lower case is an i and a dot apart
    for block in _separators():
        x = _without(op, x, [(c, " ") for c in block])
    inside = op.cast(op.RegexFullMatch(x, pattern=_INSIDE), ir.DataType.INT64)
    guard = op.node("Gather", op.const([0]), op.Sub(1, inside), name=_GUARD)
    words, counts = op.StringSplit(x)
    words = op.typed(words, ir.DataType.STRING, [None, None])
    # every row gets a word that is none, so that none is without columns; the guard's zeros keep it in the graph
    blank = op.Gather(op.const(np.array([""], object)), op.Mul(op.Add(guard, counts), 0), axis=0)
    words = op.Concat(words, op.Unsqueeze(blank, op.axes(1)), axis=1)
    dropped = sorted(model.get_stop_words() or ())
    if model.ngram_range[1] > 1 and (least > 1 or dropped):
        words = _compacted(op, words, least, dropped)
    return words


def _compacted(op: OpBuilder, words: ir.Value, least: int, dropped: Sequence[str]) -> ir.Value:
    """The words without short ones and stop words, the others moved together, for terms of several words."""
    out = op.Not(op.RegexFullMatch(words, pattern=f"(?s).{{{least},}}"))
    if dropped:
        stops = op.ml.LabelEncoder(words, keys_strings=list(dropped), values_int64s=[1] * len(dropped), default_int64=0)
        stops = op.typed(stops, ir.DataType.INT64, words.shape)
        out = op.Or(out, op.Equal(stops, 1))
    size = op.Squeeze(op.dim(words, 1), op.axes(0))
    places = op.Range(0, size, 1)
    keys = op.Add(op.Mul(op.cast(out, ir.DataType.INT64), size), places)
    order, index = op.TopK(keys, op.dim(words, 1), axis=1, largest=0, sorted=1)
    moved = op.GatherElements(words, index, axis=1)
    return op.Where(op.Less(order, size), moved, op.const(np.array("", object)))


def _least_length(model: Any) -> int:
    name = type(model).__name__
    for argument, plain in (("preprocessor", None), ("tokenizer", None), ("strip_accents", None), ("analyzer", "word")):
        if getattr(model, argument) != plain:
            raise UnsupportedOperator(
                f"{name}: {argument}={getattr(model, argument)!r} has no ONNX form, which sees no single characters; "
                "do that step before the model"
            )
    pattern = (model.token_pattern or "").removeprefix("(?u)")
    if pattern not in _WORDS:
        raise UnsupportedOperator(
            f"{name}: token_pattern={model.token_pattern!r} has no ONNX form; words are {', '.join(sorted(_WORDS))}"
        )
    return _WORDS[pattern]


def term_counts(op: OpBuilder, model: Any, x: Table) -> Array:
    """How often each document has each term, float32 [N, V]."""
    if op.opset < 20:
        raise UnsupportedOperator(f"{type(model).__name__}: text is split from opset 20 on: ask for target_opset=21")
    value = matrix(op, x)
    if value.dtype != ir.DataType.STRING:
        raise UnsupportedOperator(f"{type(model).__name__}: documents are strings: give a list of them as inputs")
    vocabulary = model.vocabulary_
    words = tokens(op, model, value, {c for term in vocabulary for c in term})
    low, high = model.ngram_range
    pools: list[list[str]] = [[] for _ in range(high)]
    places: list[list[int]] = [[] for _ in range(high)]
    for term, place in vocabulary.items():
        parts = term.split(" ")
        if low <= len(parts) <= high and all(parts):  # others are no terms of this analyzer
            pools[len(parts) - 1] += parts
            places[len(parts) - 1].append(int(place))
    if not any(pools):
        raise UnsupportedOperator(f"{type(model).__name__}: no term of the vocabulary can occur in a document")
    found = op.TfIdfVectorizer(
        words,
        mode="TF",
        min_gram_length=low,
        max_gram_length=high,
        max_skip_count=0,
        ngram_counts=np.cumsum([0, *(len(pool) for pool in pools[:-1])]).tolist(),
        ngram_indexes=[place for group in places for place in group],
        pool_strings=[word for pool in pools for word in pool],
    )
    width, batch = len(vocabulary), value.shape[0] if value.shape is not None else None
    found = op.typed(op.Slice(found, [0], [-1], [0]), ir.DataType.FLOAT, [batch, None])
    present = max(place for group in places for place in group) + 1
    if present < width:
        found = op.Pad(found, [0, 0, 0, width - present])
    return Array(op, op.typed(found, ir.DataType.FLOAT, [batch, width]))


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
    if model.norm is None:
        return counts
    if model.norm == "l1":
        norm = np.sum(np.abs(counts), axis=1, keepdims=True)
    elif model.norm == "l2":
        norm = np.sqrt(np.sum(counts * counts, axis=1, keepdims=True))
    else:
        norm = np.max(np.abs(counts), axis=1, keepdims=True)
    return counts / np.where(norm == 0.0, 1.0, norm)
