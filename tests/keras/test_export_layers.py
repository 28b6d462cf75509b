"""Every Keras layer that has an inference form: built, given random weights, converted and compared."""

import inspect

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from onnxport.converters.to_onnx.keras import export
from onnxport.errors import UnsupportedOperator
from onnxport.opset_maps.cases import Case
from onnxport.request import Request
from tests.evidence import require_case, require_equal

pytestmark = pytest.mark.keras

RNG = np.random.default_rng(0)


def f(*shape, low=-2.0, high=2.0):
    return RNG.uniform(low, high, shape).astype(np.float32)


def ints(*shape, high=7):
    return RNG.integers(0, high, shape).astype(np.int32)


IMAGE, SERIES, VOLUME = f(2, 9, 8, 3), f(2, 7, 4), f(2, 5, 6, 4, 3)
PIXELS = f(2, 9, 8, 3, low=0.0, high=255.0)
QKV = [f(2, 5, 8), f(2, 6, 8)]


def adapted(layer, data):
    layer.adapt(data)
    return layer


# Name of the class (and a variant), how to build it, its inputs, and the least opset (default 13).
ROWS = [
    ("Activation", lambda: layers.Activation("gelu"), SERIES),
    *[
        (f"Activation-{name}", lambda name=name: layers.Activation(name), SERIES)
        for name in (
            "celu elu exponential glu hard_shrink hard_sigmoid hard_silu hard_tanh leaky_relu linear log_sigmoid log_softmax "
            "mish relu relu6 selu sigmoid silu soft_shrink softmax softplus softsign sparse_plus sparse_sigmoid "
            "squareplus tanh tanh_shrink"
        ).split()
    ],
    ("ActivityRegularization", lambda: layers.ActivityRegularization(0.1), SERIES),
    ("AdaptiveAveragePooling1D", lambda: layers.AdaptiveAveragePooling1D(3), SERIES),
    ("AdaptiveAveragePooling2D", lambda: layers.AdaptiveAveragePooling2D(3), IMAGE),
    ("AdaptiveAveragePooling3D", lambda: layers.AdaptiveAveragePooling3D(2), VOLUME),
    ("AdaptiveMaxPooling1D", lambda: layers.AdaptiveMaxPooling1D(3), SERIES),
    ("AdaptiveMaxPooling2D", lambda: layers.AdaptiveMaxPooling2D(3), IMAGE),
    ("AdaptiveMaxPooling3D", lambda: layers.AdaptiveMaxPooling3D(2), VOLUME),
    ("Add", layers.Add, [SERIES, SERIES + 1]),
    ("AdditiveAttention", layers.AdditiveAttention, QKV),
    ("AlphaDropout", lambda: layers.AlphaDropout(0.5), SERIES),
    ("Attention", lambda: layers.Attention(use_scale=True), QKV),
    ("Attention-concat", lambda: layers.Attention(score_mode="concat"), QKV),
    ("Average", layers.Average, [SERIES, SERIES * 2]),
    ("AveragePooling1D", lambda: layers.AveragePooling1D(2, padding="same"), SERIES),
    ("AveragePooling2D", lambda: layers.AveragePooling2D(3, 2, padding="same"), IMAGE),
    ("AveragePooling3D", lambda: layers.AveragePooling3D(2), VOLUME),
    ("BatchNormalization", layers.BatchNormalization, IMAGE),
    ("BatchNormalization-plain", lambda: layers.BatchNormalization(scale=False, center=False), SERIES),
    ("Bidirectional", lambda: layers.Bidirectional(layers.LSTM(3, return_sequences=True)), SERIES),
    ("Bidirectional-sum", lambda: layers.Bidirectional(layers.GRU(3), merge_mode="sum"), SERIES),
    ("CategoryEncoding", lambda: layers.CategoryEncoding(7, "multi_hot"), ints(2, 3)),
    ("CategoryEncoding-one_hot", lambda: layers.CategoryEncoding(7, "one_hot"), ints(4, 1)),
    ("CategoryEncoding-count", lambda: layers.CategoryEncoding(7, "count"), ints(2, 5)),
    ("CenterCrop", lambda: layers.CenterCrop(5, 4), PIXELS),
    ("Concatenate", layers.Concatenate, [SERIES, SERIES]),
    ("Conv1D", lambda: layers.Conv1D(5, 3, padding="causal"), SERIES),
    ("Conv1D-dilated", lambda: layers.Conv1D(6, 3, dilation_rate=2, padding="same"), SERIES),
    ("Conv1DTranspose", lambda: layers.Conv1DTranspose(5, 3, strides=2, padding="same"), SERIES),
    ("Conv2D", lambda: layers.Conv2D(5, 3, strides=2, padding="same", activation="relu"), IMAGE),
    ("Conv2D-groups", lambda: layers.Conv2D(6, 3, groups=3), IMAGE),
    ("Conv2DTranspose", lambda: layers.Conv2DTranspose(5, 3, strides=2, padding="same"), IMAGE),
    ("Conv2DTranspose-valid", lambda: layers.Conv2DTranspose(5, 3, strides=2, output_padding=1), IMAGE),
    ("Conv3D", lambda: layers.Conv3D(4, 2, padding="same"), VOLUME),
    ("Conv3DTranspose", lambda: layers.Conv3DTranspose(4, 2, strides=2), VOLUME),
    ("ConvLSTM1D", lambda: layers.ConvLSTM1D(3, 2, padding="same"), f(2, 4, 6, 2)),
    ("ConvLSTM2D", lambda: layers.ConvLSTM2D(3, 2, return_sequences=True), f(2, 4, 6, 5, 2)),
    ("ConvLSTM3D", lambda: layers.ConvLSTM3D(2, 2), f(2, 3, 4, 4, 3, 2)),
    ("Cropping1D", lambda: layers.Cropping1D((1, 2)), SERIES),
    ("Cropping2D", lambda: layers.Cropping2D(((1, 2), (0, 3))), IMAGE),
    ("Cropping3D", lambda: layers.Cropping3D(1), VOLUME),
    ("Dense", lambda: layers.Dense(5, activation="softmax"), SERIES),
    ("DepthwiseConv1D", lambda: layers.DepthwiseConv1D(3, padding="same", depth_multiplier=2), SERIES),
    ("DepthwiseConv2D", lambda: layers.DepthwiseConv2D(3, strides=2, padding="same", depth_multiplier=2), IMAGE),
    ("Discretization", lambda: layers.Discretization([-1.0, 0.0, 0.5]), SERIES),
    ("Discretization-one_hot", lambda: layers.Discretization([-1.0, 0.5], output_mode="one_hot"), f(5, 1)),
    ("Dot", lambda: layers.Dot(axes=2), QKV),
    ("Dropout", lambda: layers.Dropout(0.5), SERIES),
    ("ELU", lambda: layers.ELU(0.7), SERIES),
    ("EinsumDense", lambda: layers.EinsumDense("abc,cd->abd", (None, 5), bias_axes="d"), SERIES),
    ("Embedding", lambda: layers.Embedding(7, 5), ints(2, 3)),
    ("Flatten", layers.Flatten, IMAGE),
    ("GRU", lambda: layers.GRU(5), SERIES),
    ("GRU-before", lambda: layers.GRU(5, reset_after=False, return_sequences=True), SERIES),
    ("GRU-backwards", lambda: layers.GRU(5, go_backwards=True, return_sequences=True, return_state=True), SERIES),
    ("GRU-unrolled", lambda: layers.GRU(5, unroll=True), SERIES),
    ("GRUCell", lambda: layers.GRUCell(5), (f(2, 4), [f(2, 5)])),
    ("GaussianDropout", lambda: layers.GaussianDropout(0.5), SERIES),
    ("GaussianNoise", lambda: layers.GaussianNoise(0.5), SERIES),
    ("GlobalAveragePooling1D", layers.GlobalAveragePooling1D, SERIES),
    ("GlobalAveragePooling2D", lambda: layers.GlobalAveragePooling2D(keepdims=True), IMAGE),
    ("GlobalAveragePooling3D", layers.GlobalAveragePooling3D, VOLUME),
    ("GlobalMaxPooling1D", layers.GlobalMaxPooling1D, SERIES),
    ("GlobalMaxPooling2D", layers.GlobalMaxPooling2D, IMAGE),
    ("GlobalMaxPooling3D", layers.GlobalMaxPooling3D, VOLUME),
    ("GroupNormalization", lambda: layers.GroupNormalization(3), f(2, 4, 5, 6)),
    ("GroupedQueryAttention", lambda: layers.GroupQueryAttention(4, 4, 2), tuple(QKV)),
    ("Hashing", lambda: layers.Hashing(3), np.array([["a"], ["bc"]])),
    ("HashedCrossing", lambda: layers.HashedCrossing(5), [np.array(["a", "b"]), np.array([1, 2])]),
    ("Identity", layers.Identity, SERIES),
    ("IntegerLookup", lambda: layers.IntegerLookup(vocabulary=[3, 5, 1]), ints(2, 3).astype(np.int64)),
    ("LSTM", lambda: layers.LSTM(5), SERIES),
    ("LSTM-all", lambda: layers.LSTM(5, return_sequences=True, return_state=True), SERIES),
    ("LSTM-backwards", lambda: layers.LSTM(5, go_backwards=True, activation="relu"), SERIES),
    ("LSTM-unrolled", lambda: layers.LSTM(5, unroll=True, use_bias=False), SERIES),
    ("LSTMCell", lambda: layers.LSTMCell(5), (f(2, 4), [f(2, 5), f(2, 5)])),
    ("Lambda", lambda: layers.Lambda(lambda x: x * 2.0 + keras.ops.sum(x, -1, keepdims=True)), SERIES),
    ("LayerNormalization", lambda: layers.LayerNormalization(epsilon=1e-5), SERIES),
    ("LayerNormalization-axes", lambda: layers.LayerNormalization(axis=[1, 2]), SERIES),
    ("LeakyReLU", lambda: layers.LeakyReLU(0.2), SERIES),
    ("Masking", lambda: layers.Masking(0.0), SERIES),
    ("MaxPooling1D", lambda: layers.MaxPooling1D(3, padding="same"), SERIES),
    ("MaxPooling2D", lambda: layers.MaxPooling2D(2, padding="same"), IMAGE),
    ("MaxPooling3D", lambda: layers.MaxPooling3D(2), VOLUME),
    ("Maximum", layers.Maximum, [SERIES, -SERIES]),
    ("MelSpectrogram", lambda: layers.MelSpectrogram(64, 16, sampling_rate=8000, num_mel_bins=12), f(2, 256)),
    ("Minimum", layers.Minimum, [SERIES, -SERIES]),
    ("MultiHeadAttention", lambda: layers.MultiHeadAttention(2, 4), tuple(QKV)),
    ("Multiply", layers.Multiply, [SERIES, SERIES]),
    ("Normalization", lambda: layers.Normalization(mean=[1.0, 2.0, 3.0, 4.0], variance=[1.0, 2.0, 1.5, 3.0]), SERIES),
    ("Normalization-adapted", lambda: adapted(layers.Normalization(), SERIES), SERIES),
    ("PReLU", layers.PReLU, SERIES),
    ("Permute", lambda: layers.Permute((3, 1, 2)), IMAGE),
    ("Pipeline", lambda: layers.Pipeline([layers.Rescaling(0.5), layers.Resizing(4, 4)]), PIXELS),
    ("RMSNormalization", layers.RMSNormalization, SERIES),
    ("RNN", lambda: layers.RNN(layers.SimpleRNNCell(3), return_sequences=True), SERIES),
    ("ReLU", lambda: layers.ReLU(max_value=1.5, negative_slope=0.1, threshold=0.2), SERIES),
    ("RepeatVector", lambda: layers.RepeatVector(3), f(2, 4)),
    ("Rescaling", lambda: layers.Rescaling(1 / 127.5, -1), PIXELS),
    ("Reshape", lambda: layers.Reshape((8, -1, 3)), IMAGE),
    *[
        (f"Resizing-{how}", lambda how=how: layers.Resizing(5, 11, interpolation=how), PIXELS)
        for how in ("bilinear", "nearest", "bicubic", "lanczos3", "area")
    ],
    ("Resizing-aspect", lambda: layers.Resizing(5, 11, crop_to_aspect_ratio=True), PIXELS),
    ("Resizing", lambda: layers.Resizing(20, 17), PIXELS),
    ("ReversibleEmbedding", lambda: layers.ReversibleEmbedding(7, 5), ints(2, 3)),
    ("STFTSpectrogram", lambda: layers.STFTSpectrogram("magnitude", 32, 16, 32), f(2, 256, 1)),
    ("SeparableConv1D", lambda: layers.SeparableConv1D(5, 3, padding="same"), SERIES),
    ("SeparableConv2D", lambda: layers.SeparableConv2D(5, 3, padding="same"), IMAGE),
    ("SimpleRNN", lambda: layers.SimpleRNN(5, return_state=True), SERIES),
    ("SimpleRNNCell", lambda: layers.SimpleRNNCell(5), (f(2, 4), [f(2, 5)])),
    ("Softmax", lambda: layers.Softmax(axis=1), SERIES),
    ("Solarization", lambda: layers.Solarization(0.2, 0.5), PIXELS),
    ("SpatialDropout1D", lambda: layers.SpatialDropout1D(0.5), SERIES),
    ("SpatialDropout2D", lambda: layers.SpatialDropout2D(0.5), IMAGE),
    ("SpatialDropout3D", lambda: layers.SpatialDropout3D(0.5), VOLUME),
    ("SpectralNormalization", lambda: layers.SpectralNormalization(layers.Dense(3)), SERIES),
    ("StackedRNNCells", lambda: layers.RNN([layers.LSTMCell(3), layers.GRUCell(2)]), SERIES),
    ("StringLookup", lambda: layers.StringLookup(vocabulary=["a", "b"]), np.array([["a", "c"], ["b", "a"]])),
    ("Subtract", layers.Subtract, [SERIES, SERIES * 2]),
    (
        "TextVectorization",
        lambda: layers.TextVectorization(vocabulary=["a", "b"], output_sequence_length=4),
        np.array(["a b c", "B a"]),
    ),
    (
        "TextVectorization-lower",
        lambda: layers.TextVectorization(vocabulary=["a", "b"], standardize="lower", output_sequence_length=4),
        np.array(["a b c", "B a"]),
    ),
    ("TimeDistributed", lambda: layers.TimeDistributed(layers.Dense(3)), SERIES),
    ("TimeDistributed-conv", lambda: layers.TimeDistributed(layers.Conv2D(3, 2)), f(2, 3, 5, 5, 2)),
    ("UnitNormalization", layers.UnitNormalization, SERIES),
    ("UpSampling1D", lambda: layers.UpSampling1D(2), SERIES),
    ("UpSampling2D", lambda: layers.UpSampling2D((2, 3)), IMAGE),
    ("UpSampling2D-bilinear", lambda: layers.UpSampling2D(2, interpolation="bilinear"), IMAGE),
    ("UpSampling3D", lambda: layers.UpSampling3D(2), VOLUME),
    ("ZeroPadding1D", lambda: layers.ZeroPadding1D((1, 2)), SERIES),
    ("ZeroPadding2D", lambda: layers.ZeroPadding2D(((1, 2), (0, 3))), IMAGE),
    ("ZeroPadding3D", lambda: layers.ZeroPadding3D(1), VOLUME),
    *[
        (name, lambda name=name, options=options: getattr(layers, name)(**options), PIXELS)
        for name, options in {
            "AugMix": {},
            "AutoContrast": {},
            "Equalization": {},
            "ContrastLimitedAdaptiveHistogramEqualization": {},
            "RandAugment": {},
            "RandomBrightness": {"factor": 0.2},
            "RandomColorDegeneration": {"factor": 0.2},
            "RandomColorJitter": {},
            "RandomContrast": {"factor": 0.2},
            "RandomCrop": {"height": 5, "width": 4},
            "RandomElasticTransform": {},
            "RandomErasing": {},
            "RandomFlip": {},
            "RandomGaussianBlur": {},
            "RandomGrayscale": {},
            "RandomHue": {"factor": 0.2},
            "RandomInvert": {},
            "RandomPerspective": {},
            "RandomPosterization": {"factor": 4},
            "RandomRotation": {"factor": 0.2},
            "RandomSaturation": {"factor": 0.2},
            "RandomSharpness": {"factor": 0.2},
            "RandomShear": {},
            "RandomTranslation": {"height_factor": 0.1, "width_factor": 0.1},
            "RandomZoom": {"height_factor": 0.1},
        }.items()
    ],
]

# Layers that have no ONNX form; each must say so.
REFUSED = {
    "Hashing": "StringToHashBucketFast",
}

NO_ROW = {
    "CutMix": "takes labels beside images; training only",
    "FlaxLayer": "needs the JAX backend",
    "InputLayer": "part of every functional model",
    "InputSpec": "no layer",
    "JaxLayer": "needs the JAX backend",
    "Layer": "the base class",
    "MaxNumBoundingBoxes": "a step of data pipelines, on dictionaries of boxes",
    "MixUp": "takes labels beside images; training only",
    "TFSMLayer": "wraps a SavedModel: tests/tensorflow",
    "TorchModuleWrapper": "needs the torch backend",
    "Wrapper": "a base class",
}


def arguments(data):
    return data if isinstance(data, tuple) else (data,)


def randomized(layer, inputs):
    """The layer built on the inputs, with no weight left at its initial 0 or 1."""
    layer(*inputs)
    rng = np.random.default_rng(1)
    for variable in layer.weights:
        if np.issubdtype(np.asarray(variable).dtype, np.floating):
            variable.assign(
                rng.uniform(0.2, 0.9, variable.shape) * rng.choice([-1, 1] if "variance" not in variable.path else [1])
            )
    return layer


@pytest.mark.sampled(0.4)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_layer(row):
    name, build, data = row
    inputs = arguments(data)
    layer = build()
    if name in REFUSED:
        with pytest.raises(UnsupportedOperator, match=REFUSED[name]):
            export(layer, Request(inputs=inputs))
        return
    require_case(Case(lambda: randomized(layer, inputs), inputs, factory=True), "keras", 21, native=lambda item: item)


@pytest.mark.parametrize("inner", [lambda: layers.Dense(3), lambda: layers.Conv1D(3, 2), layers.GlobalAveragePooling1D])
def test_time_distributed_over_open_time(inner):
    """Keras' own graph of it maps over as many steps as there are rows."""
    x, mask = f(2, 5, 4, 3), np.arange(40).reshape(2, 5, 4) % 3 > 0
    steps, flags = keras.Input((None, 4, 3)), keras.Input((None, 4), dtype="bool")
    layer = layers.TimeDistributed(inner())
    model = keras.Model([steps, flags], layer(steps, mask=flags))
    require_equal(model, export(model, Request()), [x, mask])
    assert "call" not in vars(layer)


def test_a_convolution_with_channels_first():
    """TensorFlow runs it on a CPU only with oneDNN, which many processors are without: channels last is its truth."""
    last, first = (layers.Conv2D(6, 3, data_format=f"channels_{name}", padding="same") for name in ("last", "first"))
    image = np.moveaxis(IMAGE, -1, 1)
    randomized(last, (IMAGE,))
    first.build(image.shape)
    first.set_weights(last.get_weights())
    got = export(first, Request(inputs=(image,)))

    def first_by_last(x):
        return tf.transpose(last(tf.transpose(x, [0, 2, 3, 1])), [0, 3, 1, 2])

    require_equal(first_by_last, got, (tf.constant(image),))


def test_a_norm_in_double_precision_keeps_its_epsilon():
    layer = layers.LayerNormalization(epsilon=1e-3, dtype="float64")
    x = np.random.default_rng(0).normal(size=(4, 6))
    np.testing.assert_allclose(export(layer, Request(inputs=(x,)))(x), np.asarray(layer(x)), rtol=1e-13, atol=1e-13)


def test_every_layer_has_a_row_or_a_reason():
    classes = {name for name in dir(layers) if inspect.isclass(getattr(layers, name))}
    canonical = {getattr(layers, name).__name__ for name in classes}
    tried = {row[0].partition("-")[0] for row in ROWS}
    assert canonical - tried - set(NO_ROW) == set()
    assert tf.__version__
