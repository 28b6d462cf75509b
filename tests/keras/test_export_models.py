"""Keras models: architectures, names, saved files, recurrent layers as operators, figures that must hold."""

import os
import zipfile

import keras
import numpy as np
import onnx
import pytest
import tensorflow as tf
from keras import layers

import onnxport
from onnxport.converters.to_onnx.keras import export
from onnxport.converters.to_onnx.tensorflow import export as export_tensorflow
from onnxport.errors import InvalidInputError, InvalidModelError, UntrustedFileError
from onnxport.graph.passes.weight_moves import with_source_weights
from onnxport.request import Request
from onnxport.tracing.keras import load
from onnxport.tracing.tensorflow import load as load_saved_model
from tests.evidence import require_equal
from tests.graph.written import moved_constants

pytestmark = pytest.mark.keras

RNG = np.random.default_rng(0)


def f(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def ints(*shape, high=20):
    return RNG.integers(0, high, shape).astype(np.int32)


def randomized(model):
    """The model with no weight at its initial 0 or 1; kernels are scaled by their fan-in, so that rounding does not grow."""
    rng = np.random.default_rng(7)
    for variable in model.weights:
        if np.issubdtype(np.dtype(variable.dtype), np.floating):
            signs = rng.choice([-1, 1] if "variance" not in variable.path else [1], variable.shape)
            scale = 1 / np.sqrt(np.prod(variable.shape[:-1])) if len(variable.shape) > 1 else 1.0
            variable.assign(rng.uniform(0.2, 0.9, variable.shape) * signs * scale)
    return model


def cnn():
    return keras.Sequential(
        [
            keras.Input((12, 12, 3), name="image"),
            layers.Conv2D(8, 3, padding="same", use_bias=False, name="first"),
            layers.BatchNormalization(),
            layers.ReLU(),
            layers.MaxPooling2D(),
            layers.SeparableConv2D(6, 3),
            layers.Dropout(0.5),
            layers.GlobalAveragePooling2D(),
            layers.Dense(4, activation="softmax", name="scores"),
        ]
    )


def mobile():
    """Inverted residuals with squeeze-and-excite and hard swish."""
    x = inputs = keras.Input((16, 16, 3))
    x = layers.Conv2D(8, 3, 2, padding="same", activation="hard_swish")(x)
    y = layers.Conv2D(16, 1, use_bias=False)(x)
    y = layers.Activation("hard_swish")(layers.BatchNormalization()(y))
    y = layers.ZeroPadding2D(((0, 1), (0, 1)))(y)
    y = layers.DepthwiseConv2D(3, strides=1, padding="valid")(layers.ZeroPadding2D(((1, 0), (1, 0)))(y))
    s = layers.GlobalAveragePooling2D(keepdims=True)(y)
    y = layers.Multiply()([y, layers.Conv2D(16, 1, activation="sigmoid")(s)])
    y = layers.BatchNormalization()(layers.Conv2D(8, 1)(y))
    x = layers.Add()([x, y])
    return keras.Model(inputs, layers.Dense(5)(layers.Flatten()(x)))


def transformer():
    tokens = keras.Input((None,), dtype="int32", name="tokens")
    x = layers.Embedding(20, 8)(tokens)
    attended = layers.MultiHeadAttention(2, 4)(x, x, use_causal_mask=True)
    x = layers.LayerNormalization()(x + attended)
    y = layers.Dense(8)(layers.Dense(16, activation="gelu")(x))
    x = layers.LayerNormalization()(x + y)
    return keras.Model(tokens, layers.Dense(3, name="head")(layers.GlobalAveragePooling1D()(x)))


def recurrent(layer, mask=False):
    tokens = keras.Input((None,), dtype="int32", name="tokens")
    x = layers.Embedding(20, 6, mask_zero=mask)(tokens)
    return keras.Model(tokens, layers.Dense(3)(layer(x)))


def unet():
    x = inputs = keras.Input((16, 16, 3))
    skip = x = layers.Conv2D(4, 3, padding="same", activation="relu")(x)
    x = layers.Conv2D(8, 3, 2, padding="same", activation="relu")(x)
    x = layers.UpSampling2D(interpolation="bilinear")(x)
    x = layers.Concatenate()([x, skip])
    x = layers.Conv2DTranspose(4, 3, 2, padding="same")(layers.AveragePooling2D(2)(x))
    return keras.Model(inputs, layers.Softmax()(x))


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.first = layers.Dense(4, activation="relu")
        self.second = layers.Dense(2)

    def call(self, left, right=None, training=False):
        x = self.first(left)
        if right is not None:
            x = x + right
        return {"logits": self.second(x), "features": x}


MODELS = {
    "cnn": (cnn, (f(2, 12, 12, 3),), 0),
    "mobile": (mobile, (f(2, 16, 16, 3),), 0),
    "unet": (unet, (f(2, 16, 16, 3),), 0),
    "transformer": (transformer, (ints(2, 5),), 1),
    "lstm": (lambda: recurrent(layers.LSTM(4)), (ints(2, 5),), 1),
    "masked lstm": (lambda: recurrent(layers.LSTM(4), mask=True), (ints(2, 5, high=3),), 1),
    "masked gru": (lambda: recurrent(layers.GRU(4, return_sequences=True), mask=True), (ints(2, 5, high=3),), 1),
    "bidirectional": (lambda: recurrent(layers.Bidirectional(layers.GRU(4))), (ints(2, 5),), 1),
    "stacked": (
        lambda: recurrent(layers.RNN([layers.LSTMCell(3), layers.LSTMCell(4)])),
        (ints(2, 5),),
        1,
    ),
}


EVERY_OPSET = ("cnn", "transformer", "lstm", "masked lstm")


@pytest.mark.sampled(0.3)
@pytest.mark.parametrize(
    ("name", "opset"),
    [(name, opset) for name in MODELS for opset in ((13, 17, 21, 23, 26) if name in EVERY_OPSET else (13, 21))],
)
def test_architectures(name, opset):
    build, inputs, time_axes = MODELS[name]
    source = randomized(build())
    model = export(source, Request(target_opset=opset))
    onnx.checker.check_model(model.proto, full_check=True)
    assert moved_constants(model.model) == []
    assert model.opset == opset
    require_equal(source, model, inputs)
    wider = tuple(np.concatenate([item, item[:1]]) for item in inputs)
    require_equal(source, model, wider)
    if time_axes:
        require_equal(source, model, tuple(np.concatenate([item, item, item], 1) for item in inputs))


def test_weights_have_their_own_names_and_values():
    source = cnn()
    model = with_source_weights(export(source, Request()).model)
    initializers = model.graph.initializers
    for variable in source.weights:
        np.testing.assert_array_equal(initializers[variable.path].const_value.numpy(), np.asarray(variable))
    assert {node.op_type for node in model.graph} >= {"BatchNormalization", "Conv"}
    assert (
        len(
            list(
                model.graph.initializers[
                    "sequential/first/kernel" if "sequential/first/kernel" in initializers else source.weights[0].path
                ].uses()
            )
        )
        == 1
    )


def test_inputs_and_outputs_are_named_after_the_models_own():
    left, right = keras.Input((3,), name="left"), keras.Input((3,), name="right")
    total = layers.Add(name="total")([left, right])
    several = keras.Model([left, right], [total, layers.Dense(2, name="head")(total)])
    model = export(several, Request())
    assert (model.input_names, model.output_names) == (["left", "right"], ["total", "head"])
    named = keras.Model({"left": left, "right": right}, {"b": total, "a": total * 2.0})
    model = export(named, Request())
    assert (model.input_names, model.output_names) == (["left", "right"], ["a", "b"])
    assert export(cnn(), Request()).output_names == ["output"]
    assert export(cnn(), Request(output_names=["probabilities"])).output_names == ["probabilities"]


def test_batch_is_one_dynamic_dimension_of_all_inputs():
    left, right = keras.Input((3,)), keras.Input((None, 3))
    model = export(keras.Model([left, right], layers.Add()([left[:, None], right])), Request())
    dims = [value.shape[0].value for value in model.model.graph.inputs]
    assert dims == ["batch", "batch"]
    assert model.model.graph.inputs[1].shape[1].value not in ("batch", None)


@pytest.mark.parametrize("given", [lambda rows: [rows], lambda rows: (rows,), lambda rows: rows.tolist()])
def test_one_input_alone_or_in_a_list_or_as_rows(given):
    model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(3)])
    converted = onnxport.convert(model, inputs=given(np.ones((4, 5), np.float32)))
    assert converted.report.passed
    assert converted.report.sets[0].outputs[0].shape == (4, 3)


def test_subclassed_models_take_example_inputs():
    source = Subclassed()
    with pytest.raises(InvalidInputError, match="pass inputs"):
        export(source, Request())
    inputs = (f(2, 3), f(2, 4))
    model = export(source, Request(inputs=inputs))
    assert (model.input_names, model.output_names) == (["left", "right"], ["features", "logits"])
    require_equal(source, model, inputs)
    require_equal(source, model, (f(5, 3), f(5, 4)))
    fixed = export(source, Request(inputs={"left": inputs[0]}, dynamic_shapes={}))
    assert fixed.input_names == ["left"]
    assert list(fixed.model.graph.inputs[0].shape) == [2, 3]


def test_models_inside_models():
    inner = keras.Sequential([keras.Input((6,)), layers.Dense(4), layers.Reshape((2, 2))])
    x = keras.Input((6,))
    outer = keras.Model(x, inner(x) + inner(x * 2.0))
    model = export(outer, Request())
    require_equal(outer, model, (f(3, 6),))
    assert len([name for name in model.model.graph.initializers if name.endswith("kernel")]) == 1


@pytest.mark.parametrize("suffix", [".keras", ".h5"])
def test_files(tmp_path, suffix):
    source = randomized(cnn())
    source.save(tmp_path / f"model{suffix}")
    loaded = load(tmp_path / f"model{suffix}")
    require_equal(source, export(loaded, Request()), (f(2, 12, 12, 3),))


def test_exported_saved_model(tmp_path):
    source = randomized(cnn())
    source.export(str(tmp_path / "exported"), verbose=False)
    model = export_tensorflow(load_saved_model(tmp_path / "exported"), Request())
    assert (model.input_names, model.output_names) == (["image"], ["output_0"])
    require_equal(source, model, (f(2, 12, 12, 3),))
    assert {node.op_type for node in model.model.graph} >= {"BatchNormalization", "Conv"}


def test_a_lambda_is_refused_unless_allowed(tmp_path):
    path = tmp_path / "lambda.keras"
    keras.Sequential([keras.Input((3,)), layers.Lambda(lambda x: x * 2.0)]).save(path)
    with pytest.raises(UntrustedFileError, match="Lambda"):
        load(path)
    model = export(load(path, allow_pickle=True), Request())
    np.testing.assert_array_equal(model(np.ones((2, 3), np.float32)), np.full((2, 3), 2.0, np.float32))


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.keras", b"nothing"), ("b.h5", b"nothing"), ("c.keras", b""), ("d.txt", b"x"), ("e.keras", None)],
)
def test_damaged_files(tmp_path, name, content):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InvalidModelError) as caught:
        load(path)
    assert len(str(caught.value)) < 500
    assert "\n" not in str(caught.value)


def test_a_truncated_archive(tmp_path):
    path = tmp_path / "model.keras"
    cnn().save(path)
    with zipfile.ZipFile(path) as archive:
        kept = {name: archive.read(name) for name in archive.namelist() if name != "model.weights.h5"}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in kept.items():
            archive.writestr(name, content)
    with pytest.raises(InvalidModelError):
        load(path)
    path.write_bytes(path.read_bytes()[: os.path.getsize(path) // 2])
    with pytest.raises(InvalidModelError):
        load(path)


RECURRENT = {
    "lstm": (lambda: layers.LSTM(4), "LSTM"),
    "lstm with sequences and states": (lambda: layers.LSTM(4, return_sequences=True, return_state=True), "LSTM"),
    "lstm with relu, without bias": (lambda: layers.LSTM(4, activation="relu", use_bias=False), "LSTM"),
    "lstm with other gates": (lambda: layers.LSTM(4, recurrent_activation="tanh"), "LSTM"),
    "lstm backwards": (lambda: layers.LSTM(4, go_backwards=True), "LSTM"),
    "gru": (lambda: layers.GRU(4), "GRU"),
    "gru with sequences": (lambda: layers.GRU(4, return_sequences=True, return_state=True), "GRU"),
    "gru before": (lambda: layers.GRU(4, reset_after=False), "GRU"),
    "gru before, without bias": (lambda: layers.GRU(4, reset_after=False, use_bias=False), "GRU"),
    "gru with relu": (lambda: layers.GRU(4, activation="relu", use_bias=False), "GRU"),
    "simple": (lambda: layers.SimpleRNN(4, return_sequences=True), "RNN"),
    "simple with relu": (lambda: layers.SimpleRNN(4, activation="relu", use_bias=False), "RNN"),
    "hard sigmoid stays a loop": (lambda: layers.LSTM(4, recurrent_activation="hard_sigmoid"), "Loop"),
    "stacked cells stay a loop": (lambda: layers.RNN([layers.LSTMCell(3), layers.GRUCell(4)]), "Loop"),
}


@pytest.mark.sampled(0.5)
@pytest.mark.parametrize("name", RECURRENT)
@pytest.mark.parametrize("steps", [6, None])
def test_recurrent_layers_become_operators(name, steps):
    build, operator = RECURRENT[name]
    source = keras.Sequential([keras.Input((steps, 3)), build()])
    for variable in source.weights:
        variable.assign(RNG.uniform(-0.9, 0.9, variable.shape))
    model = export(source, Request())
    assert operator in {node.op_type for node in model.model.graph}
    require_equal(source, model, (f(2, 6, 3),))
    if steps is None:
        require_equal(source, model, (f(3, 1, 3),))
        require_equal(source, model, (f(1, 11, 3),))


def test_recurrent_layers_with_initial_states():
    x, h, c = keras.Input((None, 3)), keras.Input((4,)), keras.Input((4,))
    source = keras.Model([x, h, c], layers.LSTM(4, return_state=True)(x, initial_state=[h, c]))
    model = export(source, Request())
    assert "LSTM" in {node.op_type for node in model.model.graph}
    inputs = f(2, 5, 3), f(2, 4), f(2, 4)
    require_equal(source, model, inputs)


def test_mixed_precision():
    keras.config.set_dtype_policy("mixed_float16")
    try:
        source = keras.Sequential(
            [keras.Input((8,)), layers.Dense(4, activation="relu"), layers.Dense(2, dtype="float32")]
        )
    finally:
        keras.config.set_dtype_policy("float32")
    model = export(source, Request())
    require_equal(source, model, f(3, 8))


def test_two_conversions_give_identical_bytes():
    for build in (mobile, transformer, lambda: recurrent(layers.LSTM(4), mask=True)):
        source = build()
        first, second = (export(source, Request()).proto.SerializeToString() for _ in range(2))
        assert first == second


def test_activations_need_no_transposes_but_the_first():
    model = export(mobile(), Request())
    transposes = [
        node for node in model.model.graph if node.op_type == "Transpose" and not node.inputs[0].is_initializer()
    ]
    assert len(transposes) == 2  # into the first convolution, and before Flatten
    assert tf.__version__


def test_zeros_around_an_activation_are_the_convolutions_own():
    source = keras.Sequential([keras.Input((8, 8, 3)), layers.Conv2D(4, 3), layers.ReLU(), layers.ZeroPadding2D()])
    source.add(layers.Conv2D(4, 3, strides=2))
    model = export(randomized(source), Request())
    assert "Pad" not in {node.op_type for node in model.model.graph}
    require_equal(source, model, f(2, 8, 8, 3))
