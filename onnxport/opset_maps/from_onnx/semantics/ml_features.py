"""Feature transforms of ai.onnx.ml."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxport.errors import UnsupportedOperator
from onnxport.opset_maps.cases import Case, f32, i64
from onnxport.opset_maps.from_onnx.axes import part
from onnxport.opset_maps.from_onnx.cases import graph, ml_node
from onnxport.opset_maps.from_onnx.namespace import Namespace
from onnxport.opset_maps.from_onnx.semantics.ml_scores import as_rows, ml_op
from onnxport.opset_maps.from_onnx.values import Array, HostValue, Ints, Reals, Strings, Tensor


@ml_op("Scaler", "float[N, 3] y", "offset = [0.5, 1.0, -2.0], scale = [2.0, 0.25, 1.5]", f32(5, 3))
def scaler(xp: Namespace, x: Tensor, *, offset: Reals = (), scale: Reals = ()) -> Tensor:
    """(x - offset) scale, one of each a feature or one for all; FLOAT."""
    x = xp.astype(x, ir.DataType.FLOAT)
    x = xp.subtract(x, xp.constant(np.asarray(offset, np.float32))) if len(offset) else x
    return xp.multiply(x, xp.constant(np.asarray(scale, np.float32))) if len(scale) else x


@ml_op("Normalizer", "float[N, 3] y", 'norm = "L2"', f32(5, 3))
def normalizer(xp: Namespace, x: Tensor, *, norm: str = "MAX") -> Tensor:
    """Rows divided by their greatest element, sum of magnitudes or length; a row whose norm is 0 stays. FLOAT."""
    x = xp.astype(x, ir.DataType.FLOAT)
    last = (xp.ndim(x) - 1,)
    if norm == "MAX":
        size = xp.max(x, last, True)
    elif norm == "L1":
        size = xp.sum(xp.abs(x), last, True)
    elif norm == "L2":
        size = xp.sqrt(xp.sum(xp.square(x), last, True))
    else:
        raise UnsupportedOperator(f"norm={norm!r} is none of ONNX's")
    return xp.divide(x, xp.where(xp.equal(size, 0), 1.0, size))


@ml_op("Binarizer")
def binarizer(xp: Namespace, x: Tensor, *, threshold: float = 0.0) -> Tensor:
    """1 where x is above the threshold, else 0, in the type of x."""
    dtype = xp.dtype(x)
    limit = threshold if dtype.is_floating_point() else math.floor(threshold)
    return xp.astype(xp.greater(x, limit), dtype)


@ml_op(
    "Imputer",
    "float[N, 2] y",
    "imputed_value_floats = [7.0, 8.0], replaced_value_float = -1.0",
    np.array([[1, -1], [-1, 2]], np.float32),
)
def imputer(
    xp: Namespace,
    x: Tensor,
    *,
    imputed_value_floats: Reals = (),
    imputed_value_int64s: Ints = (),
    replaced_value_float: float = 0.0,
    replaced_value_int64: int = 0,
) -> Tensor:
    """x with one value, perhaps NaN, replaced by another, one a feature or one for all."""
    dtype = xp.dtype(x)
    floating = dtype.is_floating_point()
    values = np.asarray(imputed_value_floats, np.float32) if floating else np.asarray(imputed_value_int64s, np.int64)
    if not values.size:
        raise UnsupportedOperator(f"no imputed values for input of type {dtype.name}")
    if floating and math.isnan(replaced_value_float):
        missing = xp.isnan(x)
    else:
        missing = xp.equal(x, replaced_value_float if floating else replaced_value_int64)
    return xp.where(missing, xp.astype(xp.constant(values), dtype), x)


@ml_op("ArrayFeatureExtractor")
def array_feature_extractor(xp: Namespace, x: Tensor, y: Tensor) -> Tensor:
    """The elements of the last axis at the places y; of a vector as one row."""
    places = xp.reshape(y, (-1,))
    x = as_rows(xp, x)
    return xp.take(x, places, xp.ndim(x) - 1)


@ml_op("FeatureVectorizer", "float[N, 3] y", "inputdimensions = [2, 1]", f32(4, 2), f32(4, 1))
def feature_vectorizer(xp: Namespace, *xs: Tensor, inputdimensions: Ints = ()) -> Tensor:
    """Inputs side by side as FLOAT, each cut or filled with zeros to its width."""
    columns = []
    for index, x in enumerate(xs):
        x = xp.astype(x, ir.DataType.FLOAT)
        x = xp.expand_dims(x, [1]) if xp.ndim(x) == 1 and len(xs) > 1 else as_rows(xp, x)
        if index < len(inputdimensions):
            width = inputdimensions[index]
            result = xp.shape(x)[1]
            if not isinstance(result, int):
                raise UnsupportedOperator("the width of an input is not known")
            x = xp.slice(x, 1, 0, width) if result > width else x
            x = xp.pad(x, [(0, 0), (0, width - result)]) if result < width else x
        columns.append(x)
    return xp.concat(columns, 1)


def _mapped(xp: Namespace, x: Tensor, keys: Array, values: Array, dtype: ir.DataType, default: object) -> Tensor:
    """For each element of x the value that belongs to its key, or the default: the last of the values."""
    place = xp.lookup(x, keys)
    filled = np.concatenate([values, np.asarray([default], values.dtype)])
    place = xp.where(xp.less(place, 0), len(keys), place)
    return xp.take(xp.constant(filled, dtype), place, 0)


def _translated(xp: Namespace, x: Tensor, numbers: Array, texts: Strings, number: int, text: str) -> Tensor:
    """Strings as the INT64 numbers of the same places, or the other way round; `number` and `text` are the defaults."""
    words = np.asarray(texts, object)
    if xp.dtype(x) == ir.DataType.STRING:
        return _mapped(xp, x, words, numbers, ir.DataType.INT64, number)
    return _mapped(xp, x, numbers, words, ir.DataType.STRING, text)


@ml_op(
    "LabelEncoder",
    "string[N] y",
    'classes_strings = ["a", "b", "c"], default_string = "?"',
    i64(9, low=-1, high=5),
    ml=1,
)
def label_encoder_1(
    xp: Namespace, x: Tensor, *, classes_strings: Strings = (), default_int64: int = -1, default_string: str = "_Unused"
) -> Tensor:
    """The place of a string among the classes, or the string at a place."""
    return _translated(xp, x, np.arange(len(classes_strings)), classes_strings, default_int64, default_string)


@ml_op("LabelEncoder", versions=(2, 4))
def label_encoder(
    xp: Namespace,
    x: Tensor,
    *,
    default_float: float = -0.0,
    default_int64: int = -1,
    default_string: str = "_Unused",
    default_tensor: HostValue | None = None,
    keys_floats: Reals = (),
    keys_int64s: Ints = (),
    keys_strings: Strings = (),
    keys_tensor: HostValue | None = None,
    values_floats: Reals = (),
    values_int64s: Ints = (),
    values_strings: Strings = (),
    values_tensor: HostValue | None = None,
) -> Tensor:
    """The value that belongs to each key; from version 4 on NaN is a key like any other, before it equals nothing."""
    if keys_tensor is not None:
        keys = keys_tensor.array
    else:
        kind = object if xp.dtype(x) == ir.DataType.STRING else xp.dtype(x).numpy()
        keys = np.asarray(keys_strings or keys_floats or keys_int64s, kind)
    known = ~np.isnan(keys) if xp.version < 4 and keys.dtype.kind == "f" else np.ones(len(keys), bool)
    if values_tensor is not None:
        values, dtype = values_tensor.array, values_tensor.dtype
        implied: Any = {"i": -1, "f": -0.0, "O": "_Unused"}.get(values.dtype.kind, 0)
        default = default_tensor.array.reshape(-1)[0] if default_tensor is not None else implied
    elif len(values_strings):
        values, dtype, default = np.asarray(values_strings, object), ir.DataType.STRING, default_string
    elif len(values_floats):
        values, dtype, default = np.asarray(values_floats, np.float32), ir.DataType.FLOAT, default_float
    else:
        values, dtype, default = np.asarray(values_int64s, np.int64), ir.DataType.INT64, default_int64
    return _mapped(xp, x, keys[known], values[known], dtype, default)


@ml_op(
    "CategoryMapper",
    "string[N] y",
    'cats_int64s = [1, 2, 3], cats_strings = ["a", "b", "c"], default_string = "?"',
    i64(9),
)
def category_mapper(
    xp: Namespace,
    x: Tensor,
    *,
    cats_int64s: Ints = (),
    cats_strings: Strings = (),
    default_int64: int = -1,
    default_string: str = "_Unused",
) -> Tensor:
    """Strings to the integers of the same place, or back."""
    return _translated(xp, x, np.asarray(cats_int64s, np.int64), cats_strings, default_int64, default_string)


_KNOWN = ml_node("OneHotEncoder", "float[N, 1, 3] y", "cats_int64s = [3, -1, 0], zeros = 0", np.array([[0], [3], [-1]]))


@ml_op("OneHotEncoder", "float[N, 3] y", "cats_int64s = [3, -1, 0]", i64(9), cases=[_KNOWN])
def one_hot_encoder(
    xp: Namespace, x: Tensor, *, cats_int64s: Ints = (), cats_strings: Strings = (), zeros: int = 1
) -> Tensor:
    """A new last axis, 1 at the category's place. FLOAT.

    A value that is no category has zeros there. With `zeros` 0 it is looked up at a place outside: an error, or NaN on devices
    that do not check places.
    """
    if cats_strings:
        keys: Array = np.asarray(cats_strings, object)
    else:
        keys = np.asarray(cats_int64s, np.int64)
        x = xp.astype(x, ir.DataType.INT64)
    if not zeros:
        place = xp.lookup(x, keys)
        unknown = xp.less(place, 0)
        hits = xp.take(xp.constant(np.eye(len(keys), dtype=np.float32)), xp.where(unknown, len(keys), place), 0)
        return xp.where(xp.expand_dims(unknown, [xp.ndim(x)]), math.nan, hits)
    hits = xp.equal(xp.expand_dims(x, [xp.ndim(x)]), xp.constant(keys, ir.DataType.STRING if cats_strings else None))
    return xp.astype(hits, ir.DataType.FLOAT)


def _through_map(labels: str, vocabulary: str) -> Case:
    nodes = f"m = ai.onnx.ml.ZipMap <{labels}> (x) y = ai.onnx.ml.DictVectorizer <{vocabulary}> (m)"
    return graph(f"(float[N, 2] x) => (float[N, 3] y) {{{nodes}}}", f32(1, 2))


@ml_op("ZipMap", cases=[_through_map("classlabels_int64s = [5, 7]", "int64_vocabulary = [7, 3, 5]")])
def zip_map(
    xp: Namespace, x: Tensor, *, classlabels_int64s: Ints = (), classlabels_strings: Strings = ()
) -> dict[Any, Tensor]:
    """The columns of x under their labels: one map of vectors, where ONNX has a sequence of maps, a row each."""
    labels: Sequence[Any] = classlabels_strings or classlabels_int64s
    x = as_rows(xp, x)
    return {label: part(xp, x, 1, i) for i, label in enumerate(labels)}


@ml_op(
    "DictVectorizer", cases=[_through_map('classlabels_strings = ["a", "b"]', 'string_vocabulary = ["b", "c", "a"]')]
)
def dict_vectorizer(
    xp: Namespace, x: dict[Any, Tensor], *, int64_vocabulary: Ints = (), string_vocabulary: Strings = ()
) -> Tensor:
    """The values of a map in the order of the vocabulary, 0 for keys that it lacks."""
    vocabulary: Sequence[Any] = string_vocabulary or int64_vocabulary
    held = next(iter(x.values()))
    nothing = xp.zeros((), xp.dtype(held))
    columns = [xp.reshape(x[key], (-1, 1)) if key in x else None for key in vocabulary]
    some = next((column for column in columns if column is not None), None)
    if some is None:
        raise UnsupportedOperator("the map holds no key of the vocabulary")
    blank = xp.where(xp.equal(some, some), nothing, nothing)
    return xp.concat([blank if column is None else column for column in columns], 1)
