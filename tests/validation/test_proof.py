"""Right models pass and wrong ones don't: a graph is written by hand beside its source, then broken."""

import json

import numpy as np
import onnx_ir as ir
import pytest

import onnxport
from onnxport.errors import InvalidInputError, ValidationError
from onnxport.graph.provenance import Source
from onnxport.validation import prove
from onnxport.validation.divergence import first_divergence, is_rounding, local_run
from onnxport.validation.runners import Binding
from tests.validation.graphs import graph

FLOAT, DOUBLE, INT64, BOOL, STRING = (
    ir.DataType.FLOAT,
    ir.DataType.DOUBLE,
    ir.DataType.INT64,
    ir.DataType.BOOL,
    ir.DataType.STRING,
)
rng = np.random.default_rng(0)


WEIGHTS = {
    "w1": rng.standard_normal((16, 64)).astype(np.float32) / 8,
    "b1": rng.standard_normal(16).astype(np.float32),
    "w2": rng.standard_normal((16, 16)).astype(np.float32) / 4,
    "b2": rng.standard_normal(16).astype(np.float32) / 10,
}
X = ("x", FLOAT, ["N", 64])


def mlp(op, x, *, weights=WEIGHTS, last=lambda op, h, w, b: op.Gemm(h, w, b, transB=1)):
    w1, b1, w2, b2 = (op.initializer(name, ir.tensor(array)) for name, array in weights.items())
    with op.at(Source("aten::linear.default", "linear", "first", "model.py", 3)):
        hidden = op.Gemm(x, w1, b1, transB=1)
    with op.at(Source("aten::tanh.default", "tanh", "", "model.py", 4)):
        hidden = op.Tanh(hidden)
    with op.at(Source("aten::linear.default", "linear_1", "last", "model.py", 5)):
        return last(op, hidden, w2, b2)


def off_by(name, factor):
    changed = {key: array.copy() for key, array in WEIGHTS.items()}
    middling = np.argsort(np.abs(changed[name]).ravel())[changed[name].size // 2]
    changed[name].flat[middling] *= factor
    return lambda op, x: mlp(op, x, weights=changed)


def ending(last):
    return lambda op, x: mlp(op, x, last=last)


def one_element(op, h, w, b):
    y = op.Gemm(h, w, b, transB=1)
    return op.Where(op.Equal(y, op.ReduceMax(y)), op.Mul(y, 0.999), y)


def reversed_rows(op, h, w, b):
    return op.Slice(op.Gemm(h, w, b, transB=1), [-1], [-(2**31)], [0], [-1])


def reversed_columns(op, h, w, b):
    return op.Gather(op.Gemm(h, w, b, transB=1), list(range(15, -1, -1)), axis=1)


BROKEN = {
    "one weight of the last layer off by 1%": off_by("w2", 1.01),
    "one weight of the first layer off by 1%": off_by("w1", 1.01),
    "one bias off by 1%": off_by("b2", 1.01),
    "no bias": ending(lambda op, h, w, b: op.Gemm(h, w, transB=1)),
    "weight not transposed": ending(lambda op, h, w, b: op.Gemm(h, w, b)),
    "columns in another order": ending(reversed_columns),
    "rows in another order": ending(reversed_rows),
    "another type": ending(lambda op, h, w, b: op.Cast(op.Gemm(h, w, b, transB=1), to=DOUBLE)),
    "another shape": ending(lambda op, h, w, b: op.Unsqueeze(op.Gemm(h, w, b, transB=1), [0])),
    "one element off by 0.1%": ending(one_element),
    "NaN": ending(lambda op, h, w, b: op.Sqrt(op.Gemm(h, w, b, transB=1))),
}


@pytest.fixture(scope="module")
def sources():
    """The same network in each framework, by name; made on first use."""
    made = {}

    def torch_net():
        import torch

        net = torch.nn.Sequential(torch.nn.Linear(64, 16), torch.nn.Tanh(), torch.nn.Linear(16, 16))
        with torch.no_grad():
            for parameter, array in zip(net.parameters(), WEIGHTS.values(), strict=True):
                parameter.copy_(torch.from_numpy(array))
        return net

    def keras_net():
        import keras

        layers = [keras.layers.Dense(16, activation="tanh"), keras.layers.Dense(16)]
        net = keras.Sequential([keras.Input((64,)), *layers])
        net.set_weights([WEIGHTS["w1"].T, WEIGHTS["b1"], WEIGHTS["w2"].T, WEIGHTS["b2"]])
        return net

    def tensorflow_net():
        import tensorflow as tf

        @tf.function(input_signature=[tf.TensorSpec([None, 64], tf.float32)])
        def net(x):
            return tf.tanh(x @ WEIGHTS["w1"].T + WEIGHTS["b1"]) @ WEIGHTS["w2"].T + WEIGHTS["b2"]

        return net

    def sklearn_net():
        from sklearn.neural_network import MLPRegressor

        net = MLPRegressor(hidden_layer_sizes=(16,), activation="tanh")
        net.partial_fit(np.zeros((4, 64)), np.zeros((4, 16)))
        net.coefs_ = [WEIGHTS["w1"].T.astype(np.float64), WEIGHTS["w2"].T.astype(np.float64)]
        net.intercepts_ = [WEIGHTS["b1"].astype(np.float64), WEIGHTS["b2"].astype(np.float64)]
        return net

    makers = {
        "onnx": lambda: graph(mlp, X),
        "pytorch": torch_net,
        "keras": keras_net,
        "tensorflow": tensorflow_net,
        "sklearn": sklearn_net,
    }

    def get(name):
        return made.setdefault(name, None) or made.update({name: makers[name]()}) or made[name]

    return get


FRAMEWORKS = [
    "onnx",
    *(pytest.param(name, marks=getattr(pytest.mark, name)) for name in ("pytorch", "keras", "tensorflow", "sklearn")),
]


def names(framework):
    return ("variable",) if framework == "sklearn" else ("output",)


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("inputs", ["given", "drawn"])
def test_the_right_graph_passes(sources, framework, inputs):
    given = rng.standard_normal((5, 64)).astype(np.float32) if inputs == "given" else None
    report = onnxport.validate(sources(framework), graph(mlp, X, names=names(framework)), given)
    assert report.passed, str(report)
    assert len(report.sets) >= 2
    rows = {item.inputs[0][2][0] for item in report.sets}
    assert len(rows) > 1 or framework == "sklearn"


# scikit-learn computes in float64 whatever it is given, so that there the kind of type is compared, not the type.
CASES = [
    pytest.param(name, how, marks=() if name == "onnx" else getattr(pytest.mark, name))
    for name in ("onnx", "pytorch", "keras", "tensorflow", "sklearn")
    for how in BROKEN
    if (name, how) != ("sklearn", "another type")
]


@pytest.mark.sampled(0.3)
@pytest.mark.parametrize(("framework", "how"), CASES)
def test_a_wrong_graph_fails(sources, framework, how):
    given = rng.standard_normal((5, 64)).astype(np.float32)
    wrong = graph(BROKEN[how], X, names=names(framework))
    report = onnxport.validate(sources(framework), wrong, given)
    assert not report.passed
    if framework == "onnx":
        return
    with pytest.raises(ValidationError) as caught:
        prove(sources(framework), wrong, wrong, Binding(inputs=given if framework == "sklearn" else (given,)))
    assert "differs from its source" in str(caught.value)
    assert not caught.value.report.passed


def test_a_size_that_was_baked_in_is_found():
    right = graph(lambda op, x: op.ReduceSum(x, [0], keepdims=0), ("x", FLOAT, ["N", 3]))
    baked = graph(lambda op, x: op.ReduceSum(op.Slice(x, [0], [2], [0]), [0], keepdims=0), ("x", FLOAT, ["N", 3]))
    given = np.ones((2, 3), np.float32)
    report = onnxport.validate(right, baked, (given,))
    assert report.sets[0].passed
    assert report.verdict == "failed"
    fails = graph(lambda op, x: op.Reshape(x, [6]), ("x", FLOAT, ["N", 3]))
    flat = graph(lambda op, x: op.Reshape(x, [-1]), ("x", FLOAT, ["N", 3]))
    report = onnxport.validate(flat, fails, (given,))
    assert not report.passed
    assert "can't run" in str(report)


def test_equal_symbols_get_equal_sizes_and_others_differ():
    model = graph(
        lambda op, a, b, c: op.Add(op.MatMul(a, b), c),
        ("a", FLOAT, ["N", "K"]),
        ("b", FLOAT, ["K", 3]),
        ("c", FLOAT, ["N", 3]),
    )
    given = tuple(rng.standard_normal(shape).astype(np.float32) for shape in ((2, 4), (4, 3), (2, 3)))
    report = onnxport.validate(model, model, given)
    shapes = {tuple(shape for _, _, shape in item.inputs) for item in report.sets}
    assert ((2, 4), (4, 3), (2, 3)) in shapes
    assert any(a[0] == c[0] != 2 and a[1] == b[0] != 4 for a, b, c in shapes)


def test_swapped_outputs_are_found():
    pair = ("x", FLOAT, ["N", 3])
    right = graph(lambda op, x: (op.Neg(x), op.Abs(x)), pair, names=("a", "b"))
    swapped = graph(lambda op, x: (op.Abs(x), op.Neg(x)), pair, names=("a", "b"))
    unlike = graph(lambda op, x: (op.Abs(x), op.Neg(x)), pair, names=("c", "d"))
    fewer = graph(lambda op, x: op.Neg(x), pair, names=("c",))
    given = (np.asarray([[1, -2, 3], [4, -5, 6]], np.float32),)
    assert onnxport.validate(right, right, given).passed
    assert not onnxport.validate(right, swapped, given).passed
    assert not onnxport.validate(right, unlike, given).passed
    report = onnxport.validate(right, fewer, given)
    assert not report.passed
    assert "1 outputs (c) instead of 2 (a, b)" in str(report)


def test_outputs_behind_a_random_operator_are_unproved_and_only_those():
    write = lambda op, x: (op.RandomNormalLike(x), op.Neg(x))  # noqa: E731
    model = graph(write, ("x", FLOAT, ["N", 3]), names=("noise", "plain"))
    report = onnxport.validate(model, model)
    assert report.verdict == "unproved"
    assert {o.name: o.verdict for o in report.sets[0].outputs} == {"noise": "unproved", "plain": "pass"}
    wrong = graph(lambda op, x: (op.RandomNormalLike(x), op.Abs(x)), ("x", FLOAT, ["N", 3]), names=("noise", "plain"))
    assert onnxport.validate(model, wrong).verdict == "failed"


def test_drawn_inputs_stay_within_what_the_graph_can_take():
    table = rng.standard_normal((4, 8)).astype(np.float32)
    model = graph(
        lambda op, ids, mask: op.Where(
            op.Unsqueeze(mask, [2]), op.Gather(op.initializer("table", ir.tensor(table)), ids), 0.0
        ),
        ("ids", INT64, ["N", "T"]),
        ("mask", BOOL, ["N", "T"]),
    )
    assert onnxport.validate(model, model).passed
    words = graph(
        lambda op, x: op.ml.LabelEncoder(x, keys_strings=["red", "green"], values_int64s=[1, 2], default_int64=-1),
        ("x", STRING, ["N", 1]),
    )
    report = onnxport.validate(words, words)
    assert report.passed
    from onnxport.validation.input_sets.drawn import DrawnInputs

    seen = {str(word) for item in next(DrawnInputs(words.model).first()).leaves for word in item.ravel()}
    assert seen <= {"red", "green", "not in the vocabulary"}


def test_users_tolerances_override_the_budget():
    given = (rng.standard_normal((5, 64)).astype(np.float32),)
    right, wrong = graph(mlp, X), graph(off_by("w2", 1.01), X)
    assert not onnxport.validate(right, wrong, given).passed
    assert onnxport.validate(right, wrong, given, atol=1e-1).passed
    assert onnxport.validate(right, wrong, given, rtol=1.0, atol=1e-2).passed
    assert not onnxport.validate(right, graph(BROKEN["no bias"], X), given, atol=1e-3).passed


@pytest.mark.parametrize(
    ("inputs", "kwargs", "words"),
    [
        ((np.zeros((2, 3), np.float32),), None, r"shape \[2, 3\], and the model takes float32\[N, 64\]"),
        ((np.zeros((2, 64), np.float32), 1), None, r"takes 1 inputs \(x\), 2 are given"),
        ({"z": np.zeros((2, 64), np.float32)}, None, "no input 'z': it takes x"),
        ((), {"z": np.zeros((2, 64), np.float32)}, "no input 'z': it takes x"),
        ((np.zeros((2, 64)),), None, "float64"),
    ],
)
def test_inputs_that_do_not_fit_are_named_shortly(inputs, kwargs, words):
    model = graph(mlp, X)
    with pytest.raises(InvalidInputError, match=words) as caught:
        onnxport.validate(model, model, inputs, kwargs=kwargs)
    assert len(str(caught.value)) < 600


def test_the_divergent_node_is_named_with_its_line():
    right, wrong = graph(mlp, X), graph(off_by("w1", 1.5), X)
    report = onnxport.validate(right, wrong, (rng.standard_normal((5, 64)).astype(np.float32),))
    assert report.divergence.op == "Gemm"
    assert report.divergence.where == "'first', model.py:3"
    assert "first divergent node: Gemm" in str(report)


@pytest.mark.pytorch
def test_the_divergent_node_is_found_from_the_pytorch_trace(sources):
    report = onnxport.validate(sources("pytorch"), graph(off_by("w2", 1.5), X), (np.ones((2, 64), np.float32),))
    assert report.divergence.source_op == "aten::linear.default"
    assert report.divergence.where == "'last', model.py:5"


def test_what_is_left_of_a_sum_that_cancels_is_not_blamed():
    """The fourth column is what rounding leaves of terms near 1; the wrong node is the one behind it."""
    inputs = np.repeat(rng.standard_normal((1, 64)), 2, axis=0).astype(np.float32)
    weights = rng.standard_normal((64, 8)).astype(np.float32)
    bias = np.zeros(8, np.float32)
    bias[3] = -(inputs.astype(np.float64) @ weights)[0, 3]
    model = graph(lambda op, x: op.Mul(op.Gemm(x, op.const(weights), op.const(bias)), 2.0), ("x", FLOAT, [2, 64]))
    gemm, mul = model.model.graph
    own = (inputs.astype(np.float64) @ weights + bias).astype(np.float32)  # the same sum, rounded once
    assert 0 < np.abs(own[0, 3]) < 1e-5
    reference = {gemm.outputs[0].name: own, mul.outputs[0].name: own * 3}
    assert first_divergence(model.model, {"x": inputs}, reference).op == "Mul"


def test_the_report_in_all_its_forms(tmp_path):
    report = onnxport.validate(graph(mlp, X), graph(BROKEN["NaN"], X))
    text = str(report)
    assert text.startswith("FAILED: onnx main (onnxruntime) against onnx main (onnxruntime)")
    loaded = json.loads(report.to_json())
    assert loaded["passed"] is False
    assert loaded["sets"][0]["outputs"][0]["verdict"] == "fail"
    assert set(loaded["versions"]) >= {"onnxport", "onnx", "onnxruntime", "numpy"}
    report.to_html(tmp_path / "report.html")
    html = (tmp_path / "report.html").read_text()
    assert "<script" not in html
    assert "http" not in html
    assert "FAIL" in html


def test_a_page_shows_for_each_output_the_worst_of_what_was_compared():
    """A set without rows compares nothing: the output is proved by the others."""
    report = onnxport.validate(graph(mlp, X), graph(mlp, X))
    assert any(output.verdict == "unproved" for item in report.sets for output in item.outputs)
    table = report._repr_html_()
    assert 'class="chip pass"' in table
    assert ">unproved</span>" not in table
    assert repr(report).count("\n") == 0
    assert len(repr(report)) < 200
    model = graph(mlp, X)
    assert "input   x: FLOAT [N" in (shown := model._repr_html_())
    assert shown.startswith("<pre>")
    assert shown.count("<") == 2


def test_a_model_is_proved_as_it_is_now():
    model = graph(mlp, X)
    assert onnxport.validate(graph(mlp, X), model).passed
    weight = model.model.graph.initializers["w1"]
    weight.const_value = ir.tensor(weight.const_value.numpy() * np.float32(1.5))
    assert onnxport.validate(graph(mlp, X), model).verdict == "failed"


def test_files_are_taken_as_well(tmp_path):
    graph(mlp, X).save(tmp_path / "right.onnx")
    graph(off_by("w2", 1.01), X).save(tmp_path / "wrong.onnx")
    assert onnxport.validate(tmp_path / "right.onnx", str(tmp_path / "right.onnx")).passed
    report = onnxport.validate(tmp_path / "right.onnx", tmp_path / "wrong.onnx")
    assert not report.passed
    assert "wrong.onnx" in str(report)


@pytest.mark.parametrize(
    ("size", "count", "steps", "is_a_step"),
    [(1000, 4, 1, True), (1000, 250, 1, False), (1000, 4, 2, False), (64, 1, 1, True), (64, 2, 1, False)],
)
def test_few_whole_numbers_may_lie_a_step_apart(size, count, steps, is_a_step):
    """Sums that lie between two steps go either way; a wrong rounding moves many, a wrong number by more than a step."""
    scale, zero = np.float32(0.1), np.int8(3)
    model = graph(
        lambda op, x: op.QuantizeLinear(op.Mul(x, 2.0), op.const(scale), op.const(zero)), ("x", FLOAT, [size])
    )
    x = rng.uniform(-4, 4, size).astype(np.float32)
    own = np.array(model(x))
    own[:count] += np.int8(steps)
    run = local_run(model.model, model.model.graph.outputs[0], own, {"x": x})
    assert run.report.verdict == "fail"
    assert is_rounding(run) == is_a_step


def test_strings_that_differ_are_no_rounding():
    model = graph(
        lambda op, x: op.StringConcat(x, op.const(np.array(["a"], object))), ("x", ir.DataType.STRING, [2]), opset=20
    )
    x = np.array(["u", "v"], object)
    run = local_run(model.model, model.model.graph.outputs[0], np.array(["ua", "wa"], object), {"x": x})
    assert run.report.verdict == "fail"
    assert not is_rounding(run)
