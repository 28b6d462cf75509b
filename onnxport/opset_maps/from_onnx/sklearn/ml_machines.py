"""ONNX-ML's support vector machines as scikit-learn's."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.svm import SVC, SVR, OneClassSVM

from onnxport.opset_maps.from_onnx.sklearn.chains import Attributes, attributes_of, labels_of, predicts, rebuilds
from onnxport.opset_maps.from_onnx.sklearn.patterns import Bound, Op, Rows, op

_KERNELS = {"LINEAR": "linear", "RBF": "rbf", "POLY": "poly", "SIGMOID": "sigmoid"}


@rebuilds("SVMRegressor")
def svm_regressor(given: Attributes) -> Any:
    """The kernel with the support vectors times the coefficients, plus rho."""
    count = int(given.get("n_supports", 0))
    if not count or int(given.get("one_class", 0)) or given.get("post_transform", "NONE") != "NONE":
        return None
    return _machine(SVR(), given, count)


@predicts(op("Sign", Rows("scores")), Op("SVMRegressor", (Rows(),), "scores"))
def one_class_machine(bound: Bound) -> Any:
    """Whether a row lies within, and how far."""
    given = attributes_of(bound["scores"].producer())
    count = int(given.get("n_supports", 0))
    if not count or int(given.get("one_class", 0)) or given.get("post_transform", "NONE") != "NONE":
        return None
    model = _machine(OneClassSVM(), given, count)
    model.offset_ = -model.intercept_
    return model


@rebuilds("SVMClassifier")
def svm_classifier(given: Attributes) -> Any:
    """A machine for each pair of classes; of several classes, scores are one a class or one a pair."""
    labels = labels_of(given)
    counts = np.asarray(given.get("vectors_per_class", []), np.int32)
    if given.get("post_transform", "NONE") != "NONE" or len(counts) != len(labels) or len(labels) < 2:
        return None
    shapes = ("ovr", "ovo") if len(labels) > 2 else ("ovr",)
    return tuple(_classifier(given, labels, counts, shape) for shape in shapes)


def _classifier(given: Attributes, labels: np.ndarray, counts: np.ndarray, shape: str) -> SVC:
    model = _machine(SVC(decision_function_shape=shape), given, int(counts.sum()))
    model._n_support, model.classes_ = counts, labels
    if len(labels) == 2:  # scikit-learn shows the negated numbers of libsvm
        model.dual_coef_, model.intercept_ = -model._dual_coef_, -model._intercept_
    if len(given.get("prob_a", ())):
        model.probability = True
        model._probA, model._probB = (np.asarray(given[name], np.float64) for name in ("prob_a", "prob_b"))
    return model


def _machine(model: Any, given: Attributes, count: int) -> Any:
    gamma, coef0, degree = (float(item) for item in given["kernel_params"])
    kernel = _KERNELS[given.get("kernel_type", "LINEAR")]
    model.set_params(kernel=kernel, gamma=gamma, coef0=coef0, degree=int(degree))
    model.support_vectors_ = np.asarray(given["support_vectors"], np.float64).reshape(count, -1)
    model._dual_coef_ = model.dual_coef_ = np.asarray(given["coefficients"], np.float64).reshape(-1, count)
    model._intercept_ = model.intercept_ = np.asarray(given["rho"], np.float64)
    model.support_ = np.arange(count, dtype=np.int32)
    model._n_support = np.array([count, 0], np.int32)
    model._probA, model._probB, model._gamma, model._sparse = np.empty(0), np.empty(0), gamma, False
    model.shape_fit_, model.fit_status_ = model.support_vectors_.shape, 0
    model.n_features_in_ = model.support_vectors_.shape[1]
    return model
