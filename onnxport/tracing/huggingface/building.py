"""A model of a folder without the memory of its weights, and where each weight comes from."""

from __future__ import annotations

import copy
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch.nn.modules import module as modules
from torch.overrides import TorchFunctionMode
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.conversion_mapping import get_model_conversion_mapping
from transformers.core_model_loading import WeightConverter, WeightRenaming, dot_natural_key, rename_source_key
from transformers.initialization import no_init_weights

from onnxport.errors import InvalidModelError
from onnxport.tracing.huggingface.checkpoint import Stored
from onnxport.tracing.pytorch_deferred import Deferral, Weight

_SHOWN = 5  # names in a message


@dataclass(frozen=True)
class Built:
    """A model whose parameters stand for weights in files."""

    model: PreTrainedModel
    deferral: Deferral
    notes: tuple[str, ...]


@dataclass
class _Group:
    """Tensors of a file that become one or several of the model's, as transformers converts them."""

    transform: Any
    first: str
    parts: list[tuple[str, str]] = field(default_factory=list)  # names in the file, and the pattern that each fits


def build(
    kind: type[PreTrainedModel],
    config: PreTrainedConfig,
    stored: Mapping[str, Stored],
    dtype: torch.dtype,
    arguments: Mapping[str, Any],
) -> Built:
    """A model in inference mode, of a class, its configuration and further arguments; only its buffers take memory.

    Raises:
        InvalidModelError: the files do not hold all of the model's weights, or others than it has.
    """
    with _on_meta(), no_init_weights():
        model = kind._from_config(config, dtype=dtype, **arguments).eval()
    own = model.state_dict()
    groups = _groups(model, stored, own)
    converted = {name: tensor for group in groups for name, tensor in _dry(group, model, stored).items()}
    homes = {name: group for group in groups for name in _dry(group, model, stored)}
    _check_shapes(kind.__name__, own, converted)
    missing = {name for name in own if name not in homes}
    model.tie_weights(missing_keys=set(missing), recompute_mapping=False)
    sources = _sources(model, homes, stored, dtype)
    deferral = Deferral([weight for _, weight in sources.values()])
    replaced = {key: tensor for (key, _), tensor in zip(sources.items(), deferral.tensors, strict=True)}
    _set_parameters(model, replaced)
    _set_buffers(model, homes, stored)
    left = sorted(set(stored) - {name for group in groups for name, _ in group.parts})
    ignored = model._keys_to_ignore_on_load_unexpected or ()
    left = [name for name in left if not any(re.search(pattern, name) for pattern in ignored)]
    notes = [f"weights that the model does not use: {_listed(left)}"] if left else []
    return Built(model, deferral, tuple(notes))


@contextmanager
def _on_meta() -> Iterator[None]:
    """Parameters that modules register in the block have no memory; buffers do.

    Those of torch's own layers never have any: glibc before 2.38 does not use freed aligned memory again, so that the
    process would grow by the whole model.
    """

    def without_memory(_: torch.nn.Module, __: str, parameter: torch.nn.Parameter | None) -> Any:
        if parameter is None or parameter.device.type == "meta":
            return None
        return torch.nn.Parameter(parameter.detach().to("meta"), requires_grad=False)

    handle = modules.register_module_parameter_registration_hook(without_memory)
    try:
        with _EmptyParametersOnMeta():
            yield
    finally:
        handle.remove()


class _EmptyParametersOnMeta(TorchFunctionMode):
    """In the constructors of torch's layers ``torch.empty`` is what becomes a parameter: it gets no memory."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        given = dict(kwargs or {})
        if func is torch.empty and given.get("device") is None:
            caller = sys._getframe(1)
            if caller.f_code.co_name == "__init__" and caller.f_globals["__name__"].startswith("torch.nn.modules."):
                given["device"] = "meta"
        return func(*args, **given)


def _groups(model: PreTrainedModel, stored: Mapping[str, Stored], own: dict[str, torch.Tensor]) -> list[_Group]:
    """What each tensor of the files becomes, by transformers' own rules for the model."""
    rules = get_model_conversion_mapping(model)
    renamings = [item for item in rules if isinstance(item, WeightRenaming)]
    converters = [item for item in rules if isinstance(item, WeightConverter)]
    by_pattern = {pattern: item for item in converters for pattern in item.source_patterns}
    prefix, groups = model.base_model_prefix, dict[str, _Group]()
    for name in sorted(stored, key=dot_natural_key):
        new, pattern = rename_source_key(name, renamings, converters, prefix, own)
        if new not in own and name in own:
            new, pattern = rename_source_key(name, [], [], base_model_prefix=prefix, meta_state_dict=own)
        if new not in own:
            continue
        if new not in groups:
            transform = copy.deepcopy(by_pattern[pattern]) if pattern is not None else WeightRenaming(name, new)
            groups[new] = _Group(transform, new)
        groups[new].parts.append((name, pattern if pattern is not None else name))
    return list(groups.values())


def _converted(group: _Group, model: PreTrainedModel, read: Any) -> dict[str, torch.Tensor]:
    """The model's tensors of a group; `read` gives a file's tensor by name."""
    transform = copy.deepcopy(group.transform)
    for name, pattern in group.parts:
        transform.add_tensor(group.first, name, pattern, partial(read, name))
    results = transform.convert(group.first, model=model, config=model.config)
    return {name: item[0] if isinstance(item, list) else item for name, item in results.items()}


def _dry(group: _Group, model: PreTrainedModel, stored: Mapping[str, Stored]) -> dict[str, torch.Tensor]:
    """The same without values."""
    return _converted(
        group, model, lambda name: torch.empty(stored[name].shape, dtype=stored[name].dtype, device="meta")
    )


def _check_shapes(kind: str, own: Mapping[str, torch.Tensor], converted: Mapping[str, torch.Tensor]) -> None:
    for name, tensor in converted.items():
        if name in own and own[name].shape != tensor.shape:
            raise InvalidModelError(
                f"the weight {name!r} is {list(tensor.shape)} in the files, and {list(own[name].shape)} in a {kind} of the "
                "folder's configuration"
            )


def _sources(
    model: PreTrainedModel, homes: Mapping[str, _Group], stored: Mapping[str, Stored], dtype: torch.dtype
) -> dict[int, tuple[torch.nn.Parameter, Weight]]:
    """Each parameter and its weight by the parameter's id; tied ones once."""
    plan = model._get_dtype_plan(dtype)
    sources: dict[int, tuple[torch.nn.Parameter, Weight]] = {}
    missing: list[str] = []
    named: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        named.setdefault(id(parameter), []).append(name)
    for name, parameter in model.named_parameters():
        home = next((item for item in named[id(parameter)] if item in homes), None)
        if home is None:
            computed = _computed(model, name)
            if computed is None:
                missing.append(name)
            else:
                sources[id(parameter)] = parameter, computed
            continue
        kept = next((wide for pattern, wide in plan.items() if _matches(pattern, home)), parameter.dtype)
        sources[id(parameter)] = parameter, _weight(home, parameter, kept, homes[home], model, stored)
    if missing:
        raise InvalidModelError(
            f"the folder has no weights for {_listed(missing)} of {type(model).__name__}: they would be random"
        )
    return sources


def _computed(model: PreTrainedModel, name: str) -> Weight | None:
    """A weight that the model itself computes and its files leave out, as tables of sines; None where it would be random."""
    if not any(re.search(pattern, name) for pattern in model._keys_to_ignore_on_load_missing or ()):
        return None
    place, _, own = name.rpartition(".")
    module = copy.copy(model.get_submodule(place))
    shape, dtype = module._parameters[own].shape, module._parameters[own].dtype
    values = []
    for filled in (0, 1):  # what is not written by the initialisation, and what draws numbers, differs
        module._parameters = {
            key: None if item is None else torch.nn.Parameter(torch.full(item.shape, filled, dtype=item.dtype), False)
            for key, item in module._parameters.items()
        }
        with torch.random.fork_rng(devices=()), torch.no_grad():
            torch.manual_seed(filled)
            model._init_weights(module)
        values.append(module._parameters[own].detach())
    value, other = values
    return Weight(tuple(shape), dtype, lambda: value, lambda: iter([value.reshape(-1)])) if value.equal(other) else None


def _matches(pattern: str, name: str) -> bool:
    """Whether a pattern of transformers' dtype plan, with stars for numbers, stands in a name between dots."""
    expression = r"\d+".join(re.escape(part) for part in pattern.split("*"))
    return re.search(rf"(^|\.){expression}($|\.)", name) is not None


def _weight(
    name: str,
    parameter: torch.Tensor,
    dtype: torch.dtype,
    group: _Group,
    model: PreTrainedModel,
    stored: Mapping[str, Stored],
) -> Weight:
    shape = tuple(parameter.shape)
    if isinstance(group.transform, WeightRenaming):
        source = stored[group.parts[0][0]]

        def whole() -> torch.Tensor:
            return source.tensor().to(dtype)

        def pieces() -> Iterator[torch.Tensor]:
            for piece in source.pieces():
                yield piece.to(dtype)

        return Weight(shape, dtype, whole, pieces)

    def joined() -> torch.Tensor:
        results = _converted(group, model, lambda part: stored[part].tensor().to(dtype))
        return results[name].to(dtype).contiguous()

    return Weight(shape, dtype, joined, lambda: iter([joined().reshape(-1)]))


def _set_parameters(model: PreTrainedModel, replaced: Mapping[int, torch.Tensor]) -> None:
    new = {key: torch.nn.Parameter(tensor, requires_grad=False) for key, tensor in replaced.items()}
    for module in model.modules():
        for name, parameter in list(module._parameters.items()):
            if parameter is not None and id(parameter) in new:
                module._parameters[name] = new[id(parameter)]


def _set_buffers(model: PreTrainedModel, homes: Mapping[str, _Group], stored: Mapping[str, Stored]) -> None:
    for name, buffer in model.named_buffers():
        if name in homes:
            results = _converted(homes[name], model, lambda part: stored[part].tensor())
            buffer.copy_(results[name])


def _listed(names: Sequence[str]) -> str:
    rest = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {rest} more" if rest > 0 else "")
