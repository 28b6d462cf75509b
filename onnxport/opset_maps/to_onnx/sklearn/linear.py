"""Linear models: scores are one matrix product."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import built, f32, f64
from onnxport.opset_maps.maps import sklearn
from onnxport.opset_maps.to_onnx.sklearn.classes import both_classes, label_of_scores, normalized
from onnxport.opset_maps.to_onnx.sklearn.fitted import classifier, regressor
from onnxport.opset_maps.to_onnx.sklearn.table import Table, floating

_REGRESSORS = (
    "LinearRegression Ridge RidgeCV Lasso LassoCV ElasticNet ElasticNetCV Lars LarsCV LassoLars LassoLarsCV LassoLarsIC "
    "OrthogonalMatchingPursuit OrthogonalMatchingPursuitCV BayesianRidge ARDRegression HuberRegressor SGDRegressor "
    "TheilSenRegressor LinearSVR QuantileRegressor MultiTaskLasso MultiTaskElasticNet MultiTaskLassoCV MultiTaskElasticNetCV"
).split()
_CLASSIFIERS = (
    "LogisticRegression LogisticRegressionCV RidgeClassifier RidgeClassifierCV SGDClassifier Perceptron "
    "PassiveAggressiveClassifier LinearSVC LinearDiscriminantAnalysis"
).split()


def scores_of(op: OpBuilder, model: Any, x: Table) -> ir.Value:
    """X coef' + intercept, in NumPy's common type of X and the coefficients; a vector where there is one row of them."""
    value = floating(op, x)
    coef = np.asarray(model.coef_)
    intercept = np.asarray(model.intercept_)
    dtype = np.result_type(value.dtype.numpy() if value.dtype else np.float64, coef.dtype, intercept.dtype)
    value = op.cast(value, ir.DataType.from_numpy(np.dtype(dtype)))
    weights = np.atleast_2d(coef).astype(dtype)
    product = op.MatMul(
        value, op.initializer(f"{type(model).__name__}.coef", ir.tensor(np.ascontiguousarray(weights.T)))
    )
    result = op.Add(product, np.broadcast_to(intercept, (len(weights),)).astype(dtype))
    return op.Squeeze(result, op.axes(1)) if len(weights) == 1 else result


@sklearn.lower(
    *(f"{name}.predict" for name in _REGRESSORS),
    cases=[
        built(lambda: regressor("linear_model", "LinearRegression"), f64(5, 4), dynamic=True),
        built(lambda: regressor("linear_model", "Ridge"), f32(5, 4)),
        built(lambda: regressor("linear_model", "Lasso", alpha=0.1), f64(5, 4)),
    ],
)
def linear_predict(op: OpBuilder, model: Any, x: Table) -> ir.Value:
    """X coef' + intercept."""
    result = scores_of(op, model, x)
    if np.ndim(model.coef_) == 2 and len(model.coef_) == 1:
        single_target = np.ndim(model.intercept_) == 0 and type(model).__name__ in (
            "LinearRegression",
            "Ridge",
            "LinearSVR",
        )
        return result if single_target or type(model).__name__ == "LinearSVR" else op.Unsqueeze(result, op.axes(1))
    return result


@sklearn.lower(
    *(f"{name}.predict" for name in ("PoissonRegressor", "GammaRegressor")),
    cases=[built(lambda: regressor("linear_model", "PoissonRegressor", positive=True), f64(5, 4))],
)
def log_link_predict(op: OpBuilder, model: Any, x: Table) -> ir.Value:
    """exp(X coef + intercept)."""
    return op.Exp(scores_of(op, model, x))


@sklearn.lower(
    *(f"{name}.decision_function" for name in _CLASSIFIERS),
    cases=[
        built(lambda: classifier("linear_model", "LogisticRegression"), f64(5, 4), dynamic=True),
        built(lambda: classifier("linear_model", "RidgeClassifier", classes=2), f32(5, 4)),
        built(lambda: classifier("svm", "LinearSVC"), f64(5, 4)),
    ],
)
def linear_decision_function(op: OpBuilder, model: Any, x: Table) -> ir.Value:
    """X coef' + intercept, a vector for two classes."""
    return scores_of(op, model, x)


@sklearn.lower(
    *(f"{name}.predict" for name in _CLASSIFIERS),
    cases=[
        built(lambda: classifier("linear_model", "SGDClassifier"), f64(5, 4)),
        built(lambda: classifier("linear_model", "LogisticRegression", classes=2, text=True), f64(5, 4)),
    ],
)
def linear_label(op: OpBuilder, model: Any, x: Table) -> ir.Value:
    """The class of the greatest score."""
    if np.ndim(model.classes_) != 1:
        raise UnsupportedOperator("several label columns")
    return label_of_scores(op, model.classes_, op.call(model, "decision_function", x))


@sklearn.lower(
    "LogisticRegression.predict_proba",
    "LogisticRegressionCV.predict_proba",
    cases=[
        built(lambda: classifier("linear_model", "LogisticRegression"), f64(5, 4)),
        built(lambda: classifier("linear_model", "LogisticRegression", classes=2), f32(5, 4)),
    ],
)
def logistic_probabilities(op: OpBuilder, model: Any, x: Table) -> ir.Value:
    """Logistic function of the score for two classes, softmax of the scores for more."""
    scores = op.call(model, "decision_function", x)
    if scores.shape is not None and scores.shape.rank() == 1:
        return both_classes(op, op.Sigmoid(scores))
    return op.Softmax(scores, axis=1)


@sklearn.lower(
    "LinearDiscriminantAnalysis.predict_proba",
    cases=[built(lambda: classifier("discriminant_analysis", "LinearDiscriminantAnalysis"), f64(5, 4))],
)
def discriminant_probabilities(op: OpBuilder, model: Any, x: Table) -> ir.Value:
    """Logistic function of the score for two classes, softmax of the scores for more."""
    return logistic_probabilities(op, model, x)


@sklearn.lower(
    "SGDClassifier.predict_proba",
    cases=[
        built(lambda: classifier("linear_model", "SGDClassifier", loss="log_loss"), f64(5, 4)),
        built(lambda: classifier("linear_model", "SGDClassifier", loss="log_loss", classes=2), f64(5, 4)),
    ],
)
def sgd_probabilities(op: OpBuilder, model: Any, x: Table) -> ir.Value:
    """Logistic functions of the scores, one against the rest, divided by their sum (loss="log_loss")."""
    if model.loss != "log_loss":
        raise UnsupportedOperator(
            f"SGDClassifier: probabilities with loss={model.loss!r} have no mapping; fit with loss='log_loss'"
        )
    scores = op.call(model, "decision_function", x)
    if scores.shape is not None and scores.shape.rank() == 1:
        return both_classes(op, op.Sigmoid(scores))
    return normalized(op, op.Sigmoid(scores))


@sklearn.lower(
    "ClassifierMixin.predict_log_proba",
    cases=[built(lambda: classifier("linear_model", "LogisticRegression"), f64(5, 4))],
)
def log_probabilities(op: OpBuilder, model: Any, x: Table) -> ir.Value:
    """The logarithm of the probabilities."""
    return op.Log(op.call(model, "predict_proba", x))
