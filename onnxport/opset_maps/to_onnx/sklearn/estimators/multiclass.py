"""Several classes, labels or targets from estimators of one; thresholds; transformed targets."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, is_classifier, is_regressor

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array, one_value
from onnxport.opset_maps.to_onnx.sklearn.arrays.distances import product_squares
from onnxport.opset_maps.to_onnx.sklearn.arrays.functions import full
from onnxport.opset_maps.to_onnx.sklearn.arrays.traced import TracedArray
from onnxport.opset_maps.to_onnx.sklearn.classes import both_classes, take_class, votes_of_pairs
from onnxport.opset_maps.to_onnx.sklearn.entries import given, lower
from onnxport.opset_maps.to_onnx.sklearn.estimators.derived import METHODS, lower_inner
from onnxport.opset_maps.to_onnx.sklearn.fitted import classifier, data, fit, regressor, target, unfitted
from onnxport.opset_maps.to_onnx.sklearn.tables.table import Table, called, each_called, matrix

_SCORED, _LIKELY = "RidgeClassifier", "LogisticRegression"


def _made(kind: str, inner: str = _LIKELY, **options: object) -> Any:
    return classifier(kind, estimator=unfitted(inner), **options)


def _binary_score(op: OpBuilder, estimator: BaseEstimator, x: Table, step: str) -> Array:
    """How much a binary estimator is for the second class (sklearn.multiclass._predict_binary)."""
    if is_regressor(estimator):
        return called(op, estimator, "predict", x, step=step)
    if hasattr(estimator, "decision_function"):
        result = called(op, estimator, "decision_function", x, step=step)
        return result.reshape(-1) if result.ndim > 1 else result
    return called(op, estimator, "predict_proba", x, step=step)[:, 1]


def _threshold(estimator: BaseEstimator) -> float:
    return 0.0 if hasattr(estimator, "decision_function") and is_classifier(estimator) else 0.5


def _scores(op: OpBuilder, model: BaseEstimator, x: Table) -> list[Array]:
    return [_binary_score(op, part, x, f"estimators_.{i}") for i, part in enumerate(model.estimators_)]


def _of_two(kind: str, classes: int, **options: object) -> Any:
    """A classifier of two columns of labels, the second one of two classes."""
    y = np.stack([target(classes), (data()[:, 1] > 0).astype(int)], axis=1)
    return fit(kind, data(), y, estimator=unfitted(_LIKELY), **options)


_REST = [
    *given(partial(_of_two, "OneVsRestClassifier", 2)),
    *given(partial(_made, "OneVsRestClassifier", _LIKELY), {"text": True}, {"classes": 2}),
    *given(partial(_made, "OneVsRestClassifier", _SCORED), {"text": True}, {"classes": 2}),
]


@lower("OneVsRestClassifier.predict", _REST)
def rest_label(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The class whose estimator is most for it, the first among equals; for several labels, ones where one is for it."""
    result = _scores(op, model, x)
    bound = _threshold(model.estimators_[0])
    if model.multilabel_:
        return np.stack([item > bound for item in result], axis=1).astype(np.int64)
    if model.label_binarizer_.y_type_ != "multiclass":
        return take_class(model.classes_, (result[0] > bound).astype(np.int64))
    return take_class(model.classes_, np.argmax(np.stack([item.astype(np.float64) for item in result], axis=1), axis=1))


@lower("OneVsRestClassifier.predict_proba", _REST)
def rest_probabilities(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The estimators' probabilities, divided by their sum where the labels exclude each other."""
    parts = [part[:, 1] for part in each_called(op, model.estimators_, "predict_proba", x)]
    if len(parts) == 1:
        return both_classes(parts[0])
    result = np.stack(parts, axis=1)
    if model.multilabel_:
        return result
    total = np.sum(result, axis=1, keepdims=True)
    return result / np.where(total == 0, 1.0, total)


@lower("OneVsRestClassifier.decision_function", _REST)
def rest_scores(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The estimators' scores."""
    parts = list(each_called(op, model.estimators_, "decision_function", x))
    return parts[0] if len(parts) == 1 else np.stack([item.reshape(-1) for item in parts], axis=1)


def _constant() -> Any:
    from sklearn.multiclass import _ConstantPredictor

    return _ConstantPredictor().fit(data(), np.array([1]))


@lower("_ConstantPredictor.predict decision_function", given(_constant))
def constant_label(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The only label that was fitted."""
    return full(Array(op, matrix(op, x)), (None,), model.y_[0], np.asarray(model.y_).dtype)


@lower("_ConstantPredictor.predict_proba", given(_constant))
def constant_probabilities(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """Certainty of the only label."""
    share = np.asarray(model.y_, np.float64).ravel()[0]
    return full(Array(op, matrix(op, x)), (None, 1), 1.0, np.float64) * np.array([[1 - share, share]])


_VARIANTS = ({"text": True}, {"text": True, "inner": _SCORED}, {"classes": 2})
_PAIRS = given(partial(_made, "OneVsOneClassifier"), *_VARIANTS)


@lower("OneVsOneClassifier.decision_function", _PAIRS)
def pair_scores(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """Votes of the pairs' estimators, and a share below a half of a vote from their scores."""
    labels, scores = [], []
    for i, part in enumerate(model.estimators_):
        indices = model.pairwise_indices_[i] if model.pairwise_indices_ else None
        rows = x if indices is None else Array(op, matrix(op, x))[:, np.asarray(indices)].value
        labels.append(called(op, part, "predict", rows, step=f"estimators_.{i}"))
        scores.append(_binary_score(op, part, rows, f"estimators_.{i}"))
    result = votes_of_pairs(np.stack(labels, axis=1), np.stack(scores, axis=1), model.n_classes_)
    return result[:, 1] if model.n_classes_ == 2 else result


@lower("OneVsOneClassifier.predict", _PAIRS)
def pair_label(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The class of the greatest score."""
    result = called(op, model, "decision_function", x)
    if model.n_classes_ == 2:
        return take_class(model.classes_, (result > _threshold(model.estimators_[0])).astype(np.int64))
    # pairs of a class that no row is near to have NaN for a score
    return take_class(model.classes_, np.argmax(TracedArray(op, result.value), axis=1))


@lower("OutputCodeClassifier.predict", given(partial(_made, "OutputCodeClassifier", code_size=3)))
def code_label(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The class whose code is nearest to the estimators' scores."""
    result = np.stack([item.astype(np.float64) for item in _scores(op, model, x)], axis=1)
    return take_class(model.classes_, np.argmin(product_squares(result, model.code_book_), axis=1))


def _outputs(kind: str = "MultiOutputClassifier", **options: object) -> Any:
    if "Regressor" in kind:
        return regressor(kind, outputs=2, estimator=unfitted("Ridge"), **options)
    return _of_two(kind, 2 if kind == "ClassifierChain" else 3, **options)


@lower("_MultiOutputEstimator.predict", given(_outputs, {}, {"kind": "MultiOutputRegressor"}))
def each_output(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The estimators' results side by side; several numbers a row are scikit-learn's first dimension."""
    parts = list(each_called(op, model.estimators_, "predict", x))
    return np.stack([item.T if item.ndim > 1 else item for item in parts], axis=-1)


@lower("MultiOutputClassifier.predict_proba", given(_outputs))
def each_probabilities(op: OpBuilder, model: BaseEstimator, x: Table) -> Any:
    """The estimators' probabilities, an array for each output."""
    return list(each_called(op, model.estimators_, "predict_proba", x))


def _response(op: OpBuilder, estimator: BaseEstimator, method: str, x: Table, step: str) -> Array:
    """One column of an estimator's predictions: of probabilities that of the second class; float64."""
    result = called(op, estimator, method, x, step=step)
    if result.ndim == 2:
        if result.shape[1] != 2:
            raise UnsupportedOperator("a chain of estimators of more than two classes")
        result = result[:, 1]
    return result.astype(np.float64)


def _lower_chain(names: str, method: str) -> None:
    @lower(f"{names}.{method}", given(_outputs, *({"kind": name, "order": [1, 0]} for name in names.split())))
    def chain(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
        """Each estimator on the rows and the predictions of those before it."""
        rows, feature_method = Array(op, matrix(op, x)), getattr(model, "chain_method_", "predict")
        features: list[Array] = []
        parts: list[Array] = []
        for i, part in enumerate(model.estimators_):
            before = [item[:, None] for item in features] or [full(rows, (None, 0), 0.0, np.float64)]
            wide, step = one_value(np.hstack([rows, *before])), f"estimators_.{i}"
            features.append(_response(op, part, feature_method, wide, step))
            parts.append(features[-1] if method == feature_method else _response(op, part, method, wide, step))
        return np.stack([parts[int(i)] for i in np.argsort(np.asarray(model.order_))], axis=1)


_lower_chain("ClassifierChain RegressorChain", "predict")
_lower_chain("ClassifierChain", "predict_proba")
_lower_chain("ClassifierChain", "decision_function")


_THRESHOLDS = "FixedThresholdClassifier TunedThresholdClassifierCV"


def _frozen(name: str, inner: str = _LIKELY, **options: object) -> Any:
    estimator = unfitted(inner)
    if name == "SelfTrainingClassifier":
        y = target()
        y[::3] = -1
        return unfitted(name, estimator=estimator).fit(data(), y)
    if name == "FrozenEstimator":
        return unfitted(name, estimator=estimator.fit(data(), target()))
    return classifier(name, classes=2, estimator=estimator, **options)


lower_inner("estimator_", "SelfTrainingClassifier", METHODS, given(partial(_frozen, "SelfTrainingClassifier")))
lower_inner("estimator_", _THRESHOLDS, METHODS[1:], given(_frozen, *({"name": name} for name in _THRESHOLDS.split())))
lower_inner("estimator", "FrozenEstimator", METHODS, given(partial(_frozen, "FrozenEstimator")))


@lower(
    "BaseThresholdClassifier FixedThresholdClassifier TunedThresholdClassifierCV.predict",
    given(partial(_frozen, "TunedThresholdClassifierCV")),
    given(partial(_frozen, "FixedThresholdClassifier"), {"text": True, "pos_label": "low", "threshold": 0.3}),
    given(partial(_frozen, "FixedThresholdClassifier", _SCORED)),
)
def threshold_label(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The positive class from the threshold on."""
    inner = getattr(model, "estimator_", model.estimator)
    method = next(item for item in np.ravel(model._get_response_method()).tolist() if hasattr(inner, item))
    positive = getattr(model, "_curve_scorer", model)
    label = positive._get_pos_label() if hasattr(positive, "_get_pos_label") else getattr(model, "pos_label", None)
    first = label is not None and label == model.classes_[0]
    result = called(op, inner, method, x, step="estimator_")
    if method == "predict_proba":
        result = result[:, 0 if first else 1]
    elif first:
        result = -result
    bound = getattr(model, "best_threshold_", None)
    if bound is None:
        bound = (0.5 if method == "predict_proba" else 0.0) if model.threshold == "auto" else model.threshold
    above = (result >= float(bound)).astype(np.int64)
    return take_class(np.asarray(model.classes_)[::-1] if first else model.classes_, above)


def _transformed(**options: object) -> Any:
    return regressor("TransformedTargetRegressor", positive=True, regressor=unfitted("Ridge"), **options)


@lower(
    "TransformedTargetRegressor.predict",
    given(_transformed, {"func": np.log, "inverse_func": np.exp}, {"transformer": unfitted("StandardScaler")}),
)
def untransformed(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The inner regressor's prediction, transformed back."""
    prediction = called(op, model.regressor_, "predict", x, step="regressor_")
    column = prediction[:, None] if prediction.ndim == 1 else prediction
    result = called(op, model.transformer_, "inverse_transform", column.value, step="transformer_")
    return result[:, 0] if model._training_dim == result.ndim - 1 and result.shape[1] == 1 else result
