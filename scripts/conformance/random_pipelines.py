"""Random pipelines of scikit-learn on random data: converted and run beside scikit-learn itself, no number may differ.

    python -m scripts.conformance.random_pipelines [--draws 2000] [--seed 0] [--first 0] [--minimise] [--verbose]

A difference is printed as drawn and, with --minimise, as the least pipeline and data that still show it. What is refused is
counted by its reason; what scikit-learn itself can't fit or run is not counted as a draw.
"""

from __future__ import annotations

import argparse
import copy
import os
import random
import re
import signal
import sys
import time
import warnings
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.impute import KNNImputer
from sklearn.metrics import pairwise_distances
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neighbors._base import KNeighborsMixin

from scripts.conformance.pipeline_draws import EXACT, OF_CATEGORIES, Drawn, Part, made
from scripts.conformance.pipeline_draws import drawn as pipeline

FITTED, FRESH, SECONDS = 70, 24, 60
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
LABELS = {
    "int": np.array([3, -1, 10, 0]),
    "float": np.array([2.0, 1.0, 4.0, 3.0]),
    "str": np.array(["b", "a", "long name", "C"]),
    "bool": np.array([False, True]),
}
WORDS = np.array(["red", "green", "blue", "grey", "black"], object)


class Impossible(Exception):
    """scikit-learn itself can't fit this or run it."""


@dataclass
class Outcome:
    """How a draw ended: ``right``, ``refused``, ``wrong`` or ``crashed``, with the method, a reason and what was forgiven."""

    verdict: str
    method: str = ""
    reason: str = ""
    forgiven: list[str] = field(default_factory=list)


# -- data ----------------------------------------------------------------------------------------------------------------------


def matrix(drawn: Drawn, count: int, rng: np.random.Generator) -> np.ndarray:
    """Rows of numbers, float64."""
    shape = (count, drawn.features)
    if drawn.values == "counts":
        x = rng.integers(0, 6, size=shape).astype(float)
    else:
        x = rng.normal(size=shape) + drawn.offset
        x = np.abs(x) + 0.05 if drawn.values == "positive" else x
        if drawn.dtype == "int64":
            x = x * 10
        if drawn.digits is not None:
            x = np.round(x, drawn.digits)
        x = x * (drawn.scale or 10.0 ** np.arange(-2, drawn.features - 2))
    if drawn.dtype == "int64":
        x = np.round(x)
    if drawn.constant:
        x[:, 0] = 3.0
    if drawn.missing:
        x[rng.random(shape) < 0.1] = np.nan
    return x


def rows_of(drawn: Drawn, x: np.ndarray, rng: np.random.Generator, dtype: str) -> Any:
    """The matrix as the pipeline is given it."""
    with np.errstate(over="ignore"):
        x = x.astype(dtype)
    if not drawn.frame:
        return x
    import pandas

    table = pandas.DataFrame({f"c{i}": x[:, i] for i in range(drawn.features)})
    table["words"] = WORDS[rng.integers(0, 5 if len(x) != FITTED else 4, size=len(x))]
    return table


def target(drawn: Drawn, x: np.ndarray, rng: np.random.Generator) -> Any:
    """What is to be learnt of the rows."""
    if drawn.task == "nothing":
        return None
    z = np.nan_to_num((x - np.nanmean(x, axis=0)) / (np.nanstd(x, axis=0) + 1e-9))
    score = z @ np.linspace(1.0, -1.0, x.shape[1]) + np.sin(2 * z[:, -1]) + 0.3 * rng.normal(size=len(x))
    if drawn.task == "numbers":
        positive = any(
            part.kind in ("PoissonRegressor", "TweedieRegressor", "GammaRegressor") for part in drawn.model.walk()
        ) or any(dict(part.options).get("loss") == "poisson" for part in drawn.model.walk())
        score = np.exp(score / 3) if positive else score * 10
        return score if drawn.targets == 1 else np.stack([score, score**2], axis=1)
    y = np.digitize(score, np.quantile(score, np.linspace(0, 1, drawn.classes + 1)[1:-1]))
    if drawn.targets > 1:
        y = np.stack([y, rng.permutation(drawn.classes)[y] if drawn.classes > 2 else z[:, -1] > 0], axis=1).astype(int)
    return LABELS[drawn.labels][y]


def fitted(drawn: Drawn) -> tuple[Any, Any]:
    """The fitted model, and fresh rows for it.

    Raises:
        Impossible: scikit-learn can't fit it on such data.
    """
    rng = np.random.default_rng(drawn.seed)
    x = matrix(drawn, FITTED, rng)
    if drawn.repeated:
        x[FITTED // 2 :] = x[: FITTED - FITTED // 2]
    y = target(drawn, x, rng)
    kind = drawn.dtype if drawn.fitted == "same" else drawn.fitted
    rows = rows_of(drawn, x, rng, kind)
    try:
        model = made(drawn.model)
        model.fit(rows) if y is None else model.fit(rows, y)
    except Exception as error:
        raise Impossible(f"{type(error).__name__}: {error}") from error
    fresh = matrix(drawn, FRESH, rng)
    if rng.random() < 0.5 and drawn.constant:
        fresh[:, 0] = rng.normal(size=FRESH)
    fresh = np.concatenate([fresh, x[:12], edges(model, x, rng)])
    if drawn.dtype == "int64":
        fresh = np.round(np.nan_to_num(fresh))
    return model, rows_of(drawn, fresh, rng, drawn.dtype)


def edges(model: Any, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Rows of which one value lies on a threshold of one of the model's trees, or beside it in either precision."""
    found = []
    for chain, feature, threshold in _splits(model, []):
        if np.isfinite(threshold) and abs(threshold) < 1e30:
            found.append((chain, feature, threshold))
    if not found:
        return x[:0]
    chosen = [found[i] for i in rng.permutation(len(found))[:16]]
    made = []
    for chain, feature, threshold in chosen:
        base = x[[int(rng.integers(len(x)))]].copy()
        narrow = np.float32(threshold)
        values = [threshold, narrow, *(np.nextafter(narrow, np.float32(s * np.inf)) for s in (-1, 1))]
        values += [np.nextafter(threshold, s * np.inf) for s in (-1, 1)]
        for value in values:
            try:
                made.append(_placed(chain, base, feature, float(value)).astype(np.float64))
            except Exception:
                if feature < x.shape[1]:
                    made.append(_with(base, feature, float(value)))
    rows = np.concatenate(made) if made else x[:0]
    return rows[np.isfinite(rows).any(axis=1) & ~np.isinf(rows).any(axis=1)]


def _with(base: np.ndarray, feature: int, value: float) -> np.ndarray:
    row = base.copy()
    row[0, feature] = value
    return row


def _placed(chain: list[Any], base: np.ndarray, feature: int, value: float) -> np.ndarray:
    """A row which the transformers turn into one with that value."""
    there = base
    for step in chain:
        there = step.transform(there)
    there = _with(np.asarray(there, np.float64), feature, value)
    for step in reversed(chain):
        there = step.inverse_transform(there)
    return np.asarray(there)


def _splits(model: Any, chain: list[Any]) -> Any:
    """(transformers before it, feature, threshold) of every split of the trees that see the rows."""
    if hasattr(model, "steps"):
        before = list(chain)
        for _, step in model.steps:
            if step is None or isinstance(step, str):
                continue
            yield from _splits(step, before)
            before = [*before, step]
    elif hasattr(getattr(model, "tree_", None), "children_left"):
        inner = model.tree_.children_left >= 0
        yield from (
            (chain, int(f), float(t))
            for f, t in zip(model.tree_.feature[inner], model.tree_.threshold[inner], strict=True)
        )
    elif hasattr(model, "_predictors"):
        for stage in model._predictors:
            for tree in stage:
                nodes = tree.nodes[tree.nodes["is_leaf"] == 0]
                yield from (
                    (chain, int(f), float(t)) for f, t in zip(nodes["feature_idx"], nodes["num_threshold"], strict=True)
                )
    else:
        for name in ("estimators_", "estimator_", "best_estimator_", "calibrated_classifiers_", "estimator"):
            inner = getattr(model, name, None)
            if inner is not None:
                for item in (
                    inner.ravel() if isinstance(inner, np.ndarray) else inner if isinstance(inner, list) else [inner]
                ):
                    if not isinstance(item, (str, tuple)):
                        yield from _splits(item, chain)
                return


# -- scikit-learn's side -------------------------------------------------------------------------------------------------------


def said(model: Any, method: str, rows: Any) -> list[np.ndarray]:
    """What the method gives, as a list of dense arrays."""
    if method == "predict_std":
        return [np.asarray(model.predict(rows, return_std=True)[1])]
    result = getattr(model, method)(rows)
    parts = result if isinstance(result, (tuple, list)) else [result]
    return [part.toarray() if hasattr(part, "toarray") else np.asarray(part) for part in parts]


class Source:
    """The fitted model, what it says of the rows, and how sure that is."""

    def __init__(self, model: Any, rows: Any, drawn: Drawn) -> None:
        self.model, self.rows, self.drawn = model, rows, drawn
        self._nearby: dict[str, list[list[np.ndarray]]] = {}
        self.tied: dict[str, np.ndarray] = {}
        self._wide: Any = None
        self.eps = float(np.finfo(drawn.dtype if drawn.dtype != "int64" else "float64").eps)

    def methods(self) -> list[str]:
        """What can be asked of new rows."""
        found = [name for name in METHODS if hasattr(self.model, name)]
        known = type(self.model).__name__ in ("GaussianProcessRegressor", "BayesianRidge", "ARDRegression")
        return [*found, *(["predict_std"] if known else [])]

    def nearby(self, method: str, index: int) -> list[np.ndarray]:
        """What the method gives where values are moved within rounding: the rows', the model's, or those that a step hands on."""
        if method not in self._nearby:
            self._nearby[method] = []
            for number in range(40):
                try:
                    if number % 3 == 0:
                        found = said(self.model, method, _moved(self.drawn, self.rows, number))
                    elif number % 3 == 1:
                        found = said(_shaken(self.model, number), method, self.rows)
                    else:
                        found = said(*_handed_on(self.model, method, self.rows, number, self.eps))
                    self._nearby[method].append(found)
                except Exception:
                    continue
        return [found[index] for found in self._nearby[method]]

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
                own = said(self.model, method, self.rows)[0]
                spread = np.max([spread, *(_gap(own, one) for one in self.nearby(method, 0))], axis=0)
        return spread

    def widened(self, method: str, index: int) -> np.ndarray | None:
        """What the method gives for the rows in float64, the model's own numbers widened too; None where that fails."""
        if self._wide is None:
            self._wide = copy.deepcopy(self.model)
            _changed(self._wide, lambda x: x.astype(np.float64) if x.dtype == np.float32 else x, set(), exact=True)
        try:
            return said(self._wide, method, _numeric(self.rows, lambda x: x.astype(np.float64)))[index]
        except Exception:
            return None

    def behind(self, got: np.ndarray) -> tuple[np.ndarray, float] | None:
        """How far the score of each row's label lies behind the best one; None where no scores are known."""
        model, rows = self.model, self.rows
        while hasattr(model, "steps") or hasattr(model, "best_estimator_"):
            for _, step in getattr(model, "steps", ())[:-1]:
                rows = step.transform(rows) if not isinstance(step, str) else rows
            model = model.steps[-1][1] if hasattr(model, "steps") else model.best_estimator_
        found = _scores(model, rows)
        if found is None:
            return None
        scores, labels = found
        said = got.astype(str)[:, None] == np.asarray(labels).astype(str)[None]
        behind = np.max(scores, axis=1) - np.max(np.where(said, scores, -np.inf), axis=1)
        return np.asarray(behind), float(np.max(np.abs(scores)))


def _changed(item: Any, change: Any, seen: set[int], *, exact: bool) -> Any:
    """Changes the arrays of floats in a fitted estimator and those in it; `exact` says whether also of estimators in EXACT."""
    if isinstance(item, np.ndarray) and item.dtype.kind == "f":
        return change(item)
    if id(item) in seen:
        return item
    seen.add(id(item))
    if isinstance(item, (list, tuple)):
        parts = [_changed(part, change, seen, exact=exact) for part in item]
        return type(item)(parts) if not hasattr(item, "_fields") else item
    if isinstance(item, np.ndarray) and item.dtype == object:
        for part in item.ravel():
            _changed(part, change, seen, exact=exact)
    elif isinstance(item, BaseEstimator):
        fixed = not exact and (type(item).__name__ in EXACT or hasattr(item, "categories_"))
        for name, part in vars(item).items():
            if name.endswith("classes_") or (fixed and isinstance(part, np.ndarray) and part.dtype.kind == "f"):
                continue
            vars(item)[name] = _changed(part, change, seen, exact=exact)
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


def _handed_on(model: Any, method: str, rows: Any, number: int, eps: float) -> tuple[Any, str, Any]:
    """The last step and its rows, where each step before it rounded otherwise: a sum's error is that of its greatest terms."""
    if not hasattr(model, "steps"):
        raise ValueError("one step")
    rng = np.random.default_rng(number)
    for _, step in model.steps[:-1]:
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
            dense = dense + (size * most).astype(dense.dtype)
        rows = type(rows)(dense) if hasattr(rows, "toarray") else dense
    last = model.steps[-1][1]
    return _handed_on(last, method, rows, number, eps) if hasattr(last, "steps") else (last, method, rows)


class Ties:
    """Which rows have neighbours at the same distance of which some count and some do not, found while scikit-learn runs.

    Which of them count depends on the order in which the fitted rows are met (scikit-learn's user guide, 1.6.2: "the results
    will depend on the ordering of the training data").
    """

    def __init__(self, count: int, *, close: float, within: bool) -> None:
        self.rows = np.zeros(count, bool)
        self.close, self.within = close, within

    def __enter__(self) -> Ties:
        self._kneighbors = plain = KNeighborsMixin.kneighbors
        self._labels = {name: getattr(KNeighborsClassifier, name) for name in ("predict", "predict_proba")}
        self._imputed = KNNImputer._calc_impute

        def kneighbors(model: Any, X: Any = None, n_neighbors: int | None = None, return_distance: bool = True) -> Any:
            k = n_neighbors or model.n_neighbors
            if X is not None and X.shape[0] == len(self.rows):
                distance = plain(model, X, min(k + 1, model.n_samples_fit_), True)[0]
                equal = np.diff(distance, axis=1) <= self.close * np.max(distance, axis=1, keepdims=True)
                self.rows |= equal[:, k - 1 :].any(axis=1) if not self.within else equal.any(axis=1)
            return plain(model, X, n_neighbors, return_distance)

        def asking(name: str) -> Any:
            @wraps(self._labels[name])
            def labels(model: Any, X: Any) -> Any:
                model.kneighbors(X)  # some metrics take another way to the labels
                return self._labels[name](model, X)

            return labels

        def imputed(model: Any, distance: Any, count: int, *rest: Any) -> Any:
            ordered = np.sort(distance, axis=1)[:, : count + 1]
            if (np.diff(ordered, axis=1)[:, -1:] <= 1e-12 * ordered[:, -1:]).any():
                self.rows[:] = True
            return self._imputed(model, distance, count, *rest)

        KNeighborsMixin.kneighbors, KNNImputer._calc_impute = kneighbors, imputed
        for name in self._labels:
            setattr(KNeighborsClassifier, name, asking(name))
        return self

    def __exit__(self, *_: Any) -> None:
        KNeighborsMixin.kneighbors, KNNImputer._calc_impute = self._kneighbors, self._imputed
        for name, method in self._labels.items():
            setattr(KNeighborsClassifier, name, method)


# -- the judgement -------------------------------------------------------------------------------------------------------------


def difference(
    source: Source, method: str, index: int, expected: np.ndarray, got: np.ndarray, forgiven: list[str]
) -> str:
    """What is wrong with a result; nothing where it is right."""
    if expected.shape != got.shape:
        return f"shape {got.shape} instead of {expected.shape}"
    if expected.dtype.kind in "OUSib":
        if got.dtype.kind != expected.dtype.kind and not {got.dtype.kind, expected.dtype.kind} <= set("OUS"):
            return f"{got.dtype} instead of {expected.dtype}"
        return _labels(source, method, index, expected, got, forgiven)
    if got.dtype != expected.dtype:
        return f"{got.dtype} instead of {expected.dtype}"
    return _numbers(source, method, index, expected, got, forgiven)


def _labels(source: Source, method: str, index: int, expected: Any, got: Any, forgiven: list[str]) -> str:
    other = _by_row(np.asarray(expected.astype(str) != got.astype(str)))
    if not other.any():
        return ""
    behind = None
    if method == "predict" and expected.ndim == 1:
        behind = source.behind(got)
        if behind is not None:
            close = behind[0] <= behind[1] * (1e-12 if source.drawn.dtype != "float32" else 1e-6)
            if not (other & ~close).any():
                forgiven.append(f"label within rounding: {method}")
                return ""
            other &= ~close
    if source.drawn.dtype == "float32":
        wide = source.widened(method, index)
        if wide is not None:  # where float32 alone changes scikit-learn's label the row is not decided
            other &= _by_row(wide.astype(str) == expected.astype(str))
        if not other.any():
            forgiven.append(f"label as in float64: {method}")
            return ""
    if not source.drawn.exact:
        near = source.nearby(method, index)
        for one in near:
            other &= _by_row(one.astype(str) != got.astype(str))
        if other.any() and near:  # of many labels one may not be met, but where they change so often none is decided
            other &= np.mean([_by_row(one.astype(str) != expected.astype(str)) for one in near], axis=0) < 0.2
        if other.any() and near and method == "predict" and behind is not None:
            other &= behind[0] > 8 * source.spread_of_scores()
        if not other.any():
            forgiven.append(f"label of a row beside it within rounding: {method}")
            return ""
    place = int(np.flatnonzero(other)[0])
    return f"{other.sum()} of {len(expected)} labels differ, row {place}: {got[place]!r} instead of {expected[place]!r}"


def _by_row(x: np.ndarray) -> np.ndarray:
    return np.asarray(x.reshape(len(x), -1).any(axis=1))


def _numbers(source: Source, method: str, index: int, expected: Any, got: Any, forgiven: list[str]) -> str:
    finite = np.isfinite(expected)
    scale = float(np.max(np.abs(expected[finite].astype(np.float64)), initial=0.0))
    if method == "decision_function":  # a sum less an intercept: both may be greater than what is left
        scale = max(scale, source.intercept())
    limit = 1e-9 * scale
    gap = _gap(expected, got)
    if (gap <= limit).all():
        return ""
    if method == "transform" and (reach := source.reach()):  # roots of differences of squares, in float64
        e, g = expected.astype(np.float64), got.astype(np.float64)
        if (np.abs(e * e - g * g) <= 1e-14 * reach**2 + 8 * np.finfo(expected.dtype).eps * e * e).all():
            return ""
    narrow = source.drawn.dtype == "float32"
    spread = np.zeros(len(gap))
    if narrow:
        wide = source.widened(method, index)
        wide = expected if wide is None else wide
        spread = _gap(expected, wide)
        if expected.dtype == np.float32 or spread.max() > 1e-10 * scale:
            limit = max(limit, 4e-7 * scale)  # a few units in the last place of float32
        if _within(gap, spread, limit) or _within(_gap(wide, got), spread, limit):
            forgiven.append(f"float32: {method} {gap.max():.3g} of {scale:.3g}, spread {spread.max():.3g}")
            return ""
    elif expected.dtype == np.float32:
        limit = 4e-7 * scale
        if (gap <= limit).all():
            return ""
    if not source.drawn.exact:
        for near in source.nearby(method, index):
            spread = np.maximum(spread, _gap(expected, near))
        if _within(gap, spread, limit):
            forgiven.append(f"ill-conditioned: {method} {gap.max():.3g} of {scale:.3g}, spread {spread.max():.3g}")
            return ""
    place = int(np.argmax(np.where(np.isnan(gap), np.inf, gap)))
    return f"off by {gap[place]:.3g} of {scale:.3g} in row {place} ({got[place]} instead of {expected[place]})"


def _gap(expected: np.ndarray, got: np.ndarray) -> np.ndarray:
    """The greatest difference in each row; infinite where one is NaN or infinite and the other is not."""
    e, g = (item.astype(np.float64).reshape(len(item), -1) for item in (expected, got))
    if not e.shape[1]:
        return np.zeros(len(e))
    with np.errstate(invalid="ignore"):
        apart = np.where((e == g) | (np.isnan(e) & np.isnan(g)), 0.0, np.abs(e - g))
    return np.asarray(np.where(np.isnan(apart), np.inf, apart).max(axis=1))


def _within(gap: np.ndarray, spread: np.ndarray, limit: float) -> bool:
    """Whether scikit-learn's own spread, row by row or of most rows, explains the gaps, eightfold."""
    usual = float(np.quantile(np.where(np.isfinite(spread), spread, 0.0), 0.9))
    return bool((gap <= 8 * np.maximum(spread, usual) + limit).all())


def judged(drawn: Drawn) -> Outcome:
    """Fits, converts, runs and compares.

    Raises:
        Impossible: scikit-learn itself can't.
    """
    import onnxport

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        model, rows = fitted(drawn)
        source = Source(model, rows, drawn)
        expected: dict[str, list[np.ndarray]] = {}
        why = "no method"
        for method in source.methods():
            try:
                close = 1e-6 if drawn.dtype == "float32" else 1e-12
                with Ties(len(rows), close=close, within=method == "kneighbors") as ties:
                    expected[method] = said(model, method, rows)
                source.tied[method] = ties.rows
            except Exception as error:
                why = f"{method}: {type(error).__name__}: {error}"
        if not expected:
            raise Impossible(why)
        refusal = None
        groups = [list(expected)]
        forgiven: list[str] = []
        while groups:
            methods = groups.pop(0)
            try:
                converted = onnxport.convert(
                    model, inputs=rows, methods=methods, validate=False, target_opset=drawn.opset
                )
            except onnxport.UnsupportedOperator as error:
                refusal = Outcome("refused", methods[0], str(error))
                groups += [[method] for method in methods] if len(methods) > 1 else []
                continue
            except Exception as error:
                return Outcome("crashed", ", ".join(methods), f"{type(error).__name__}: {error}")
            try:
                got = converted(rows)
            except Exception as error:
                return Outcome("crashed", ", ".join(methods), f"at run time: {type(error).__name__}: {error}")
            results = iter(got if isinstance(got, tuple) else (got,))
            for method in methods:
                for index, one in enumerate(expected[method]):
                    other = np.asarray(next(results))
                    reason = difference(source, method, index, one, other, forgiven)
                    tied = source.tied[method]
                    if reason and tied.any() and one.shape == other.shape and (method, index) != ("kneighbors", 0):
                        mask = tied.reshape(-1, *[1] * (one.ndim - 1))
                        reason = difference(
                            source, method, index, np.where(mask, other, one).astype(one.dtype), other, forgiven
                        )
                        forgiven += [] if reason else [f"equally near neighbours: {method}"]
                    if reason:
                        return Outcome("wrong", method, reason)
        return refusal if refusal is not None else Outcome("right", forgiven=forgiven)


# -- the least draw that still shows a difference ------------------------------------------------------------------------------


def minimised(drawn: Drawn, outcome: Outcome, tries: int = 150) -> tuple[Drawn, Outcome]:
    """A simpler draw with the same verdict on the same method."""
    plain = Drawn(drawn.model, drawn.task)
    progress = True
    while progress and tries > 0:
        progress = False
        smaller = [replace(drawn, model=model) for model in _reduced(drawn.model)]
        for name, value in vars(plain).items():
            if name not in ("model", "task") and value != getattr(drawn, name):
                smaller.append(replace(drawn, **{name: value}))
        for candidate in smaller:
            tries -= 1
            try:
                found = judged(candidate)
            except Impossible:
                continue
            if (found.verdict, found.method) == (outcome.verdict, outcome.method):
                drawn, outcome, progress = candidate, found, True
                break
            if tries <= 0:
                break
    return drawn, outcome


def _reduced(part: Part) -> Any:
    if part.kind in ("Pipeline", "FeatureUnion", "ColumnTransformer"):
        if len(part.parts) == 1 and not part.columns:
            yield replace(part.parts[0], columns=())
        for index in range(len(part.parts)):
            if len(part.parts) > 1:
                yield replace(part, parts=part.parts[:index] + part.parts[index + 1 :])
    else:
        yield from part.parts
    for index, inner in enumerate(part.parts):
        for smaller in _reduced(inner):
            yield replace(
                part, parts=(*part.parts[:index], replace(smaller, columns=inner.columns), *part.parts[index + 1 :])
            )
    for index in range(len(part.options)):
        if part.kind not in ("TransformedTargetRegressor", "LocalOutlierFactor", "OrdinalEncoder", "GridSearchCV"):
            yield replace(part, options=part.options[:index] + part.options[index + 1 :])


# -- the script ----------------------------------------------------------------------------------------------------------------


def numbered(start: int, number: int) -> Drawn:
    """The draw of that number in the sequence that a seed starts."""
    return pipeline(random.Random(f"{start} {number}").choice)


def main() -> None:
    """Draws, judges and says what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first draw")
    parser.add_argument("--minimise", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    signal.signal(signal.SIGALRM, _late)
    verdicts: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    forgiven: Counter[str] = Counter()
    impossible: Counter[str] = Counter()
    bad: list[tuple[Drawn, Outcome]] = []
    began = time.monotonic()

    number = options.first - 1
    while sum(verdicts.values()) < options.draws:
        number += 1
        drawn = numbered(options.seed, number)
        started = time.monotonic()
        signal.alarm(SECONDS)
        try:
            outcome = judged(drawn)
        except Impossible as error:
            impossible[re.sub(r"\d+", "N", str(error))[:90]] += 1
            if options.verbose:
                print(f"impossible {drawn}: {str(error)[:160]}", flush=True)
            continue
        except TimeoutError as error:
            outcome = Outcome("late", reason=str(error))
        finally:
            signal.alarm(0)
        verdicts[outcome.verdict] += 1
        forgiven.update(item.partition(":")[0] for item in outcome.forgiven)
        if outcome.verdict == "refused":
            reasons[re.sub(r"\s+", " ", outcome.reason)[:160]] += 1
        elif outcome.verdict != "right":
            bad.append((drawn, outcome))
        if options.verbose or outcome.verdict not in ("right", "refused"):
            took = time.monotonic() - started
            for item in outcome.forgiven:
                print(f"{number} {item}")
            print(
                f"{number} {outcome.verdict} {outcome.method}: {outcome.reason[:400]} ({took:.1f} s)\n    {drawn}",
                flush=True,
            )

    print(f"{sum(verdicts.values())} draws in {time.monotonic() - began:.0f} s: {dict(verdicts)}")
    print(f"forgiven: {dict(forgiven)}")
    print(f"scikit-learn could not fit or run {sum(impossible.values())}:")
    for reason, count in impossible.most_common(12):
        print(f"  {count} {reason}")
    print("refused:")
    for reason, count in reasons.most_common():
        print(f"  {count} {reason}")
    if options.minimise:
        for drawn, outcome in bad:
            if outcome.verdict != "late":
                least, why = minimised(drawn, outcome)
                print(f"least: {why.verdict} {why.method}: {why.reason[:400]}\n    {least}\n    {least!r}", flush=True)
    sys.exit(bool(bad))


def _late(*_: Any) -> None:
    raise TimeoutError(f"more than {SECONDS} seconds")


if __name__ == "__main__":
    main()
