"""Tokens to terms, and how often each document has them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
import onnx_ir as ir
from sklearn.base import BaseEstimator

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.lowerings.cutting import blank, encoded
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array
from onnxport.opset_maps.to_onnx.sklearn.arrays.functions import symbol
from onnxport.opset_maps.to_onnx.sklearn.arrays.sparse_rows import gathered
from onnxport.opset_maps.to_onnx.sklearn.tables.table import Table, matrix
from onnxport.opset_maps.to_onnx.sklearn.text.letters import characters_of_text, characters_of_words, known_characters
from onnxport.opset_maps.to_onnx.sklearn.text.preparation import preparation
from onnxport.opset_maps.to_onnx.sklearn.text.token_patterns import TokenRule, token_rule
from onnxport.opset_maps.to_onnx.sklearn.text.tokens import documents_of, runs

_INT = ir.DataType.INT64
_END = np.iinfo(np.int64).max
# Vocabularies of so many words are counted as entries: TfIdfVectorizer writes a matrix of them all, twice.
_WIDE = 1024
_SCATTERED = (np.dtype(np.float64), np.dtype(np.float32), np.dtype(np.int64))
# Numbers of tokens that are none of the vocabulary, and of those that documents are read without.
_UNKNOWN, _STOP = -1, -2


def joined_terms(op: OpBuilder, tokens: ir.Value, low: int, high: int, between: str) -> list[ir.Value]:
    """Terms of `low` to `high` tokens that stand side by side, each [N, K], "" where there is none."""
    nothing, terms, term = blank(op), [], tokens
    column = op.Slice(tokens, [0], [1], [1])
    column = op.Where(op.Equal(column, nothing), column, nothing)
    following = tokens
    for size in range(1, high + 1):
        if size > 1:
            following = op.Concat(op.Slice(following, [1], [_END], [1]), column, axis=1)
            longer = op.StringConcat(op.StringConcat(term, op.const(np.array([between], object))), following)
            some = op.And(op.Not(op.Equal(term, nothing)), op.Not(op.Equal(following, nothing)))
            term = op.Where(some, longer, nothing)
        if size >= low:
            terms.append(term)
    return terms


def side_by_side(op: OpBuilder, parts: Sequence[ir.Value]) -> ir.Value:
    """Matrices as one."""
    return parts[0] if len(parts) == 1 else op.Concat(*parts, axis=1)


@dataclass(frozen=True)
class _Lexicon:
    """The terms that an analyzer of words can find, and the numbers of the words in them.

    Attributes:
        places: the column of each term, by its words' numbers.
        words: the number of each word.
    """

    places: dict[tuple[int, ...], int]
    words: dict[str, int]

    @classmethod
    def of(cls, model: BaseEstimator, rule: TokenRule) -> _Lexicon:
        """That of a fitted vectorizer.

        Raises:
            UnsupportedOperator: it finds no term of its vocabulary.
        """
        (low, high), stops = model.ngram_range, frozenset(model.get_stop_words() or ())
        is_token = re.compile(rule.whole).fullmatch
        columns = np.fromiter(model.vocabulary_.values(), np.int64, len(model.vocabulary_))
        terms = np.array([*model.vocabulary_, None], object)[np.argsort(columns)].tolist()
        words: dict[str, int] = {}
        places: dict[tuple[int, ...], int] = {}
        if high == 1:  # most vocabularies: every term is a token
            numbers_of_terms: Sequence[int] = range(len(terms))
            if stops or not _are_tokens(terms, rule):
                numbers_of_terms = [
                    i for i, term in enumerate(terms) if is_token(term) and " " not in term and term not in stops
                ]
            words = {terms[place]: number for number, place in enumerate(numbers_of_terms)}
            places = dict(zip(zip(range(len(numbers_of_terms))), numbers_of_terms, strict=True))
        else:
            for place, term in enumerate(terms):
                parts = term.split(" ")
                if low <= len(parts) <= high and all(map(is_token, parts)) and stops.isdisjoint(parts):
                    places[tuple([words.setdefault(part, len(words)) for part in parts])] = place
        if not places:
            raise UnsupportedOperator(f"{type(model).__name__}: no term of the vocabulary can occur in a document")
        return cls(places, words)

    def numbers(self, op: OpBuilder, model: BaseEstimator, rule: TokenRule, x: ir.Value) -> ir.Value:
        """The numbers of the tokens of documents [N], in their order, [N, W]; -1 where one is unknown, or there is none."""
        cells = runs(op, model, rule, x, list(model.vocabulary_))
        keys, longest = dict(self.words), max(map(len, self.places))
        if longest > 1:
            keys.update(dict.fromkeys(sorted(model.get_stop_words() or ()), _STOP))
        values = encoded(op, cells.strings, keys, _UNKNOWN)
        # unknown tokens part those on either side; what is no token does not
        kept = op.GreaterOrEqual(values, _UNKNOWN if longest > 1 else 0)
        if longest > 1 and rule.plain != 1:
            kept = op.And(kept, op.RegexFullMatch(cells.strings, pattern=rule.re2))
        values = op.Compress(values, kept, axis=0)
        return cells.only(op, kept).in_rows(op, values, op.const(np.int64(_UNKNOWN)))

    def columns(self, op: OpBuilder, numbers: ir.Value) -> ir.Value:
        """The columns of the terms among tokens [N, W], int64 [N, K]; -1 where there is none."""
        terms_of_lengths, term, following = [], numbers, numbers
        if max(map(len, self.places)) == 1:
            return self._at(op, self.places.values(), numbers)
        base = len(self.words) + 1
        own: dict[tuple[int, ...], int] = {(word,): word for word in self.words.values()}
        for size in range(1, max(map(len, self.places)) + 1):
            if size > 1:
                before, prefixes = own, dict.fromkeys(key[:size] for key in self.places if len(key) >= size)
                own = {key: number for number, key in enumerate(prefixes)}
                known = {before[key[:-1]] * base + key[-1] + 1: number for key, number in own.items()}
                following = op.Pad(op.Slice(following, [1], [_END], [1]), [0, 0, 0, 1], _UNKNOWN)
                code = op.Add(op.Mul(term, base), op.Add(following, 1))
                term = encoded(op, code, known, _UNKNOWN)
            places = list(map(self.places.get, own, repeat(_UNKNOWN)))
            if any(place != _UNKNOWN for place in places):
                terms_of_lengths.append(self._at(op, places, term))
        return side_by_side(op, terms_of_lengths)

    def _at(self, op: OpBuilder, columns: Iterable[int], numbers: ir.Value) -> ir.Value:
        """The columns at places by their number; -1 of -1."""
        numbers_with_unknown = np.array([*columns, _UNKNOWN])
        if np.array_equal(numbers_with_unknown[:-1], np.arange(len(numbers_with_unknown) - 1)):
            return numbers
        return op.Gather(op.const(numbers_with_unknown), numbers, axis=0)  # of -1 the last one


def _are_tokens(terms: Sequence[str], rule: TokenRule) -> bool:
    """Whether all terms are tokens, asked at once; False where that can't be."""
    lines = "\n".join([*terms, ""])
    if rule.is_inside("\n") or rule.is_inside(" ") or lines.count("\n") != len(terms):
        return False
    return re.fullmatch(f"(?:(?:{rule.whole})\n)*", lines) is not None


def _counted(
    op: OpBuilder, items: ir.Value, terms: Mapping[Any, int], width: int, least: int, most: int
) -> Array | None:
    """How often each term, of `least` to `most` items, occurs in the rows of items [N + 1, W] but the last, float32 [N, width].

    Items are strings or int64; None where there is no term.
    """
    if not terms:
        return None
    rows = op.Slice(items, [0], [-1], [0])  # of the items, which are few beside the counts
    ordered = sorted(terms, key=len)
    pool = [item for term in ordered for item in term]
    sizes = np.bincount([len(term) for term in ordered], minlength=most + 1) * np.arange(most + 1)
    named = {"pool_strings": pool} if isinstance(pool[0], str) else {"pool_int64s": pool}
    places = [terms[term] for term in ordered]

    def none(b: OpBuilder) -> list[ir.Value]:
        return [b.Expand(b.const(np.float32(0)), b.const(np.array([0, width])))]

    def counted(b: OpBuilder) -> list[ir.Value]:
        result = b.TfIdfVectorizer(
            rows,
            mode="TF",
            min_gram_length=least,
            max_gram_length=most,
            max_skip_count=0,
            ngram_counts=np.cumsum(sizes)[:-1].tolist(),
            ngram_indexes=places,
            **named,
        )
        missing = width - max(places) - 1
        return [b.Pad(result, [0, 0, 0, missing]) if missing else result]

    empty = op.Equal(op.Squeeze(op.dim(rows, 0), op.axes(0)), 0)
    return Array(op, op.If(empty, then_branch=op.body(none), else_branch=op.body(counted)))


def term_counts(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """How often each document has each term, float32 [N, V]."""
    documents = documents_of(op, model, x)
    count = {"word": _counted_words, "char": _counted_characters, "char_wb": _counted_in_words}.get(str(model.analyzer))
    if count is None:
        raise UnsupportedOperator(f"{type(model).__name__}: analyzer={model.analyzer!r} has no ONNX form")
    counts = [item for item in count(op, model, documents) if item is not None]
    if not counts:
        raise UnsupportedOperator(f"{type(model).__name__}: no term of the vocabulary can occur in a document")
    total = counts[0] if len(counts) == 1 else counts[0] + counts[1]
    return Array(op, op.typed(total.value, ir.DataType.FLOAT, [symbol(matrix(op, x)), len(model.vocabulary_)]))


def _counted_words(op: OpBuilder, model: BaseEstimator, x: ir.Value) -> list[Array | None]:
    preparation(model)
    rule = token_rule(model.token_pattern)
    lexicon = _Lexicon.of(model, rule)
    return [
        _counted(op, lexicon.numbers(op, model, rule, x), lexicon.places, len(model.vocabulary_), *model.ngram_range)
    ]


def _numbered(terms: dict[str, int], known: str) -> dict[tuple[Any, ...], int]:
    """The columns of terms, by the numbers of their characters."""
    number = {character: i for i, character in enumerate(known, 1)}
    return {tuple(number[c] for c in term): place for term, place in terms.items()}


def _counted_characters(op: OpBuilder, model: BaseEstimator, x: ir.Value) -> list[Array | None]:
    low, high = model.ngram_range
    known = known_characters(model.vocabulary_)
    terms = {term: int(place) for term, place in model.vocabulary_.items() if low <= len(term) <= high}
    letters = characters_of_text(op, model, x, known)
    return [_counted(op, letters, _numbered(terms, known), len(model.vocabulary_), low, high)]


def _counted_in_words(op: OpBuilder, model: BaseEstimator, x: ir.Value) -> list[Array | None]:
    low, high = model.ngram_range
    known = known_characters(model.vocabulary_)
    terms: dict[str, int] = {}
    short: dict[tuple[Any, ...], int] = {}
    for term, place in model.vocabulary_.items():
        if low <= len(term) <= high:
            terms[term] = int(place)
        elif len(term) < low and len(term) > 2 and term[0] == term[-1] == " ":
            short[(term[1:-1],)] = int(place)  # a word that is shorter than the shortest term counts whole
    letters, words = characters_of_words(op, model, x, known)
    width = len(model.vocabulary_)
    return [_counted(op, letters, _numbered(terms, known), width, low, high), _counted(op, words, short, width, 1, 1)]


def is_wide(model: BaseEstimator) -> bool:
    """Whether counts of so many terms are better held as their entries."""
    return model.analyzer == "word" and len(model.vocabulary_) >= _WIDE and np.dtype(model.dtype) in _SCATTERED


def term_entries(op: OpBuilder, model: BaseEstimator, x: Table) -> tuple[Array, Array]:
    """The terms in each document: columns, int64 [N, K], and how often they occur, float64 [N, K], 0 where there is none."""
    documents = documents_of(op, model, x)
    preparation(model)
    rule = token_rule(model.token_pattern)
    lexicon = _Lexicon.of(model, rule)
    numbers = op.Slice(lexicon.numbers(op, model, rule, documents), [0], [-1], [0])
    columns = lexicon.columns(op, numbers)
    columns, counts = gathered(op, columns, op.Expand(op.const(1.0, ir.DataType.DOUBLE), op.Shape(columns)))
    counts = op.typed(counts, ir.DataType.DOUBLE, [symbol(matrix(op, x)), None])
    return Array(op, columns), Array(op, counts)
