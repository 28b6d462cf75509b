"""Running a live model of any framework on NumPy arrays."""

from __future__ import annotations

from typing import Any

from onnxport import frameworks
from onnxport.errors import InvalidModelError
from onnxport.validation.runners.base import Binding, Example, Outputs, Runner

__all__ = ["Binding", "Example", "Outputs", "Runner", "bind", "to_numpy"]


def bind(model: object, framework: str, binding: Binding) -> Runner:
    """A runner of `model`, a live model of `framework`.

    Raises:
        InvalidInputError: the inputs do not fit the model's parameters.
    """
    owner = frameworks.get(framework)
    if owner.bind is None:
        raise InvalidModelError(f"models of {owner.title} can't be run")
    return owner.bind(model, binding)


def to_numpy(value: Any) -> Any:
    """A tensor of any framework as a NumPy array; what is no tensor comes back as it is."""
    owner = frameworks.owner_of(type(value))
    return value if owner is None or owner.to_numpy is None else owner.to_numpy(value)
