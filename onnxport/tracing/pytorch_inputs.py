"""Example inputs of a PyTorch callable: binding them to its parameters, naming their leaves, saying which dimensions vary."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.export import Dim
from torch.utils import _pytree as pytree

from onnxport.errors import InvalidInputError
from onnxport.frameworks.pytorch_devices import beside
from onnxport.frameworks.pytorch_paths import child_keys
from onnxport.graph.cache_names import is_cache, tensor_path
from onnxport.graph.names import positional
from onnxport.tracing import dimensions
from onnxport.tracing.pytorch_caches import Spare, of_cache
from onnxport.tracing.pytorch_nodes import is_dynamic


@dataclass(frozen=True)
class Call:
    """A call of a module: what torch.export is given."""

    module: torch.nn.Module
    args: tuple[Any, ...]  # positional inputs
    kwargs: dict[str, Any]  # keyword inputs, in the order of the signature

    @property
    def combined(self) -> dict[str, Any]:
        """Inputs by parameter, as torch.export keys its dynamic shapes."""
        return dict(inspect.signature(self.module.forward).bind(*self.args, **self.kwargs).arguments)

    @property
    def leaves(self) -> dict[str, Any]:
        """Every leaf of the inputs by its path, in the order of the graph's inputs."""
        leaves, spec = pytree.tree_flatten((self.args, self.kwargs))
        names = positional_names(inspect.signature(self.module.forward), len(self.args))
        return dict(zip(input_paths(spec, names), leaves, strict=True))

    def mapped(self, function: Callable[[str, Any], Any]) -> Call:
        """The call with ``function(path, leaf)`` for each leaf."""
        paths = iter(self.leaves)
        args, kwargs = pytree.tree_map(lambda leaf: function(next(paths), leaf), (self.args, self.kwargs))
        return Call(self.module, args, kwargs)

    @property
    def tensors(self) -> dict[str, torch.Tensor]:
        """The tensors among the leaves."""
        return {path: leaf for path, leaf in self.leaves.items() if isinstance(leaf, torch.Tensor)}


def bind(module: torch.nn.Module, inputs: object, kwargs: Mapping[str, Any] | None) -> Call:
    """The call that `inputs` (a tuple or list, a dict by parameter name, or one tensor) and `kwargs` mean; arrays become tensors.

    Raises:
        InvalidInputError: they do not fit the signature of ``forward``.
    """
    signature = inspect.signature(module.forward)
    positional: tuple[Any, ...] = ()
    named: dict[str, Any] = dict(kwargs or {})
    if isinstance(inputs, Mapping) and not isinstance(inputs, torch.Tensor):
        named = {**inputs, **named}
    elif isinstance(inputs, (tuple, list)):
        positional = tuple(inputs)
    elif inputs is not None:
        positional = (inputs,)
    try:
        bound = signature.bind(*positional, **named)
    except TypeError as error:
        given = ", ".join([f"{len(positional)} by position"] * bool(positional) + [repr(name) for name in named])
        raise InvalidInputError(
            f"the inputs do not fit forward{signature}: {error}; given: {given or 'none'}"
        ) from error
    args, keywords = _split(signature, bound)
    _check_leaves(signature, args, keywords)
    args, keywords = beside(module, pytree.tree_map(_tensor, (args, keywords)))
    return Call(module, tuple(args), dict(keywords))


def _check_leaves(signature: inspect.Signature, args: Sequence[Any], keywords: Mapping[str, Any]) -> None:
    """Refuses inputs that no graph can take, whatever the model does with them.

    Raises:
        InvalidInputError: one is a packed sequence, a nested tensor, or an iterator.
    """
    for name, item in (*zip(positional_names(signature, len(args)), args, strict=True), *keywords.items()):
        if isinstance(item, torch.nn.utils.rnn.PackedSequence):
            raise InvalidInputError(
                f"{name!r} is a PackedSequence, of which a graph has no form: pass the padded tensor and the lengths, and pack "
                "them in forward"
            )
        if isinstance(item, torch.Tensor) and item.is_nested:
            raise InvalidInputError(
                f"{name!r} is a nested tensor, of which a graph has no form: pass a padded one, "
                "torch.nested.to_padded_tensor(x, 0.0)"
            )
        if isinstance(item, Iterator):
            raise InvalidInputError(f"{name!r} is a {type(item).__name__}: pass tensors, inputs=(x,)")


def _split(signature: inspect.Signature, bound: inspect.BoundArguments) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional as far as there is no gap, so that graph inputs come in the signature's order."""
    args: list[Any] = []
    keywords: dict[str, Any] = {}
    gap = False
    for name, parameter in signature.parameters.items():
        if name not in bound.arguments:
            gap = True
            continue
        item = bound.arguments[name]
        if parameter.kind is parameter.VAR_POSITIONAL:
            args.extend(item)
        elif parameter.kind is parameter.VAR_KEYWORD:
            keywords.update(item)
        elif gap or parameter.kind is parameter.KEYWORD_ONLY:
            keywords[name] = item
        else:
            args.append(item)
    return tuple(args), keywords


def _tensor(item: Any) -> Any:
    if not isinstance(item, (np.ndarray, torch.Tensor)) and hasattr(item, "shape") and hasattr(item, "dtype"):
        if not hasattr(item, "__array__"):
            sizes = ", ".join(str(1 if size is None else size) for size in item.shape or ())
            raise InvalidInputError(
                f"{type(item).__name__} holds no values: a PyTorch model is traced with tensors, torch.randn({sizes}) for one"
            )
    if not isinstance(item, np.ndarray) or item.dtype.kind not in "fiubcV":
        return item
    if item.dtype.isbuiltin == 1:
        return torch.from_numpy(item)
    name = item.dtype.name
    if not name.startswith(("bfloat16", "float8")) or not hasattr(torch, name):
        return item  # others of ml_dtypes are none of torch's
    return torch.from_numpy(item.view(np.dtype(f"u{item.dtype.itemsize}"))).view(getattr(torch, name))


def positional_names(signature: inspect.Signature, count: int) -> list[str]:
    """Names for `count` positional inputs: the parameters', and ``args.0`` for those that ``*args`` takes."""
    names: list[str] = []
    for name, parameter in signature.parameters.items():
        if parameter.kind is parameter.VAR_POSITIONAL:
            names.extend(f"{name}.{i}" for i in range(count - len(names)))
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            names.append(name)
    return positional(names, count)


def leaf_paths(spec: pytree.TreeSpec, prefix: str = "") -> list[str]:
    """Paths of a structure's leaves, dotted: ``past.0.key``."""
    if spec.is_leaf():
        return [prefix]
    named = zip(child_keys(spec), spec.children(), strict=True)
    paths = [path for key, child in named for path in leaf_paths(child, f"{prefix}.{key}" if prefix else key)]
    return [tensor_path(path) for path in paths] if is_cache(spec.type) else paths


def input_paths(spec: pytree.TreeSpec, names: Sequence[str]) -> list[str]:
    """Paths of the leaves of ``(args, kwargs)``; `names` are those of the positional inputs."""
    args, kwargs = spec.children()
    keys, children = [*names[: args.num_children], *child_keys(kwargs)], [*args.children(), *kwargs.children()]
    named = zip(keys, children, strict=True)
    return [path for name, child in named for path in leaf_paths(child, name)]


def output_paths(spec: pytree.TreeSpec, inputs: Sequence[str]) -> list[str]:
    """Names of a result's leaves: ``output`` for a bare tensor, ``output_0`` for a tuple's, else paths.

    What repeats the path of an input, and every tensor of a cache, is ``present``: ``past.0.key`` comes out as
    ``present.0.key``, ``state`` as ``present.state``.
    """
    if spec.is_leaf():
        return ["output"]
    if isinstance(spec.type, type) and issubclass(spec.type, (tuple, list)) and not hasattr(spec.context, "_fields"):
        named = [(f"output_{i}", child) for i, child in enumerate(spec.children())]
    else:
        named = [("", spec)] if is_cache(spec.type) else list(zip(child_keys(spec), spec.children(), strict=True))
    caches = sum(is_cache(child.type) for _, child in named)
    paths: list[str] = []
    for name, child in named:
        if is_cache(child.type):
            paths += leaf_paths(child, "present" if caches == 1 else f"present.{name}")
        else:
            paths += leaf_paths(child, name)
    return [_present(path) if path in inputs else path for path in paths]


def _present(path: str) -> str:
    root, _, rest = path.partition(".")
    return f"present.{rest}" if rest and root.startswith("past") else f"present.{path}"


@dataclass(frozen=True)
class Dims:
    """Which dimensions of which inputs vary."""

    shapes: Any  # torch.export's `dynamic_shapes`
    names: dict[tuple[str, int], str]  # name of each varying dimension, by the leaf's path and the axis


def default_dims(call: Call) -> Dims:
    """Dimension 0 of every tensor, called ``batch`` where it is as large as the first one's.

    A 1 beside a larger batch stays 1: it is there to be broadcast.
    """
    batch = next((leaf.shape[0] for leaf in call.tensors.values() if leaf.dim()), 0)
    names: dict[tuple[str, int], str] = {}

    def leaf_spec(path: str, leaf: torch.Tensor) -> Any:
        if not leaf.dim() or leaf.shape[0] == 0 or (leaf.shape[0] == 1 and batch != 1):
            return None
        names[path, 0] = "batch" if leaf.shape[0] == batch else f"{path}_dim_0"
        return {0: Dim.AUTO}

    return Dims(_spec_tree(call, leaf_spec), names)


def given_dims(call: Call, notation: object, input_names: Sequence[str] | None) -> Dims:
    """The dynamic dimensions that the user gave in torch.export's notation; a plain string names a dimension.

    The notation is positional, or by parameter or by one of the user's names of the graph's inputs. What it says of a cache
    holds for each of its tensors.

    Raises:
        InvalidInputError: it names a parameter or an axis that is not there, or contradicts the example inputs.
    """
    tensors = call.tensors
    described = dimensions.by_path(notation, list(call.combined))
    given: dict[str, Any] = {}
    for path, item in described.items():
        if is_cache(type(call.combined.get(path))) and isinstance(item, Mapping):
            below = [name for name in tensors if name.startswith(f"{path}.")]
            given |= {name: of_cache(name, item, tensors[name].dim()) for name in below}
        else:
            given[_tensor_path(path, call, tensors, input_names)] = item
    names: dict[tuple[str, int], str] = {}

    def leaf_spec(path: str, leaf: torch.Tensor) -> Any:
        spec: dict[int, Any] = {}
        for axis, dim in dimensions.axes(path, given[path], leaf.dim()).items() if path in given else ():
            dimensions.check_size(path, axis, dim, leaf.shape[axis])
            if isinstance(dim, int):
                continue
            name = dimensions.name_of(path, axis, dim)
            if name:
                names[path, axis] = name
            spec[axis] = Dim.DYNAMIC if isinstance(dim, str) else dim
        return spec or None

    shapes = _spec_tree(call, leaf_spec)
    dimensions.check_names((path, axis, name, tensors[path].shape[axis]) for (path, axis), name in names.items())
    return Dims(shapes, names)


def differing_dims(call: Call, others: Sequence[Call]) -> Dims:
    """The dimensions in which several examples differ; those that differ alike share a name.

    Raises:
        InvalidInputError: the examples differ in more than sizes.
    """
    first = call.tensors
    every = [first, *(other.tensors for other in others)]
    for number, tensors in enumerate(every[1:], start=1):
        if list(tensors) != list(first):
            raise InvalidInputError(
                f"inputs[{number}] has other tensors than inputs[0]: {', '.join(tensors) or 'none'}"
            )
        for path, leaf in tensors.items():
            if leaf.dim() != first[path].dim() or leaf.dtype != first[path].dtype:
                raise InvalidInputError(
                    f"inputs[{number}]: {path!r} is {leaf.dtype} of {leaf.dim()} dimensions, in inputs[0] it is "
                    f"{first[path].dtype} of {first[path].dim()}: examples differ in their sizes only"
                )
    names: dict[tuple[str, int], str] = {}
    shared: dict[tuple[int, ...], str] = {}

    def leaf_spec(path: str, leaf: torch.Tensor) -> Any:
        spec: dict[int, Any] = {}
        for axis in range(leaf.dim()):
            sizes = tuple(tensors[path].shape[axis] for tensors in every)
            if len(set(sizes)) > 1:
                fresh = "batch" if axis == 0 and "batch" not in shared.values() else f"{path}_dim_{axis}"
                names[path, axis] = shared.setdefault(sizes, fresh)
                spec[axis] = Dim.DYNAMIC
        return spec or None

    return Dims(_spec_tree(call, leaf_spec), names)


def named_dims(call: Call, names: dict[tuple[str, int], str]) -> Dims:
    """The dimensions that `names` names, each of any size where tracing allows it."""

    def leaf_spec(path: str, leaf: torch.Tensor) -> Any:
        return {axis: Dim.AUTO for axis in range(leaf.dim()) if (path, axis) in names} or None

    return Dims(_spec_tree(call, leaf_spec), names)


def _tensor_path(path: str, call: Call, tensors: Mapping[str, torch.Tensor], input_names: Sequence[str] | None) -> str:
    """The path of the tensor that the user means: by its path, by its new name, or below the name of ``**kwargs``."""
    if path in tensors:
        return path
    named = dict(zip(input_names or (), tensors, strict=False))
    if path in named:
        return named[path]
    root, _, rest = path.partition(".")
    parameter = inspect.signature(call.module.forward).parameters.get(root)
    if parameter is not None and parameter.kind is parameter.VAR_KEYWORD and rest in tensors:
        return rest
    raise dimensions.unknown(path, tensors)


def _spec_tree(call: Call, leaf_spec: Callable[[str, torch.Tensor], Any]) -> Any:
    """torch.export's ``dynamic_shapes`` for the call, each tensor's from ``leaf_spec(path, tensor)``.

    A registered container of the user's stands as the list of its children, as torch.export wants it.
    """

    def walk(path: str, item: object, cached: bool = False) -> Any:
        if isinstance(item, torch.Tensor):
            return leaf_spec(tensor_path(path) if cached else path, item)
        children = _entries(item)
        if children is None:
            return None  # a constant of the trace
        specs = [walk(f"{path}.{key}", child, cached or is_cache(type(item))) for key, child in children]
        plain = type(item) in pytree.SUPPORTED_NODES and not hasattr(type(item), "__dataclass_fields__")
        if isinstance(item, dict) and plain:
            return dict(zip(item, specs, strict=True))
        return tuple(specs) if isinstance(item, tuple) else specs

    signature = inspect.signature(call.module.forward)
    specs: dict[str, Any] = {}
    for name, item in call.combined.items():
        if signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
            specs[name] = {key: walk(key, child) for key, child in item.items()}
        else:
            specs[name] = walk(name, item)
    return specs


def _entries(item: object) -> list[tuple[str, Any]] | None:
    """Children of a container with their names; None for a leaf."""
    if type(item) not in pytree.SUPPORTED_NODES and not isinstance(item, (list, tuple, dict)):
        return None
    leaves, spec = pytree.tree_flatten(item, is_leaf=lambda node: node is not item)
    if spec.is_leaf():
        return None
    return list(zip(child_keys(spec), leaves, strict=True))


def apart(call: Call) -> Call:
    """The call with a tensor object of its own for each argument, on the same storage.

    torch.export takes one tensor object for one value, wherever it stands: among the arguments, the parameters and the
    constants of the model.
    """

    def own(item: object) -> Any:
        return item.detach().requires_grad_(item.requires_grad) if isinstance(item, torch.Tensor) else item

    args, kwargs = pytree.tree_map(own, (call.args, call.kwargs))
    return Call(call.module, args, kwargs)


def doubled_ones(call: Call, dims: Dims) -> Call:
    """The call with every varying dimension of size 1 repeated: torch.export takes sizes 0 and 1 for constants.

    They are doubled, or repeated more often where another dimension has size 2 already and would be taken for the same.
    """
    sizes = {size for item in call.tensors.values() for size in item.shape}
    times = next(count for count in range(2, len(sizes) + 3) if count not in sizes)

    def double(path: str, item: Any) -> Any:
        if isinstance(item, torch.Tensor):
            for axis in range(item.dim()):
                if item.shape[axis] == 1 and (path, axis) in dims.names:
                    item = torch.cat([item] * times, axis)
        return item

    return call.mapped(double)


def has_ones(call: Call, dims: Dims) -> bool:
    """Some varying dimension has the example size 1."""
    tensors = call.tensors
    return any(tensors[path].shape[axis] == 1 for path, axis in dims.names)


def check_apart(placeholders: Iterable[tuple[str, torch.Tensor]], dims: Mapping[tuple[str, int], str]) -> None:
    """Refuses two of the user's names for dimensions that the model needs to be of one size; operands as in `symbol_names`.

    Raises:
        InvalidInputError: it does.
    """
    seen: dict[str, str] = {}
    for path, axis, expression in _dynamic_sizes(placeholders):
        name = dims.get((path, axis))
        name = None if isinstance(name, Spare) else name
        other = seen.setdefault(expression, name) if name is not None else None
        if other != name:
            raise InvalidInputError(
                f"dynamic_shapes: the model needs {other!r} and {name!r} (dimension {axis} of {path!r}) to be of one size: "
                "give them one name"
            )


def _dynamic_sizes(placeholders: Iterable[tuple[str, torch.Tensor]]) -> Iterator[tuple[str, int, str]]:
    """Path, axis and torch's expression of each dimension that varies."""
    for path, value in placeholders:
        for axis, size in enumerate(value.shape):
            if is_dynamic(size):
                yield path, axis, str(size.node.expr)


def symbol_names(
    placeholders: Iterable[tuple[str, torch.Tensor]], dims: Mapping[tuple[str, int], str]
) -> dict[str, str]:
    """Name of each symbol of the trace: the user's where the dimension has one, ``<input>_dim_<axis>`` otherwise.

    `placeholders` has path and traced tensor of each graph input, `dims` the user's names by path and axis.
    """
    names: dict[str, str] = {}
    unnamed: dict[str, str] = {}
    spare: dict[str, str] = {}
    for path, axis, symbol in _dynamic_sizes(placeholders):
        if not symbol.isidentifier():
            continue
        name = dims.get((path, axis))
        if isinstance(name, Spare):
            spare.setdefault(symbol, name)
        elif name is not None:
            names.setdefault(symbol, name)
        else:
            unnamed.setdefault(symbol, f"{path}_dim_{axis}")
    # The trace does not tie keys to their values: where one's length has a better name, it is the other's too.
    better = {name: names[symbol] for symbol, name in spare.items() if symbol in names}
    unnamed |= {symbol: better.get(name, name) for symbol, name in spare.items()}
    return {**unnamed, **names}
