"""Example inputs of a PyTorch callable: binding them to its parameters, naming their leaves, saying which dimensions vary."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.export import Dim
from torch.utils import _pytree as pytree

from onnxport.errors import InvalidInputError


@dataclass(frozen=True)
class Call:
    """A call of a module: what torch.export is given.

    Attributes:
        module: the module.
        args: positional inputs.
        kwargs: keyword inputs, in the order of the signature.
    """

    module: torch.nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    @property
    def combined(self) -> dict[str, Any]:
        """Inputs by parameter, as torch.export keys its dynamic shapes."""
        return dict(inspect.signature(self.module.forward).bind(*self.args, **self.kwargs).arguments)


def bind(module: torch.nn.Module, inputs: Any, kwargs: Mapping[str, Any] | None) -> Call:
    """The call that `inputs` and `kwargs` mean; arrays become tensors.

    Args:
        module: the module to call.
        inputs: a tuple or list of positional inputs, a dict by parameter name, or one tensor.
        kwargs: keyword inputs.

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
        raise InvalidInputError(f"the inputs do not fit forward{signature}: {error}") from error
    args, keywords = _split(signature, bound)
    args, keywords = pytree.tree_map(_tensor, (args, keywords))
    return Call(module, tuple(args), dict(keywords))


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
    return torch.from_numpy(item) if isinstance(item, np.ndarray) and item.dtype.kind in "fiubc" else item


def positional_names(signature: inspect.Signature, count: int) -> list[str]:
    """Names for `count` positional inputs: the parameters', and ``args.0`` for those that ``*args`` takes."""
    names: list[str] = []
    for name, parameter in signature.parameters.items():
        if parameter.kind is parameter.VAR_POSITIONAL:
            names.extend(f"{name}.{i}" for i in range(count - len(names)))
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            names.append(name)
    return [*names, *(f"input_{i}" for i in range(len(names), count))][:count]


def leaf_paths(spec: pytree.TreeSpec, prefix: str = "") -> list[str]:
    """Paths of a structure's leaves, dotted: ``past.0.key``."""
    if spec.is_leaf():
        return [prefix]
    paths: list[str] = []
    for key, child in zip(_child_keys(spec), _children(spec), strict=True):
        paths.extend(leaf_paths(child, f"{prefix}.{key}" if prefix else key))
    return paths


def _children(spec: pytree.TreeSpec) -> list[pytree.TreeSpec]:
    return list(spec.children())


def _child_keys(spec: pytree.TreeSpec) -> list[str]:
    count = spec.num_children
    context = spec.context
    if hasattr(context, "_fields"):  # a namedtuple's context is its class
        return list(context._fields)
    candidates = [context, *(context if isinstance(context, (list, tuple)) else ())]
    for keys in candidates:  # a dict's keys; a dataclass' or a cache's context holds its field names first
        if isinstance(keys, (list, tuple)) and len(keys) == count and all(isinstance(key, (str, int)) for key in keys):
            return [str(key) for key in keys]
    return [str(i) for i in range(count)]


def input_paths(spec: pytree.TreeSpec, names: Sequence[str]) -> list[str]:
    """Paths of the leaves of ``(args, kwargs)``; `names` are those of the positional inputs."""
    args, kwargs = _children(spec)
    paths: list[str] = []
    for name, child in zip(names, _children(args), strict=False):
        paths.extend(leaf_paths(child, name))
    for key, child in zip(_child_keys(kwargs), _children(kwargs), strict=True):
        paths.extend(leaf_paths(child, key))
    return paths


def output_paths(spec: pytree.TreeSpec) -> list[str]:
    """Names of a result's leaves: ``output`` for a bare tensor, ``output_0`` for a tuple's, else paths."""
    if spec.is_leaf():
        return ["output"]
    if isinstance(spec.type, type) and issubclass(spec.type, (tuple, list)) and not hasattr(spec.context, "_fields"):
        paths: list[str] = []
        for i, child in enumerate(_children(spec)):
            paths.extend(leaf_paths(child, f"output_{i}"))
        return paths
    return leaf_paths(spec)


@dataclass(frozen=True)
class Dims:
    """Which dimensions of which inputs vary.

    Attributes:
        shapes: torch.export's ``dynamic_shapes``.
        names: name of each varying dimension, by the leaf's path and the axis.
    """

    shapes: Any
    names: dict[tuple[str, int], str]


_STATIC: Any = None


def default_dims(call: Call) -> Dims:
    """Dimension 0 of every tensor, called ``batch`` where it is as large as the first one's.

    A 1 beside a larger batch stays 1: it is there to be broadcast.
    """
    leaves = [
        leaf for leaf in pytree.tree_leaves((call.args, call.kwargs)) if isinstance(leaf, torch.Tensor) and leaf.dim()
    ]
    batch = leaves[0].shape[0] if leaves else 0
    names: dict[tuple[str, int], str] = {}

    def leaf_spec(path: str, leaf: torch.Tensor, _: Any) -> Any:
        if not leaf.dim() or leaf.shape[0] == 0 or (leaf.shape[0] == 1 and batch != 1):
            return None
        names[path, 0] = "batch" if leaf.shape[0] == batch else f"{path}_dim_0"
        return {0: Dim.AUTO}

    return Dims(_spec_tree(call, {}, leaf_spec), names)


def given_dims(call: Call, said: Any, input_names: Sequence[str] | None) -> Dims:
    """What the user said in torch.export's notation; a plain string names a dimension.

    Args:
        call: the call.
        said: by parameter (or by one of the user's input names), or positional.
        input_names: the user's names of the graph's inputs.

    Raises:
        InvalidInputError: it names a parameter or an axis that is not there.
    """
    names: dict[tuple[str, int], str] = {}

    def leaf_spec(path: str, leaf: torch.Tensor, given: Any) -> Any:
        axes = given.items() if isinstance(given, Mapping) else enumerate(given or ())
        spec: dict[int, Any] = {}
        for axis, dim in axes:
            if not isinstance(axis, int) or not -leaf.dim() <= axis < leaf.dim():
                raise InvalidInputError(
                    f"dynamic_shapes: {path!r} has no dimension {axis!r}, its shape is {tuple(leaf.shape)}"
                )
            axis %= leaf.dim()
            if dim is None or isinstance(dim, int):
                continue
            if isinstance(dim, str):
                names[path, axis] = dim
                spec[axis] = Dim.DYNAMIC
            else:
                named = getattr(dim, "__name__", "")
                if named and dim not in (Dim.AUTO, Dim.DYNAMIC, Dim.STATIC):
                    names[path, axis] = named
                spec[axis] = dim
        return spec or None

    combined = call.combined
    if isinstance(said, Mapping):
        by_parameter = dict(said)
        if input_names:
            by_parameter = _by_parameter(by_parameter, combined, input_names)
        unknown = [key for key in by_parameter if key not in _known_keys(call, combined)]
        if unknown:
            raise InvalidInputError(f"dynamic_shapes: no input {unknown[0]!r}; the inputs are {list(combined)}")
    else:
        by_parameter = dict(zip(combined, said, strict=False))
    return Dims(_spec_tree(call, by_parameter, leaf_spec), names)


def _known_keys(call: Call, combined: Mapping[str, Any]) -> set[str]:
    return {*combined, *call.kwargs}


def _by_parameter(said: dict[str, Any], combined: Mapping[str, Any], input_names: Sequence[str]) -> dict[str, Any]:
    """`said` with the user's input names replaced by what they name; only unnested inputs have one."""
    tensors = [name for name, item in combined.items() if isinstance(item, torch.Tensor)]
    renamed = dict(zip(input_names, tensors, strict=False))
    return {key if key in combined else renamed.get(key, key): item for key, item in said.items()}


def _spec_tree(call: Call, said: Mapping[str, Any], leaf_spec: Any) -> Any:
    """torch.export's ``dynamic_shapes`` for the call, each leaf's made by ``leaf_spec(path, tensor, said)``.

    A registered container of the user's stands as the list of its children, as torch.export wants it.
    """

    def walk(path: str, item: Any, given: Any) -> Any:
        if isinstance(item, torch.Tensor):
            return leaf_spec(path, item, given)
        children = _entries(item)
        if children is None:
            return _STATIC
        made = [(key, walk(f"{path}.{key}", child, _lookup(given, key, i))) for i, (key, child) in enumerate(children)]
        if (
            isinstance(item, dict)
            and type(item) in pytree.SUPPORTED_NODES
            and not hasattr(type(item), "__dataclass_fields__")
        ):
            return {original: spec for original, (_, spec) in zip(item, made, strict=True)}
        specs = [spec for _, spec in made]
        return tuple(specs) if isinstance(item, tuple) else specs

    signature = inspect.signature(call.module.forward)
    specs: dict[str, Any] = {}
    for name, item in call.combined.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_KEYWORD:
            specs[name] = {
                key: walk(key, child, _lookup(said.get(name), key, 0) or said.get(key)) for key, child in item.items()
            }
        else:
            specs[name] = walk(name, item, said.get(name))
    return specs


def _entries(item: Any) -> list[tuple[str, Any]] | None:
    """Children of a container with their names; None for a leaf."""
    if type(item) not in pytree.SUPPORTED_NODES and not isinstance(item, (list, tuple, dict)):
        return None
    leaves, spec = pytree.tree_flatten(item, is_leaf=lambda node: node is not item)
    if spec.is_leaf():
        return None
    return list(zip(_child_keys(spec), leaves, strict=True))


def _lookup(given: Any, key: str, index: int) -> Any:
    if isinstance(given, Mapping):
        return given.get(key, given.get(index))
    if isinstance(given, (list, tuple)) and index < len(given):
        return given[index]
    return None


def apart(call: Call) -> Call:
    """The call with a tensor object of its own for each argument, on the same storage.

    torch.export takes one tensor object for one value, wherever it stands: among the arguments, the parameters and the
    constants of the model.
    """

    def own(item: Any) -> Any:
        return item.detach().requires_grad_(item.requires_grad) if isinstance(item, torch.Tensor) else item

    args, kwargs = pytree.tree_map(own, (call.args, call.kwargs))
    return Call(call.module, args, kwargs)


def doubled_ones(call: Call, dims: Dims) -> Call:
    """The call with every varying dimension of size 1 repeated: torch.export takes sizes 0 and 1 for constants.

    They are doubled, or repeated more often where another dimension has size 2 already and would be taken for the same.
    """
    paths = iter(_paths(call))
    leaves = [item for item in pytree.tree_leaves((call.args, call.kwargs)) if isinstance(item, torch.Tensor)]
    sizes = {size for item in leaves for size in item.shape}
    times = next(count for count in range(2, len(sizes) + 3) if count not in sizes)

    def double(item: Any) -> Any:
        path = next(paths)
        if isinstance(item, torch.Tensor):
            for axis in range(item.dim()):
                if item.shape[axis] == 1 and (path, axis) in dims.names:
                    item = torch.cat([item] * times, axis)
        return item

    args, kwargs = pytree.tree_map(double, (call.args, call.kwargs))
    return Call(call.module, args, kwargs)


def has_ones(call: Call, dims: Dims) -> bool:
    """Some varying dimension has the example size 1."""
    leaves = pytree.tree_leaves((call.args, call.kwargs))
    return any(
        isinstance(leaf, torch.Tensor)
        and any((path, axis) in dims.names and size == 1 for axis, size in enumerate(leaf.shape))
        for path, leaf in zip(_paths(call), leaves, strict=True)
    )


def _paths(call: Call) -> list[str]:
    spec = pytree.tree_flatten((call.args, call.kwargs))[1]
    return input_paths(spec, positional_names(inspect.signature(call.module.forward), len(call.args)))


def is_dynamic(size: Any) -> bool:
    """Whether a traced size varies; tracing may have fixed a symbol to a number."""
    return isinstance(size, torch.SymInt) and not size.node.expr.is_number


def symbol_names(
    placeholders: Iterable[tuple[str, torch.Tensor]], dims: Mapping[tuple[str, int], str]
) -> dict[str, str]:
    """Name of each symbol of the trace: the user's where the dimension has one, ``<input>_dim_<axis>`` otherwise.

    Args:
        placeholders: path and traced tensor of each graph input.
        dims: the user's names by path and axis.
    """
    names: dict[str, str] = {}
    unnamed: dict[str, str] = {}
    for path, value in placeholders:
        for axis, size in enumerate(value.shape):
            if not is_dynamic(size):
                continue
            symbol = str(size.node.expr)
            if not symbol.isidentifier():
                continue
            said = dims.get((path, axis))
            if said is not None:
                names.setdefault(symbol, said)
            else:
                unnamed.setdefault(symbol, f"{path}_dim_{axis}")
    return {**unnamed, **names}
