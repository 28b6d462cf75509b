"""Classes that a model takes or gives, known to torch's pytree while a conversion runs: dataclasses, caches of transformers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from onnxport.tracing import pytorch_caches

_registered: list[type] = []


def register(*items: object) -> bool:
    """Registers the dataclasses among the items, and what they hold; True if there were new ones."""
    return _register(items, results=False)


def register_results(*items: object) -> bool:
    """The same for what a model gives; there any other object that holds tensors is taken apart too."""
    return _register(items, results=True)


def _register(items: Sequence[object], *, results: bool) -> bool:
    kinds: set[type] = set()
    for item in items:
        _collect(item, kinds, results)
    before = count()
    for kind in sorted(kinds, key=lambda item: item.__qualname__):
        try:
            if issubclass(kind, dict):
                _register_mapping(kind)
            elif not hasattr(kind, "__dataclass_fields__"):
                pytorch_caches.register(kind)
            else:
                torch.export.register_dataclass(kind)
        except (TypeError, ValueError):  # one that torch can't take apart: it stays one value
            continue
        _registered.append(kind)
    return count() > before


def register_caches() -> None:
    """Registers the caches of transformers; one that the user has registered stays as it is."""
    for kind in pytorch_caches.kinds():
        if kind not in pytree.SUPPORTED_NODES:
            pytorch_caches.register(kind)
            _registered.append(kind)


def count() -> int:
    """How many classes are registered."""
    return len(_registered)


def take_back(to: int) -> None:
    """Has torch forget the classes registered since `count` gave `to`."""
    while len(_registered) > to:
        pytree._deregister_pytree_node(_registered.pop())


def _collect(item: object, kinds: set[type], results: bool) -> None:
    kind = type(item)
    if hasattr(kind, "__dataclass_fields__") and kind not in pytree.SUPPORTED_NODES:
        kinds.add(kind)
        for name in kind.__dataclass_fields__:
            _collect(getattr(item, name), kinds, results)
    elif isinstance(item, dict):
        for child in item.values():
            _collect(child, kinds, results)
    elif isinstance(item, (list, tuple)):
        for child in item:
            _collect(child, kinds, results)
    elif results and kind not in pytree.SUPPORTED_NODES and pytorch_caches.holds_tensors(item):
        kinds.add(kind)


def _register_mapping(kind: type) -> None:
    """A dataclass that is also a dict (a "ModelOutput") holds the fields that are not None, in order."""
    pytree._private_register_pytree_node(
        kind,
        lambda item: (list(item.values()), list(item.keys())),
        lambda values, keys: kind(**dict(zip(keys, values, strict=True))),
        serialized_type_name=f"{kind.__module__}.{kind.__qualname__}",
        flatten_with_keys_fn=lambda item: (
            [(pytree.MappingKey(key), child) for key, child in item.items()],
            list(item),
        ),
    )


def register_of(module: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Registers the dataclasses that the module takes or gives; True if there were new ones."""
    new = register(args, kwargs)
    try:
        with torch.no_grad():
            result = module(*args, **kwargs)
    except Exception:  # the model fails by itself; the error of tracing names it
        return new
    return register_results(result) or new
