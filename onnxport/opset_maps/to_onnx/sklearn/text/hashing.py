"""Features by the hash of their name: MurmurHash3 of strings, and the estimators that count at such places.

A hash sees every byte of a name, so that the graph must know every character that a name has. It knows those of European
alphabets (`ALPHABET`); a name with another one is an error of the runtime, not another column.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import onnx_ir as ir
from sklearn.base import BaseEstimator
from sklearn.utils import murmurhash3_32

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import built
from onnxport.opset_maps.lowerings.cutting import blank
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array
from onnxport.opset_maps.to_onnx.sklearn.arrays.functions import symbol
from onnxport.opset_maps.to_onnx.sklearn.arrays.sparse_rows import gathered
from onnxport.opset_maps.to_onnx.sklearn.entries import lower
from onnxport.opset_maps.to_onnx.sklearn.estimators.feature_extraction import features
from onnxport.opset_maps.to_onnx.sklearn.fitted import unfitted
from onnxport.opset_maps.to_onnx.sklearn.tables.table import Table, matrix
from onnxport.opset_maps.to_onnx.sklearn.text import letters
from onnxport.opset_maps.to_onnx.sklearn.text.characters import GUARD, SPACES
from onnxport.opset_maps.to_onnx.sklearn.text.preparation import in_words, preparation
from onnxport.opset_maps.to_onnx.sklearn.text.terms import joined_terms, side_by_side
from onnxport.opset_maps.to_onnx.sklearn.text.token_patterns import token_rule
from onnxport.opset_maps.to_onnx.sklearn.text.tokens import documents_of, words
from onnxport.opset_maps.to_onnx.sklearn.text.vectorizers import dense, normalized_rows

# ASCII; Latin-1, Latin Extended-A, Greek and Cyrillic; dashes, quotation marks and two signs; spaces.
_RANGES = (
    *((0x20, 0x7F), (0xA1, 0x100), (0x100, 0x180), (0x386, 0x3CF), (0x400, 0x460)),
    *((0x2010, 0x2028), (0x20AC, 0x20AD), (0x2122, 0x2123)),
)
ALPHABET = letters.by_frequency(
    [c for block in _RANGES for c in map(chr, range(*block))] + list(SPACES.replace(" ", ""))
)
_LOW = 0xFFFFFFFF
_NONE = chr(0xFDEE)  # a noncharacter of Unicode


def _times(op: OpBuilder, x: ir.Value, factor: int) -> ir.Value:
    """x times a number modulo 2**32, in steps that stay below 2**63."""
    high, low = divmod(factor, 1 << 16)  # of x times the high half only the low half of x stays
    return op.BitwiseAnd(op.Add(op.Mul(x, low), op.Mul(op.BitwiseAnd(x, 0xFFFF), high << 16)), _LOW)


def _rotated(op: OpBuilder, x: ir.Value, places: int) -> ir.Value:
    left = op.BitwiseAnd(op.Mul(x, 1 << places), _LOW)
    return op.BitwiseOr(left, op.Div(x, 1 << (32 - places)))


def murmur(op: OpBuilder, words: ir.Value, lengths: ir.Value) -> ir.Value:
    """MurmurHash3_x86_32 with seed 0 (Austin Appleby, public domain), int64 [M].

    Args:
        op: the builder.
        words: the names' bytes in little-endian groups of four, 0 beyond the last, int64 [M, B].
        lengths: numbers of bytes, int64 [M].
    """
    whole = op.Div(lengths, 4)
    keys = _times(op, _rotated(op, _times(op, words, 0xCC9E2D51), 15), 0x1B873593)  # 0 of what is beyond the last byte

    def step(b: OpBuilder) -> list[ir.Value]:
        number = b.input("number", ir.DataType.INT64, [])
        going = b.input("going", ir.DataType.BOOL, [])
        state = b.input("state", ir.DataType.INT64, [None])
        # of the bytes behind the last group of four nothing more
        mixed = b.BitwiseXor(state, b.Gather(keys, number, axis=1))
        full = b.BitwiseAnd(b.Add(b.Mul(_rotated(b, mixed, 13), 5), 0xE6546B64), _LOW)
        return [b.Identity(going), b.Where(b.Less(number, whole), full, mixed)]

    count = op.Squeeze(op.dim(words, 1), op.axes(0))
    state = op.Loop(count, True, op.Mul(lengths, 0), body=op.body(step), outputs=1)
    state = op.BitwiseXor(state, lengths)
    state = _times(op, op.BitwiseXor(state, op.Div(state, 1 << 16)), 0x85EBCA6B)
    state = _times(op, op.BitwiseXor(state, op.Div(state, 1 << 13)), 0xC2B2AE35)
    return op.BitwiseXor(state, op.Div(state, 1 << 16))


def _bytes(op: OpBuilder, names: ir.Value, characters: str) -> tuple[ir.Value, ir.Value]:
    """The bytes of names in UTF-8, in groups of four [M, B], and how many there are [M]."""
    codes = [b"", *(c.encode() for c in characters)]
    place = letters.letters(op, names, characters)
    # which has no element for unknown characters
    lengths = op.node("Gather", op.const(np.array([len(code) for code in codes])), place, axis=0, name=GUARD)

    def single(b: OpBuilder) -> list[ir.Value]:
        return [b.Gather(b.const(np.array([int.from_bytes(code[:1]) for code in codes])), place, axis=0)]

    longest = op.ReduceMax(lengths, keepdims=0)
    result = op.If(
        op.Greater(longest, 1),
        then_branch=op.body(lambda b: [_side_by_side(b, place, lengths, codes)]),
        else_branch=op.body(single),
    )
    grouped = op.Reshape(result, [0, -1, 4])
    return (op.MatMul(grouped, op.const(256 ** np.arange(4))), op.reduce("ReduceSum", lengths, [1], keepdims=False))


def _side_by_side(op: OpBuilder, place: ir.Value, sizes: ir.Value, codes: list[bytes]) -> ir.Value:
    """The bytes of characters by their number [M, L] of so many bytes [M, L], side by side, 0 beyond the last, [M, 4 B]."""
    width = max(map(len, codes))
    parts = op.Gather(op.const(np.array([list(code.ljust(width, b"\0")) for code in codes], np.int64)), place, axis=0)
    ends = op.CumSum(sizes, op.const(np.int64(1)))
    # each byte goes to its place, what is no byte to the last place of all, which is cut off
    room = op.Mul(op.Add(op.Div(op.ReduceMax(ends, keepdims=0), 4), 1), 4)
    offsets = op.Range(0, width, 1)
    target = op.Add(op.Unsqueeze(op.Sub(ends, sizes), op.axes(2)), offsets)
    target = op.Where(op.Less(offsets, op.Unsqueeze(sizes, op.axes(2))), target, room)
    shape = op.Concat(op.dim(place, 0), op.Reshape(op.Add(room, 1), [1]), axis=0)
    nothing = op.Expand(op.const(np.int64(0)), shape)
    result = op.ScatterElements(nothing, op.Reshape(target, [0, -1]), op.Reshape(parts, [0, -1]), axis=1)
    return op.Slice(result, [0], op.Reshape(room, [1]), [1])


def hashed(op: OpBuilder, names: ir.Value, characters: str) -> Array:
    """The hash of each name, int64 of the shape of `names`; each different name is hashed once.

    Args:
        op: the builder.
        names: strings.
        characters: those that names can have, of `ALPHABET`.
    """
    distinct, _, places, _ = op.node("Unique", names, outputs=4)
    distinct = op.Concat(distinct, op.const(np.array([characters[0]], object)), axis=0)
    codes = murmur(op, *_bytes(op, distinct, characters))
    return Array(op, op.Gather(codes, op.Reshape(places, op.shape(names)), axis=0))


def _column(model: BaseEstimator, code: Array | np.ndarray) -> Any:
    """The column that a hash falls in, of numbers or of the graph: scikit-learn takes it for signed, and its absolute value."""
    return np.minimum(code, (1 << 32) - code) % model.n_features


def _sign(model: BaseEstimator, code: Array | np.ndarray) -> Any:
    return np.where(code < 1 << 31, 1.0, -1.0) if model.alternate_sign else code * 0 + 1.0


def _terms(op: OpBuilder, model: BaseEstimator, x: ir.Value) -> tuple[ir.Value, str]:
    """The terms of documents [N], as [N, T], "" where there is none; and the characters that they can have."""
    low, high = model.ngram_range
    lower = preparation(model).lowercase
    everything = "".join(c for c in ALPHABET if not (lower and "A" <= c <= "Z"))
    if model.analyzer == "word":
        rule = token_rule(model.token_pattern)
        inside = letters.by_frequency(c for c in everything if rule.is_inside(c))
        tokens = words(op, model, rule, x, [inside])
        return side_by_side(op, joined_terms(op, tokens, low, high, " ")), inside + " " * (high > 1)
    if model.analyzer == "char":
        tokens = _as_strings(op, letters.characters_of_text(op, model, x, everything), everything)
        return side_by_side(op, joined_terms(op, tokens, low, high, "")), everything
    if model.analyzer != "char_wb":
        raise UnsupportedOperator(f"{type(model).__name__}: analyzer={model.analyzer!r} has no ONNX form")
    result, pieces = letters.characters_of_words(op, model, x, everything)
    terms = joined_terms(op, _as_strings(op, result, everything), low, high, "")
    if low > 3:  # a word that is shorter than the shortest term counts whole
        space = op.const(np.array([" "], object))
        short = op.RegexFullMatch(pieces, pattern=f"(?s).{{1,{low - 3}}}")
        terms.append(op.Where(short, op.StringConcat(space, op.StringConcat(pieces, space)), blank(op)))
    return side_by_side(op, terms), everything


def _as_strings(op: OpBuilder, numbers: ir.Value, known: str) -> ir.Value:
    """The characters of the numbers that `letters` gave; for unknown ones a character that no name can have."""
    return op.Gather(op.const(np.array(["", *known, _NONE], object)), numbers, axis=0)


def _entries(op: OpBuilder, model: BaseEstimator, terms: ir.Value, characters: str) -> tuple[ir.Value, ir.Value]:
    """The columns that terms [N, K] hit, -1 where there is none, and their signs, or 1 for `binary`, float64."""
    code = hashed(op, terms, characters)
    there = code.of(op.Not(op.Equal(terms, blank(op))))
    weight = np.ones(1) + code * 0 if getattr(model, "binary", False) else _sign(model, code)
    place: Any = np.where(there, _column(model, code), -1)
    return place.value, weight.astype(np.float64).value


_TEXTS = np.array(
    [
        "The quick brown fox isn't lazy",
        "",
        "caf\u00e9 na\u00efve \u0436\u0443\u043a 42, the",
        "a bc def ghij klmno pqrstu",
    ],
    object,
)
_vectorizer = partial(unfitted, "HashingVectorizer", n_features=32)
_hasher = partial(unfitted, "FeatureHasher", n_features=16)


@lower(
    "HashingVectorizer.transform",
    built(lambda: _vectorizer(ngram_range=(1, 2), norm="l1", stop_words=["the"]), _TEXTS),
    built(lambda: _vectorizer(analyzer="char_wb", ngram_range=(5, 6), norm=None, alternate_sign=False), _TEXTS),
    built(lambda: _vectorizer(binary=True, lowercase=False, dtype=np.float32), _TEXTS),
    min_opset=20,  # text is split from there on
)
def hashing_vectorizer(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """Counts of terms at the columns that their hashes fall in."""
    model = in_words(model)
    columns, weights = _entries(op, model, *_terms(op, model, documents_of(op, model, x)))
    columns, values = gathered(op, op.Slice(columns, [0], [-1], [0]), op.Slice(weights, [0], [-1], [0]))
    counts = Array(op, op.typed(values, ir.DataType.DOUBLE, [symbol(matrix(op, x)), None]))
    counts = normalized_rows(np.minimum(counts, 1.0) if model.binary else counts, model.norm)
    return dense(Array(op, columns), counts, model, model.n_features)


@lower(
    "FeatureHasher.transform",
    built(_hasher, [{"colour": "red", "size": 2.0}, {"size": -1.5, "age": 7}, {"colour": "caf\u00e9"}]),
    built(lambda: _hasher(dtype=np.float32), [{"a": 1, "b": 0.5}, {"b": 2.0, "c": 0.0}]),
    built(lambda: _hasher(input_type="string"), [["red", "big"], ["small", "red", "x"], []]),
    min_opset=20,
)
def feature_hasher(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """Values of features at the columns that the hashes of their names fall in."""
    if model.input_type not in ("dict", "string"):
        raise UnsupportedOperator(
            f"FeatureHasher: input_type={model.input_type!r}: give dictionaries, or lists of strings"
        )
    if model.input_type == "string":
        columns, weights = _entries(op, model, matrix(op, x), ALPHABET)
    else:
        columns, weights = _entries_of_features(op, model, x)
    columns, values = gathered(op, columns, weights)
    return dense(Array(op, columns), Array(op, values), model, model.n_features)


def _entries_of_features(op: OpBuilder, model: BaseEstimator, x: Table) -> tuple[ir.Value, ir.Value]:
    """The column that each feature hits, and its value with the sign, float64 [N, number of features]."""
    parts = []
    for name, column in features(op, model, x):
        vector = op.Reshape(column.value, [-1, 1])
        if column.value.dtype == ir.DataType.STRING:
            text = op.StringConcat(op.const(np.array(f"{name}=", object)), vector)
            parts.append(_entries(op, model, op.Where(op.Equal(vector, blank(op)), blank(op), text), ALPHABET))
            continue
        code = np.array(murmurhash3_32(name, seed=0, positive=True), np.int64)
        value = column.of(vector).astype(np.float64)
        place = op.Expand(op.const(np.int64(_column(model, code))), op.Shape(vector))
        parts.append((place, (value * np.float64(_sign(model, code))).value))
    return side_by_side(op, [place for place, _ in parts]), side_by_side(op, [value for _, value in parts])
