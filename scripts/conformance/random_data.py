"""The rows of a random draw: those that its pipeline is fitted on, and fresh ones that meet ties, gaps and thresholds."""

from __future__ import annotations

from typing import Any

import numpy as np

from scripts.conformance.random_draws import Drawn, estimator_of

FITTED, FRESH = 70, 24
LABELS = {
    "int": np.array([3, -1, 10, 0]),
    "float": np.array([2.0, 1.0, 4.0, 3.0]),
    "str": np.array(["b", "a", "long name", "C"]),
    "bool": np.array([False, True]),
}
WORDS = np.array(["red", "green", "blue", "grey", "black"], object)


class Impossible(Exception):
    """scikit-learn itself can't fit this or run it."""


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
        model = estimator_of(drawn.model)
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
    parts = []
    for chain, feature, threshold in _splits(model, []):
        if np.isfinite(threshold) and abs(threshold) < 1e30:
            parts.append((chain, feature, threshold))
    if not parts:
        return x[:0]
    chosen = [parts[i] for i in rng.permutation(len(parts))[:16]]
    items = []
    for chain, feature, threshold in chosen:
        base = x[[int(rng.integers(len(x)))]].copy()
        narrow = np.float32(threshold)
        values = [threshold, narrow, *(np.nextafter(narrow, np.float32(s * np.inf)) for s in (-1, 1))]
        values += [np.nextafter(threshold, s * np.inf) for s in (-1, 1)]
        for value in values:
            try:
                items.append(_placed(chain, base, feature, float(value)).astype(np.float64))
            except Exception:
                if feature < x.shape[1]:
                    items.append(_with(base, feature, float(value)))
    rows = np.concatenate(items) if items else x[:0]
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
