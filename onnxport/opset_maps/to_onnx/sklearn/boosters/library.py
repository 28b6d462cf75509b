"""What the gradient boosting libraries share: from the sums of trees to scores, predictions, probabilities and labels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from sklearn.base import BaseEstimator

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import Case, built, f32
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array
from onnxport.opset_maps.to_onnx.sklearn.boosters.examples import ROWS, Examples
from onnxport.opset_maps.to_onnx.sklearn.classes import both_classes
from onnxport.opset_maps.to_onnx.sklearn.entries import lower
from onnxport.opset_maps.to_onnx.sklearn.tables.table import Table, called


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

    def register(
        self,
        *,
        predictions: Sequence[Case],
        probabilities: Sequence[Case],
        labels: Sequence[Case],
        scores: Sequence[Case] = (),
    ) -> None:
        """Makes the entries of the library's estimators, with their cases beside those of all libraries."""
        regressor, classifier = self.fitted.regressor, self.fitted.classifier
        raw = [built(regressor, ROWS)]
        scores = scores or [built(classifier, ROWS)]
        predictions = [built(regressor, ROWS, dynamic=True), built(regressor, f32(20, 4)), *predictions]
        probabilities = [built(classifier, ROWS, dynamic=True), built(classifier, f32(20, 4)), *probabilities]
        every = f"{self.predictors} {self.classifiers}"
        # a bare booster has no `raw_scores`
        estimators = " ".join(name for name in every.split() if not name.startswith("onnxport."))
        lower(f"{every}.{self.raw_method}", raw)(self.raw)
        lower(f"{estimators}.raw_scores", scores)(self.scores)
        lower(f"{self.predictors}.predict", predictions)(self.prediction)
        lower(f"{self.classifiers}.predict_proba", probabilities)(self.probabilities)
        lower(f"{self.classifiers}.predict", labels)(self.label)


def as_vector(scores: Array) -> Array:
    """A matrix of one column as a vector; anything else as it is."""
    return scores[:, 0] if scores.ndim == 2 and scores.shape[1] == 1 else scores
