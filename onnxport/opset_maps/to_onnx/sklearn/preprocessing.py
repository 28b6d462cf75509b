"""Scalers, encoders and imputers."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import built, f32, f64
from onnxport.opset_maps.maps import sklearn
from onnxport.opset_maps.to_onnx.sklearn.fitted import transformer, words
from onnxport.opset_maps.to_onnx.sklearn.table import Frame, Table, columns, floating, matrix, width

_WORDS = np.array([["red", "s"], ["blue", "l"], ["green", "m"]], object)


@sklearn.lower(
    "StandardScaler.transform",
    cases=[
        built(lambda: transformer("preprocessing", "StandardScaler"), f64(5, 4), dynamic=True),
        built(lambda: transformer("preprocessing", "StandardScaler", with_mean=False), f32(5, 4)),
    ],
)
def standard_scaler(op: OpBuilder, model: Any, x: Table) -> ir.Value:
    """(x - mean) / scale, in the type of x."""
    value = floating(op, x)
    if model.with_mean:
        value = op.Sub(value, op.const(model.mean_, value.dtype))
    if model.with_std:
        value = op.Div(value, op.const(model.scale_, value.dtype))
    return value


@sklearn.lower(
    "RobustScaler.transform",
    cases=[built(lambda: transformer("preprocessing", "RobustScaler"), f64(5, 4))],
)
def robust_scaler(op: OpBuilder, model: Any, x: Table) -> ir.Value:
    """(x - center) / scale, each step in float64 and rounded to the type of x."""
    value = floating(op, x)
    dtype = value.dtype or ir.DataType.DOUBLE
    if model.with_centering:
        value = _in_double(op, "Sub", value, model.center_, dtype)
    if model.with_scaling:
        value = _in_double(op, "Div", value, model.scale_, dtype)
    return value


@sklearn.lower(
    "MinMaxScaler.transform",
    cases=[
        built(lambda: transformer("preprocessing", "MinMaxScaler"), f64(5, 4)),
        built(lambda: transformer("preprocessing", "MinMaxScaler", clip=True), f32(5, 4)),
    ],
)
def min_max_scaler(op: OpBuilder, model: Any, x: Table) -> ir.Value:
    """x scale + min, clipped to the feature range on request."""
    value = floating(op, x)
    dtype = value.dtype or ir.DataType.DOUBLE
    value = _in_double(op, "Add", _in_double(op, "Mul", value, model.scale_, dtype), model.min_, dtype)
    if model.clip:
        value = op.Clip(value, float(model.feature_range[0]), float(model.feature_range[1]))
    return value


@sklearn.lower(
    "MaxAbsScaler.transform",
    cases=[built(lambda: transformer("preprocessing", "MaxAbsScaler"), f64(5, 4))],
)
def max_abs_scaler(op: OpBuilder, model: Any, x: Table) -> ir.Value:
    """x / scale."""
    value = floating(op, x)
    value = _in_double(op, "Div", value, model.scale_, value.dtype or ir.DataType.DOUBLE)
    return op.Clip(value, -1.0, 1.0) if getattr(model, "clip", False) else value


def _in_double(op: OpBuilder, operator: str, x: ir.Value, constant: np.ndarray, dtype: ir.DataType) -> ir.Value:
    """An in-place NumPy operation of a float32 array with a float64 one: computed in float64, stored in float32."""
    return op.cast(op.node(operator, op.cast(x, ir.DataType.DOUBLE), np.asarray(constant, np.float64)), dtype)


@sklearn.lower(
    "Normalizer.transform",
    cases=[
        built(partial(transformer, "preprocessing", "Normalizer", norm=norm), f64(5, 4)) for norm in ("l1", "l2", "max")
    ],
)
def normalizer(op: OpBuilder, model: Any, x: Table) -> ir.Value:
    """Rows divided by their norm; rows of zeros stay."""
    value = floating(op, x)
    reduce = {"l1": "ReduceL1", "l2": "ReduceL2", "max": "ReduceMax"}[model.norm]
    norm = op.reduce(reduce, op.Abs(value) if model.norm == "max" else value, [1], keepdims=True)
    return op.Div(value, op.Where(op.Equal(norm, 0.0), op.const(1.0, value.dtype), norm))


@sklearn.lower(
    "Binarizer.transform",
    cases=[built(lambda: transformer("preprocessing", "Binarizer", threshold=0.3), f64(5, 4))],
)
def binarizer(op: OpBuilder, model: Any, x: Table) -> ir.Value:
    """1 where x > threshold, else 0."""
    value = floating(op, x)
    if value.dtype == ir.DataType.FLOAT:  # NumPy compares float32 arrays with the threshold rounded to float32
        return op.cast(op.Greater(value, np.float32(model.threshold)), ir.DataType.FLOAT)
    return op.cast_like(op.Greater(value, np.float64(model.threshold)), value)


@sklearn.lower(
    "OneHotEncoder.transform",
    cases=[
        built(lambda: words("preprocessing", "OneHotEncoder", sparse_output=False, handle_unknown="ignore"), _WORDS),
        built(lambda: words("preprocessing", "OneHotEncoder", sparse_output=False, drop="first"), _WORDS),
    ],
)
def one_hot_encoder(op: OpBuilder, model: Any, x: Table) -> ir.Value:
    """A column for each category, 1 where the value is that category; all 0 for an unknown one.

    An unknown value under handle_unknown="error" gives zeros as well: an ONNX graph can't raise.
    """
    if getattr(model, "_infrequent_enabled", False):
        raise UnsupportedOperator("OneHotEncoder: min_frequency and max_categories have no mapping yet")
    dtype = ir.DataType.from_numpy(np.dtype(model.dtype))
    blocks = []
    for index, categories in enumerate(model.categories_):
        column = columns(op, x, [index])
        keep = np.ones(len(categories), bool)
        if model.drop_idx_ is not None and model.drop_idx_[index] is not None:
            keep[int(model.drop_idx_[index])] = False
        block = _matches(op, column, categories[keep])
        if block is not None:
            blocks.append(block)
    return op.cast(op.Concat(*blocks, axis=1) if len(blocks) > 1 else blocks[0], dtype)


def _matches(op: OpBuilder, column: ir.Value, categories: np.ndarray) -> ir.Value | None:
    """For a column of shape [N, 1] and K categories the booleans [N, K]; a missing number equals a missing category."""
    if not len(categories):
        return None
    strings = column.dtype == ir.DataType.STRING
    if strings != (categories.dtype.kind in "OUS"):
        raise UnsupportedOperator(
            "the encoder was fitted on values of another kind than the input's (strings, numbers)"
        )
    if strings:
        if any(not isinstance(item, str) for item in categories):
            raise UnsupportedOperator(
                "missing values among strings have no ONNX form; fill them before (SimpleImputer)"
            )
        # ONNX compares no strings before opset 19; a table of integer codes serves every opset.
        codes = op.ml.LabelEncoder(
            column,
            keys_strings=[str(item) for item in categories],
            values_int64s=list(range(len(categories))),
            default_int64=-1,
        )
        codes = op.typed(codes, ir.DataType.INT64, column.shape)
        return op.Equal(codes, np.arange(len(categories)).reshape(1, -1))
    value = op.cast(column, ir.DataType.DOUBLE)
    numbers = categories.astype(np.float64).reshape(1, -1)
    matches = op.Equal(value, numbers)
    if np.isnan(numbers).any():
        matches = op.Or(matches, op.And(op.IsNaN(value), np.isnan(numbers)))
    return matches


@sklearn.lower(
    "OrdinalEncoder.transform",
    cases=[
        built(lambda: words("preprocessing", "OrdinalEncoder"), _WORDS),
        built(
            lambda: words("preprocessing", "OrdinalEncoder", handle_unknown="use_encoded_value", unknown_value=-1),
            _WORDS,
        ),
    ],
)
def ordinal_encoder(op: OpBuilder, model: Any, x: Table) -> ir.Value:
    """The position of each value among its column's categories; the unknown value where it is none."""
    if getattr(model, "_infrequent_enabled", False):
        raise UnsupportedOperator("OrdinalEncoder: min_frequency and max_categories have no mapping yet")
    unknown = float(model.unknown_value) if model.handle_unknown == "use_encoded_value" else -1.0
    missing = float(model.encoded_missing_value)
    codes = []
    for index, categories in enumerate(model.categories_):
        matches = _matches(op, columns(op, x, [index]), categories)
        if matches is None:
            raise UnsupportedOperator("OrdinalEncoder: a column without categories")
        numbers = np.arange(len(categories), dtype=np.float64)
        if categories.dtype.kind == "f":
            numbers = np.where(np.isnan(categories), missing, numbers)
        best = op.ArgMax(op.cast(matches, ir.DataType.INT32), axis=1, keepdims=1)
        known = op.cast(
            op.reduce("ReduceMax", op.cast(matches, ir.DataType.INT32), [1], keepdims=True), ir.DataType.BOOL
        )
        codes.append(op.Where(known, op.Gather(op.const(numbers), best, axis=0), op.const(np.float64(unknown))))
    result = op.Concat(*codes, axis=1) if len(codes) > 1 else codes[0]
    return op.cast(result, ir.DataType.from_numpy(np.dtype(model.dtype)))


@sklearn.lower(
    "SimpleImputer.transform",
    cases=[
        built(
            lambda: transformer("impute", "SimpleImputer"),
            np.array([[1.0, np.nan, 2.0, 3.0], [np.nan] * 4]),
            dynamic=True,
        ),
        built(lambda: transformer("impute", "SimpleImputer", add_indicator=True), np.array([[1.0, 5.0, 2.0, 3.0]])),
    ],
)
def simple_imputer(op: OpBuilder, model: Any, x: Table) -> ir.Value | Frame:
    """Missing values replaced by the column's statistic; columns without one left out; indicator columns on request."""
    value = matrix(op, x)
    statistics = np.asarray(model.statistics_)
    if value.dtype == ir.DataType.STRING:
        if not isinstance(model.missing_values, str):
            raise UnsupportedOperator(
                f"SimpleImputer: missing_values={model.missing_values!r} among strings have no ONNX form; use a string such as ''"
            )
        marked = op.ml.LabelEncoder(value, keys_strings=[model.missing_values], values_int64s=[1], default_int64=0)
        missing = op.cast(op.typed(marked, ir.DataType.INT64, value.shape), ir.DataType.BOOL)
        result = op.Where(missing, op.const(statistics.astype(object)), value)
        valid = np.ones(len(statistics), bool)
    else:
        value = floating(op, value)
        is_nan = isinstance(model.missing_values, float) and np.isnan(model.missing_values)
        missing = op.IsNaN(value) if is_nan else op.Equal(value, op.const(float(model.missing_values), value.dtype))
        numbers = statistics.astype(np.float64)
        valid = ~np.isnan(numbers) if not model.keep_empty_features else np.ones(len(numbers), bool)
        result = op.Where(missing, op.const(np.where(valid, numbers, 0.0), value.dtype), value)
    if not valid.all():
        result = op.Gather(result, np.flatnonzero(valid), axis=1)
    if model.indicator_ is None:
        return result
    flags = op.Gather(missing, np.asarray(model.indicator_.features_, np.int64), axis=1)
    return op.Concat(result, op.cast_like(flags, result), axis=1)


@sklearn.lower(
    "PolynomialFeatures.transform",
    cases=[built(lambda: transformer("preprocessing", "PolynomialFeatures", degree=3), f64(5, 4))],
)
def polynomial_features(op: OpBuilder, model: Any, x: Table) -> ir.Value:
    """Products of powers of the columns, one for each row of `powers_`."""
    value = floating(op, x)
    ones = op.Add(op.Mul(op.Gather(value, [0], axis=1), 0.0), 1.0)
    padded = op.Concat(value, ones, axis=1)
    product: ir.Value | None = None
    for step in range(int(model.powers_.sum(axis=1).max(initial=0))):
        index = [_factor(row, step, width(value)) for row in model.powers_]
        factor = op.Gather(padded, index, axis=1)
        product = factor if product is None else op.Mul(product, factor)
    return product if product is not None else op.Gather(padded, [width(value)] * len(model.powers_), axis=1)


def _factor(powers: np.ndarray, step: int, one: int) -> int:
    """The column that is the factor number `step` of a product; the column of ones where it has fewer."""
    factors = np.repeat(np.arange(len(powers)), powers)
    return int(factors[step]) if step < len(factors) else one
