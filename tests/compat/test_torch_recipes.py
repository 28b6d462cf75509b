"""More programs in the shape of PyTorch's recipes for its exporter: structures, loops, old opsets; ``import torch`` changes."""

import numpy as np
import onnxruntime
import pytest

from tests.compat.programs import run

torch = pytest.importorskip("torch", reason="PyTorch is an extra")
pytestmark = pytest.mark.pytorch

START = """
import torch
from torch import nn

torch.manual_seed(0)
"""
# Each leaves `feeds` by name and `expected` in order, for the file net.onnx.
PROGRAMS = {
    "results by name": """
from typing import NamedTuple

class Results(NamedTuple):
    logits: torch.Tensor
    hidden: torch.Tensor

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(3, 2)

    def forward(self, x):
        hidden = torch.tanh(x)
        return Results(self.head(hidden), hidden)

model, x = Net(), torch.randn(2, 3)
program = torch.onnx.export(model, (x,), dynamo=True)
assert [item.name for item in program.model_proto.graph.output] == ["logits", "hidden"]
program.save("net.onnx")
feeds, expected = {"x": x}, list(model(x))
""",
    "a dictionary of inputs, which an empty one follows": """
class Net(nn.Module):
    def forward(self, batch):
        return {"sum": batch["a"] + batch["b"], "rest": batch["a"] - batch["b"]}

a, b = torch.randn(2, 3), torch.randn(2, 3)
torch.onnx.export(Net(), ({"a": a, "b": b}, {}), "net.onnx", input_names=["a", "b"], output_names=["sum", "rest"])
feeds, expected = {"a": a, "b": b}, [a + b, a - b]
""",
    "names of dimensions as texts": """
model, x = nn.Conv1d(2, 3, 3, padding=1).eval(), torch.randn(1, 2, 8)
torch.onnx.export(model, (x,), "net.onnx", dynamic_shapes=({0: "batch", 2: "time"},), input_names=["x"], dynamo=True)
import onnx
dims = onnx.load("net.onnx").graph.input[0].type.tensor_type.shape.dim
assert [dim.dim_param or dim.dim_value for dim in dims] == ["batch", 2, "time"]
more = torch.randn(3, 2, 11)
feeds, expected = {"x": more}, [model(more)]
""",
    "dimensions that hang on each other": """
class Net(nn.Module):
    def forward(self, x):
        return x.reshape(x.shape[0], -1, 2).sum(-1)

batch, half = torch.export.Dim("batch"), torch.export.Dim("half")
torch.onnx.export(Net(), (torch.randn(2, 8),), "net.onnx", dynamic_shapes={"x": {0: batch, 1: 2 * half}}, dynamo=True)
more = torch.randn(5, 6)
feeds, expected = {"x": more}, [Net()(more)]
""",
    "a mask by keyword, and a number": """
class Net(nn.Module):
    def forward(self, x, mask=None, *, scale=1.0):
        return (x * scale).masked_fill(mask, 0)

x, mask = torch.randn(2, 3), torch.rand(2, 3) > 0.5
torch.onnx.export(Net(), (x,), "net.onnx", kwargs={"mask": mask, "scale": 3.0})
feeds, expected = {"x": x, "mask": mask}, [(x * 3).masked_fill(mask, 0)]
""",
    "opset 9, in a buffer": """
import io
model, x, buffer = nn.Linear(3, 2), torch.randn(1, 3), io.BytesIO()
torch.onnx.export(model, x, buffer, opset_version=9, input_names=["rows"], output_names=["scores"])
with open("net.onnx", "wb") as file:
    file.write(buffer.getvalue())
feeds, expected = {"rows": x}, [model(x)]
""",
    "a loop": """
from torch._higher_order_ops import while_loop

class Net(nn.Module):
    def forward(self, i, x):
        return while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, x * 1.5), (i, x))

i, x = torch.tensor(2), torch.randn(3)
torch.onnx.export(Net(), (i, x), "net.onnx", dynamo=True)
feeds, expected = {"i": i, "x": x}, [torch.tensor(5), x * 1.5**3]
""",
    "a scan": """
from torch._higher_order_ops.scan import scan

class Net(nn.Module):
    def forward(self, x):
        return scan(lambda carry, row: (carry + row, (carry + row).clone()), torch.zeros(3), x)[1]

x = torch.randn(4, 3)
torch.onnx.export(Net(), (x,), "net.onnx", dynamo=True)
feeds, expected = {"x": x}, [x.cumsum(0)]
""",
    "an encoder": """
model = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2, enable_nested_tensor=False).eval()
axes = {0: "batch", 1: "length"}
torch.onnx.export(
    model, (torch.randn(2, 5, 8),), "net.onnx", opset_version=17, input_names=["src"], output_names=["out"],
    dynamic_axes={"src": axes, "out": axes},
)
longer = torch.randn(3, 7, 8)
feeds, expected = {"src": longer}, [model(longer)]
""",
    "a list of inputs": """
class Net(nn.Module):
    def forward(self, parts, scale):
        return parts[0] + parts[1] * scale

a, b, scale = (torch.randn(2) for _ in range(3))
torch.onnx.export(Net(), ([a, b], scale), "net.onnx", input_names=["a", "b", "scale"], dynamo=True)
feeds, expected = {"a": a, "b": b, "scale": scale}, [a + b * scale]
""",
    "a function with a gradient of its own": """
class Clipped(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clamp(min=0)

    @staticmethod
    def symbolic(g, x):
        return g.op("Relu", x)

class Net(nn.Module):
    def forward(self, x):
        return Clipped.apply(x)

x = torch.randn(3)
torch.onnx.export(Net(), x, "net.onnx")
feeds, expected = {"x": x}, [x.clamp(min=0)]
""",
    "weights beside the file": """
model, x = nn.Linear(300, 300), torch.randn(1, 300)
torch.onnx.export(model, (x,), "net.onnx", external_data=True, dynamo=True)
import os
assert os.path.getsize("net.onnx") < 10000
feeds, expected = {"input": x}, [model(x)]
""",
}


@pytest.mark.sampled(0.5)
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_a_program_runs_with_one_line_changed(program, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    left = run(START + program, "import torch", "from onnxport.compat import torch")
    session = onnxruntime.InferenceSession("net.onnx", providers=["CPUExecutionProvider"])
    for value, expected in zip(session.run(None, arrays(left["feeds"])), left["expected"], strict=True):
        np.testing.assert_allclose(value, expected.detach().numpy(), rtol=1e-4, atol=1e-5)
    assert capfd.readouterr() == ("", "")


def arrays(feeds):
    """Tensors as arrays."""
    return {name: tensor.numpy() for name, tensor in feeds.items()}
