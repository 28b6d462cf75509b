"""Vectorizers of text: terms counted and weighted."""

from __future__ import annotations

from functools import partial

import numpy as np
from sklearn.base import BaseEstimator

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import built, f64
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array
from onnxport.opset_maps.to_onnx.sklearn.arrays.sparse_rows import SparseRows
from onnxport.opset_maps.to_onnx.sklearn.entries import given, lower
from onnxport.opset_maps.to_onnx.sklearn.fitted import fit, unfitted
from onnxport.opset_maps.to_onnx.sklearn.tables.sparse import Held, held
from onnxport.opset_maps.to_onnx.sklearn.tables.table import Table, floats
from onnxport.opset_maps.to_onnx.sklearn.text.preparation import in_words
from onnxport.opset_maps.to_onnx.sklearn.text.terms import is_wide, term_counts, term_entries


def dense(columns: Array, values: Array, model: BaseEstimator, width: int) -> Array:
    """Entries [N, K] of a vectorizer as its matrix [N, width], in its type."""
    rows = SparseRows(columns.value, values.astype(np.dtype(model.dtype)).value, width)
    return values.of(rows.dense(values.op))


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


_counter, _weigher = (partial(fit, name, _DOCUMENTS) for name in ("CountVectorizer", "TfidfVectorizer"))


def _occurrences(op: OpBuilder, model: BaseEstimator, x: Table) -> tuple[Array | None, Array]:
    """How often each term occurs, or whether it does, in the model's type; of many terms the entries' columns before."""
    columns, counts = term_entries(op, model, x) if is_wide(model) else (None, term_counts(op, model, x))
    return columns, (np.minimum(counts, 1.0) if model.binary else counts).astype(model.dtype)


@lower(
    "CountVectorizer.transform",
    given(_counter, {}, {"ngram_range": (1, 2)}, {"binary": True, "lowercase": False}, rows=_FRESH),
    given(
        _counter, {"ngram_range": (2, 3), "stop_words": ["the", "is"]}, {"token_pattern": r"(?u)\b\w+\b"}, rows=_FRESH
    ),
    given(
        _counter,
        {"analyzer": "char", "ngram_range": (1, 2)},
        {"analyzer": "char_wb", "ngram_range": (3, 4)},
        rows=_FRESH,
    ),
    min_opset=20,  # text is split from there on
)
def counted(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """How often each term occurs, or whether it does."""
    model = in_words(model)
    columns, counts = _occurrences(op, model, x)
    return counts if columns is None else dense(columns, counts, model, len(model.vocabulary_))


@lower(
    "TfidfVectorizer.transform",
    given(_weigher, {}, {"sublinear_tf": True, "norm": "l1"}, {"ngram_range": (1, 2), "use_idf": False}, rows=_FRESH),
    min_opset=20,
)
def weighted_terms(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """Counts, weighted by how rare the terms are among the fitted documents."""
    model = in_words(model)
    inner = model._tfidf
    columns, counts = _occurrences(op, model, x)
    if columns is None:
        return _weighted(inner, counts, inner.idf_ if inner.use_idf else None)
    idf = columns.of(op.Gather(op.const(inner.idf_), columns.value, axis=0)) if inner.use_idf else None
    return dense(columns, _weighted(inner, counts, idf), model, len(model.vocabulary_))


@lower(
    "TfidfTransformer.transform",
    built(lambda: unfitted("TfidfTransformer").fit(np.eye(4) + 1), f64(5, 4, low=0, high=3)),
    built(lambda: unfitted("TfidfTransformer", sublinear_tf=True, norm=None).fit(np.eye(4)), f64(5, 4, low=1, high=3)),
)
def weighted_counts(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """Counts, weighted by how rare the terms are among the fitted documents."""
    if model.sublinear_tf and held(x) == Held.WITH_ZEROS:
        raise UnsupportedOperator(
            "TfidfTransformer: sublinear_tf=True is -inf of the zeros that a graph of distances stores"
        )
    return _weighted(model, floats(op, x), model.idf_ if model.use_idf else None)


def _weighted(model: BaseEstimator, counts: Array, idf: np.ndarray | None) -> Array:
    """Term frequency times inverse document frequency (Manning, Raghavan and Schuetze, Information Retrieval, 6.2)."""
    if model.sublinear_tf:
        stored = counts != 0  # of a negative count scikit-learn's logarithm is NaN
        counts = np.where(stored, np.log(np.where(stored, counts, 1.0)) + 1.0, 0.0)
    if idf is not None:
        counts = counts * idf.astype(counts.dtype)
    return normalized_rows(counts, model.norm)


def normalized_rows(counts: Array, norm: str | None) -> Array:
    """Rows of a sparse matrix divided by their l1, l2 or greatest norm; those of zeros as they are.

    scikit-learn sums in float64 and divides by that sum (sklearn.utils.sparsefuncs_fast), whatever the type of the entries.
    """
    if norm is None:
        return counts
    if norm == "l1":
        size = np.sum(np.abs(counts).astype(np.float64), axis=1, keepdims=True)
    elif norm == "l2":
        if counts.dtype == np.float64:
            size = np.linalg.norm(counts, axis=1, keepdims=True)
        else:
            size = np.sqrt(np.sum((counts * counts).astype(np.float64), axis=1, keepdims=True))
    else:
        size = np.max(np.abs(counts), axis=1, keepdims=True)
    return (counts / np.where(size == 0.0, size.dtype.type(1), size)).astype(counts.dtype)
