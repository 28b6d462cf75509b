"""CatBoost's estimators: sums of trees, symmetric or not, behind a loss's transform.

The model is read from its JSON form. CatBoost sees its rows in float32, sends x > border to the right and sums in float64.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from scipy.special import expit, log_expit
from sklearn.base import BaseEstimator

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import built
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array
from onnxport.opset_maps.to_onnx.sklearn.arrays.functions import full
from onnxport.opset_maps.to_onnx.sklearn.boosters.library import ROWS, Examples, Library, rows_with_gaps
from onnxport.opset_maps.to_onnx.sklearn.classes import both_classes, logsumexp, softmax, take_class
from onnxport.opset_maps.to_onnx.sklearn.entries import given, lower
from onnxport.opset_maps.to_onnx.sklearn.fitted import quantity, target
from onnxport.opset_maps.to_onnx.sklearn.tables.table import Frame, Table, columns, numbers
from onnxport.opset_maps.to_onnx.sklearn.trees import tree_ensemble

_BINARY = frozenset(("Logloss", "CrossEntropy", "Focal"))
_EACH_LABEL = frozenset(("MultiLogloss", "MultiCrossEntropy"))
_ONE_BY_ONE = frozenset((*_EACH_LABEL, "MultiClassOneVsAll"))


@dataclass(frozen=True)
class _Features:
    """The columns of numbers.

    Attributes:
        columns: places of them in the table.
        place: place among those columns, by CatBoost's number.
        right: NaN goes right, by CatBoost's number.
    """

    columns: list[int]
    place: dict[int, int]
    right: dict[int, bool]


def _features(described: list[dict[str, Any]], x: Table) -> _Features:
    """The columns by their names where the table has all those that the model looks at, else by their places."""
    columns = [item["flat_feature_index"] for item in described]
    looked_at = [item for item in described if item["borders"]]
    if looked_at and isinstance(x, Frame) and set(x.widths) == {1}:
        names = [item.get("feature_id") for item in looked_at]
        if set(names) <= set(x.names):
            described, columns = looked_at, [x.names.index(name) for name in names]
    place = {item["feature_index"]: index for index, item in enumerate(described)}
    right = {item["feature_index"]: item["nan_value_treatment"] == "AsTrue" for item in described}
    return _Features(columns, place, right)


def _read(model: BaseEstimator) -> dict[str, Any]:
    for kind in ("text", "embedding"):
        features = getattr(model, f"get_{kind}_feature_indices", list[int])()
        if features:
            raise UnsupportedOperator(
                f"{type(model).__name__}: {kind}_features={features} have no mapping, since CatBoost does not tell how it reads "
                "them: make numbers of them in a transformer before it"
            )
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "model.json"
        model.save_model(str(place), format="json")
        read: dict[str, Any] = json.loads(place.read_text())
    return read


@cache
def _symmetric(depth: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The full binary tree whose leaves stand in order: split of each node (the root's is the last), children, leaves."""
    inner = (1 << depth) - 1
    nodes = np.arange(2 * inner + 1)
    level = np.frexp(nodes + 1)[1] - 1
    leaf = nodes >= inner
    split = np.where(leaf, 0, depth - 1 - level)
    return split, np.where(leaf, 0, 2 * nodes + 1), np.where(leaf, 0, 2 * nodes + 2), leaf


def _symmetric_tree(tree: dict[str, Any], features: _Features, width: int) -> tree_ensemble.Tree:
    splits = tree["splits"] or []
    split, left, right, leaf = _symmetric(len(splits))
    column, border, to_left = _splits(splits or [None], features)
    held = np.zeros((len(leaf), width))
    held[leaf] = np.asarray(tree["leaf_values"], np.float64).reshape(-1, width)
    return tree_ensemble.Tree(column[split], border[split], to_left[split], left, right, leaf, held)


def _any_tree(root: dict[str, Any], features: _Features, width: int) -> tree_ensemble.Tree:
    nodes = list(_nodes(root))
    number = {id(node): index for index, node in enumerate(nodes)}
    leaf = np.array(["split" not in node for node in nodes])
    column, border, to_left = _splits([node.get("split") for node in nodes], features)
    left, right = (
        np.array([number[id(node[side])] if "split" in node else 0 for node in nodes]) for side in ("left", "right")
    )
    held = np.zeros((len(nodes), width))
    held[leaf] = np.array([node["value"] for node in nodes if "split" not in node], np.float64).reshape(-1, width)
    return tree_ensemble.Tree(column, border, to_left, left, right, leaf, held)


def _nodes(root: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The nodes from the root on; a loop, since a tree may be deeper than Python's stack."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        if "split" in node:
            waiting += [node["right"], node["left"]]


def _splits(splits: list[Any], features: _Features) -> list[np.ndarray]:
    """Column, border, and whether NaN goes left, of each split; blank ones for leaves."""
    asked: list[tuple[int, float, bool]] = []
    for split in splits:
        if split is not None and split["split_type"] != "FloatFeature":
            raise UnsupportedOperator(
                f"CatBoost: split_type={split['split_type']!r} asks for categories, of which the model holds only hashes or "
                "statistics by hash: encode them in a transformer before it"
            )
        number = 0 if split is None else split["float_feature_index"]
        blank = (0, 0.0, False)
        asked.append(blank if split is None else (features.place[number], split["border"], not features.right[number]))
    return [np.array(item) for item in zip(*asked, strict=True)]


_FITTED = Examples(
    "catboost", "CatBoost", {"iterations": 6, "depth": 3, "verbose": 0, "allow_writing_files": False, "thread_count": 1}
)


def _of_all_classes(model: BaseEstimator, raw: Array) -> Array:
    """The raw values with -infinity for the classes that the fit declares and never saw."""
    classes, width = np.ravel(getattr(model, "classes_", ())), raw.shape[1] or 0
    if not 1 < width < len(classes):
        return raw
    seen = json.loads(model.get_metadata()["class_params"])["class_to_label"]
    place = np.full(len(classes), width)
    place[seen] = np.arange(width)
    return np.concatenate([raw, full(raw, (None, 1), -np.inf, np.float64)], axis=1)[:, place]


def _loss(model: BaseEstimator) -> str:
    return str(json.loads(model.get_metadata()["params"])["loss_function"]["type"])


def _kind_of_classes(model: BaseEstimator) -> Literal["two", "several", "one by one"]:
    """How a classifier's loss makes probabilities of raw values."""
    loss = _loss(model)
    if loss in _BINARY:
        return "two"
    if loss in ("MultiClass", *_ONE_BY_ONE):
        return "several" if loss == "MultiClass" else "one by one"
    raise UnsupportedOperator(f"{type(model).__name__}: loss_function={loss!r} has no mapping")


class _CatBoost(Library):
    predictors = "catboost.CatBoostRegressor catboost.CatBoostRanker catboost.CatBoost"
    classifiers = "catboost.CatBoostClassifier"
    fitted = _FITTED

    def raw(self, op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
        """The scaled sums of the trees' values plus the bias, float64 [N, K] always."""
        read = _read(model)
        features = _features(read["features_info"].get("float_features") or [], x)
        scale, bias = float(read["scale_and_bias"][0]), np.ravel(read["scale_and_bias"][1]).astype(np.float64)
        trees = [_symmetric_tree(tree, features, len(bias)) for tree in read.get("oblivious_trees") or []]
        trees += [_any_tree(tree, features, len(bias)) for tree in read.get("trees") or []]
        if not features.columns:
            raise UnsupportedOperator(f"{type(model).__name__}: the model has no columns of numbers")
        others = read["features_info"].get("categorical_features") or []
        if others or isinstance(x, Frame) or features.columns != list(range(len(features.columns))):
            x = columns(op, x, features.columns)
        rows = numbers(op, x, np.float32)
        if not trees:
            return _of_all_classes(model, full(rows, (None, len(bias)), 0.0, np.float64) + bias)
        joined = tree_ensemble.join(trees)
        return _of_all_classes(model, tree_ensemble.totals(op, joined, rows.value) * scale + bias)

    def transformed(self, model: BaseEstimator, raw: Array) -> Array:
        """The raw value, or what the loss makes of it."""
        kind = getattr(model, "_get_default_prediction_type", lambda: "RawFormulaVal")()
        if kind == "Exponent":
            return np.exp(raw)
        if kind == "RMSEWithUncertainty":  # mean, and the variance from the logarithm of the standard deviation
            return np.stack([raw[:, 0], np.exp(2 * raw[:, 1])], axis=1)
        if kind != "RawFormulaVal":
            raise UnsupportedOperator(f"{type(model).__name__}: prediction_type={kind!r} has no mapping")
        return raw

    def class_probabilities(self, model: BaseEstimator, raw: Array) -> Array:
        """The loss's probabilities of the raw values."""
        match _kind_of_classes(model):
            case "two":
                return both_classes(expit(raw[:, 0]))
            case "several":
                return softmax(raw)
            case "one by one":
                return expit(raw)

    def log_probabilities(self, op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
        """The logarithms of the loss's probabilities."""
        raw = self.raw_of(op, model, x)
        match _kind_of_classes(model):
            case "two":
                return log_expit(np.concatenate([-raw, raw], axis=1))
            case "several":
                return raw - logsumexp(raw, keepdims=True)
            case "one by one":
                return log_expit(raw)

    def label(self, op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
        """The class of the greatest raw value, [N, 1]; for two classes [N], for several labels whether each is positive."""
        raw, loss = self.raw_of(op, model, x), _loss(model)
        if loss in _BINARY:
            threshold = float(model.get_probability_threshold())
            return take_class(model.classes_, (raw[:, 0] > np.log(threshold / (1 - threshold))).astype(np.int64))
        if loss in _EACH_LABEL:
            return (raw > 0).astype(np.int64)
        return take_class(model.classes_, np.argmax(raw, axis=1))[:, None]


_classifier, _regressor, _LIBRARY = _FITTED.classifier, _FITTED.regressor, _CatBoost()
_with_gaps = partial(_FITTED.with_gaps, columns=2)
_GROUPS = {"group_id": np.repeat(range(12), 10)}
_TWO_LABELS = partial(_FITTED.of_two_labels, loss_function="MultiLogloss")

_LIBRARY.register(
    predictions=[
        *given(partial(_with_gaps, "Regressor", quantity()), {}, {"nan_mode": "Max"}, rows=rows_with_gaps()),
        built(lambda: _regressor(grow_policy="Lossguide"), ROWS),
        built(lambda: _with_gaps("Regressor", quantity(), grow_policy="Depthwise"), rows_with_gaps()),
        *given(
            _regressor,
            {"loss_function": "Poisson", "positive": True},
            {"loss_function": "RMSEWithUncertainty"},
            rows=ROWS,
        ),
        built(lambda: _regressor(loss_function="MultiRMSE", outputs=2), ROWS),
        built(lambda: _FITTED.fitted("Ranker", target(), loss_function="QueryRMSE", fit=_GROUPS), ROWS),
    ],
    probabilities=[
        built(lambda: _with_gaps("Classifier", target(2)), rows_with_gaps()),
        *given(_classifier, {"loss_function": "MultiClassOneVsAll"}, {"grow_policy": "Lossguide"}, rows=ROWS),
        built(_TWO_LABELS, ROWS),
    ],
    labels=[
        built(lambda: _classifier(text=True), ROWS),
        built(lambda: _classifier(classes=2), rows_with_gaps()),
        built(_TWO_LABELS, ROWS),
    ],
)
lower(
    "catboost.CatBoostClassifier.predict_log_proba",
    given(_classifier, {}, {"classes": 2}, {"loss_function": "MultiClassOneVsAll"}, rows=ROWS),
)(_LIBRARY.log_probabilities)
