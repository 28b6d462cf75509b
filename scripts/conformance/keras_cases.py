"""What a case of the Keras layers is, and the operands that cases share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from keras import layers as L

ROWS = 3  # examples have two, the third is for the second batch size
RNG = np.random.default_rng(0)


def floats(*shape: int, low: float = -2.0, high: float = 2.0) -> np.ndarray:
    """Uniform float32 numbers, a row for each of the batch."""
    return RNG.uniform(low, high, (ROWS, *shape)).astype(np.float32)


def whole(*shape: int, high: int = 7, dtype: str = "int32") -> np.ndarray:
    """Integers from 0 to below `high`."""
    return RNG.integers(0, high, (ROWS, *shape)).astype(dtype)


def flags(*shape: int) -> np.ndarray:
    """Booleans, the first of each row true."""
    result = RNG.uniform(size=(ROWS, *shape)) < 0.7
    result[..., 0] = True
    return result


VECTOR, SERIES, IMAGE, VOLUME = floats(6), floats(7, 4), floats(9, 8, 3), floats(5, 6, 4, 3)
PIXELS = floats(9, 8, 3, low=0.0, high=255.0)
FIRST = {1: floats(4, 7), 2: floats(3, 9, 8), 3: floats(3, 5, 6, 4)}  # channels first
LAST = {1: SERIES, 2: IMAGE, 3: VOLUME}


@dataclass(frozen=True)
class Case:
    """A configuration of a layer.

    Attributes:
        layer: the class in `keras.layers`, or what else is tried.
        label: the configuration.
        build: gives what is called on the inputs: a layer, or a function of tensors that calls layers.
        data: the inputs, of `ROWS` rows; a list, tuple or dictionary of arrays where there are several.
        form: how it becomes a model: ``functional``, ``sequential``, ``subclassed``, or ``layer`` for the layer itself.
        kwargs: keyword inputs of the layer's call, of a `layer`.
        batched: whether dimension 0 of the inputs is the batch.
        dims: axes beside the batch that a functional model leaves open.
        policy: the dtype policy it is built under.
    """

    layer: str
    label: str
    build: Callable[[], Any]
    data: Any
    form: str = "functional"
    kwargs: dict[str, Any] | None = None
    batched: bool = True
    dims: tuple[int, ...] = ()
    policy: str = "float32"

    @property
    def name(self) -> str:
        """Unique among the cases."""
        return f"{self.layer}: {self.label}"

    def model(self) -> Any:
        """The model, its weights at random."""
        before = keras.config.dtype_policy()
        keras.config.set_dtype_policy(self.policy)
        try:
            made = _FORMS[self.own_form](self)
            if self.own_form in ("layer", "subclassed"):
                made(*self.arguments(2), **self.keywords(2))
        finally:
            keras.config.set_dtype_policy(before)
        return randomised(made)

    def arguments(self, rows: int) -> tuple[Any, ...]:
        """The positional inputs with this number of rows."""
        data = _rows(self.data, rows) if self.batched else self.data
        return data if isinstance(data, tuple) and self.form == "layer" else (data,)

    @property
    def own_form(self) -> str:
        """The form on this backend: of strings only TensorFlow has tensors, others take them in a layer itself."""
        strings = any(item.dtype.kind in "OU" for item in keras.tree.flatten(self.data) if isinstance(item, np.ndarray))
        return (
            "layer" if strings and self.form == "functional" and keras.backend.backend() != "tensorflow" else self.form
        )

    def keywords(self, rows: int) -> dict[str, Any]:
        """The keyword inputs."""
        return {key: _rows(item, rows) if self.batched else item for key, item in (self.kwargs or {}).items()}


def _rows(data: Any, rows: int) -> Any:
    return keras.tree.map_structure(lambda item: item[:rows] if isinstance(item, np.ndarray) else item, data)


def _symbolic(case: Case) -> Any:
    def one(item: np.ndarray) -> Any:
        shape = [None if axis in case.dims else size for axis, size in enumerate(item.shape)][1:]
        return keras.Input(shape, dtype="string" if item.dtype.kind in "UO" else str(item.dtype))

    return keras.tree.map_structure(one, case.data)


def _functional(case: Case) -> Any:
    inputs = _symbolic(case)
    return keras.Model(inputs, case.build()(inputs))


def _sequential(case: Case) -> Any:
    built = case.build()
    return keras.Sequential([_symbolic(case), *(built if isinstance(built, list) else [built])])


@keras.saving.register_keras_serializable("conformance")
class Around(keras.Model):
    """A subclassed model around a layer."""

    def __init__(self, inner: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.inner = inner

    def call(self, inputs: Any) -> Any:
        """The layer's result."""
        return self.inner(inputs)

    def get_config(self) -> dict[str, Any]:
        """With the layer's own."""
        return {**super().get_config(), "inner": keras.saving.serialize_keras_object(self.inner)}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Around:
        """The model of a configuration."""
        return cls(keras.saving.deserialize_keras_object(config.pop("inner")), **config)


_FORMS: dict[str, Callable[[Case], Any]] = {
    "functional": _functional,
    "sequential": _sequential,
    "subclassed": lambda case: Around(case.build()),
    "layer": lambda case: case.build(),
}


def randomised(model: Any) -> Any:
    """The model with no weight at its initial 0 or 1, but kernels scaled by their fan-in, so that rounding does not grow."""
    rng = np.random.default_rng(7)
    for variable in getattr(model, "weights", ()):
        kind = str(variable.dtype)
        if not kind.startswith(("float", "bfloat")) or kind.startswith("float8") or "scale" in variable.path:
            continue
        signs = rng.choice([1] if "var" in variable.path else [-1, 1], variable.shape)
        width = 1 / np.sqrt(np.prod(variable.shape[:-1])) if len(variable.shape) > 1 else 1.0
        variable.assign(rng.uniform(0.2, 0.9, variable.shape) * signs * width)
    for layer in model._flatten_layers():
        if isinstance(layer, keras.layers.Normalization):  # keeps what it computes with beside its variables
            layer.finalize_state()
    return model


def each(layer: str, data: Any, rows: dict[str, dict[str, Any]], **options: Any) -> Iterator[Case]:
    """A case for each row of keyword arguments."""
    for label, arguments in rows.items():
        yield Case(layer, label, lambda arguments=arguments: getattr(L, layer)(**arguments), data, **options)
