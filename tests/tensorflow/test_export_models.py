"""What can be converted, what its inputs and outputs are called, which dimensions vary, and what is said when it can't be."""

from collections import namedtuple

import numpy as np
import onnx
import pytest
import tensorflow as tf

import onnxport
from onnxport.converters.to_onnx.tensorflow import export
from onnxport.errors import InvalidInputError, InvalidModelError, TracingError, UnsupportedOperator
from onnxport.graph.runtime import Session
from onnxport.request import Request
from onnxport.tracing.tensorflow import load

pytestmark = pytest.mark.tensorflow

X = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
Pair = namedtuple("Pair", ["left", "right"])


class Affine(tf.Module):
    """y = x w + b, with a signature that leaves the batch open."""

    def __init__(self):
        super().__init__()
        self.w = tf.Variable(np.arange(6, dtype=np.float32).reshape(3, 2), name="w")
        self.b = tf.Variable([0.5, -0.5], name="b")

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32, name="features")])
    def __call__(self, features):
        return {"logits": features @ self.w + self.b, "doubled": features * 2.0}


def shapes(values):
    return {value.name: [dim if isinstance(dim, int) else dim.value for dim in value.shape] for value in values}


def converted(model, **request):
    result = export(model, Request(**request))
    onnx.checker.check_model(result.proto, full_check=True)
    return result


def as_frozen(module):
    """A GraphDef whose weights are constants, made without variables."""
    kernel, bias = module.w.numpy(), module.b.numpy()
    graph = tf.Graph()
    with graph.as_default():
        x = tf.compat.v1.placeholder(tf.float32, [None, 3], name="x")
        tf.identity(tf.matmul(x, tf.constant(kernel, name="kernel")) + bias, name="scores")
    return graph.as_graph_def()


def test_module_with_signature_needs_no_inputs():
    module = Affine()
    model = converted(module)
    assert model.input_names == ["features"]
    assert model.output_names == ["doubled", "logits"]
    assert shapes(model.model.graph.inputs) == {"features": ["batch", 3]}
    doubled, logits = model(X)
    np.testing.assert_allclose(logits, module(X)["logits"], rtol=1e-6)
    np.testing.assert_array_equal(doubled, X * 2)
    np.testing.assert_array_equal(model.model.graph.initializers["w"].const_value.numpy(), module.w.numpy())
    assert {"w", "b"} <= set(model.model.graph.initializers)


def test_weights_share_the_variables_storage():
    module = tf.Module()
    module.w = tf.Variable(np.zeros((256, 256), np.float32), name="w")
    model = converted(tf.function(lambda x: x @ module.w, input_signature=[tf.TensorSpec([None, 256])]))
    ours = model.model.graph.initializers["w"].const_value.numpy()
    assert not ours.flags.owndata


@pytest.mark.parametrize("signature", [None, "serving_default", "other"])
def test_saved_model(tmp_path, signature):
    module = Affine()
    other = tf.function(lambda pixels: {"brightness": tf.reduce_mean(pixels, -1) * module.b[0]})
    spec = tf.TensorSpec([None, None], tf.float32, name="pixels")
    signatures = {"serving_default": module.__call__, "other": other.get_concrete_function(spec)}
    tf.saved_model.save(module, str(tmp_path / "model"), signatures=signatures)
    model = converted(load(tmp_path / "model"), signature=signature)
    if signature == "other":
        assert (model.input_names, model.output_names) == (["pixels"], ["brightness"])
        assert shapes(model.model.graph.inputs) == {"pixels": ["batch", "pixels_dim_1"]}
        np.testing.assert_allclose(model(X), X.mean(-1) * 0.5, rtol=1e-5)
        return
    assert (model.input_names, model.output_names) == (["features"], ["doubled", "logits"])
    np.testing.assert_allclose(model(X)[1], module(X)["logits"], rtol=1e-6)


def test_saved_model_of_unnamed_outputs_keeps_their_names(tmp_path):
    module = tf.Module()
    module.f = tf.function(lambda a, b: (a + b, a - b), input_signature=[tf.TensorSpec([None]), tf.TensorSpec([None])])
    tf.saved_model.save(module, str(tmp_path), signatures=module.f)
    model = converted(load(tmp_path))
    assert (model.input_names, model.output_names) == (["a", "b"], ["output_0", "output_1"])


def test_saved_model_with_nested_functions_and_control_flow(tmp_path):
    module = tf.Module()
    module.scale = tf.Variable(2.0, name="scale")

    @tf.function
    def step(x):
        return x * module.scale

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32)])
    def run(x):
        for _ in tf.range(3):
            x = step(x)
        return tf.cond(tf.reduce_sum(x) > 0.0, lambda: step(x), lambda: -x)

    module.run = run
    tf.saved_model.save(module, str(tmp_path), signatures=run)
    model = converted(load(tmp_path))
    for x in (X, -np.abs(X), np.abs(X)):
        np.testing.assert_allclose(model(x), run(x), rtol=1e-6)
    assert list(model.model.graph.initializers).count("scale") == 1


def test_frozen_graph(tmp_path):
    module = Affine()
    path = tmp_path / "frozen.pb"
    path.write_bytes(as_frozen(module).SerializeToString())
    model = converted(load(path))
    assert (model.input_names, model.output_names) == (["x"], ["scores"])
    np.testing.assert_allclose(model(X), module(X)["logits"], rtol=1e-6)
    cut = converted(load(path), input_names=["x:0"], output_names=["MatMul:0"])
    assert cut.output_names == ["MatMul"]
    np.testing.assert_allclose(cut(X), X @ module.w.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("function", "inputs", "names"),
    [
        (lambda ids, mask: ids * mask, (X, X), ["output"]),
        (lambda ids, mask: (ids, ids + mask), (X, X), ["output_0", "output_1"]),
        (
            lambda ids, mask: {"past": [{"key": ids, "value": mask}], "logits": ids + mask},
            (X, X),
            ["logits", "past.0.key", "past.0.value"],
        ),
        (lambda ids, mask: Pair(ids - mask, mask), (X, X), ["left", "right"]),
    ],
)
def test_names_of_plain_callables(function, inputs, names):
    model = converted(function, inputs=inputs)
    assert (model.input_names, model.output_names) == (["ids", "mask"], names)
    want = [item.numpy() for item in tf.nest.flatten(tf.function(function)(*map(tf.constant, inputs)))]
    got = model(*inputs)
    for a, b in zip(got if isinstance(got, tuple) else (got,), want, strict=True):
        np.testing.assert_array_equal(a, b)


def test_nested_and_keyword_inputs():
    function = tf.function(lambda batch, *, scale, flag=False: batch["a"] * scale if flag else batch["b"] + scale)
    model = converted(function, inputs=({"b": X, "a": X},), kwargs={"scale": X[0], "flag": False})
    assert model.input_names == ["batch.a", "batch.b", "scale"]
    np.testing.assert_array_equal(model.__call__(**{"batch.a": X, "batch.b": X, "scale": X[0]}), X + X[0])


def test_names_can_be_given_and_an_identity_keeps_both():
    model = converted(lambda x: x, inputs=(X,), input_names=["left"], output_names=["right"])
    assert (model.input_names, model.output_names) == (["left"], ["right"])
    np.testing.assert_array_equal(model(X), X)
    with pytest.raises(InvalidInputError, match="output_names: 2 are given, the model has 1"):
        export(lambda x: x, Request(inputs=(X,), output_names=["a", "b"]))


def test_outputs_named_like_a_weight_or_an_input_do_not_collide():
    module = tf.Module()
    module.w = tf.Variable([1.0, 2.0, 3.0], name="x")
    model = converted(tf.function(lambda x: {"x": x + module.w}), inputs=(X,))
    assert model.input_names == ["x"]
    np.testing.assert_array_equal(model(X), X + np.array([1, 2, 3], np.float32))


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (None, {"x": ["x_dim_0", 3], "y": ["y_dim_0", 3]}),
        ({"x": {0: "batch"}, "y": {0: "batch"}}, {"x": ["batch", 3], "y": ["batch", 3]}),
        (({0: "n", 1: "width"}, None), {"x": ["n", "width"], "y": [4, 3]}),
        ((("n", None), {}), {"x": ["n", 3], "y": [4, 3]}),
        ({}, {"x": [4, 3], "y": [4, 3]}),
    ],
)
def test_dynamic_dimensions(asked, expected):
    model = converted(lambda x, y: tf.concat([x, y], -1), inputs=(X, X), dynamic_shapes=asked)
    assert shapes(model.model.graph.inputs) == expected
    np.testing.assert_array_equal(model(X, X), np.concatenate([X, X], -1))


def test_dimensions_of_a_signature_are_named():
    model = converted(Affine(), dynamic_shapes={"features": {0: "rows"}})
    assert shapes(model.model.graph.inputs) == {"features": ["rows", 3]}


def test_sources_name_the_node_and_the_users_line():
    def compute(x):
        with tf.name_scope("head"):
            return tf.nn.relu(x) + 1.0

    model = converted(compute, inputs=(X,))
    relu = next(node for node in model.model.graph if node.op_type == "Relu")
    assert relu.metadata_props["onnxport.op"] == "Relu"
    assert relu.metadata_props["onnxport.module"] == "head"
    assert relu.metadata_props["onnxport.source"].endswith(
        f"test_export_models.py:{compute.__code__.co_firstlineno + 2}"
    )


def test_everything_unsupported_is_said_at_once():
    @tf.function
    def draw(x):
        noise = tf.py_function(lambda: np.zeros(3, np.float32), [], tf.float32)
        code = tf.io.parse_tensor(tf.constant("a"), tf.int64)
        return (
            x + noise,
            code,
            tf.cond(x[0, 0] > 0, lambda: tf.io.decode_raw(["a"], tf.int64)[0, 0], lambda: code),
        )

    with pytest.raises(UnsupportedOperator) as caught:
        export(draw, Request(inputs=(X,)))
    named = {item.op for item in caught.value.operators}
    assert {"ParseTensor", "DecodeRaw", "EagerPyFunc"} <= named
    assert "test_export_models.py" in str(caught.value)


def test_what_a_called_function_holds_is_counted_once():
    inner = tf.function(lambda x: tf.py_function(lambda v: v, [x], tf.float32))
    for calls, count in ((lambda x: inner(x) + 1.0, ""), (lambda x: inner(x) + inner(2.0 * x), " x2")):
        with pytest.raises(UnsupportedOperator, match=rf"(?m)^  EagerPyFunc{count}: "):
            onnxport.convert(tf.function(calls), inputs=(np.ones(3, np.float32),))


def test_state_that_outputs_depend_on_is_refused_and_other_state_noted():
    module = tf.Module()
    module.calls = tf.Variable(0.0, name="calls")

    @tf.function
    def counted(x):
        module.calls.assign_add(1.0)
        return x * 2.0

    assert any("calls" in note for note in converted(counted, inputs=(X,)).notes)

    @tf.function
    def stateful(x):
        module.calls.assign_add(1.0)
        return x * module.calls

    with pytest.raises(UnsupportedOperator, match="writes variable 'calls'"):
        export(stateful, Request(inputs=(X,)))

    inner = tf.function(lambda: module.calls.assign_add(1.0))

    @tf.function
    def nested(x):
        inner()
        return x * module.calls

    with pytest.raises(UnsupportedOperator, match="writes variable 'calls'"):
        export(nested, Request(inputs=(X,)))


def test_assertions_and_prints_are_left_out():
    @tf.function
    def checked(x):
        tf.debugging.assert_positive(tf.shape(x)[0])
        tf.print("running")
        return tf.debugging.check_numerics(x, "numbers") + 1.0

    np.testing.assert_array_equal(converted(checked, inputs=(X,))(X), X + 1)


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (lambda path: path.mkdir(), "no SavedModel"),
        (lambda path: (path.mkdir(), (path / "saved_model.pb").write_bytes(b"\x00garbage")), "corrupt"),
    ],
)
def test_directories_that_are_no_saved_model(tmp_path, write, words):
    path = tmp_path / "model"
    write(path)
    with pytest.raises(InvalidModelError, match=words) as caught:
        load(path)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.pb", b"not a graph", "frozen GraphDef"),
        ("b.pb", b"", "is empty"),
        ("c.tflite", b"TFL3", "begin with TFL3"),
    ],
)
def test_files_that_are_no_model(tmp_path, name, content, words):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidModelError, match=words):
        load(tmp_path / name)


@pytest.mark.parametrize(
    ("model", "request_", "error", "words"),
    [
        (lambda x: x, {}, InvalidInputError, "pass inputs"),
        (tf.Module(), {}, InvalidModelError, "neither __call__ nor a tf.function"),
        (Affine(), {"signature": "nope"}, InvalidInputError, "no such signature"),
        (lambda x: 1 / 0, {"inputs": (X,)}, TracingError, "ZeroDivisionError"),
        (lambda x: None, {"inputs": (X,)}, TracingError, "returns no tensor"),
        (lambda x: x, {"inputs": (X,), "dynamic_shapes": {"x": {5: "n"}}}, InvalidInputError, "no dimension 5"),
    ],
)
def test_what_cannot_be_traced(model, request_, error, words):
    with pytest.raises(error, match=words):
        export(model, Request(**request_))


def test_complex_numbers_enter_and_leave_as_pairs():
    x = (X + 1j * X[::-1]).astype(np.complex64)
    model = converted(lambda x: x * tf.constant(2j, tf.complex64), inputs=(x,))
    assert shapes(model.model.graph.outputs)["output"] == ["batch", 3, 2]
    want = x * 2j
    np.testing.assert_allclose(model(np.stack([x.real, x.imag], -1)), np.stack([want.real, want.imag], -1))
    report = onnxport.convert(lambda x: x * tf.constant(2j, tf.complex64), inputs=(tf.constant(x),)).report
    assert report.verdict == "passed"


def test_two_conversions_give_identical_bytes():
    module = Affine()
    assert converted(module).proto.SerializeToString() == converted(module).proto.SerializeToString()


@pytest.mark.parametrize("opset", [13, 17, 21, 23, 26])
def test_opsets(opset):
    model = converted(Affine(), target_opset=opset)
    assert model.opset == opset
    np.testing.assert_allclose(model(X)[1], Affine()(X)["logits"], rtol=1e-6)


@pytest.mark.parametrize("length", [None, 20])
@pytest.mark.parametrize("padding", ["valid", "same", "causal"])
def test_dilated_convolutions_are_one_node(length, padding):
    layer = tf.keras.layers.Conv1D(4, 3, padding=padding, dilation_rate=3)
    steps = tf.keras.Input((length, 3))
    model = onnxport.convert(tf.keras.Model(steps, layer(steps)))
    assert model.report.verdict == "passed"
    nodes = [node.op_type for node in model.proto.graph.node]
    assert nodes.count("Conv") == 1
    assert not any(name == "Reshape" for name in nodes if length)
    dilations = [
        list(item.ints) for node in model.proto.graph.node for item in node.attribute if item.name == "dilations"
    ]
    assert dilations == [[1, 3]]


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize(("size", "step", "rate"), [((3, 2), (1, 2), (2, 1)), ((5, 4), (3, 3), (1, 1))])
def test_patches_of_images_whose_sizes_vary(padding, size, step, rate):
    windows = {"sizes": [1, *size, 1], "strides": [1, *step, 1], "rates": [1, *rate, 1], "padding": padding}
    function = tf.function(lambda x: tf.image.extract_patches(x, **windows))
    model = onnxport.convert(function.get_concrete_function(tf.TensorSpec((None, None, None, 2))))
    assert model.report.verdict == "passed"
    for shape in ((2, 5, 11, 2), (1, 9, 6, 2), (3, 7, 8, 2)):
        x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
        (got,) = Session(model.proto).run({model.input_names[0]: x})
        np.testing.assert_array_equal(got, function(tf.constant(x)).numpy())
