"""XGBoost's estimators: trees (gbtree, dart) or a linear model behind an objective's transform.

The model is read from its JSON form, which holds every float32 exactly. XGBoost sees its rows in float32 and sends x <
threshold to the left, which is x <= the next lower float32. It sums in float32, tree after tree; here the sum is float64's,
rounded once.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import built
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array
from onnxport.opset_maps.to_onnx.sklearn.arrays.functions import full, take
from onnxport.opset_maps.to_onnx.sklearn.boosters.library import ROWS, Examples, Library, rows_with_gaps
from onnxport.opset_maps.to_onnx.sklearn.classes import softmax
from onnxport.opset_maps.to_onnx.sklearn.entries import given, lower
from onnxport.opset_maps.to_onnx.sklearn.fitted import quantity, target
from onnxport.opset_maps.to_onnx.sklearn.tables.categories import coded_columns
from onnxport.opset_maps.to_onnx.sklearn.tables.sparse import is_sparse
from onnxport.opset_maps.to_onnx.sklearn.tables.table import Frame, Table, select
from onnxport.opset_maps.to_onnx.sklearn.trees import tree_ensemble

_IDENTITY = frozenset(
    "reg:squarederror reg:squaredlogerror reg:pseudohubererror reg:absoluteerror reg:quantileerror binary:logitraw "
    "rank:pairwise rank:ndcg rank:map multi:softprob multi:softmax".split()
)
_EXPONENTIAL = frozenset("count:poisson reg:gamma reg:tweedie survival:cox survival:aft".split())
_LOGISTIC = frozenset(("reg:logistic", "binary:logistic"))
_HINGE = "binary:hinge"
# XGBoost takes no base score of a logistic objective for nearer to 0 or 1.
_LEAST = np.float32(1e-6)


@dataclass(frozen=True)
class _Model:
    """What a fitted estimator's JSON holds.

    Attributes:
        booster: ``gbtree``, ``dart`` or ``gblinear``.
        margin: what every row's sum starts from, float64 [K].
        parts: the booster's own dictionary: trees, or the linear model's weights.
        weights: factor of each tree.
        categorical: the columns of categories.
        categories: the categories themselves, of the columns that had them in a frame.
    """

    booster: str
    margin: np.ndarray
    parts: dict[str, Any]
    weights: np.ndarray
    categorical: list[int]
    categories: dict[int, np.ndarray]

    @property
    def width(self) -> int:
        """Number of results for each row."""
        return len(self.margin)


def _read(model: BaseEstimator) -> _Model:
    learner = json.loads(bytes(model.get_booster().save_raw("json")))["learner"]
    parameters = learner["learner_model_param"]
    width = max(int(parameters["num_class"]), int(parameters.get("num_target", 1)), 1)
    objective = learner["objective"]["name"]
    base = np.asarray(json.loads(parameters["base_score"]), np.float64).ravel().astype(np.float32)
    booster = learner["gradient_booster"]
    parts = (booster["gbtree"] if booster["name"] == "dart" else booster)["model"]
    if parts.get("trees") == [] and objective not in _IDENTITY:
        raise UnsupportedOperator(
            f"XGBoost: n_estimators=0 with objective={objective!r}: whether XGBoost takes the base score of a model without "
            "trees for a margin hangs on how it came to it"
        )
    weights = np.asarray(booster.get("weight_drop", np.ones(len(parts.get("trees", ())))), np.float64)
    if booster["name"] == "gblinear":
        base = base[:1]  # XGBoost adds the first one to every result of a linear model
    margin = np.broadcast_to(_margin(objective, base).astype(np.float64), [width])
    asked = [index for index, kind in enumerate(learner.get("feature_types", ())) if kind == "c"]
    return _Model(booster["name"], margin, parts, weights, asked, _categories(parts.get("cats", {})))


def _margin(objective: str, base: np.ndarray) -> np.ndarray:
    """The base score, which is a prediction, before the objective's transform."""
    if objective in _LOGISTIC:
        return -np.log(1 / np.clip(base, _LEAST, 1 - _LEAST) - 1)
    if objective in _EXPONENTIAL:
        return np.log(base)
    if objective in _IDENTITY or objective == _HINGE:
        return base
    raise UnsupportedOperator(f"XGBoost: objective={objective!r} has no mapping")


def _categories(encoding: dict[str, Any]) -> dict[int, np.ndarray]:
    categories = {}
    for index, item in enumerate(encoding.get("enc", ())):
        if "offsets" not in item:
            if item["values"]:
                categories[index] = np.asarray(item["values"])
        elif len(item["offsets"]) > 1:
            text = np.asarray(item["values"], np.int64).astype(np.uint8).tobytes()
            if not text.isascii():
                continue  # XGBoost counts characters where it copies bytes, and cuts such words
            words = [text[start:end].decode() for start, end in pairwise(item["offsets"])]
            categories[index] = np.asarray(words, object)
    return categories


def _tree(tree: dict[str, Any], weight: float) -> tree_ensemble.Tree:
    left, right = np.asarray(tree["left_children"]), np.asarray(tree["right_children"])
    leaf = left == -1
    condition = np.asarray(tree["split_conditions"], np.float64).astype(np.float32)
    missing = np.asarray(tree["default_left"], bool)
    outputs = int(tree["tree_param"]["size_leaf_vector"])
    if outputs > 1:
        # before XGBoost 3.2 the leaves' values stand among those of all nodes
        place = np.where(leaf, right, 0) if "leaf_weights" in tree else slice(None)
        held = np.asarray(tree.get("leaf_weights", tree["base_weights"]), np.float64).reshape(-1, outputs)[place]
    else:
        held = condition[:, None]
    members = {}
    categorical = np.flatnonzero((np.asarray(tree["split_type"]) == 1) & ~leaf)
    if len(categorical):
        # the categories of a node go to the right, and so do not those that training has not seen
        left, right = left.copy(), right.copy()
        left[categorical], right[categorical] = right[categorical], left[categorical]
        missing[categorical] = ~missing[categorical]
        values = np.asarray(tree["categories"], np.float64)
        ranges = (tree["categories_nodes"], tree["categories_segments"], tree["categories_sizes"])
        members = {node: values[start : start + size] for node, start, size in zip(*ranges, strict=True)}
    with np.errstate(over="ignore"):
        below = np.nextafter(condition, np.float32(-np.inf)).astype(np.float64)
    value = held.astype(np.float32).astype(np.float64) * weight
    return tree_ensemble.Tree(np.asarray(tree["split_indices"]), below, missing, left, right, leaf, value, members)


def _used(model: BaseEstimator, read: _Model) -> int:
    """How many trees count: all, or those up to the best iteration."""
    end = int(model._get_iteration_range(None)[1])
    return int(read.parts["iteration_indptr"][end]) if end else len(read.parts["trees"])


def _trees(model: BaseEstimator, read: _Model) -> tree_ensemble.Trees:
    trees = read.parts["trees"][: _used(model, read)]
    return tree_ensemble.join([_tree(item, weight) for item, weight in zip(trees, read.weights, strict=False)])


def _rows(op: OpBuilder, model: BaseEstimator, x: Table, read: _Model) -> Array:
    """The table as XGBoost sees it: float32, what is missing as NaN, categories as whole numbers."""
    if isinstance(x, Frame) and "qid" in x.names and type(model).__name__ == "XGBRanker":
        x = select(op, x, [index for index, name in enumerate(x.names) if name != "qid"])  # the queries are no feature
    unknown = [index for index in read.categorical if index not in read.categories]
    if unknown and isinstance(x, Frame):
        raise UnsupportedOperator(
            f"{type(model).__name__}: the model does not hold the categories of the columns {unknown} (XGBoost does from 3.1 on, "
            "integers and words of ASCII letters of a frame): give a matrix of codes instead of a frame"
        )
    rows = coded_columns(op, x, read.categories, np.float32)
    if is_sparse(x):
        # XGBoost takes what a sparse matrix leaves out for missing
        rows = np.where(rows == 0, np.float32(np.nan), rows)
    missing = np.float32(model.missing)
    if not np.isnan(missing):
        rows = np.where(rows == missing, np.float32(np.nan), rows)
    if read.categorical:
        whole = np.isin(np.arange(rows.shape[1] or 0), read.categorical)
        rows = np.where(whole[None], np.floor(rows), rows)
    return rows


def _tree_sums(model: BaseEstimator, rows: Array, read: _Model) -> Array:
    if not _used(model, read):
        return full(rows, (None, read.width), 0.0, np.float64)
    trees = _trees(model, read)
    if trees.leaf_value.shape[1] > 1:
        return tree_ensemble.totals(rows.op, trees, rows.value)
    targets = np.asarray(read.parts["tree_info"], np.int64)[: trees.count]
    return tree_ensemble.sums(rows.op, trees, rows.value, targets, read.width)


def _linear_sums(rows: Array, read: _Model) -> Array:
    """Weights times features, where nothing is added for a missing one, plus the bias."""
    weights = np.asarray(read.parts["weights"], np.float64).astype(np.float32).reshape(-1, read.width)
    result = np.where(np.isnan(rows), np.float32(0), rows).astype(np.float64) @ weights[:-1].astype(np.float64)
    return result + weights[-1].astype(np.float64)


_FITTED = Examples("xgboost", "XGB", {"n_estimators": 8, "max_depth": 3})


def _of_categories(name: str) -> Any:
    y = target() if name == "Classifier" else quantity()
    kinds = {"feature_types": ["q", "q", "c", "c"], "enable_categorical": True, "max_cat_to_onehot": 2}
    return _FITTED.of_categories(name, y, 9, **kinds)


_CODES = np.array([[0.5, 0.1, 1, 2], [np.nan, 0, 1, 1], [1, np.nan, 5, 8], [0, 2, np.nan, 0], [1, 0, 3, 77.0]])


class _XGBoost(Library):
    predictors = "xgboost.XGBRegressor xgboost.XGBRFRegressor xgboost.XGBRanker onnxport.XGBoostBooster"
    classifiers = "xgboost.XGBClassifier xgboost.XGBRFClassifier"
    fitted = _FITTED
    raw_method = "predict_margin"

    def raw(self, op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
        """What predict gives with output_margin, float32, [N, K] always."""
        read = _read(model)
        rows = _rows(op, model, x, read)
        sums = _linear_sums(rows, read) if read.booster == "gblinear" else _tree_sums(model, rows, read)
        return (sums + read.margin).astype(np.float32)  # XGBoost adds them up in that type

    def transformed(self, model: BaseEstimator, raw: Array) -> Array:
        """What the booster predicts: the objective's transform of the margins, float32."""
        objective = json.loads(model.get_booster().save_config())["learner"]["objective"]["name"]
        if objective == "multi:softprob":
            return softmax(raw)
        if objective == "multi:softmax":
            return np.argmax(raw, axis=1).astype(np.float32)
        if objective in _LOGISTIC:
            # XGBoost keeps the exponential finite
            return 1 / (np.exp(np.minimum(-raw, np.float32(88.7))) + np.float32(1))
        if objective in _EXPONENTIAL:
            return np.exp(raw)
        if objective == _HINGE:
            return (raw > 0).astype(np.float32)
        return raw

    def class_probabilities(self, model: BaseEstimator, raw: Array) -> Array:
        """What the booster predicts for each class; 1 - p and p where it predicts one number."""
        return softmax(raw) if model.objective == "multi:softmax" else super().class_probabilities(model, raw)

    def label(self, op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
        """The class of the greatest probability, or whether it is above one half, for each label of several."""
        prediction = self.prediction(op, model, x)
        if prediction.ndim == 2 and model.n_classes_ != 2:
            return np.argmax(prediction, axis=1)
        if prediction.ndim == 2:
            return (prediction > 0.5).astype(np.float64)
        if model.objective == "multi:softmax":
            return prediction.astype(np.int32)
        return (prediction > 0.5).astype(np.int64)


_classifier, _regressor = _FITTED.classifier, _FITTED.regressor

_XGBoost().register(
    predictions=[
        built(_regressor, rows_with_gaps()),
        built(lambda: _regressor(missing=-1.0), np.round(rows_with_gaps())),
        built(lambda: _regressor(booster="dart", rate_drop=0.5), ROWS),
        built(lambda: _regressor(booster="gblinear", max_depth=None), rows_with_gaps()),
        built(lambda: _regressor(objective="count:poisson", positive=True), ROWS),
        *given(_regressor, {"outputs": 2}, {"outputs": 2, "multi_strategy": "multi_output_tree"}, rows=ROWS),
        built(lambda: _regressor("RFRegressor"), ROWS),
        built(lambda: _FITTED.fitted("Ranker", target(), fit={"qid": np.repeat(np.arange(12), 10)}), ROWS),
        built(lambda: _of_categories("Regressor"), _CODES, min_opset=21),
    ],
    probabilities=[
        built(lambda: _classifier(classes=2), rows_with_gaps()),
        *given(_classifier, {"objective": "multi:softmax"}, {"classes": 2, "objective": "binary:hinge"}, rows=ROWS),
        built(lambda: _classifier("RFClassifier"), ROWS),
        built(lambda: _of_categories("Classifier"), _CODES, min_opset=21),
    ],
    labels=[
        built(_classifier, ROWS),
        built(lambda: _classifier(classes=2), rows_with_gaps()),
        built(lambda: _classifier(objective="multi:softmax"), ROWS),
        built(lambda: _classifier("RFClassifier", classes=2), ROWS),
        built(_FITTED.of_two_labels, ROWS),
    ],
)


@lower(
    "xgboost.XGBRegressor xgboost.XGBRFRegressor xgboost.XGBRanker xgboost.XGBClassifier xgboost.XGBRFClassifier.apply",
    built(_classifier, ROWS),
    built(_regressor, rows_with_gaps()),
    built(lambda: _regressor(booster="dart"), ROWS),
)
def reached_leaves(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The number of the leaf that each row reaches in each tree, among the tree's nodes, float32."""
    read = _read(model)
    if read.booster == "gblinear":
        raise UnsupportedOperator(f"{type(model).__name__}.apply: booster={read.booster!r} has no trees")
    trees = _trees(model, read)
    rows = _rows(op, model, x, read)
    numbers = take(trees.leaf_node.astype(np.float32), tree_ensemble.leaves(op, trees, rows.value))
    return numbers if trees.count > 1 else numbers[:, 0]
