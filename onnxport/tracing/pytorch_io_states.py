"""The state that a PyTorch module keeps between calls, as inputs and outputs: what ``states="io"`` asks for."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from typing import Any

import torch

from onnxport.errors import InvalidInputError
from onnxport.request import Request
from onnxport.tracing.pytorch_inputs import bind

PAST = "past"


def with_states(model: object, request: Request) -> tuple[torch.nn.Module, Request]:
    """A module without state that takes the buffers which `model` updates as the input ``past`` and also gives them as they are
    afterwards, and the request with the present buffers as the example. Parameters and buffers are the model's own.

    Raises:
        InvalidInputError: it is no module, updates no buffer on the example inputs, or takes or gives a ``past`` of its own.
    """
    if not isinstance(model, torch.nn.Module):
        raise InvalidInputError(
            "states='io' is for a torch.nn.Module: what keeps a state elsewhere can't be told apart"
        )
    if PAST in inspect.signature(model.forward).parameters:
        raise InvalidInputError(
            "states='io' names the state 'past', a parameter of forward() already: its state is an input without it"
        )
    names = _updated(model, request)
    if not names:
        raise InvalidInputError(
            "states='io': the model updates none of its buffers on the example inputs; leave it out"
        )
    past = {name: tensor.detach().clone() for name, tensor in model.named_buffers() if name in names}
    return _stateless(model), replace(request, kwargs={**(request.kwargs or {}), PAST: past})


def _stateless(model: torch.nn.Module) -> torch.nn.Module:
    """The module, its forward with the argument ``past``; a class of its own, so that copies of it have it too."""
    kind = type(model)
    original = inspect.signature(kind.forward)
    known = list(original.parameters.values())
    rest = [item for item in known if item.kind is item.VAR_KEYWORD]
    past = inspect.Parameter(PAST, inspect.Parameter.KEYWORD_ONLY)
    forward = _with_past(kind.forward)
    forward.__signature__ = original.replace(  # type: ignore[attr-defined]  # what inspect.signature reads
        parameters=[*(item for item in known if item not in rest), past, *rest],
        return_annotation=inspect.Signature.empty,
    )
    result = copy.copy(model)
    result.__class__ = type(kind.__name__, (kind,), {"forward": forward, "__module__": kind.__module__})
    return result


def _with_past(forward: Callable[..., Any]) -> Callable[..., Any]:
    def with_past(self: torch.nn.Module, *args: Any, past: Mapping[str, torch.Tensor], **kwargs: Any) -> Any:
        with _standing_in(self, {name: tensor.clone() for name, tensor in past.items()}) as present:
            result = forward(self, *args, **kwargs)
            after = present()
        return {**_by_name(result), PAST: after}

    return with_past


def _by_name(result: object) -> dict[Any, Any]:
    """A result's parts under the names that they have alone."""
    if isinstance(result, Mapping):
        return dict(result)
    if is_dataclass(result) and not isinstance(result, type):
        return {item.name: getattr(result, item.name) for item in fields(result)}
    if isinstance(result, tuple) and hasattr(result, "_fields"):
        return dict(zip(result._fields, result, strict=True))
    if isinstance(result, (list, tuple)) and len(result) != 1:
        return {f"output_{number}": item for number, item in enumerate(result)}
    return {"output": result[0] if isinstance(result, (list, tuple)) else result}


@contextmanager
def _standing_in(model: torch.nn.Module, tensors: Mapping[str, torch.Tensor]) -> Iterator[Callable[[], dict[str, Any]]]:
    """Other tensors in the place of buffers, and what gives the present ones.

    They are plain attributes: torch.export takes what the model assigns to a buffer for a change of the model's own.
    """
    paths = {name: name.rpartition(".") for name in tensors}
    places = {name: (model.get_submodule(owner), attribute) for name, (owner, _, attribute) in paths.items()}
    before = {id(owner): (owner, dict(owner._buffers)) for owner, _ in places.values()}
    try:
        for name, (owner, attribute) in places.items():
            del owner._buffers[attribute]
            vars(owner)[attribute] = tensors[name]
        yield lambda: {name: vars(owner)[attribute] for name, (owner, attribute) in places.items()}
    finally:
        for owner, attribute in places.values():
            vars(owner).pop(attribute, None)
        for owner, buffers in before.values():
            owner._buffers.clear()
            owner._buffers.update(buffers)


def _updated(model: torch.nn.Module, request: Request) -> list[str]:
    """The buffers that a run on the example inputs writes to or replaces; the model's own stay as they are."""
    call = bind(model, request.inputs, request.kwargs)
    args, kwargs = copy.deepcopy((call.args, call.kwargs))
    buffers = {name: tensor.detach().clone() for name, tensor in model.named_buffers()}
    versions = {name: tensor._version for name, tensor in buffers.items()}
    with torch.no_grad(), _standing_in(model, buffers) as present:
        result = model(*args, **kwargs)
        after = present()
    if PAST in _by_name(result):
        raise InvalidInputError("states='io' names the state 'past', an output of the model already: rename that")
    return [name for name, tensor in buffers.items() if after[name] is not tensor or tensor._version != versions[name]]
