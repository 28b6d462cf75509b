"""Files of tf2onnx: Keras layers, small models and small applications, traced as functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import layers

from scripts.conformance.foreign_files import Write, drawn

ROWS = 3
_IMAGE, _SEQUENCE = (16, 16, 3), (6, 5)


def _chain(*steps: Any, shape: tuple[int, ...] = _IMAGE) -> Callable[[], keras.Model]:
    def make() -> keras.Model:
        return keras.Sequential([keras.Input(shape), *[step() for step in steps]])

    return make


def _two_inputs() -> keras.Model:
    a, b = keras.Input((4,), name="left"), keras.Input((4,), name="right")
    joined = layers.Concatenate()([layers.Dense(3, activation="gelu")(a), layers.Multiply()([a, b])])
    return keras.Model([a, b], [layers.Dense(2)(joined), layers.Add()([a, b])])


def _attention() -> keras.Model:
    x = keras.Input(_SEQUENCE)
    y = layers.LayerNormalization()(x + layers.MultiHeadAttention(2, 4)(x, x))
    return keras.Model(x, layers.Dense(3)(layers.GlobalAveragePooling1D()(y)))


def _words(kind: Any) -> Callable[[], keras.Model]:
    def make() -> keras.Model:
        x = keras.Input((6,), dtype="int32")
        return keras.Model(x, layers.Dense(2)(kind()(layers.Embedding(20, 8)(x))))

    return make


def _application(name: str, **options: Any) -> Callable[[], keras.Model]:
    """An application whose batch norms have seen a batch: as it is made, some multiply every image by nearly 0."""

    def make() -> keras.Model:
        model = getattr(keras.applications, name)(weights=None, input_shape=(64, 64, 3), classes=5, **options)
        for layer in model.layers:
            if isinstance(layer, layers.BatchNormalization):
                layer.momentum = 0.0
        model(np.random.default_rng(1).standard_normal((4, 64, 64, 3)).astype("float32"), training=True)
        return model

    return make


MODELS: dict[str, Callable[[], keras.Model]] = {
    "dense": _chain(
        lambda: layers.Dense(8, activation="relu"), lambda: layers.Dense(3, activation="softmax"), shape=(4,)
    ),
    "convolutions": _chain(
        lambda: layers.Conv2D(8, 3, 2, "same"),
        layers.BatchNormalization,
        layers.ReLU,
        lambda: layers.MaxPooling2D(2),
        lambda: layers.Conv2D(8, 3, dilation_rate=2, padding="same"),
        layers.LeakyReLU,
        layers.GlobalAveragePooling2D,
        lambda: layers.Dense(3),
    ),
    "separable": _chain(
        lambda: layers.DepthwiseConv2D(3, depth_multiplier=2),
        lambda: layers.SeparableConv2D(8, 3, activation="swish"),
        lambda: layers.ZeroPadding2D(1),
        lambda: layers.AveragePooling2D(2),
        layers.Flatten,
        lambda: layers.Dense(2, "sigmoid"),
    ),
    "transposed": _chain(
        lambda: layers.Conv2DTranspose(4, 3, 2, "same"),
        layers.PReLU,
        lambda: layers.UpSampling2D(2, interpolation="bilinear"),
        lambda: layers.Cropping2D(2),
        lambda: layers.Conv2D(1, 1),
    ),
    "groups": _chain(
        lambda: layers.Conv2D(8, 3, groups=1), lambda: layers.GroupNormalization(2), lambda: layers.Activation("mish")
    ),
    "conv1d": _chain(
        lambda: layers.Conv1D(4, 3, padding="causal"), lambda: layers.MaxPooling1D(2), layers.Flatten, shape=_SEQUENCE
    ),
    "conv3d": _chain(lambda: layers.Conv3D(2, 2), lambda: layers.AveragePooling3D(2), shape=(4, 6, 6, 2)),
    "lstm": _words(lambda: layers.LSTM(4)),
    "gru": _words(lambda: layers.GRU(4)),
    "gru_before": _words(lambda: layers.GRU(4, reset_after=False)),
    "two_ways": _words(lambda: layers.Bidirectional(layers.LSTM(4))),
    "rnn": _words(lambda: layers.SimpleRNN(4)),
    "sequences": _chain(
        lambda: layers.LSTM(4, return_sequences=True), lambda: layers.TimeDistributed(layers.Dense(2)), shape=_SEQUENCE
    ),
    "two_inputs": _two_inputs,
    "attention": _attention,
    "normal": _chain(
        lambda: layers.UnitNormalization(),
        lambda: layers.Rescaling(2.0, 1.0),
        lambda: layers.Permute((2, 1)),
        shape=_SEQUENCE,
    ),
    "mobilenet": _application("MobileNet", alpha=0.25),
    "mobilenet_v2": _application("MobileNetV2", alpha=0.35),
    "mobilenet_v3": _application("MobileNetV3Small", alpha=0.75, minimalistic=True),
    "efficientnet": _application("EfficientNetB0"),
    "densenet": _application("DenseNet121"),
    "nasnet": _application("NASNetMobile"),
}
OPSETS = (13, 15, 17, 18)


def _write(make: Callable[[], keras.Model], opset: int, path: Path) -> Sequence[Sequence[np.ndarray]]:
    import tensorflow as tf
    import tf2onnx

    keras.utils.set_random_seed(0)
    model = make()
    rng = np.random.default_rng(0)
    signature, inputs = [], []
    for item in model.inputs:
        signature.append(tf.TensorSpec((None, *item.shape[1:]), item.dtype, name=item.name))
        shape = (2, *item.shape[1:])
        whole = "int" in str(item.dtype)
        inputs.append(
            rng.integers(0, 20, shape).astype("int32") if whole else rng.standard_normal(shape).astype("float32")
        )
    call = (lambda *x: model(list(x), training=False)) if len(signature) > 1 else (lambda x: model(x, training=False))
    tf2onnx.convert.from_function(tf.function(call), input_signature=signature, opset=opset, output_path=str(path))
    return drawn(inputs, ROWS)


def recipes() -> Iterator[tuple[str, Write]]:
    """Every model, at opsets in turn."""
    for index, (name, make) in enumerate(MODELS.items()):
        opset = OPSETS[index % len(OPSETS)]
        yield f"tf2onnx/{name}_{opset}", lambda path, make=make, opset=opset: _write(make, opset, path)  # type: ignore[misc]
