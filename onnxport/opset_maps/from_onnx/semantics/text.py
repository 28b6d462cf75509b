"""Operators on strings, and n-gram counts of strings or integers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxport.errors import UnsupportedOperator
from onnxport.opset_maps.from_onnx.namespace import Namespace
from onnxport.opset_maps.from_onnx.semantics.ml_scores import as_rows
from onnxport.opset_maps.from_onnx.values import Array, Ints, InvalidOperand, Reals, Strings, Tensor
from onnxport.opset_maps.maps import onnx


@onnx.op("StringSplit", versions=(20,))
def string_split(
    xp: Namespace, x: Tensor, *, delimiter: str | None = None, maxsplit: int | None = None
) -> tuple[Tensor, Tensor]:
    """Pieces in a new last axis, and their number; without a delimiter, split at runs of spaces."""
    return xp.string_split(x, delimiter or None, maxsplit)


@onnx.op("RegexFullMatch", versions=(20,))
def regex_full_match(xp: Namespace, x: Tensor, *, pattern: str) -> Tensor:
    """Whether a string as a whole matches."""
    return xp.regex_full_match(x, pattern)


@onnx.op("StringNormalizer", versions=(10,))
def string_normalizer(
    xp: Namespace,
    x: Tensor,
    *,
    case_change_action: str = "NONE",
    is_case_sensitive: int = 0,
    locale: str = "",
    stopwords: Strings = (),
) -> Tensor:
    """Strings without stopwords, their case changed; one empty string where none is left. Case follows Unicode, not `locale`."""
    rank = xp.ndim(x)
    words = xp.squeeze(x, (0,)) if rank == 2 else x
    if stopwords:
        compared, stops = words, list(stopwords)
        if not is_case_sensitive:
            compared, stops = xp.string_case(words, False), [word.lower() for word in stopwords]
        keep = xp.less(xp.lookup(compared, np.asarray(list(dict.fromkeys(stops)), object)), 0)
        none_left = xp.logical_not(xp.max(keep, None, True))
        blank = xp.constant(np.asarray([""], object), ir.DataType.STRING)
        words = xp.compress(xp.concat([words, blank], 0), xp.concat([keep, none_left], 0), 0)
    if case_change_action in ("UPPER", "LOWER"):
        words = xp.string_case(words, case_change_action == "UPPER")
    return xp.expand_dims(words, [0]) if rank == 2 else words


@onnx.op("TfIdfVectorizer", versions=(9,))
def tf_idf_vectorizer(
    xp: Namespace,
    x: Tensor,
    *,
    max_gram_length: int,
    max_skip_count: int,
    min_gram_length: int,
    mode: str,
    ngram_counts: Ints,
    ngram_indexes: Ints,
    pool_int64s: Ints = (),
    pool_strings: Strings = (),
    weights: Reals = (),
) -> Tensor:
    """Weighted counts (TFIDF), counts (TF) or weighted presence (IDF) of the pool's n-grams in each row; FLOAT."""
    if mode not in ("TF", "IDF", "TFIDF"):
        raise UnsupportedOperator(f"mode={mode!r} is none of ONNX's")
    pool: Sequence[Any] = pool_strings or pool_int64s
    tokens = list(dict.fromkeys(pool))
    width = max(ngram_indexes) + 1
    rows = as_rows(xp, x)
    keys = np.asarray(tokens, object if pool_strings else xp.dtype(x).numpy())
    ids = xp.lookup(rows, keys)
    counts = xp.zeros((xp.shape(rows)[0], width + 1), ir.DataType.FLOAT)  # the last column takes what is no n-gram
    for length, grams, columns in _grams(pool, tokens, ngram_counts, ngram_indexes):
        if not min_gram_length <= length <= max_gram_length or not len(grams):
            continue
        for skip in range(max_skip_count + 1 if length > 1 else 1):
            place = _places(xp, ids, grams, skip + 1)
            column = xp.take(xp.constant(np.r_[columns, width]), xp.where(xp.less(place, 0), len(grams), place), 0)
            once = xp.add(xp.multiply(xp.astype(column, ir.DataType.FLOAT), 0.0), 1.0)
            counts = xp.scatter_elements(counts, column, once, 1, "add")
    counts = xp.slice(counts, 1, 0, width)
    if mode == "IDF":
        counts = xp.astype(xp.greater(counts, 0), ir.DataType.FLOAT)
    if mode != "TF" and len(weights):
        factors = np.ones(width, np.float32)
        factors[np.asarray(ngram_indexes)] = np.asarray(weights, np.float32)
        counts = xp.multiply(counts, xp.constant(factors))
    return counts if xp.ndim(x) == 2 else xp.squeeze(counts, (0,))


def _grams(pool: Sequence[Any], tokens: Sequence[Any], starts: Ints, columns: Ints) -> list[tuple[int, Array, Array]]:
    """For each length the n-grams of the pool as token numbers [grams, length], and their output columns."""
    number = {token: index for index, token in enumerate(tokens)}
    coded = np.asarray([number[token] for token in pool], np.int64)
    results, taken = [], 0
    for length, start in enumerate(starts, 1):
        end = starts[length] if length < len(starts) else len(pool)
        if len(coded[start:end]) % length:
            raise InvalidOperand(f"{len(coded[start:end])} tokens for n-grams of {length}")
        grams = coded[start:end].reshape(-1, length)
        results.append((length, grams, np.asarray(columns[taken : taken + len(grams)], np.int64)))
        taken += len(grams)
    return results


def _places(xp: Namespace, ids: Tensor, grams: Array, stride: int) -> Tensor:
    """INT64 [rows, windows]: which n-gram starts at each place, -1 for none.

    A window is matched token by token: the place of its beginning among the beginnings of the n-grams and the next token make
    a number that is looked up among those of the n-grams, so that numbers stay small however long the n-grams are.
    """
    length = grams.shape[1]
    reach = (length - 1) * stride
    size = int(grams.max()) + 2
    prefixes, own = np.unique(grams[:, 0], return_inverse=True)
    place = xp.lookup(xp.slice(ids, 1, 0, -reach if reach else None), prefixes)
    for step in range(1, length):
        codes = own * size + grams[:, step]
        known, own = np.unique(codes, return_inverse=True)
        following = xp.slice(ids, 1, step * stride, -(reach - step * stride) if step < length - 1 else None)
        code = xp.add(xp.multiply(place, size), following)
        code = xp.where(xp.logical_or(xp.less(place, 0), xp.less(following, 0)), -1, code)
        place = xp.lookup(code, known)
    order = np.full(own.max() + 1, -1, np.int64)
    order[own] = np.arange(len(own))
    return xp.take(xp.constant(np.r_[order, -1]), xp.where(xp.less(place, 0), len(order), place), 0)
