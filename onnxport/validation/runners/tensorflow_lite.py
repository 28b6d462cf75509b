"""TFLite files, run by TensorFlow's interpreter.

There is no float64 run: the interpreter has none, and the file as TensorFlow's operators is the conversion's own reading of it,
which must not vouch for itself. What rounding costs, the interpreter shows with other kernels of its own and with moved weights
and scales.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf

from onnxport.errors import InvalidInputError, InvalidModelError, first_line
from onnxport.frameworks.native_log import native_log_kept
from onnxport.validation import tolerance
from onnxport.validation.numerics import Numerics
from onnxport.validation.runners.base import DEFAULT_LENGTH, Binding, Example, Outputs, Runner


class LiteRunner(Runner):
    """Runs a signature of a file; each run starts with the states that the file begins with."""

    framework: ClassVar[str] = "tensorflow"
    runtime = "tf.lite.Interpreter"
    windows_without_rows: ClassVar[bool] = False  # the interpreter takes no images of no rows
    inner_forms_vary: ClassVar[bool] = True
    # TFLite's own kernel of a mean adds the rounded zero point apart, and lies a step off in one of twenty.
    inner_means_lie_a_step_apart: ClassVar[bool] = True
    settles_nan: bool = False  # XNNPACK's exp, minimum and others make numbers of NaN, TFLite's own do not

    def __init__(self, model: Any, key: str | None, example: Example | None) -> None:
        super().__init__("TFLite file", example)
        self._signature = model.signature(key)
        self._specs: dict[str, Any] = model.specs(key)
        graph = model.graph(self._signature.graph)
        self._sizes = {name: graph.tensors[number].dims for name, number in self._signature.inputs.items()}
        self._model = model
        self._interpreter = _interpreter(model.rewritten)

    def run(self, leaves: Sequence[Any]) -> Outputs:
        """The outputs of the signature, by name in its order."""
        given = dict(zip(self._specs, leaves, strict=True))
        for name, value in given.items():
            self._check(name, np.asarray(value))
        with native_log_kept():
            results = self._by_signature(given) if self._signature.key else self._by_tensors(given)
        return self._named([results[name] for name in self._signature.outputs])

    @property
    def numerics(self) -> Numerics:
        """The longest row of its weights is as long as its sums."""
        return Numerics(min(max(DEFAULT_LENGTH, self._model.longest_sum), 1024))

    def run_moved(self, leaves: Sequence[Any], units: int, seed: int) -> Outputs | None:
        """With weights and scales off by units in the last place; where there are scales, by other kernels of TFLite too."""
        rng = np.random.default_rng(seed)
        content = self._model.moved(lambda array: tolerance.nudge(array, units, rng))
        kernels = _KERNELS[seed % len(_KERNELS)]
        if kernels == _RESOLVERS.BUILTIN_REF and (not self._model.has_steps or self._model.ends_reference_kernels):
            kernels = _RESOLVERS.AUTO  # the slow kernels show nothing more of real numbers, or would end the process
        usual, self._interpreter = self._interpreter, _interpreter(content, kernels)
        try:
            return self.run(leaves)
        finally:
            self._interpreter = usual

    def intermediates(self, leaves: Sequence[Any]) -> dict[str, Any]:
        """What the operators give, by the names that their nodes have in a trace of the file."""
        results: dict[str, Any] = {}
        try:
            self.each_intermediate(leaves, results.__setitem__)
        except Exception:  # kernels that run in one way alone: the search does without
            return {}
        return results

    def each_intermediate(self, leaves: Sequence[Any], take: Callable[[str, Any], None]) -> None:
        """The same one by one, by TFLite's own kernels: others fuse operators and keep nothing between them."""
        names = self._model.node_names(self._signature.key)
        usual, self._interpreter = self._interpreter, _interpreter(self._model.rewritten, _KERNELS[2], keep=True)
        try:
            with native_log_kept():
                self._by_tensors(dict(zip(self._specs, leaves, strict=True)))
            for number, name in names.items():
                take(name, self._interpreter.get_tensor(number))
        finally:
            self._interpreter = usual

    def says_steps(self, name: str) -> bool:
        """Whether the output `name` holds whole numbers that stand for real ones."""
        graph = self._model.graph(self._signature.graph)
        return (
            graph.tensors[self._signature.outputs[name]].steps is not None if name in self._signature.outputs else False
        )

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


_RESOLVERS = tf.lite.experimental.OpResolverType
_KERNELS = (_RESOLVERS.AUTO, _RESOLVERS.BUILTIN_REF, _RESOLVERS.BUILTIN_WITHOUT_DEFAULT_DELEGATES)


def _interpreter(content: bytes, kernels: Any = _KERNELS[0], *, keep: bool = False) -> Any:
    with warnings.catch_warnings(), native_log_kept():
        warnings.simplefilter("ignore")  # it names the package that is to replace it
        try:
            return tf.lite.Interpreter(
                model_content=content,
                num_threads=1,
                experimental_op_resolver_type=kernels,
                experimental_preserve_all_tensors=keep,
            )
        except (ValueError, RuntimeError) as error:
            raise InvalidModelError(f"TensorFlow's interpreter does not take the file: {first_line(error)}") from error


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
