"""Frozen graphs: a `GraphDef` read as a program."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from difflib import get_close_matches
from typing import Any

import tensorflow as tf

from onnxport.errors import InvalidInputError, InvalidModelError, first_line
from onnxport.tracing import dimensions
from onnxport.tracing.tensorflow_inputs import Dynamic
from onnxport.tracing.tensorflow_program import Port, Program, named_ports
from onnxport.tracing.trust.faults import raised_as


def of_graph_def(
    definition: tf.compat.v1.GraphDef,
    dynamic_shapes: object,
    input_names: Sequence[str] | None,
    output_names: Sequence[str] | None,
) -> Program:
    """The program of a frozen graph: by default all placeholders are fed, and the tensors fetched that nothing consumes.

    Raises:
        InvalidModelError: TensorFlow can't import it, or every tensor is consumed.
        InvalidInputError: it has no tensor of a name.
    """
    definition = _with_sizes(definition, dynamic_shapes, input_names)
    graph = tf.Graph()
    with loading("TensorFlow can't import the GraphDef"), graph.as_default():
        tf.graph_util.import_graph_def(definition, name="")
    operations = graph.get_operations()
    if input_names is None:
        input_names = [item.name for item in operations if item.type == "Placeholder"]
    if output_names is None:
        consumed = {tensor.name for item in operations for tensor in item.inputs}
        computed = [item for item in operations if item.outputs and item.type not in ("Const", "Placeholder")]
        output_names = [item.name for item in computed if not any(t.name in consumed for t in item.outputs)]
    feeds = [_tensor(graph, name) for name in input_names]
    fetches = [_tensor(graph, name) for name in output_names]
    if not fetches:
        raise InvalidModelError("the GraphDef has no leaf node: pass output_names=[...]")
    plain = [name.removesuffix(":0") for name in input_names]
    dynamic = Dynamic(dynamic_shapes, plain)
    inputs = named_ports(plain, feeds, dynamic, shared_batch=len(feeds) == 1)
    pairs = zip(output_names, fetches, strict=True)
    outputs = tuple(Port.result(name.removesuffix(":0"), tensor) for name, tensor in pairs)
    return Program(graph, inputs, outputs)


def _with_sizes(
    definition: tf.compat.v1.GraphDef, dynamic_shapes: object, input_names: Sequence[str] | None
) -> tf.compat.v1.GraphDef:
    """The graph with the sizes that are given for dimensions of its placeholders that vary."""
    if dynamic_shapes is None:
        return definition
    names = [item.name for item in definition.node if item.op == "Placeholder"] if input_names is None else input_names
    given = dimensions.by_path(dynamic_shapes, [name.removesuffix(":0") for name in names])
    result = tf.compat.v1.GraphDef()
    result.CopyFrom(definition)
    for node in result.node:
        if node.op == "Placeholder" and node.name in given:
            sizes = node.attr["shape"].shape.dim
            for axis, dim in dimensions.axes(node.name, given[node.name], len(sizes)).items():
                if isinstance(dim, int) and sizes[axis].size == -1:
                    sizes[axis].size = dim
    return result


def _tensor(graph: tf.Graph, name: str) -> Any:
    try:
        return graph.get_tensor_by_name(name if ":" in name else f"{name}:0")
    except (KeyError, ValueError) as error:
        tensors = [output for operation in graph.get_operations() for output in operation.outputs]
        ends = [item.name for item in tensors if item.op.type == "Placeholder" or not item.consumers()]
        near = get_close_matches(name, [item.name for item in tensors], 3) or ends
        raise InvalidInputError(f"the GraphDef has no tensor {name!r}; it has {', '.join(near[:5])}") from error


def loading(failure: str) -> AbstractContextManager[None]:
    """An error while a graph is read is an `InvalidModelError`; what loads an operator that no library has is named."""

    def error_of(error: Exception) -> InvalidModelError:
        unknown = re.search(r"Op type not registered '([^']+)'", str(error))
        reason = first_line(error)
        if unknown is not None:
            reason = (
                f"no library of operators that is loaded has {unknown[1]!r}: load its own before, by tf.load_op_library or "
                "onnxport tf2onnx --load-op-libraries FILE.so"
            )
        return InvalidModelError(f"{failure}: {reason}")

    return raised_as(error_of)
