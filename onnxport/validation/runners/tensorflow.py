"""TensorFlow: SavedModels, functions, modules, frozen graphs and callables of tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf

from onnxport.errors import InvalidInputError, InvalidModelError, first_line
from onnxport.validation.runners.base import (
    Binding,
    Example,
    Outputs,
    Runner,
    arguments_in_order,
    parameter_names,
    split_arguments,
    top_level,
)
from onnxport.validation.runners.tensorflow_time import cancelled_in_time
from onnxport.validation.runners.tensorflow_wide import Twins

Path = tuple[str, ...]


class TensorflowRunner(Runner):
    """Calls a function of tensors; leaves are the tensors among its arguments in tf.nest's order."""

    framework: ClassVar[str] = "tensorflow"
    # TensorFlow 2.21's convolutions of no rows raise an error, or keep the size of the image.
    windows_without_rows: ClassVar[bool] = False
    # A Relu that is fused with the convolution or product before it may make 0 of NaN.
    products_keep_nan: ClassVar[bool] = False

    def __init__(
        self,
        call: Callable[..., Any],
        title: str,
        arguments: Arguments | None,
        keywords: Sequence[str],
        structured: bool,
    ) -> None:
        super().__init__(title, arguments.example if arguments is not None else None)
        self._call = call
        self._arguments = arguments
        self._keywords = keywords
        self._structured = structured

    def run(self, leaves: Sequence[Any]) -> Outputs:
        """Outputs flattened as tf.nest does, named by their paths."""
        with cancelled_in_time():
            return outputs_of(self._called([to_tensor(leaf) for leaf in leaves]), self._structured)

    def _called(self, tensors: Sequence[Any]) -> Any:
        if self._arguments is not None:
            args, kwargs = self._arguments.rebuilt(tensors)
            return self._call(*args, **kwargs)
        if self._keywords:
            return self._call(**dict(zip(self._keywords, tensors, strict=True)))
        return self._call(*tensors)

    @cached_property
    def _twins(self) -> Twins:
        return Twins(self._called)

    def coarse(self, leaves: Sequence[Any]) -> float | None:
        """Of the types in the traced graph."""
        return self._twins.coarse([to_tensor(leaf) for leaf in leaves])

    def computes_complex(self, leaves: Sequence[Any]) -> bool:
        """Whether a node of the traced graph has complex numbers."""
        return self._twins.computes_complex([to_tensor(leaf) for leaf in leaves])

    def run_float64(self, leaves: Sequence[Any]) -> Outputs | None:
        """Outputs of the traced graph in float64; None where an operator has no kernel for it."""
        result = self._twins.float64([to_tensor(leaf) for leaf in leaves])
        return outputs_of(result, self._structured) if result is not None else None

    def run_moved(self, leaves: Sequence[Any], units: int, seed: int) -> Outputs | None:
        """Outputs of the traced graph with moved weights; of the model itself where it can't be frozen."""
        result = self._twins.moved([to_tensor(leaf) for leaf in leaves], units, seed)
        return outputs_of(result, self._structured) if result is not None else self.run(leaves)


class GraphDefRunner(Runner):
    """Runs a frozen graph in a session of its own; leaves feed the tensors that the converted graph's inputs are named after."""

    framework: ClassVar[str] = "tensorflow"
    # TensorFlow 2.21's convolutions of no rows raise an error, or keep the size of the image.
    windows_without_rows: ClassVar[bool] = False
    # A Relu that is fused with the convolution or product before it may make 0 of NaN.
    products_keep_nan: ClassVar[bool] = False

    def __init__(
        self, definition: tf.compat.v1.GraphDef, feeds: Sequence[str], fetches: Sequence[str], example: Example | None
    ) -> None:
        super().__init__("GraphDef", example)
        self._graph = tf.Graph()
        try:
            with self._graph.as_default():
                tf.graph_util.import_graph_def(definition, name="")
        except Exception as error:  # TensorFlow raises many types for a malformed graph
            raise InvalidModelError(f"TensorFlow can't import the GraphDef: {first_line(error)}") from error
        self._feeds, self._fetches = feeds, fetches

    def run(self, leaves: Sequence[Any]) -> Outputs:
        """The fetched tensors in order."""
        with tf.compat.v1.Session(graph=self._graph) as session:
            feeds = {_tensor_name(name): leaf for name, leaf in zip(self._feeds, leaves, strict=True)}
            values = session.run([_tensor_name(name) for name in self._fetches], feeds)
        return list(zip(self._fetches, values, strict=True))


class Arguments:
    """A call's arguments taken apart in tf.nest's order (mappings sorted by key), and put together again.

    Args:
        args: positional arguments.
        kwargs: keyword arguments.
        parameters: names of the positional parameters.
    """

    def __init__(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], parameters: Sequence[str]) -> None:
        self._args, self._kwargs = args, dict(kwargs)
        roots = [parameters[i] if i < len(parameters) else f"input_{i}" for i in range(len(args))]
        leaves = [pair for root, item in zip(roots, args, strict=True) for pair in paths(item, (root,))]
        leaves += [pair for key, item in self._kwargs.items() for pair in paths(item, (key,))]
        tensors = [(path, leaf) for path, leaf in leaves if _varies(leaf)]
        self.example = Example(
            tuple(".".join(path) for path, _ in tensors), tuple(to_numpy(leaf) for _, leaf in tensors)
        )

    def rebuilt(self, tensors: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with other tensors in place of those of the example."""
        rest = iter(tensors)
        args = tuple(_replaced(item, rest) for item in self._args)
        return args, {key: _replaced(item, rest) for key, item in self._kwargs.items()}


def bind(model: object, binding: Binding) -> Runner:
    """A runner of a SavedModel, function, module, GraphDef or callable."""
    if isinstance(model, tf.compat.v1.GraphDef):
        return _bind_graph(model, binding)
    call, by_name = callable_of(model, binding.signature)
    title = type(model).__qualname__ if not hasattr(model, "__name__") else str(model.__name__)
    if binding.inputs is None and not binding.kwargs:
        keywords = _keywords(call, binding) if by_name else ()
        return TensorflowRunner(call, title, None, keywords, binding.structured)
    args, kwargs = split_arguments(() if binding.inputs is None else binding.inputs, binding.kwargs)
    parameters = parameter_names(getattr(call, "python_function", call))
    if by_name and args:
        names = _keywords(call, binding)
        if len(args) > len(names):
            raise InvalidInputError(
                f"the signature takes {len(names)} inputs ({', '.join(names)}), {len(args)} were given"
            )
        args, kwargs = (), {**dict(zip(names, args, strict=False)), **kwargs}
    kwargs = arguments_in_order(getattr(call, "python_function", call), args, kwargs)
    return TensorflowRunner(call, title, Arguments(args, kwargs, parameters), (), binding.structured)


def callable_of(model: object, signature: str | None) -> tuple[Callable[..., Any], bool]:
    """What is called, and whether it is a SavedModel's signature, which takes its inputs by name.

    Raises:
        InvalidInputError: there is no such signature.
    """
    signatures = getattr(model, "signatures", None)
    if isinstance(signatures, Mapping) and signatures:
        name = signature or ("serving_default" if "serving_default" in signatures else next(iter(signatures)))
        if name not in signatures:
            raise InvalidInputError(f"signature={name!r}: the SavedModel has {', '.join(sorted(signatures))}")
        return signatures[name], True
    if signature is not None:
        return getattr(model, signature), False
    if callable(model):
        return model, False
    functions = [
        getattr(model, name)
        for name in dir(model)
        if not name.startswith("__") and hasattr(getattr(model, name, None), "get_concrete_function")
    ]
    if len(functions) != 1:
        raise InvalidInputError(
            f"{type(model).__qualname__} has {len(functions)} functions and no __call__: pass signature='...'"
        )
    return functions[0], False


def to_numpy(value: object) -> Any:
    """A tensor or variable as an array, a ragged or sparse one as a dense array, strings as objects."""
    if isinstance(value, tf.RaggedTensor):
        value = value.to_tensor()
    elif isinstance(value, tf.SparseTensor):
        value = tf.sparse.to_dense(value)
    elif isinstance(value, tf.IndexedSlices):
        value = tf.convert_to_tensor(value)
    if isinstance(value, (tf.Tensor, tf.Variable)):
        value = value.numpy()
        return np.asarray(value, object) if isinstance(value, (bytes, str)) else np.asarray(value)
    if isinstance(value, np.ndarray) and value.dtype.kind in "US":
        return value.astype(object)
    return np.asarray(value) if isinstance(value, (list, np.generic)) else value


def to_tensor(leaf: object) -> Any:
    """An array as a tensor; lists (sequences) as lists of tensors."""
    if isinstance(leaf, list):
        return [to_tensor(item) for item in leaf]
    return tf.constant(leaf) if isinstance(leaf, (np.ndarray, np.generic)) else leaf


def outputs_of(result: object, structured: bool) -> Outputs:
    """The tensors of a result, in tf.nest's order."""
    if structured:
        return top_level(result, to_numpy)
    leaves = [(path, leaf) for path, leaf in paths(result) if leaf is not None]
    return [(".".join(path), to_numpy(leaf)) for path, leaf in leaves]


def paths(structure: object, prefix: Path = ()) -> list[tuple[Path, Any]]:
    """Leaves of a nested structure in tf.nest's order, each with its path."""
    children = _children(structure)
    if children is None:
        return [(prefix, structure)]
    return [pair for key, item in children for pair in paths(item, (*prefix, key))]


def _children(structure: object) -> list[tuple[str, Any]] | None:
    if isinstance(structure, Mapping):
        return [(str(key), structure[key]) for key in sorted(structure)]
    if isinstance(structure, tuple) and hasattr(structure, "_fields"):
        return [(key, getattr(structure, key)) for key in structure._fields]
    if isinstance(structure, (list, tuple)):
        return [(str(i), item) for i, item in enumerate(structure)]
    if is_dataclass(structure) and not isinstance(structure, type):
        return [(item.name, getattr(structure, item.name)) for item in fields(structure)]
    return None


def _replaced(structure: Any, rest: Any) -> Any:
    if isinstance(structure, Mapping):
        replaced = {key: _replaced(structure[key], rest) for key in sorted(structure)}
        return type(structure)((key, replaced[key]) for key in structure)  # type: ignore[call-arg]
    if isinstance(structure, tuple) and hasattr(structure, "_fields"):
        return type(structure)(*(_replaced(item, rest) for item in structure))
    if isinstance(structure, (list, tuple)):
        return type(structure)(_replaced(item, rest) for item in structure)
    return next(rest) if _varies(structure) else structure


def _varies(leaf: object) -> bool:
    """Tensors, arrays and numbers are inputs of the trace; booleans, strings and None are constants of it."""
    return leaf is not None and not isinstance(leaf, (bool, str, bytes, tf.TypeSpec))


def _keywords(call: Any, binding: Binding) -> list[str]:
    """The input names of a signature, in the graph's order where they agree."""
    _, named = call.structured_input_signature
    if binding.specs is not None and {spec.name for spec in binding.specs} == set(named):
        return [spec.name for spec in binding.specs]
    return list(named)


def _bind_graph(definition: tf.compat.v1.GraphDef, binding: Binding) -> GraphDefRunner:
    placeholders = [node.name for node in definition.node if node.op == "Placeholder"]
    names = [spec.name for spec in binding.specs] if binding.specs is not None else placeholders
    feeds = (
        names
        if all(name.partition(":")[0] in {node.name for node in definition.node} for name in names)
        else placeholders
    )
    fetches = list(binding.output_names or ())
    if binding.inputs is None and not binding.kwargs:
        return GraphDefRunner(definition, feeds, fetches, None)
    args, kwargs = split_arguments(() if binding.inputs is None else binding.inputs, binding.kwargs)
    given = {**dict(zip(feeds, args, strict=False)), **kwargs}
    missing = [name for name in feeds if name not in given]
    if missing or len(args) > len(feeds):
        raise InvalidInputError(f"the graph takes inputs {', '.join(feeds)}; missing {missing}")
    return GraphDefRunner(
        definition, feeds, fetches, Example(tuple(feeds), tuple(to_numpy(given[name]) for name in feeds))
    )


def _tensor_name(name: str) -> str:
    return name if ":" in name else f"{name}:0"
