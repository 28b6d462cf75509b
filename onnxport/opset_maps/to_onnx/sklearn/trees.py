"""Decision trees and forests."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import built, f32, f64
from onnxport.opset_maps.maps import sklearn
from onnxport.opset_maps.to_onnx.sklearn import tree_ensemble
from onnxport.opset_maps.to_onnx.sklearn.classes import label_of_scores
from onnxport.opset_maps.to_onnx.sklearn.fitted import classifier, regressor
from onnxport.opset_maps.to_onnx.sklearn.table import Table, matrix

_TREES = ("DecisionTree", "ExtraTree")
_FORESTS = ("RandomForest", "ExtraTrees")


def trees_of(estimators: list[Any], scale: float = 1.0) -> tree_ensemble.Trees:
    """The trees of fitted decision trees; a leaf holds its value times `scale`, for one output."""
    return tree_ensemble.join([_arrays(item.tree_, scale) for item in estimators])


def _arrays(tree: Any, scale: float) -> tuple[np.ndarray, ...]:
    if tree.value.shape[1] != 1:
        raise UnsupportedOperator("several outputs have no mapping yet")
    leaf = tree.children_left == -1
    missing = np.asarray(tree.missing_go_to_left, bool)
    return (
        tree.feature,
        tree.threshold,
        missing,
        tree.children_left,
        tree.children_right,
        leaf,
        tree.value[:, 0, :] * scale,
    )


def rows32(op: OpBuilder, x: Table) -> ir.Value:
    """The table in float32, the type in which scikit-learn's trees see their rows."""
    return op.cast(matrix(op, x), ir.DataType.FLOAT)


@sklearn.lower(
    *(f"{name}Regressor.predict" for name in _TREES),
    cases=[
        built(lambda: regressor("tree", "DecisionTreeRegressor", max_depth=5), f64(20, 4), dynamic=True),
        built(lambda: regressor("tree", "ExtraTreeRegressor"), f32(20, 4)),
    ],
)
def tree_value(op: OpBuilder, model: Any, x: Table) -> ir.Value:
    """The value of the reached leaf."""
    result = tree_ensemble.values(op, trees_of([model]), rows32(op, x))
    return op.Squeeze(result, op.axes(1, 2))


@sklearn.lower(
    *(f"{name}Regressor.predict" for name in _FORESTS),
    cases=[
        built(lambda: regressor("ensemble", "RandomForestRegressor", n_estimators=10), f64(20, 4), dynamic=True),
        built(lambda: regressor("ensemble", "ExtraTreesRegressor", n_estimators=5), f32(20, 4)),
    ],
)
def forest_value(op: OpBuilder, model: Any, x: Table) -> ir.Value:
    """The mean of the trees' values."""
    trees = trees_of(model.estimators_)
    total = tree_ensemble.sums(op, trees, rows32(op, x), np.zeros(len(trees.roots), np.int64), 1)
    return op.Div(op.Squeeze(total, op.axes(1)), float(len(model.estimators_)))


@sklearn.lower(
    *(f"{name}Classifier.predict_proba" for name in _TREES),
    cases=[built(lambda: classifier("tree", "DecisionTreeClassifier", max_depth=4), f64(20, 4), dynamic=True)],
)
def tree_probabilities(op: OpBuilder, model: Any, x: Table) -> ir.Value:
    """The shares of the classes in the reached leaf."""
    return op.Squeeze(tree_ensemble.values(op, trees_of([model]), rows32(op, x)), op.axes(1))


@sklearn.lower(
    *(f"{name}Classifier.predict_proba" for name in _FORESTS),
    cases=[
        built(lambda: classifier("ensemble", "RandomForestClassifier", n_estimators=10), f64(20, 4), dynamic=True),
        built(lambda: classifier("ensemble", "ExtraTreesClassifier", n_estimators=5, classes=2, text=True), f32(20, 4)),
    ],
)
def forest_probabilities(op: OpBuilder, model: Any, x: Table) -> ir.Value:
    """The mean of the trees' probabilities."""
    reached = tree_ensemble.values(op, trees_of(model.estimators_), rows32(op, x))
    return op.Div(op.reduce("ReduceSum", reached, [1], keepdims=False), float(len(model.estimators_)))


@sklearn.lower(
    *(f"{name}Classifier.predict" for name in (*_TREES, *_FORESTS)),
    cases=[
        built(lambda: classifier("tree", "DecisionTreeClassifier", max_depth=4, text=True), f64(20, 4)),
        built(lambda: classifier("ensemble", "RandomForestClassifier", n_estimators=10), f64(20, 4)),
    ],
)
def tree_label(op: OpBuilder, model: Any, x: Table) -> ir.Value:
    """The class of the greatest probability."""
    return label_of_scores(op, model.classes_, op.call(model, "predict_proba", x))
