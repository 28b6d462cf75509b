"""Programs of tf2onnx's users: signatures that are nested, functions that are loaded, loops, large models in an archive."""

import numpy as np
import onnxruntime
import pytest

from tests.compat.programs import run

pytest.importorskip("tensorflow", reason="TensorFlow is an extra")
pytestmark = [pytest.mark.tensorflow, pytest.mark.keras]

START = """
import numpy as np
import tensorflow as tf
import tf2onnx

tf.keras.utils.set_random_seed(0)
rng = np.random.default_rng(0)

def spec(name, *shape, dtype=tf.float32):
    return tf.TensorSpec(shape, dtype, name=name)

def rows(*shape):
    return rng.standard_normal(shape, dtype=np.float32)

"""
TWO = """
a, b = tf.keras.Input((3,), name="a"), tf.keras.Input((4,), name="b")
joined = tf.keras.layers.Concatenate()([a, b])
model = tf.keras.Model({"a": a, "b": b}, tf.keras.layers.Dense(2)(joined))
x = {"a": rows(2, 3), "b": rows(2, 4)}
expected = [model(x)]
"""
# Each leaves the file net.onnx, `feeds` by name, and `expected` in the outputs' order.
PROGRAMS = {
    "a dict of specifications for a functional model": START
    + TWO
    + """
signature = [{"b": spec("b", None, 4), "a": spec("a", None, 3)}]
tf2onnx.convert.from_keras(model, input_signature=signature, opset=17, output_path="net.onnx")
feeds = x
""",
    "a dict alone, with names and sizes of its own": START
    + TWO
    + """
signature = {"a": spec("left", 2, 3), "b": spec("right", 2, 4)}
proto, _ = tf2onnx.convert.from_keras(model, input_signature=signature, output_path="net.onnx")
assert [item.type.tensor_type.shape.dim[0].dim_value for item in proto.graph.input] == [2, 2]
feeds = {"left": x["a"], "right": x["b"]}
""",
    "a dict for a function": START
    + """
@tf.function
def f(features, scale):
    return features["b"][0] * scale - features["a"]

signature = [{"b": [spec("b", None, 3)], "a": spec("a", None, 3)}, spec("scale")]
tf2onnx.convert.from_function(f, input_signature=signature, opset=15, output_path="net.onnx")
feeds = {"a": rows(2, 3), "b": rows(2, 3), "scale": np.array(2, np.float32)}
expected = [feeds["b"] * 2 - feeds["a"]]
""",
    "a dict for a model of subclasses": START
    + """
class Net(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = tf.keras.layers.Dense(2)

    def call(self, x):
        return self.dense(x["a"]) - self.dense(x["b"])

model, feeds = Net(), {"a": rows(2, 3), "b": rows(2, 3)}
expected = [model(feeds)]
signature = [{"b": spec("b", None, 3), "a": spec("a", None, 3)}]
tf2onnx.convert.from_keras(model, input_signature=signature, output_path="net.onnx")
""",
    "a signature that is loaded": START
    + """
class Images(tf.Module):
    def __init__(self):
        super().__init__()
        self.kernel = tf.Variable(rows(3, 3, 3, 8))

    @tf.function(input_signature=[spec("images", None, None, None, 3)])
    def __call__(self, images):
        return {"features": tf.nn.conv2d(images / 255.0, self.kernel, 2, "SAME")}

module = Images()
tf.saved_model.save(module, "saved", signatures=module.__call__)
loaded = tf.saved_model.load("saved")
tf2onnx.convert.from_function(loaded.signatures["serving_default"], input_signature=None, opset=15, output_path="net.onnx")
feeds = {"images": rows(2, 9, 7, 3)}
expected = [module(tf.constant(feeds["images"]))["features"]]
""",
    "an object that is loaded, wrapped as a function": START
    + """
class Scaled(tf.Module):
    @tf.function(input_signature=[spec("x", None, 3)])
    def __call__(self, x):
        return x * 2.0

tf.saved_model.save(Scaled(), "saved")
loaded = tf.saved_model.load("saved")
tf2onnx.convert.from_function(tf.function(loaded.__call__), [spec("x", 1, 3)], output_path="net.onnx")
feeds = {"x": rows(1, 3)}
expected = [feeds["x"] * 2]
""",
    "a loop whose end is an input": START
    + """
@tf.function
def f(n, x):
    return tf.while_loop(lambda i, x: i < n, lambda i, x: (i + 1, x * 2.0), (0, x))[1]

signature = (spec("n", dtype=tf.int32), spec("x", 2, 2))
tf2onnx.convert.from_function(f, input_signature=signature, output_path="net.onnx")
feeds = {"n": np.array(3, np.int32), "x": rows(2, 2)}
expected = [feeds["x"] * 8]
""",
    "tokens and a mask of padding": START
    + """
ids, mask = (tf.keras.Input((None,), dtype=tf.int32, name=name) for name in ("input_ids", "attention_mask"))
tokens = tf.keras.layers.Embedding(50, 8)(ids)
attended = tf.keras.layers.MultiHeadAttention(2, 4)(tokens, tokens, attention_mask=mask[:, None, :] > 0)
model = tf.keras.Model([ids, mask], attended)
signature = tuple(spec(name, None, None, dtype=tf.int32) for name in ("input_ids", "attention_mask"))
tf2onnx.convert.from_keras(model, signature, opset=13, output_path="net.onnx")
feeds = {"input_ids": rng.integers(0, 50, (2, 6)).astype(np.int32), "attention_mask": np.int32([[1] * 6, [1] * 3 + [0] * 3])}
expected = [model(list(feeds.values()))]
""",
    "boxes that are suppressed, at opset 12": START
    + """
@tf.function
def f(boxes, scores):
    return tf.image.non_max_suppression(boxes, scores, 5, 0.5)

tf2onnx.convert.from_function(f, (spec("boxes", None, 4), spec("scores", None)), opset=12, output_path="net.onnx")
corners = rng.random((6, 4), dtype=np.float32)
corners[:, 2:] += corners[:, :2]
feeds = {"boxes": corners, "scores": rng.random(6, dtype=np.float32)}
expected = [f(**feeds)]
""",
    "a file of Keras before version 3": START
    + """
tf.keras.Sequential([tf.keras.Input((8,), name="rows"), tf.keras.layers.Dense(4, activation="elu")]).save("net.h5")
model = tf.keras.models.load_model("net.h5", compile=False)
tf2onnx.convert.from_keras(model, output_path="net.onnx")
feeds = {"rows": rows(2, 8)}
expected = [model(feeds["rows"])]
""",
    "a large model in an archive": START
    + """
import os
import zipfile

model = tf.keras.Sequential([tf.keras.Input((64,), name="rows"), tf.keras.layers.Dense(64)])
tf2onnx.convert.from_keras(model, large_model=True, output_path="net.zip")
with zipfile.ZipFile("net.zip") as archive:
    archive.extractall("net")
assert len(os.listdir("net")) == 2
os.symlink("net/__MODEL_PROTO.onnx", "net.onnx")
feeds = {"rows": rows(2, 64)}
expected = [model(feeds["rows"])]
""",
}


@pytest.mark.sampled(0.5)
@pytest.mark.filterwarnings("ignore")  # of the old format of Keras
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_a_program_runs_with_one_line_changed(program, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    left = run(program, "import tf2onnx", "from onnxport.compat import tf2onnx")
    session = onnxruntime.InferenceSession((tmp_path / "net.onnx").resolve(), providers=["CPUExecutionProvider"])
    for result, expected in zip(session.run(None, left["feeds"]), left["expected"], strict=True):
        assert result.shape == expected.shape
        np.testing.assert_allclose(result, np.asarray(expected), rtol=1e-4, atol=1e-5)
