"""Where the leaves of a structure stand: the keys of torch's pytree, also of classes registered without `flatten_with_keys_fn`.

torch gives paths only for classes whose registration names their keys; the outputs of diffusers are registered without. Their
context, from which torch rebuilds them, holds the keys all the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch.utils._pytree import TreeSpec


def child_keys(spec: TreeSpec) -> list[str]:
    """Keys of a node's children: a dict's keys, the field names of a class, else their positions."""
    count = spec.num_children
    context = spec.context
    if hasattr(context, "_fields"):  # a namedtuple's context is its class
        return list(context._fields)
    candidates = [context, *(context if isinstance(context, (list, tuple)) else ())]
    for keys in candidates:  # a dict's keys; a dataclass' or a cache's context holds its field names first
        if isinstance(keys, (list, tuple)) and len(keys) == count and all(isinstance(key, (str, int)) for key in keys):
            return [str(key) for key in keys]
    return [str(i) for i in range(count)]


def leaf_keys(spec: TreeSpec) -> list[tuple[str, ...]]:
    """The keys that lead to each leaf, in pytree order."""
    if spec.is_leaf():
        return [()]
    named = zip(child_keys(spec), spec.children(), strict=True)
    return [(key, *rest) for key, child in named for rest in leaf_keys(child)]
