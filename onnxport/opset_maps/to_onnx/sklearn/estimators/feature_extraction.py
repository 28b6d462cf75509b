"""sklearn.feature_extraction, but for text: patches of pictures; and dictionaries of features, one graph input a feature.

A feature is of strings, or of numbers; a row that lacks it has "" or 0.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import onnx_ir as ir
from sklearn.base import BaseEstimator

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import built, f32, f64
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array
from onnxport.opset_maps.to_onnx.sklearn.arrays.functions import take
from onnxport.opset_maps.to_onnx.sklearn.entries import given, lower
from onnxport.opset_maps.to_onnx.sklearn.fitted import fit, unfitted
from onnxport.opset_maps.to_onnx.sklearn.tables.categories import codes
from onnxport.opset_maps.to_onnx.sklearn.tables.table import Frame, Table, matrix

_extractor = partial(unfitted, "PatchExtractor")


@lower(
    "PatchExtractor.transform",
    built(lambda: _extractor(patch_size=(2, 3)), f64(3, 5, 6)),
    built(lambda: _extractor(patch_size=(2, 2)), f32(2, 4, 4, 3)),
    built(_extractor, f64(2, 12, 20)),
)
def patches(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """All patches of all pictures [N, H, W] or [N, H, W, C], one after the other."""
    if model.max_patches is not None:
        raise UnsupportedOperator(f"PatchExtractor: max_patches={model.max_patches!r} draws patches at random")
    pictures = Array(op, matrix(op, x)).astype(np.float64)
    if len(pictures.shape) < 3:
        raise UnsupportedOperator(
            f"PatchExtractor: rows of shape {list(pictures.shape)}: give pictures as [N, H, W] or [N, H, W, C]"
        )
    height, width, *channels = (int(size or 0) for size in pictures.shape[1:])
    high, wide = model.patch_size or (height // 10, width // 10)
    across = np.arange(width - wide + 1)[:, None] + np.arange(wide)  # [places, wide]
    down = np.arange(height - high + 1)[:, None] + np.arange(high)
    flat = down[:, None, :, None] * width + across[None, :, None, :]
    depth = [channels[0]] if channels and channels[0] > 1 else []
    rows = pictures.reshape((-1, height * width, *depth))
    return take(rows, flat.ravel(), axis=1).reshape((-1, high, wide, *depth))


_RECORDS = [{"colour": "red", "size": 2.0}, {"colour": "green", "age": 7}, {"size": -1.5, "wet": True}]
_FRESH = [{"colour": "red", "age": 3}, {"size": 4.0, "wet": False}, {"colour": "blue"}]


def features(op: OpBuilder, model: BaseEstimator, x: Table) -> list[tuple[str, Array]]:
    """The features by name, each [N, 1]."""
    if not isinstance(x, Frame):
        raise UnsupportedOperator(f"{type(model).__name__} takes named features: give a list of dictionaries as inputs")
    return [(name, Array(op, part)) for name, part in zip(x.names, x.parts, strict=True)]


_fitted = partial(fit, "DictVectorizer", _RECORDS)


@lower(
    "DictVectorizer.transform",
    given(_fitted, {}, {"sparse": False, "dtype": np.float32, "separator": "@"}, rows=_FRESH),
)
def dict_vectorizer(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """A column for each number's feature, and one for each value of a string's."""
    places, width = model.vocabulary_, len(model.feature_names_)
    total: Any = None
    for name, column in features(op, model, x):
        if column.value.dtype == ir.DataType.STRING:
            start = f"{name}{model.separator}"
            known = {key[len(start) :]: place for key, place in places.items() if str(key).startswith(start)}
            if "" in known:
                raise UnsupportedOperator(
                    f"DictVectorizer: {name!r} had the value '', which stands for none in the graph"
                )
            code = codes(op, column.value, np.array(list(known), object), list(known.values()))
            part = (code == np.arange(width)[None]).astype(np.dtype(model.dtype))
        elif name in places:
            mask = (np.arange(width) == places[name])[None]
            part = np.where(mask, column.astype(np.dtype(model.dtype)), np.zeros(1, model.dtype))
        else:
            part = np.zeros((1, width), model.dtype) * column.astype(np.dtype(model.dtype))
        total = part if total is None else total + part
    return total
