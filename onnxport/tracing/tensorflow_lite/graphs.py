"""A graph of a TFLite file, run on TensorFlow's tensors: symbolic ones give its graph, eager ones its results."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tensorflow as tf

from onnxport.errors import UnsupportedOperator, first_line
from onnxport.tracing.tensorflow_lite.file import FLOAT32, Graph, LiteFile, Operator, Tensor, array_of, called
from onnxport.tracing.tensorflow_lite.node import Node
from onnxport.tracing.tensorflow_lite.operators import TABLE
from onnxport.tracing.tensorflow_lite.quantised import is_quantised, run
from onnxport.tracing.trust.faults import damaged

Weights = Callable[[int, Tensor], Any]  # what stands for a constant of a graph
Place = tuple[int, int]  # of a constant: graph and tensor


@dataclass(frozen=True)
class Reader:
    """Runs the graphs of a file; `weights` gives what stands for its constants."""

    model: LiteFile
    weights: Weights
    nodes: dict[Place, str] | None = None  # where the names of the nodes go that give each tensor of a symbolic run

    def run(self, index: int, arguments: Sequence[Any]) -> list[Any]:
        """The results of a graph on its arguments.

        Raises:
            UnsupportedOperator: an operator has no form.
        """
        graph = self.model.graph(index)
        if len(arguments) != len(graph.inputs):
            raise damaged(
                self.model.title, f"graph {index} takes {len(graph.inputs)} inputs, {len(arguments)} are given"
            )
        values: dict[int, Any] = dict(zip(graph.inputs, arguments, strict=True))
        for operator in graph.operators:
            operands = [self._value(index, graph, values, number) for number in operator.inputs]
            results = self._results(graph, operator, operands)
            values.update(zip(operator.outputs, results, strict=True))
            if self.nodes is not None:
                named = zip(operator.outputs, results, strict=True)
                self.nodes.update(((index, number), item.op.name) for number, item in named if item is not None)
        return [self._value(index, graph, values, number) for number in graph.outputs]

    def _value(self, index: int, graph: Graph, values: dict[int, Any], number: int) -> Any:
        if number < 0:
            return None
        if number not in values:
            tensor = graph.tensors[number]
            if tensor.data is None and tensor.is_variable:
                values[number] = None  # a state, which its operator starts with zeros
            elif tensor.data is None and 0 not in tensor.dims:
                raise damaged(self.model.title, f"tensor {tensor.name!r} is read before anything gives it a value")
            else:
                values[number] = self.weights(index, tensor)
        return values[number]

    def _results(self, graph: Graph, operator: Operator, operands: list[Any]) -> Sequence[Any]:
        inputs = tuple(graph.tensors[number] if number >= 0 else None for number in operator.inputs)
        node = Node(operator, inputs, tuple(graph.tensors[number] for number in operator.outputs), self.run)
        function = TABLE.get(operator.code) if not operator.custom else None
        if function is None:
            raise node.refused("it has no form in TensorFlow's operators")
        with tf.name_scope(scope_of(node.outputs[0].name) if node.outputs else "operator"):
            try:
                results = run(node, function, operands) if is_quantised(node) else function(node, *operands)
            except (UnsupportedOperator, tf.errors.OperatorNotAllowedInGraphError):
                raise
            except (ValueError, TypeError, IndexError, AttributeError, tf.errors.OpError) as error:
                raise damaged(self.model.title, f"{node.label}: {first_line(error)}") from error
        flat = list(results) if isinstance(results, (list, tuple)) else [results]
        if len(flat) != len(node.outputs):
            raise damaged(self.model.title, f"{operator.code} has {len(node.outputs)} results in place of {len(flat)}")
        for tensor, value in zip(node.outputs, flat, strict=True):
            if value is not None and value.dtype != tensor.dtype:
                raise damaged(
                    self.model.title, f"{tensor.name!r} is declared {tensor.type_name}, but is {value.dtype.name}"
                )
        return flat


def without_form(model: LiteFile, root: int) -> Mapping[str, list[str]]:
    """The operators that have no form, in all graphs that are reached, with the tensors that they give."""
    result: dict[str, list[str]] = {}
    for index in reached(model, root):
        graph = model.graph(index)
        for operator in graph.operators:
            if operator.custom or operator.code not in TABLE:
                names = [graph.tensors[number].name for number in operator.outputs[:1]]
                result.setdefault(operator.code, []).extend(names)
    return result


def reached(model: LiteFile, root: int) -> list[int]:
    """A graph and those that its operators run."""
    seen = [root]
    for index in seen:
        seen += [item for op in model.graph(index).operators for item in called(op) if item not in seen]
    return list(dict.fromkeys(seen))


def constants(model: LiteFile, root: int) -> Iterator[tuple[Place, Tensor, np.ndarray]]:
    """The constants that the operators of a graph, and of those that it runs, read."""
    for index in reached(model, root):
        graph = model.graph(index)
        given = {*graph.inputs, *(number for op in graph.operators for number in op.outputs)}
        read = dict.fromkeys([*(number for op in graph.operators for number in op.inputs), *graph.outputs])
        for number in read:
            if number < 0 or number in given:
                continue
            tensor = graph.tensors[number]
            if tensor.data is not None or 0 in tensor.dims:
                array = array_of(model.title, tensor)
                yield (
                    (index, number),
                    *(_real(tensor, array) if tensor.dtype == tf.int64 and tensor.steps else (tensor, array)),
                )


def _real(tensor: Tensor, array: np.ndarray) -> tuple[Tensor, np.ndarray]:
    """The biases of 16-bit activations, which ONNX has no such type for, as the real numbers that they stand for."""
    scale = tensor.steps.scale.astype(np.float64) if tensor.steps is not None else 1.0
    return replace(tensor, kind=FLOAT32, steps=None), (array * scale).astype(np.float32)


def scope_of(name: str) -> str:
    """A tensor's name as a scope of TensorFlow: of fused operators the first one's."""
    plain = re.sub(r"[^A-Za-z0-9_.\\/>-]", "_", name.split(";")[0].removesuffix(":0"))
    return plain if re.match(r"[A-Za-z0-9.]", plain) else f"operator{plain}"
