"""Dictionaries of features, one graph input a feature: strings, or numbers; a row that lacks it has "" or 0."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import built
from onnxport.opset_maps.maps import sklearn
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array
from onnxport.opset_maps.to_onnx.sklearn.fitted import unfitted
from onnxport.opset_maps.to_onnx.sklearn.tables.categories import codes
from onnxport.opset_maps.to_onnx.sklearn.tables.table import Frame, Table

if TYPE_CHECKING:
    from sklearn.feature_extraction import DictVectorizer, FeatureHasher

_HERE = "feature_extraction"
_RECORDS = [{"colour": "red", "size": 2.0}, {"colour": "green", "age": 7}, {"size": -1.5, "wet": True}]
_FRESH = [{"colour": "red", "age": 3}, {"size": 4.0, "wet": False}, {"colour": "blue"}]


def features(op: OpBuilder, model: DictVectorizer | FeatureHasher, x: Table) -> list[tuple[str, Array]]:
    """The features by name, each [N, 1]."""
    if not isinstance(x, Frame):
        raise UnsupportedOperator(f"{type(model).__name__} takes named features: give a list of dictionaries as inputs")
    return [(name, Array(op, part)) for name, part in zip(x.names, x.parts, strict=True)]


def _fitted(**options: object) -> Any:
    return unfitted(_HERE, "DictVectorizer", **options).fit(_RECORDS)


@sklearn.lower(
    "DictVectorizer.transform",
    cases=[built(_fitted, _FRESH), built(lambda: _fitted(sparse=False, dtype=np.float32, separator="@"), _FRESH)],
)
def dict_vectorizer(op: OpBuilder, model: DictVectorizer, x: Table) -> Array:
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
