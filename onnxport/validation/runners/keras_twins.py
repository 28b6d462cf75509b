"""Other runs of a Keras model on a backend without TensorFlow's graphs: in float64, and with moved weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import keras
import numpy as np

from onnxport.frameworks.native_log import native_log_kept
from onnxport.validation import tolerance

_NARROW = frozenset(("float32", "float16", "bfloat16", "mixed_float16", "mixed_bfloat16"))
_LIMIT = 1 << 30  # of the weights in bytes: a copy of more costs more memory than a validation is worth


class KerasTwins:
    """Runs of copies and traces, created on first use; a model that Keras can't copy, or whose copy fails, has none."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._wide: Any = None
        self._same: Any = None
        self._programs: dict[Any, Any] = {}  # by types and shapes
        self._narrow_only = _size(model) > _LIMIT
        self._fixed = self._narrow_only

    def float64(self, call: Callable[[Any], Any]) -> Any:
        """What `call` gives of the copy in float64; None where there is none."""
        if self._narrow_only:
            return None
        try:
            with _doubles():
                self._wide = self._wide or _copied(self._model, wide=True)
                return call(self._wide)
        except Exception:  # user code runs, and may name types that clash with float64
            self._narrow_only = True
        return None

    def coarse(self, call: Callable[[Any, Sequence[Any]], Any], tensors: Sequence[Any]) -> float | None:
        """Epsilon of the coarsest type that the model computes in; None where that is its outputs' own, or can't be seen."""
        if keras.backend.backend() == "torch":
            from onnxport.validation.runners.pytorch import coarsest

            return coarsest(lambda: call(self._model, tensors))
        program = self._traced(call, tensors)
        coarse: float | None = program.coarse if program is not None else None
        return coarse

    def moved(self, call: Callable[[Any, Sequence[Any]], Any], tensors: Sequence[Any], units: int, seed: int) -> Any:
        """What `call` gives with weights that are off by `units` in the last place; None where it can't be had.

        Results inside are off too: on PyTorch sums, and on both what stands beside 1 in a sum.
        """
        if self._fixed:
            return None
        rng = np.random.default_rng(seed)
        program = self._traced(call, tensors) if keras.backend.backend() == "jax" else None
        try:
            if program is not None:
                moved = [tolerance.nudge(_array(item), units, rng) for item in self._model.variables]
                return program.moved([keras.ops.convert_to_tensor(item) for item in moved], tensors, seed)
            self._same = self._same or _copied(self._model, wide=False)
            _give_weights(self._model, self._same, lambda array: tolerance.nudge(array, units, rng))
            with _noise(seed):
                return call(self._same, tensors)
        except Exception:  # user code runs
            self._fixed = True
        return None

    def _traced(self, call: Callable[[Any, Sequence[Any]], Any], tensors: Sequence[Any]) -> Any:
        """JAX's trace of the model for tensors like these; None where it can't be traced, as with strings."""
        key = tuple((str(getattr(item, "dtype", "")), tuple(getattr(item, "shape", ()))) for item in tensors)
        if key not in self._programs:
            from onnxport.validation.runners.jax_program import JaxProgram

            variables = self._model.variables

            def stateless(values: Sequence[Any], inputs: Sequence[Any]) -> Any:
                with keras.StatelessScope(state_mapping=list(zip(variables, values, strict=True))):
                    return call(self._model, inputs)

            try:
                self._programs[key] = JaxProgram(stateless, [item.value for item in variables], tensors)
            except Exception:  # user code runs
                self._programs[key] = None
        return self._programs[key]


def _size(model: Any) -> int:
    return sum(int(np.prod(item.shape)) * 4 for item in getattr(model, "variables", ()))


def _doubles() -> AbstractContextManager[Any]:
    """JAX has float64 only where it is asked for."""
    if keras.backend.backend() != "jax":
        return nullcontext()
    import jax

    context: AbstractContextManager[Any] = jax.enable_x64(True)
    return context


def _noise(seed: int) -> AbstractContextManager[Any]:
    """On PyTorch results inside move too."""
    if keras.backend.backend() != "torch":
        return nullcontext()
    from onnxport.validation.runners.pytorch import noise

    return noise(seed)


def _copied(model: Any, *, wide: bool) -> Any:
    """The model once more from its configuration, with its weights.

    Raises:
        ValueError: it is quantised, or no layer.
    """
    with native_log_kept():  # Keras imports TensorFlow for it, whatever its backend is
        config = keras.saving.serialize_keras_object(model)
    classes = {keras.saving.get_registered_name(type(item)): type(item) for item in _layers(model)}
    names = {item.__name__: item for item in classes.values()}
    copy = keras.saving.deserialize_keras_object(
        _widened(config) if wide else config, custom_objects=classes | names, safe_mode=False
    )
    if not getattr(copy, "built", True):
        raise ValueError("the copy is not built")
    _give_weights(model, copy, lambda array: array)
    return copy


def _layers(model: Any) -> list[Any]:
    return list(model._flatten_layers())


def _give_weights(source: Any, target: Any, change: Callable[[np.ndarray], np.ndarray]) -> None:
    for ours, theirs in zip(_layers(source), _layers(target), strict=True):
        store: dict[str, Any] = {}
        ours.save_own_variables(store)
        if store:
            theirs.load_own_variables({key: change(_array(item)) for key, item in store.items()})


def _array(value: Any) -> np.ndarray:
    return np.asarray(keras.ops.convert_to_numpy(getattr(value, "value", value)))


def _widened(config: Any, key: str = "") -> Any:
    if isinstance(config, Mapping):
        if "Quantized" in str(config.get("class_name")):
            raise ValueError("a quantised model has no float64 form")
        if config.get("class_name") == "DTypePolicy":
            return {**config, "config": {key: _widened(item, "dtype") for key, item in config["config"].items()}}
        return {name: _widened(item, str(name)) for name, item in config.items()}
    if isinstance(config, (list, tuple)):
        return type(config)(_widened(item, key) for item in config)
    if isinstance(config, str) and config in _NARROW and key == "dtype":
        return "float64"
    return config


def widened(leaves: Sequence[Any]) -> Iterator[Any]:
    """Arrays of narrower floating-point types in float64."""
    for leaf in leaves:
        narrow = isinstance(leaf, np.ndarray) and (leaf.dtype.kind == "f" or leaf.dtype.name == "bfloat16")
        yield leaf.astype(np.float64) if narrow else leaf
