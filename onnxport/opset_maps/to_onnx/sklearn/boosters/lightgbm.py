"""LightGBM's estimators: sums of trees behind an objective's transform, all in float64.

The model is read from its text form, which holds every float64 exactly.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import DTypeLike
from scipy.special import expit
from sklearn.base import BaseEstimator

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import built, f32
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array
from onnxport.opset_maps.to_onnx.sklearn.arrays.functions import full, take
from onnxport.opset_maps.to_onnx.sklearn.boosters.library import ROWS, Examples, Library, as_vector, rows_with_gaps
from onnxport.opset_maps.to_onnx.sklearn.classes import softmax, take_class
from onnxport.opset_maps.to_onnx.sklearn.entries import given, lower
from onnxport.opset_maps.to_onnx.sklearn.fitted import quantity, target
from onnxport.opset_maps.to_onnx.sklearn.tables.categories import coded_columns
from onnxport.opset_maps.to_onnx.sklearn.tables.sparse import is_sparse
from onnxport.opset_maps.to_onnx.sklearn.tables.table import Frame, Table, called
from onnxport.opset_maps.to_onnx.sklearn.trees import tree_ensemble

# LightGBM's kZeroThreshold: what is no further from zero counts as zero.
_ZERO = float(np.float32(1e-35))
_BELOW_ZERO = float(np.nextafter(-_ZERO, -1.0))
# Bits of a node's decision type.
_CATEGORICAL, _DEFAULT_LEFT = 1, 2
_MISSING_ZERO, _MISSING_NAN = 1, 2
# How a column is looked at by a node: as it is, zeros as missing values, or as a whole number.
_PLAIN, _ZEROS_MISSING, _WHOLE = 0, 1, 2

_IDENTITY = frozenset("regression regression_l1 huber fair quantile mape lambdarank rank_xendcg custom".split())
_EXPONENTIAL = frozenset(("poisson", "gamma", "tweedie"))


@dataclass(frozen=True)
class _Model:
    """What a fitted estimator's text holds.

    Attributes:
        header: its lines before the trees, by name.
        trees: each tree's lines, by name.
        objective: the objective's words, its name first; ``custom`` where the user wrote it.
    """

    header: dict[str, str]
    trees: list[dict[str, str]]
    objective: list[str]

    @property
    def width(self) -> int:
        """Number of results for each row."""
        return int(self.header["num_tree_per_iteration"])

    def option(self, name: str, default: float) -> float:
        """A number that the objective's line holds."""
        numbers = [word.partition(":")[2] for word in self.objective if word.startswith(f"{name}:")]
        return float(numbers[0]) if numbers else default


def _lines(block: str) -> dict[str, str]:
    return {key: value for key, _, value in (line.partition("=") for line in block.splitlines())}


def _read(text: str) -> _Model:
    body = text.partition("\nend of trees")[0]
    first, *blocks = re.split(r"^Tree=\d+$", body, flags=re.MULTILINE)
    header = _lines(first)
    return _Model(header, [_lines(block) for block in blocks], header.get("objective", "custom").split())


def _numbers(tree: dict[str, str], name: str, dtype: DTypeLike = np.float64) -> np.ndarray:
    return np.array(tree.get(name, "").split(), dtype)


def _kinds(tree: dict[str, str]) -> np.ndarray:
    """How each node looks at its column."""
    decision = _numbers(tree, "decision_type", np.int64)
    kind = np.where((decision >> 2) & 3 == _MISSING_ZERO, _ZEROS_MISSING, _PLAIN)
    return np.where(decision & _CATEGORICAL, _WHOLE, kind)


def _tree(tree: dict[str, str], places: np.ndarray | None, near: bool) -> tree_ensemble.Tree:
    """A tree for the columns at `places` [features, kinds], None where these are the features.

    In an array numbers near zero count as zero (`near`), in a sparse matrix they are what they are.
    """
    value = _numbers(tree, "leaf_value")
    inner = len(value) - 1
    if not inner:
        none = np.zeros(1, np.int64)
        return tree_ensemble.Tree(none, np.zeros(1), none > 0, none, none, none == 0, value[:, None])
    decision = _numbers(tree, "decision_type", np.int64)
    threshold = _numbers(tree, "threshold")
    zeros = (np.abs(threshold) <= _ZERO) & near
    levels = np.where(zeros, np.where(threshold < 0, _BELOW_ZERO, _ZERO), threshold)
    feature = _numbers(tree, "split_feature", np.int64)
    kind = _kinds(tree)
    default = (decision & _DEFAULT_LEFT) > 0
    tracked = ((decision >> 2) & 3 == _MISSING_NAN) | (kind == _ZEROS_MISSING)
    # where NaN is not a missing value it counts as zero, and among categories as none of them
    missing = np.where(kind == _WHOLE, False, np.where(tracked, default, threshold >= 0))
    children = [_numbers(tree, side, np.int64) for side in ("left_child", "right_child")]
    left, right = (np.where(child < 0, inner + ~child, child) for child in children)
    blank = np.zeros(inner + 1, np.int64)
    column = feature if places is None else places[feature, kind]
    items = (np.append(item, blank.astype(item.dtype)) for item in (column, levels, missing, left, right))
    column, levels, missing, left, right = items
    leaf, held = np.arange(2 * inner + 1) >= inner, np.append(np.zeros(inner), value)[:, None]
    members = _members(tree, np.flatnonzero(kind == _WHOLE), threshold)
    return tree_ensemble.Tree(column, levels, missing, left, right, leaf, held, members)


def _members(tree: dict[str, str], nodes: np.ndarray, threshold: np.ndarray) -> dict[int, np.ndarray]:
    """For nodes that ask for membership the categories that go left, which stand as bits of 32-bit words."""
    if not len(nodes):
        return {}
    bounds = _numbers(tree, "cat_boundaries", np.int64)
    words = _numbers(tree, "cat_threshold", np.uint32)
    members = {}
    for node in nodes.tolist():
        index = int(threshold[node])
        mine = words[bounds[index] : bounds[index + 1]].astype("<u4")
        bits = np.unpackbits(mine.view(np.uint8), bitorder="little")
        members[node] = np.flatnonzero(bits).astype(np.float64)
    return members


def _columns(read: _Model, rows: Array) -> tuple[Array, np.ndarray | None]:
    """The columns as nodes look at them, and where each stands by feature and kind; None: at its feature's place."""
    trees = [tree for tree in read.trees if int(tree["num_leaves"]) > 1]
    features = [_numbers(tree, "split_feature", np.int64) for tree in trees]
    if not features:
        return rows, None
    kinds = [_kinds(tree) for tree in trees]
    pairs = np.unique(np.stack([np.concatenate(features), np.concatenate(kinds)], axis=1), axis=0)
    feature, kind = pairs.T
    if not kind.any():
        return rows, None
    places = np.zeros((int(feature.max()) + 1, 3), np.int64)
    places[feature, kind] = np.arange(len(pairs))
    columns = rows[:, feature]
    none = columns.dtype.type(np.nan)
    if (kind == _ZEROS_MISSING).any():
        zero = (np.abs(columns) <= columns.dtype.type(_ZERO)) & (kind == _ZEROS_MISSING)[None]
        columns = np.where(zero, none, columns)
    if (kind == _WHOLE).any():
        columns = np.where((kind == _WHOLE)[None], np.trunc(columns), columns)
    return columns, places


def _linear_values(trees: tree_ensemble.Trees, read: _Model, reached: Array, rows: Array) -> Array:
    """What linear leaves give, [N, trees]: a constant plus coefficients times features, or their value where one is NaN."""
    constant = np.concatenate(
        [_numbers(tree, "leaf_const" if _is_linear(tree) else "leaf_value") for tree in read.trees]
    )
    counts = np.concatenate(
        [
            _numbers(tree, "num_features", int) if _is_linear(tree) else np.zeros(int(tree["num_leaves"]), int)
            for tree in read.trees
        ]
    )
    most = max(int(counts.max()), 1)
    used = np.arange(most) < counts[:, None]
    feature, factor = np.full(used.shape, rows.shape[1] or 0), np.zeros(used.shape)
    feature[used] = np.concatenate([_numbers(tree, "leaf_features", int) for tree in read.trees])
    factor[used] = np.concatenate([_numbers(tree, "leaf_coeff") for tree in read.trees])
    wide = rows.astype(np.float64)
    padded = np.concatenate([wide, full(wide, (None, 1), 0.0, np.float64)], axis=1)  # what is not used reads a zero
    places = take(feature, reached, axis=0).reshape(-1, trees.count * most)
    picked = np.take_along_axis(padded, places, axis=1).reshape(-1, trees.count, most)
    result = take(constant, reached) + np.sum(picked * take(factor, reached, axis=0), axis=2)
    return np.where(np.any(np.isnan(picked), axis=2), take(trees.leaf_value[:, 0], reached), result)


def _is_linear(tree: dict[str, str]) -> bool:
    return tree.get("is_linear") == "1"


def _rows(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The table as LightGBM makes it: floats as they are, an array of integers as float32, a frame in its common type."""
    if not isinstance(x, Frame):
        kind = Array(op, x).dtype
        return coded_columns(op, x, {}, kind if kind in (np.float32, np.float64) else np.float32)
    categories = _categories(op, model, x)
    kinds = [kind for index, kind in enumerate(_kinds_of_columns(op, x)) if index not in categories]
    return coded_columns(op, x, categories, np.result_type(np.float32, *[kind for kind in kinds if kind != object]))


def _kinds_of_columns(op: OpBuilder, x: Frame) -> list[np.dtype]:
    return [Array(op, part).dtype for part, size in zip(x.parts, x.widths, strict=True) for _ in range(size)]


def _categories(op: OpBuilder, model: BaseEstimator, x: Frame) -> dict[int, list[Any]]:
    """The categories of a frame's columns.

    LightGBM notes the categories of the columns in turn, but not which columns they are: those of strings, or else those
    that it took for categorical features.
    """
    booster = model.booster_
    categories = booster.pandas_categorical or []
    if not categories:
        return {}
    strings = [index for index, kind in enumerate(_kinds_of_columns(op, x)) if kind == object]
    if len(strings) == len(categories):
        return dict(zip(strings, categories, strict=True))
    line = re.search(r"^\[categorical_feature: ([\d,]*)\]$", booster.model_to_string(num_iteration=1), re.MULTILINE)
    columns = [int(item) for item in line.group(1).split(",") if item] if line else []
    if len(columns) != len(categories) or not set(strings) <= set(columns):
        raise UnsupportedOperator(
            f"{type(model).__name__}: categorical_feature={columns} names {len(columns)} columns where the fitted frame had "
            f"{len(categories)} of pandas categories: which ones they are is not in the model"
        )
    return dict(zip(columns, categories, strict=True))


_FITTED = Examples("lightgbm", "LGBM", {"n_estimators": 6, "num_leaves": 6, "min_child_samples": 5, "verbose": -1})
_FOREST: dict[str, Any] = {"boosting_type": "rf", "subsample": 0.6, "subsample_freq": 1}
_GAPS = rows_with_gaps(zeros=True)


def _of_categories(name: str) -> Any:
    options = {"min_data_per_group": 2, "cat_smooth": 1, "max_cat_to_onehot": 1}
    return _FITTED.of_categories(name, target(), 40, fit={"categorical_feature": [2, 3]}, **options)


_CODES = np.array([[0.5, 0.1, 1, 2], [np.nan, 0, 1, 1], [1, np.nan, 5, 8], [0, 2, np.nan, -0.5], [1, 0, 3.5, 77.0]])


class _LightGBM(Library):
    predictors = "lightgbm.LGBMRegressor lightgbm.LGBMRanker onnxport.LightGBMBooster"
    classifiers = "lightgbm.LGBMClassifier"
    fitted = _FITTED

    def raw(self, op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
        """The sums of the trees' values, float64 [N, K] always."""
        if {**model.booster_.params, **model.get_params()}.get("pred_early_stop"):
            raise UnsupportedOperator(
                f"{type(model).__name__}: pred_early_stop=True stops at a tree that depends on the row"
            )
        read = _read(model.booster_.model_to_string())
        rows = _rows(op, model, x)
        if not read.trees:
            return full(rows, (None, read.width), 0.0, np.float64)
        seen, places = _columns(read, rows)
        trees = tree_ensemble.join([_tree(tree, places, not is_sparse(x)) for tree in read.trees])
        targets = np.arange(trees.count) % read.width
        if any(_is_linear(tree) for tree in read.trees):
            values = _linear_values(trees, read, tree_ensemble.leaves(op, trees, seen.value), rows)
            return values @ (targets[:, None] == np.arange(read.width)).astype(np.float64)
        return tree_ensemble.sums(op, trees, seen.value, targets, read.width)

    def transformed(self, model: BaseEstimator, raw: Array) -> Array:
        """The objective's transform of the raw scores, of their mean for a random forest, float64."""
        booster = model.booster_
        read = _read(booster.model_to_string(num_iteration=1))
        if "average_output" in read.header:
            best = booster.best_iteration if booster.best_iteration > 0 else booster.current_iteration()
            raw = raw / max(best, 1)
        name = read.objective[0]
        if name == "multiclass":
            return softmax(raw)
        if name in ("binary", "multiclassova"):
            return expit(read.option("sigmoid", 1.0) * raw)
        if name == "cross_entropy":
            return expit(raw)
        if name == "cross_entropy_lambda":
            return np.log1p(np.exp(raw))
        if name in _EXPONENTIAL:
            return np.exp(raw)
        if name not in _IDENTITY:
            raise UnsupportedOperator(f"LightGBM: objective={name!r} has no mapping")
        return np.sign(raw) * raw * raw if "sqrt" in read.objective else raw

    def class_probabilities(self, model: BaseEstimator, raw: Array) -> Array:
        """What the booster predicts for each class; the raw scores under an objective of the user's own."""
        if callable(model.objective):
            return as_vector(self.transformed(model, raw))
        return super().class_probabilities(model, raw)

    def label(self, op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
        """The class of the greatest probability; the raw scores under an objective of the user's own."""
        probabilities = called(op, model, "predict_proba", x)
        if callable(model.objective):
            return probabilities
        return take_class(model.classes_, np.argmax(probabilities, axis=1))


_classifier, _regressor, _LIBRARY = _FITTED.classifier, _FITTED.regressor, _LightGBM()
_with_gaps = partial(_FITTED.with_gaps, zeros=True)
_SCORES = [
    built(_classifier, ROWS),
    built(lambda: _classifier(classes=2), f32(20, 4)),
    built(lambda: _classifier(**_FOREST), ROWS),
]

_LIBRARY.register(
    scores=_SCORES,
    predictions=[
        *given(partial(_with_gaps, "Regressor", quantity()), {}, {"zero_as_missing": True}, rows=_GAPS),
        *given(_regressor, {"objective": "poisson", "positive": True}, {"boosting_type": "dart"}, rows=ROWS),
        *given(_regressor, {"objective": "regression", "reg_sqrt": True}, _FOREST, rows=ROWS),
        built(lambda: _regressor(linear_tree=True), _GAPS),
        built(lambda: _FITTED.fitted("Ranker", target(), fit={"group": [10] * 12}), ROWS),
        built(lambda: _of_categories("Regressor"), _CODES, min_opset=21),
    ],
    probabilities=[
        built(lambda: _with_gaps("Classifier", target(2)), _GAPS),
        *given(_classifier, {"objective": "multiclassova"}, _FOREST, rows=ROWS),
        built(lambda: _of_categories("Classifier"), _CODES, min_opset=21),
    ],
    labels=[built(lambda: _classifier(text=True), ROWS), built(lambda: _classifier(classes=2), _GAPS)],
)
lower("lightgbm.LGBMClassifier.decision_function", _SCORES)(_LIBRARY.scores)
