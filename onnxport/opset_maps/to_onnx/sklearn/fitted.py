"""Small fitted estimators for the entries' cases: seeded data, the same each time."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

import numpy as np


def data(features: int = 4, rows: int = 120, seed: int = 0) -> np.ndarray:
    """Rows of standard normal features, float64."""
    return np.random.default_rng(seed).normal(size=(rows, features))


def target(classes: int = 3, *, text: bool = False, rows: int = 120) -> np.ndarray:
    """Labels of `data()`: three (or two) noisy linear classes, integers or text."""
    noise = np.random.default_rng(1).normal(size=rows)
    score = data(rows=rows) @ [1.0, -2.0, 0.5, 1.5] + 0.3 * noise
    number = np.digitize(score, [0.0] if classes == 2 else [-1.5, 1.5])
    return np.array(["low", "middle", "high"])[number] if text else number


def quantity(outputs: int = 0, *, positive: bool = False) -> np.ndarray:
    """A noisy smooth function of `data()`; several of them side by side."""
    x = data()
    noise = np.random.default_rng(1).normal(size=(len(x), max(outputs, 1)))
    scale = np.arange(1, max(outputs, 1) + 1)
    y = (x @ [1.0, -2.0, 0.5, 1.5] + np.sin(2 * x[:, 0]))[:, None] * scale + 0.1 * noise
    y = np.exp(y / 4) if positive else y
    return y if outputs else y[:, 0]


def classifier(name: str, *, classes: int = 3, text: bool = False, positive: bool = False, **options: object) -> Any:
    """A classifier fitted on `data()` (its absolute values for `positive`) and `target()`."""
    x = np.abs(data()) if positive else data()
    return unfitted(name, **options).fit(x, target(classes, text=text))


def regressor(name: str, *, positive: bool = False, outputs: int = 0, **options: object) -> Any:
    """A regressor fitted on `data()` and `quantity()`."""
    return unfitted(name, **options).fit(data(), quantity(outputs, positive=positive))


def transformer(name: str, *, positive: bool = False, **options: object) -> Any:
    """A transformer fitted on features of different scales, or their absolute values."""
    x = data() * [1, 10, 0.1, 3] + [0, 5, 1, -2]
    return unfitted(name, **options).fit(np.abs(x) if positive else x)


def words(name: str, **options: object) -> Any:
    """A transformer fitted on two columns of words."""
    table = np.array([["red", "s"], ["green", "m"], ["blue", "l"], ["red", "l"], ["red", "s"]], object)
    return fit(name, table, **options)


# The modules of scikit-learn, those whose estimators are asked for most first.
_MODULES = (
    "linear_model preprocessing naive_bayes tree ensemble decomposition neighbors svm cluster impute feature_selection "
    "model_selection multiclass multioutput neural_network mixture covariance gaussian_process discriminant_analysis "
    "semi_supervised calibration frozen dummy isotonic compose kernel_approximation kernel_ridge manifold cross_decomposition "
    "random_projection feature_extraction feature_extraction.text feature_extraction.image gaussian_process._gpc"
).split()


@cache
def _class(name: str) -> Any:
    """A class of scikit-learn by its name, or of another library by its module and name."""
    place, _, own_name = name.rpartition(".")
    modules = map(import_module, [place] if place else [f"sklearn.{module}" for module in _MODULES])
    return next(getattr(module, own_name) for module in modules if hasattr(module, own_name))


def unfitted(name: str, **options: object) -> Any:
    """An estimator by its class's name (`_class`), seeded where it draws numbers."""
    kind = _class(name)
    try:
        seeded = {"random_state": 0} if "random_state" in kind().get_params() else {}
    except TypeError:  # it needs an estimator
        seeded = {}
    return kind(**{**seeded, **options})


def fit(name: str, *given: Any, **options: object) -> Any:
    """An estimator by its class's name, fitted on what is given: rows, and a target."""
    return unfitted(name, **options).fit(*given)
