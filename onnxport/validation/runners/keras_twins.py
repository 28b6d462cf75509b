"""Copies of a Keras model on a backend without TensorFlow's graphs: one in float64, one with moved weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import keras
import numpy as np

from onnxport.validation import tolerance

_NARROW = frozenset(("float32", "float16", "bfloat16", "mixed_float16", "mixed_bfloat16"))
_LIMIT = 1 << 30  # of the weights in bytes: a copy of more costs more memory than a validation is worth


class KerasTwins:
    """Runs of copies, created on first use; a model that Keras can't copy, or whose copy fails, has none."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._wide: Any = None
        self._same: Any = None
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

    def moved(self, call: Callable[[Any], Any], units: int, seed: int) -> Any:
        """What `call` gives of the copy whose weights are off by `units` in the last place; None where there is none."""
        if self._fixed:
            return None
        rng = np.random.default_rng(seed)
        try:
            self._same = self._same or _copied(self._model, wide=False)
            _give_weights(self._model, self._same, lambda array: tolerance.nudge(array, units, rng))
            with _noise(seed):
                return call(self._same)
        except Exception:  # user code runs
            self._fixed = True
        return None


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
    """On PyTorch sums move too."""
    if keras.backend.backend() != "torch":
        return nullcontext()
    from onnxport.validation.runners.pytorch import noise

    return noise(seed)


def _copied(model: Any, *, wide: bool) -> Any:
    """The model once more from its configuration, with its weights.

    Raises:
        ValueError: it is quantised, or no layer.
    """
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
