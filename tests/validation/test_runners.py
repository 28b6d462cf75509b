"""Runners: the user's nested inputs flattened as exporters flatten them, and models left as they were."""

import dataclasses

import numpy as np
import pytest

from onnxport.errors import InvalidInputError
from onnxport.frameworks import of_object
from onnxport.validation.runners import Binding, bind
from onnxport.validation.runners.base import InputSpec

F32 = np.dtype(np.float32)
A, B, C = (np.full((2, 3), value, np.float32) for value in (1, 2, 3))


def run(model, inputs=None, framework=None, **binding):
    runner = bind(model, framework or of_object(model), Binding(inputs, **binding))
    leaves = runner.example.leaves if runner.example is not None else ()
    names = runner.example.names if runner.example is not None else None
    return names, [
        (name, value.tolist() if value.ndim == 0 else float(value.flat[0])) for name, value in runner.run(leaves)
    ]


@dataclasses.dataclass
class Pair:
    first: object
    second: object


def torch_cases():
    import torch

    def tensors(*arrays):
        return tuple(torch.from_numpy(array) for array in arrays)

    a, b, c = tensors(A, B, C)

    class Net(torch.nn.Module):
        def forward(self, x, past, *, scale=None, flag=True):
            y = x + past["k"] - past["v"][0] + (0 if scale is None else scale)
            return {"z": y, "nested": (x, [past["k"]])} if flag else Pair(x, y)

    nested = {"k": b, "v": [c]}
    return [
        (lambda x, y: x - y, (a, b), {}, ("x", "y"), [("", -1.0)]),
        (lambda x, y: x - y, {"y": b, "x": a}, {}, ("x", "y"), [("", -1.0)]),
        (lambda x, y: (x, y), [a, b], {}, ("x", "y"), [("0", 1.0), ("1", 2.0)]),
        (lambda x, k=3: x * k, (a,), {}, ("x",), [("", 3.0)]),
        (lambda x, k=3: x * k, (a, 5), {}, ("x",), [("", 5.0)]),
        (Net(), (a, nested), {}, ("x", "past.k", "past.v.0"), [("z", 0.0), ("nested.0", 1.0), ("nested.1.0", 2.0)]),
        (
            Net(),
            {"past": nested, "x": a},
            {"scale": c},
            ("x", "past.k", "past.v.0", "scale"),
            [("z", 3.0), ("nested.0", 1.0), ("nested.1.0", 2.0)],
        ),
        (Net(), (a, nested), {"flag": False}, ("x", "past.k", "past.v.0"), [("first", 1.0), ("second", 0.0)]),
        (lambda *args: args[0] - args[1], (a, b), {}, ("input_0", "input_1"), [("", -1.0)]),
        (lambda x: x.add_(1) * 2, (a,), {}, ("x",), [("", 4.0), ("x.updated", 2.0)]),
        (lambda x: (x, 7, None), (a,), {}, ("x",), [("0", 1.0), ("1", 7)]),
    ]


@pytest.mark.pytorch
@pytest.mark.parametrize("index", range(11))
def test_pytorch_arguments(index):
    model, inputs, kwargs, names, outputs = torch_cases()[index]
    runner = bind(model, "pytorch", Binding(inputs, kwargs))
    assert runner.example.names == names
    for _ in range(2):  # the second run sees the same inputs
        got = [(name, float(np.asarray(value).flat[0])) for name, value in runner.run(runner.example.leaves)]
        assert got == outputs


@pytest.mark.pytorch
def test_pytorch_models_stay_as_they_were():
    import torch

    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4)).train()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    runner = bind(net, "pytorch", Binding((torch.randn(5, 3),)))
    runner.run(runner.example.leaves)
    wide = runner.run_float64(runner.example.leaves)
    assert wide[0][1].dtype == np.float64
    assert net.training
    for name, value in net.state_dict().items():
        assert value.dtype == before[name].dtype
        assert torch.equal(value, before[name])


@pytest.mark.pytorch
def test_a_model_that_insists_on_float32_has_no_float64_twin():
    import torch

    def forced(x):
        return x @ torch.ones(3, 3, dtype=torch.float32)

    runner = bind(forced, "pytorch", Binding((torch.ones(2, 3),)))
    assert runner.run_float64(runner.example.leaves) is None


@pytest.mark.pytorch
@pytest.mark.parametrize("name", ["bfloat16", "float16", "float8_e4m3fn", "complex64", "int64", "bool"])
def test_pytorch_dtypes_go_both_ways(name):
    import torch

    from onnxport.validation.runners.pytorch import to_numpy, to_tensor

    tensor = torch.tensor([0, 1, 1]).to(getattr(torch, name))
    array = to_numpy(tensor)
    assert array.dtype.name == name
    back = to_tensor(array)
    assert back.dtype == tensor.dtype
    assert torch.equal(back.to(torch.complex64), tensor.to(torch.complex64))


@pytest.mark.tensorflow
def test_tensorflow_arguments(tmp_path):
    import tensorflow as tf

    a, b = tf.constant(A), tf.constant(B)
    assert run(tf.function(lambda x, y: {"b": x, "a": x - y}), (a, b)) == (("x", "y"), [("a", -1.0), ("b", 1.0)])
    assert run(tf.function(lambda x, y: x - y), {"y": b, "x": a})[1] == [("", -1.0)]
    nested = tf.function(lambda x: x["p"][0] - x["a"])
    assert run(nested, ({"p": (a,), "a": b},)) == (("x.a", "x.p.0"), [("", -1.0)])
    assert run(tf.function(lambda x, training=False: x if training else -x), (a,), kwargs={"training": True})[1] == [
        ("", 1.0)
    ]

    class Module(tf.Module):
        @tf.function(
            input_signature=[
                tf.TensorSpec([None, 3], tf.float32, "first"),
                tf.TensorSpec([None, 3], tf.float32, "second"),
            ]
        )
        def serve(self, first, second):
            return {"difference": first - second}

    module = Module()
    assert run(module, (a, b))[1] == [("difference", -1.0)]
    tf.saved_model.save(module, str(tmp_path), signatures={"serving_default": module.serve})
    loaded = tf.saved_model.load(str(tmp_path))
    assert run(loaded, {"first": a, "second": b}) == (("first", "second"), [("difference", -1.0)])
    specs = (InputSpec("second", F32, ("N", 3)), InputSpec("first", F32, ("N", 3)))
    assert bind(loaded, "tensorflow", Binding(specs=specs)).run([B, A])[0][1][0, 0] == -1.0
    with pytest.raises(InvalidInputError, match="signature='nope'"):
        run(loaded, (a, b), signature="nope")


@pytest.mark.tensorflow
def test_a_frozen_graph_is_fed_by_tensor_names():
    import tensorflow as tf

    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [None, 3], "x")
        y = tf.compat.v1.placeholder(tf.float32, [None, 3], "y")
        tf.subtract(x, y, name="z")
    definition = graph.as_graph_def()
    specs = (InputSpec("y", F32, ("N", 3)), InputSpec("x", F32, ("N", 3)))
    runner = bind(definition, "tensorflow", Binding((B, A), specs=specs, output_names=("z",)))
    assert runner.example.names == ("y", "x")
    assert runner.run(runner.example.leaves)[0][1][0, 0] == -1.0
    assert bind(definition, "tensorflow", Binding(specs=specs, output_names=("z",))).run([B, A])[0][1][0, 0] == -1.0


@pytest.mark.keras
def test_keras_arguments():
    import keras

    first, second = keras.Input((3,), name="first"), keras.Input((3,), name="second")
    listed = keras.Model([first, second], first - second)
    a, b = keras.Input((3,), name="a"), keras.Input((3,), name="b")
    mapped = keras.Model({"b": b, "a": a}, {"d": a - b})
    for inputs in ((A, B), ([A, B],), {"second": B, "first": A}):
        names, outputs = run(listed, inputs)
        assert names == ("first", "second")
        assert [value for _, value in outputs] == [-1.0]
    assert run(mapped, ({"a": A, "b": B},))[1] == [("d", -1.0)]
    assert run(mapped, {"a": A, "b": B})[1] == [("d", -1.0)]
    swapped = (InputSpec("second", F32, ("N", 3)), InputSpec("first", F32, ("N", 3)))
    assert float(bind(listed, "keras", Binding(specs=swapped)).run([B, A])[0][1][0, 0]) == -1.0
    with pytest.raises(InvalidInputError, match="takes 2 inputs"):
        run(listed, (A,))

    class Layer(keras.layers.Layer):
        def call(self, x, other=None, training=None):
            assert not training
            return x if other is None else (x, x - other)

    assert run(Layer(), (A,)) == (("x",), [("", 1.0)])
    assert run(Layer(), (A,), kwargs={"other": B}) == (("x", "other"), [("0", 1.0), ("1", -1.0)])
    assert run(Layer(), {"other": B, "x": A}) == (("x", "other"), [("0", 1.0), ("1", -1.0)])
    dropout = keras.Sequential([keras.Input((3,)), keras.layers.Dropout(0.9)])
    assert run(dropout, (A,))[1] == [("", 1.0)]


@pytest.mark.pytorch
def test_a_transform_that_a_trace_of_inner_values_leaves_open_is_ended():
    import torch

    class Failing(torch.nn.Module):
        def forward(self, x):
            def row(item):
                if torch.compiler.is_compiling():
                    torch._C._functorch._vmap_increment_nesting(3, "error")  # as a trace does that fails within a vmap
                    raise RuntimeError("no trace")
                return item + 1

            return row(x)

    depth = torch._C._functorch.get_dynamic_layer_stack_depth()
    runner = bind(Failing(), "pytorch", Binding((torch.ones(3),), None))
    assert runner.intermediates([np.ones(3, np.float32)]) == {}
    assert torch._C._functorch.get_dynamic_layer_stack_depth() == depth


@pytest.mark.tensorflow
@pytest.mark.parametrize("form", ["plain", "with a call", "with a table", "with a branch"])
def test_inner_values_of_a_tensorflow_trace_are_those_of_its_operators(form):
    """Also where a variable is read by another operator than the usual one, and where an operator is in a called function."""
    tf = pytest.importorskip("tensorflow", reason="TensorFlow is an extra")
    table = tf.Variable(np.arange(12, dtype=np.float32).reshape(4, 3), name="table")
    closed = tf.constant([10.0, 20.0, 30.0])

    @tf.function
    def called(x):
        return tf.sin(x, name="sine") + table

    def function(x):
        doubled = tf.multiply(x, table, name="product")
        if form == "with a call":
            doubled = called(doubled)
        if form == "with a table":
            doubled = doubled + tf.gather(table, [3, 2, 1, 0], name="rows")
        if form == "with a branch":
            doubled = tf.cond(tf.reduce_sum(x) > 0, lambda: doubled + table, lambda: doubled - table)
        return tf.add(doubled, closed, name="end")

    x = np.arange(12, dtype=np.float32).reshape(4, 3) + 1
    inner = bind(function, "tensorflow", Binding((x,), None)).intermediates([x])
    weights = table.numpy()
    expected = x * weights
    np.testing.assert_array_equal(inner["product"], expected)
    if form == "with a call":
        np.testing.assert_allclose(inner["sine"], np.sin(expected), rtol=1e-6)
    changed = {
        "plain": expected,
        "with a call": np.sin(expected) + weights,
        "with a table": expected + weights[::-1],
        "with a branch": expected + weights,
    }
    np.testing.assert_allclose(inner["end"], changed[form] + [10, 20, 30], rtol=1e-5)
