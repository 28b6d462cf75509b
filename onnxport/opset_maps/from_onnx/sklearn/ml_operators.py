"""ONNX-ML's scalers and linear models as scikit-learn's."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.preprocessing import Binarizer, Normalizer
from sklearn.svm import LinearSVC

from onnxport.opset_maps.from_onnx.sklearn.chains import Attributes, labels_of, rebuilds
from onnxport.opset_maps.from_onnx.sklearn.transformers import standard_scaler


@rebuilds("Scaler")
def scaler(given: Attributes) -> Any:
    """(x - offset) * scale."""
    scale, offset = (np.asarray(given[name], np.float64) for name in ("scale", "offset"))
    return standard_scaler(offset, scale)


@rebuilds("Normalizer")
def normalizer(given: Attributes) -> Any:
    """Rows of length 1."""
    return Normalizer(norm=str(given.get("norm", "MAX")).lower())


@rebuilds("Binarizer")
def binarizer(given: Attributes) -> Any:
    """1 above a threshold."""
    return Binarizer(threshold=float(given.get("threshold", 0.0)))


@rebuilds("Imputer")
def imputer(given: Attributes) -> Any:
    """A number a column for what is missing."""
    values = given.get("imputed_value_floats")
    replaced = float(given.get("replaced_value_float", 0.0))
    if values is None or len(values) < 2:
        return None
    model = SimpleImputer(missing_values=replaced)
    model.statistics_ = np.asarray(values, np.float64)
    model.n_features_in_, model.indicator_ = len(values), None
    model._fit_dtype = model._fill_dtype = np.dtype(np.float64)
    return model


@rebuilds("LinearRegressor")
def linear_regressor(given: Attributes) -> Any:
    """x coefficients' + intercepts."""
    if given.get("post_transform", "NONE") != "NONE":
        return None
    targets = int(given.get("targets", 1))
    coefficients = np.asarray(given["coefficients"], np.float64).reshape(targets, -1)
    intercepts = np.asarray(given.get("intercepts", np.zeros(targets)), np.float64)
    model = LinearRegression()
    model.coef_ = coefficients if targets > 1 else coefficients[0]
    model.intercept_ = intercepts if targets > 1 else float(intercepts[0])
    model.n_features_in_ = coefficients.shape[1]
    return model


@rebuilds("LinearClassifier")
def linear_classifier(given: Attributes) -> Any:
    """Logistic regression where the scores become probabilities, else a linear support vector machine."""
    labels, transform = labels_of(given), given.get("post_transform", "NONE")
    intercepts = np.asarray(given["intercepts"], np.float64)
    coefficients = np.asarray(given["coefficients"], np.float64).reshape(len(intercepts), -1)
    if len(labels) == 2 and len(intercepts) == 2:
        if transform == "SOFTMAX":  # which depends on the difference alone
            coefficients, intercepts = coefficients[1:] - coefficients[:1], intercepts[1:] - intercepts[:1]
        else:
            coefficients, intercepts = coefficients[1:], intercepts[1:]
    if transform not in ("NONE", "SOFTMAX") and not (transform == "LOGISTIC" and len(labels) == 2):
        return None
    model = LinearSVC() if transform == "NONE" else LogisticRegression()
    model.classes_, model.coef_, model.intercept_ = labels, coefficients, intercepts
    model.n_features_in_ = coefficients.shape[1]
    return model
