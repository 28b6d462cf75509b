"""The architectures of the installed transformers, and tiny models of random weights with inputs that they run on in eager."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from scripts.conformance.zoo_configs import configurations
from scripts.conformance.zoo_inputs import candidates

LARGE, LIMIT = 6_000_000, 60_000_000  # parameters of a model that takes long, and of one that takes too long
# What of a model's heads is taken, the first that it has: those that generate, then those of one mapping after the other.
_FIRST = ("CAUSAL_LM", "SEQ_TO_SEQ", "SPEECH_SEQ_2_SEQ", "IMAGE_TEXT_TO_TEXT", "MULTIMODAL_LM", "CTC", "MASKED_LM")


@dataclass(frozen=True)
class Architecture:
    """A folder of transformers' models: the type that stands for it, and its classes, the most complete first."""

    name: str
    kind: str  # the configuration class
    classes: tuple[str, ...]
    sequences: tuple[str, ...] = ()  # those that have an encoder and generate


def architectures() -> dict[str, Architecture]:
    """Every architecture that transformers' own mappings name."""
    from transformers.models.auto import configuration_auto, modeling_auto

    mappings = {
        name: mapping
        for name, mapping in sorted(vars(modeling_auto).items())
        if name.startswith("MODEL_") and name.endswith("_NAMES")
    }
    order = sorted(mappings, key=lambda name: (_rank(name), name))
    folders: dict[str, list[Architecture]] = {}
    for kind, configuration in configuration_auto.CONFIG_MAPPING_NAMES.items():
        classes = [item for name in order for item in _classes(mappings[name].get(kind))]
        if classes:
            folder = configuration_auto.model_type_to_module_name(kind)
            sequences = [item for name in order if "SEQ_TO_SEQ" in name for item in _classes(mappings[name].get(kind))]
            made = Architecture(folder, configuration, tuple(dict.fromkeys(classes)), tuple(dict.fromkeys(sequences)))
            folders.setdefault(folder, []).append(made)
    return {name: _foremost(name, items) for name, items in sorted(folders.items())}


def _foremost(name: str, items: list[Architecture]) -> Architecture:
    """The type that is called as its folder, else the one whose configuration has the shortest name: the whole, not a part."""
    plain = name.replace("_", "")
    return min(items, key=lambda item: (item.kind.lower() != f"{plain}config", len(item.kind)))


def _rank(mapping: str) -> int:
    if mapping in ("MODEL_MAPPING_NAMES", "MODEL_FOR_PRETRAINING_MAPPING_NAMES"):
        return len(_FIRST) + 1
    return next((i for i, part in enumerate(_FIRST) if part in mapping), len(_FIRST))


def _classes(named: Any) -> list[str]:
    if not named:
        return []
    return [named] if isinstance(named, str) else list(named)


@dataclass(frozen=True)
class Ready:
    """A model that runs in eager, with the inputs on which it does."""

    model: Any
    inputs: dict[str, Any]
    label: str  # what it is, for the table


class DoesNotRun(Exception):
    """No recipe gives a model that runs in eager."""


def ready(architecture: Architecture) -> Ready:
    """The first tiny model of an architecture that runs in eager.

    Raises:
        DoesNotRun: none does.
    """
    return _first_that_runs(architecture, _worth(architecture.classes))


def sequence_to_sequence(architecture: Architecture, ready: Ready) -> Ready | None:
    """The architecture's class with an encoder, where it has one and `ready` is another.

    Raises:
        DoesNotRun: it does not run in eager.
    """
    if not architecture.sequences or type(ready.model).__name__ in architecture.sequences:
        return None
    return _first_that_runs(architecture, list(architecture.sequences[:1]))


def _first_that_runs(architecture: Architecture, names: list[str]) -> Ready:
    first: Exception | None = None
    for name in names:
        for built in _built(architecture, name):
            if isinstance(built, Exception):
                first = first or built
                continue
            for inputs in candidates(built):
                failure = _failure(built, inputs.tensors)
                if failure is None:
                    return Ready(built, inputs.tensors, f"{name} ({', '.join(inputs.tensors)})")
                first = first or failure
    raise DoesNotRun(f"{type(first).__name__}: {first}") from first


def _worth(classes: tuple[str, ...]) -> list[str]:
    return list(dict.fromkeys([*classes[:2], classes[-1]]))


def _built(architecture: Architecture, name: str) -> Iterator[Any]:
    import torch
    import transformers

    kind = getattr(transformers, architecture.kind)
    model_class = getattr(transformers, name, None) or _by_module(architecture.name, name)
    own = getattr(model_class, "config_class", None)

    def size(config: Any) -> int:
        try:
            with torch.device("meta"):
                return sum(p.numel() for p in model_class(config).parameters())
        except Exception:  # built with numbers of its weights: that is no reason not to build it
            return 0

    chosen = own if inspect.isclass(own) and own is not kind else kind
    for config in configurations(chosen, lambda config: size(config) > LARGE):
        config.return_dict = True
        count = size(config)
        if count > LIMIT:
            yield ValueError(f"{count / 1e6:.0f} million parameters")
            continue
        torch.manual_seed(0)
        try:
            yield _stirred(model_class(config).float().eval())
        except Exception as error:
            yield error


def _stirred(model: Any) -> Any:
    """The model with numbers of their own in weights that start as a constant: routers of zeros leave all experts tied."""
    import torch

    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.is_floating_point() and weight.numel() > 1 and bool((weight == weight.reshape(-1)[0]).all()):
                weight.add_(0.05 * torch.randn(weight.shape, generator=draw))
    return model


def _by_module(folder: str, name: str) -> Any:
    return getattr(importlib.import_module(f"transformers.models.{folder}.modeling_{folder}"), name)


def _failure(model: Any, inputs: dict[str, Any]) -> Exception | None:
    """Why the model does not run on copies of the inputs; None where it does, and gives finite numbers."""
    import torch
    from torch.utils import _pytree as pytree

    copies = {key: value.clone() if isinstance(value, torch.Tensor) else value for key, value in inputs.items()}
    try:
        with torch.no_grad():
            result = model(**copies)
    except Exception as error:
        return error
    leaves = pytree.tree_leaves(dict(result)) if hasattr(result, "items") else pytree.tree_leaves(result)
    if not any(isinstance(leaf, torch.Tensor) and leaf.numel() for leaf in leaves):
        return ValueError("gives no tensors")
    return None
