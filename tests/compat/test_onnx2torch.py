"""Ten programs as onnx2torch's documentation has them, and what they ask for beside."""

import pickle

import numpy as np
import onnx
import onnxruntime
import pytest

import onnxport
from tests.compat.programs import run

torch = pytest.importorskip("torch", reason="PyTorch is an extra")
pytestmark = pytest.mark.pytorch

OLD, NEW = "from onnx2torch import convert", "from onnxport.compat.onnx2torch import convert"

NET = """<ir_version: 8, opset_import: ["": 17]>
net (float[batch,3] x) => (float[batch,2] y)
<float[3,4] first = {1,-2,3,4,5,-6,7,8,9,1,2,3}, float[4,2] second = {1,2,3,4,-5,6,7,8}> {
  h = MatMul(x, first) r = Relu(h) y = MatMul(r, second) }"""
IMAGES = """<ir_version: 8, opset_import: ["": 17]>
net (float[n,1,6,6] x) => (float[n,2,3,3] y) <float[2,1,3,3] w = {1,0,1,0,1,0,1,0,1,-1,0,1,-1,0,1,-1,0,1}, float[2] b = {1,2}> {
  c = Conv<pads = [1,1,1,1]>(x, w, b) y = MaxPool<kernel_shape = [2,2], strides = [2,2]>(c) }"""
TWO = """<ir_version: 8, opset_import: ["": 17]>
net (float[n,3] a, float[n,3] b) => (float[n,3] s, float[n,3] d) { s = Add(a, b) d = Sub(a, b) }"""

START = """
import onnx
import torch
from onnx2torch import convert

torch.manual_seed(0)
"""
PROGRAMS = {
    "a file by its path": (NET, "model = convert('net.onnx')\nx = torch.randn(4, 3)\nresult = model(x)"),
    "a message": (NET, "model = convert(onnx.load('net.onnx'))\nx = torch.randn(4, 3)\nresult = model(x)"),
    "names of inputs": (
        NET,
        "model = convert('net.onnx', save_input_names=True)\nx = torch.randn(4, 3)\nresult = model(x)",
    ),
    "evaluation without gradients": (
        NET,
        "model = convert('net.onnx').eval()\nx = torch.randn(4, 3)\nwith torch.no_grad():\n    result = model(x)",
    ),
    "another batch": (
        NET,
        "model = convert('net.onnx')\nmodel(torch.randn(1, 3))\nx = torch.randn(9, 3)\nresult = model(x)",
    ),
    "convolutions": (IMAGES, "model = convert('net.onnx')\nx = torch.randn(2, 1, 6, 6)\nresult = model(x)"),
    "the layers inside": (
        IMAGES,
        (
            "model = convert('net.onnx')\nassert {name for name, _ in model.named_parameters()} == {'w', 'b'}\n"
            "x = torch.randn(2, 1, 6, 6)\nresult = model(x)"
        ),
    ),
    "two inputs and outputs": (
        TWO,
        "model = convert('net.onnx')\nx = (torch.randn(2, 3), torch.randn(2, 3))\nresult = model(*x)",
    ),
    "training": (
        NET,
        (
            "model = convert('net.onnx').train()\noptimizer = torch.optim.SGD(model.parameters(), lr=0.0)\n"
            "model(torch.randn(4, 3)).sum().backward()\noptimizer.step()\n"
            "assert all(p.grad is not None for p in model.parameters())\nx = torch.randn(4, 3)\nresult = model(x)"
        ),
    ),
    "a state that is saved": (
        NET,
        (
            "model = convert('net.onnx')\ntorch.save(model.state_dict(), 'net.pt')\nagain = convert('net.onnx')\n"
            "again.load_state_dict(torch.load('net.pt'))\nx = torch.randn(4, 3)\nresult = again(x)"
        ),
    ),
}


@pytest.mark.sampled(0.5)
@pytest.mark.parametrize(("text", "program"), PROGRAMS.values(), ids=PROGRAMS)
def test_a_program_runs_with_one_line_changed(text, program, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    onnx.save(onnx.parser.parse_model(text), "net.onnx")
    left = run(START + program, OLD, NEW)
    session = onnxruntime.InferenceSession("net.onnx", providers=["CPUExecutionProvider"])
    inputs = left["x"] if isinstance(left["x"], tuple) else (left["x"],)
    results = left["result"] if isinstance(left["result"], tuple) else (left["result"],)
    expected = session.run(None, {item.name: x.numpy() for item, x in zip(session.get_inputs(), inputs, strict=True)})
    for value, wanted in zip(results, expected, strict=True):
        np.testing.assert_allclose(value.detach().numpy(), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("place", ["onnx2torch", "onnx2torch.converter"])
def test_convert_is_imported_from_where_its_documentation_has_it(place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    onnx.save(onnx.parser.parse_model(NET), "net.onnx")
    line = f"from {place} import convert"
    program = f"import torch\n{line}\nmodel = convert('net.onnx')"
    assert isinstance(run(program, line, line.replace("from ", "from onnxport.compat."))["model"], torch.fx.GraphModule)


def test_a_converter_of_a_users_own_is_answered_with_ours():
    from onnxport.compat.onnx2torch.node_converters.registry import add_converter

    with pytest.raises(ValueError, match=r"register_from_onnx\('pytorch', 'mine', 'Swish', since=1\)"):

        @add_converter(operation_type="Swish", version=1, domain="mine")
        def swish(node, graph):
            pass


def test_layers_tell_what_their_node_takes_and_gives(tmp_path):
    """With `attach_onnx_mapping`, of a file and of a message; a copy tells it too."""
    from onnxport.compat.onnx2torch import convert
    from onnxport.compat.onnx2torch.utils.common import OnnxMapping

    net = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8, 2))
    onnxport.convert(net.eval(), inputs=(torch.ones(1, 1, 4, 4),), output=tmp_path / "net.onnx", input_names=["image"])
    proto = onnx.load(tmp_path / "net.onnx")
    weights = {"Conv": ("0.weight", "0.bias"), "Gemm": ("3.weight", "3.bias")}
    nodes = {node.op_type: OnnxMapping(tuple(node.input), tuple(node.output)) for node in proto.graph.node}
    for source in (tmp_path / "net.onnx", proto):
        model = pickle.loads(pickle.dumps(convert(source, save_input_names=True, attach_onnx_mapping=True)))
        own = {name: layer.onnx_mapping for name, layer in model.named_modules() if hasattr(layer, "onnx_mapping")}
        assert own == {"0": nodes["Conv"], "3": nodes["Gemm"]}
        assert own["0"].inputs == ("image", *weights["Conv"])
    assert not any(hasattr(layer, "onnx_mapping") for layer in convert(proto).modules())
