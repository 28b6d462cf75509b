"""TensorFlow models as traced programs: a function graph, its inputs, outputs and what it captured.

Nothing is frozen or copied: the program refers to the graph that TensorFlow traced and to the variables themselves.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.python.framework.function_def_to_graph import (
    function_def_to_graph,
)  # no public form reads a FunctionDef

from onnxport.errors import InvalidInputError, InvalidModelError, TracingError

Dims = tuple[int | str | None, ...] | None


@dataclass(frozen=True)
class Port:
    """One input or output of a program.

    Attributes:
        name: the user's name for it.
        tensor: the graph's tensor.
        dtype: its element type.
        shape: its dimensions, dynamic ones by name; None where the rank is unknown.
    """

    name: str
    tensor: Any
    dtype: ir.DataType
    shape: Dims


@dataclass(frozen=True)
class Variable:
    """A variable or large constant that the program captured.

    Attributes:
        name: its own name.
        read: gives its present value as an eager tensor, without a copy.
        dtype: element type.
        shape: its shape.
    """

    name: str
    read: Callable[[], Any]
    dtype: ir.DataType
    shape: tuple[int, ...]


@dataclass
class Program:
    """A traced TensorFlow program.

    Attributes:
        graph: the graph, nodes in any order.
        inputs: the user's inputs.
        outputs: the results.
        captured: what stands for the graph's other placeholders, by tensor name: `Variable`, eager tensor or resource.
        notes: what tracing has to say.
    """

    graph: Any
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    captured: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    _functions: dict[tuple[str, Any], Any] = field(default_factory=dict)

    def has_function(self, name: str) -> bool:
        """Whether the library holds a function of this name."""
        return self.graph._get_function(name) is not None

    def function(self, name: str, shapes: Sequence[Any] | None = None) -> Any:
        """The graph of a library function, with `inputs` and `outputs`.

        Args:
            name: the function's name.
            shapes: static shapes of the arguments, for functions that were loaded without them.
        """
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


def _restored(graph: Any) -> bool:
    """Whether a graph came from a SavedModel with arguments of unknown shape."""
    return any(item.shape.rank is None and item.dtype not in (tf.resource, tf.variant) for item in graph.inputs)


def dtype_of(dtype: Any) -> ir.DataType:
    """The ONNX element type of a TensorFlow one.

    Raises:
        InvalidModelError: ONNX has none (quantized types).
    """
    found = _DTYPES.get(dtype.name)
    if found is None:
        raise InvalidModelError(f"the TensorFlow type {dtype.name} has no ONNX form")
    return found


_DTYPES: dict[str, ir.DataType] = {
    "float16": ir.DataType.FLOAT16,
    "bfloat16": ir.DataType.BFLOAT16,
    "float32": ir.DataType.FLOAT,
    "float64": ir.DataType.DOUBLE,
    "bool": ir.DataType.BOOL,
    "string": ir.DataType.STRING,
    "complex64": ir.DataType.COMPLEX64,
    "complex128": ir.DataType.COMPLEX128,
    "int4": ir.DataType.INT4,
    "uint4": ir.DataType.UINT4,
    "float8_e5m2": ir.DataType.FLOAT8E5M2,
    "float8_e4m3fn": ir.DataType.FLOAT8E4M3FN,
    **{f"{sign}int{bits}": ir.DataType[f"{sign.upper()}INT{bits}"] for sign in ("", "u") for bits in (8, 16, 32, 64)},
}


def array_of(tensor: Any) -> np.ndarray:
    """An eager tensor's numbers, sharing its storage where NumPy knows the element type."""
    if tensor.dtype in (tf.bfloat16, tf.string) or not hasattr(tensor, "__array__"):
        return np.asarray(tensor.numpy())
    try:
        return np.asarray(memoryview(tensor))
    except (TypeError, ValueError, BufferError):
        return np.asarray(tensor.numpy())


# -- loading -----------------------------------------------------------------------------------------------------------


def load(path: str | os.PathLike[str], *, allow_pickle: bool = False) -> Any:
    """The live model of a SavedModel directory, or the `GraphDef` of a frozen ``.pb`` file.

    Raises:
        InvalidModelError: it is neither, or corrupt.
    """
    place = Path(path)
    if place.suffix.lower() == ".tflite":
        raise InvalidModelError(
            f"{str(path)!r}: TFLite files are not supported yet; convert the model that it was made from"
        )
    if place.is_dir():
        return _load_saved_model(place)
    if place.name in ("saved_model.pb", "saved_model.pbtxt"):
        return _load_saved_model(place.parent)
    graph = tf.compat.v1.GraphDef()
    try:
        graph.ParseFromString(place.read_bytes())
    except (DecodeError, OSError) as error:
        raise InvalidModelError(f"{str(path)!r} is corrupt or no frozen GraphDef: {error}") from error
    if not graph.node:
        raise InvalidModelError(f"{str(path)!r} is no frozen GraphDef: it holds no node")
    return graph


def _load_saved_model(place: Path) -> Any:
    if not (place / "saved_model.pb").exists() and not (place / "saved_model.pbtxt").exists():
        raise InvalidModelError(f"the directory {str(place)!r} is no SavedModel: it holds no saved_model.pb")
    try:
        return tf.saved_model.load(str(place))
    except Exception as error:  # TensorFlow raises many types for a damaged file
        raise InvalidModelError(f"the SavedModel {str(place)!r} can't be loaded: {_first_line(error)}") from error


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


# -- tracing -----------------------------------------------------------------------------------------------------------


def trace(
    model: Any,
    *,
    inputs: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    signature: str | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
) -> Program:
    """The program of a SavedModel, `tf.function`, concrete function, `tf.Module`, frozen GraphDef or plain callable.

    Args:
        model: what to trace.
        inputs: example inputs, a tuple or a dict by name; not needed where `model` has a signature.
        kwargs: example keyword inputs.
        dynamic_shapes: names of dimensions, by input name or position; without a signature, the dimensions that vary
            (default: dimension 0 of every input).
        signature: which signature of a SavedModel.
        input_names: for a GraphDef the tensors to feed, else names to give the inputs.
        output_names: for a GraphDef the tensors to fetch, else names to give the outputs.

    Raises:
        TracingError: TensorFlow can't trace it.
        InvalidInputError: inputs, signature or names do not fit.
        InvalidModelError: it is nothing that can be traced.
    """
    if isinstance(model, tf.compat.v1.GraphDef):
        return _of_graph_def(model, dynamic_shapes, input_names, output_names)
    function, named_by_signature = _function_of(model, signature)
    if not hasattr(function, "structured_input_signature"):
        function = concrete(function, inputs, kwargs, dynamic_shapes)
    program = of_concrete(function, dynamic_shapes=dynamic_shapes, by_signature=named_by_signature)
    return renamed(program, input_names, output_names)


def _function_of(model: Any, signature: str | None) -> tuple[Any, bool]:
    """The callable to trace, and whether it is a SavedModel's signature."""
    signatures = getattr(model, "signatures", None)
    if isinstance(signatures, Mapping) and signatures:
        if signature is None:
            signature = "serving_default" if "serving_default" in signatures else None
        if signature is None and len(signatures) == 1:
            signature = next(iter(signatures))
        if signature in signatures:
            return signatures[signature], True
        raise InvalidInputError(
            f"signature={signature!r}: the SavedModel has {', '.join(sorted(signatures))}; choose one"
        )
    if signature is not None:
        found = getattr(model, signature, None)
        if not callable(found):
            raise InvalidInputError(
                f"signature={signature!r}: {type(model).__qualname__} has no such signature or method"
            )
        return found, False
    if hasattr(model, "structured_input_signature") or hasattr(model, "get_concrete_function"):
        return model, False
    if callable(model):
        return (model.__call__ if isinstance(model, tf.Module) else model), False
    functions = [
        name
        for name in dir(model)
        if not name.startswith("__") and hasattr(getattr(model, name, None), "get_concrete_function")
    ]
    if len(functions) == 1:
        return getattr(model, functions[0]), False
    kind = type(model).__qualname__
    if functions:
        raise InvalidInputError(
            f"{kind} has several tf.functions ({', '.join(functions)}) and no __call__: pass signature='...'"
        )
    raise InvalidModelError(f"{kind} has neither __call__ nor a tf.function nor a signature: there is nothing to trace")


def concrete(function: Any, inputs: Any, kwargs: Mapping[str, Any] | None, dynamic_shapes: Any) -> Any:
    """The concrete function of a callable on example inputs, its dynamic dimensions None.

    Raises:
        InvalidInputError: there are no example inputs and the function has no signature.
        TracingError: TensorFlow can't trace it.
    """
    traceable = function if hasattr(function, "get_concrete_function") else tf.function(function)
    if getattr(traceable, "input_signature", None) is not None:
        return traced(traceable, (), {})
    if inputs is None and not kwargs:
        listed: Callable[[], list[Any]] = getattr(traceable, "_list_all_concrete_functions_for_serialization", list)
        known = listed() if hasattr(function, "get_concrete_function") else []
        if len(known) == 1:
            return known[0]
        return traced(traceable, (), {}, hint="pass inputs=(...), or give the tf.function an input_signature")
    args, named = example_arguments(inputs, kwargs)
    dynamic = Dynamic(dynamic_shapes, _parameters(function))
    specs = tuple(tf.nest.map_structure(lambda leaf, i=i: dynamic.spec(leaf, i), item) for i, item in enumerate(args))
    named = {key: tf.nest.map_structure(lambda leaf, k=key: dynamic.spec(leaf, k), item) for key, item in named.items()}
    return traced(traceable, specs, named)


def traced(function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], hint: str = "") -> Any:
    """The concrete function of a `tf.function` on specs.

    Raises:
        TracingError: the user's code or TensorFlow fails while tracing.
        InvalidInputError: there are no arguments and it needs some; `hint` says what to do.
    """
    try:
        return function.get_concrete_function(*args, **kwargs)
    except Exception as error:  # user code runs while tracing
        if hint and isinstance(error, (TypeError, ValueError)):
            raise InvalidInputError(f"the function can't be traced without example inputs: {hint}") from error
        raise TracingError(f"TensorFlow can't trace the model: {type(error).__name__}: {str(error).strip()}") from error


def example_arguments(inputs: Any, kwargs: Mapping[str, Any] | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments of the example inputs: a tuple or list is positional, a dict is by name."""
    named = dict(kwargs or {})
    if inputs is None:
        return (), named
    if isinstance(inputs, Mapping):
        return (), {**inputs, **named}
    if isinstance(inputs, tuple):
        return inputs, named
    return (inputs,), named


def _parameters(function: Any) -> list[str]:
    import inspect

    target = getattr(function, "python_function", function)
    try:
        names = list(inspect.signature(target).parameters)
    except (TypeError, ValueError):
        return []
    return names[1:] if names[:1] == ["self"] else names


class Dynamic:
    """Which dimensions vary, and their names, from the user's `dynamic_shapes`.

    Args:
        asked: None, a dict by parameter name, or a sequence by position; each item None, a dict from axis to name (or
            None), or a sequence with a name or None an axis.
        parameters: the callable's parameter names.
    """

    def __init__(self, asked: Any, parameters: Sequence[str] = ()) -> None:
        self.default = asked is None
        self._parameters = list(parameters)
        if isinstance(asked, Mapping):
            self._by_name: dict[Any, Any] = dict(asked)
        else:
            self._by_name = dict(enumerate(asked or ()))

    def axes(self, key: int | str) -> dict[int, str | None]:
        """Axis to dimension name for one input, named or by position."""
        item = self._by_name.get(key)
        if item is None and isinstance(key, int) and key < len(self._parameters):
            item = self._by_name.get(self._parameters[key])
        if item is None and isinstance(key, str) and key in self._parameters:
            item = self._by_name.get(self._parameters.index(key))
        if item is None:
            return {}
        pairs = item.items() if isinstance(item, Mapping) else enumerate(item)
        return {int(axis): _dim_name(name) for axis, name in pairs if name is not None or isinstance(item, Mapping)}

    def spec(self, leaf: Any, key: int | str) -> Any:
        """The `tf.TensorSpec` of an example; Python booleans, strings and None stay constants of the trace."""
        if leaf is None or isinstance(leaf, (bool, str, bytes, tf.TypeSpec)):
            return leaf
        tensor = leaf if isinstance(leaf, tf.Tensor) else tf.convert_to_tensor(leaf)
        shape = tensor.shape.as_list()
        axes = {0: None} if self.default and shape else self.axes(key)
        for axis in axes:
            if not -len(shape) <= axis < len(shape):
                raise InvalidInputError(f"dynamic_shapes: input {key!r} of rank {len(shape)} has no axis {axis}")
        varying = {axis % len(shape) for axis in axes} if shape else set()
        return tf.TensorSpec([None if axis in varying else size for axis, size in enumerate(shape)], tensor.dtype)


def _dim_name(item: Any) -> str | None:
    return item if isinstance(item, str) else getattr(item, "__name__", None)


def of_concrete(
    function: Any,
    *,
    dynamic_shapes: Any = None,
    by_signature: bool = False,
    names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    variable_names: Mapping[int, str] | None = None,
    shared_batch: bool = False,
) -> Program:
    """The program of a concrete function.

    Args:
        function: the concrete function.
        dynamic_shapes: names for its None dimensions.
        by_signature: its outputs' names are a SavedModel signature's.
        names: the inputs' names, in the order of the function's inputs.
        output_names: the outputs' names, flattened.
        variable_names: the name of a variable by the id of its handle, before the variable's own.
        shared_batch: dimension 0 of all inputs is the same size.
    """
    graph = function.graph
    count = len(function.inputs) - len(function.captured_inputs)
    tensors = list(function.inputs)[:count]
    names = list(names) if names is not None else _input_names(function, tensors)
    dynamic = Dynamic(dynamic_shapes, names)
    inputs = tuple(
        Port(
            name, tensor, dtype_of(tensor.dtype), dimensions(name, tensor, dynamic.axes(i), shared_batch or count == 1)
        )
        for i, (name, tensor) in enumerate(zip(names, tensors, strict=True))
    )
    outputs = _outputs(function, output_names)
    return Program(graph, inputs, outputs, _captured(function, variable_names or {}))


def dimensions(name: str, tensor: Any, named: Mapping[int, str | None], shared_batch: bool) -> Dims:
    """A placeholder's dimensions; the unknown ones are named."""
    if tensor.shape.rank is None:
        return None
    sizes = tensor.shape.as_list()
    given = {axis % len(sizes): label for axis, label in named.items()} if sizes else {}

    def label(axis: int) -> str:
        return given.get(axis) or ("batch" if axis == 0 and shared_batch else f"{name}_dim_{axis}")

    return tuple(label(axis) if size is None else size for axis, size in enumerate(sizes))


def _input_names(function: Any, tensors: Sequence[Any]) -> list[str]:
    args, kwargs = function.structured_input_signature
    parameters = list(function.function_type.parameters)
    roots = [(parameters[i] if i < len(parameters) else f"input_{i}", item) for i, item in enumerate(args)]
    order = {name: i for i, name in enumerate(parameters)}
    roots += sorted(kwargs.items(), key=lambda pair: order.get(pair[0], len(order)))
    found = [
        (path, leaf) for root, item in roots for path, leaf in paths(item, (root,)) if isinstance(leaf, tf.TensorSpec)
    ]
    fits = len(found) == len(tensors) and all(
        leaf.dtype == tensor.dtype and leaf.shape.is_compatible_with(tensor.shape)
        for (_, leaf), tensor in zip(found, tensors, strict=True)
    )
    if fits:
        return unique([".".join(path) for path, _ in found])
    return unique([_placeholder_name(tensor) for tensor in tensors])


def _placeholder_name(tensor: Any) -> str:
    try:
        return str(tensor.op.get_attr("_user_specified_name").decode())
    except ValueError:
        return str(tensor.op.name)


def _outputs(function: Any, names: Sequence[str] | None) -> tuple[Port, ...]:
    tensors = list(function.outputs)
    structured = function.structured_outputs
    if names is None:
        found = [(path, leaf) for path, leaf in paths(structured) if leaf is not None]
        for path, leaf in found:
            if not isinstance(leaf, (tf.Tensor, tf.TensorSpec)):
                kind = type(leaf).__name__.removesuffix("Spec")
                raise TracingError(
                    f"the output {output_name(path)!r} is a {kind}; ONNX outputs are tensors: return a dense one"
                )
        if len(found) > len(tensors):
            raise TracingError(f"the function has {len(tensors)} results but its structure shows {len(found)}")
        # A function that was differentiated also hands out, after its own results, what the gradient needs.
        tensors = tensors[: len(found)]
        names = unique([output_name(path) for path, _ in found])
    if not tensors:
        raise TracingError("the function returns no tensor: there is nothing to convert")
    return tuple(
        Port(
            name,
            tensor,
            dtype_of(tensor.dtype),
            tuple(tensor.shape.as_list()) if tensor.shape.rank is not None else None,
        )
        for name, tensor in zip(names, tensors, strict=True)
    )


def output_name(path: tuple[str, ...]) -> str:
    """The name of an output at a path of the result's structure.

    >>> output_name(()), output_name(("1",)), output_name(("past", "0", "key"))
    ('output', 'output_1', 'past.0.key')
    """
    if not path:
        return "output"
    return ".".join((f"output_{path[0]}" if path[0].isdigit() else path[0], *path[1:]))


def paths(structure: Any, prefix: tuple[str, ...] = ()) -> Iterable[tuple[tuple[str, ...], Any]]:
    """The leaves of a nested structure in tf.nest's order (mappings sorted by key), each with its path."""
    if isinstance(structure, Mapping):
        for key in sorted(structure):
            yield from paths(structure[key], (*prefix, str(key)))
    elif isinstance(structure, tuple) and hasattr(structure, "_fields"):
        for key in structure._fields:
            yield from paths(getattr(structure, key), (*prefix, key))
    elif isinstance(structure, (list, tuple)):
        for index, item in enumerate(structure):
            yield from paths(item, (*prefix, str(index)))
    elif is_dataclass(structure) and hasattr(structure, "__tf_flatten__"):
        _, components = structure.__tf_flatten__()
        for index, item in enumerate(components):
            yield from paths(item, (*prefix, str(index)))
    else:
        yield prefix, structure


def unique(names: Sequence[str]) -> list[str]:
    """The names, repeated ones numbered."""
    seen: dict[str, int] = {}
    result = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        result.append(name if seen[name] == 1 else f"{name}_{seen[name] - 1}")
    return result


def _captured(function: Any, variable_names: Mapping[int, str]) -> dict[str, Any]:
    """What each capture's placeholder stands for."""
    own: dict[int, Any] = {}
    for variable in (*getattr(function, "variables", ()), *getattr(function.graph, "variables", ())):
        own.setdefault(id(variable.handle), variable)
    captured: dict[str, Any] = {}
    tensors = list(function.inputs)[len(function.inputs) - len(function.captured_inputs) :]
    for external, internal in zip(function.captured_inputs, tensors, strict=True):
        if external.dtype == tf.resource and id(external) in own:
            variable = own[id(external)]
            name = variable_names.get(id(external)) or variable.name.removesuffix(":0")
            captured[internal.name] = _variable(name, variable)
        else:
            captured[internal.name] = external
    return captured


def _variable(name: str, variable: Any) -> Variable:
    def read() -> Any:
        return tf.raw_ops.ReadVariableOp(resource=variable.handle, dtype=variable.dtype)

    return Variable(name, read, dtype_of(variable.dtype), tuple(variable.shape.as_list()))


def renamed(program: Program, input_names: Sequence[str] | None, output_names: Sequence[str] | None) -> Program:
    """The program with the names that the user gave.

    Raises:
        InvalidInputError: their number differs.
    """
    from dataclasses import replace

    def apply(ports: tuple[Port, ...], names: Sequence[str] | None, what: str) -> tuple[Port, ...]:
        if names is None:
            return ports
        if len(names) != len(ports):
            has = ", ".join(port.name for port in ports)
            raise InvalidInputError(f"{len(names)} {what} names were given, the model has {len(ports)} ({has})")
        return tuple(replace(port, name=name) for port, name in zip(ports, names, strict=True))

    program.inputs = apply(program.inputs, input_names, "input")
    program.outputs = apply(program.outputs, output_names, "output")
    return program


# -- frozen graphs -----------------------------------------------------------------------------------------------------


def _of_graph_def(
    definition: Any, dynamic_shapes: Any, input_names: Sequence[str] | None, output_names: Sequence[str] | None
) -> Program:
    graph = tf.Graph()
    try:
        with graph.as_default():
            tf.graph_util.import_graph_def(definition, name="")
    except Exception as error:  # TensorFlow raises many types for a malformed graph
        raise InvalidModelError(f"TensorFlow can't import the GraphDef: {_first_line(error)}") from error
    operations = graph.get_operations()
    if input_names is None:
        input_names = [item.name for item in operations if item.type == "Placeholder"]
    if output_names is None:
        consumed = {tensor.name for item in operations for tensor in item.inputs}
        output_names = [
            item.name
            for item in operations
            if item.outputs
            and item.type not in ("Const", "Placeholder")
            and not any(t.name in consumed for t in item.outputs)
        ]
    feeds = [_tensor(graph, name) for name in input_names]
    fetches = [_tensor(graph, name) for name in output_names]
    if not fetches:
        raise InvalidModelError("the GraphDef has no leaf node: pass output_names=[...]")
    plain = [name.removesuffix(":0") for name in input_names]
    dynamic = Dynamic(dynamic_shapes, plain)
    inputs = tuple(
        Port(name, tensor, dtype_of(tensor.dtype), dimensions(name, tensor, dynamic.axes(i), len(feeds) == 1))
        for i, (name, tensor) in enumerate(zip(plain, feeds, strict=True))
    )
    outputs = tuple(
        Port(
            name.removesuffix(":0"),
            tensor,
            dtype_of(tensor.dtype),
            tuple(tensor.shape.as_list()) if tensor.shape.rank is not None else None,
        )
        for name, tensor in zip(output_names, fetches, strict=True)
    )
    return Program(graph, inputs, outputs)


def _tensor(graph: Any, name: str) -> Any:
    try:
        return graph.get_tensor_by_name(name if ":" in name else f"{name}:0")
    except (KeyError, ValueError) as error:
        raise InvalidInputError(f"the GraphDef has no tensor {name!r}") from error
