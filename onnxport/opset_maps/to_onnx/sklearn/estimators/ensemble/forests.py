"""Decision trees and forests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx_ir as ir
from sklearn.base import BaseEstimator

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import built, f64
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array
from onnxport.opset_maps.to_onnx.sklearn.arrays.functions import take
from onnxport.opset_maps.to_onnx.sklearn.classes import label_of_scores, with_rest
from onnxport.opset_maps.to_onnx.sklearn.entries import cases, lower, lower_fitted
from onnxport.opset_maps.to_onnx.sklearn.fitted import classifier, data, regressor, target, transformer, unfitted
from onnxport.opset_maps.to_onnx.sklearn.tables.sparse import is_sparse
from onnxport.opset_maps.to_onnx.sklearn.tables.table import Table, called, numbers
from onnxport.opset_maps.to_onnx.sklearn.trees import tree_ensemble

_ROWS = f64(20, 4)


def tree_of(
    fitted: BaseEstimator, value: np.ndarray | None = None, features: np.ndarray | None = None
) -> tree_ensemble.Tree:
    """A fitted decision tree; its leaves hold its own values, or `value` [nodes, K]; `features` are its columns of the table."""
    tree = fitted.tree_
    left = tree.children_left  # each is a new view
    held = np.reshape(tree.value, (len(left), -1)) if value is None else value
    feature = tree.feature if features is None else np.asarray(features)[np.maximum(tree.feature, 0)]
    missing = np.asarray(tree.missing_go_to_left, bool)
    return tree_ensemble.Tree(feature, tree.threshold, missing, left, tree.children_right, left == -1, held)


def trees_of(estimators: Sequence[Any]) -> tree_ensemble.Trees:
    """Fitted decision trees together."""
    return tree_ensemble.join([tree_of(item) for item in estimators])


def rows32(op: OpBuilder, x: Table) -> ir.Value:
    """The table in float32, the type in which scikit-learn's trees see their rows."""
    return numbers(op, x, np.float32).value


def _mean_values(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The mean of the trees' values, [N, outputs * K]."""
    trees = list(getattr(model, "estimators_", [model]))
    joined = trees_of(trees)
    if len(trees) == 1:
        return tree_ensemble.values(op, joined, rows32(op, x))[:, 0]
    shares = joined.leaf_value
    if shares.shape[1] == 2 and op.ml_opset >= 5 and np.allclose(shares.sum(axis=1), 1.0, rtol=0.0, atol=1e-12):
        # two classes: a leaf of TreeEnsemble has one number, and the other class has the rest
        return with_rest(tree_ensemble.mean(op, replace(joined, leaf_value=shares[:, 1:]), rows32(op, x)))
    return tree_ensemble.mean(op, joined, rows32(op, x))


def _two_targets(name: str, **options: object) -> Any:
    labels = name.endswith("Classifier")
    y = np.stack([target(), target(2)], axis=1) if labels else np.stack([data()[:, 0], data()[:, 1]], axis=1)
    return unfitted(name, **options).fit(data(), y)


@lower(
    "ForestRegressor.predict",
    cases(regressor, "RandomForestRegressor", {"n_estimators": 10}, rows=_ROWS),
    built(lambda: _two_targets("ExtraTreesRegressor", n_estimators=4), _ROWS),
)
def mean_value(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The mean of the trees' values."""
    result = _mean_values(op, model, x)
    return result.reshape(-1) if model.n_outputs_ == 1 else result


@lower(
    "DecisionTreeClassifier ForestClassifier.predict_proba",
    cases(classifier, "DecisionTreeClassifier", {"max_depth": 4}, rows=_ROWS),
    cases(classifier, "RandomForestClassifier", {"n_estimators": 10}, {"classes": 2}, rows=_ROWS),
)
def tree_probabilities(op: OpBuilder, model: BaseEstimator, x: Table) -> Any:
    """The shares of the classes in the reached leaves, the mean over the trees."""
    result = _mean_values(op, model, x)
    if model.n_outputs_ == 1:
        return result
    most = max(model.n_classes_)
    return [result[:, i * most : i * most + int(size)] for i, size in enumerate(model.n_classes_)]


@lower(
    "BaseDecisionTree ForestClassifier.predict",
    cases(classifier, "DecisionTreeClassifier", {"max_depth": 4, "text": True}, rows=_ROWS),
    cases(regressor, "DecisionTreeRegressor", {"max_depth": 5}, rows=_ROWS),
    cases(classifier, "ExtraTreesClassifier", {"n_estimators": 10}, rows=_ROWS),
    built(lambda: _two_targets("DecisionTreeClassifier"), _ROWS),
    built(lambda: _two_targets("RandomForestClassifier", n_estimators=3), _ROWS),
    built(lambda: _two_targets("ExtraTreeRegressor"), _ROWS),
)
def tree_prediction(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The class of the greatest share; for a regressor the value."""
    if not hasattr(model, "classes_"):
        return mean_value(op, model, x)
    shares = op.call(model, "predict_proba", x)
    if model.n_outputs_ == 1:
        return label_of_scores(model.classes_, Array(op, shares))
    columns = [label_of_scores(labels, Array(op, item)) for labels, item in zip(model.classes_, shares, strict=True)]
    labels = np.stack(columns, axis=1)
    wanted = np.asarray(model.classes_[0]).dtype
    return labels.astype(wanted) if labels.dtype.kind in "iuf" else labels


@lower(
    "BaseDecisionTree BaseForest.apply",
    cases(classifier, "DecisionTreeClassifier", {"max_depth": 4}, rows=_ROWS),
    cases(regressor, "RandomForestRegressor", {"n_estimators": 5}, rows=_ROWS),
)
def reached_leaves(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The number of the reached leaf among the tree's nodes, for each tree of a forest."""
    forest = hasattr(model, "estimators_")
    joined = trees_of(model.estimators_ if forest else [model])
    result = take(joined.leaf_node.astype(np.int64), tree_ensemble.leaves(op, joined, rows32(op, x)))
    return result if forest else result[:, 0]


@lower("BaseDecisionTree.decision_path", cases(classifier, "DecisionTreeClassifier", {"max_depth": 4}, rows=_ROWS))
def decision_path(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """1 for each node on the row's path, [N, nodes], dense."""
    return take(_paths(model), called(op, model, "apply", x), axis=0).astype(np.int64)


@lower(
    "BaseForest.decision_path",
    cases(classifier, "RandomForestClassifier", {"n_estimators": 3, "max_depth": 4}, rows=_ROWS),
    cases(regressor, "ExtraTreesRegressor", {"n_estimators": 1}, rows=_ROWS),
)
def decision_paths(op: OpBuilder, model: BaseEstimator, x: Table) -> tuple[Array, Array]:
    """1 for each node on the row's path in any tree, [N, nodes], dense; and where each tree's nodes begin and the last end."""
    leaves = called(op, model, "apply", x)
    columns = [take(_paths(tree), leaves[:, place], axis=0) for place, tree in enumerate(model.estimators_)]
    ends = np.cumsum([0, *(item.tree_.node_count for item in model.estimators_)])
    return np.concatenate(columns, axis=1).astype(np.int64), leaves.const(ends, np.int64)


def _paths(fitted: BaseEstimator) -> np.ndarray:
    """For each node 1 at itself and at those above it, [nodes, nodes], in bytes: large trees have many."""
    tree = fitted.tree_
    parent = np.full(tree.node_count, -1)
    for child in (tree.children_left, tree.children_right):
        inner = np.flatnonzero(child >= 0)
        parent[child[inner]] = inner
    paths = np.eye(tree.node_count, dtype=np.int8)
    for node in range(1, tree.node_count):  # a parent comes before its children
        paths[node] |= paths[parent[node]]
    return paths


@lower_fitted("RandomTreesEmbedding.transform", transformer, {"n_estimators": 5, "max_depth": 3}, rows=_ROWS)
def trees_embedding(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """A column for each leaf, 1 where the row reaches it."""
    return called(op, model.one_hot_encoder_, "transform", called(op, model, "apply", x).value)


@lower_fitted("IsolationForest.score_samples", regressor, {"n_estimators": 10}, {"max_features": 2}, rows=_ROWS)
def isolation_samples(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """-2 to the minus mean depth of the reached leaves over the mean depth of so many samples."""
    trees = []
    for index, (tree, features) in enumerate(zip(model.estimators_, model.estimators_features_, strict=True)):
        depth = model._decision_path_lengths[index] + model._average_path_length_per_tree[index] - 1.0
        grown = tree_of(tree, np.asarray(depth, np.float64)[:, None], features)
        if is_sparse(x):  # in a sparse matrix scikit-learn compares NaN as any number
            grown = replace(grown, missing=np.zeros_like(grown.missing))
        trees.append(grown)
    joined = tree_ensemble.join(trees)
    depths = tree_ensemble.sums(op, joined, rows32(op, x), np.zeros(joined.count, np.int64), 1).reshape(-1)
    from sklearn.ensemble._iforest import _average_path_length

    denominator = float(len(trees) * _average_path_length([model._max_samples])[0])
    return -np.power(2.0, -(depths / denominator if denominator else np.ones_like(depths)))
