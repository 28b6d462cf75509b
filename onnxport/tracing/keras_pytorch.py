"""Keras 3 models on the PyTorch backend, as modules whose inputs have the names that they have on every backend."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import torch

from onnxport.frameworks.keras import input_shapes, input_structure
from onnxport.graph.names import unique_names
from onnxport.tracing.keras_names import in_order, output_names
from onnxport.tracing.pytorch_caches import Spare
from onnxport.tracing.pytorch_modules import with_forward

_POSITIONAL = inspect.Parameter.POSITIONAL_OR_KEYWORD


@dataclass(frozen=True)
class Module:
    """A model or layer in inference mode, to be traced by torch.export.

    Attributes:
        module: takes tensors, by the parameters of the layer's `call` or, of a functional model, one for each input.
        flatten: the arguments for a user's inputs.
        input_names: of a functional model its own, else None.
        output_names: of a functional model its own, else None.
        example: arguments where the user gives none; None where the model does not know its inputs.
        dynamic_shapes: the dimensions beside the batch that a functional model leaves open; None where there are none.
    """

    module: torch.nn.Module
    flatten: Callable[[Any], Any]
    input_names: list[str] | None = None
    output_names: list[str] | None = None
    example: tuple[torch.Tensor, ...] | None = None
    dynamic_shapes: dict[str, dict[int, str]] | None = None


def _plain(model: Any, forward: Callable[..., Any], signature: inspect.Signature) -> torch.nn.Module:
    """A module with the layer's own parameters, without Keras' way of calling it, which leaves `forward` out."""
    plain = type(type(model).__name__, (torch.nn.Module,), {})()
    plain.__dict__.update({key: model.__dict__[key] for key in vars(plain) if key in model.__dict__}, training=False)
    return with_forward(plain, forward, signature)


def as_module(model: Any) -> Module:
    """What torch.export traces for `model`."""
    structure = input_structure(model)
    return _layer(model) if structure is None else _functional(model, structure)


def written_variables(model: Any, module: torch.nn.Module, args: Any, kwargs: Mapping[str, Any]) -> list[str]:
    """Paths of the variables of layers that a call in inference writes, but those of random numbers; all stay as they are."""
    with keras.StatelessScope() as scope, torch.no_grad():
        module(*(args if isinstance(args, (tuple, list)) else (args,)), **kwargs)
    held = [item for layer in model._flatten_layers() for item in vars(layer).values()]
    inside = [item for items in held if isinstance(items, (list, tuple)) for item in items]
    variables = {id(item): item for item in (*held, *inside) if isinstance(item, keras.Variable)}
    return [item.path for key, item in variables.items() if key in scope.state_mapping]


def _layer(model: Any) -> Module:
    def forward(*args: object, **kwargs: object) -> Any:
        return in_order(model(*args, **{"training": False, **kwargs}))

    parameters = [
        item for name, item in inspect.signature(model.call).parameters.items() if name not in ("training", "self")
    ]
    return Module(_plain(model, forward, inspect.Signature(parameters)), in_order)


def _functional(model: Any, structure: object) -> Module:
    tensors = keras.tree.flatten(structure)
    names = [item.name for item in tensors]

    def forward(*flat: torch.Tensor) -> Any:
        return in_order(model(keras.tree.pack_sequence_as(structure, list(flat)), training=False))

    def flatten(inputs: Any) -> Any:
        if isinstance(inputs, Mapping):
            keys = names
            if isinstance(structure, Mapping) and set(inputs) == set(structure):
                keys = keras.tree.flatten({key: key for key in structure})  # in the order of the alphabet, as `names`
            return tuple(inputs[key] for key in keys)
        flat = keras.tree.flatten(list(inputs))
        return tuple(flat) if len(flat) == len(names) else inputs

    arguments = [f"x{i}" for i in range(len(names))]
    signature = inspect.Signature([inspect.Parameter(name, _POSITIONAL) for name in arguments])
    shapes = input_shapes(model, tensors)
    dims = {
        argument: {
            axis: "batch" if not axis else Spare(f"{name}_dim_{axis}")
            for axis, size in enumerate(shape)
            if size is None
        }
        for argument, name, shape in zip(arguments, names, shapes, strict=True)
    }
    open_beside_batch = any(axis for axes in dims.values() for axis in axes)
    return Module(
        _plain(model, forward, signature),
        flatten,
        unique_names(names),
        output_names(model),
        tuple(_example(shape, item.dtype) for shape, item in zip(shapes, tensors, strict=True)),
        dims if open_beside_batch else None,
    )


def _example(sizes: Sequence[int | None], dtype: str) -> torch.Tensor:
    """Zeros of the input's type; open dimensions of different sizes."""
    shape = [2 + axis if size is None else size for axis, size in enumerate(sizes)]
    return torch.zeros(shape, dtype=getattr(torch, dtype))
