"""Gradient boosting: sums of trees behind a link function; and AdaBoost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.ensemble._gb import _init_raw_predictions

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import built, f64
from onnxport.opset_maps.to_onnx.sklearn import classes
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array
from onnxport.opset_maps.to_onnx.sklearn.arrays.functions import full, take
from onnxport.opset_maps.to_onnx.sklearn.entries import cases, lower, lower_fitted
from onnxport.opset_maps.to_onnx.sklearn.estimators.derived import lower_label
from onnxport.opset_maps.to_onnx.sklearn.estimators.ensemble.forests import rows32, tree_of
from onnxport.opset_maps.to_onnx.sklearn.fitted import (
    classifier,
    data,
    fit,
    quantity,
    regressor,
    target,
    transformer,
    unfitted,
)
from onnxport.opset_maps.to_onnx.sklearn.tables.categories import codes
from onnxport.opset_maps.to_onnx.sklearn.tables.table import Table, called, doubles, each_called, numbers
from onnxport.opset_maps.to_onnx.sklearn.trees import tree_ensemble

_ROWS = f64(20, 4)
_SMALL: dict[str, Any] = {"n_estimators": 8}
_FEW: dict[str, Any] = {"max_iter": 8}
# No raw prediction of a first estimator is farther from 0: its probabilities are at least float64's eps.
_FIRST = 40.0


def loss_probabilities(model: BaseEstimator, raw: Array, farthest: float) -> Array:
    """Probabilities of the classes from raw predictions, [N] or [N, K], of which none of two classes is farther from 0."""
    name = type(model._loss).__name__
    if name == "HalfMultinomialLoss":
        return classes.softmax(raw)
    if name not in ("HalfBinomialLoss", "ExponentialLoss"):
        raise UnsupportedOperator(f"the loss {name} has no mapping")
    if name == "ExponentialLoss":  # its link is half the logit
        raw, farthest = 2.0 * classes.column(raw), 2.0 * farthest
    return classes.logistic_classes(classes.zero_and_minus(raw), farthest)


def _gradient_start(op: OpBuilder, model: BaseEstimator, x: Table) -> Any:
    """The raw prediction of the first estimator (sklearn.ensemble._gb._init_raw_predictions)."""
    if isinstance(model.init_, str):
        return 0.0
    if type(model.init_).__name__ in ("DummyClassifier", "DummyRegressor"):
        row = np.zeros((1, model.n_features_in_), np.float32)
        return np.asarray(_init_raw_predictions(row, model.init_, model._loss, hasattr(model, "classes_")), np.float64)
    rows = rows32(op, x)
    classifies = hasattr(model, "classes_")
    # fitted on float32 rows and given such, a linear model computes in float32 itself
    first = called(op, model.init_, "predict_proba" if classifies else "predict", rows, step="init_").astype(np.float64)
    if classifies:
        first = first if model._loss.is_multiclass else first[:, 1]
        eps = np.finfo(np.float64).eps
        first = np.clip(first, eps, 1 - eps)
    name = type(model._loss.link).__name__
    if name == "MultinomialLogit":
        logs = np.log(first)
        return logs - np.mean(logs, axis=1, keepdims=True)
    if name == "IdentityLink":
        return first[:, None]
    if name not in ("LogitLink", "HalfLogitLink"):
        raise UnsupportedOperator(f"{type(model).__name__}: the link {name} has no mapping")
    logit = np.log(first / (1 - first))
    return (logit if name == "LogitLink" else 0.5 * logit)[:, None]


def _gradient_raw(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """Initial value plus learning rate times the trees' values, [N, K]."""
    rate = float(model.learning_rate)
    joined = _without_missing([tree_of(item, item.tree_.value[:, 0, :] * rate) for item in model.estimators_.ravel()])
    columns = model.estimators_.shape[1]
    targets = np.tile(np.arange(columns), model.estimators_.shape[0])
    start = _gradient_start(op, model, x)
    if isinstance(start, Array):
        return tree_ensemble.sums(op, joined, rows32(op, x), targets, columns) + start
    return tree_ensemble.sums(op, joined, rows32(op, x), targets, columns, start)


def _without_missing(trees: Sequence[tree_ensemble.Tree]) -> tree_ensemble.Trees:
    """Trees of a model that refuses missing values: what they would do with them need not be asked, or stand in the file."""
    joined = tree_ensemble.join(trees)
    return replace(joined, missing=np.zeros_like(joined.missing))


def _highest(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """The greatest absolute value of each array."""
    sizes = np.array([array.size for array in arrays])
    return np.asarray(np.maximum.reduceat(np.abs(np.concatenate(arrays)), np.cumsum(sizes) - sizes))


def _with_init() -> Any:
    # a tree: scikit-learn fits the first estimator on float32 rows, and a linear model then has float32's digits
    first = unfitted("DecisionTreeClassifier", max_depth=2)
    return unfitted("GradientBoostingClassifier", n_estimators=5, init=first).fit(data(), target())


@lower(
    "GradientBoostingRegressor.predict",
    cases(regressor, "GradientBoostingRegressor", _SMALL, {"loss": "huber", **_SMALL}, rows=_ROWS),
    cases(regressor, "GradientBoostingRegressor", {"init": "zero", **_SMALL}, rows=_ROWS),
)
def gradient_value(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The raw prediction."""
    return _gradient_raw(op, model, x).reshape(-1)


_TWO = {**_SMALL, "classes": 2}


@lower_fitted(
    "GradientBoostingClassifier.predict_proba", classifier, _SMALL, _TWO, {**_TWO, "loss": "exponential"}, rows=_ROWS
)
def gradient_probabilities(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The loss's probabilities of the raw predictions."""
    highest = _highest([item.tree_.value.ravel() for item in model.estimators_.ravel()])
    farthest = _FIRST + abs(float(model.learning_rate)) * float(np.sum(highest))
    return loss_probabilities(model, called(op, model, "decision_function", x), farthest)


@lower_fitted(
    "GradientBoostingClassifier.predict", classifier, {"text": True, **_SMALL}, {**_SMALL, "classes": 2}, rows=_ROWS
)
def gradient_label(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The class of the greatest raw prediction, or by its sign (0 counts as positive)."""
    raw = called(op, model, "decision_function", x)
    if raw.ndim == 1:
        return classes.label_of_sign(model.classes_, raw, zero_is_second=True)
    return classes.label_of_scores(model.classes_, raw)


@lower(
    "BaseGradientBoosting GradientBoostingRegressor.apply",
    cases(classifier, "GradientBoostingClassifier", _SMALL, rows=_ROWS),
    cases(regressor, "GradientBoostingRegressor", _SMALL, rows=_ROWS),
)
def gradient_leaves(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The number of the reached leaf of each tree, float64."""
    joined = _without_missing([tree_of(item) for item in model.estimators_.ravel()])
    result = take(joined.leaf_node.astype(np.float64), tree_ensemble.leaves(op, joined, rows32(op, x)))
    return result.reshape(-1, *model.estimators_.shape) if hasattr(model, "classes_") else result


def _histogram_rows(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The rows as the trees see them: categories as numbers in front, unknown and missing ones NaN."""
    if model._preprocessor is None:
        rows = numbers(op, x)
        return rows if rows.dtype == np.float32 else rows.astype(np.float64)
    return doubles(op, op.call(model._preprocessor, "transform", x))


def _members(model: BaseEstimator, bitsets: np.ndarray, node: np.void, counts: np.ndarray) -> np.ndarray:
    """The category numbers, and for a missing one the number after the last, that go left at a node."""
    known, place = model._bin_mapper.make_known_categories_bitsets()
    count = int(counts[node["feature_idx"]])
    bits = (bitsets[node["bitset_idx"]], known[place[node["feature_idx"]]])
    in_left, is_known = (
        np.unpackbits(item.astype("<u4").view(np.uint8), bitorder="little")[:count] > 0 for item in bits
    )
    to_left = in_left | ~is_known if node["missing_go_to_left"] else in_left
    return np.flatnonzero(np.append(to_left, node["missing_go_to_left"])).astype(np.float64)


def _category_counts(model: BaseEstimator) -> np.ndarray:
    """For each column that the trees see its number of categories, 0 for a column of numbers."""
    counts = np.zeros(len(model._bin_mapper.bin_thresholds_), np.int64)
    if model._preprocessor is None:
        return counts
    categories = model._preprocessor.named_transformers_["encoder"].categories_
    counts[: len(categories)] = list(map(len, categories))
    return counts


def _histogram_tree(
    model: BaseEstimator, nodes: np.ndarray, bitsets: np.ndarray, counts: np.ndarray
) -> tree_ensemble.Tree:
    leaf = nodes["is_leaf"].astype(bool)
    categorical = np.flatnonzero(nodes["is_categorical"].astype(bool) & ~leaf)
    members = {int(i): _members(model, bitsets, nodes[i], counts) for i in categorical}
    missing = nodes["missing_go_to_left"].astype(bool).copy()
    missing[categorical] = False  # a missing category is a number by then
    threshold = np.where(nodes["is_categorical"], 0.0, nodes["num_threshold"])
    left, right = (nodes[side].astype(np.int64) for side in ("left", "right"))
    return tree_ensemble.Tree(
        nodes["feature_idx"], threshold, missing, left, right, leaf, nodes["value"][:, None], members
    )


def _histogram_raw(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """Baseline plus the trees' values, [N, K]."""
    stages = model._predictors
    start = np.asarray(model._baseline_prediction, np.float64).reshape(1, -1)
    columns = int(model.n_trees_per_iteration_)
    rows = _histogram_rows(op, model, x)
    if not stages:
        return full(rows, (None, columns), 0.0, np.float64) + start
    counts = _category_counts(model)
    if counts.any():
        categorical = int((counts > 0).sum())
        first, rest = rows[:, :categorical], rows[:, categorical:]
        rows = np.concatenate([np.where(np.isnan(first), counts[counts > 0].astype(np.float64), first), rest], axis=1)
    joined = tree_ensemble.join(
        [_histogram_tree(model, item.nodes, item.raw_left_cat_bitsets, counts) for stage in stages for item in stage]
    )
    targets = np.tile(np.arange(columns), len(stages))
    return tree_ensemble.sums(op, joined, rows.value, targets, columns, start)


def _with_categories(name: str) -> Any:
    x = data()
    x[:, 1] = np.digitize(x[:, 1], [-1, 0, 1])
    x[::7, 1] = np.nan
    x[::5, 2] = np.nan
    y = target() if name.endswith("Classifier") else quantity() + 3 * (x[:, 1] == 2)
    return unfitted(name, max_iter=8, categorical_features=[1]).fit(x, y)


_HOLES = np.array([[0.1, 1, np.nan, 2], [np.nan, 9, 1, 1], [1, np.nan, 0.5, -1], [0, 2, 1, 0], [1, 0, 1, 3.0]])
_HISTOGRAM_CASES = [
    *cases(classifier, "HistGradientBoostingClassifier", _FEW, {**_FEW, "classes": 2}, rows=_ROWS),
    built(lambda: _with_categories("HistGradientBoostingClassifier"), _HOLES, min_opset=21),
]


@lower(
    "GradientBoostingClassifier HistGradientBoostingClassifier.decision_function",
    cases(classifier, "GradientBoostingClassifier", _SMALL, {**_SMALL, "classes": 2}, rows=_ROWS),
    built(_with_init, _ROWS),
    _HISTOGRAM_CASES,
)
def boosted_decision(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The raw predictions, a vector for two classes."""
    raw = (_histogram_raw if hasattr(model, "_predictors") else _gradient_raw)(op, model, x)
    return raw.reshape(-1) if raw.shape[1] == 1 else raw


@lower("HistGradientBoostingClassifier.predict_proba", _HISTOGRAM_CASES)
def histogram_probabilities(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The loss's probabilities of the raw predictions."""
    highest = [np.max(np.abs(item.nodes["value"])) for stage in model._predictors for item in stage]
    farthest = float(np.max(np.abs(model._baseline_prediction)) + np.sum(highest))
    return loss_probabilities(model, called(op, model, "decision_function", x), farthest)


lower_label("HistGradientBoostingClassifier", "decision_function", _HISTOGRAM_CASES)


_POISSON: dict[str, Any] = {"loss": "poisson", "positive": True, **_FEW}


@lower(
    "HistGradientBoostingRegressor.predict",
    cases(regressor, "HistGradientBoostingRegressor", _FEW, _POISSON, rows=_ROWS),
    built(lambda: _with_categories("HistGradientBoostingRegressor"), _HOLES, min_opset=21),
)
def histogram_value(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The link's inverse of the raw prediction."""
    return classes.link_inverse(model, _histogram_raw(op, model, x).reshape(-1))


@lower_fitted("AdaBoostClassifier.decision_function", classifier, _SMALL, {**_SMALL, "classes": 2}, rows=_ROWS)
def boost_decision(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The weights of the estimators that say each class, less the others' shares; for two classes the difference."""
    count = int(model.n_classes_)
    if count == 1:
        rows = numbers(op, x)
        return full(rows, (None, 1), 0.0, rows.dtype)
    class_numbers = {label: index for index, label in enumerate(np.asarray(model.classes_).tolist())}
    total: Any = 0
    for index, (estimator, weight) in enumerate(zip(model.estimators_, model.estimator_weights_, strict=False)):
        own = np.asarray(estimator.classes_)
        label = called(op, estimator, "predict", x, step=f"estimators_.{index}")
        number = codes(op, label[:, None].value, own)[:, 0]
        places = np.asarray([class_numbers[item] for item in own.tolist()])
        votes = np.where(places[:, None] == np.arange(count), float(weight), -1 / (count - 1) * float(weight))
        total = total + take(number.const(votes), number, axis=0)
    total = total / float(np.sum(model.estimator_weights_))
    return total[:, 1] - total[:, 0] if count == 2 else total


@lower_fitted("AdaBoostClassifier.predict_proba", classifier, _SMALL, {**_SMALL, "classes": 2}, rows=_ROWS)
def boost_probabilities(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """Softmax of the decision function, halved or shared among the other classes."""
    count = int(model.n_classes_)
    if count == 1:
        return full(numbers(op, x), (None, 1), 1.0, np.float64)
    decision = called(op, model, "decision_function", x)
    if count == 2:
        return classes.softmax(np.stack([-decision, decision], axis=1) / 2)
    return classes.softmax(decision / (count - 1))


_OF_WORDS = cases(classifier, "AdaBoostClassifier", {"text": True, **_SMALL}, {**_SMALL, "classes": 2}, rows=_ROWS)
lower_label("AdaBoostClassifier", "decision_function", _OF_WORDS)


@lower_fitted("AdaBoostRegressor.predict", regressor, _SMALL, rows=_ROWS)
def boost_value(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The weighted median of the estimators' predictions."""
    columns = list(each_called(op, model.estimators_, "predict", x))
    if len(columns) == 1:
        return columns[0]
    predictions = np.stack(columns, axis=1)
    order = np.argsort(predictions, axis=1)
    weights = np.cumsum(take(np.asarray(model.estimator_weights_)[: len(columns)], order), axis=1)
    enough = weights >= 0.5 * weights[:, -1][:, None]
    middle = np.argmax(enough, axis=1)[:, None]
    return np.take_along_axis(predictions, np.take_along_axis(order, middle, axis=1), axis=1)[:, 0]


_BINS = "sklearn.ensemble._hist_gradient_boosting.binning._BinMapper"
_GAPS = np.array([[0.5, np.nan, 0, -np.inf], [np.inf, 1, np.nan, 2], [1e301, -1, 254, 0], [-3, 5, 1, -2]])


def _of_categories() -> Any:
    """Bins of two columns of numbers and two of categories."""
    known = [None, np.array([0.0, 1, 4]), None, np.array([0.0, 2])]
    return fit(_BINS, data(), is_categorical=[False, True, False, True], known_categories=known, n_bins=9)


@lower(
    "_BinMapper.transform",
    cases(transformer, _BINS, {"n_bins": 8}, {}),
    built(_of_categories, _GAPS, name="categories"),
    built(lambda: fit(_BINS, np.round(data()), n_bins=32), _GAPS, name="few values"),
)
def bins(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The number of thresholds below the value; the last bin for NaN, and for negative categories."""
    rows, numbered = doubles(op, x), []
    for i, (thresholds, categorical) in enumerate(zip(model.bin_thresholds_, model.is_categorical_, strict=True)):
        column = rows[:, i]
        missing = np.isnan(column) | (column < 0) if categorical else np.isnan(column)
        numbered.append(np.where(missing, model.missing_values_bin_idx_, np.searchsorted(thresholds, column)))
    return np.stack(numbered, axis=1).astype(np.uint8)
