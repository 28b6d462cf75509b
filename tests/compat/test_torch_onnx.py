"""Ten programs as torch.onnx's documentation has them, and each argument that is honoured or refused."""

import io
import pickle

import numpy as np
import onnx
import onnxruntime
import pytest

from tests.compat.programs import run

torch = pytest.importorskip("torch", reason="PyTorch is an extra")
pytestmark = pytest.mark.pytorch

OLD, NEW = "from torch.onnx import export", "from onnxport.compat import torch_onnx_export as export"

START = """
import torch
from torch import nn
from torch.onnx import export

torch.manual_seed(0)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.drop = nn.Dropout(0.5)
        self.dense = nn.Linear(4, 3)

    def forward(self, image):
        features = torch.relu(self.conv(image)).mean((2, 3))
        return self.dense(self.drop(features))

image = torch.randn(2, 1, 8, 8)
"""

PROGRAMS = {
    "a file": START
    + """
net = Net().eval()
export(net, (image,), "net.onnx")
expected = {"output": net(image)}
feeds = {"image": image}
""",
    "a program that is saved": START
    + """
net = Net().eval()
program = export(net, (image,), dynamo=True)
program.optimize()
program.save("net.onnx")
expected, feeds = {"output": net(image)}, {"image": image}
""",
    "names and axes that vary": START
    + """
net = Net().eval()
export(net, image, "net.onnx", export_params=True, opset_version=17, do_constant_folding=True,
       input_names=["input"], output_names=["scores"],
       dynamic_axes={"input": {0: "batch_size"}, "scores": {0: "batch_size"}})
more = torch.randn(5, 1, 8, 8)
expected, feeds = {"scores": net(more)}, {"input": more}
""",
    "axes as a list": START
    + """
net = Net().eval()
export(net, (image,), "net.onnx", input_names=["input"], output_names=["scores"], dynamic_axes={"input": [0, 2, 3]})
more = torch.randn(3, 1, 6, 9)
expected, feeds = {"scores": net(more)}, {"input": more}
""",
    "dynamic shapes": START
    + """
net = Net().eval()
batch = torch.export.Dim("batch")
export(net, (image,), "net.onnx", dynamic_shapes={"image": {0: batch}}, dynamo=True)
more = torch.randn(4, 1, 8, 8)
expected, feeds = {"output": net(more)}, {"image": more}
""",
    "a model in training mode": START
    + """
net = Net()
export(net, (image,), "net.onnx")
assert net.training and net.drop.training
expected, feeds = {"output": net.eval()(image)}, {"image": image}
""",
    "keywords": """
import torch
from torch.onnx import export

class Sum(torch.nn.Module):
    def forward(self, a, *, scale):
        return a * scale

a, scale = torch.randn(3), torch.randn(3)
export(Sum(), (a,), "net.onnx", kwargs={"scale": scale})
expected, feeds = {"output": a * scale}, {"a": a, "scale": scale}
""",
    "a dictionary behind the inputs": """
import torch
from torch.onnx import export

class Sum(torch.nn.Module):
    def forward(self, a, b):
        return a - b

a, b = torch.randn(3), torch.randn(3)
export(Sum(), (a, {"b": b}), "net.onnx")
expected, feeds = {"output": a - b}, {"a": a, "b": b}
""",
    "several outputs": """
import torch
from torch.onnx import export

class Parts(torch.nn.Module):
    def forward(self, x):
        return x.min(), x.max()

x = torch.randn(3, 4)
export(Parts().eval(), (x,), "net.onnx", output_names=["low", "high"], verbose=False)
expected, feeds = {"low": x.min(), "high": x.max()}, {"x": x}
""",
    "a loop over a sequence": """
import torch
from torch.onnx import export

class Steps(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = torch.nn.LSTM(3, 4, batch_first=True)

    def forward(self, steps):
        return self.cell(steps)[0][:, -1]

steps, net = torch.randn(2, 5, 3), Steps().eval()
export(net, steps, "net.onnx", input_names=["steps"], output_names=["last"], dynamic_axes={"steps": {0: "b", 1: "t"}})
longer = torch.randn(3, 9, 3)
expected, feeds = {"last": net(longer)}, {"steps": longer}
""",
}


@pytest.mark.sampled(0.5)
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_a_program_runs_with_one_line_changed(program, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = run(program, OLD, NEW)
    onnx.checker.check_model("net.onnx", full_check=True)
    session = onnxruntime.InferenceSession("net.onnx", providers=["CPUExecutionProvider"])
    results = session.run(list(names["expected"]), {name: x.numpy() for name, x in names["feeds"].items()})
    for value, expected in zip(results, names["expected"].values(), strict=True):
        torch.testing.assert_close(torch.from_numpy(np.asarray(value)), expected.detach())


def test_dimensions_are_fixed_unless_they_are_named():
    from onnxport.compat import torch_onnx_export

    program = torch_onnx_export(torch.nn.Linear(3, 2).eval(), (torch.ones(4, 3),))
    assert [dim.dim_value for dim in program.model_proto.graph.input[0].type.tensor_type.shape.dim] == [4, 3]


def test_a_file_is_called_as_in_the_documentation(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    program = """
    import torch
    class SumModule(torch.nn.Module):
        def forward(self, x):
            return torch.sum(x, dim=1)

    torch.onnx.export(
        SumModule(),
        (torch.ones(2, 2),),
        "onnx.pb",
        input_names=["x"],
        output_names=["sum"],
        dynamic_axes={"x": {0: "my_custom_axis_name"}, "sum": [0]},
    )
    """
    run(program, "import torch", "from onnxport.compat import torch")
    session = onnxruntime.InferenceSession("onnx.pb", providers=["CPUExecutionProvider"])
    assert session.run(None, {"x": np.ones((3, 2), np.float32)})[0].tolist() == [2, 2, 2]


def test_names_of_weights_leave_the_proof_against_the_module():
    from onnxport.compat import torch_onnx_export

    program = torch_onnx_export(torch.nn.Linear(3, 2).eval(), torch.ones(4, 3), input_names=["x", "w"])
    assert program.input_names == ["x"]
    assert "w" in program.model.graph.initializers
    assert "against pytorch Linear" in str(program.report).splitlines()[0]


class Counted(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(3, 2)

    def forward(self, x):
        return torch.dropout(self.fc(x), 0.5, self.training)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize("kind", ["scripted", "traced"])
def test_a_module_of_torchscript_is_exported_as_it_infers(kind, tmp_path):
    from onnxport.compat import torch as changed

    x, net = torch.randn(2, 3), Counted()
    model = torch.jit.script(net) if kind == "scripted" else torch.jit.trace(net.eval(), x)
    changed.onnx.export(
        model, (x,), tmp_path / "net.onnx", input_names=["x"], output_names=["y"], dynamic_axes={"x": [0], "y": [0]}
    )
    assert model.training is (kind == "scripted")
    session = onnxruntime.InferenceSession(tmp_path / "net.onnx", providers=["CPUExecutionProvider"])
    rows = torch.randn(5, 3)
    torch.testing.assert_close(torch.from_numpy(session.run(["y"], {"x": rows.numpy()})[0]), net.eval()(rows))


def test_a_mode_lasts_as_long_as_its_block():
    from onnxport.compat.torch.onnx import TrainingMode, errors, select_model_mode_for_export

    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout()).train()
    with select_model_mode_for_export(net, TrainingMode.EVAL):
        assert not any(part.training for part in net.modules())
    assert all(part.training for part in net.modules())
    assert issubclass(errors.UnsupportedOperatorError, errors.OnnxExporterError)


def test_a_stream_takes_the_bytes():
    from onnxport.compat import torch_onnx_export

    stream = io.BytesIO()
    torch_onnx_export(torch.nn.Linear(3, 2).eval(), torch.ones(4, 3), stream, opset_version=18)
    assert onnx.load_model_from_string(stream.getvalue()).opset_import[0].version == 18


REFUSED = [
    ({"export_params": False}, "export_params=False is not taken"),
    ({"custom_opsets": {"mine": 1}}, "'mine' at 1: the model has no operator of it"),
    ({"input_names": ["x", "w", "b", "more"]}, "input_names= has 4 names, and there are 3 inputs and parameters"),
    ({"report": True, "profile": True}, "profile=True is not taken"),
    ({"operator_export_type": 1}, "operator_export_type=1 is not taken"),
    ({"dynamic_axes": {"x": {0: "n"}}}, "dynamic_axes= names 'x'; the inputs are input: give input_names="),
    ({"dynamic_axes": {"x": {0: "n"}}, "dynamic_shapes": {}}, "exclude each other"),
    ({"operator_export_type": torch.onnx.OperatorExportTypes.ONNX_ATEN}, "operators of ATen are refused by name"),
]


@pytest.mark.parametrize(("options", "message"), REFUSED, ids=[row[1][:40] for row in REFUSED])
def test_what_means_nothing_here_is_refused_by_name(options, message):
    from onnxport.compat import torch_onnx_export

    with pytest.raises(ValueError, match=r".") as error:
        torch_onnx_export(torch.nn.Linear(3, 2).eval(), torch.ones(4, 3), **options)
    assert message in str(error.value)


def test_weights_of_another_shape_are_refused():
    from onnxport.compat import torch_onnx_export

    program = torch_onnx_export(torch.nn.Linear(3, 2).eval(), torch.ones(4, 3))
    with pytest.raises(ValueError, match=r"apply_weights: 'weight' is \[5, 3\], the module's \[2, 3\]"):
        program.apply_weights(torch.nn.Linear(3, 5).state_dict())


def test_weights_of_later_come_in_the_graphs_layout():
    """A graph holds the projections of attention transposed, which a square matrix does not show."""
    from onnxport.compat import torch_onnx_export

    torch.manual_seed(0)
    first, later = (torch.nn.MultiheadAttention(4, 2, batch_first=True).eval() for _ in range(2))
    torch.nn.init.normal_(later.out_proj.weight)
    x = torch.randn(2, 5, 4)
    program = torch_onnx_export(first, (x, x, x))
    program.apply_weights({**later.state_dict(), "unknown": torch.ones(2)})
    torch.testing.assert_close(program(x, x, x)[0], later(x, x, x)[0])
    with pytest.raises(ValueError, match="the module is not at hand"):
        pickle.loads(pickle.dumps(program)).apply_weights(later.state_dict())
    with pytest.raises(ValueError, match="a ExportedProgram takes no weights"):
        torch_onnx_export(torch.export.export(first, (x, x, x))).apply_weights(later.state_dict())


def test_every_argument_of_torch_is_there():
    import inspect

    from onnxport.compat import torch_onnx_export

    theirs = set(inspect.signature(torch.onnx.export).parameters) - {"deprecated_kwargs"}
    assert theirs - set(inspect.signature(torch_onnx_export).parameters) <= {"operator_export_type"}


def test_the_functions_are_listed():
    from onnxport import compat

    assert dir(compat) == sorted(compat.__all__)
    assert all(callable(getattr(compat, name)) for name in ("torch_onnx_export",))
