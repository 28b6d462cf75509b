"""What scikit-learn says of a random draw's rows, and how far rounding alone moves that."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.metrics import pairwise, pairwise_distances

from scripts.conformance.random_draws import Drawn
from scripts.conformance.random_parts import EXACT, OF_CATEGORIES

METHODS = (
    "predict_proba",
    "decision_function",
    "predict",
    "predict_log_proba",
    "transform",
    "score_samples",
    "apply",
    "kneighbors",
    "predict_std",
    "mahalanobis",
)


def outputs_of(model: Any, method: str, rows: Any) -> list[np.ndarray]:
    """What the method gives, as a list of dense arrays."""
    if method == "predict_std":
        return [np.asarray(model.predict(rows, return_std=True)[1])]
    result = getattr(model, method)(rows)
    parts = result if isinstance(result, (tuple, list)) else [result]
    return [part.toarray() if hasattr(part, "toarray") else np.asarray(part) for part in parts]


def _handed_ranges(model: Any, rows: Any) -> Iterator[tuple[np.ndarray, float]]:
    """The range of each column that a computing step hands on, and the greatest number of its result."""
    for _, step in getattr(model, "steps", ())[:-1]:
        rows = step.transform(rows) if not isinstance(step, str) else rows
        dense = rows.toarray() if hasattr(rows, "toarray") else np.asarray(rows)
        if type(step).__name__ not in EXACT - {"FeatureUnion", "ColumnTransformer"} and dense.dtype.kind == "f":
            yield np.ptp(dense, axis=0), float(np.nanmax(np.abs(dense), initial=0.0))
    if hasattr(model, "steps"):
        yield from _handed_ranges(model.steps[-1][1], rows)


class Source:
    """The fitted model, what it says of the rows, and how sure that is."""

    def __init__(self, model: Any, rows: Any, drawn: Drawn) -> None:
        self.model, self.rows, self.drawn = model, rows, drawn
        self._nearby: dict[str, list[list[np.ndarray]]] = {}
        self.tied: dict[str, np.ndarray] = {}
        self.undecided: dict[int, np.ndarray] = {}
        self._wide: Any = None
        self.eps = float(np.finfo(drawn.dtype if drawn.dtype != "int64" else "float64").eps)

    def methods(self) -> list[str]:
        """What can be asked of new rows."""
        parts = [name for name in METHODS if hasattr(self.model, name)]
        known = type(self.model).__name__ in ("GaussianProcessRegressor", "BayesianRidge", "ARDRegression")
        return [*parts, *(["predict_std"] if known else [])]

    def nearby(self, method: str, index: int) -> list[np.ndarray]:
        """What the method gives where values are moved within rounding: the rows', the model's, or those that a step hands on.

        And what it gives where scikit-learn's distances are computed without the rounding of |x|^2 - 2 x y + |y|^2.
        """
        if method not in self._nearby:
            self._nearby[method] = []
            for number in range(41):
                try:
                    if number == 40:
                        with patch.object(pairwise, "_euclidean_distances", _from_differences):
                            result = outputs_of(self.model, method, self.rows)
                    elif number % 3 == 0:
                        result = outputs_of(self.model, method, _moved(self.drawn, self.rows, number))
                    elif number % 3 == 1:
                        result = outputs_of(_shaken(self.model, number), method, self.rows)
                    else:
                        result = outputs_of(*_handed_on(self.model, method, self.rows, number, self.eps))
                    self._nearby[method].append(result)
                except Exception:
                    continue
        return [result[index] for result in self._nearby[method]]

    def decided_by_errors(self, method: str, index: int, expected: np.ndarray) -> bool:
        """Whether a step hands on a column that varies by no more than the errors of its computation, and the answer shows it.

        What a later step makes of such a column (a scale of one, a category) is decided by rounding, whatever the numbers are.
        """
        alone = any(
            (ranges > 0).any() and (ranges[ranges > 0] <= 64 * self.eps * most).any()
            for ranges, most in _handed_ranges(self.model, self.rows)
        )
        if not alone:
            return False
        near = self.nearby(method, index)
        if expected.dtype.kind != "f":
            return any((one.astype(str) != expected.astype(str)).any() for one in near)
        scale = float(np.max(np.abs(expected), where=np.isfinite(expected), initial=0.0))
        return any(gaps(expected, one).max() > 1e-3 * scale for one in near)

    def reach(self) -> float:
        """The greatest coordinate of the centres to which the last step gives distances; 0 where it gives none."""
        last = self.model
        while hasattr(last, "steps"):
            last = last.steps[-1][1]
        centres = getattr(last, "subcluster_centers_", getattr(last, "cluster_centers_", None))
        return float(np.max(np.abs(centres))) if isinstance(centres, np.ndarray) else 0.0

    def intercept(self) -> float:
        """The greatest intercept of the last step."""
        last = self.model
        while hasattr(last, "steps"):
            last = last.steps[-1][1]
        return float(np.max(np.abs(getattr(last, "intercept_", 0.0)), initial=0.0))

    def spread_of_scores(self) -> np.ndarray:
        """How far rounding moves each row's scores."""
        spread = np.zeros(len(self.rows))
        for method in ("decision_function", "predict_proba", "transform"):
            if method in self.tied:
                own = outputs_of(self.model, method, self.rows)[0]
                spread = np.max([spread, *(gaps(own, one) for one in self.nearby(method, 0))], axis=0)
        return spread

    def widened(self, method: str, index: int) -> np.ndarray | None:
        """What the method gives for the rows in float64, the model's own numbers widened too; None where that fails."""
        if self._wide is None:
            self._wide = copy.deepcopy(self.model)
            _changed(self._wide, lambda x: x.astype(np.float64) if x.dtype == np.float32 else x, set(), exact=True)
        try:
            return outputs_of(self._wide, method, _numeric(self.rows, lambda x: x.astype(np.float64)))[index]
        except Exception:
            return None

    def behind(self, got: np.ndarray) -> tuple[np.ndarray, float] | None:
        """How far the score of each row's label lies behind the best one; None where no scores are known."""
        model, rows = self.model, self.rows
        while hasattr(model, "steps") or hasattr(model, "best_estimator_"):
            for _, step in getattr(model, "steps", ())[:-1]:
                rows = step.transform(rows) if not isinstance(step, str) else rows
            model = model.steps[-1][1] if hasattr(model, "steps") else model.best_estimator_
        result = _scores(model, rows)
        if result is None:
            return None
        scores, labels = result
        values = got.astype(str)[:, None] == np.asarray(labels).astype(str)[None]
        behind = np.max(scores, axis=1) - np.max(np.where(values, scores, -np.inf), axis=1)
        return np.asarray(behind), float(np.max(np.abs(scores)))


def _from_differences(
    X: Any, Y: Any, X_norm_squared: Any = None, Y_norm_squared: Any = None, squared: bool = False
) -> np.ndarray:
    """In place of `sklearn.metrics.pairwise._euclidean_distances`: the same numbers, of which none has cancelled."""
    x, y = (np.asarray(item.toarray() if hasattr(item, "toarray") else item) for item in (X, Y))
    result = np.stack([((row.astype(np.float64) - y) ** 2).sum(axis=1) for row in x])
    return np.asarray(result if squared else np.sqrt(result)).astype(np.result_type(x, y))


def _changed(item: Any, change: Any, seen: set[int], *, exact: bool, kept: bool = False) -> Any:
    """Changes the arrays of floats in a fitted estimator and those in it.

    Args:
        item: the estimator, or what one holds.
        change: from an array to the changed one.
        seen: what has been met, by id.
        exact: estimators in EXACT, and those of categories, are changed too.
        kept: the arrays met belong to one that is not.
    """
    if isinstance(item, np.ndarray) and item.dtype.kind == "f":
        return item if kept else change(item)
    if id(item) in seen:
        return item
    seen.add(id(item))
    if isinstance(item, (list, tuple)):
        parts = [_changed(part, change, seen, exact=exact, kept=kept) for part in item]
        return type(item)(parts) if not hasattr(item, "_fields") else item
    if issparse(item) and item.dtype.kind == "f" and not kept:
        item.data = change(item.data)
    elif isinstance(item, np.ndarray) and item.dtype == object:
        for part in item.ravel():
            _changed(part, change, seen, exact=exact, kept=kept)
    elif type(item).__module__.startswith("sklearn.") and hasattr(item, "__dict__"):
        if isinstance(item, BaseEstimator):
            kept = not exact and (type(item).__name__ in EXACT or hasattr(item, "categories_"))
        for name, part in vars(item).items():
            if not name.endswith(("classes_", "classes")):
                vars(item)[name] = _changed(part, change, seen, exact=exact, kept=kept)
    return item


def _shaken(model: Any, number: int) -> Any:
    """The model with the numbers that it learnt moved within rounding, where it computes by more than comparisons."""
    rng = np.random.default_rng(number)
    shaken = copy.deepcopy(model)

    def shake(x: np.ndarray) -> np.ndarray:
        return (x * (1 + np.finfo(x.dtype).eps * rng.integers(-2, 3, size=x.shape))).astype(x.dtype)

    _changed(shaken, shake, set(), exact=False)
    return shaken


def _scores(model: Any, rows: Any) -> tuple[np.ndarray, Any] | None:
    """What decides between the labels, float64 [N, K], and the labels."""
    if hasattr(model, "subcluster_centers_"):
        return -pairwise_distances(rows, model.subcluster_centers_).astype(np.float64), model.subcluster_labels_
    centres = getattr(model, "cluster_centers_", getattr(model, "centroids_", None))
    if centres is not None:
        metric = getattr(model, "metric", "euclidean")
        distance = pairwise_distances(rows, centres, metric=metric if isinstance(metric, str) else "euclidean")
        return -distance.astype(np.float64), getattr(model, "classes_", np.arange(len(distance[0])))
    for method in ("decision_function", "predict_proba"):
        if hasattr(model, method):
            try:
                scores = np.asarray(getattr(model, method)(rows), np.float64)
            except Exception:
                continue
            if scores.ndim == 1:
                scores = np.stack([-scores / 2, scores / 2], axis=1)
            labels = getattr(
                model, "classes_", np.array([-1, 1]) if hasattr(model, "offset_") else np.arange(scores.shape[1])
            )
            if len(labels) == scores.shape[1]:
                return scores, labels
    return None


def _numeric(rows: Any, change: Any) -> Any:
    if isinstance(rows, np.ndarray):
        return change(rows)
    names = [name for name in rows.columns if name != "words"]
    return rows.assign(**{name: change(rows[name].to_numpy()) for name in names})


def _moved(drawn: Drawn, rows: Any, number: int) -> Any:
    rng = np.random.default_rng(number)
    categories = any(part.kind in OF_CATEGORIES for part in drawn.model.walk())

    def move(x: np.ndarray) -> np.ndarray:
        if x.dtype.kind != "f":
            return x if categories else x * (1 + 2.0**-51 * rng.integers(-2, 3, size=x.shape))
        eps = np.finfo(x.dtype).eps
        moved = x * (1 + 2 * eps * rng.integers(-2, 3, size=x.shape)).astype(x.dtype)
        return np.where(x == np.round(x), x, moved) if categories else moved

    return _numeric(rows, move)


def _own_error(step: Any, rows: Any, result: np.ndarray) -> np.ndarray:
    """How far float32 takes a step's columns from what it gives in float64, [F]; 0 where that is not known."""
    nothing = np.zeros(result.shape[1])
    if result.dtype != np.float32:
        return nothing
    try:
        wide = step.transform(
            rows.astype(np.float64) if issparse(rows) else _numeric(rows, lambda x: x.astype(np.float64))
        )
    except Exception:
        return nothing
    error = np.abs((wide.toarray() if issparse(wide) else wide) - result.astype(np.float64))
    return np.asarray(np.max(error, axis=0, where=np.isfinite(error), initial=0.0))


def _handed_on(model: Any, method: str, rows: Any, number: int, eps: float) -> tuple[Any, str, Any]:
    """The last step and its rows, where each step before it rounded otherwise: a sum's error is that of its greatest terms."""
    if not hasattr(model, "steps"):
        raise ValueError("one step")
    rng = np.random.default_rng(number)
    for _, step in model.steps[:-1]:
        given = rows
        rows = step.transform(rows) if not isinstance(step, str) else rows
        dense = rows.toarray() if hasattr(rows, "toarray") else rows
        if type(step).__name__ in EXACT - {"FeatureUnion", "ColumnTransformer"} or dense.dtype.kind != "f":
            continue
        size = max(eps, np.finfo(dense.dtype).eps) * rng.uniform(-2, 2, size=dense.shape)
        size *= rng.random(dense.shape) < 0.5  # the others keep their bits: a category may be one of them
        most = float(np.nanmax(np.abs(dense), initial=0.0))
        if hasattr(step, "cluster_centers_") or hasattr(step, "subcluster_centers_"):  # roots of differences of squares
            dense = np.sqrt(np.maximum(dense.astype(np.float64) ** 2 + size * most**2, 0.0)).astype(dense.dtype)
        else:
            own = _own_error(step, given, dense) / max(most * eps, np.finfo(np.float64).tiny)
            dense = dense + (size * most * np.maximum(own, 1.0)).astype(dense.dtype)
        rows = type(rows)(dense) if hasattr(rows, "toarray") else dense
    last = model.steps[-1][1]
    return _handed_on(last, method, rows, number, eps) if hasattr(last, "steps") else (last, method, rows)


def gaps(expected: np.ndarray, got: np.ndarray) -> np.ndarray:
    """The greatest difference in each row; infinite where one is NaN or infinite and the other is not."""
    e, g = (item.astype(np.float64).reshape(len(item), -1) for item in (expected, got))
    if not e.shape[1]:
        return np.zeros(len(e))
    with np.errstate(invalid="ignore"):
        apart = np.where((e == g) | (np.isnan(e) & np.isnan(g)), 0.0, np.abs(e - g))
    return np.asarray(np.where(np.isnan(apart), np.inf, apart).max(axis=1))
