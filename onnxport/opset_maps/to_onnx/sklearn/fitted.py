"""Small fitted estimators for the entries' cases: seeded data, the same each time."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from onnxport.opset_maps.cases import Array, Case, built, f32, f64


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


def classifier(
    module: str, name: str, *, classes: int = 3, text: bool = False, positive: bool = False, **options: object
) -> Any:
    """A classifier fitted on `data()` (its absolute values for `positive`) and `target()`."""
    x = np.abs(data()) if positive else data()
    return unfitted(module, name, **options).fit(x, target(classes, text=text))


def regressor(module: str, name: str, *, positive: bool = False, outputs: int = 0, **options: object) -> Any:
    """A regressor fitted on `data()` and `quantity()`."""
    return unfitted(module, name, **options).fit(data(), quantity(outputs, positive=positive))


def transformer(module: str, name: str, *, positive: bool = False, labelled: bool = False, **options: object) -> Any:
    """A transformer fitted on features of different scales, or their absolute values, or `data()` with `target()`."""
    if labelled:
        return unfitted(module, name, **options).fit(data(), target())
    x = data() * [1, 10, 0.1, 3] + [0, 5, 1, -2]
    return unfitted(module, name, **options).fit(np.abs(x) if positive else x)


def words(module: str, name: str, **options: object) -> Any:
    """A transformer fitted on two columns of words."""
    table = np.array([["red", "s"], ["green", "m"], ["blue", "l"], ["red", "l"], ["red", "s"]], object)
    return unfitted(module, name, **options).fit(table)


def unfitted(module: str, name: str, **options: object) -> Any:
    """An estimator by module and name, seeded where it draws numbers."""
    kind = getattr(import_module(f"sklearn.{module}"), name)
    try:
        seeded = {"random_state": 0} if "random_state" in kind().get_params() else {}
    except TypeError:  # it needs an estimator
        seeded = {}
    return kind(**{**seeded, **options})


def cases(
    maker: Callable[..., object], module: str, name: str, *variants: dict[str, Any], rows: Array | None = None
) -> list[Case]:
    """Cases of an estimator in several configurations, on float64 rows and the first also on float32."""
    examples = []
    for index, options in enumerate(variants or ({},)):
        make = _maker(maker, module, name, options)
        examples.append(built(make, rows or f64(7, 4), dynamic=index == 0, name=str(options)))
        if index == 0:
            narrow = Array("float32", rows.shape, rows.low, rows.high) if rows else f32(7, 4)
            examples.append(built(make, narrow))
    return examples


def _maker(maker: Callable[..., object], module: str, name: str, options: dict[str, Any]) -> Any:
    return lambda: maker(module, name, **options)
