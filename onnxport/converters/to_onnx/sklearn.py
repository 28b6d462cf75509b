"""scikit-learn to ONNX: lowers an estimator's methods through the map, sub-estimators through `op.call`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx_ir as ir
import sklearn
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from onnxport.converters.from_onnx.sklearn_estimators import OnnxEstimator
from onnxport.converters.to_onnx.finish import finish
from onnxport.converters.to_onnx.onnx import edit
from onnxport.converters.to_onnx.refusals import Refusals
from onnxport.converters.to_onnx.sklearn_outputs import VARIANTS, formed, outputs_of
from onnxport.converters.to_onnx.sklearn_record import record_of
from onnxport.errors import (
    InvalidInputError,
    InvalidModelError,
    MapEntryError,
    OnnxportError,
    UnsupportedOperator,
    first_line,
)
from onnxport.graph import rows
from onnxport.graph.builder import OpBuilder
from onnxport.graph.fitted import ESTIMATOR
from onnxport.graph.names import check_outputs_apart, chosen_names
from onnxport.graph.outputs import PRODUCED, Output, written
from onnxport.graph.provenance import Source
from onnxport.model import OnnxModel
from onnxport.opset_maps.maps import sklearn as table
from onnxport.opset_maps.registry import Entry
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import one_value
from onnxport.opset_maps.to_onnx.sklearn.arrays.at_output import at_output
from onnxport.opset_maps.to_onnx.sklearn.tables.sparse import mark_sparse
from onnxport.opset_maps.to_onnx.sklearn.tables.table import Frame, Table, matrix
from onnxport.progress import stage
from onnxport.request import Request
from onnxport.tracing.sklearn import Column, columns_of

_OWN = "sklearn"
_FAMILIES = "onnxport.opset_maps.to_onnx.sklearn."


def export(model: BaseEstimator, request: Request) -> OnnxModel:
    """A fitted estimator as ONNX, not validated; the batch dimension is dynamic.

    Raises:
        UnsupportedOperator: estimators, methods or options without an ONNX form, all of them.
        InvalidInputError: the estimator is not fitted, or inputs or names do not fit.
    """
    if isinstance(model, OnnxEstimator):
        return _held(model, request)
    try:
        is_fitted = getattr(model, "is_fitted", None)  # by CatBoost, whose sums of models have no attributes of a fit
        if not (callable(is_fitted) and is_fitted()):
            check_is_fitted(model)
    except (NotFittedError, TypeError) as error:
        raise InvalidInputError(str(error)) from error
    except AttributeError as error:  # of a class that is no estimator of scikit-learn's, here or in a step
        raise InvalidModelError(
            f"{type(model).__name__} is no estimator, or a step of it is none: {error.name or first_line(error)} is missing; "
            "inherit from sklearn.base.BaseEstimator, and say with onnxport.register_to_onnx('sklearn', ...) how it is written"
        ) from error
    example = request.inputs if request.inputs is not None else request.kwargs or None
    columns = columns_of(example, model)
    names = chosen_names("input_names", [column.name for column in columns], request.input_names)
    outputs = outputs_of(model, request.methods, request.options)
    output_names = chosen_names("output_names", [output.name for output in outputs], request.output_names)
    check_outputs_apart(names, request.output_names)
    stage("lowering")
    op = OpBuilder(request.opset, ml_opset=request.ml_opset)
    pairs = zip(names, columns, strict=True)
    values = [op.input(name, column.dtype, ["batch", *column.dims]) for name, column in pairs]
    if hasattr(example, "toarray"):
        mark_sparse(values[0])
    final_names = [op.names.unique(name) for name in output_names]
    x: Table = values[0] if len(values) == 1 else Frame(tuple(column.name for column in columns), tuple(values))
    if len(values) == 1 and rows.columns_of(example) is not None:
        x = Frame((columns[0].name,), (values[0],))
    lowering = Lowering(op)
    try:
        tables = [lowering.output(op, model, output, x) for output in outputs]
        lowering.refused.raise_all()
    except Exception as error:
        refused = isinstance(error, OnnxportError)
        if refused and example is None and hasattr(model, "feature_names_in_"):
            fitted = ", ".join(map(str, model.feature_names_in_))
            raise InvalidInputError(
                f"the estimator was fitted on the columns {fitted}; without rows of them one matrix of float32 is taken, which "
                f"does not do: pass inputs= (--inputs), a few rows of such a table ({error})"
            ) from error
        misfit = _misfit(model, columns)
        if misfit and (isinstance(error, MapEntryError) or not refused):
            raise InvalidInputError(misfit) from error
        raise
    results = [formed(op, model, output, matrix(op, item)) for output, item in zip(outputs, tables, strict=True)]
    notes: list[str] = []
    finished = finish(op, at_output(results), final_names, runtime=request.runtime, notes=notes)
    finished.metadata_props[PRODUCED] = written(outputs, final_names)
    finished.metadata_props["sklearn_version"] = str(getattr(model, "_sklearn_version", None) or sklearn.__version__)
    record = record_of(model, finished)
    if record:
        finished.metadata_props[ESTIMATOR] = record
    return OnnxModel(finished, notes=tuple(notes), runtime=request.runs_in)


def _held(model: OnnxEstimator, request: Request) -> OnnxModel:
    """The model that an estimator runs, with the names and opset that are asked for."""
    if request.methods is not None or request.options:
        raise InvalidInputError(
            "methods= and options= mean nothing for an estimator that runs an ONNX model: it has its outputs"
        )
    return edit(model.onnx_model, replace(request, inputs=None, kwargs=None)).result


def _misfit(model: BaseEstimator, columns: Sequence[Column]) -> str:
    """That the inputs have more or fewer columns than the estimator was fitted on, if so."""
    fitted, dims = getattr(model, "n_features_in_", None), [column.dims for column in columns]
    if fitted is None or any(len(item) != 1 or not isinstance(item[0], int) for item in dims):
        return ""
    given = sum(int(item[0]) for item in dims)
    return "" if given == fitted else f"{type(model).__name__} was fitted on {fitted} columns, the inputs have {given}"


class Lowering:
    """Lowers methods of estimators, each once for the same input, and collects what is `refused`."""

    def __init__(self, op: OpBuilder) -> None:
        self._done: dict[tuple[Any, ...], Any] = {}
        self._kept: list[Any] = []
        self.refused = Refusals("sklearn", "<Estimator.method>")
        self._met = 0  # how often a result that was refused before was asked for
        self._steps: dict[str, Any] = {}
        op.on_call(self.method)

    def method(
        self,
        op: OpBuilder,
        estimator: BaseEstimator,
        method: str,
        x: Table,
        index: int | str | None = None,
        *,
        step: str = "",
    ) -> Any:
        """What ``estimator.method(x)`` gives, or one of its results."""
        key = (id(op), id(estimator), method, x)
        if key not in self._done:
            self._kept.append((op, estimator))  # an id is one object's only while that lives
            self._done[key] = self._lower(op, estimator, method, x, step)
        elif isinstance(self._done[key], _Refused):
            self._met += 1
        result = self._done[key]
        return result if index is None or isinstance(result, _Refused) else result[index]

    def output(self, op: OpBuilder, model: BaseEstimator, output: Output, x: Table) -> Any:
        """What an output of the graph is before it is brought into its form; the steps' come after the model's own."""
        if not output.step:
            return self.method(op, model, output.method, x, output.index)
        if output.step not in self._steps:
            raise UnsupportedOperator(f"options: the outputs asked for do not run the step {output.step!r}")
        return self._steps[output.step]

    def _lower(self, op: OpBuilder, estimator: BaseEstimator, method: str, x: Table, step: str) -> Any:
        name = f"{type(estimator).__name__}.{method}"
        outer = op.source.module if op.source else ""
        module = ".".join(part for part in (outer, step) if part)
        source = Source(name, step or type(estimator).__name__, module)
        before, reason = len(self.refused) + self._met, ""
        try:
            entry = find(estimator, method)
        except UnsupportedOperator as error:
            entry, reason = None, str(error)
        if entry is None:
            self.refused.add(name, reason, source.where)
            return _Refused(_expected_shape(estimator, method))
        try:
            entry.require_opset(op.opset)
            with op.at(source):
                given = entry.function(op, estimator, x)
                if given is None:
                    raise MapEntryError(
                        f"the entry for {name} returned None: an entry returns the values that it writes"
                    )
                result = _values(given)
            if source.module:
                self._steps.setdefault(source.module, result)
            return result
        except UnsupportedOperator as error:
            if not error.operators and not self._follows(before, x):
                self.refused.add(name, str(error), source.where)
        except Exception:
            if not self._follows(before, x):
                raise
        return _Refused(_expected_shape(estimator, method))

    def _follows(self, before: int, x: Table) -> bool:
        """Whether an error may only follow from a part that was refused."""
        parts = x.parts if isinstance(x, Frame) else (x,)
        return len(self.refused) + self._met > before or any(isinstance(part, _Refused) for part in parts)


def _values(result: object) -> Any:
    if isinstance(result, (tuple, list)):
        return tuple(one_value(item) for item in result)
    return one_value(result)


class _Refused(ir.Value):
    """Stands for what could not be lowered, so that the rest of the estimator is looked at all the same."""

    def __init__(self, shape: Sequence[int | None]) -> None:
        # shape inference tells values apart by their names
        super().__init__(name=f"refused_{id(self)}", type=ir.TensorType(ir.DataType.DOUBLE), shape=ir.Shape(shape))


def _expected_shape(estimator: BaseEstimator, method: str) -> list[int | None]:
    if method in ("predict_proba", "predict_log_proba") and np.ndim(getattr(estimator, "classes_", 0)) == 1:
        return [None, len(estimator.classes_)]
    if method == "transform":
        try:
            return [None, len(estimator.get_feature_names_out())]
        except (AttributeError, TypeError, ValueError, NotFittedError):
            return [None, None]
    return [None]


# Methods that say nothing about inference, and `predict`, which no other method of scikit-learn's relies on: a class outside
# scikit-learn may override them.
_FITTING = frozenset(
    "predict fit fit_transform fit_predict partial_fit score get_params set_params get_metadata_routing set_output "
    "get_feature_names_out cv_results_ staged_predict warm_start".split()
)


def find(estimator: BaseEstimator, method: str) -> Entry | None:
    """The entry for a method: the one for its class, else for the class that it inherits the method from.

    Raises:
        UnsupportedOperator: a class outside scikit-learn overrides something that inference may rely on.
    """
    kind = type(estimator)
    for base in kind.__mro__:
        entry = _registered(base, method)
        if entry is not None:
            _require_inherited(kind, base)
            return entry
        if VARIANTS.get(method, method) in vars(base):
            return None
    return None


def _registered(kind: type, method: str) -> Entry | None:
    package = kind.__module__.partition(".")[0]
    entry = table.find(f"{package}.{kind.__name__}.{method}")
    if entry is None:
        entry = table.find(f"{kind.__name__}.{method}")
        if entry is not None and package != _OWN and entry.function.__module__.startswith(_FAMILIES):
            return None  # another package's class of the same name
    return entry


def _require_inherited(kind: type, base: type) -> None:
    for foreign in kind.__mro__[: kind.__mro__.index(base)]:
        if foreign.__module__.partition(".")[0] == _OWN:
            continue
        overridden = sorted(
            name
            for name, item in vars(foreign).items()
            if callable(item) and not name.startswith("__") and name not in _FITTING and not name.startswith("set_")
            if any(hasattr(other, name) for other in foreign.__mro__[1:])
        )
        if overridden:
            raise UnsupportedOperator(f"{foreign.__name__} overrides {', '.join(overridden)} of scikit-learn's class")
