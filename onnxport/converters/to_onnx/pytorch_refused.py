"""Example inputs that a PyTorch model itself refuses."""

from __future__ import annotations

import copy
import itertools
from inspect import signature

import numpy as np
import torch

from onnxport.errors import InvalidInputError, first_line
from onnxport.frameworks.pytorch_devices import original_place
from onnxport.frameworks.pytorch_titles import name_of
from onnxport.request import Request
from onnxport.tracing.pytorch_inputs import Call, bind
from onnxport.tracing.pytorch_modules import as_module
from onnxport.tracing.pytorch_reasons import place_of

_METHODS = {"float64": "double", "float16": "half", "bfloat16": "bfloat16"}  # that bring a module to a type


def check_runs(model: object, request: Request) -> None:
    """Runs a copy of `model` once on the example inputs.

    Raises:
        InvalidInputError: the model refuses them; the message has the user's line, PyTorch's reason and each input's type.
    """
    if not isinstance(model, torch.nn.Module) and not callable(model):
        return
    try:
        own = copy.deepcopy(as_module(model))
        if own.training and not isinstance(model, torch.nn.Module):
            return  # a function over modules that would run in training: it is not run
        own.eval()
        call = bind(own, *copy.deepcopy((request.inputs, request.kwargs)))
        count = len(request.inputs) if isinstance(request.inputs, tuple) and request.kwargs else len(call.args)
        # a module's own __call__ need not take by place what the user gives by keyword
        named = dict(zip(list(signature(own.forward).parameters)[count:], call.args[count:], strict=False))
    except Exception:  # what can't be copied isn't run: the first error stands
        return
    tensors = itertools.chain(own.parameters(), own.buffers(), call.tensors.values())
    if any(item.is_meta for item in tensors):
        raise InvalidInputError(
            f"{name_of(model)} or its inputs are on the meta device, which holds no values: make them on the CPU, or give it "
            "memory with module.to_empty(device='cpu') and load its weights"
        )
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            own(*call.args[:count], **named, **call.kwargs)
    except Exception as error:
        raise InvalidInputError(_message(model, own, call, error)) from error


def _message(model: object, own: torch.nn.Module, call: Call, error: Exception) -> str:
    place = place_of(error)
    given = [f"{path!r} is {_described(leaf)}" for path, leaf in call.leaves.items()]
    types = sorted({_name(weight.dtype) for weight in own.parameters()})
    weights = f"; its weights are {' and '.join(types)}" if types else ""
    taken = {_name(item.dtype) for item in call.tensors.values() if item.is_floating_point()}
    # Of the module's own state or of its surroundings: other inputs would not help.
    own_fault = isinstance(error, (AttributeError, NameError, ImportError, OSError, RecursionError, AssertionError))
    elsewhere = own_fault or "CUDA" in str(error)
    runs = "see that model(*inputs) runs on the CPU first" if elsewhere else "pass inputs that the model runs on"
    if len(types) == 1 and taken and taken.isdisjoint(types):
        runs = f"pass {types[0]} inputs, x.to(torch.{types[0]}), or convert model.{_METHODS.get(min(taken), 'float')}()"
    moved = original_place(model)
    if moved and any(word in str(error).lower() for word in ("device", moved.split(":")[0])):
        runs = (
            f"a copy on the processor is run, not the model on {moved}: create tensors in forward with device=x.device"
        )
    way_out = runs if call.tensors or not given else "pass tensors, torch.randn(1, 3) for one"
    why = first_line(error).removesuffix(", but expected one of:")  # torch lists the overloads below
    reason = f"{name_of(model)} itself does not run on the inputs: {why}"
    return "\n".join([*([place] if place else []), reason, f"{', '.join(given)}{weights}: {way_out}"])


def _described(leaf: object) -> str:
    if isinstance(leaf, torch.Tensor):
        return f"{_name(leaf.dtype)}{list(leaf.shape)}"
    if isinstance(leaf, np.ndarray):
        return f"an array of {'texts' if leaf.dtype.kind in 'SU' else leaf.dtype.name}, {list(leaf.shape)}"
    plain = not isinstance(leaf, (bool, int, float, str, type(None)))  # others name an address, or all that they hold
    return f"a {type(leaf).__name__}" if plain else f"{type(leaf).__name__} {str(leaf)[:40]}"


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
