"""Columns brought to another distribution: bins, powers and quantiles."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri
from scipy.stats import norm
from sklearn.base import BaseEstimator

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import built, f64
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array, one_value
from onnxport.opset_maps.to_onnx.sklearn.arrays.functions import take
from onnxport.opset_maps.to_onnx.sklearn.entries import cases, lower, lower_fitted
from onnxport.opset_maps.to_onnx.sklearn.fitted import data, transformer, unfitted
from onnxport.opset_maps.to_onnx.sklearn.tables.sparse import Held, held, is_sparse
from onnxport.opset_maps.to_onnx.sklearn.tables.table import Table, any_floats, called, floats, numbers
from onnxport.opset_maps.to_onnx.sklearn.trees.places import interpolated

_BINS = {"quantile_method": "averaged_inverted_cdf"}
_UNIFORM = {"strategy": "uniform", "encode": "onehot-dense"}


@lower_fitted("KBinsDiscretizer.transform", transformer, {**_BINS, "encode": "ordinal"}, _BINS, _UNIFORM)
def bins(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The number of inner edges not above the value; as ones among zeros where it is encoded so."""
    rows = floats(op, x) if model.dtype is None else numbers(op, x, model.dtype)
    counts, shown = [], []
    for column, edges in enumerate(model.bin_edges_):
        passed = rows[:, column : column + 1] >= np.asarray(edges[1:-1])[None]
        counts.append(np.sum(passed.astype(np.int64), axis=1, keepdims=True))
        shown.append((counts[-1] == np.arange(len(edges) - 1)).astype(rows.dtype))
    result = np.concatenate(counts, axis=1).astype(rows.dtype) if model.encode == "ordinal" else None
    return np.concatenate(shown, axis=1) if result is None else result


@lower(
    "KBinsDiscretizer.inverse_transform",
    built(
        lambda: unfitted("KBinsDiscretizer", encode="ordinal", strategy="uniform").fit(data()),
        np.array([[0.0, 1, 2, 3], [4, 3, 2, 1]]),
    ),
)
def unbin(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The middle of each bin."""
    rows = any_floats(op, x)
    if "onehot" in model.encode:
        sizes = [len(edges) - 1 for edges in model.bin_edges_]
        starts = np.cumsum([0, *sizes])
        codes = [np.argmax(rows[:, a:b], axis=1) for a, b in pairwise(starts)]
        rows = np.stack(codes, axis=1).astype(np.float64)
    columns = []
    for column, edges in enumerate(model.bin_edges_):
        centres = ((edges[1:] + edges[:-1]) * 0.5).astype(rows.dtype)
        columns.append(take(centres, rows[:, column].astype(np.int64)))
    return np.stack(columns, axis=1)


@lower(
    "PowerTransformer.transform",
    cases(transformer, "PowerTransformer", {}, {"standardize": False}),
    cases(transformer, "PowerTransformer", {"method": "box-cox", "positive": True}, rows=f64(7, 4, low=0.1)),
)
def power_transformer(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """Box and Cox's or Yeo and Johnson's power of each column, then standardised."""
    rows = any_floats(op, x)
    wide = rows.astype(np.float64)
    columns = [_power(wide[:, i], float(item), model.method) for i, item in enumerate(model.lambdas_)]
    result = np.stack(columns, axis=1).astype(rows.dtype)
    return called(op, model._scaler, "transform", one_value(result)) if model.standardize else result


def _power(x: Array, power: float, method: str) -> Array:
    if method == "box-cox":
        return np.log(x) if abs(power) < 1e-19 else np.expm1(power * np.log(x)) / power
    above = np.log1p(np.maximum(x, 0.0))
    below = np.log1p(np.maximum(-x, 0.0))
    positive = above if abs(power) < np.spacing(1.0) else np.expm1(power * above) / power
    rest = 2 - power
    negative = -below if abs(rest) < np.spacing(1.0) else -np.expm1(rest * below) / rest
    result = np.where(x >= 0, positive, negative)
    return np.where(np.isnan(x), x, result)


@lower(
    "PowerTransformer.inverse_transform",
    cases(transformer, "PowerTransformer", {}, rows=f64(7, 4, low=-0.5, high=0.5)),
    cases(transformer, "PowerTransformer", {"method": "box-cox", "positive": True}, rows=f64(7, 4, high=1)),
)
def power_untransformer(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The inverse powers of the columns."""
    rows = any_floats(op, x)
    if model.standardize:
        rows = called(op, model._scaler, "inverse_transform", x)
    wide = rows.astype(np.float64)
    columns = [_unpower(wide[:, i], float(item), model.method) for i, item in enumerate(model.lambdas_)]
    return np.stack(columns, axis=1).astype(rows.dtype)


def _unpower(x: Array, power: float, method: str) -> Array:
    if method == "box-cox":
        return np.exp(x) if power == 0 else np.exp(np.log1p(power * x) / power)
    positive = np.exp(x) - 1 if abs(power) < np.spacing(1.0) else np.power(x * power + 1, 1 / power) - 1
    rest = 2 - power
    negative = 1 - np.exp(-x) if abs(rest) <= np.spacing(1.0) else 1 - np.power(-rest * x + 1, 1 / rest)
    return np.where(x >= 0, positive, negative)


_QUANTILES: tuple[dict[str, Any], ...] = ({"n_quantiles": 20}, {"n_quantiles": 20, "output_distribution": "normal"})
_BOUND = 1e-7  # sklearn.preprocessing._data.BOUNDS_THRESHOLD


@lower_fitted("QuantileTransformer.transform", transformer, *_QUANTILES)
def quantile_transformer(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The share of fitted values below, interpolated; as a normal deviate on request. Zeros of a sparse matrix stay zeros."""
    rows = any_floats(op, x)
    if held(x) == Held.WITH_ZEROS and model.output_distribution == "normal":
        raise UnsupportedOperator(
            "QuantileTransformer: output_distribution='normal' tells the zeros that a graph of distances stores from those that "
            "it leaves out; use 'uniform'"
        )
    columns = []
    for index in range(model.quantiles_.shape[1]):
        column, levels, shares = rows[:, index], model.quantiles_[:, index], model.references_
        low, high = levels[0], levels[-1]
        up = interpolated(column, levels, shares)
        down = interpolated(-column, -levels[::-1], -shares[::-1])
        value = (0.5 * (up - down)).astype(rows.dtype)
        normal = model.output_distribution == "normal"
        below = column - _BOUND < low if normal else column == low
        above = column + _BOUND > high if normal else column == high
        value = np.where(below, 0.0, np.where(above, 1.0, value))
        if normal:
            limits = norm.ppf(_BOUND - np.spacing(1)), norm.ppf(1 - (_BOUND - np.spacing(1)))
            value = np.clip(ndtri(value.astype(np.float64)), *limits).astype(rows.dtype)
        kept = (column == 0) | np.isnan(column) if is_sparse(x) else np.isnan(column)
        columns.append(np.where(kept, column, value))
    return np.stack(columns, axis=1)


@lower_fitted("QuantileTransformer.inverse_transform", transformer, *_QUANTILES, rows=f64(7, 4, low=0, high=1))
def quantile_untransformer(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The fitted value below which the given share lies."""
    rows = any_floats(op, x)
    columns = []
    for index in range(model.quantiles_.shape[1]):
        column, levels, shares = rows[:, index], model.quantiles_[:, index], model.references_
        normal = model.output_distribution == "normal"
        share = ndtr(column.astype(np.float64)).astype(column.dtype) if normal else column
        below = share - _BOUND < 0 if normal else share == 0
        above = share + _BOUND > 1 if normal else share == 1
        value = interpolated(share, shares, levels).astype(rows.dtype)
        value = np.where(below, rows.dtype.type(levels[0]), np.where(above, rows.dtype.type(levels[-1]), value))
        columns.append(np.where(np.isnan(column), column, value))
    return np.stack(columns, axis=1)
