"""Blocks that stay functions: `functions=` of a conversion."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from difflib import get_close_matches

from onnxport.errors import InvalidInputError
from onnxport.graph.passes.outline import Outline
from onnxport.graph.scopes import Chain, Scopes
from onnxport.model import OnnxModel

AUTO = "auto"


def with_functions(hub: OnnxModel, wanted: str | Sequence[type | str]) -> OnnxModel:
    """The model with the blocks of the wanted classes as functions; the graph without them stays its `plain` form.

    Raises:
        InvalidInputError: the model calls no module of a wanted class.
    """
    plain = hub.model
    model = plain.clone()
    outline = Outline(model, hub.scopes)
    chosen = outline.repeated() if wanted == AUTO else _calls(hub.scopes, wanted, outline.kinds())
    notes = outline.run(chosen) if chosen else ["functions='auto': no block repeats"]
    return OnnxModel(model, notes=(*hub.notes, *notes), runtime=hub.runtime, plain=plain)


def _calls(scopes: Scopes, wanted: str | Sequence[type | str], kinds: dict[str, tuple[str, ...]]) -> set[Chain]:
    names = [item if isinstance(item, str) else f"{item.__module__}.{item.__qualname__}" for item in wanted]
    chosen = {name: {kind for kind, bases in kinds.items() if _is_named(name, bases)} for name in names}
    for name, matches in chosen.items():
        if not matches:
            own = sorted({kind.rpartition(".")[2] for kind in kinds})
            near = get_close_matches(name.rpartition(".")[2], own, 3)
            shown = f"did you mean {', '.join(near)}" if near else f"it calls {', '.join(own[:12]) or 'none'}"
            raise InvalidInputError(f"functions=: the model calls no module of class {name!r}; {shown}")
    every = set().union(*chosen.values())
    return {
        chain[:end]
        for chain in scopes.chains.values()
        for end in range(1, len(chain) + 1)
        if chain[end - 1].kind in every
    }


def _is_named(name: str, bases: Collection[str]) -> bool:
    return any(base == name or base.endswith(f".{name}") for base in bases)
