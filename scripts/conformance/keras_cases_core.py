"""Cases of dense layers, activations, shapes, merging, normalization and regularization."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
from keras import layers as L

from scripts.conformance.keras_cases import IMAGE, SERIES, VECTOR, VOLUME, Case, each, floats, whole

ACTIVATIONS = (
    "celu elu exponential gelu glu hard_shrink hard_sigmoid hard_silu hard_tanh leaky_relu linear log_sigmoid log_softmax "
    "mish relu relu6 selu sigmoid silu soft_shrink softmax softplus softsign sparse_plus sparse_sigmoid sparsemax "
    "squareplus tanh tanh_shrink threshold"
).split()
MERGES = ("Add", "Average", "Maximum", "Minimum", "Multiply", "Subtract")


def cases() -> Iterator[Case]:
    """All of them."""
    yield from each("Activation", SERIES, {name: {"activation": name} for name in ACTIVATIONS})
    yield from each("ELU", SERIES, {"": {}, "0.7": {"alpha": 0.7}})
    yield from each("LeakyReLU", SERIES, {"": {}, "0.2": {"negative_slope": 0.2}})
    yield from each("PReLU", SERIES, {"": {}, "shared": {"shared_axes": [1]}})
    rows: dict[str, dict[str, Any]] = {
        "": {},
        "all": {"max_value": 1.5, "negative_slope": 0.1, "threshold": 0.2},
        "6": {"max_value": 6.0},
    }
    yield from each("ReLU", SERIES, rows)
    yield from each("Softmax", SERIES, {"": {}, "axis 1": {"axis": 1}, "axes": {"axis": [1, 2]}})
    mask = np.arange(28).reshape(1, 7, 4).repeat(3, 0) % 3 > 0
    yield Case("Softmax", "mask", lambda: L.Softmax(), (SERIES, mask), form="layer")
    for part in (_dense, _shapes, _merging, _normalization, _regularization, _models):
        yield from part()


def _dense() -> Iterator[Case]:
    yield from each("Dense", VECTOR, {"": {"units": 5}, "softmax": {"units": 5, "activation": "softmax"}})
    yield from each("Dense", SERIES, {"rank 3": {"units": 5}, "no bias": {"units": 5, "use_bias": False}})
    yield from each("Dense", VOLUME, {"rank 5": {"units": 2, "activation": "tanh"}})
    yield from each("Dense", SERIES, {"open axis": {"units": 5}}, dims=(1,))
    yield from each("Dense", SERIES, {"sequential": {"units": 5}}, form="sequential")
    yield from each("Dense", SERIES, {"subclassed": {"units": 5}}, form="subclassed")
    yield Case("Dense", "lora", lambda: L.Dense(5, lora_rank=2), VECTOR)
    rows = {
        "abc,cd->abd": {"equation": "abc,cd->abd", "output_shape": (None, 5), "bias_axes": "d"},
        "ab,bcd->acd": {
            "equation": "abc,cde->abde",
            "output_shape": (None, 2, 3),
            "bias_axes": "de",
            "activation": "relu",
        },
        "...x,xy->...y": {"equation": "...x,xy->...y", "output_shape": 5},
    }
    yield from each("EinsumDense", SERIES, rows)
    yield from each(
        "Embedding",
        whole(5),
        {"": {"input_dim": 7, "output_dim": 3}, "mask": {"input_dim": 7, "output_dim": 3, "mask_zero": True}},
    )
    yield from each("Embedding", whole(5).astype(np.float32), {"floats": {"input_dim": 7, "output_dim": 3}})
    yield from each("Embedding", whole(5, dtype="int64"), {"int64, open": {"input_dim": 7, "output_dim": 3}}, dims=(1,))
    yield from each("ReversibleEmbedding", whole(5), {"": {"input_dim": 7, "output_dim": 3}})
    yield Case("ReversibleEmbedding", "reverse", _reversible(tie_weights=True), whole(5))
    yield Case(
        "ReversibleEmbedding", "reverse, untied, capped", _reversible(tie_weights=False, logit_soft_cap=3.0), whole(5)
    )


def _reversible(**options: Any) -> Any:
    def build() -> Any:
        layer = L.ReversibleEmbedding(7, 3, **options)
        return lambda x: layer(layer(x), reverse=True)

    return build


def _shapes() -> Iterator[Case]:
    yield from each("Flatten", IMAGE, {"": {}, "channels first": {"data_format": "channels_first"}})
    yield from each("Flatten", IMAGE, {"sequential": {}}, form="sequential")
    yield from each("Permute", IMAGE, {"3 1 2": {"dims": (3, 1, 2)}})
    yield from each("RepeatVector", VECTOR, {"3": {"n": 3}})
    yield from each("Reshape", IMAGE, {"-1": {"target_shape": (8, -1, 3)}, "flat": {"target_shape": (-1,)}})
    yield from each("Reshape", IMAGE, {"open axis": {"target_shape": (-1, 24)}}, dims=(1,))
    yield from each("Identity", SERIES, {"": {}})
    yield from each("Identity", {"a": SERIES, "b": VECTOR}, {"dictionary": {}})
    yield Case(
        "Lambda", "operations", lambda: L.Lambda(lambda x: x * 2.0 + keras.ops.sum(x, -1, keepdims=True)), SERIES
    )
    yield from each("Masking", SERIES, {"": {}, "1": {"mask_value": 1.0}})
    yield Case("InputLayer", "first of a model", lambda: lambda x: L.Dense(2)(x), VECTOR)
    yield Case("InputLayer", "in a sequential model", lambda: [L.Dense(2)], VECTOR, form="sequential")
    yield Case("Wrapper", "around a dense layer", lambda: Twice(L.Dense(3)), VECTOR)
    yield Case("Wrapper", "sequential", lambda: Twice(L.Dense(3)), VECTOR, form="sequential")


@keras.saving.register_keras_serializable("conformance")
class Twice(L.Wrapper):
    """A wrapper of the user's."""

    def call(self, inputs: Any) -> Any:
        """Twice the layer's result."""
        return 2.0 * self.layer(inputs)


def _merging() -> Iterator[Case]:
    wide = floats(7, 1)
    for name in MERGES:
        yield from each(name, [SERIES, SERIES * 2], {"two": {}})
        yield from each(name, [SERIES, wide], {"broadcast": {}})
        yield from each(name, [SERIES, floats(4)], {"broadcast of another rank": {}})
        yield from each(name, (SERIES, SERIES * 2), {"tuple, subclassed": {}}, form="subclassed")
        if name != "Subtract":
            yield from each(name, [SERIES, -SERIES, SERIES * 0.5], {"three": {}})
            yield from each(name, [whole(4), whole(4)], {"integers": {}})
    rows: dict[str, dict[str, Any]] = {"last": {}, "axis 1": {"axis": 1}}
    yield from each("Concatenate", [SERIES, SERIES * 2], rows)
    yield from each("Concatenate", [SERIES, floats(2, 4)], {"other sizes": {"axis": 1}})
    yield from each("Concatenate", [SERIES, whole(7, 2).astype(np.float32)], {"open axis": {}}, dims=(1,))
    pair = [floats(5, 8), floats(6, 8)]
    yield from each("Dot", pair, {"axes 2": {"axes": 2}, "normalized": {"axes": 2, "normalize": True}})
    yield from each("Dot", [floats(5, 8), floats(8, 6)], {"axes 2 1": {"axes": (2, 1)}})
    yield from each("Dot", [VECTOR, VECTOR * 2], {"vectors": {"axes": 1}})


def _normalization() -> Iterator[Case]:
    rows: dict[str, dict[str, Any]] = {
        "": {},
        "plain": {"scale": False, "center": False},
        "axis 1": {"axis": 1},
        "epsilon": {"epsilon": 1e-2, "momentum": 0.9},
    }
    yield from each("BatchNormalization", IMAGE, rows)
    yield from each("BatchNormalization", VECTOR, {"rank 2": {}})
    yield from each("BatchNormalization", VOLUME, {"rank 5": {}})
    yield Case("BatchNormalization", "mask", lambda: lambda x: L.BatchNormalization()(L.Masking()(x)), SERIES)
    groups = floats(4, 5, 6)
    yield from each(
        "GroupNormalization", groups, {"3": {"groups": 3}, "each": {"groups": -1}, "axis 1": {"groups": 2, "axis": 1}}
    )
    rows = {"": {}, "axes": {"axis": [1, 2]}, "axis 1": {"axis": 1}, "plain": {"center": False, "scale": False}}
    yield from each("LayerNormalization", SERIES, rows)
    yield from each("LayerNormalization", IMAGE, {"rank 4": {"epsilon": 1e-5}})
    yield from each("RMSNormalization", SERIES, {"": {}, "axis 1": {"axis": 1}})
    yield from each("UnitNormalization", SERIES, {"": {}, "axis 1": {"axis": 1}})
    yield Case("SpectralNormalization", "dense", lambda: L.SpectralNormalization(L.Dense(3)), SERIES)
    yield Case("SpectralNormalization", "convolution", lambda: L.SpectralNormalization(L.Conv2D(3, 2)), IMAGE)


def _regularization() -> Iterator[Case]:
    yield from each("ActivityRegularization", SERIES, {"": {"l1": 0.1}})
    for name in ("AlphaDropout", "Dropout", "GaussianDropout"):
        yield from each(name, SERIES, {"0.5": {"rate": 0.5}})
    yield from each(
        "Dropout", SERIES, {"sequential, noise shape": {"rate": 0.5, "noise_shape": (None, 1, None)}}, form="sequential"
    )
    yield from each("GaussianNoise", SERIES, {"0.5": {"stddev": 0.5}})
    for rank, data in ((1, SERIES), (2, IMAGE), (3, VOLUME)):
        yield from each(f"SpatialDropout{rank}D", data, {"0.5": {"rate": 0.5}})


@keras.saving.register_keras_serializable("conformance")
class Residual(keras.Model):
    """A subclassed model of dictionaries."""

    def __init__(self, width: int = 4, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.width = width
        self.first, self.second = L.Dense(width, activation="relu"), L.Dense(2)

    def call(self, inputs: Any, training: bool = False) -> Any:
        """Two results by name."""
        x = self.first(inputs["left"]) + inputs["right"]
        return {"logits": self.second(x), "features": x}

    def get_config(self) -> dict[str, Any]:
        """With the width."""
        return {**super().get_config(), "width": self.width}


def _models() -> Iterator[Case]:
    pair = {"left": VECTOR, "right": floats(4)}
    yield Case("Model", "subclassed, of dictionaries", lambda: Residual(4), (pair,), form="layer")
    yield Case(
        "Model", "functional, of a dictionary", lambda: lambda x: L.Add()([L.Dense(4)(x["left"]), x["right"]]), pair
    )
    yield Case(
        "Model",
        "functional, of a tuple",
        lambda: lambda x: L.Concatenate()([L.Dense(4)(x[0]), x[1]]),
        (VECTOR, floats(4)),
    )
    yield Case(
        "Model",
        "functional, nested",
        lambda: lambda x: L.Add()([x["a"][0], L.Dense(6)(x["b"])]),
        {"a": [VECTOR], "b": floats(4)},
    )
    yield Case("Model", "results in a dictionary", lambda: lambda x: {"z": L.Dense(2)(x), "a": L.Dense(3)(x)}, VECTOR)
    yield Case("Model", "results in a list", lambda: lambda x: [L.Dense(2)(x), L.ReLU()(x)], VECTOR)
    yield Case("Model", "an input is an output", lambda: lambda x: [x, L.Dense(2)(x)], VECTOR)
    yield Case(
        "Model", "operations on tensors", lambda: lambda x: keras.ops.tanh(x[:, 1:] * 2 - x[:, :-1]) ** 2, VECTOR
    )
    yield Case("Sequential", "a small network", _network, IMAGE, form="sequential")
    yield Case("Sequential", "without an Input", lambda: keras.Sequential(_network()), (IMAGE,), form="layer")
    yield Case(
        "Sequential",
        "in a sequential model",
        lambda: [keras.Sequential(_network()), L.Dense(2)],
        IMAGE,
        form="sequential",
    )


def _network() -> list[Any]:
    return [
        L.Conv2D(4, 3, padding="same", use_bias=False),
        L.BatchNormalization(),
        L.ReLU(),
        L.MaxPooling2D(),
        L.Dropout(0.2),
        L.Flatten(),
        L.Dense(3, activation="softmax"),
    ]
