"""Imputation of missing values."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import onnx_ir as ir
from sklearn.base import BaseEstimator

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import built
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array
from onnxport.opset_maps.to_onnx.sklearn.arrays.distances import least_of, product_squares
from onnxport.opset_maps.to_onnx.sklearn.arrays.functions import take
from onnxport.opset_maps.to_onnx.sklearn.arrays.iteration import in_blocks
from onnxport.opset_maps.to_onnx.sklearn.entries import given, lower
from onnxport.opset_maps.to_onnx.sklearn.fitted import data, fit, unfitted
from onnxport.opset_maps.to_onnx.sklearn.tables.categories import codes, text_of
from onnxport.opset_maps.to_onnx.sklearn.tables.table import Table, any_floats, called, floats, matrix, numbers

_GAPS = np.array([[1.0, np.nan, 2.0, 3.0], [np.nan] * 4, [0.5, 1.0, -1.0, 0.0]])
_BLANK = np.array([["a", ""], ["", "c"]], object)


def missing_in(op: OpBuilder, rows: Array, marker: object) -> Array:
    """Whether an element is the mark of a missing value (sklearn.utils._mask._get_mask)."""
    if rows.dtype == object:
        columns = [rows[:, i : i + 1].value for i in range(rows.shape[1] or 0)]
        return np.concatenate([codes(op, item, np.array([text_of(marker)], object)) == 0 for item in columns], axis=1)
    if marker is None or isinstance(marker, str):
        raise UnsupportedOperator(f"missing_values={marker!r} among numbers")
    if type(marker).__name__ == "NAType" or marker != marker:
        return np.isnan(rows) if rows.dtype.kind == "f" else np.zeros_like(rows, bool)
    return rows == marker


def _fitted(name: str, **options: object) -> Any:
    """An imputer fitted on normal features with gaps."""
    x = data()
    x[::7, 1] = x[::5, 2] = np.nan
    if name == "IterativeImputer":
        import sklearn.experimental.enable_iterative_imputer  # noqa: F401  (the import is what enables it)

        x[::11, 0] = np.nan
    return unfitted(name, **options).fit(x)


_simple, _neighbours = partial(_fitted, "SimpleImputer"), partial(_fitted, "KNNImputer", n_neighbors=3)
_indicator = partial(_fitted, "MissingIndicator", error_on_new=False)
_rounds = partial(_fitted, "IterativeImputer")


_WORDS = np.array([["a", "b"], ["", "c"], ["a", ""]], object)
_blanks = partial(fit, "SimpleImputer", _WORDS, missing_values="", strategy="most_frequent")


@lower(
    "SimpleImputer.transform",
    given(_simple, {}, {"strategy": "median", "add_indicator": True}, rows=_GAPS),
    built(lambda: _simple(strategy="constant", fill_value=7.0), _GAPS.astype(np.float32)),
    built(_blanks, _BLANK),
)
def simple_imputer(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """Missing values replaced by the column's statistic; columns without one left out; indicator columns on request."""
    rows = Array(op, matrix(op, x))
    if rows.dtype != object and model.strategy not in ("most_frequent", "constant"):
        rows = any_floats(op, x)
    statistics = np.asarray(model.statistics_)
    missing = missing_in(op, rows, model.missing_values)
    if rows.dtype == object:
        kept = np.array([isinstance(item, str) for item in statistics])
        words = np.array([item if isinstance(item, str) else "" for item in statistics], object)
        result = rows.of(op.Where(missing.value, op.const(words), rows.value))
    elif statistics.dtype == object and any(isinstance(item, str) for item in statistics):
        raise UnsupportedOperator(
            "the imputer was fitted on strings, the input holds numbers: pass rows like those as inputs="
        )
    else:
        numeric = statistics.astype(np.float64)
        kept = ~np.isnan(numeric)
        result = np.where(missing, np.where(kept, numeric, 0.0).astype(rows.dtype), rows)
    if not (model.keep_empty_features or kept.all()):
        result = result[:, kept]
    return joined_indicator(model, result, missing)


@lower(
    "SimpleImputer.inverse_transform",
    built(
        lambda: _simple(strategy="median", add_indicator=True),
        np.array([[1.0, 7.0, 2.0, 3.0, 1.0, 0.0], [0.5, 1.0, -1.0, 0.0, 0.0, 0.0], [2.0, 5.0, 6.0, 1.0, 1.0, 1.0]]),
    ),
)
def simple_gaps(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """Missing values where the indicator is set; a column that is missing in every row of the batch has no imputed column."""
    if not model.add_indicator:
        raise UnsupportedOperator("SimpleImputer: inverse_transform needs add_indicator=True")
    rows = numbers(op, x)
    features = model.indicator_.features_
    width, count = (rows.shape[1] or 0) - len(features), len(model.statistics_)
    missing = (rows[:, width:] != 0) @ (features[:, None] == np.arange(count)).astype(np.float64) > 0
    gone = np.min(missing.astype(np.int64), axis=0)
    place = np.cumsum(1 - gone, axis=0) - 1
    values = take(rows[:, :width].astype(np.float64), np.clip(place, 0, width - 1), axis=1)
    values = np.where((gone == 0) & (place < width), values, missing.astype(np.float64))
    return np.where(missing, float(model.missing_values), values)


def joined_indicator(model: BaseEstimator, rows: Array, missing: Array) -> Array:
    """The imputed columns, followed by those of the imputer's indicator of missing values."""
    if model.indicator_ is None:
        return rows
    if rows.dtype == object:
        raise UnsupportedOperator("add_indicator=True puts booleans beside strings, which are no matrix")
    return np.hstack([rows, missing[:, model.indicator_.features_].astype(rows.dtype)])


@lower("MissingIndicator.transform", given(_indicator, {}, {"features": "all"}, rows=_GAPS))
def missing_indicator(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """Whether the values of the columns with missing ones, or of all, are missing."""
    rows = Array(op, matrix(op, x))
    missing = missing_in(op, rows if rows.dtype == object else numbers(op, x), model.missing_values)
    return missing if len(model.features_) == model.n_features_in_ else missing[:, model.features_]


def _present_distances(rows: Array, fitted: np.ndarray) -> Array:
    """Euclidean distances over the features that both rows have, scaled up to all; infinite where there is none, [N, M].

    In the steps of sklearn.metrics.pairwise.nan_euclidean_distances, whose rounding decides between rows that are nearly as near.
    """
    gone, lost = np.isnan(rows).astype(np.float64), np.isnan(fitted).astype(np.float64)
    x, y = np.where(np.isnan(rows), 0.0, rows), np.where(np.isnan(fitted), 0.0, fitted)
    squares = np.maximum(product_squares(x, y) - (x * x) @ lost.T - gone @ (y * y).T, 0.0)
    shared = (1.0 - gone) @ (1.0 - lost).T
    result = np.sqrt(squares / np.maximum(shared, 1.0) * float(fitted.shape[1]))
    return np.where(shared > 0, result, np.inf)


def _filled_in(model: BaseEstimator, rows: Array, fitted: np.ndarray) -> Array:
    """Rows with the means of their nearest fitted rows where they have NaN."""
    gap = _present_distances(rows, fitted)
    columns = []
    for index in range(fitted.shape[1]):
        donors = np.flatnonzero(~np.isnan(fitted[:, index]))
        column, absent = rows[:, index], np.isnan(rows[:, index])
        if not len(donors):
            columns.append(np.where(absent, 0.0, column))
            continue
        count = min(model.n_neighbors, len(donors))
        distance, places = least_of(gap[:, donors], count)
        weights = np.isfinite(distance).astype(np.float64)
        if model.weights == "distance":
            same = distance == 0.0
            near = weights / np.where(same, 1.0, distance)
            weights = np.where(np.any(same, axis=1, keepdims=True), same.astype(np.float64), near)
        total = np.sum(weights, axis=1)
        mean = np.sum(weights * take(fitted[donors, index], places), axis=1) / np.where(total == 0, 1.0, total)
        mean = np.where(total == 0, np.mean(fitted[donors, index]), mean)
        columns.append(np.where(absent, mean, column))
    return np.stack(columns, axis=1)


@lower("KNNImputer.transform", given(_neighbours, {}, {"weights": "distance", "add_indicator": True}, rows=_GAPS))
def neighbour_imputer(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """Missing values replaced by the mean of the nearest fitted rows that have the feature."""
    if callable(model.weights) or model.metric != "nan_euclidean":
        raise UnsupportedOperator("KNNImputer: metric and weights given by functions have no mapping")
    rows = any_floats(op, x)
    missing = missing_in(op, rows, model.missing_values)
    wide: Any = np.where(missing, np.nan, rows.astype(np.float64))
    fitted = np.where(model._mask_fit_X, np.nan, np.asarray(model._fit_X, np.float64))
    lacking: Any = np.any(missing, axis=1)
    chosen = op.Compress(wide.value, lacking.value, axis=0)
    chosen.shape = ir.Shape([None, fitted.shape[1]])
    (filled,) = in_blocks(rows.of(chosen), len(fitted), lambda block: [_filled_in(model, block, fitted)])
    places = op.Transpose(op.NonZero(lacking.value), perm=[1, 0])
    result = rows.of(op.ScatterND(wide.value, places, filled.value)).astype(rows.dtype)
    valid = np.asarray(model._valid_mask)
    if not (valid.all() or model.keep_empty_features):
        result = result[:, valid]
    return joined_indicator(model, result, missing)


def _forest() -> Any:
    return unfitted("RandomForestRegressor", n_estimators=4, max_depth=3)


@lower(
    "IterativeImputer.transform",
    given(_rounds, {}, {"add_indicator": True, "min_value": -0.5, "initial_strategy": "median"}, rows=_GAPS),
    built(lambda: _rounds(max_iter=3, n_nearest_features=2, estimator=_forest(), tol=10.0), _GAPS),
    built(_rounds, np.full((2, 4), np.nan)),
)
def iterative_imputer(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """Missing values of each feature predicted from the others, round after round (van Buuren and others, MICE)."""
    if model.sample_posterior:
        raise UnsupportedOperator("IterativeImputer: sample_posterior=True draws random numbers; no two runs agree")
    rows = floats(op, x)
    everywhere = missing_in(op, rows, model.missing_values)
    first = called(op, model.initial_imputer_, "transform", rows.value, step="initial_imputer_")
    empty = np.asarray(model._is_empty_feature)
    kept = np.arange(len(empty)) if model.keep_empty_features else np.flatnonzero(~empty)
    missing = everywhere[:, kept]
    columns = [first[:, i] for i in range(len(kept))]
    absent = [missing[:, i] & (not empty[feature]) for i, feature in enumerate(kept)]
    for number, step in enumerate(model.imputation_sequence_):
        others: Any = np.stack([columns[i] for i in step.neighbor_feat_idx], axis=1)
        values = called(op, step.estimator, "predict", others.value, step=f"imputation_sequence_[{number}]")
        values = np.clip(values, model._min_value[step.feat_idx], model._max_value[step.feat_idx]).astype(rows.dtype)
        columns[step.feat_idx] = np.where(absent[step.feat_idx], values, columns[step.feat_idx])
    result = np.stack(columns, axis=1)
    # a batch of nothing but missing values is left as the first imputer filled it
    result = np.where(np.min(np.stack(absent, axis=1).astype(np.int64)) == 1, first, result)
    return joined_indicator(model, result, everywhere)
