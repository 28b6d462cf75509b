"""Which rows scikit-learn gives neighbours of that only the order of the fitted rows decides."""

from __future__ import annotations

from functools import wraps
from typing import Any

import numpy as np
from sklearn.impute import KNNImputer
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neighbors._base import KNeighborsMixin

# Distances that are 1 less a number near 1: what is small of them is that number's rounding.
_FROM_ONE = ("cosine", "correlation")


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
                scale = np.max(distance, axis=1, keepdims=True)
                if model.effective_metric_ in _FROM_ONE:
                    scale = np.maximum(scale, 1.0)
                equal = np.diff(distance, axis=1) <= self.close * scale
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
