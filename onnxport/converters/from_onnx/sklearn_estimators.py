"""ONNX models as scikit-learn's estimators: fitted elsewhere, run by onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    OutlierMixin,
    RegressorMixin,
    TransformerMixin,
    is_classifier,
)
from sklearn.utils import check_array, check_consistent_length, column_or_1d
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from onnxport.converters.from_onnx.sklearn_roles import Roles, is_row_of_labels, roles_of
from onnxport.converters.from_onnx.sklearn_rows import blocks, feeds_of, fits, is_matrix, width_of
from onnxport.errors import InvalidInputError
from onnxport.graph.outputs import Output
from onnxport.graph.rows import is_frame
from onnxport.model import OnnxModel, as_onnx_model
from onnxport.validation.input_sets.base import specs_of
from onnxport.validation.runners.base import InputSpec


def _gives(*methods: str) -> Any:
    """Whether the graph gives one of the methods."""
    return lambda self: any(method in self.roles.methods for method in methods)


def _predicts(self: OnnxEstimator) -> bool:
    return "predict" in self.roles.methods or ("predict_proba" in self.roles.methods and self.roles.classes is not None)


class OnnxEstimator(BaseEstimator):
    """An ONNX model with the methods of an estimator.

    It is fitted: `fit` checks the rows and changes nothing, and a clone is as fitted. It takes arrays, sparse matrices,
    DataFrames (a column for each of the graph's inputs), lists of strings, and tuples of arrays in the order of the inputs.

    Parameters:
        model: an `OnnxModel`, or what becomes one: the path of a file, an `onnx.ModelProto` or an `onnx_ir.Model`.
        outputs: by method the name of the graph's output that it gives: ``{"predict_proba": "probabilities"}``. By
            default as the graph tells.

    Attributes:
        n_features_in_: number of columns, where the graph tells.
        feature_names_in_: names of the columns, where each is an input of the graph.
        onnxport_report: the report of the conversion; None without one.
    """

    def __init__(self, model: Any = None, *, outputs: Mapping[str, str] | None = None) -> None:
        self.model = model
        self.outputs = outputs

    notes: tuple[str, ...] = ()  # why the file's own estimator was not rebuilt

    def _facts(self) -> tuple[OnnxModel, Roles, tuple[InputSpec, ...]]:
        known = self.__dict__.get("_known")
        if known is None or known[0] is not self.model or known[1] is not self.outputs:
            if self.model is None:
                raise ValueError(
                    f"{type(self).__name__} has no model: give it one, {type(self).__name__}('model.onnx')"
                )
            model = as_onnx_model(self.model)
            facts = (model, roles_of(model.model, self.outputs), specs_of(model.model))
            self.__dict__["_known"] = (self.model, self.outputs, facts)
            return facts
        held: tuple[Any, Any, tuple[OnnxModel, Roles, tuple[InputSpec, ...]]] = known
        return held[2]

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        state.pop("_known", None)
        if self.model is not None and not isinstance(self.model, OnnxModel):
            state["model"] = self._facts()[0]  # a path means nothing elsewhere
        return state

    @property
    def onnx_model(self) -> OnnxModel:
        """The model that it runs."""
        return self._facts()[0]

    @property
    def roles(self) -> Roles:
        """What the graph's outputs are to the estimator."""
        return self._facts()[1]

    @property
    def graph_outputs(self) -> tuple[Output, ...]:
        """For each output of the graph the method that gives it, by which a proof compares the two."""
        return self.roles.outputs

    def __sklearn_is_fitted__(self) -> bool:
        return self.model is not None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.allow_nan = tags.input_tags.sparse = True
        if self.model is not None:
            specs = self._facts()[2]
            ranks = {len(spec.dims) for spec in specs if spec.dims is not None}
            tags.input_tags.string = any(spec.dtype is not None and spec.dtype.kind == "O" for spec in specs)
            tags.input_tags.one_d_array, tags.input_tags.three_d_array = 1 in ranks, 3 in ranks
            tags.input_tags.two_d_array = 2 in ranks or len(specs) > 1 or not ranks
        return tags

    @property
    def n_features_in_(self) -> int:
        """Number of columns."""
        widths = [width_of(spec) for spec in self._facts()[2]] if self.model is not None else [None]
        if any(width is None for width in widths):
            raise AttributeError("the graph does not tell the number of columns")
        return sum(width or 0 for width in widths)

    @property
    def feature_names_in_(self) -> np.ndarray:
        """Names of the columns, in order."""
        specs = self._facts()[2] if self.model is not None else ()
        if len(specs) < 2 or any(width_of(spec) != 1 for spec in specs):
            raise AttributeError("the graph does not tell the names of the columns")
        return np.array([spec.name for spec in specs], object)

    def fit(self, X: Any, y: Any = None) -> OnnxEstimator:
        """Checks that the rows fit the model, which is fitted already and stays as it is.

        Raises:
            ValueError: they do not fit, or there is no model.
        """
        feeds = self._feeds(X, least=1)
        if y is not None:
            targets = check_array(y, ensure_2d=False, dtype=None, input_name="y")
            check_consistent_length(next(iter(feeds.values())), targets)
            targets = column_or_1d(targets, warn=True) if targets.ndim == 2 and targets.shape[1] == 1 else targets
            if is_classifier(self):
                check_classification_targets(targets)
        return self

    def run(self, X: Any) -> dict[str, Any]:
        """Every output of the graph by its name, as the runtime gives it.

        Raises:
            ValueError: the rows do not fit the graph's inputs.
        """
        names = self.onnx_model.output_names
        return dict(zip(names, self._run(X, names), strict=True))

    def _feeds(self, X: Any, *, least: int = 0) -> dict[str, np.ndarray]:
        specs = self._facts()[2]
        if len(specs) == 1 and isinstance(X, tuple) and len(X) == 1:
            X = X[0]
        if len(specs) == 1 and fits(X, specs[0]) and len(X) >= least:
            return {specs[0].name: X}
        if len(specs) == 1 and is_matrix(specs[0]) and not isinstance(X, (dict, tuple)):
            options = {
                "accept_sparse": True,
                "dtype": "numeric",
                "ensure_all_finite": False,
                "ensure_min_samples": least,
            }
            X = validate_data(self, X, reset=False, skip_check_array=is_frame(X), **options)
        return feeds_of(X, specs, least=least)

    def _run(self, X: Any, names: list[str]) -> list[Any]:
        model, _, specs = self._facts()
        feeds = self._feeds(X)
        fixed = {spec.dims[0] for spec in specs if spec.dims}
        size = next(iter(fixed)) if len(fixed) == 1 else None
        try:
            if isinstance(size, int) and size > 0 and all(len(item) != size for item in feeds.values()):
                runs = [
                    [item[:meant] for item in model.session.run(part, names)] for part, meant in blocks(feeds, size)
                ]
                return [np.concatenate(parts) for parts in zip(*runs, strict=True)]
            return model.session.run(feeds, names)
        except InvalidInputError as error:
            raise ValueError(str(error)) from error

    def _give(self, method: str, X: Any) -> Any:
        """The outputs behind a method, those of a column each side by side, maps as columns in the order of the classes."""
        places = self.roles.methods[method]
        values = self._run(X, [self.onnx_model.output_names[place] for place in places])
        if len(values) > 1:
            return np.stack([np.reshape(value, -1) for value in values], axis=1)
        if isinstance(values[0], list) and all(isinstance(row, Mapping) for row in values[0]):
            keys = self.roles.classes if self.roles.classes is not None else sorted(values[0][0]) if values[0] else []
            table = [[row[key] for key in np.asarray(keys).tolist()] for row in values[0]]
            return np.array(table, np.float32).reshape(len(table), len(keys))
        return np.asarray(values[0])

    @available_if(_predicts)
    def predict(self, X: Any) -> Any:
        """Labels of shape [N], or values of shape [N] or [N, targets]."""
        if "predict" not in self.roles.methods:
            places = np.argmax(self.predict_proba(X), axis=1)
            return np.asarray(self.roles.classes)[places]
        labels = self._give("predict", X)
        outputs = self.onnx_model.model.graph.outputs
        lying = all(is_row_of_labels(outputs[place]) for place in self.roles.methods["predict"])
        return labels.reshape(-1) if lying else _flat(labels)

    @available_if(_gives("predict_proba"))
    def predict_proba(self, X: Any) -> Any:
        """Probabilities of shape [N, classes]."""
        scores = self._give("predict_proba", X)
        scores = scores.reshape(-1, 1) if scores.ndim == 1 else scores
        return np.concatenate([1 - scores, scores], axis=1) if scores.ndim == 2 and scores.shape[1] == 1 else scores

    @available_if(_gives("predict_proba", "predict_log_proba"))
    def predict_log_proba(self, X: Any) -> Any:
        """Logarithms of the probabilities, of shape [N, classes]."""
        if "predict_log_proba" in self.roles.methods:
            return self._give("predict_log_proba", X)
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    @available_if(_gives("decision_function"))
    def decision_function(self, X: Any) -> Any:
        """Scores of shape [N, classes], of two classes those of the second one, [N]."""
        scores = self._give("decision_function", X)
        return scores[:, -1] if scores.ndim == 2 and scores.shape[1] in (1, 2) else scores

    @available_if(_gives("score_samples"))
    def score_samples(self, X: Any) -> Any:
        """A score for each row, [N]."""
        return _flat(self._give("score_samples", X))

    @available_if(_gives("transform"))
    def transform(self, X: Any) -> Any:
        """Features of shape [N, features]."""
        return self._give("transform", X)


def _flat(values: np.ndarray) -> np.ndarray:
    return values.reshape(-1) if values.ndim == 2 and values.shape[1] == 1 else values


class OnnxClassifier(ClassifierMixin, OnnxEstimator):
    """A classifier; `classes_` are there where the graph names them."""

    @property
    def classes_(self) -> np.ndarray:
        """The classes, in the order of the columns."""
        classes = self.roles.classes if self.model is not None else None
        if classes is None:
            raise AttributeError("the graph does not name its classes")
        return classes


class OnnxRegressor(RegressorMixin, OnnxEstimator):
    """A regressor."""


class OnnxClusterer(ClusterMixin, OnnxEstimator):
    """A clusterer: its labels are numbers of clusters."""


class OnnxOutlierDetector(OutlierMixin, OnnxEstimator):
    """An outlier detector: 1 for what belongs, -1 for outliers."""


class OnnxTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, OnnxEstimator):
    """A transformer."""

    @property
    def _n_features_out(self) -> int:
        value = self.onnx_model.model.graph.outputs[self.roles.methods["transform"][0]]
        width = value.shape[1] if value.shape is not None and value.shape.rank() == 2 else None
        if not isinstance(width, int):
            raise AttributeError("the graph does not tell how many features it gives")
        return width


KINDS: dict[str, type[OnnxEstimator]] = {
    "classifier": OnnxClassifier,
    "regressor": OnnxRegressor,
    "transformer": OnnxTransformer,
    "clusterer": OnnxClusterer,
    "outlier_detector": OnnxOutlierDetector,
}
