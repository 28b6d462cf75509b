"""scikit-learn to ONNX: lowers an estimator's methods through the map, sub-estimators through `op.call`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir
import sklearn
from sklearn.base import is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from onnxport.converters.to_onnx.finish import finish
from onnxport.errors import InvalidInputError, Unsupported, UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.graph.provenance import Source
from onnxport.model import OnnxModel
from onnxport.opset_maps.maps import sklearn as table
from onnxport.opset_maps.registry import Entry
from onnxport.opset_maps.to_onnx.sklearn.table import Frame, Table, matrix
from onnxport.request import Request
from onnxport.tracing.sklearn import columns_of

_WAY_OUT = "add a mapping with onnxport.register_to_onnx('sklearn', '<Estimator.method>')"
# Methods that a class outside scikit-learn may override without changing what is inferred.
_OWN = "sklearn"


def export(model: Any, request: Request) -> OnnxModel:
    """A fitted estimator as ONNX, not validated; the batch dimension is dynamic.

    Raises:
        UnsupportedOperator: estimators, methods or options without an ONNX form, all of them.
        InvalidInputError: the estimator is not fitted, or inputs or names do not fit.
    """
    try:
        check_is_fitted(model)
    except (NotFittedError, TypeError) as error:
        raise InvalidInputError(str(error)) from error
    columns = columns_of(request.inputs if request.inputs is not None else request.kwargs, model)
    names = _named([column.name for column in columns], request.input_names, "input")
    outputs = outputs_of(model, request.methods)
    output_names = _named([name for name, _, _ in outputs], request.output_names, "output")
    op = OpBuilder(request.target_opset)
    values = [
        op.input(name, column.dtype, ["batch"] if column.width is None else ["batch", column.width])
        for name, column in zip(names, columns, strict=True)
    ]
    final_names = [op.names.unique(name) for name in output_names]
    x: Table = values[0] if len(values) == 1 else Frame(tuple(column.name for column in columns), tuple(values))
    if len(values) == 1 and hasattr(request.inputs, "columns"):
        x = Frame((columns[0].name,), (values[0],))
    lowering = Lowering(op)
    tables = [lowering.method(op, model, method, x, index) for _, method, index in outputs]
    lowering.raise_refused()
    results = [matrix(op, item) for item in tables]
    finished = finish(op, results, final_names)
    finished.metadata_props["sklearn_version"] = str(getattr(model, "_sklearn_version", None) or sklearn.__version__)
    return OnnxModel(finished)


def outputs_of(model: Any, methods: Sequence[str] | None) -> list[tuple[str, str, int | None]]:
    """For each output its name, the method behind it and which of the method's results it is.

    A classifier gives ``label`` and ``probabilities`` (only ``label`` where it has no probabilities), anything else
    ``variable``; with `methods` the outputs bear the methods' names.
    """
    if methods:
        found: list[tuple[str, str, int | None]] = []
        for method in methods:
            if method in ("kneighbors", "radius_neighbors"):
                found += [(f"{method}_distances", method, 0), (f"{method}_indices", method, 1)]
            elif method == "predict_std":
                found.append((method, "predict_std", None))
            elif not hasattr(model, method):
                raise InvalidInputError(f"{type(model).__name__} has no method {method!r}")
            else:
                found.append((method, method, None))
        return found
    if is_classifier(model):
        scores = [("probabilities", "predict_proba", None)] if hasattr(model, "predict_proba") else []
        return [("label", "predict", None), *scores]
    method = "predict" if hasattr(model, "predict") else "transform"
    if not hasattr(model, method):
        raise InvalidInputError(f"{type(model).__name__} has neither predict nor transform for new rows")
    return [("variable", method, None)]


class Lowering:
    """Lowers methods of estimators, each once for the same input, and collects what is refused."""

    def __init__(self, op: OpBuilder) -> None:
        self._done: dict[tuple[Any, ...], Any] = {}
        self._kept: list[Any] = []
        self._refused: list[Unsupported] = []
        op.on_call(self.method)

    def method(
        self, op: OpBuilder, estimator: Any, method: str, x: Table, index: int | None = None, *, step: str = ""
    ) -> Any:
        """What ``estimator.method(x)`` gives, or one of its results."""
        key = (id(estimator), method, x)
        if key not in self._done:
            self._kept.append(estimator)  # an id is one object's only while that lives
            self._done[key] = self._lower(op, estimator, method, x, step)
        result = self._done[key]
        return result if index is None or isinstance(result, _Refused) else result[index]

    def _lower(self, op: OpBuilder, estimator: Any, method: str, x: Table, step: str) -> Any:
        name = f"{type(estimator).__name__}.{method}"
        outer = op.source.module if op.source else ""
        source = Source(
            name, module=".".join(part for part in (outer, step) if part), name=step or type(estimator).__name__
        )
        entry = find(estimator, method)
        if entry is None:
            self._refused.append(Unsupported("sklearn", name, where=source.where))
            return _Refused()
        try:
            with op.at(source):
                return entry.function(op, estimator, x)
        except UnsupportedOperator as error:
            if not error.operators:
                self._refused.append(Unsupported("sklearn", name, str(error), source.where))
            return _Refused()
        except AttributeError:
            if self._refused:  # a consequence of a part that was refused
                return _Refused()
            raise

    def raise_refused(self) -> None:
        """One error for everything that was refused."""
        if self._refused:
            raise UnsupportedOperator.of(self._refused, way_out=_WAY_OUT)


class _Refused(ir.Value):
    """Stands for what could not be lowered, so that the rest of the estimator is looked at all the same."""

    def __init__(self) -> None:
        super().__init__(name="refused", type=ir.TensorType(ir.DataType.DOUBLE))


def find(estimator: Any, method: str) -> Entry | None:
    """The entry for a method: that of the class, else of the class it inherits the method from.

    A class outside scikit-learn that overrides the method, or anything else but its constructor, is not looked through.
    """
    for kind in type(estimator).__mro__:
        entry = table.find(f"{kind.__name__}.{method}")
        if entry is not None:
            return entry
        if kind.__module__.partition(".")[0] != _OWN and any(
            callable(item) and not name.startswith("__") for name, item in vars(kind).items()
        ):
            return None
    return None


def _named(names: list[str], said: Sequence[str] | None, what: str) -> list[str]:
    if said is None:
        return names
    if len(said) != len(names):
        raise InvalidInputError(f"{len(said)} {what} names are given, the model has {len(names)}: {', '.join(names)}")
    return list(said)
