"""Tables for XGBoost, LightGBM and CatBoost, and their estimators fitted on them."""

import numpy as np
import pytest

ROWS = 300


def table(digits=2, gaps=0.15):
    """Rows of six columns of different scales with ties, zeros and gaps, and a noisy function of them."""
    rng = np.random.default_rng(0)
    full = np.round(rng.normal(size=(ROWS, 6)) * [1, 100, 1e-2, 1, 1e4, 1], digits)
    full[rng.random(full.shape) < 0.1] = 0
    value = full[:, 0] + full[:, 1] / 100 + np.sin(full[:, 3]) + 0.3 * rng.normal(size=ROWS)
    return np.where(rng.random(full.shape) < gaps, np.nan, full), value


def targets():
    """The kinds of target by name."""
    value = table()[1]
    three = np.digitize(value, [-1, 1])
    positive = np.exp(np.clip(value / 3, -3, 3))
    return {
        "number": value,
        "positive": positive,
        "share": np.clip(positive / 25, 0, 1),
        "two": (value > 0).astype(int),
        "three": three,
        "words": np.array(["low", "middle", "high"], object)[three],
        "numbers": np.stack([value, positive], axis=1),
        "labels": np.stack([value > 0, value > 1], axis=1).astype(int),
        "constant": np.full(ROWS, 2.5),
        "never": np.zeros(ROWS),
    }


def fitted(library, name, target, fit=None, **options):
    module = pytest.importorskip(library, reason="each of scikit-learn's neighbours is an extra")
    few = {
        "xgboost": {"n_estimators": 12, "max_depth": 5, "n_jobs": 1},
        "lightgbm": {"n_estimators": 12, "min_child_samples": 5, "verbose": -1, "n_jobs": 1},
        "catboost": {"iterations": 12, "verbose": 0, "allow_writing_files": False, "thread_count": 1},
    }[library]
    x, y = table()[0], targets()[target]
    if fit == "stopped early":
        fit = {"eval_set": [(x[200:], y[200:])]}
        if library == "xgboost":
            fit["verbose"] = False
        x, y = x[:200], y[:200]
    return getattr(module, name)(**{**few, **options}).fit(x, y, **fit or {})


def frame():
    pandas = pytest.importorskip("pandas", reason="pandas comes with the extra sklearn")
    rng = np.random.default_rng(0)
    words = pandas.Categorical(np.array(["w", "x", "y", "zz"], object)[rng.integers(0, 4, 300)])
    numbers = pandas.Categorical(rng.integers(5, 9, 300))
    result = pandas.DataFrame(
        {"a": rng.normal(size=300).astype(np.float32), "word": words, "number": numbers, "i": rng.integers(0, 9, 300)}
    )
    y = result.a + result.word.cat.codes + 2 * (result.number == 7) + result.i / 5
    result.loc[::7, "word"] = np.nan
    return result, y.to_numpy()
