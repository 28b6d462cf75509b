"""Caches of transformers' models, and other objects that hold tensors, as containers that torch's pytree takes apart.

Every subclass of transformers' ``Cache`` is known while a conversion runs, whatever its layers hold; no class is listed here.
A tensor of a cache is named by its layer and what it is: ``0.key``, ``0.value``, ``0.conv_state``; the self-attention of a
decoder ``0.decoder.key`` and its cross-attention ``0.encoder.key``. Everything else in the object (flags, configurations)
stays as it was.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from onnxport.graph.cache_names import is_cache, parts_of

# Python numbers that count the tokens which a cache has seen.
_COUNTS = frozenset({"cumulative_length", "_seen_tokens"})


def kinds() -> list[type]:
    """The classes of caches that transformers has defined so far; none where it is not imported."""
    root = getattr(sys.modules.get("transformers.cache_utils"), "Cache", None)
    if not isinstance(root, type):
        return []
    every, waiting = [], [root]
    while waiting:
        kind = waiting.pop()
        every.append(kind)
        waiting.extend(kind.__subclasses__())
    return list(dict.fromkeys(every))


def holds_tensors(item: object) -> bool:
    """Whether an object of some other class has tensors among its attributes, or in containers there."""
    if isinstance(item, (torch.Tensor, torch.nn.Module, type)) or not hasattr(item, "__dict__"):
        return False
    return any(isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves(list(vars(item).values())))


def register(kind: type) -> None:
    """Has torch's pytree take objects of a class apart: the one in Python, since the other can't forget a class again.

    Raises:
        ValueError: torch knows the class already.
    """
    pytree._private_register_pytree_node(
        kind,
        _flatten,
        _unflatten,
        serialized_type_name=f"{kind.__module__}.{kind.__qualname__}",
        flatten_with_keys_fn=_flatten_with_keys,
    )


@dataclass(frozen=True)
class _Child:
    """What is computed from a tensor among the children."""

    index: int


class _Tensor(_Child):
    """The tensor itself."""


class _Length(_Child):
    """The size of its last axis but one, kept as a Python number."""


@dataclass(frozen=True)
class _Box:
    """A list, dict or object and what it holds."""

    kind: type
    keys: tuple[Any, ...]
    items: tuple[Any, ...]


@dataclass(frozen=True)
class _Rest:
    """A value that is no tensor; two are equal where their values are, and objects where their classes are."""

    value: Any

    def __eq__(self, other: object) -> bool:
        """Whether the other stands for the same; classes and flags are compared, not tensors and streams."""
        return isinstance(other, _Rest) and self._compared == other._compared

    def __hash__(self) -> int:
        """The hash of what is compared."""
        return hash(self._compared)

    @property
    def _compared(self) -> Any:
        if isinstance(self.value, torch.Tensor):
            return torch.Tensor
        plain = (bool, int, float, str, type, type(None), torch.dtype, torch.device)
        return self.value if isinstance(self.value, plain) else type(self.value)


@dataclass(frozen=True)
class Count:
    """Tokens that a cache has seen, other than the length of its tensors tells."""

    name: str
    value: int


def fixed_count(spec: pytree.TreeSpec) -> str | None:
    """What a cache among inputs counts in a Python number that no graph input gives; None where there is nothing."""
    if isinstance(spec.context, _Context):
        count = next(_counts(spec.context.skeleton), None)
        if count is not None:
            return f"{spec.type.__qualname__}: {count.name} is {count.value}, and the cache holds fewer tokens"
    return next(filter(None, (fixed_count(child) for child in spec.children())), None)


def _counts(node: object) -> Iterator[Count]:
    if isinstance(node, Count):
        yield node
    for item in node.items if isinstance(node, _Box) else ():
        yield from _counts(item)


class _Context(tuple[Any, ...]):
    """The names of the children and what is around them, as the context of a pytree's node."""

    __slots__ = ()

    @property
    def names(self) -> tuple[str, ...]:
        """A name for each child."""
        return tuple(self[0])

    @property
    def skeleton(self) -> Any:
        """The object without its tensors."""
        return self[1]


def _flatten(item: object) -> tuple[list[torch.Tensor], _Context]:
    tensors: list[tuple[tuple[str, ...], torch.Tensor]] = []
    skeleton = _without_tensors(item, (), tensors)
    paths = [parts_of(path, [other for other, _ in tensors]) for path, _ in tensors]
    order = sorted(range(len(tensors)), key=lambda i: _place(paths[i]))
    new = {old: place for place, old in enumerate(order)}
    names = tuple(".".join(paths[i]) for i in order)
    return [tensors[i][1] for i in order], _Context((names, _renumbered(skeleton, new)))


def _flatten_with_keys(item: object) -> tuple[list[tuple[pytree.KeyEntry, torch.Tensor]], _Context]:
    children, context = _flatten(item)
    keyed = zip(context.names, children, strict=True)
    return [(pytree.MappingKey(name), child) for name, child in keyed], context


def _unflatten(children: Any, context: _Context) -> Any:
    return _filled(context[1], list(children))


def _without_tensors(item: object, path: tuple[str, ...], tensors: list[tuple[tuple[str, ...], torch.Tensor]]) -> Any:
    """The value with places for its tensors, which are appended to `tensors` with their paths."""
    if isinstance(item, torch.Tensor):
        if path[-1].startswith("_"):  # an object's own constant
            return _Rest(item)
        tensors.append((path, item))
        return _Tensor(len(tensors) - 1)
    if isinstance(item, (list, tuple)):
        keys: Sequence[Any] = range(len(item))
        return _Box(
            type(item), tuple(keys), tuple(_without_tensors(x, (*path, str(i)), tensors) for i, x in enumerate(item))
        )
    if isinstance(item, dict):
        inside = tuple(_without_tensors(x, (*path, str(key)), tensors) for key, x in item.items())
        return _Box(type(item), tuple(item), inside)
    if isinstance(item, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return _Rest(None)
    if path and not _is_part(item, path):
        return _Rest(item)
    start, attributes = len(tensors), dict(vars(item))
    counts = {name: attributes.pop(name) for name in _COUNTS if isinstance(attributes.get(name), (int, torch.SymInt))}
    own = [_without_tensors(x, (*path, name), tensors) for name, x in attributes.items()]
    held = [_counted(name, count, tensors[start:], start) for name, count in counts.items()]
    return _Box(type(item), (*attributes, *counts), (*own, *held))


def _is_part(item: object, path: tuple[str, ...]) -> bool:
    """Whether an object inside another one is taken apart too: a layer, a cache, anything that holds tensors."""
    if isinstance(item, (type, torch.nn.Module)) or not hasattr(item, "__dict__"):
        return False
    return path[-2:-1] == ("layers",) or is_cache(type(item)) or holds_tensors(item)


def _counted(name: str, count: Any, held: Sequence[tuple[tuple[str, ...], torch.Tensor]], start: int) -> Any:
    """A number of tokens: the length of the first keys where that is the same. Sizes of a trace are not compared."""
    keys = (i for i, (path, tensor) in enumerate(held) if {"keys", "key_cache"} & {*path} and tensor.dim() > 1)
    first = next(keys, None)
    if first is None:
        return _Rest(count) if count == 0 else Count(name, count)
    size = held[first][1].shape[-2]
    known = not isinstance(size, torch.SymInt) and not isinstance(count, torch.SymInt)
    return Count(name, count) if known and size != count else _Length(start + first)


def _renumbered(node: Any, new: dict[int, int]) -> Any:
    if isinstance(node, _Child):
        return type(node)(new[node.index])
    if isinstance(node, _Box):
        return _Box(node.kind, node.keys, tuple(_renumbered(item, new) for item in node.items))
    return node


def _filled(node: Any, children: Sequence[Any]) -> Any:
    if isinstance(node, _Tensor):
        return children[node.index]
    if isinstance(node, _Length):
        tensor = children[node.index]  # a tree of something else than tensors has no sizes
        return tensor.shape[-2] if isinstance(tensor, torch.Tensor) and tensor.dim() > 1 else 0
    if isinstance(node, Count):
        return node.value
    if isinstance(node, _Rest):
        return node.value
    items = [_filled(item, children) for item in node.items]
    if issubclass(node.kind, dict):
        whole = node.kind() if node.kind is not dict else {}
        whole.update(zip(node.keys, items, strict=True))
        return whole
    if issubclass(node.kind, (list, tuple)):
        return node.kind(*items) if hasattr(node.kind, "_fields") else node.kind(items)
    rebuilt = node.kind.__new__(node.kind)
    vars(rebuilt).update(zip(node.keys, items, strict=True))
    return rebuilt


class Spare(str):
    """A name for a dimension that yields to any other."""

    __slots__ = ()


def of_cache(name: str, axes: Mapping[int, Any], rank: int) -> dict[int, Any]:
    """What the user asks for the dimensions of a whole cache, for one of its tensors of `rank` dimensions.

    All of it holds for keys and values [batch, heads, length, size], and but for the heads for further ones [batch, length,
    size], such as those of an index; those of an encoder's output vary too, in a length of their own; of other states and
    counts only the batch is known.
    """
    *front, last = name.split(".")
    if last.endswith(("_keys", "_values")) and rank == 3:
        return {max(axis - 1, 0): dim for axis, dim in axes.items() if axis != 1}
    if last not in ("key", "value"):
        return {axis: dim for axis, dim in axes.items() if axis == 0 and rank > 0}
    if front[-1:] != ["encoder"]:
        return dict(axes)
    return {axis: Spare(f"encoder_{dim}") if axis and isinstance(dim, str) else dim for axis, dim in axes.items()}


def _place(path: tuple[str, ...]) -> tuple[Any, ...]:
    """The order of the children: layer by layer, as they stand in each."""
    return (int(path[0]),) if path and path[0].isdecimal() else (sys.maxsize,)
