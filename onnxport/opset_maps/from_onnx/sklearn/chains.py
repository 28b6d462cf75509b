"""Graphs as skl2onnx and others write them, back to estimators: from the outputs to the inputs, one function a shape.

What is rebuilt has the graph's own numbers, in the class that the operators tell of; scikit-learn's parameters that they do not
tell of stay as they are by default.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxport.opset_maps.from_onnx.sklearn.patterns import (
    Bound,
    Constant,
    Shape,
    carried,
    label_of,
    matched,
    matched_all,
    op,
)

Attributes = dict[str, Any]
Rebuild = Callable[[Attributes], Any]
_OPERATORS: dict[str, Rebuild] = {}
LABEL = Constant("classes")


@dataclass(frozen=True)
class Step:
    """An estimator, and the rows that it takes: of several values the columns beside each other."""

    estimator: Any
    sources: tuple[ir.Value, ...]
    fills: Any = None  # an imputer before it, for missing values that the graph fills by the way


StepReader = Callable[[ir.Value], Step | None]
_TRANSFORMERS: list[StepReader] = []
OutputsReader = Callable[[Sequence[ir.Value]], Iterator[Step]]
_PREDICTORS: list[OutputsReader] = []


def rebuilds(op_type: str) -> Callable[[Rebuild], Rebuild]:
    """Registers the decorated function for an operator of ai.onnx.ml: it gets its attributes and gives an estimator, or None."""

    def register(function: Rebuild) -> Rebuild:
        _OPERATORS[op_type] = function
        return function

    return register


def reads_step(function: StepReader) -> StepReader:
    """Registers a function that tells of a value which transformer gives it, and from which rows; None where it knows none."""
    _TRANSFORMERS.append(function)
    return function


def transforms(*shapes: Shape) -> Callable[[Callable[[Bound], Any]], Callable[[Bound], Any]]:
    """Registers the decorated function for values of one of some shapes: it gets what is bound and gives a transformer,
    or None.
    """

    def register(function: Callable[[Bound], Any]) -> Callable[[Bound], Any]:
        def reader(value: ir.Value) -> Step | None:
            bound = next((match for shape in shapes if (match := matched(shape, value)) is not None), None)
            estimator = function(bound) if bound is not None else None
            if bound is None or estimator is None or isinstance(estimator, Step):
                return estimator
            return Step(estimator, (bound["rows"],))

        _TRANSFORMERS.append(reader)
        return function

    return register


def predicts(*shapes: Shape) -> Callable[[Callable[[Bound], Any]], Callable[[Bound], Any]]:
    """Registers the decorated function for a graph's outputs of these shapes, one each.

    It gives an estimator, several that the outputs may be of, or None.

    A label's types and forms are looked through, scores' maps and forms too.
    """

    def register(function: Callable[[Bound], Any]) -> Callable[[Bound], Any]:
        def reader(outputs: Sequence[ir.Value]) -> Iterator[Step]:
            if len(outputs) != len(shapes):
                return
            bound = matched_all(shapes, [label_of(outputs[0]), *outputs[1:]])
            estimators = _several(function(bound)) if bound is not None else ()
            yield from (Step(item, (bound["rows"],)) for item in estimators if bound is not None and item is not None)

        _PREDICTORS.append(reader)
        return function

    return register


def reads_outputs(function: OutputsReader) -> OutputsReader:
    """Registers a function that tells of a graph's outputs which predictors may give them."""
    _PREDICTORS.append(function)
    return function


def named(best: Shape) -> Shape:
    """The shape of labels that are those of the greatest score."""
    return op("ArrayFeatureExtractor", LABEL, op("ArgMax", best))


def transformer_of(value: ir.Value) -> Step | None:
    """Which transformer gives a value, and from which rows; None where that isn't known."""
    value = carried(value)
    for reader in (*_TRANSFORMERS, _ml_transformer):
        step = reader(value)
        if step is not None:
            return step
    return None


def predictors_of(outputs: Sequence[ir.Value], width: Callable[[ir.Value], int | None]) -> Iterator[Step]:
    """The predictors that may give a graph's outputs.

    Raises:
        Exception: attributes of a damaged file do not fit together.
    """
    for reader in _PREDICTORS:
        yield from reader(outputs)
    node = _operator_of_label(outputs[0])
    rebuild = _OPERATORS.get(node.op_type) if node is not None and node.domain == "ai.onnx.ml" else None
    if node is None or rebuild is None or node.inputs[0] is None:
        return
    given = attributes_of(node)
    columns = width(node.inputs[0])
    estimators = _several(rebuild(given | ({"n_columns": columns} if columns is not None else {})))
    yield from (Step(item, (node.inputs[0],)) for item in estimators if hasattr(item, "predict"))


def _several(estimators: Any) -> tuple[Any, ...]:
    """The estimators that a function gives: one, or a tuple of those that a shape may be."""
    return estimators if isinstance(estimators, tuple) else (estimators,)


def _operator_of_label(value: ir.Value) -> ir.Node | None:
    """The operator behind a label, or behind the scores whose greatest it is."""
    node = label_of(value).producer()
    while node is not None and node.op_type in ("ArrayFeatureExtractor", "ArgMax", "LabelEncoder", "Gather", "Sign"):
        place = 1 if node.op_type in ("ArrayFeatureExtractor", "Gather") and node.inputs[0] is not None else 0
        if place and node.inputs[0].const_value is None:  # type: ignore[union-attr]
            place = 0
        following = node.inputs[place]
        node = label_of(following).producer() if following is not None else None
    return node


def _ml_transformer(value: ir.Value) -> Step | None:
    """A transformer that one operator of ai.onnx.ml is."""
    node = value.producer()
    rebuild = _OPERATORS.get(node.op_type) if node is not None and node.domain == "ai.onnx.ml" else None
    if node is None or rebuild is None or node.inputs[0] is None or node.outputs[0] is not value:
        return None
    estimator = rebuild(attributes_of(node))
    return Step(estimator, (node.inputs[0],)) if hasattr(estimator, "transform") else None


def attributes_of(node: ir.Node) -> Attributes:
    """The attributes of a node, lists of numbers as arrays."""
    given: Attributes = {}
    for name, item in node.attributes.items():
        if not isinstance(item, ir.Attr):
            continue
        kind = item.type
        if kind == ir.AttributeType.TENSOR:
            given[name.removesuffix("_as_tensor")] = item.value.numpy()
        elif kind in (ir.AttributeType.FLOATS, ir.AttributeType.INTS):
            given[name] = np.asarray(item.value)
        else:
            given[name] = list(item.value) if kind == ir.AttributeType.STRINGS else item.value
    return given


def labels_of(given: Mapping[str, Any]) -> np.ndarray:
    """The classes that a classifier names."""
    texts = given.get("classlabels_strings")
    return (
        np.array(texts)
        if texts
        else np.asarray(given.get("classlabels_int64s", given.get("classlabels_ints")), np.int64)
    )


def classes_of(bound: Bound) -> np.ndarray:
    """The classes among which a label is looked up."""
    labels = np.asarray(bound["classes"]).reshape(-1)
    if labels.dtype.kind in "OSU":
        return np.array([item.decode() if isinstance(item, bytes) else str(item) for item in labels])
    return labels.astype(np.int64) if labels.dtype.kind in "iu" else labels
