"""Small fitted estimators of the gradient boosting libraries for the entries' cases: seeded data, the same each time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from onnxport.opset_maps.cases import f64
from onnxport.opset_maps.to_onnx.sklearn.fitted import data, quantity, target

ROWS = f64(20, 4)


def rows_with_gaps(*, zeros: bool = False) -> np.ndarray:
    """Rows in which some numbers are missing, and with `zeros` some are 0."""
    rows = np.random.default_rng(2).normal(size=(20, 4))
    rows[::3, 1] = rows[1::4, 0] = np.nan
    if zeros:
        rows[::5, 2] = 0
    return rows


@dataclass(frozen=True)
class Examples:
    """Fits small estimators of one library.

    Attributes:
        package: the library's package.
        prefix: what the names of its estimators begin with.
        options: what keeps an estimator small.
    """

    package: str
    prefix: str
    options: Mapping[str, Any]

    def fitted(
        self,
        name: str,
        y: np.ndarray,
        *,
        x: np.ndarray | None = None,
        fit: Mapping[str, Any] | None = None,
        **options: object,
    ) -> Any:
        """An estimator fitted on `data()` or x, with arguments of its `fit`."""
        kind = getattr(import_module(self.package), self.prefix + name)
        return kind(**{**self.options, **options}).fit(data() if x is None else x, y, **fit or {})

    def classifier(self, name: str = "Classifier", *, classes: int = 3, text: bool = False, **options: object) -> Any:
        """A classifier of `target()`."""
        return self.fitted(name, target(classes, text=text), **options)

    def regressor(self, name: str = "Regressor", *, positive: bool = False, outputs: int = 0, **options: object) -> Any:
        """A regressor of `quantity()`."""
        return self.fitted(name, quantity(outputs, positive=positive), **options)

    def with_gaps(self, name: str, y: np.ndarray, columns: int = 4, *, zeros: bool = False, **options: object) -> Any:
        """An estimator fitted on `data()` of whose first columns a fifth is missing, and with `zeros` some numbers are 0."""
        x = data()
        part = x[:, :columns]
        part[np.random.default_rng(3).random(part.shape) < 0.2] = np.nan
        if zeros:
            x[::7, 2] = 0
        return self.fitted(name, y, x=x, **options)

    def of_two_labels(self, **options: object) -> Any:
        """A classifier of two labels, each present or not."""
        y = np.stack([target(2), data()[:, 0] > 0], axis=1).astype(int)
        return self.fitted("Classifier", y, **options)

    def of_categories(self, name: str, y: np.ndarray, most: int, **options: object) -> Any:
        """An estimator whose last two columns are categories below `most`, of `y` and the first of these."""
        x = np.concatenate([data(2), np.random.default_rng(0).integers(0, most, (120, 2))], axis=1)
        return self.fitted(name, (y + x[:, 2]) % 3, x=x, **options)
