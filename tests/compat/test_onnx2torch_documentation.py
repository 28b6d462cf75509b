"""Programs in the shape of onnx2torch's README, on what it gives: graphs of torch.fx, training, state, quantities of layers."""

import numpy as np
import onnx
import onnxruntime
import pytest

from tests.compat.programs import run

torch = pytest.importorskip("torch", reason="PyTorch is an extra")
pytestmark = pytest.mark.pytorch

OLD, NEW = "from onnx2torch import convert", "from onnxport.compat.onnx2torch import convert"

NET = """<ir_version: 8, opset_import: ["": 17]>
net (float[batch,1,8,8] image) => (float[batch,3] scores)
<float[4,1,3,3] kernel = {1,0,1,0,1,0,1,0,1,-1,0,1,-1,0,1,-1,0,1,1,1,1,0,0,0,-1,-1,-1,0,1,0,1,-4,1,0,1,0},
 float[4] bias = {0.1,0.2,0.3,0.4}, float[4,3] head = {1,-2,3,4,5,-6,7,8,9,-1,2,3}> {
  c = Conv<pads = [1,1,1,1]>(image, kernel, bias) r = Relu(c) p = GlobalAveragePool(r) f = Flatten(p)
  scores = MatMul(f, head) }"""

START = """
import onnx
import torch
from onnx2torch import convert

torch.manual_seed(0)
x = torch.randn(2, 1, 8, 8)
"""
PROGRAMS = {
    "a path": "onnx_model_path = 'net.onnx'\nmodel = convert(onnx_model_path)\nresult = model(x)",
    "a message": "onnx_model = onnx.load('net.onnx')\nmodel = convert(onnx_model)\nresult = model(x)",
    "a path of pathlib": "from pathlib import Path\nmodel = convert(Path('net.onnx'))\nresult = model(x)",
    "arguments by place": "model = convert('net.onnx', False, False)\nresult = model(x)",
    "names of inputs as keywords": "model = convert('net.onnx', save_input_names=True)\nresult = model(image=x)",
    "the graph of torch.fx": """
model = convert('net.onnx')
traced = torch.fx.symbolic_trace(model)
assert len(list(traced.graph.nodes)) > 3
traced.recompile()
result = traced(x)
""",
    "an edited graph": """
model = torch.fx.symbolic_trace(convert('net.onnx'))
relu = next(node for node in model.graph.nodes if "relu" in str(node.target).lower())
with model.graph.inserting_after(relu):
    doubled = model.graph.call_function(torch.mul, (relu, 1.0))
relu.replace_all_uses_with(doubled, delete_user_cb=lambda user: user is not doubled)
model.graph.lint()
model.recompile()
result = model(x)
""",
    "fine-tuning": """
model = convert('net.onnx')
optimizer = torch.optim.Adam(model.parameters(), lr=0.0)
for _ in range(2):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), torch.tensor([0, 2]))
    loss.backward()
    optimizer.step()
assert all(parameter.grad is not None and parameter.grad.abs().sum() > 0 for parameter in model.parameters())
result = model(x)
""",
    "weights that learn": """
model = convert('net.onnx')
before = {name: value.clone() for name, value in model.state_dict().items()}
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(x).square().sum().backward()
optimizer.step()
assert all(not torch.equal(before[name], value) for name, value in model.state_dict().items())
model.load_state_dict(before)
result = model(x)
""",
    "a module that is exported": """
model = convert('net.onnx').eval()
exported = torch.export.export(model, (x,))
result = exported.module()(x)
""",
    "a module in another precision": """
model = convert('net.onnx').double()
result = model(x.double()).float()
""",
    "a part of another module": """
class Whole(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = convert('net.onnx')

    def forward(self, images):
        return self.body(images).clone()

whole = Whole()
assert sorted(name for name, _ in whole.named_parameters()) == ['body.bias', 'body.head', 'body.kernel']
result = whole(x)
""",
    "copies and pickles": """
import copy, io
model = convert('net.onnx')
stream = io.BytesIO()
torch.save(model, stream)
stream.seek(0)
again = torch.load(stream, weights_only=False)
result = copy.deepcopy(again)(x)
""",
}


@pytest.mark.sampled(0.5)
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_a_program_runs_with_one_line_changed(program, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    onnx.save(onnx.parser.parse_model(NET), "net.onnx")
    left = run(START + program, OLD, NEW)
    session = onnxruntime.InferenceSession("net.onnx", providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {"image": left["x"].numpy()})
    np.testing.assert_allclose(left["result"].detach().numpy(), expected, rtol=1e-5, atol=1e-5)
