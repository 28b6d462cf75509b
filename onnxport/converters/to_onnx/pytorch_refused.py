"""Example inputs that a PyTorch model itself refuses, though torch.export traces it with them."""

from __future__ import annotations

import copy

import torch

from onnxport.errors import InvalidInputError, first_line
from onnxport.request import Request
from onnxport.tracing.pytorch_inputs import Call, bind


def check_runs(model: object, request: Request) -> None:
    """Runs a copy of `model` once on the example inputs.

    Raises:
        InvalidInputError: the model refuses them; the message has PyTorch's reason and each input's type and shape.
    """
    if not isinstance(model, torch.nn.Module):
        return
    try:
        own = copy.deepcopy(model).eval()
        call = bind(own, *copy.deepcopy((request.inputs, request.kwargs)))
    except Exception:  # what can't be copied isn't run: the first error stands
        return
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            own(*call.args, **call.kwargs)
    except Exception as error:
        raise InvalidInputError(_message(own, call, error)) from error


def _message(model: torch.nn.Module, call: Call, error: Exception) -> str:
    given = [f"{path!r} is {_name(leaf.dtype)}{list(leaf.shape)}" for path, leaf in call.tensors.items()]
    types = sorted({_name(weight.dtype) for weight in model.parameters()})
    weights = f"; its weights are {' and '.join(types)}" if types else ""
    return (
        f"{type(model).__name__} itself does not run on the inputs: {first_line(error)}\n"
        f"{', '.join(given)}{weights}: pass inputs that the model runs on"
    )


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
