"""Running a live model of any framework on NumPy arrays."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from onnxport.frameworks import Framework
from onnxport.validation.runners.base import Binding, Example, Outputs, Runner

__all__ = ["Binding", "Example", "Outputs", "Runner", "bind", "to_numpy"]


def bind(model: Any, framework: Framework, binding: Binding) -> Runner:
    """A runner of `model`, a live model of `framework`.

    Raises:
        InvalidInputError: the inputs do not fit the model's parameters.
    """
    runner: Runner = import_module(f"onnxport.validation.runners.{framework}").bind(model, binding)
    return runner


def to_numpy(value: Any) -> Any:
    """A tensor of any framework as a NumPy array; what is no tensor comes back as it is."""
    for base in type(value).__mro__:
        package = base.__module__.partition(".")[0]
        if package in ("torch", "tensorflow", "keras"):
            name = "pytorch" if package == "torch" else "tensorflow"
            return import_module(f"onnxport.validation.runners.{name}").to_numpy(value)
    return value
