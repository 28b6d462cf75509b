"""Scalers, polynomials, splines and other functions of single columns."""

from __future__ import annotations

from functools import partial
from itertools import combinations, combinations_with_replacement, pairwise
from math import factorial
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import built, f64
from onnxport.opset_maps.maps import sklearn
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array, one_value
from onnxport.opset_maps.to_onnx.sklearn.arrays.functions import full, take
from onnxport.opset_maps.to_onnx.sklearn.fitted import cases, data, made, transformer
from onnxport.opset_maps.to_onnx.sklearn.tables.sparse import Held, held, is_sparse
from onnxport.opset_maps.to_onnx.sklearn.tables.table import Table, any_floats, called, floats, numbers
from onnxport.opset_maps.to_onnx.sklearn.text.vectorizers import normalized_rows
from onnxport.opset_maps.to_onnx.sklearn.trees.places import passed

if TYPE_CHECKING:
    from scipy.interpolate import BSpline
    from sklearn.discriminant_analysis import StandardScaler
    from sklearn.preprocessing import (
        Binarizer,
        KBinsDiscretizer,
        MaxAbsScaler,
        MinMaxScaler,
        Normalizer,
        PolynomialFeatures,
        PowerTransformer,
        QuantileTransformer,
        RobustScaler,
        SplineTransformer,
    )

_HERE = "preprocessing"


def _one_constant(name: str, **options: object) -> Any:
    return made(_HERE, name, **options).fit(data() * [0, 1, 1, 1] + [3, 0, 0, 0])


@sklearn.lower("StandardScaler.transform", cases=cases(transformer, _HERE, "StandardScaler", {}, {"with_mean": False}))
def standard_scaler(op: OpBuilder, model: StandardScaler, x: Table) -> Array:
    """(x - mean) / scale, in the type of x."""
    rows = any_floats(op, x)
    if model.with_mean:
        rows = rows - model.mean_.astype(rows.dtype)
    return rows / model.scale_.astype(rows.dtype) if model.with_std else rows


@sklearn.lower("StandardScaler.inverse_transform", cases=cases(transformer, _HERE, "StandardScaler"))
def standard_unscaler(op: OpBuilder, model: StandardScaler, x: Table) -> Array:
    """x scale + mean."""
    rows = any_floats(op, x)
    if model.with_std:
        rows = rows * model.scale_.astype(rows.dtype)
    return rows + model.mean_.astype(rows.dtype) if model.with_mean else rows


# NumPy's in-place operations compute in the wider type and store in the array's own: so do these.


@sklearn.lower("RobustScaler.transform", cases=cases(transformer, _HERE, "RobustScaler", {}, {"unit_variance": True}))
def robust_scaler(op: OpBuilder, model: RobustScaler, x: Table) -> Array:
    """(x - center) / scale."""
    rows = any_floats(op, x).copy()
    if model.with_centering:
        rows -= model.center_
    if model.with_scaling:
        rows /= model.scale_
    return rows


@sklearn.lower("RobustScaler.inverse_transform", cases=cases(transformer, _HERE, "RobustScaler"))
def robust_unscaler(op: OpBuilder, model: RobustScaler, x: Table) -> Array:
    """x scale + center."""
    rows = any_floats(op, x).copy()
    if model.with_scaling:
        rows *= model.scale_
    if model.with_centering:
        rows += model.center_
    return rows


@sklearn.lower(
    "MinMaxScaler.transform",
    cases=cases(transformer, _HERE, "MinMaxScaler", {"clip": True}, {"feature_range": (-1, 2)}),
)
def min_max_scaler(op: OpBuilder, model: MinMaxScaler, x: Table) -> Array:
    """x scale + min, clipped to the feature range on request."""
    rows = any_floats(op, x).copy()
    rows *= model.scale_
    rows += model.min_
    if model.clip:
        low, high = (rows.dtype.type(item) for item in model.feature_range)
        rows = np.clip(rows, low, high)
    return rows


@sklearn.lower("MinMaxScaler.inverse_transform", cases=cases(transformer, _HERE, "MinMaxScaler"))
def min_max_unscaler(op: OpBuilder, model: MinMaxScaler, x: Table) -> Array:
    """(x - min) / scale."""
    rows = any_floats(op, x).copy()
    rows -= model.min_
    rows /= model.scale_
    return rows


@sklearn.lower("MaxAbsScaler.transform", cases=cases(transformer, _HERE, "MaxAbsScaler"))
def max_abs_scaler(op: OpBuilder, model: MaxAbsScaler, x: Table) -> Array:
    """x / scale."""
    rows = any_floats(op, x).copy()
    rows /= model.scale_
    return np.clip(rows, -1.0, 1.0) if getattr(model, "clip", False) else rows


@sklearn.lower("MaxAbsScaler.inverse_transform", cases=cases(transformer, _HERE, "MaxAbsScaler"))
def max_abs_unscaler(op: OpBuilder, model: MaxAbsScaler, x: Table) -> Array:
    """x scale."""
    rows = any_floats(op, x).copy()
    rows *= model.scale_
    return rows


@sklearn.lower(
    "Normalizer.transform", cases=cases(transformer, _HERE, "Normalizer", {}, {"norm": "l1"}, {"norm": "max"})
)
def normalizer(op: OpBuilder, model: Normalizer, x: Table) -> Array:
    """Rows divided by their norm; rows of zeros stay."""
    rows = any_floats(op, x)
    if is_sparse(x):
        return normalized_rows(rows, model.norm)
    wide = rows.astype(np.float32) if rows.dtype == np.float16 else rows  # NumPy sums what is narrower in float32
    if model.norm == "l2":
        norm = np.sqrt(np.sum(wide * wide, axis=1, keepdims=True).astype(rows.dtype))
    elif model.norm == "l1":
        norm = np.sum(np.abs(wide), axis=1, keepdims=True).astype(rows.dtype)
    else:
        norm = np.max(np.abs(rows), axis=1, keepdims=True)
    # sklearn.preprocessing._data._handle_zeros_in_scale: a norm within rounding of 0 counts as 0
    least = 10 * np.finfo(rows.dtype).eps
    return rows / np.where(norm < least, rows.dtype.type(1), norm)


@sklearn.lower("Binarizer.transform", cases=cases(transformer, _HERE, "Binarizer", {"threshold": 0.3}))
def binarizer(op: OpBuilder, model: Binarizer, x: Table) -> Array:
    """1 where x > threshold, else 0, in the type of x."""
    rows = numbers(op, x)
    threshold = float(model.threshold)
    found = rows > (threshold if rows.dtype.kind == "f" else np.float64(threshold))
    return found.astype(rows.dtype)


@sklearn.lower(
    "PolynomialFeatures.transform",
    cases=cases(
        transformer,
        _HERE,
        "PolynomialFeatures",
        {},
        {"degree": 3, "interaction_only": True},
        {"degree": (2, 3), "include_bias": False},
        {"degree": 0},
    ),
)
def polynomial_features(op: OpBuilder, model: PolynomialFeatures, x: Table) -> Array:
    """Products of columns: those of each degree from the products of one column less."""
    least, most = (0, model.degree) if isinstance(model.degree, Integral) else model.degree
    if held(x) >= Held.UNORDERED and most in (2, 3):
        raise UnsupportedOperator(
            "PolynomialFeatures: of a graph of neighbours, whose entries stand in the order of their distances, scikit-learn puts"
            " products into other columns; sort them first (X.sort_indices()), or turn the graph into a dense matrix"
        )
    rows = any_floats(op, x)
    drawn = combinations if model.interaction_only else combinations_with_replacement
    wanted = {degree: list(drawn(range(model.n_features_in_), degree)) for degree in range(max(least, 1), most + 1)}
    blocks = [full(rows, (None, 1), 1, rows.dtype)] if model.include_bias else []
    block = rows
    before: dict[tuple[int, ...], int] = {(column,): column for column in range(model.n_features_in_)}
    for degree in range(1, most + 1):
        # of a lower degree than the wanted ones those products that others are made of
        needed = list(dict.fromkeys(key[:degree] for size in wanted if size >= degree for key in wanted[size]))
        if not needed:
            break
        if degree > 1:
            block = block[:, [before[key[:-1]] for key in needed]] * rows[:, [key[-1] for key in needed]]
            before = {key: i for i, key in enumerate(needed)}
        if wanted.get(degree):
            blocks.append(_taken(block, [before[key] for key in wanted[degree]]))
    return np.concatenate(blocks or [rows[:, []]], axis=1)


def _taken(block: Array, places: list[int]) -> Array:
    return block if places == list(range(block.shape[1])) else block[:, places]


@sklearn.lower(
    "KBinsDiscretizer.transform",
    cases=cases(
        transformer,
        _HERE,
        "KBinsDiscretizer",
        {"encode": "ordinal", "quantile_method": "averaged_inverted_cdf"},
        {"quantile_method": "averaged_inverted_cdf"},
        {"strategy": "uniform", "encode": "onehot-dense"},
    ),
)
def bins(op: OpBuilder, model: KBinsDiscretizer, x: Table) -> Array:
    """The number of inner edges not above the value; as ones among zeros where it is encoded so."""
    rows = floats(op, x) if model.dtype is None else numbers(op, x, model.dtype)
    counts, shown = [], []
    for column, edges in enumerate(model.bin_edges_):
        passed = rows[:, column : column + 1] >= np.asarray(edges[1:-1])[None]
        counts.append(np.sum(passed.astype(np.int64), axis=1, keepdims=True))
        shown.append((counts[-1] == np.arange(len(edges) - 1)).astype(rows.dtype))
    found = np.concatenate(counts, axis=1).astype(rows.dtype) if model.encode == "ordinal" else None
    return np.concatenate(shown, axis=1) if found is None else found


@sklearn.lower(
    "KBinsDiscretizer.inverse_transform",
    cases=[
        built(
            lambda: made(_HERE, "KBinsDiscretizer", encode="ordinal", strategy="uniform").fit(data()),
            np.array([[0.0, 1, 2, 3], [4, 3, 2, 1]]),
        )
    ],
)
def unbin(op: OpBuilder, model: KBinsDiscretizer, x: Table) -> Array:
    """The middle of each bin."""
    rows = any_floats(op, x)
    if "onehot" in model.encode:
        sizes = [len(edges) - 1 for edges in model.bin_edges_]
        starts = np.cumsum([0, *sizes])
        codes = [np.argmax(rows[:, a:b], axis=1) for a, b in pairwise(starts)]
        rows = np.stack(codes, axis=1).astype(np.float64)
    found = []
    for column, edges in enumerate(model.bin_edges_):
        centres = ((edges[1:] + edges[:-1]) * 0.5).astype(rows.dtype)
        found.append(take(centres, rows[:, column].astype(np.int64)))
    return np.stack(found, axis=1)


# -- power and quantile transforms -------------------------------------------------------------------------------------------


@sklearn.lower(
    "PowerTransformer.transform",
    cases=[
        *cases(transformer, _HERE, "PowerTransformer", {}, {"standardize": False}),
        *cases(
            transformer, _HERE, "PowerTransformer", {"method": "box-cox", "positive": True}, rows=f64(7, 4, low=0.1)
        ),
    ],
)
def power_transformer(op: OpBuilder, model: PowerTransformer, x: Table) -> Array:
    """Box and Cox's or Yeo and Johnson's power of each column, then standardised."""
    rows = any_floats(op, x)
    wide = rows.astype(np.float64)
    columns = [_power(wide[:, i], float(item), model.method) for i, item in enumerate(model.lambdas_)]
    found = np.stack(columns, axis=1).astype(rows.dtype)
    return called(op, model._scaler, "transform", one_value(found)) if model.standardize else found


def _power(x: Array, power: float, method: str) -> Array:
    if method == "box-cox":
        return np.log(x) if abs(power) < 1e-19 else np.expm1(power * np.log(x)) / power
    above = np.log1p(np.maximum(x, 0.0))
    below = np.log1p(np.maximum(-x, 0.0))
    positive = above if abs(power) < np.spacing(1.0) else np.expm1(power * above) / power
    rest = 2 - power
    negative = -below if abs(rest) < np.spacing(1.0) else -np.expm1(rest * below) / rest
    found = np.where(x >= 0, positive, negative)
    return np.where(np.isnan(x), x, found)


@sklearn.lower(
    "PowerTransformer.inverse_transform",
    cases=[
        *cases(transformer, _HERE, "PowerTransformer", {}, rows=f64(7, 4, low=-0.5, high=0.5)),
        *cases(transformer, _HERE, "PowerTransformer", {"method": "box-cox", "positive": True}, rows=f64(7, 4, high=1)),
    ],
)
def power_untransformer(op: OpBuilder, model: PowerTransformer, x: Table) -> Array:
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


def interpolated(x: Array, points: np.ndarray, values: np.ndarray) -> Array:
    """numpy.interp: the piecewise linear function through ascending `points`, constant beyond them."""
    points, values = np.asarray(points, np.float64), np.asarray(values, np.float64)
    wide = x.astype(np.float64)
    if len(points) == 1:
        return full(wide, wide.shape, values[0], np.float64)
    place = np.clip(passed(wide, points, equal=True) - 1, 0, len(points) - 2)
    gap = points[1:] - points[:-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = np.where(gap > 0, (values[1:] - values[:-1]) / np.where(gap > 0, gap, 1.0), 0.0)
    inside = take(slope, place) * (wide - take(points[:-1], place)) + take(values[:-1], place)
    return np.where(wide >= points[-1], values[-1], np.where(wide < points[0], values[0], inside))


_BOUND = 1e-7  # sklearn.preprocessing._data.BOUNDS_THRESHOLD


@sklearn.lower(
    "QuantileTransformer.transform",
    cases=cases(
        transformer,
        _HERE,
        "QuantileTransformer",
        {"n_quantiles": 20},
        {"n_quantiles": 20, "output_distribution": "normal"},
    ),
)
def quantile_transformer(op: OpBuilder, model: QuantileTransformer, x: Table) -> Array:
    """The share of fitted values below, interpolated; as a normal deviate on request. Zeros of a sparse matrix stay zeros."""
    from scipy.special import ndtri
    from scipy.stats import norm

    rows = any_floats(op, x)
    if held(x) == Held.WITH_ZEROS and model.output_distribution == "normal":
        raise UnsupportedOperator(
            "QuantileTransformer: output_distribution='normal' tells the zeros that a graph of distances stores from those that "
            "it leaves out; use 'uniform'"
        )
    found = []
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
        found.append(np.where(kept, column, value))
    return np.stack(found, axis=1)


@sklearn.lower(
    "QuantileTransformer.inverse_transform",
    cases=cases(
        transformer,
        _HERE,
        "QuantileTransformer",
        {"n_quantiles": 20},
        {"n_quantiles": 20, "output_distribution": "normal"},
        rows=f64(7, 4, low=0, high=1),
    ),
)
def quantile_untransformer(op: OpBuilder, model: QuantileTransformer, x: Table) -> Array:
    """The fitted value below which the given share lies."""
    from scipy.special import ndtr

    rows = any_floats(op, x)
    found = []
    for index in range(model.quantiles_.shape[1]):
        column, levels, shares = rows[:, index], model.quantiles_[:, index], model.references_
        normal = model.output_distribution == "normal"
        share = ndtr(column.astype(np.float64)).astype(column.dtype) if normal else column
        below = share - _BOUND < 0 if normal else share == 0
        above = share + _BOUND > 1 if normal else share == 1
        value = interpolated(share, shares, levels).astype(rows.dtype)
        value = np.where(below, rows.dtype.type(levels[0]), np.where(above, rows.dtype.type(levels[-1]), value))
        found.append(np.where(np.isnan(column), column, value))
    return np.stack(found, axis=1)


# -- splines ---------------------------------------------------------------------------------------------------------------


@sklearn.lower(
    "SplineTransformer.transform",
    cases=[
        *cases(
            transformer,
            _HERE,
            "SplineTransformer",
            {},
            {"extrapolation": "linear", "degree": 2},
            {"extrapolation": "continue"},
            {"extrapolation": "periodic", "include_bias": False},
            {"degree": 1, "extrapolation": "linear"},
        ),
        *(
            built(partial(_one_constant, "SplineTransformer", extrapolation=mode), f64(7, 4))
            for mode in ("continue", "periodic", "linear")
        ),
    ],
)
def spline_transformer(op: OpBuilder, model: SplineTransformer, x: Table) -> Array:
    """B-splines of each column: on each interval of the knots a polynomial; beyond them as `extrapolation` says."""
    rows = numbers(op, x)
    dtype = rows.dtype if rows.dtype.kind == "f" else np.dtype(np.float64)
    wide = rows.astype(np.float64)
    blocks = []
    degree = model.degree
    for index, spline in enumerate(model.bsplines_):
        column = wide[:, index]
        block = _splines(model, spline, column, degree)
        if model.extrapolation == "linear" and degree <= 1:
            degree += 1  # scikit-learn raises it for good: later columns are continued from the next knot
        if getattr(model, "handle_missing", "error") == "zeros":
            block = np.where(np.isnan(column)[:, None], 0.0, block)
        blocks.append(block)
    found = np.concatenate(blocks, axis=1).astype(dtype)
    if model.include_bias:
        return found
    count = model.bsplines_[0].c.shape[1]
    return found[:, [j for j in range(found.shape[1]) if (j + 1) % count]]


def _splines(model: SplineTransformer, spline: BSpline, x: Array, degree: int) -> Array:
    k, knots = spline.k, np.asarray(spline.t, np.float64)
    low, high = knots[degree], knots[-degree - 1]
    mode = model.extrapolation
    if mode == "periodic":
        n = len(knots) - k - 1
        period = knots[n] - knots[k]
        x = knots[k] + (x - knots[k]) % period if period > 0 else np.zeros_like(x)
        return _piecewise(spline, x)
    if mode in ("continue", "error"):
        return _piecewise(spline, x)
    inside = _piecewise(spline, np.clip(x, low, high))
    first, last = spline(low), spline(high)
    below, above = (x < low)[:, None], (x > high)[:, None]
    count = spline.c.shape[1]
    head, tail = np.arange(count) < degree, np.arange(count) >= count - degree
    if mode == "constant":
        return np.where(below, np.where(head, first, 0.0), np.where(above, np.where(tail, last, 0.0), inside))
    reach = degree + 1 if degree <= 1 else degree
    head, tail = np.arange(count) < reach, np.arange(count) >= count - reach
    slope_first, slope_last = spline(low, nu=1), spline(high, nu=1)
    lower = np.where(head, first, 0.0) + (x - low)[:, None] * np.where(head, slope_first, 0.0)
    upper = np.where(tail, last, 0.0) + (x - high)[:, None] * np.where(tail, slope_last, 0.0)
    return np.where(below, lower, np.where(above, upper, inside))


def _piecewise(spline: BSpline, x: Array) -> Array:
    """The spline's polynomial on the interval of each x, about the interval's left end; from the last end on about that one.

    At the ends themselves, as for the greatest fitted row, values are the spline's own: what is 0 there is no rounding.
    """
    k, knots = spline.k, np.asarray(spline.t, np.float64)
    ends = knots[k : len(knots) - k]
    at = ends.copy()
    if ends[0] == ends[1]:  # of no width: the first interval counts for what lies before it, as the last one after it
        at[0] = np.nextafter(at[0], -np.inf)
    coefficients = np.stack([spline(at, nu=k - row) / factorial(k - row) for row in range(k + 1)])  # [k+1, m, count]
    passed = np.sum((x[:, None] >= ends[None, 1:]).astype(np.int64), axis=1)
    offset = (x - take(ends, passed))[:, None]
    found = take(x.const(coefficients[0]), passed, axis=0)
    for row in coefficients[1:]:
        found = found * offset + take(x.const(row), passed, axis=0)
    return found
