"""Estimators of ``skl2onnx.sklapi``, written on scikit-learn's own, by which they convert."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from onnx import helper
from sklearn.base import BaseEstimator, RegressorMixin, TransformerMixin
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.preprocessing import FunctionTransformer

import onnxport
from onnxport.errors import UnsupportedOperator


def _as(X: Any, dtype: Any) -> Any:
    return X.astype(dtype)


class CastTransformer(FunctionTransformer):
    """Gives what it gets in another type."""

    def __init__(self, *, dtype: Any = np.float32) -> None:
        super().__init__(func=partial(_as, dtype=dtype))
        self.dtype = dtype


class CastRegressor(RegressorMixin, BaseEstimator):
    """A regressor whose predictions come in another type."""

    def __init__(self, estimator: Any, *, dtype: Any = np.float32) -> None:
        self.estimator = estimator
        self.dtype = dtype

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> CastRegressor:
        """Fits the regressor itself."""
        self.estimator.fit(X, y, **({} if sample_weight is None else {"sample_weight": sample_weight}))
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True  # the regressor may have been fitted before

    def predict(self, X: Any) -> np.ndarray:
        """The predictions in the type."""
        return np.asarray(self.estimator.predict(X)).astype(self.dtype)


class ReplaceTransformer(TransformerMixin, BaseEstimator):
    """Gives what it gets with one value replaced by another."""

    def __init__(self, *, from_value: float = 0, to_value: float = np.nan, dtype: Any = np.float32) -> None:
        self.from_value, self.to_value, self.dtype = from_value, to_value, dtype

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> ReplaceTransformer:
        """Changes nothing."""
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def transform(self, X: Any, y: Any = None) -> np.ndarray:
        """The rows with the other value."""
        return np.where(self.from_value == X, self.to_value, X)


class TraceableCountVectorizer(CountVectorizer):
    """scikit-learn's own, whose words of several tokens convert as they are."""


class TraceableTfidfVectorizer(TfidfVectorizer):
    """Likewise."""


@onnxport.register_to_onnx("sklearn", "CastRegressor.predict")
def _cast_regressor(op: Any, model: CastRegressor, x: Any) -> Any:
    return op.Cast(
        op.call(model.estimator, "predict", x), to=int(helper.np_dtype_to_tensor_dtype(np.dtype(model.dtype)))
    )


@onnxport.register_to_onnx("sklearn", "ReplaceTransformer.transform")
def _replace_transformer(op: Any, model: ReplaceTransformer, x: Any) -> Any:
    rows = op.Identity(x)
    if np.result_type(rows.dtype.numpy(), model.to_value) != rows.dtype.numpy():
        raise UnsupportedOperator(
            f"ReplaceTransformer: {model.to_value!r} is no {rows.dtype.numpy()}, as the rows are: give rows of floats"
        )
    return op.Where(op.Equal(rows, model.from_value), model.to_value, rows)
