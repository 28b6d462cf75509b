"""Encoders of categories and labels."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import onnx_ir as ir
from sklearn.base import BaseEstimator

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import built, f64
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array
from onnxport.opset_maps.to_onnx.sklearn.arrays.functions import full, take
from onnxport.opset_maps.to_onnx.sklearn.arrays.sparse_rows import SparseRows, mark_joined
from onnxport.opset_maps.to_onnx.sklearn.classes import take_class
from onnxport.opset_maps.to_onnx.sklearn.entries import given, lower
from onnxport.opset_maps.to_onnx.sklearn.fitted import data, fit, target, unfitted, words
from onnxport.opset_maps.to_onnx.sklearn.tables.categories import codes, text_of
from onnxport.opset_maps.to_onnx.sklearn.tables.table import Table, columns, matrix, numbers

_WORDS = np.array([["red", "s"], ["blue", "l"], ["green", "m"]], object)
_UNKNOWN = np.array([["red", "s"], ["black", "l"], ["green", "xs"]], object)


def _fitted_column(op: OpBuilder, model: BaseEstimator, x: Table, index: int) -> ir.Value:
    """A column of the table, of the kind of categories that it was fitted on."""
    value = columns(op, x, [index])
    if value.dtype != ir.DataType.STRING and any(isinstance(item, str) for item in model.categories_[index]):
        names = getattr(model, "feature_names_in_", None)
        named = index if names is None else repr(str(names[index]))
        raise UnsupportedOperator(
            f"column {named} was fitted on strings, the input holds numbers: pass rows with strings there (astype(str)); "
            "a CSV file does not tell the two apart, a Parquet file does"
        )
    return value


def shown_columns(model: BaseEstimator, index: int) -> tuple[np.ndarray, int, int]:
    """For each category the output column within its block (-1: none), the same for unknown values, and the block's width."""
    place, unknown = np.arange(len(model.categories_[index])), -1
    mapping = model._default_to_infrequent_mappings[index] if model._infrequent_enabled else None
    if mapping is not None:
        infrequent = model._infrequent_indices[index]
        if infrequent is not None and model.handle_unknown in ("infrequent_if_exist", "warn"):
            unknown = int(mapping[infrequent[0]])
        place = np.asarray(mapping)[place]
    drop = _dropped(model, index)
    if drop is not None:
        place = np.where(place == drop, -1, place - (place > drop))
        unknown = -1 if unknown == drop else unknown - (unknown > drop)
    return place, unknown, int(model._n_features_outs[index])


def _dropped(model: BaseEstimator, index: int) -> int | None:
    return None if model._drop_idx_after_grouping is None else model._drop_idx_after_grouping[index]


_RARE = {"min_frequency": 2, "handle_unknown": "infrequent_if_exist"}


@lower(
    "OneHotEncoder.transform",
    built(lambda: words("OneHotEncoder", sparse_output=False, handle_unknown="ignore"), _UNKNOWN),
    built(lambda: words("OneHotEncoder", sparse_output=False, drop="first"), _WORDS),
    built(lambda: words("OneHotEncoder", **_RARE), _UNKNOWN),
    built(lambda: words("OneHotEncoder", max_categories=2, drop="if_binary"), _WORDS),
    built(lambda: unfitted("OneHotEncoder").fit([[1.0, 2], [np.nan, 3]]), np.array([[1.0, 3], [np.nan, 2]])),
    built(lambda: unfitted("OneHotEncoder", handle_unknown="ignore").fit([[1, 2], [5, 3]]), np.array([[1, 9]])),
)
def one_hot_encoder(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """A column for each category, 1 where the value is that category; all 0 for an unknown or a dropped one.

    An unknown value under handle_unknown="error" gives zeros as well: an ONNX graph can't raise.
    """
    blocks = []
    for index, categories in enumerate(model.categories_):
        place, unknown, width = shown_columns(model, index)
        if width:
            code = codes(op, _fitted_column(op, model, x, index), categories, place, unknown)
            blocks.append(_one_hot(code, width, np.dtype(model.dtype)))
    if not blocks:
        return full(Array(op, columns(op, x, [0])), (None, 0), 0, np.dtype(model.dtype))
    result: Any = np.concatenate(blocks, axis=1)
    return result.of(mark_joined(result.value, [block.value for block in blocks])) if len(blocks) > 1 else result


def _one_hot(code: Array, width: int, dtype: np.dtype) -> Array:
    """A row of zeros with a 1 at each code [N, 1] that is not negative."""
    known, place = code >= 0, code.of(code.op.Max(code.value, np.int64(0)))
    dense = (code == np.arange(width)[None]).astype(dtype)
    return code.of(SparseRows(place.value, known.astype(dtype).value, width).mark(dense.value))


@lower(
    "OneHotEncoder.inverse_transform",
    built(lambda: words("OneHotEncoder"), np.array([[0.0, 0, 1, 0, 1, 0], [1, 0, 0, 0, 0, 1]])),
    built(lambda: unfitted("OneHotEncoder", drop="first").fit([[1.0], [3], [4]]), np.array([[0.0, 1], [0, 0]])),
    built(lambda: words("OneHotEncoder", **_RARE), np.array([[1.0, 0, 0, 1, 0], [0, 1, 1, 0, 0]])),
    built(lambda: words("OneHotEncoder", drop="first", handle_unknown="ignore"), np.eye(4)),
)
def one_hot_decoder(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The category of the greatest value of each block; what stands for none is "None" among strings, NaN among numbers."""
    rows = numbers(op, x)
    result, start = [], 0
    for index, categories in enumerate(model.categories_):
        kept = model._compute_transformed_categories(index, remove_dropped=False)
        labels = model._remove_dropped_categories(kept, index).tolist()
        part = rows[:, start : start + len(labels)]
        start += len(labels)
        drop = _dropped(model, index)
        if not labels:
            result.append(take_class([categories[drop]], np.sum(rows * 0, axis=1).astype(np.int64)))
            continue
        infrequent = model._infrequent_indices[index] if model._infrequent_enabled else None
        unknown = model.handle_unknown == "ignore" or (model.handle_unknown != "error" and infrequent is None)
        place = np.argmax(part, axis=1)
        if unknown or drop is not None:
            place = np.where(np.sum(part, axis=1) == 0, len(labels), place)
            labels.append(None if drop is None else (categories if unknown else kept)[drop])
        result.append(take_class(_spelled(labels), place))
    return np.stack(result, axis=1)


def _spelled(labels: list[Any]) -> np.ndarray:
    """Labels as the graph has them: among strings None as Python prints it, among numbers as NaN."""
    if any(isinstance(item, str) for item in labels):
        return np.array([item if isinstance(item, (int, float)) else text_of(item) for item in labels], object)
    return np.asarray([np.nan if item is None else item for item in labels])


_CODED = {"handle_unknown": "use_encoded_value"}


@lower(
    "OrdinalEncoder.transform",
    built(lambda: words("OrdinalEncoder"), _WORDS),
    built(lambda: words("OrdinalEncoder", **_CODED, unknown_value=-1), _UNKNOWN),
    built(lambda: words("OrdinalEncoder", **_CODED, unknown_value=9, min_frequency=2), _UNKNOWN),
    built(lambda: unfitted("OrdinalEncoder").fit([[1.0, 2], [np.nan, 3]]), np.array([[1.0, 3], [np.nan, 2]])),
    built(
        lambda: unfitted("OrdinalEncoder", max_categories=2).fit([[1.0], [1], [2], [3], [np.nan]]),
        np.array([[1.0], [2], [3], [np.nan]]),
    ),
)
def ordinal_encoder(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The number of each category; the encoded value of missing and of unknown ones.

    An unknown value under handle_unknown="error" gives NaN (or 0 as an integer): an ONNX graph can't raise.
    """
    dtype = np.dtype(model.dtype)
    unknown = model.unknown_value if model.handle_unknown == "use_encoded_value" else np.nan
    parts = []
    for index, categories in enumerate(model.categories_):
        place = np.arange(len(categories), dtype=np.float64)
        mapping = model._default_to_infrequent_mappings[index] if model._infrequent_enabled else None
        missing = model._missing_indices.get(index)
        if mapping is not None:  # of the categories without the missing one, which stays apart
            place[: len(mapping)] = mapping
            infrequent = model._infrequent_indices[index]
            if infrequent is not None and model.handle_unknown == "infrequent_if_exist":
                unknown = place[infrequent[0]]
        table = np.append(place, np.nan_to_num(unknown) if dtype.kind in "iu" else unknown)
        if missing is not None:
            table[missing] = model.encoded_missing_value
        code = codes(op, _fitted_column(op, model, x, index), categories, unknown=len(categories))
        parts.append(take(table.astype(dtype), code))
    return np.concatenate(parts, axis=1)


@lower(
    "OrdinalEncoder.inverse_transform",
    built(lambda: words("OrdinalEncoder"), np.array([[2.0, 0], [0, 1]])),
    built(lambda: words("OrdinalEncoder", max_categories=2), np.array([[1.0, 0], [0, 1]])),
    built(lambda: unfitted("OrdinalEncoder").fit([[1.0, 2], [np.nan, 3]]), np.array([[0.0, 1], [np.nan, 0]])),
)
def ordinal_decoder(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The category of each number; what stands for none is "None" among strings, NaN among numbers."""
    rows = numbers(op, x).astype(np.float64)
    parts = []
    for index, categories in enumerate(model.categories_):
        value = rows[:, index]
        if index in model._missing_indices:
            value = np.where(_is(value, model.encoded_missing_value), float(model._missing_indices[index]), value)
        infrequent = model._infrequent_indices[index] if model._infrequent_enabled else None
        labels = categories.tolist()
        if infrequent is not None:
            labels = [*np.delete(categories, infrequent).tolist(), "infrequent_sklearn"]
        if model.handle_unknown == "use_encoded_value":
            value = np.where(_is(value, model.unknown_value), float(len(labels)), value)
            labels.append(None)
        parts.append(take_class(_spelled(labels), value.astype(np.int64)))
    return np.stack(parts, axis=1)


def _is(value: Array, mark: float) -> Array:
    return np.isnan(value) if mark != mark else value == mark


def _target_encoder(**options: object) -> Any:
    table = np.array([["red", "s"], ["green", "m"], ["blue", "l"], ["red", "l"], ["red", "s"]] * 24, object)
    y = target(3, text=True) if options.pop("classes", False) else data()[:, 0]
    return unfitted("TargetEncoder", **options).fit(table, y)


@lower("TargetEncoder.transform", given(_target_encoder, {}, {"classes": True}, rows=_UNKNOWN))
def target_encoder(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The fitted mean of the target for each category, for each class where there are several."""
    several = model.target_type_ == "multiclass"
    parts = []
    for index, categories in enumerate(model.categories_):
        code = codes(op, _fitted_column(op, model, x, index), categories, unknown=len(categories))
        size = len(model.classes_) if several else 1
        for inner in range(size):
            mean = model.target_mean_[inner] if several else model.target_mean_
            table = np.append(np.asarray(model.encodings_[index * size + inner], np.float64), mean)
            parts.append(take(table, code))
    return np.concatenate(parts, axis=1)


def _column(op: OpBuilder, x: Table) -> ir.Value:
    """Labels as a column, given as a vector or a column."""
    value = matrix(op, x)
    return value if value.shape is not None and value.shape.rank() == 2 else op.Unsqueeze(value, op.axes(1))


_encoder, _binarizer = (partial(fit, kind, ["b", "a", "c"]) for kind in ("LabelEncoder", "LabelBinarizer"))


@lower("LabelEncoder.transform", built(_encoder, np.array(["a", "c", "a"], object)))
def label_encoder(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The number of each label; -1 for an unknown one, where scikit-learn raises."""
    return codes(op, _column(op, x), model.classes_).reshape(-1)


@lower("LabelEncoder.inverse_transform", built(_encoder, np.array([1, 0, 2])))
def label_decoder(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The label of each number."""
    return take_class(model.classes_, Array(op, _column(op, x)).reshape(-1).astype(np.int64))


@lower(
    "LabelBinarizer.transform",
    built(_binarizer, np.array(["a", "c", "x"], object)),
    built(lambda: unfitted("LabelBinarizer", neg_label=-1).fit(["b", "a"]), np.array(["a", "b"], object)),
)
def label_binarizer(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """A column for each label, one column for two."""
    if model.y_type_.startswith("multilabel"):
        rows = numbers(op, x)
        return np.where(rows != 0, model.pos_label, model.neg_label)
    code = codes(op, _column(op, x), model.classes_)
    if len(model.classes_) <= 2:
        hit = code == len(model.classes_) - 1 if len(model.classes_) == 2 else code == 99
    else:
        hit = code == np.arange(len(model.classes_))[None]
    return np.where(hit, int(model.pos_label), int(model.neg_label))


@lower(
    "LabelBinarizer.inverse_transform",
    built(_binarizer, f64(4, 3)),
    built(lambda: unfitted("LabelBinarizer").fit(["b", "a"]), f64(4, 1)),
)
def label_unbinarizer(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The label of the greatest value, or by the middle of the two."""
    rows = numbers(op, x)
    threshold = (model.pos_label + model.neg_label) / 2.0
    if model.y_type_ == "multiclass":
        return take_class(model.classes_, np.argmax(rows, axis=1))
    if model.y_type_.startswith("multilabel"):
        return (rows > threshold).astype(np.int64)
    column = rows[:, 1] if rows.ndim == 2 and rows.shape[1] == 2 else rows.reshape(-1)
    return take_class(model.classes_, (column > threshold).astype(np.int64))


_sets = partial(fit, "MultiLabelBinarizer", [["red", "big"], ["green"], ["small", "red", "red"]])


@lower("MultiLabelBinarizer.transform", built(_sets, [["red"], [], ["small", "green"]]))
def label_sets(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """A column for each label, 1 where the row's list has it; lists of strings, [N, K], "" beyond their end."""
    rows = Array(op, matrix(op, x))
    labels = np.asarray(model.classes_)
    if rows.dtype != object or not all(isinstance(item, str) and item for item in labels.tolist()):
        raise UnsupportedOperator(
            "MultiLabelBinarizer: labels are strings, not empty ones: give lists of them as inputs"
        )
    code = codes(op, rows.value, labels)
    hits = (code[:, :, None] == np.arange(len(labels))[None, None]).astype(np.int64)
    return np.minimum(np.sum(hits, axis=1), 1)


@lower("MultiLabelBinarizer.inverse_transform", built(_sets, np.array([[0, 1, 0, 1], [1, 0, 0, 0], [0] * 4])))
def sets_of_labels(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The labels of each row, [N, K], "" beyond the last one; K is the greatest number of them in the batch."""
    rows, labels = numbers(op, x), np.asarray(model.classes_)
    if not all(isinstance(item, str) for item in labels.tolist()):
        raise UnsupportedOperator("MultiLabelBinarizer: inverse_transform gives lists, of strings only in ONNX")
    used = rows != 0
    labels_of_columns = rows.of(op.Where(used.value, op.const(labels.astype(object)), op.const(np.array("", object))))
    count = np.sum(used.astype(np.int64), axis=1)
    first: Any = np.argsort((~used).astype(np.int64), axis=1)
    most = op.ReduceMax(op.Concat(count.value, op.const([0]), axis=0), keepdims=1)
    return rows.of(op.GatherElements(labels_of_columns.value, op.Slice(first.value, [0], most, [1]), axis=1))
