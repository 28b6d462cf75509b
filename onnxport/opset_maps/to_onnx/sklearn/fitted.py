"""Small fitted estimators for the entries' cases: seeded data, the same each time."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np


def data(features: int = 4, rows: int = 120, seed: int = 0) -> np.ndarray:
    """Rows of standard normal features, float64."""
    return np.random.default_rng(seed).normal(size=(rows, features))


def classifier(module: str, name: str, *, classes: int = 3, text: bool = False, **options: Any) -> Any:
    """A classifier fitted on three (or two) noisy linear classes, labelled by integers or by text."""
    x = data()
    noise = np.random.default_rng(1).normal(size=len(x))
    target = np.digitize(x @ [1.0, -2.0, 0.5, 1.5] + 0.3 * noise, [0.0] if classes == 2 else [-1.5, 1.5])
    labels = np.array(["low", "middle", "high"])[target] if text else target
    return _made(module, name, options).fit(x, labels)


def regressor(module: str, name: str, *, positive: bool = False, **options: Any) -> Any:
    """A regressor fitted on a noisy smooth function."""
    x = data()
    target = x @ [1.0, -2.0, 0.5, 1.5] + np.sin(2 * x[:, 0]) + 0.1 * np.random.default_rng(1).normal(size=len(x))
    return _made(module, name, options).fit(x, np.exp(target / 4) if positive else target)


def transformer(module: str, name: str, **options: Any) -> Any:
    """A transformer fitted on features of different scales."""
    return _made(module, name, options).fit(data() * [1, 10, 0.1, 3] + [0, 5, 1, -2])


def words(module: str, name: str, **options: Any) -> Any:
    """A transformer fitted on two columns of words."""
    table = np.array([["red", "s"], ["green", "m"], ["blue", "l"], ["red", "l"], ["red", "s"]], object)
    return _made(module, name, options).fit(table)


def _made(module: str, name: str, options: dict[str, Any]) -> Any:
    kind = getattr(import_module(f"sklearn.{module}"), name)
    seeded = {"random_state": 0} if "random_state" in kind().get_params() else {}
    return kind(**{**seeded, **options})
