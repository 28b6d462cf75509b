"""Users' dataclasses that a model takes or gives, known to torch's pytree for the time of a conversion."""

from __future__ import annotations

import torch
from torch.utils import _pytree as pytree

_registered: list[type] = []


def register(*items: object) -> bool:
    """Registers the dataclasses among the items, and what they hold; True if there were new ones."""
    kinds: set[type] = set()
    for item in items:
        _collect(item, kinds)
    before = count()
    for kind in sorted(kinds, key=lambda item: item.__qualname__):
        try:
            if issubclass(kind, dict):
                _register_mapping(kind)
            else:
                torch.export.register_dataclass(kind)
        except (TypeError, ValueError):  # one that torch can't take apart: it stays one value
            continue
        _registered.append(kind)
    return count() > before


def count() -> int:
    """How many classes are registered."""
    return len(_registered)


def take_back(to: int) -> None:
    """Has torch forget the classes registered since `count` gave `to`."""
    while len(_registered) > to:
        pytree._deregister_pytree_node(_registered.pop())


def _collect(item: object, kinds: set[type]) -> None:
    kind = type(item)
    if hasattr(kind, "__dataclass_fields__") and kind not in pytree.SUPPORTED_NODES:
        kinds.add(kind)
        for name in kind.__dataclass_fields__:
            _collect(getattr(item, name), kinds)
    elif isinstance(item, dict):
        for child in item.values():
            _collect(child, kinds)
    elif isinstance(item, (list, tuple)):
        for child in item:
            _collect(child, kinds)


def _register_mapping(kind: type) -> None:
    """A dataclass that is also a dict (a "ModelOutput") holds the fields that are not None, in order."""
    pytree.register_pytree_node(
        kind,
        lambda item: (list(item.values()), list(item.keys())),
        lambda values, keys: kind(**dict(zip(keys, values, strict=True))),
        serialized_type_name=f"{kind.__module__}.{kind.__qualname__}",
        flatten_with_keys_fn=lambda item: (
            [(pytree.MappingKey(key), child) for key, child in item.items()],
            list(item),
        ),
    )
