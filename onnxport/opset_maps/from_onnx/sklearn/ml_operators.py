"""ONNX-ML's scalers, linear models and support vector machines as scikit-learn's."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.preprocessing import Binarizer, Normalizer, StandardScaler
from sklearn.svm import SVR, LinearSVC

from onnxport.opset_maps.from_onnx.sklearn.chains import Attributes, labels_of, rebuilds

_KERNELS = {"LINEAR": "linear", "RBF": "rbf", "POLY": "poly", "SIGMOID": "sigmoid"}


@rebuilds("Scaler")
def scaler(given: Attributes) -> Any:
    """(x - offset) * scale."""
    model = StandardScaler()
    scale, offset = (np.asarray(given[name], np.float64) for name in ("scale", "offset"))
    width = max(len(scale), len(offset))
    model.scale_ = 1.0 / np.broadcast_to(scale, (width,))
    model.mean_, model.var_ = np.broadcast_to(offset, (width,)).copy(), model.scale_**2
    model.n_features_in_ = width
    return model


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


@rebuilds("SVMRegressor")
def svm_regressor(given: Attributes) -> Any:
    """The kernel with the support vectors times the coefficients, plus rho."""
    count = int(given.get("n_supports", 0))
    if not count or int(given.get("one_class", 0)) or given.get("post_transform", "NONE") != "NONE":
        return None
    gamma, coef0, degree = (float(item) for item in given["kernel_params"])
    model = SVR(kernel=_KERNELS[given.get("kernel_type", "LINEAR")], gamma=gamma, coef0=coef0, degree=int(degree))
    weights = np.asarray(given["coefficients"], np.float64)
    model.support_vectors_ = np.asarray(given["support_vectors"], np.float64).reshape(count, -1)
    model._dual_coef_ = model.dual_coef_ = weights.reshape(1, -1)
    model._intercept_ = model.intercept_ = np.asarray(given["rho"], np.float64).reshape(1)
    model.support_ = np.arange(count, dtype=np.int32)
    model._n_support = np.array([count, 0], np.int32)
    model._probA, model._probB, model._gamma, model._sparse = np.empty(0), np.empty(0), gamma, False
    model.shape_fit_, model.fit_status_ = model.support_vectors_.shape, 0
    model.n_features_in_ = model.support_vectors_.shape[1]
    return model
