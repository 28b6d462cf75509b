"""What a traced TensorFlow program is: a function graph, its inputs, outputs and what it captured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
import onnx_ir as ir
import tensorflow as tf
from tensorflow.python.framework.function_def_to_graph import (
    function_def_to_graph,
)  # no public form reads a FunctionDef

from onnxport.errors import InvalidInputError, InvalidModelError
from onnxport.graph.names import check_outputs_apart, chosen_names
from onnxport.graph.walks import operands_first
from onnxport.tracing.tensorflow_inputs import Dynamic

Dims = tuple[int | str | None, ...] | None
# The operator whose results stand for weights that a trace gives to a model: it takes nothing, and gives types and shapes.
WEIGHTS = "InfeedDequeueTuple"


@dataclass(frozen=True)
class Port:
    """One input or output of a program."""

    name: str  # the user's name for it
    tensor: Any  # the graph's tensor
    dtype: ir.DataType
    shape: Dims  # its dimensions, dynamic ones by name; None where the rank is unknown

    @classmethod
    def given(cls, name: str, tensor: tf.Tensor, axes: Mapping[int, str | None], *, shared_batch: bool) -> Port:
        """A placeholder as input, the names of its dynamic dimensions in `axes`."""
        return cls(name, tensor, dtype_of(tensor.dtype), _dimensions(name, tensor, axes, shared_batch))

    @classmethod
    def result(cls, name: str, tensor: tf.Tensor) -> Port:
        """A tensor as output, its dimensions as far as TensorFlow knows them."""
        shape = tuple(tensor.shape.as_list()) if tensor.shape.rank is not None else None
        return cls(name, tensor, dtype_of(tensor.dtype), shape)


@dataclass(frozen=True)
class Variable:
    """A variable or large constant that the program captured."""

    name: str  # its own name
    read: Callable[[], Any]  # gives its present value as an eager tensor, without a copy
    dtype: ir.DataType
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Parameter(Variable):
    """A weight that the program takes as a tensor, not through the handle of a variable."""


@dataclass
class Program:
    """A traced TensorFlow program."""

    graph: Any  # the graph, nodes in any order
    inputs: tuple[Port, ...]  # the user's inputs
    outputs: tuple[Port, ...]  # the results
    # What stands for the graph's other placeholders, by tensor name: `Variable`, `Parameter`, eager tensor or resource.
    captured: Mapping[str, Any] = field(default_factory=dict)
    _functions: dict[tuple[str, Any], Any] = field(default_factory=dict)

    def evaluated(self, tensor: Any) -> Any:
        """The present value of a tensor that depends on no input: a variable of TensorFlow 1, or the handle of a table."""
        definition = self.graph.as_graph_def()
        needed = operands_first([tensor.op], lambda node: [*(item.op for item in node.inputs), *node.control_inputs])
        names = {node.name for node in needed}
        for index in reversed([i for i, node in enumerate(definition.node) if node.name not in names]):
            del definition.node[index]

        def read() -> Any:
            (value,) = tf.graph_util.import_graph_def(definition, name="", return_elements=[tensor.name])
            return tf.identity(value)

        return tf.compat.v1.wrap_function(read, [])()

    def has_function(self, name: str) -> bool:
        """Whether the library holds a function of this name."""
        return self.graph._get_function(name) is not None

    def implements(self, name: str) -> str:
        """What a library function implements by its own word, the name of an entry of the map; empty where it names none."""
        atomic = self.graph._get_function(name)
        definition = atomic.cached_definition if hasattr(atomic, "cached_definition") else atomic.definition
        return str(definition.attr["_implements"].s.decode()) if "_implements" in definition.attr else ""

    def argument_types(self, name: str) -> list[tf.DType]:
        """The element types of a library function's arguments."""
        atomic = self.graph._get_function(name)
        definition = atomic.cached_definition if hasattr(atomic, "cached_definition") else atomic.definition
        return [tf.as_dtype(item.type) for item in definition.signature.input_arg]

    def function(self, name: str, shapes: Sequence[Any] | None = None) -> Any:
        """The graph of a library function; the `shapes` of its arguments are for one that was loaded without them."""
        atomic = self.graph._get_function(name)
        own = getattr(atomic, "graph", None)
        if own is not None and getattr(own, "outputs", None) is not None and not _restored(own):
            return own
        key = (name, tuple(str(item) for item in shapes or ()))
        if key not in self._functions:
            definition = atomic.cached_definition if hasattr(atomic, "cached_definition") else atomic.definition
            with self.graph.as_default():
                self._functions[key] = function_def_to_graph(definition, input_shapes=shapes)
        return self._functions[key]


def _restored(graph: tf.Graph) -> bool:
    """Whether a graph came from a SavedModel with arguments of unknown shape."""
    return any(item.shape.rank is None and item.dtype not in (tf.resource, tf.variant) for item in graph.inputs)


# Integers that stand for steps of a range; ONNX has the integers alone.
_QUANTISED = {
    tf.quint8: ir.DataType.UINT8,
    tf.qint8: ir.DataType.INT8,
    tf.quint16: ir.DataType.UINT16,
    tf.qint16: ir.DataType.INT16,
    tf.qint32: ir.DataType.INT32,
}


@cache
def dtype_of(dtype: tf.DType) -> ir.DataType:
    """The ONNX element type of a TensorFlow one; of a quantised type that of its integers.

    Raises:
        InvalidModelError: ONNX has none.
    """
    if dtype in _QUANTISED:
        return _QUANTISED[dtype]
    try:
        return ir.DataType.from_numpy(np.dtype(dtype.as_numpy_dtype))
    except (KeyError, TypeError) as error:
        raise InvalidModelError(f"the TensorFlow type {dtype.name} has no ONNX form") from error


def array_of(tensor: tf.Tensor) -> np.ndarray:
    """An eager tensor's numbers, sharing its storage where NumPy knows the element type."""
    if tensor.dtype in (tf.bfloat16, tf.string) or not hasattr(tensor, "__array__"):
        return np.asarray(tensor.numpy())
    try:
        return np.asarray(memoryview(tensor))
    except (TypeError, ValueError, BufferError):
        return np.asarray(tensor.numpy())


def _dimensions(name: str, tensor: tf.Tensor, named: Mapping[int, str | None], shared_batch: bool) -> Dims:
    """A placeholder's dimensions; the unknown ones are named."""
    if tensor.shape.rank is None:
        return None
    sizes = tensor.shape.as_list()
    given = {axis % len(sizes): label for axis, label in named.items()} if sizes else {}

    def label(axis: int) -> str:
        return given.get(axis) or ("batch" if axis == 0 and shared_batch else f"{name}_dim_{axis}")

    return tuple(label(axis) if size is None else size for axis, size in enumerate(sizes))


def named_ports(
    names: Sequence[str], tensors: Sequence[Any], dynamic: Dynamic, *, shared_batch: bool
) -> tuple[Port, ...]:
    """A graph's placeholders as inputs, the names of the dimensions that vary as the user asked.

    Raises:
        InvalidInputError: a name is for a dimension that does not vary, or for an input that is not there.
    """
    dynamic.check(names)
    ports: list[Port] = []
    for name, tensor in zip(names, tensors, strict=True):
        sizes = tensor.shape.as_list() if tensor.shape.rank is not None else []
        axes = dynamic.axes(name, sizes)
        fixed = next((axis for axis in axes if sizes[axis] is not None), None)
        if fixed is not None:
            raise InvalidInputError(
                f"dynamic_shapes: dimension {fixed} of {name!r} is fixed at {sizes[fixed]} by the model's own signature"
            )
        ports.append(Port.given(name, tensor, axes, shared_batch=shared_batch))
    return tuple(ports)


def renamed(program: Program, input_names: Sequence[str] | None, output_names: Sequence[str] | None) -> Program:
    """The program with the names that the user gave.

    Raises:
        InvalidInputError: their number differs, or an output would have an input's name.
    """

    def apply(option: str, ports: tuple[Port, ...], chosen: Sequence[str] | None) -> tuple[Port, ...]:
        names = chosen_names(option, [port.name for port in ports], chosen)
        return tuple(replace(port, name=name) for port, name in zip(ports, names, strict=True))

    program.inputs = apply("input_names", program.inputs, input_names)
    program.outputs = apply("output_names", program.outputs, output_names)
    check_outputs_apart((port.name for port in program.inputs), output_names)
    return program
