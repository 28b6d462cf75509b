"""TensorFlow: SavedModels, functions, modules, frozen graphs and callables of tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf

from onnxport.errors import InvalidInputError, InvalidModelError, first_line
from onnxport.graph.names import component_names, positional
from onnxport.validation.runners import base
from onnxport.validation.runners.base import Binding, Example, Outputs, Runner
from onnxport.validation.runners.tensorflow_inner import values_of_graph
from onnxport.validation.runners.tensorflow_lite import bind as bind_lite
from onnxport.validation.runners.tensorflow_signature import check_fits, is_nested, of_specifications, taken_apart
from onnxport.validation.runners.tensorflow_time import cancelled_in_time
from onnxport.validation.runners.tensorflow_traced import TracedRunner
from onnxport.validation.runners.tensorflow_wide import Twins

Path = tuple[str, ...]


class TensorflowRunner(TracedRunner):
    """Calls a function of tensors; leaves are the tensors among its arguments in tf.nest's order."""

    framework: ClassVar[str] = "tensorflow"
    rare_types: ClassVar[Mapping[str, str]] = base.RARE_FLOAT8

    def __init__(
        self, call: Callable[..., Any], title: str, arguments: Arguments | None, keywords: list[str], structured: bool
    ) -> None:
        super().__init__(title, arguments.example if arguments is not None else None)
        self._call = call
        self._arguments = arguments
        self._keywords = keywords
        self._structured = structured
        self._twins = Twins(self._called, to_tensor)

    def run(self, leaves: Sequence[Any]) -> Outputs:
        """Outputs flattened as tf.nest does, named by their paths."""
        with cancelled_in_time():
            return self._named(self._called([to_tensor(leaf) for leaf in leaves]))

    def _called(self, tensors: Sequence[Any]) -> Any:
        if self._arguments is not None:
            args, kwargs = self._arguments.rebuilt(tensors)
            return self._call(*args, **kwargs)
        if self._keywords:
            return self._call(**dict(zip(self._keywords, tensors, strict=True)))
        return self._call(*tensors)

    def _named(self, result: object) -> Outputs:
        return outputs_of(result, self._structured)


class GraphDefRunner(TracedRunner):
    """Runs a frozen graph in a session of its own; leaves feed the tensors that the converted graph's inputs are named after."""

    framework: ClassVar[str] = "tensorflow"

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
            return self._named(session.run([_tensor_name(name) for name in self._fetches], feeds))

    def _named(self, result: Any) -> Outputs:
        return list(zip(self._fetches, result, strict=True))

    def each_intermediate(self, leaves: Sequence[Any], take: Callable[[str, Any], None]) -> None:
        """Results of the graph's operators by node name, some at a time."""
        feeds = {_tensor_name(name): leaf for name, leaf in zip(self._feeds, leaves, strict=True)}
        values_of_graph(self._graph, feeds, take)


class Arguments:
    """A call's arguments taken apart in tf.nest's order (mappings sorted by key), and put together again."""

    def __init__(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], parameters: Sequence[str]) -> None:
        self._args, self._kwargs = args, dict(kwargs)
        roots = positional(parameters, len(args))
        leaves = [pair for root, item in zip(roots, args, strict=True) for pair in paths(item, (root,))]
        leaves += [pair for key, item in self._kwargs.items() for pair in paths(item, (key,))]
        tensors = [(path, leaf) for path, leaf in leaves if _varies(leaf)]
        names = tuple(".".join(path) for path, _ in tensors)
        self.example = Example(names, tuple(to_numpy(leaf) for _, leaf in tensors))

    def rebuilt(self, tensors: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with other tensors in place of those of the example."""
        rest = iter(tensors)
        replaced = lambda leaf: next(rest) if _varies(leaf) else leaf  # noqa: E731
        args = tuple(tf.nest.map_structure(replaced, item, expand_composites=True) for item in self._args)
        named = self._kwargs.items()
        return args, {key: tf.nest.map_structure(replaced, item, expand_composites=True) for key, item in named}


def bind(model: object, binding: Binding) -> Runner:
    """A runner of a SavedModel, function, module, GraphDef or callable."""
    if isinstance(model, tf.compat.v1.GraphDef):
        return _bind_graph(model, binding)
    if hasattr(model, "rewritten"):  # a TFLite file
        return bind_lite(model, binding)
    call, by_name = callable_of(model, binding.signature)
    title = str(getattr(model, "__name__", type(model).__name__))
    # what TensorFlow calls the classes of whatever it loads
    title = {"_UserObject": "SavedModel", "_WrapperFunction": "concrete function"}.get(title, title)
    if not binding.given:
        keywords = _keywords(call, binding) if by_name else []
        return TensorflowRunner(call, title, None, keywords, binding.structured)
    args, kwargs = binding.arguments()
    concrete = of_specifications(call, args, kwargs)
    if concrete is not None:
        return TensorflowRunner(concrete, title, None, [], binding.structured)
    function = getattr(call, "python_function", call)
    if by_name and any(map(is_nested, (*args, *kwargs.values()))):
        args, kwargs = (), taken_apart(_keywords(call, binding), args, kwargs)
    elif by_name and args:
        names = _keywords(call, binding)
        if len(args) > len(names):
            raise InvalidInputError(
                f"the signature takes {len(names)} inputs ({', '.join(names)}), {len(args)} were given"
            )
        args, kwargs = (), {**dict(zip(names, args, strict=False)), **kwargs}
    signed = call if hasattr(call, "input_signature") or not isinstance(call, tf.Module) else call.__call__
    check_fits(signed, args, kwargs, base.parameter_names(function))
    arguments = Arguments(args, base.arguments_in_order(function, args, kwargs), base.parameter_names(function))
    return TensorflowRunner(call, title, arguments, [], binding.structured)


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
    members = [getattr(model, name, None) for name in dir(model) if not name.startswith("__")]
    functions: list[Any] = [item for item in members if hasattr(item, "get_concrete_function")]
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
    if isinstance(leaf, (np.ndarray, np.generic)) and not base.lacks(leaf.dtype, base.RARE_FLOAT8):
        return tf.constant(leaf)
    return leaf  # an imported model takes an array of a type that TensorFlow lacks, and holds it in another


def outputs_of(result: object, structured: bool) -> Outputs:
    """The tensors of a result, in tf.nest's order."""
    if structured:
        return base.top_level(result, to_numpy)
    return [(".".join(path), to_numpy(leaf)) for path, leaf in paths(result) if leaf is not None]


def paths(structure: object, prefix: Path = ()) -> list[tuple[Path, Any]]:
    """Leaves of a nested structure in tf.nest's order, each with its path."""
    children = _children(structure)
    if children is None:
        return [(prefix, structure)]
    return [pair for key, item in children for pair in paths(item, (*prefix, key))]


def _children(structure: object) -> list[tuple[str, Any]] | None:
    if isinstance(
        structure, (tf.RaggedTensor, tf.SparseTensor, tf.IndexedSlices)
    ):  # as the tensors that they consist of
        parts = tf.nest.flatten(structure, expand_composites=True)
        names = component_names(type(structure).__name__, len(parts)) or []
        return list(zip(names, parts, strict=True))
    if isinstance(structure, Mapping):
        return [(str(key), structure[key]) for key in sorted(structure)]
    if isinstance(structure, tuple) and hasattr(structure, "_fields"):
        return [(key, getattr(structure, key)) for key in structure._fields]
    if isinstance(structure, (list, tuple)):
        return [(str(i), item) for i, item in enumerate(structure)]
    if is_dataclass(structure) and not isinstance(structure, type):
        return [(item.name, getattr(structure, item.name)) for item in fields(structure)]
    return None


def _varies(leaf: object) -> bool:
    """Tensors, arrays and numbers are inputs of the trace; booleans, strings and None are constants of it."""
    return leaf is not None and not isinstance(leaf, (bool, str, bytes, tf.TypeSpec))


def _keywords(call: Any, binding: Binding) -> list[str]:
    """The input names of a signature, in the graph's order where they agree."""
    _, named = call.structured_input_signature
    order = [name for name in call.function_type.parameters if name in named]
    own = order if len(order) == len(named) else list(named)
    names = binding.names(own)
    return names if set(names) == set(own) else own


def _bind_graph(definition: tf.compat.v1.GraphDef, binding: Binding) -> GraphDefRunner:
    placeholders = [node.name for node in definition.node if node.op == "Placeholder"]
    names = binding.names(placeholders)
    known = {node.name for node in definition.node}
    feeds = names if all(name.partition(":")[0] in known for name in names) else placeholders
    fetches = list(binding.output_names or ())
    if not binding.given:
        return GraphDefRunner(definition, feeds, fetches, None)
    args, kwargs = binding.arguments()
    given = {**dict(zip(feeds, args, strict=False)), **kwargs}
    if any(name not in given for name in feeds) or len(args) > len(feeds):
        others = ", ".join(map(repr, kwargs)) or f"{len(args)} by position"
        raise InvalidInputError(f"the graph takes inputs {', '.join(feeds)}; given: {others}")
    example = Example(tuple(feeds), tuple(to_numpy(given[name]) for name in feeds))
    return GraphDefRunner(definition, feeds, fetches, example)


def _tensor_name(name: str) -> str:
    return name if ":" in name else f"{name}:0"
