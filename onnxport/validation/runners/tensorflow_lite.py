"""TFLite files, run by TensorFlow's interpreter; in float64 and with moved weights as TensorFlow's own operators."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf

from onnxport.errors import InvalidInputError
from onnxport.frameworks.native_log import native_log_kept
from onnxport.validation.runners.base import Binding, Example, Outputs, Runner
from onnxport.validation.runners.tensorflow_traced import TracedRunner
from onnxport.validation.runners.tensorflow_wide import Twins


class LiteRunner(TracedRunner):
    """Runs a signature of a file; each run starts with the states that the file begins with."""

    framework: ClassVar[str] = "tensorflow"
    runtime = "tf.lite.Interpreter"

    def __init__(self, model: Any, key: str | None, example: Example | None) -> None:
        super().__init__("TFLite file", example)
        self._signature = model.signature(key)
        self._specs: dict[str, Any] = model.specs(key)
        graph = model.graph(self._signature.graph)
        self._sizes = {name: graph.tensors[number].dims for name, number in self._signature.inputs.items()}
        self._twins = Twins(model.function(key), tf.constant)
        with warnings.catch_warnings(), native_log_kept():
            warnings.simplefilter("ignore")  # it names the package that is to replace it
            self._interpreter = tf.lite.Interpreter(model_content=model.rewritten, num_threads=1)

    def run(self, leaves: Sequence[Any]) -> Outputs:
        """The outputs of the signature, by name in its order."""
        given = dict(zip(self._specs, leaves, strict=True))
        for name, value in given.items():
            self._check(name, np.asarray(value))
        with native_log_kept():
            results = self._by_signature(given) if self._signature.key else self._by_tensors(given)
        return self._named([results[name] for name in self._signature.outputs])

    def _check(self, name: str, value: np.ndarray) -> None:
        sizes = self._sizes[name]
        if value.ndim != len(sizes) or any(size not in (None, n) for size, n in zip(sizes, value.shape, strict=True)):
            raise InvalidInputError(f"the input {name!r} has shape {list(value.shape)}, the file takes {list(sizes)}")

    def _by_signature(self, given: Mapping[str, Any]) -> dict[str, Any]:
        self._interpreter.reset_all_variables()
        results = self._interpreter.get_signature_runner(self._signature.key)(**given)
        return {name: np.array(value) for name, value in results.items()}

    def _by_tensors(self, given: Mapping[str, Any]) -> dict[str, Any]:
        for name, value in given.items():
            self._interpreter.resize_tensor_input(self._signature.inputs[name], value.shape)
        self._interpreter.allocate_tensors()
        self._interpreter.reset_all_variables()
        for name, value in given.items():
            self._interpreter.set_tensor(self._signature.inputs[name], value)
        self._interpreter.invoke()
        return {name: self._interpreter.get_tensor(number) for name, number in self._signature.outputs.items()}

    def _named(self, result: Any) -> Outputs:
        return [(name, np.asarray(item)) for name, item in zip(self._signature.outputs, result, strict=True)]


def bind(model: Any, binding: Binding) -> Runner:
    """A runner of a TFLite file.

    Raises:
        InvalidInputError: the inputs are not those of the file.
    """
    specs = model.specs(binding.signature)
    if not binding.given:
        return LiteRunner(model, binding.signature, None)
    args, kwargs = binding.arguments()
    given = {**dict(zip(specs, args, strict=False)), **kwargs}
    names = {name: spec.name for name, spec in zip(specs, binding.specs or (), strict=False)}
    given = {own: given[key] for own in specs for key in (own, names.get(own)) if key in given}
    if len(given) != len(specs) or len(args) + len(kwargs) != len(specs):
        raise InvalidInputError(f"the file takes the inputs {', '.join(specs)}; {len(args) + len(kwargs)} are given")
    leaves = tuple(np.asarray(given[name], specs[name].dtype.as_numpy_dtype) for name in specs)
    return LiteRunner(model, binding.signature, Example(tuple(specs), leaves))
