"""TensorFlow's runs with noise, in the graph and in the bodies of its loops."""

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow", reason="TensorFlow is an extra")

import onnxport  # noqa: E402
from onnxport.validation.runners import tensorflow as runners  # noqa: E402
from onnxport.validation.runners.base import Binding  # noqa: E402

pytestmark = pytest.mark.tensorflow
FAR = np.linspace(-16, -12, 64).astype(np.float32)


def looped(x):
    return tf.while_loop(lambda i, _: i < 1, lambda i, y: (i + 1, tf.sigmoid(y)), (tf.constant(0), x))[1]


def moved(call):
    runner = runners.bind(tf.function(call), Binding((FAR,), None))
    return runner.run([FAR])[0][1], [runner.run_moved([FAR], 1, seed)[0][1] for seed in range(3)]


@pytest.mark.parametrize("call", [tf.sigmoid, tf.nn.softplus, lambda x: tf.math.expm1(x / 1e4), looped])
def test_a_small_value_beside_1_moves_by_a_unit_of_1(call):
    plain, runs = moved(call)
    unit = np.finfo(np.float32).eps
    assert all(0.1 * unit < np.abs(run - plain).max() < 1.1 * unit for run in runs)
    assert not np.array_equal(runs[0], runs[1])


@pytest.mark.parametrize(
    "call", [lambda x: tf.abs(tf.signal.rfft(x)), lambda x: tf.signal.irfft(tf.signal.rfft(x) / 8)]
)
def test_a_transform_moves_by_a_unit_of_all_its_results(call):
    plain, runs = moved(call)
    unit = np.finfo(np.float32).eps * np.sqrt(np.mean(plain**2))
    still = moved(tf.abs)[1]  # the inputs' own
    assert all(0.2 * unit < np.sqrt(np.mean((run - plain) ** 2)) < 4 * unit for run in runs)
    assert not np.array_equal(runs[0], runs[1])
    assert np.array_equal(still[0], np.abs(FAR))


@pytest.mark.parametrize(
    "call", [lambda x: tf.abs(tf.signal.rfft(x)), lambda x: tf.image.resize(x[None, :, None, None], [48, 1])]
)
def test_complex_numbers_and_resampled_images_have_a_float64_run(call):
    runner = runners.bind(tf.function(call), Binding((FAR,), None))
    (_, narrow), (_, wide) = runner.run([FAR])[0], runner.run_float64([FAR])[0]
    assert wide.dtype == np.float64
    assert 0 < np.abs(wide - narrow).max() < 1e-4 * np.abs(wide).max()


def test_a_far_gelu_is_right_to_a_unit_of_1():
    x = np.float32([[-6, -8, -9, -12], [-5, -5.5, -6.5, -7]])
    model = tf.function(lambda x: tf.nn.gelu(x), input_signature=[tf.TensorSpec([None, 4])])
    assert onnxport.convert(model, inputs=(x,)).report.passed


@pytest.mark.parametrize("call", [lambda x: tf.sqrt(tf.nn.softplus(x - 4)), lambda x: tf.math.log(tf.sigmoid(x - 4))])
def test_no_probability_moves_below_0(call):
    _, runs = moved(call)
    assert all(np.isfinite(run).all() for run in runs)


def test_runs_with_moved_weights_do_not_describe_them(monkeypatch):
    """A function whose placeholders are named later puts all its arguments into the text of an error at each call."""
    from tensorflow.python.framework import ops

    weight = tf.Variable(np.linspace(0, 1, 64, dtype=np.float32))
    runner = runners.bind(tf.function(lambda x: x * weight), Binding((FAR,), None))
    described = []
    monkeypatch.setattr(ops._EagerTensorBase, "__repr__", lambda tensor: described.append(tensor) or "a tensor")
    plain, move = runner.run([FAR])[0][1], runner.run_moved([FAR], 1, 0)[0][1]
    assert 0 < np.abs(move - plain).max() < 1e-5
    assert not described


@pytest.mark.parametrize("to", ["float64", "moved"])
def test_a_weight_that_can_not_be_fed_stays_a_constant(to, monkeypatch):
    from onnxport.validation.runners.tensorflow_wide import FrozenTwin

    called = FrozenTwin._called

    def refusing(self, definition, weights=()):
        if weights:
            raise ValueError("a constant alone")
        return called(self, definition)

    monkeypatch.setattr(FrozenTwin, "_called", refusing)
    weight = tf.Variable(np.linspace(0, 1, 64, dtype=np.float32))
    runner = runners.bind(tf.function(lambda x: x * weight), Binding((FAR,), None))
    (_, plain), (_, other) = (
        runner.run([FAR])[0],
        (runner.run_float64([FAR]) if to == "float64" else runner.run_moved([FAR], 1, 0))[0],
    )
    assert other.dtype == (np.float64 if to == "float64" else np.float32)
    assert 0 < np.abs(other - plain).max() < 1e-5


def test_a_group_norm_of_many_pixels_passes_and_a_wrong_one_fails():
    """Runtimes add what lies apart in memory one by one; TensorFlow adds in pairs."""
    keras = pytest.importorskip("keras", reason="Keras is an extra")

    def network(epsilon):
        inputs = keras.Input((64, 64, 32))
        return keras.Model(inputs, keras.layers.GroupNormalization(8, epsilon=epsilon, name="norm")(inputs))

    right = onnxport.convert(network(1e-3))
    assert right.report.passed
    wrong = onnxport.convert(network(1.3e-3), validate=False)
    assert onnxport.validate(network(1e-3), wrong).verdict == "failed"
