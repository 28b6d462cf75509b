"""The estimators that a graph without a record may be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import onnx_ir as ir
from sklearn.preprocessing import FunctionTransformer

from onnxport.graph.outputs import Output
from onnxport.opset_maps.from_onnx.sklearn.chains import predictors_of
from onnxport.opset_maps.from_onnx.sklearn.flows import Table, assembled

_MOST = 12  # candidates of one graph
_MOST_NODES = 4096


def recognised(model: ir.Model) -> Iterator[tuple[Any, tuple[Output, ...]]]:
    """Estimators that a graph may be, the likeliest first, and the method behind each of its outputs.

    Raises:
        Exception: attributes of a damaged file do not fit together.
    """
    inputs = [value for value in model.graph.inputs if value.name not in model.graph.initializers]
    outputs = list(model.graph.outputs)
    if not inputs or len(model.graph) > _MOST_NODES or len(outputs) not in (1, 2):
        return
    yield from islice(_candidates(Table(inputs), outputs), _MOST)


def _candidates(table: Table, outputs: Sequence[ir.Value]) -> Iterator[tuple[Any, tuple[Output, ...]]]:
    for step in predictors_of(outputs, table.width_of):
        flow = table.joined(step.sources, outputs[0])
        if flow is not None:
            estimator = assembled(flow, table, step.estimator)
            for produced in _produced(estimator, outputs):
                yield estimator, produced
    flow = table.flow(outputs[0]) if len(outputs) == 1 else None
    if flow is not None:
        estimator = assembled(flow, table) if flow.whole.steps else FunctionTransformer()
        yield estimator, (Output(outputs[0].name or "", "transform"),)


def _produced(estimator: Any, outputs: Sequence[ir.Value]) -> Iterator[tuple[Output, ...]]:
    """The methods that may be behind the outputs, and the forms of their results."""
    first = Output(outputs[0].name or "", "predict", form="row" if _is_row(outputs[0]) else "array")
    if len(outputs) == 1:
        yield (first,)
        return
    name, producer = outputs[1].name or "", outputs[1].producer()
    maps = producer is not None and producer.op_type == "ZipMap"
    for method in ("predict_proba", "decision_function", "transform"):
        if not hasattr(estimator, method):
            continue
        two = method == "decision_function" and len(getattr(estimator, "classes_", ())) == 2
        for form in ("pair", "turned pair", "") if two else ("",):
            yield first, Output(name, method, form=f"{form} zipmap".strip() if maps else form or "array")


def _is_row(value: ir.Value) -> bool:
    """Whether the labels of all rows stand in one, as skl2onnx writes those of discriminant analysis."""
    shape = list(value.shape or ())
    return len(shape) == 2 and shape[0] == 1 and not isinstance(shape[1], int)
