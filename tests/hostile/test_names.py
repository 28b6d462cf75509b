"""Names that an ONNX file gives: none reaches generated source as it is, and none changes what a model computes."""

import copy
import io

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnxport

CODE = "a\"); open('run.txt', 'w').write('run'); (\""
NASTY = [
    CODE, "w\n    open('run.txt', 'w').write('run')\n    #", "x'); import os; os._exit(3); ('", "it's", 'say "w"',
    "back\\slash", "tab\tname", "new\nline", "carriage\rreturn", "\u2028line", "nul\0", "class", "None", "self",
    "getattr", "torch", "device", "inf", "1", "0.1", "-1", "a b", " a", "a ", "a..b", ".a", "a.", ".", "a__b", "a.b",
    "a_b", "a/b", "a:b", "a-b", "a", "a.b.c", "training", "forward", "block.training", "block.type", "code", "graph",
    "input_names", "__class__", "__dict__", "_parameters", "_constant_0", "const_7", "onnxport_inputs", "state_dict",
    "fi", "\ufb01", "größe", "重み", "²", "{x}", "{0}", "%s", "$x", "\U0001f600", "onnx::MatMul_12",
    "layer1.0.conv1.weight", "n" * 300, "\u202ereversed", "e\u0301", "\u00e9",
]  # fmt: skip
KEPT = "layer1.0.conv1.weight onnx::MatMul_12 a/b a:b 1 fi größe 重み a.b.c state".split()
INPUTS = [
    "class", "self", "None", "True", 'x"y', "new\nline): open('run.txt', 'w')\n    def f(self", "a.b", "a_b", "a b", "print",
    "getattr", "torch", "inf", "1x", "größe", "inputIds", "重み", "a/b", "a:0",
]  # fmt: skip


def model(names, inputs, outputs, node_names):
    """The sum of inputs and of weights, each taken with a factor of its own: a mixed up name is a wrong number."""
    weights = [numpy_helper.from_array(np.float32([2.0 ** (i % 9) + i, i]), name) for i, name in enumerate(names)]
    nodes, total = [], "total\nof 'all'"
    for i, name in enumerate(names):
        nodes.append(
            helper.make_node("Mul", [inputs[i % len(inputs)], name], [f'p"{i}'], name=node_names[i % len(node_names)])
        )
    nodes.append(helper.make_node("Sum", [f'p"{i}' for i in range(len(names))], [total], name=CODE))
    nodes.extend(
        helper.make_node("Mul", [total, inputs[i % len(inputs)]], [name], name=f"{CODE}{i}")
        for i, name in enumerate(outputs)
    )
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [CODE.replace("(", ""), 2]) for name in inputs]
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    graph = helper.make_graph(nodes, CODE, info, results, weights, doc_string='"""\nopen("run.txt", "w")\n"""')
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10, producer_name=CODE)


@pytest.fixture(scope="module")
def nasty():
    inputs = INPUTS
    return model([name for name in NASTY if name not in inputs], inputs, ['out"put', "class\n", "out"], NASTY)


def drawn(proto, rows):
    rng = np.random.default_rng(rows)
    return [rng.standard_normal((rows, 2), np.float32) for _ in proto.graph.input]


def expected(proto, inputs):
    """By NumPy: what the graph above says."""
    values = {item.name: numpy_helper.to_array(item) for item in proto.graph.initializer}
    values |= {info.name: item for info, item in zip(proto.graph.input, inputs, strict=True)}
    total = sum(
        values[node.input[0]].astype(np.float64) * values[node.input[1]]
        for node in proto.graph.node
        if node.output[0].startswith("p")
    )
    return [total * values[node.input[1]] for node in proto.graph.node[-len(proto.graph.output) :]]


def agree(found, wanted):
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(ours), theirs, rtol=2e-5, atol=1e-3)


@pytest.mark.pytorch
def test_a_module_with_nasty_names_runs_none_of_them(nasty, tmp_path, monkeypatch):
    import torch

    monkeypatch.chdir(tmp_path)
    net = onnxport.convert(nasty, to="pytorch")
    assert not list(tmp_path.iterdir())
    inputs = drawn(nasty, 3)
    tensors = [torch.from_numpy(item) for item in inputs]
    wanted = expected(nasty, inputs)
    agree([item.detach() for item in net(*tensors)], wanted)
    assert net.input_names == INPUTS
    assert net.output_names == [item.name for item in nasty.graph.output]
    state = net.state_dict()
    weights = [item for item in nasty.graph.initializer if not item.name.startswith("const_")]
    assert len(state) == len(weights)
    for item in weights:
        if item.name in KEPT:
            np.testing.assert_array_equal(state[item.name].numpy(), numpy_helper.to_array(item))
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    other = copy.deepcopy(net)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.zero_()
    other.load_state_dict(torch.load(file, weights_only=True))
    agree([item.detach() for item in other(*tensors)], wanted)
    program = torch.export.export(net, tuple(tensors))
    agree([item.detach() for item in program.module()(*tensors)], wanted)
    again = onnxport.convert(net, inputs=tuple(tensors))
    onnx.checker.check_model(again.proto)
    assert not list(tmp_path.iterdir())


@pytest.mark.tensorflow
@pytest.mark.parametrize("target", ["tensorflow", "keras"])
def test_models_of_tensorflow_and_keras_with_nasty_names_run_none_of_them(nasty, target, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    net = onnxport.convert(nasty, to=target)
    assert not list(tmp_path.iterdir())
    inputs = drawn(nasty, 3)
    wanted = expected(nasty, inputs)
    agree(net(*inputs) if target == "tensorflow" else net(inputs), wanted)
    assert len({item.path if target == "keras" else item.name for item in net.variables}) == len(net.variables)
    from onnxport.converters.convert import load, save

    path = tmp_path / ("model.keras" if target == "keras" else "saved")
    save(net, target, path)
    again = load(path, target)
    assert [item.name for item in tmp_path.iterdir()] == [path.name]
    if target == "keras":
        agree(again(inputs), wanted)
    else:
        found = again.signatures["serving_default"](**dict(zip(net.argument_names, inputs, strict=True)))
        agree([found[item.name] for item in nasty.graph.output], wanted)


BRANCHES = """
<ir_version: 10, opset_import: ["": 21]>
g (float[n, 2] x, bool c) => (float[n, 2] y) {
    y = If (c) <
        then_branch = a () => (float[n, 2] t) <float[2] w = {1.0, 2.0}> { t = Mul(x, w) },
        else_branch = b () => (float[n, 2] e) <float[2] w = {-3.0, 5.0}> { e = Mul(x, w) }
    >
}
"""


@pytest.mark.parametrize(
    "target",
    [
        pytest.param("pytorch", marks=pytest.mark.pytorch),
        pytest.param("tensorflow", marks=pytest.mark.tensorflow),
        pytest.param("keras", marks=pytest.mark.tensorflow),
    ],
)
def test_weights_of_two_branches_under_one_name_are_two(target):
    net = onnxport.convert(onnx.parser.parse_model(BRANCHES), to=target, validate=False)
    x = np.float32([[1, 1], [2, 3]])
    for flag, factors in ((True, (1, 2)), (False, (-3, 5))):
        condition = np.asarray(flag)
        match target:
            case "pytorch":
                import torch

                found = net(torch.from_numpy(x), torch.tensor(flag)).detach()
            case "tensorflow":
                found = net(x, condition)
            case _:
                found = net([x, condition])
        np.testing.assert_array_equal(np.asarray(found), x * np.float32(factors))


CONTRADICTIONS = [
    (
        """g (bool c, float[n] x) => (float[n] y)
        { y = If (c) <then_branch = a () => (float[n] t) { t = Neg(x) }, else_branch = b () => () { }> }""",
        "branches of 1 and 0 outputs",
    ),
    ("g (float[3, 4, 5] x, int64[1] t) => (float[a, b, c] y) { y = Tile(x, t) }", "1 repeats of a tensor of 3 axes"),
    ("g (float[2, 2] x, int64[17179869184] axes) => (float[a, b] y) { y = ReduceSum(x, axes) }", ""),
]


@pytest.mark.parametrize("text, message", CONTRADICTIONS)
@pytest.mark.parametrize(
    "target",
    [
        pytest.param("pytorch", marks=pytest.mark.pytorch),
        pytest.param("tensorflow", marks=pytest.mark.tensorflow),
    ],
)
def test_operands_that_contradict_each_other_are_refused(target, text, message):
    model = onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 18]> ' + text)
    with pytest.raises(onnxport.OnnxportError) as refused:
        onnxport.convert(model, to=target)
    assert message in str(refused.value)
    assert "defect of onnxport" not in str(refused.value)


@pytest.mark.pytorch
def test_a_dimension_may_be_named_by_any_digit():
    """Python's int() takes few of what str.isdigit() does."""
    import torch

    net = torch.nn.Linear(3, 2).eval()
    x = torch.zeros(4, 3)
    for name in ("\u00b2", "12"):
        converted = onnxport.convert(net, inputs=(x,), dynamic_shapes={"input": {0: name}})
        assert converted.proto.graph.output[0].type.tensor_type.shape.dim[0].dim_param == name
