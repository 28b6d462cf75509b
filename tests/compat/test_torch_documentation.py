"""Programs in the shape of PyTorch's documentation and tutorials of its exporter: ``import torch`` changes, nothing else."""

import numpy as np
import onnx
import onnxruntime
import pytest

from tests.compat.programs import run

torch = pytest.importorskip("torch", reason="PyTorch is an extra")
pytestmark = pytest.mark.pytorch

OLD, NEW = "import torch", "from onnxport.compat import torch"

START = """
import torch
from torch import nn

torch.manual_seed(0)
"""
# Each leaves `feeds` and `expected`, by name, for the file net.onnx.
PROGRAMS = {
    "the first example of the reference": START
    + """
class MyModel(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(1, 16, 5)

    def forward(self, x):
        return torch.relu(self.conv1(x))

input_tensor = torch.rand((1, 1, 28, 28), dtype=torch.float32)
model = MyModel()
torch.onnx.export(
    model,
    (input_tensor,),
    "net.onnx",
    input_names=["input"],
    dynamo=True,
)
feeds, expected = {"input": input_tensor}, {"output": model(input_tensor)}
""",
    "a program that is optimized, saved, loaded and called": START
    + """
class ImageClassifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(256, 10)

    def forward(self, x: torch.Tensor):
        x = torch.nn.functional.max_pool2d(torch.relu(self.conv1(x)), (2, 2))
        x = torch.nn.functional.max_pool2d(torch.relu(self.conv2(x)), 2)
        return self.fc1(torch.flatten(x, 1))

torch_model = ImageClassifier()
example_inputs = (torch.randn(1, 1, 28, 28),)
onnx_program = torch.onnx.export(torch_model, example_inputs, dynamo=True)
onnx_program.optimize()
onnx_program.save("net.onnx")
outputs = onnx_program(*example_inputs)
assert isinstance(outputs[0], torch.Tensor)
torch.testing.assert_close(outputs[0], torch_model(*example_inputs), rtol=1e-4, atol=1e-5)
assert onnx_program.model_proto.graph.output[0].name == "output"
assert onnx_program.model.graph.inputs[0].name == "x"
feeds, expected = {"x": example_inputs[0]}, {"output": torch_model(*example_inputs)}
""",
    "a batch of any size, by axes of both ends": START
    + """
class SuperResolutionNet(nn.Module):
    def __init__(self, upscale_factor, inplace=False):
        super().__init__()
        self.relu = nn.ReLU(inplace=inplace)
        self.conv1 = nn.Conv2d(1, 8, (5, 5), (1, 1), (2, 2))
        self.conv2 = nn.Conv2d(8, upscale_factor ** 2, (3, 3), (1, 1), (1, 1))
        self.pixel_shuffle = nn.PixelShuffle(upscale_factor)

    def forward(self, x):
        return self.pixel_shuffle(self.conv2(self.relu(self.conv1(x))))

torch_model = SuperResolutionNet(upscale_factor=3)
torch_model.eval()
x = torch.randn(1, 1, 24, 24, requires_grad=True)
torch_out = torch_model(x)
torch.onnx.export(torch_model, x, "net.onnx", export_params=True, opset_version=16, do_constant_folding=True,
                  input_names=["input"], output_names=["output"],
                  dynamic_axes={"input": {0: "batch_size"}, "output": {0: "batch_size"}})
more = torch.randn(3, 1, 24, 24)
feeds, expected = {"input": more}, {"output": torch_model(more)}
""",
    "names of the inputs and of the weights behind them": START
    + """
model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
dummy_input = torch.randn(10, 4)
input_names = ["actual_input_1"] + ["learned_%d" % i for i in range(4)]
output_names = ["output1"]
torch.onnx.export(model, dummy_input, "net.onnx", verbose=True, input_names=input_names, output_names=output_names)
import onnx
weights = {item.name for item in onnx.load("net.onnx").graph.initializer}
assert weights == {"learned_%d" % i for i in range(4)}
feeds, expected = {"actual_input_1": dummy_input}, {"output1": model(dummy_input)}
""",
    "weights among the inputs": START
    + """
model = nn.Linear(4, 2).eval()
x = torch.randn(3, 4)
torch.onnx.export(model, (x,), "net.onnx", input_names=["x"], output_names=["y"], keep_initializers_as_inputs=True, dynamo=False)
import onnx
names = [item.name for item in onnx.load("net.onnx").graph.input]
assert names == ["x", "weight", "bias"]
feeds, expected = {"x": x}, {"y": model(x)}
""",
    "fewer names than inputs": START
    + """
class Sum(nn.Module):
    def forward(self, a, b, c):
        return a + b * c

args = tuple(torch.randn(2, 3) for _ in range(3))
torch.onnx.export(Sum(), args, "net.onnx", input_names=["first"], output_names=["total"])
feeds, expected = dict(zip(["first", "b", "c"], args)), {"total": Sum()(*args)}
""",
    "axes by the names of the parameters": START
    + """
class SumModule(nn.Module):
    def forward(self, x):
        return torch.sum(x, dim=1)

torch.onnx.export(
    SumModule(), (torch.ones(2, 2),), "net.onnx",
    input_names=["x"], output_names=["sum"],
    dynamic_axes={"x": {0: "my_custom_axis_name_1"}, "sum": [0]},
)
more = torch.randn(5, 2)
feeds, expected = {"x": more}, {"sum": more.sum(1)}
""",
    "a keyword argument, and another that has its default": START
    + """
class Model(nn.Module):
    def forward(self, x, y=None, z=None):
        if y is not None:
            return x + y
        if z is not None:
            return x - z
        return x

m, x, z = Model(), torch.randn(2, 3), torch.randn(2, 3)
torch.onnx.export(m, (x, None, z), "net.onnx", input_names=["x", "z"], output_names=["d"])
feeds, expected = {"x": x, "z": z}, {"d": x - z}
""",
    "an empty dictionary behind the inputs": START
    + """
class Model(nn.Module):
    def forward(self, x, scale=2.0):
        return x * scale

x = torch.randn(2, 3)
torch.onnx.export(Model(), (x, {}), "net.onnx", output_names=["y"])
feeds, expected = {"x": x}, {"y": 2 * x}
""",
    "dynamic shapes in the structure of the inputs": START
    + """
class Model(nn.Module):
    def forward(self, x, rest):
        return x + rest["a"] - rest["b"][0]

batch = torch.export.Dim("batch", min=1, max=128)
x, a, b = (torch.randn(4, 3) for _ in range(3))
shapes = ({0: batch}, {"a": {0: batch}, "b": [{0: batch}]})
program = torch.onnx.export(Model(), (x, {"a": a, "b": [b]}, {}), dynamic_shapes=shapes, dynamo=True)
program.save("net.onnx", external_data=False)
more = torch.randn(6, 3)
feeds, expected = {"x": more, "rest.a": more, "rest.b.0": more}, {"output": more}
""",
    "a dimension that is left to the trace": START
    + """
model = nn.Sequential(nn.Linear(4, 3), nn.Softmax(-1)).eval()
x = torch.randn(2, 4)
torch.onnx.export(model, (x,), "net.onnx", dynamic_shapes=({0: torch.export.Dim.DYNAMIC},), dynamo=True, verify=True)
more = torch.randn(7, 4)
feeds, expected = {"input": more}, {"output": model(more)}
""",
    "an exported program": START
    + """
model, x = nn.Linear(4, 3).eval(), torch.randn(2, 4)
exported = torch.export.export(model, (x,), dynamic_shapes=({0: torch.export.Dim("n")},))
onnx_program = torch.onnx.export(exported, dynamo=True)
onnx_program.save("net.onnx")
more = torch.randn(7, 4)
feeds, expected = {"input": more}, {"output": model(more)}
""",
    "control flow": START
    + """
class ModelWithControlFlow(nn.Module):
    def __init__(self):
        super().__init__()
        self.mlp = nn.Linear(3, 2)

    def forward(self, x):
        out = self.mlp(x)
        return torch.cond(out.sum() > 0, lambda x: x.clone() * 2, lambda x: -x, (out,))

model, x = ModelWithControlFlow(), torch.randn(4, 3)
torch.onnx.export(model, (x,), "net.onnx", dynamo=True, report=True)
import pathlib
assert pathlib.Path("onnx_export_report.html").exists()
with torch.no_grad():
    feeds, expected = {"x": x}, {"output": model(x)}
""",
    "training, as the enumeration has it": START
    + """
model, x = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)).eval(), torch.randn(5, 4)
torch.onnx.export(
    model, x, "net.onnx", training=torch.onnx.TrainingMode.EVAL,
    operator_export_type=torch.onnx.OperatorExportTypes.ONNX, input_names=["x"], output_names=["y"],
)
assert not torch.onnx.is_in_onnx_export()
feeds, expected = {"x": x}, {"y": model(x)}
""",
    "any number of inputs, their batch open by lists": START
    + """
class Total(nn.Module):
    def forward(self, *parts):
        return sum(parts)

parts = [torch.randn(2, 3) for _ in range(3)]
names = ["a", "b", "c"]
torch.onnx.export(Total(), tuple(parts), "net.onnx", input_names=names, output_names=["y"],
                  dynamic_axes={name: [0] for name in names})
more = [torch.randn(5, 3) for _ in range(3)]
feeds, expected = dict(zip(names, more)), {"y": sum(more)}
""",
    "a collection of shapes": START
    + """
model, x = nn.Linear(4, 3).eval(), torch.randn(2, 4)
shapes = torch.export.ShapesCollection()
shapes[x] = {0: torch.export.Dim("rows")}
torch.onnx.export(model, (x,), "net.onnx", dynamic_shapes=shapes, dynamo=True)
more = torch.randn(6, 4)
feeds, expected = {"input": more}, {"output": model(more)}
""",
    "weights that come later, and a report in a folder of its own": START
    + """
import os
model, x = nn.Linear(4, 3).eval(), torch.randn(2, 4)
program = torch.onnx.export(model, (x,), dynamo=True, report=True, artifacts_dir="out/reports")
assert os.listdir("out/reports")
program(x)
trained = nn.Linear(4, 3).eval()
program.apply_weights(trained.state_dict())
torch.testing.assert_close(program(x)[0], trained(x))
program.save("net.onnx")
feeds, expected = {"input": x}, {"output": trained(x)}
""",
    "a recurrent model": START
    + """
lstm = nn.LSTM(input_size=4, hidden_size=3, num_layers=2, batch_first=True).eval()
x, state = torch.randn(2, 5, 4), (torch.zeros(2, 2, 3), torch.zeros(2, 2, 3))
torch.onnx.export(
    lstm, (x, state), "net.onnx", opset_version=18,
    input_names=["x", "h0", "c0"], output_names=["out", "hn", "cn"], dynamic_axes={"x": {1: "time"}},
)
longer = torch.randn(2, 9, 4)
out, (hn, cn) = lstm(longer, state)
feeds, expected = {"x": longer, "h0": state[0], "c0": state[1]}, {"out": out, "hn": hn, "cn": cn}
""",
}


@pytest.mark.sampled(0.5)
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_a_program_runs_with_one_line_changed(program, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    names = run(program, OLD, NEW)
    onnx.checker.check_model("net.onnx", full_check=True)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # it warns of weights among the inputs
    session = onnxruntime.InferenceSession("net.onnx", options, providers=["CPUExecutionProvider"])
    assert [item.name for item in session.get_outputs()] == list(names["expected"])
    results = session.run(None, {name: x.detach().numpy() for name, x in names["feeds"].items()})
    for value, expected in zip(results, names["expected"].values(), strict=True):
        torch.testing.assert_close(torch.from_numpy(np.asarray(value)), expected.detach(), rtol=1e-4, atol=1e-5)
    written = capfd.readouterr()
    assert written.err == ""
    assert bool(written.out) == ("verbose=True" in program)
