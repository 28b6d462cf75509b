"""Keras on JAX, which is chosen before Keras is imported: the checks run in one process of their own."""

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

pytestmark = [pytest.mark.keras, pytest.mark.jax]

PROGRAM = """
import os
import numpy as np, keras, onnxport
from keras import layers, ops

steps, ids = keras.Input((None, 4), name="steps"), keras.Input((3,), dtype="int64", name="ids")
read = layers.Bidirectional(layers.LSTM(3), name="read")(steps)
words = layers.Flatten()(layers.Embedding(7, 2, name="words")(ids))
head = layers.Dense(2, activation="elu", name="head")(keras.ops.concatenate([read, words], 1))
model = keras.Model({"steps": steps, "ids": ids}, head)
made = onnxport.convert(model)
assert made.report.verdict == "passed", made.report
assert "jax" in str(keras.backend.backend()) and any("rebuilt" in note for note in made.notes)
shapes = {item.name: [str(size) for size in item.shape] for item in (*made.model.graph.inputs, *made.model.graph.outputs)}
assert shapes["ids"] == ["batch", "3"] and shapes["head"] == ["batch", "2"] and not shapes["steps"][1].isdigit()
assert {"words/embeddings", "head/kernel"} <= set(made.model.graph.initializers)

# JAX keeps the lower half of an integer's bits
key = keras.Input((3,), dtype="int64")
made = onnxport.convert(keras.Model(key, layers.IntegerLookup(vocabulary=[3, 5, 1])(key)))
assert made.report.verdict == "passed", made.report
assert made(np.array([[5, 2**32 + 5, -(2**40) + 1]])).tolist() == [[2, 2, 3]]

text = np.array([["a"], ["x"], ["b"]], object)
for options in ({}, {"output_mode": "multi_hot"}, {"num_oov_indices": 2}):
    made = onnxport.convert(layers.StringLookup(vocabulary=["a", "b"], **options), inputs=(text,))
    assert made.report.verdict == "passed", made.report
made = onnxport.convert(layers.TextVectorization(vocabulary=["a", "b"]), inputs=(np.array(["a b x", "b"], object),))
assert made.report.verdict == "passed", made.report

layer = layers.Lambda(lambda x: x * 2)
made = onnxport.convert(layer, inputs=(np.arange(6).reshape(2, 3),))
assert made.report.verdict == "passed", made.report
wrong = onnxport.convert(layers.Rescaling(2.0), inputs=(np.ones((2, 3), np.float32),))
report = onnxport.validate(layers.Rescaling(2.001), wrong, inputs=(np.ones((2, 3), np.float32),))
assert report.verdict == "failed"

class ByBackend(layers.Layer):
    def call(self, x):
        return x * (1.0 if keras.backend.backend() == "jax" else 1.01)

image = keras.Input((4, 3, 2))
# its numbers are not those of its variables until it is adapted or loaded again: what is rebuilt, and copies of it, have others
stale = layers.Normalization(name="stale")
stale.adapt(np.random.default_rng(0).normal(1, 2, (8, 4, 3, 2)).astype(np.float32))
stale.adapt_mean.assign(stale.adapt_mean + 1)
odd = (ByBackend(name="odd"), "ByBackend 'odd'"), (stale, "Normalization 'stale'")
for model, layer in ((layers.UpSampling2D(3, interpolation="bicubic"), None), *odd):
    model = keras.Model(image, layers.ReLU()(model(layers.ReLU()(image))))
    try:
        onnxport.convert(model, validate=layer is None)
        assert layer is None
    except onnxport.errors.UnsupportedOperator as error:
        assert f"Keras computes {layer} otherwise" in str(error), error

# the edges of functions' domains are JAX's own
x, i = keras.Input((4,), name="x"), keras.Input((4,), dtype="int32", name="i")
edges = {
    "shifted": ops.left_shift(i, i), "back": ops.right_shift(i, i - 2), "divided": ops.floor_divide(x, x - 0.7),
    "whole": ops.floor_divide(7, i), "rest": ops.mod(7, i), "step": ops.heaviside(x, x), "angle": ops.angle(x),
    "close": ops.isclose(x, 1.0), "total": ops.nancumsum(x, axis=1), "product": ops.nancumprod(x, axis=1),
    "taken": ops.take_along_axis(x, i, axis=1), "place": ops.unravel_index(i, (2, 2))[1], "most": ops.argmax(x, axis=1),
    "loss": ops.sparse_categorical_crossentropy(i[:, :1], ops.softmax(ops.nan_to_num(x))),
}
model = keras.Model([x, i], edges)
made = onnxport.convert(model)
assert made.report.verdict == "passed", made.report
numbers = np.array([[np.nan, np.inf, -0.0, 7.0], [0.0, -np.inf, 0.7, -3.0]], np.float32)
given = numbers, np.array([[0, -1, 33, 3], [31, -5, 2**31 - 1, -(2**31)]], np.int32)
wanted = model(list(given))
for value, ours in zip(made.model.graph.outputs, made(*given), strict=True):
    np.testing.assert_allclose(ours, np.asarray(wanted[value.name]), rtol=1e-6, err_msg=value.name)

class Picky(layers.Layer):
    def compute_output_spec(self, x):
        return keras.KerasTensor(x.shape, x.dtype)

    def call(self, x):
        assert keras.backend.backend() != "jax" or float(x[0, 0]) == 7.0
        return x

made = onnxport.convert(keras.Model(x, Picky()(x)), validate=False)
assert any("not compared" in note for note in made.notes), made.notes
children = [line.split() for line in os.popen("ps -e -o ppid= -o command=") if "keras_child" in line]
assert not [line for line in children if line[0] == str(os.getpid())], children
"""


@pytest.mark.skipif(find_spec("jax") is None, reason="JAX is an extra of its own")
def test_models_on_jax(tmp_path):
    environment = {**os.environ, "KERAS_BACKEND": "jax"}
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run([sys.executable, str(program)], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
