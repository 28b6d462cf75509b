"""TFLite files as traced programs of TensorFlow's operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from onnxport.errors import TracingError, UnsupportedOperator
from onnxport.tracing.tensorflow_inputs import Dynamic
from onnxport.tracing.tensorflow_lite.file import LiteFile, Signature, Tensor
from onnxport.tracing.tensorflow_lite.graphs import Place, Reader, constants, without_form
from onnxport.tracing.tensorflow_program import Parameter, Port, Program, dtype_of, named_ports


class LiteModel(LiteFile):
    """A TFLite file as a model: what TensorFlow's own kernels make of it, beside what its interpreter does."""

    def specs(self, key: str | None) -> dict[str, tf.TensorSpec]:
        """The inputs of a signature by name, in the order of its graph."""
        return specs(self, self.signature(key))

    def node_names(self, key: str | None) -> dict[int, str]:
        """For each tensor that an operator of a signature's graph gives, by number, the node that gives it in `trace`."""
        nodes: dict[Place, str] = {}
        _traced(self, key, nodes)
        root = self.signature(key).graph
        return {number: name for (graph, number), name in nodes.items() if graph == root}

    def function(self, key: str | None) -> Callable[[Sequence[Any]], list[Any]]:
        """A signature as a function of a list of tensors, in TensorFlow's own operators."""
        signature = self.signature(key)
        arrays: dict[Place, np.ndarray] = {place: array for place, _, array in constants(self, signature.graph)}

        def weight(graph: int, tensor: Tensor) -> Any:
            return tf.constant(arrays[graph, tensor.index])

        return partial(called, self, signature, weight)


def trace(model: LiteFile, *, dynamic_shapes: object = None, signature: str | None = None) -> Program:
    """The program of a TFLite file; example inputs are not needed, the file has the types and sizes.

    Raises:
        UnsupportedOperator: operators without a form, all of them at once.
        InvalidInputError: signature or dynamic dimensions do not fit.
        InvalidModelError: the file is damaged.
    """
    traced = _traced(model, signature, None)
    placeholders, count = list(traced.function.inputs), len(traced.ports)
    names = list(traced.ports)
    dynamic = Dynamic(dynamic_shapes, names)
    graph_inputs = named_ports(names, placeholders[:count], dynamic, shared_batch=count == 1)
    outputs = zip(model.signature(signature).outputs, traced.function.outputs, strict=True)
    graph_outputs = tuple(Port.result(name, item) for name, item in outputs)
    captured = {
        item.name: _parameter(tensor, array)
        for item, (tensor, array) in zip(placeholders[count:], traced.weights, strict=True)
    }
    return Program(traced.function.graph, graph_inputs, graph_outputs, captured)


@dataclass(frozen=True)
class _Traced:
    """The graph of a signature on placeholders for its inputs, `ports`, and for its weights behind them."""

    function: Any
    ports: Mapping[str, tf.TensorSpec]
    weights: Sequence[tuple[Tensor, np.ndarray]]


def _traced(model: LiteFile, signature: str | None, nodes: dict[Place, str] | None) -> _Traced:
    chosen = model.signature(signature)
    refuse_unknown(model, chosen.graph)
    held = list(constants(model, chosen.graph))
    weights = {place: (tensor, array) for place, tensor, array in held if is_weight(tensor, array)}
    others = {place: array for place, _, array in held if place not in weights}
    places = list(weights)
    ports = specs(model, chosen)
    count = len(ports)

    def body(*arguments: Any) -> list[Any]:
        given = dict(zip(places, arguments[count:], strict=True))

        def weight(graph: int, tensor: Tensor) -> Any:
            place = (graph, tensor.index)
            return given[place] if place in given else tf.constant(others[place])

        return called(model, chosen, weight, arguments[:count], nodes)

    weight_specs = [tf.TensorSpec(array.shape, tensor.dtype) for tensor, array in weights.values()]
    function = tf.function(body, autograph=False).get_concrete_function(*ports.values(), *weight_specs)
    return _Traced(function, ports, list(weights.values()))


def refuse_unknown(model: LiteFile, root: int) -> None:
    """Refuses all operators without a form at once.

    Raises:
        UnsupportedOperator: there are some.
    """
    missing = without_form(model, root)
    if missing:
        lines = [f"  {code}: {len(names)} x, as {names[0]!r}" for code, names in missing.items()]
        raise UnsupportedOperator(f"{model.title}: TFLite operators without an ONNX form:\n" + "\n".join(lines))


def specs(model: LiteFile, signature: Signature) -> dict[str, tf.TensorSpec]:
    """The inputs by name, in the order of the signature's graph."""
    graph = model.graph(signature.graph)
    order = {number: place for place, number in enumerate(graph.inputs)}
    named = sorted(signature.inputs.items(), key=lambda item: order.get(item[1], len(order)))
    tensors = {name: graph.tensors[number] for name, number in named}
    return {name: tf.TensorSpec(tensor.dims, tensor.dtype) for name, tensor in tensors.items()}


def called(
    model: LiteFile,
    signature: Signature,
    weights: Callable[[int, Tensor], Any],
    arguments: Sequence[Any],
    nodes: dict[Place, str] | None = None,
) -> list[Any]:
    """The results of a signature, in its order, on arguments in the order of `specs`."""
    graph = model.graph(signature.graph)
    given = {signature.inputs[name]: item for name, item in zip(specs(model, signature), arguments, strict=True)}
    missing = [graph.tensors[number].name for number in graph.inputs if number not in given]
    if missing:
        raise TracingError(f"{model.title}: the signature {signature.key!r} does not name the input {missing[0]!r}")
    results = Reader(model, weights, nodes).run(signature.graph, [given[number] for number in graph.inputs])
    by_number = dict(zip(graph.outputs, results, strict=True))
    unknown = [name for name, number in signature.outputs.items() if number not in by_number]
    if unknown:
        raise TracingError(f"{model.title}: the output {unknown[0]!r} of the signature is none of its graph")
    return [tf.identity(by_number[number]) for number in signature.outputs.values()]


def is_weight(tensor: Tensor, array: np.ndarray) -> bool:
    """Whether a constant is a parameter, which stands in the file under its own name, rather than a number of the graph."""
    return array.size > 1 and (tensor.dtype.is_floating or tensor.steps is not None)


def _parameter(tensor: Tensor, array: np.ndarray) -> Parameter:
    return Parameter(tensor.name, lambda: array, dtype_of(tensor.dtype), array.shape)
