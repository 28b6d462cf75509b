"""Polynomials and splines of columns."""

from __future__ import annotations

from functools import partial
from itertools import combinations, combinations_with_replacement
from math import factorial
from numbers import Integral
from typing import Any

import numpy as np
from scipy.interpolate import BSpline
from sklearn.base import BaseEstimator

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import built, f64
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array
from onnxport.opset_maps.to_onnx.sklearn.arrays.functions import full, take
from onnxport.opset_maps.to_onnx.sklearn.entries import cases, lower, lower_fitted
from onnxport.opset_maps.to_onnx.sklearn.fitted import data, fit, transformer
from onnxport.opset_maps.to_onnx.sklearn.tables.sparse import Held, held
from onnxport.opset_maps.to_onnx.sklearn.tables.table import Table, any_floats, numbers

_one_constant = partial(fit, "SplineTransformer", data() * [0, 1, 1, 1] + [3, 0, 0, 0])
_POWERS: tuple[dict[str, Any], ...] = (
    {},
    {"degree": 3, "interaction_only": True},
    {"degree": (2, 3), "include_bias": False},
    {"degree": 0},
)


@lower_fitted("PolynomialFeatures.transform", transformer, *_POWERS)
def polynomial_features(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
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
        # of a lower degree than the wanted ones those products from which others follow
        needed = list(dict.fromkeys(key[:degree] for size in wanted if size >= degree for key in wanted[size]))
        if not needed:
            break
        if degree > 1:
            block = block[:, [before[key[:-1]] for key in needed]] * rows[:, [key[-1] for key in needed]]
            before = {key: i for i, key in enumerate(needed)}
        if wanted.get(degree):
            places = [before[key] for key in wanted[degree]]
            blocks.append(block if places == list(range(block.shape[1])) else block[:, places])
    return np.concatenate(blocks or [rows[:, []]], axis=1)


@lower(
    "SplineTransformer.transform",
    cases(
        transformer,
        "SplineTransformer",
        {},
        {"extrapolation": "linear", "degree": 2},
        {"extrapolation": "continue"},
        {"extrapolation": "periodic", "include_bias": False},
        {"degree": 1, "extrapolation": "linear"},
    ),
    [
        built(partial(_one_constant, "SplineTransformer", extrapolation=mode), f64(7, 4))
        for mode in ("continue", "periodic", "linear")
    ],
)
def spline_transformer(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """B-splines of each column: on each interval of the knots a polynomial; beyond them by the rule of `extrapolation`."""
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
    result = np.concatenate(blocks, axis=1).astype(dtype)
    if model.include_bias:
        return result
    count = model.bsplines_[0].c.shape[1]
    return result[:, [j for j in range(result.shape[1]) if (j + 1) % count]]


def _splines(model: BaseEstimator, spline: BSpline, x: Array, degree: int) -> Array:
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
    result = take(x.const(coefficients[0]), passed, axis=0)
    for row in coefficients[1:]:
        result = result * offset + take(x.const(row), passed, axis=0)
    return result
