"""ONNX-ML's older ensembles of trees as scikit-learn's trees, forests and boosters."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from onnxport.graph.forests import GrownTree
from onnxport.opset_maps.from_onnx.sklearn.chains import Attributes, labels_of, rebuilds
from onnxport.opset_maps.from_onnx.sklearn.record import grown_tree

_SAMPLES = 512  # in one leaf, up to which shares are taken for fractions: float32 tells those apart


@rebuilds("TreeEnsembleClassifier")
def tree_classifier(given: Attributes) -> Any:
    """A tree, or a forest: the mean of the trees' shares."""
    labels = labels_of(given)
    if given.get("post_transform") in ("LOGISTIC", "SOFTMAX"):
        return _boosted_classifier(given, labels)
    if given.get("post_transform", "NONE") != "NONE" or "base_values" in given:
        return None
    # of two classes a leaf may hold the second one's share alone, under whichever number
    alone = len(labels) == 2 and len(np.unique(given["class_ids"])) == 1
    trees = _trees(given | ({"class_ids": np.ones_like(given["class_ids"])} if alone else {}), "class", len(labels))
    if trees is None:
        return None
    features = _width(given)
    members = []
    for grown, held in trees:
        values = _shares(held, len(trees))
        if alone:
            values[:, 0] = 1.0 - values[:, 1]
        members.append(_member(DecisionTreeClassifier(), grown, values[:, None], features))
        members[-1].classes_, members[-1].n_classes_ = np.arange(len(labels)), len(labels)
    model = members[0] if len(members) == 1 else _forest(RandomForestClassifier(len(members)), members)
    model.classes_, model.n_classes_ = labels, len(labels)
    return model


@rebuilds("TreeEnsembleRegressor")
def tree_regressor(given: Attributes) -> Any:
    """A tree, a forest (the mean of the trees), or, where the sum starts with a number, gradient boosting."""
    targets = int(given.get("n_targets", 1))
    aggregate = given.get("aggregate_function", "SUM")
    if given.get("post_transform", "NONE") != "NONE" or aggregate not in ("SUM", "AVERAGE"):
        return None
    trees = _trees(given, "target", targets)
    if trees is None:
        return None
    start = np.asarray(given.get("base_values", []), np.float64)
    boosts = bool(len(start)) and aggregate == "SUM" and targets == 1
    if len(start) and not boosts:
        return None
    times = 1 if boosts or aggregate == "AVERAGE" else len(trees)
    features = _width(given)
    shifts = [float(start[0]) if boosts and not place else 0.0 for place in range(len(trees))]
    members = [
        _member(DecisionTreeRegressor(), grown, (values * times + shift)[:, :, None], features)
        for (grown, values), shift in zip(trees, shifts, strict=True)
    ]
    if boosts:
        return _boosted(members, features)
    return members[0] if len(members) == 1 else _forest(RandomForestRegressor(len(members)), members)


def _shares(weights: np.ndarray, trees: int) -> np.ndarray:
    """The classes' shares of the samples in each leaf, of which a file holds the `trees`-th part, rounded to float32.

    Where a fraction of small numbers rounds to what the file holds it was that one: sums of such shares are even where the votes
    are, and scikit-learn then names the class that comes first.
    """
    single = weights.astype(np.float32)
    shares = weights * trees
    for weight in np.unique(single):
        fraction = Fraction(float(weight) * trees).limit_denominator(_SAMPLES)
        share = fraction.numerator / fraction.denominator
        if np.float32(share / trees) == weight:
            shares[single == weight] = share
    return shares


def _boosted_classifier(given: Attributes, labels: np.ndarray) -> Any:
    """Gradient boosting: of two classes one tree a round, of several one for each class."""
    per_round = 1 if len(labels) == 2 else len(labels)
    if len(labels) < 2 or (given["post_transform"] == "LOGISTIC") != (per_round == 1):
        return None
    numbers = np.asarray(given["class_ids"])
    if per_round == 1 and len(np.unique(numbers)) != 1:
        return None
    given = given | ({"class_ids": np.zeros_like(numbers)} if per_round == 1 else {})
    trees = _trees(given, "class", per_round)
    start = np.asarray(given.get("base_values", np.zeros(per_round)), np.float64)
    if trees is None or len(start) != per_round:
        return None
    features = _width(given)
    columns: list[list[Any]] = [[] for _ in range(per_round)]
    for grown, values in trees:
        column = int(np.argmax(np.abs(values).sum(axis=0)))
        if np.abs(np.delete(values, column, axis=1)).any():
            return None
        shift = 0.0 if columns[column] else float(start[column])
        columns[column].append(_member(DecisionTreeRegressor(), grown, values[:, [column], None] + shift, features))
    if len({len(column) for column in columns}) != 1:
        return None
    model = GradientBoostingClassifier(n_estimators=len(columns[0]), learning_rate=1.0, init="zero")
    model.estimators_ = np.array(columns, object).T
    model.init_, model.n_estimators_, model.n_trees_per_iteration_ = "zero", len(columns[0]), per_round
    model.classes_, model.n_classes_, model.n_features_in_ = labels, len(labels), features
    model._loss = model._get_loss(sample_weight=None)
    return model


def _boosted(members: list[Any], features: int) -> Any:
    model = GradientBoostingRegressor(n_estimators=len(members), learning_rate=1.0, init="zero")
    model.estimators_ = np.array(members, object).reshape(-1, 1)
    model.init_, model.n_estimators_, model.n_trees_per_iteration_ = "zero", len(members), 1
    model.n_features_in_ = features
    model._loss = model._get_loss(sample_weight=None)
    return model


def _forest(model: Any, members: list[Any]) -> Any:
    model.estimators_, model.estimator_ = members, type(members[0])()
    model.n_outputs_, model.n_features_in_ = members[0].n_outputs_, members[0].n_features_in_
    return model


def _member(model: Any, grown: GrownTree, values: np.ndarray, features: int) -> Any:
    values = np.where((grown.left < 0)[:, None, None], values, np.nan)
    model.tree_ = grown_tree(grown, values, features)
    model.n_outputs_, model.n_features_in_, model.max_features_ = values.shape[1], features, features
    return model


def _width(given: Attributes) -> int:
    """One more than the last column that a tree asks for; scikit-learn takes rows of as many columns alone."""
    return int(given["n_columns"]) if "n_columns" in given else int(np.max(given["nodes_featureids"])) + 1


def _trees(given: Attributes, kind: str, columns: int) -> list[tuple[GrownTree, np.ndarray]] | None:
    """Each tree and what its nodes hold, [nodes, columns]; None where it asks otherwise than by <=."""
    modes = np.asarray(given["nodes_modes"])
    if not np.isin(modes, ("BRANCH_LEQ", "LEAF")).all():
        return None
    ids = np.asarray(given["nodes_treeids"])
    weight_ids, weight_nodes = np.asarray(given[f"{kind}_treeids"]), np.asarray(given[f"{kind}_nodeids"])
    columns_of, weights = np.asarray(given[f"{kind}_ids"]), np.asarray(given[f"{kind}_weights"], np.float64)
    tracks = np.asarray(given.get("nodes_missing_value_tracks_true", np.zeros(len(ids))), bool)
    trees = []
    for tree in dict.fromkeys(ids.tolist()):
        mine = np.flatnonzero(ids == tree)
        places = {
            int(node): int(place) for place, node in zip(mine, np.asarray(given["nodes_nodeids"])[mine], strict=True)
        }
        order, left, right = _preorder(given, modes, places, int(given["nodes_nodeids"][mine[0]]))
        leaf = modes[order] == "LEAF"
        features = np.where(leaf, -2, np.asarray(given["nodes_featureids"])[order])
        levels = np.where(leaf, -2.0, np.asarray(given["nodes_values"], np.float64)[order])
        none = np.zeros(len(order))
        numbers = {place: number for number, place in enumerate(order)}
        values = np.zeros((len(order), columns))
        for item in np.flatnonzero(weight_ids == tree):
            values[numbers[places[int(weight_nodes[item])]], columns_of[item]] += weights[item]
        trees.append((GrownTree(features, levels, tracks[order], left, right, none, none), values))
    return trees


def _preorder(
    given: Attributes, modes: np.ndarray, places: dict[int, int], root: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The places of a tree's nodes in preorder, and their children by that order, -1 at leaves."""
    order: list[int] = []
    children: list[list[int]] = []
    waiting = [(root, -1, 0)]
    while waiting:
        node, parent, side = waiting.pop()
        place, number = places[node], len(order)
        if number >= len(places):
            raise ValueError("a tree has a node twice")
        order.append(place)
        children.append([-1, -1])
        if parent >= 0:
            children[parent][side] = number
        if modes[place] != "LEAF":
            waiting.append((int(given["nodes_falsenodeids"][place]), number, 1))
            waiting.append((int(given["nodes_truenodeids"][place]), number, 0))
    table = np.array(children, np.int64)
    return np.array(order), table[:, 0], table[:, 1]
