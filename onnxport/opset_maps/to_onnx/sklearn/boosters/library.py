"""What the gradient boosting libraries share: from the sums of trees to scores, predictions, probabilities and labels.

And small fitted estimators of them for the entries' cases: seeded data, the same each time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import Case, built, f32, f64
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array
from onnxport.opset_maps.to_onnx.sklearn.classes import both_classes
from onnxport.opset_maps.to_onnx.sklearn.entries import lower
from onnxport.opset_maps.to_onnx.sklearn.fitted import data, quantity, target
from onnxport.opset_maps.to_onnx.sklearn.tables.table import Table, called

Cases = Sequence[Case]
Options = Mapping[str, Any]
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
    options: Options

    def fitted(
        self, name: str, y: np.ndarray, *, x: np.ndarray | None = None, fit: Options | None = None, **options: object
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


class Library(ABC):
    """One library: how its fitted estimators are read, and what follows from their raw scores.

    Attributes:
        predictors: the classes that predict numbers, qualified by their package, in one line.
        classifiers: the classes that predict labels, likewise.
        fitted: makes small fitted estimators of the library.
        raw_method: the map's name for `raw`, by which the raw scores are written once for all that follows from them.
    """

    predictors: str
    classifiers: str
    fitted: Examples
    raw_method = "predict_raw"

    @abstractmethod
    def raw(self, op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
        """The raw scores: the sums of the trees' values before the objective's transform, [N, K] always."""

    @abstractmethod
    def transformed(self, model: BaseEstimator, raw: Array) -> Array:
        """The objective's transform of raw scores: a prediction of numbers, [N] or [N, K]."""

    @abstractmethod
    def label(self, op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
        """The class of the greatest score, or for each label of several whether it is present."""

    def class_probabilities(self, model: BaseEstimator, raw: Array) -> Array:
        """The probabilities of the classes from raw scores, [N, K]; 1 - p and p where the objective gives one number."""
        transformed = as_vector(self.transformed(model, raw))
        return transformed if transformed.ndim == 2 else both_classes(transformed)

    def raw_of(self, op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
        """The raw scores, lowered once for all methods of one model."""
        return called(op, model, self.raw_method, x)

    def scores(self, op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
        """The raw scores, a vector where there is one number a row."""
        return as_vector(self.raw_of(op, model, x))

    def prediction(self, op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
        """The objective's transform of the raw scores."""
        return as_vector(self.transformed(model, self.raw_of(op, model, x)))

    def probabilities(self, op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
        """The probabilities of the classes from the raw scores."""
        return self.class_probabilities(model, self.raw_of(op, model, x))

    def register(self, *, predictions: Cases, probabilities: Cases, labels: Cases, scores: Cases = ()) -> None:
        """Makes the entries of the library's estimators, with their cases beside those of all libraries."""
        regressor, classifier = self.fitted.regressor, self.fitted.classifier
        every = f"{self.predictors} {self.classifiers}"
        # a bare booster has no `raw_scores`
        estimators = " ".join(name for name in every.split() if not name.startswith("onnxport."))
        values, shares = ([built(maker, rows) for rows in (ROWS, f32(20, 4))] for maker in (regressor, classifier))
        lower(f"{every}.{self.raw_method}", values[:1])(self.raw)
        lower(f"{estimators}.raw_scores", scores or shares[:1])(self.scores)
        lower(f"{self.predictors}.predict", values, predictions)(self.prediction)
        lower(f"{self.classifiers}.predict_proba", shares, probabilities)(self.probabilities)
        lower(f"{self.classifiers}.predict", labels)(self.label)


def as_vector(scores: Array) -> Array:
    """A matrix of one column as a vector; anything else as it is."""
    return scores[:, 0] if scores.ndim == 2 and scores.shape[1] == 1 else scores
