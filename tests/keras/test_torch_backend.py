"""Keras on the PyTorch backend, which is chosen before Keras is imported: each check runs in a process of its own."""

import os
import subprocess
import sys
import textwrap

import pytest

pytestmark = [pytest.mark.keras, pytest.mark.pytorch]

BEFORE = """
import numpy as np, keras, onnxport
from keras import layers

def told(model, **options):
    made = onnxport.convert(model, to="onnx", **options)
    assert made.report.verdict == "passed", made.report
    graph = made.model.graph
    return [(item.name, [str(size) for size in item.shape]) for item in (*graph.inputs, *graph.outputs)]

image = np.random.default_rng(0).uniform(0, 255, (2, 9, 8, 3)).astype(np.float32)
"""

ROWS = {
    "a functional model knows its inputs and the names of its results": """
        a, b = keras.Input((5, 4), name="a"), keras.Input((4,), name="b")
        pooled = layers.GlobalAveragePooling1D()(layers.MultiHeadAttention(2, 3)(a, a))
        model = keras.Model({"b": b, "a": a}, layers.Dense(2, name="head")(layers.Add()([pooled, b])))
        assert told(model) == [("a", ["batch", "5", "4"]), ("b", ["batch", "4"]), ("head", ["batch", "2"])]
        given = {"b": np.zeros((3, 4), np.float32) + 1, "a": np.random.default_rng(1).normal(size=(3, 5, 4)).astype("float32")}
        assert told(model, inputs=given)[0][0] == "a"
        """,
    "dimensions beside the batch stay open": """
        a, b = keras.Input((None, 4)), keras.Input((None, 4))
        (_, (_, first, _)), (_, (_, second, _)), *_ = told(keras.Model([a, b], layers.Concatenate()([a, b])))
        assert first == second and not first.isdigit()
        steps = keras.Input((None, 4), name="steps")
        model = keras.Model(steps, layers.Conv1D(3, 2)(steps))
        assert [shape[1].isdigit() for _, shape in told(model)] == [False, False]
        """,
    "a random layer is left out in inference": """
        pixels = keras.Input((9, 8, 3), name="pixels")
        model = keras.Model(pixels, layers.RandomZoom(0.5)(layers.RandomFlip()(pixels)))
        assert told(model, inputs=(image,))[0] == ("pixels", ["batch", "9", "8", "3"])
        made = onnxport.convert(model, to="onnx", inputs=(image,))
        np.testing.assert_array_equal(made(image), image)
        """,
    "a sequential model, without its own input, keeps an open batch": """
        model = keras.Sequential([layers.Flatten(), layers.Dense(3)])
        model(image)
        assert told(model) == [(model.inputs[0].name, ["batch", "9", "8", "3"]), ("output", ["batch", "3"])]
        """,
    "what torch.export can't trace, or traces for one size, is rebuilt on TensorFlow": """
        steps, ids = keras.Input((None, 4), name="steps"), keras.Input((3,), dtype="int64", name="ids")
        read = layers.LSTM(3, return_sequences=True, name="read")(layers.Masking()(steps))
        known = layers.IntegerLookup(vocabulary=[3, 5, 1], output_mode="count")(ids)
        results = read, layers.Dense(2, name="head")(known), keras.ops.take_along_axis(ids, ids, axis=1)
        model = keras.Model([steps, ids, more := keras.Input((2,))], [more, *results])
        shapes = dict(told(model))
        assert [*shapes][:3] == ["steps", "ids", more.name]
        assert shapes["head"] == ["batch", "2"] and not shapes["read"][1].isdigit()
        made = onnxport.convert(model, to="onnx")
        given = np.ones((1, 2, 4), np.float32), np.array([[5, -7, 1]]), np.ones((1, 2), np.float32)
        np.testing.assert_array_equal(made(*given)[-1], model(list(given))[-1].numpy())  # places outside go around
        assert {"head/kernel", "head/bias"} <= set(made.model.graph.initializers)
        """,
    "a recurrent layer keeps an open batch where PyTorch stands alone": """
        from onnxport.converters.to_onnx import keras_elsewhere
        keras_elsewhere.other_backends = lambda own: []
        steps = keras.Input((5, 3), name="steps")
        read = layers.GRU(4, go_backwards=True, return_sequences=True)(layers.Masking()(steps))
        model = keras.Model(steps, layers.SimpleRNN(2)(read))
        assert [shape[0] for _, shape in told(model)] == ["batch", "batch"]
        assert not any(layer.unroll or "inner_loop" in vars(layer) for layer in model.layers if hasattr(layer, "unroll"))
        """,
    "state that is kept from one call to the next is refused by name": """
        steps = keras.Input((5, 3), batch_size=2)
        model = keras.Model(steps, layers.GRU(4, stateful=True, name="gru")(steps))
        before = [np.array(item) for item in model.get_weights()]
        try:
            onnxport.convert(model, to="onnx", inputs=(np.ones((2, 5, 3), np.float32),))
            raise AssertionError("it converts")
        except onnxport.errors.UnsupportedOperator as error:
            assert "writes 'gru/rnn_state' when it is called" in str(error), error
        assert all(np.array_equal(a, b) for a, b in zip(before, model.get_weights(), strict=True))
        """,
    "a layer's inputs have the names of its call": """
        assert [name for name, _ in told(layers.Rescaling(1 / 255), inputs=(image,))] == ["inputs", "output"]

        class Two(keras.Model):
            def call(self, inputs):
                return {"sum": inputs["b"] + inputs["a"], "half": inputs["a"] / 2}

        given = {"b": np.ones((2, 3), np.float32), "a": np.zeros((2, 3), np.float32)}
        assert [name for name, _ in told(Two(), inputs=(given,))] == ["inputs.a", "inputs.b", "half", "sum"]
        """,
}


SCRIPT = """
import os
import numpy as np, keras, onnxport
from onnxport.converters.to_onnx.keras_elsewhere import export_elsewhere
from onnxport.request import Request

class Shift(keras.layers.Layer):
    def call(self, x, shift):
        return keras.ops.cumsum(x, 1) + shift * scale(x)

def scale(x):
    return keras.ops.max(x)

x = np.arange(6, dtype=np.float32).reshape(2, 3)
layer = Shift(name="shift")
made = export_elsewhere(layer, Request(inputs=(x, x[:, :1])), ["tensorflow"])
assert made.input_names == ["x", "shift"]
np.testing.assert_array_equal(made(x, x[:, :1]), keras.ops.convert_to_numpy(layer(x, x[:, :1])))

class ByBackend(keras.layers.Layer):
    def call(self, x):
        return x * (1.0 if keras.backend.backend() == "torch" else 1.01)

image = keras.Input((3,))
model = keras.Model(image, keras.layers.ReLU()(ByBackend(name="odd")(keras.layers.ReLU()(image))))
try:
    export_elsewhere(model, Request(), ["tensorflow"])
    raise AssertionError("it converts")
except onnxport.errors.UnsupportedOperator as error:
    assert "Keras computes ByBackend 'odd' otherwise on the tensorflow backend" in str(error), error
children = [line.split()[0] for line in os.popen("ps -e -o ppid= -o command=") if "keras_child" in line]
assert str(os.getpid()) not in children, children
"""


GUARDED = """
import onnxport

with onnxport.native_log_kept():
    import keras
    import numpy as np
try:
    from keras import ops
except ImportError:
    ops = None
layers = keras.layers
UNITS: list = [4, -2]
model = None

class Gate(layers.Layer):
    def build(self, shape):
        self.weight = self.add_weight(shape=(shape[-1], UNITS[0]), name="weight")

    def call(self, x):
        return UNITS[1] * ops.matmul(x, self.weight)

class Hidden(layers.Layer):
    x = model.shape if model is not None else 0

    class Inner(layers.Layer):
        def call(self, x):
            return -x

def inside():
    class Local(layers.Layer):
        def call(self, x):
            return x
    return Local()

from onnxport.converters.to_onnx.keras_elsewhere import export_elsewhere
from onnxport.request import Request

x = np.arange(6, dtype=np.float32).reshape(2, 3)
for layer in (Gate(name="gate"), Hidden.Inner(name="inner")):
    wanted = keras.ops.convert_to_numpy(layer(x))
    np.testing.assert_allclose(export_elsewhere(layer, Request(inputs=(x,)), ["tensorflow"])(x), wanted, rtol=1e-6)

model = np.ones(3)
class Late(layers.Layer):
    shape = model.shape

    def call(self, x):
        return x

late = "Late of guarded.py can't be rebuilt on the tensorflow backend: AttributeError"
for layer, words in ((inside(), "Local of"), (Late(), late)):
    try:
        export_elsewhere(layer, Request(inputs=(x,)), ["tensorflow"])
        raise AssertionError("it converts")
    except onnxport.errors.TracingError as error:
        assert words in str(error) and "define it at the top of a module" in str(error), error
"""


def run(*arguments):
    environment = {**os.environ, "KERAS_BACKEND": "torch"}
    done = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


# Where PyTorch is left alone, nothing else may run after.
ALONE = [name for name, code in ROWS.items() if "keras_elsewhere" in code]
TOGETHER = [name for name in ROWS if name not in ALONE]


@pytest.mark.parametrize("names", [TOGETHER[::2], TOGETHER[1::2], ALONE], ids=["some", "others", "alone"])
def test_on_the_torch_backend(names):
    """Rows share a process, whose start takes longer than most of them; the last that is printed is the one that fails."""
    rows = [f"print({name!r}, file=__import__('sys').stderr)\n" + textwrap.dedent(ROWS[name]) for name in names]
    run("-c", BEFORE + "\n".join(rows))


def test_classes_of_the_running_script_are_rebuilt(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    run(str(tmp_path / "script.py"))


def test_imports_and_constants_of_the_running_script_are_there_wherever_it_has_them(tmp_path):
    (tmp_path / "guarded.py").write_text(GUARDED)
    run(str(tmp_path / "guarded.py"))


def test_debug_has_inner_values_and_the_wrong_operator(tmp_path):
    code = """
    import onnx
    from onnxport.converters.debugging import debug

    class Gate(layers.Layer):
        def call(self, x):
            return x * keras.ops.sigmoid(x)  # here

    keras.utils.set_random_seed(2)  # one channel's sigmoids lie at 1e-20, where kernels are off: no operator is wrong
    entry = keras.Input((9, 8, 3), name="pixels")
    hidden = Gate(name="gate")(layers.BatchNormalization()(layers.Conv2D(4, 3, bias_initializer="glorot_normal")(entry)))
    net = keras.Model(entry, layers.Dense(2, "gelu")(layers.GlobalAveragePooling2D()(hidden)))
    made = onnxport.convert(net)
    right = debug(net, made, inputs=(image,))
    assert len(right.operators) > right.nodes / 2 and not right.wrong, right
    proto = onnx.ModelProto()
    proto.CopyFrom(made.proto)
    [node] = [node for node in proto.graph.node if node.op_type == "Sigmoid"]
    node.op_type = "Tanh"
    wrong = debug(net, proto, inputs=(image,))
    assert wrong.failed and wrong.worst.node.name == node.name, wrong.wrong
    [line] = [number for number, text in enumerate(open(__file__), 1) if text.endswith("# here\\n")]
    assert wrong.wrong[0].where == f"'gate', gates.py:{line}", wrong.wrong
    layers_named = {item.where.partition(",")[0] for item in right.operators}
    assert {"'conv2d'", "'global_average_pooling2d'", "'dense'"} <= layers_named, layers_named
    assert onnxport.validate(net, proto, inputs=(image,)).divergence.node == node.name
    """
    (tmp_path / "gates.py").write_text(BEFORE + textwrap.dedent(code))
    run(str(tmp_path / "gates.py"))


def test_debug_of_a_model_that_was_rebuilt_answers_with_the_backend_that_has_inner_values():
    code = """
    import pytest
    from onnxport.converters.debugging import debug
    net = keras.Sequential([keras.Input((None, 4)), layers.LSTM(3)])
    with pytest.raises(onnxport.errors.InvalidInputError, match="on the torch backend: .* KERAS_BACKEND=tensorflow"):
        debug(net, onnxport.convert(net), inputs=(np.ones((2, 3, 4), np.float32),))
    """
    run("-c", BEFORE + textwrap.dedent(code))
