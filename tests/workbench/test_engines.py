"""What other engines take, by their documentation."""

import onnx
import pytest

from onnxport.graph.engines.profiles import PROFILES

# Two operators that every engine takes, and around them what is to be judged.
GRAPH = """<ir_version: 8, opset_import: ["": %d]>
g (float[1,3,8,8] x, bool t) => (float[a,b,c,d] y) <int64[4] shape = {1,3,8,8}, float r = {0.5}> {
  p = Relu(x) %s y = Sigmoid(q) }"""


@pytest.mark.parametrize("name", PROFILES)
def test_every_operator_of_a_profile_is_one(name):
    known = {schema.name for schema in onnx.defs.get_all_schemas_with_history() if schema.domain == ""}
    assert [op for op in PROFILES[name].known if "::" not in op and op not in known] == []
    assert set(PROFILES[name].limits) <= PROFILES[name].known
    assert set(PROFILES[name].without.split()) <= set(PROFILES[name].operators.split())


TAKEN = [
    ("tensorrt", 17, "q = LayerNormalization(p, r)"),
    ("tensorrt", 17, "q = MaxPool<kernel_shape = [1, 1]>(p)"),
    ("coreml", 20, "q = Gelu(p)"),
    ("openvino", 17, "q = Identity(p)"),
    ("litert", 18, "q = Mish(p)"),  # ONNX defines it by others
    ("web", 17, "q = Softmax(p)"),
]
LACKED = {
    "coreml": ["Mish(p)", "Abs(p)"],
    "tensorrt": ["Det(p)"],
    "openvino": ["Bernoulli(p)"],
    "litert": ["Erf(p)"],
    "web": ["Max(p, p)"],
}
REFUSED = [
    *[(engine, 18, f"q = {node}", "not among its operators") for engine, nodes in LACKED.items() for node in nodes],
    ("tensorrt", 17, "q, i = MaxPool<kernel_shape = [1, 1]>(p) j = Neg(i)", "its output 'i' is used"),
    ("tensorrt", 19, "q = AveragePool<kernel_shape = [1, 1], dilations = [2, 2]>(p)", "dilations=[2, 2]"),
    ("tensorrt", 17, 'q = Resize<mode = "cubic">(p, , , shape)', "mode='cubic'; it takes nearest, linear"),
    ("tensorrt", 17, "z = Cast<to = 11>(p) q = Cast<to = 1>(z)", "its result is DOUBLE"),
    ("tensorrt", 17, "q = Dropout(p, r, t)", "training_mode must be constant and false"),
    ("coreml", 17, "s = Shape(p) q = Slice(p, s, s)", "its input 's' must be constant"),
]


@pytest.mark.parametrize(("engine", "opset", "node"), TAKEN, ids=[f"{row[0]}: {row[2]}" for row in TAKEN])
def test_what_an_engine_takes(run, tmp_path, engine, opset, node):
    onnx.save(onnx.parser.parse_model(GRAPH % (opset, node)), tmp_path / "net.onnx")
    done = run("check", "net.onnx", "--for", engine, "--json")
    assert (done.code, done.json[engine]["nodes"]) == (0, [])


@pytest.mark.parametrize(("engine", "opset", "node", "reason"), REFUSED, ids=[f"{row[0]}: {row[2]}" for row in REFUSED])
def test_what_it_does_not_take(run, tmp_path, engine, opset, node, reason):
    onnx.save(onnx.parser.parse_model(GRAPH % (opset, node)), tmp_path / "net.onnx")
    done = run("check", "net.onnx", "--for", engine)
    assert done.code == 1
    assert reason in done.out
    assert PROFILES[engine].source in done.out


NETS = """
import torch
class Net(torch.nn.Module):
    def forward(self, x):
        return torch.linalg.det(x)
def net(): return Net().eval(), (torch.randn(2, 3, 3),)
"""


@pytest.mark.pytorch
def test_the_line_of_the_users_code(run, module, tmp_path):
    pytest.importorskip("torch", reason="PyTorch is an extra")
    name = module(NETS)
    assert run("convert", f"{name}:net", "-o", "net.onnx", "--no-validate").code == 0
    done = run("check", "net.onnx", "--for", "litert,web")
    assert done.code == 1
    assert f"(at {name}.py:5)" in done.out


def test_an_engine_without_a_profile_is_refused(run, tmp_path):
    onnx.save(onnx.parser.parse_model(GRAPH % (17, "q = Neg(p)")), tmp_path / "net.onnx")
    done = run("check", "net.onnx", "--for", "tpu")
    assert (done.code, "there is no profile of 'tpu'" in done.err) == (2, True)
