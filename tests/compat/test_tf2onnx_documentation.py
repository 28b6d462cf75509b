"""Programs in the shape of tf2onnx's README, tutorials and examples: ``import tf2onnx`` changes, nothing else."""

import sys

import numpy as np
import onnxruntime
import pytest

from onnxport.compat import from_function, stand_in
from tests.compat.programs import run

tf = pytest.importorskip("tensorflow", reason="TensorFlow is an extra")
pytestmark = [pytest.mark.tensorflow, pytest.mark.keras]

OLD, NEW = "import tf2onnx", "from onnxport.compat import tf2onnx"

START = """
import numpy as np
import tensorflow as tf
import tf2onnx
import onnx

tf.keras.utils.set_random_seed(0)
rng = np.random.default_rng(0)
"""
# Each leaves the file net.onnx, `feeds` by name, and `expected` in the outputs' order.
PROGRAMS = {
    "a model of tf.keras into a file": START
    + """
model = tf.keras.Sequential([
    tf.keras.Input((12, 12, 3)), tf.keras.layers.Conv2D(4, 3), tf.keras.layers.BatchNormalization(),
    tf.keras.layers.ReLU(), tf.keras.layers.GlobalAveragePooling2D(), tf.keras.layers.Dense(5, activation="softmax"),
])
spec = (tf.TensorSpec((None, 12, 12, 3), tf.float32, name="input"),)
output_path = "net.onnx"
model_proto, _ = tf2onnx.convert.from_keras(model, input_signature=spec, opset=13, output_path=output_path)
output_names = [n.name for n in model_proto.graph.output]
x = rng.standard_normal((2, 12, 12, 3), dtype=np.float32)
feeds, expected = {"input": x}, [model.predict(x, verbose=0)]
""",
    "a message and what is stored beside it": START
    + """
model = tf.keras.Sequential([tf.keras.Input((6,)), tf.keras.layers.Dense(4, activation="gelu"), tf.keras.layers.Dense(2)])
(onnx_model_proto, storage) = tf2onnx.convert.from_keras(model)
assert storage is None
with open("net.onnx", "wb") as file:
    file.write(onnx_model_proto.SerializeToString())
x = rng.standard_normal((3, 6), dtype=np.float32)
feeds, expected = {onnx_model_proto.graph.input[0].name: x}, [model(x)]
""",
    "a function with a variable": START
    + """
w = tf.Variable(rng.standard_normal((3, 2)).astype(np.float32))

@tf.function
def f(a, b):
    return tf.tanh(tf.matmul(a, w)) + b

specs = [tf.TensorSpec([None, 3], tf.float32, name="a"), tf.TensorSpec([2], tf.float32, name="b")]
onnx_model, _ = tf2onnx.convert.from_function(f, input_signature=specs, opset=14)
onnx.save(onnx_model, "net.onnx")
a, b = rng.standard_normal((4, 3), dtype=np.float32), np.ones(2, np.float32)
feeds, expected = {"a": a, "b": b}, [f(a, b)]
""",
    "a model of subclasses through a function": START
    + """
class Net(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.d1, self.d2 = tf.keras.layers.Dense(4, activation="relu"), tf.keras.layers.Dense(2)

    def call(self, x):
        return self.d2(self.d1(x))

model = Net()
model(tf.zeros((1, 3)))
function = tf.function(lambda x: model(x))
proto, _ = tf2onnx.convert.from_function(function, [tf.TensorSpec((None, 3), tf.float32, name="x")], output_path="net.onnx")
x = rng.standard_normal((4, 3), dtype=np.float32)
feeds, expected = {"x": x}, [model(x)]
""",
    "a concrete function": START
    + """
@tf.function
def f(x):
    return {"double": 2 * x, "half": x / 2}

concrete = f.get_concrete_function(tf.TensorSpec((None, 3), tf.float32, name="x"))
proto, _ = tf2onnx.convert.from_function(concrete, None, opset=15, output_path="net.onnx")
x = rng.standard_normal((4, 3), dtype=np.float32)
feeds, expected = {"x": x}, [2 * x, x / 2]
""",
    "a frozen graph of TensorFlow 1": START
    + """
with tf.compat.v1.Session(graph=tf.Graph()) as sess:
    x = tf.compat.v1.placeholder(tf.float32, [2, 3], name="input")
    x_ = tf.add(x, x)
    _ = tf.identity(x_, name="output")
    graph_def = sess.graph_def
proto, _ = tf2onnx.convert.from_graph_def(
    graph_def, input_names=["input:0"], output_names=["output:0"], opset=13, output_path="net.onnx"
)
data = rng.standard_normal((2, 3), dtype=np.float32)
feeds, expected = {"input": data}, [2 * data]
""",
    "a file of TFLite": START
    + """
model = tf.keras.Sequential([tf.keras.Input((8,), batch_size=1), tf.keras.layers.Dense(4, activation="relu")])

converter = tf.lite.TFLiteConverter.from_keras_model(model)
with open("model.tflite", "wb") as file:
    file.write(converter.convert())
proto, _ = tf2onnx.convert.from_tflite("model.tflite", opset=16, output_path="net.onnx")
x = rng.standard_normal((1, 8), dtype=np.float32)
feeds, expected = {proto.graph.input[0].name: x}, [model(x)]
""",
    "fixed sizes and channels first": START
    + """
inputs = tf.keras.Input((8, 8, 3), name="image")
model = tf.keras.Model(inputs, tf.keras.layers.Conv2D(2, 3, padding="same")(inputs))
spec = tf.TensorSpec((1, 8, 8, 3), tf.float32, name="image")
proto, _ = tf2onnx.convert.from_keras(
    model, input_signature=[spec], inputs_as_nchw=["image:0"], large_model=False, output_path="net.onnx"
)
dims = [dim.dim_value for dim in proto.graph.input[0].type.tensor_type.shape.dim]
assert dims == [1, 3, 8, 8]
x = rng.standard_normal((1, 8, 8, 3), dtype=np.float32)
feeds, expected = {"image": x.transpose(0, 3, 1, 2)}, [model(x)]
""",
    "no target and no optimizers": START
    + """
model = tf.keras.Sequential([tf.keras.Input((5, 3)), tf.keras.layers.Bidirectional(tf.keras.layers.GRU(2))])
proto, _ = tf2onnx.convert.from_keras(
    model, opset=15, custom_ops=None, target=[], optimizers=None,
    shape_override=None, extra_opset=None, output_path="net.onnx",
)
x = rng.standard_normal((2, 5, 3), dtype=np.float32)
feeds, expected = {proto.graph.input[0].name: x}, [model(x)]
""",
    "a model of subclasses by its signature": START
    + """
class Net(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = tf.keras.layers.Dense(3, activation="tanh")

    def call(self, rows):
        return self.dense(rows)

model = Net()
model(tf.zeros((1, 4)))
spec = (tf.TensorSpec((None, 4), tf.float32, name="rows"),)
proto, _ = tf2onnx.convert.from_keras(model, input_signature=spec, opset=15, output_path="net.onnx")
rows = rng.standard_normal((5, 4), dtype=np.float32)
feeds, expected = {"rows": rows}, [model(rows)]
""",
    "a frozen graph with new names and sizes, in a new folder": START
    + """
import shutil
with tf.Graph().as_default() as graph:
    a = tf.compat.v1.placeholder(tf.float32, (None, 3), name="a")
    b = tf.compat.v1.placeholder(tf.float32, (None, 3), name="b")
    tf.add(a, b, name="total")
    tf.subtract(a, b, name="rest")
proto, _ = tf2onnx.convert.from_graph_def(
    graph.as_graph_def(), name="sums", input_names=["b:0", "a:0"], output_names=["rest:0", "total:0"],
    shape_override={"a:0": [2, 3], "b:0": [-1, 3]}, tensors_to_rename={"a:0": "left", "rest:0": "difference"},
    output_path="models/new/net.onnx", custom_ops={}, extra_opset=[],
)
shutil.copy("models/new/net.onnx", "net.onnx")
assert proto.graph.name == "sums"
assert [item.name for item in proto.graph.input] == ["b", "left"]
assert [item.name for item in proto.graph.output] == ["difference", "total"]
assert proto.graph.input[1].type.tensor_type.shape.dim[0].dim_value == 2
left, b = rng.standard_normal((2, 3), dtype=np.float32), rng.standard_normal((2, 3), dtype=np.float32)
feeds, expected = {"left": left, "b": b}, [left - b, left + b]
""",
    "a part of a frozen graph, at a version of another domain": START
    + """
import onnx
with tf.Graph().as_default() as graph:
    x = tf.compat.v1.placeholder(tf.float32, (None, 3), name="x")
    hidden = tf.nn.relu(tf.add(x, 1.0, name="shifted"), name="hidden")
    tf.multiply(hidden, 3.0, name="output")
    tf.reduce_sum(hidden, name="other")
proto, _ = tf2onnx.convert.from_graph_def(
    graph.as_graph_def(), input_names=["shifted:0"], output_names=["hidden:0", "output:0"], opset=17,
    extra_opset=[onnx.helper.make_opsetid("ai.onnx.ml", 3)], output_path="net.onnx",
)
assert {item.domain: item.version for item in proto.opset_import}[""] == 17
rows = rng.standard_normal((4, 3), dtype=np.float32)
feeds, expected = {"shifted": rows}, [np.maximum(rows, 0), np.maximum(rows, 0) * 3]
""",
    "a function whose result has its channels first": START
    + """
kernel = rng.standard_normal((3, 3, 2, 4)).astype(np.float32)

@tf.function
def f(image):
    return tf.nn.conv2d(image, kernel, 1, "SAME")

spec = [tf.TensorSpec((1, 6, 6, 2), tf.float32, name="image")]
proto, _ = tf2onnx.convert.from_function(
    f, input_signature=spec, inputs_as_nchw=["image:0"], outputs_as_nchw=["Identity:0"], output_path="net.onnx"
)
x = rng.standard_normal((1, 6, 6, 2), dtype=np.float32)
feeds, expected = {"image": x.transpose(0, 3, 1, 2)}, [f(x)]
""",
    "two inputs by their names": START
    + """
a, b = tf.keras.Input((3,), name="a"), tf.keras.Input((4,), name="b")
joined = tf.keras.layers.Concatenate()([a, b])
model = tf.keras.Model([a, b], [tf.keras.layers.Dense(2, name="first")(joined), tf.keras.layers.Dense(1, name="second")(joined)])
specs = [tf.TensorSpec((None, 3), tf.float32, name="a"), tf.TensorSpec((None, 4), tf.float32, name="b")]
proto, _ = tf2onnx.convert.from_keras(model, specs, 17, output_path="net.onnx")
feeds = {"a": rng.standard_normal((2, 3), dtype=np.float32), "b": rng.standard_normal((2, 4), dtype=np.float32)}
expected = model([feeds["a"], feeds["b"]])
""",
}


@pytest.mark.sampled(0.5)
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_a_program_runs_with_one_line_changed(program, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    left = run(program, OLD, NEW)
    session = onnxruntime.InferenceSession("net.onnx", providers=["CPUExecutionProvider"])
    for result, expected in zip(session.run(None, left["feeds"]), left["expected"], strict=True):
        expected = np.asarray(expected)
        if result.shape != expected.shape:  # channels first
            expected = expected.transpose(0, 3, 1, 2)
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


LINES = ["import tf2onnx.convert", "from tf2onnx import convert", "from tf2onnx.convert import from_function"]


@pytest.mark.parametrize("line", LINES)
def test_each_way_to_import_it_stands(line, monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "tf2onnx"]:
        monkeypatch.delitem(sys.modules, name)
    before = set(sys.modules)
    names = {}
    try:
        stand_in("tf2onnx")
        exec(line, names)
        found = names.get("from_function") or names.get("convert", getattr(names.get("tf2onnx"), "convert", None))
        assert getattr(found, "from_function", found) is from_function
    finally:
        for name in set(sys.modules) - before:
            if name.partition(".")[0] == "tf2onnx":
                del sys.modules[name]
