"""Example inputs of TensorFlow and Keras models: one tensor in several places, dimensions that vary."""

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
keras = pytest.importorskip("keras")
pytestmark = [pytest.mark.tensorflow, pytest.mark.keras]

import onnxport  # noqa: E402

X = tf.constant(np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32))
VARIABLE = tf.Variable(X)


class Apart(keras.layers.Layer):
    def call(self, a, b):
        return a - 2 * b


ROWS = [
    (lambda a, b: a - 2 * b, (X, X)),
    (tf.function(lambda a, b: a - 2 * b), (X, X)),
    (tf.function(lambda d: d["a"] - 2 * d["b"]), ({"a": X, "b": X},)),
    (tf.function(lambda a, b: a - 2 * b), (VARIABLE, VARIABLE)),
    (tf.function(lambda a: a - 2 * VARIABLE), (VARIABLE,)),
    (Apart(), (X, X)),
]


@pytest.mark.parametrize(("model", "inputs"), ROWS, ids=range(len(ROWS)))
def test_one_tensor_in_several_places_is_several_inputs(model, inputs):
    made = onnxport.convert(model, inputs=inputs)
    assert len(made.input_names) == len(tf.nest.flatten(inputs))
    a, b = np.ones((4, 3), np.float32), np.full((4, 3), 7, np.float32)
    if len(made.input_names) == 2:
        np.testing.assert_array_equal(made(a, b), a - 2 * b)
    assert onnxport.validate(model, made, inputs=inputs).passed
