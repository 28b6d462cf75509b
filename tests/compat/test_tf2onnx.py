"""Eleven programs as tf2onnx's documentation has them, and what is refused."""

import numpy as np
import onnx
import onnxruntime
import pytest

from tests.compat.programs import run

tf = pytest.importorskip("tensorflow", reason="TensorFlow is an extra")
pytestmark = [pytest.mark.tensorflow, pytest.mark.keras]

OLD, NEW = "import tf2onnx", "from onnxport.compat import tf2onnx"

KERAS = """
import keras
import numpy as np
import tensorflow as tf
import tf2onnx

rng = np.random.default_rng(0)
"""
PROGRAMS = {
    "a sequential model": KERAS
    + """
model = keras.Sequential([keras.Input((4,), name="rows"), keras.layers.Dense(3, activation="relu")])
proto, _ = tf2onnx.convert.from_keras(model)
x = rng.standard_normal((5, 4), dtype=np.float32)
inputs, expected = [x], [model(x)]
""",
    "a signature and an opset": KERAS
    + """
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
spec = (tf.TensorSpec((5, 4), tf.float32, name="input"),)
proto, _ = tf2onnx.convert.from_keras(model, input_signature=spec, opset=13)
assert proto.opset_import[0].version == 13
assert (proto.graph.input[0].name, proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value) == ("input", 5)
x = rng.standard_normal((5, 4), dtype=np.float32)
inputs, expected = [x], [model(x)]
""",
    "a file": KERAS
    + """
import onnx
model = keras.Sequential([keras.Input((8, 8, 1)), keras.layers.Conv2D(2, 3), keras.layers.Flatten()])
tf2onnx.convert.from_keras(model, output_path="net.onnx", opset=17)
proto = onnx.load("net.onnx")
x = rng.standard_normal((2, 8, 8, 1), dtype=np.float32)
inputs, expected = [x], [model(x)]
""",
    "channels before the places": KERAS
    + """
model = keras.Sequential([keras.Input((6, 6, 2), name="image"), keras.layers.Conv2D(3, 3), keras.layers.MaxPool2D()])
spec = [tf.TensorSpec((None, 6, 6, 2), name="image")]
proto, _ = tf2onnx.convert.from_keras(model, spec, inputs_as_nchw=["image"], outputs_as_nchw=["output"])
assert not [node for node in proto.graph.node if node.op_type == "Transpose"]
x = rng.standard_normal((2, 6, 6, 2), dtype=np.float32)
inputs, expected = [x.transpose(0, 3, 1, 2)], [np.transpose(model(x), (0, 3, 1, 2))]
""",
    "two inputs": KERAS
    + """
a, b = keras.Input((3,), name="a"), keras.Input((3,), name="b")
model = keras.Model([a, b], keras.layers.Add()([a, b]))
proto, external = tf2onnx.convert.from_keras(model, large_model=False)
assert external is None
inputs = [rng.standard_normal((2, 3), dtype=np.float32) for _ in "ab"]
expected = [model(inputs)]
""",
    "a recurrent model": KERAS
    + """
model = keras.Sequential([keras.Input((5, 3)), keras.layers.LSTM(4)])
proto, _ = tf2onnx.convert.from_keras(model, opset=15)
x = rng.standard_normal((2, 5, 3), dtype=np.float32)
inputs, expected = [x], [model(x)]
""",
    "a function and its signature": """
import numpy as np
import tensorflow as tf
import tf2onnx

@tf.function
def f(x, y):
    return tf.matmul(x, y) + 1.0

specs = (tf.TensorSpec((None, 3), tf.float32, name="x"), tf.TensorSpec((3, 2), tf.float32, name="y"))
proto, _ = tf2onnx.convert.from_function(f, input_signature=specs, opset=13)
rng = np.random.default_rng(0)
inputs = [rng.standard_normal(shape, dtype=np.float32) for shape in ((4, 3), (3, 2))]
expected = [f(*map(tf.constant, inputs))]
""",
    "a function with a signature of its own": """
import numpy as np
import tensorflow as tf
import tf2onnx

@tf.function(input_signature=[tf.TensorSpec((None, 3), tf.float32, name="x")])
def f(x):
    return tf.nn.softmax(x)

proto, _ = tf2onnx.convert.from_function(f)
inputs = [np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)]
expected = [f(tf.constant(inputs[0]))]
""",
    "a variable": """
import numpy as np
import tensorflow as tf
import tf2onnx

weight = tf.Variable(np.eye(3, dtype=np.float32) * 2)

@tf.function
def f(x):
    return tf.nn.relu(x @ weight)

proto, _ = tf2onnx.convert.from_function(f, input_signature=[tf.TensorSpec((2, 3), tf.float32, name="rows")], opset=18)
assert proto.graph.input[0].name == "rows"
inputs = [np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)]
expected = [f(tf.constant(inputs[0]))]
""",
    "several results": """
import numpy as np
import tensorflow as tf
import tf2onnx

@tf.function
def f(x):
    return tf.reduce_min(x, 1), tf.reduce_max(x, 1)

proto, _ = tf2onnx.convert.from_function(f, input_signature=[tf.TensorSpec((None, 3), tf.float32, name="x")])
inputs = [np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)]
expected = list(f(tf.constant(inputs[0])))
""",
    "a frozen graph": """
import numpy as np
import tensorflow as tf
import tf2onnx

with tf.Graph().as_default() as graph:
    x = tf.compat.v1.placeholder(tf.float32, (None, 3), name="x")
    y = tf.multiply(x, 3.0, name="y")
proto, _ = tf2onnx.convert.from_graph_def(
    graph.as_graph_def(), input_names=["x:0"], output_names=["y:0"], opset=15
)
inputs = [np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)]
expected = [inputs[0] * 3]
""",
}


@pytest.mark.sampled(0.5)
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_a_program_runs_with_one_line_changed(program, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    left = run(program, OLD, NEW)
    session = onnxruntime.InferenceSession(left["proto"].SerializeToString(), providers=["CPUExecutionProvider"])
    feeds = {item.name: x for item, x in zip(session.get_inputs(), left["inputs"], strict=True)}
    for result, expected in zip(session.run(None, feeds), left["expected"], strict=True):
        np.testing.assert_allclose(result, np.asarray(expected), rtol=1e-4, atol=1e-5)


REFUSED = [
    ({"inputs_as_nchw": ["x"]}, "inputs_as_nchw: 'x' has no channels behind places"),
    ({"custom_ops": {"Foo": "mine"}}, "custom_ops={'Foo': 'mine'} is not taken: register the operator"),
    ({"target": ["rs6"]}, "target=['rs6'] is not taken"),
    ({"shape_override": {"x": [1]}, "extra_opset": [1]}, "extra_opset=[1]: a list such as"),
    ({"extra_opset": [onnx.helper.make_opsetid("acme", 1)]}, "'acme' at 1: the model has no operator of it"),
]


@pytest.mark.parametrize(("options", "message"), REFUSED, ids=[row[1][:30] for row in REFUSED])
def test_what_means_nothing_here_is_refused_by_name(options, message):
    from onnxport.compat import from_function

    with pytest.raises(ValueError, match=r".") as error:
        from_function(tf.function(tf.nn.relu), input_signature=[tf.TensorSpec((2, 3), name="x")], **options)
    assert message in str(error.value)


def test_ends_that_a_graph_has_not_are_refused():
    from onnxport.compat import from_graph_def

    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, (None, 3), name="x")
        tf.multiply(x, 3.0, name="y")
    with pytest.raises(ValueError, match="the GraphDef has no tensor 'inner:0'"):
        from_graph_def(graph.as_graph_def(), input_names=["x:0"], output_names=["inner:0"])
