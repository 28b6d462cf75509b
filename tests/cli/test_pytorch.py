"""The path of a PyTorch model through the command line."""

import numpy as np
import onnx
import onnxruntime
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is an extra")
pytestmark = pytest.mark.pytorch

MODELS = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first = torch.nn.Linear(4, 8)
        self.drop = torch.nn.Dropout(0.5)
        self.last = torch.nn.Linear(8, 3)

    def forward(self, x):
        return self.last(self.drop(self.first(x).relu()))

model = Net()

def factory():
    return Net()

def with_inputs():
    return Net(), (torch.randn(2, 4, generator=torch.Generator().manual_seed(1)),)

def function(x, y):
    return x + 2 * y

def example():
    return (torch.ones(2, 4), torch.ones(4))

def program():
    torch.manual_seed(0)
    return torch.export.export(torch.nn.Linear(4, 2), (torch.ones(3, 4),))

def unsupported():
    class Odd(torch.nn.Module):
        def forward(self, x):
            return torch.linalg.eigvals(x).real + torch.linalg.eig(x)[0].real
    return Odd(), (torch.eye(2),)

def broken():
    raise RuntimeError("no weights here")
"""


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("model", ["--input-shape", "2x4"]),
        ("factory", ["--input-shape", "x=2x4"]),
        ("Net", ["--input-shape", "2x4:float32"]),
        ("with_inputs", []),
        ("function", ["--inputs", "MODULE:example"]),
    ],
)
def test_models_by_module_and_name(run, module, tmp_path, name, options):
    models = module(MODELS)
    options = [item.replace("MODULE", models) for item in options]
    done = run("convert", f"{models}:{name}", "-o", "net.onnx", "--json", *options)
    assert (done.code, done.err) == (0, "")
    assert done.json["validation"]["passed"]
    onnx.checker.check_model(tmp_path / "net.onnx", full_check=True)
    assert run("validate", f"{models}:{name}", "net.onnx", *options).code == 0


def test_names_dimensions_and_opset_are_the_users(run, module):
    options = ["--input-names", "features", "--output-names", "scores", "--dynamic", "x:0=rows", "--opset", "17"]
    found = run("convert", f"{module(MODELS)}:with_inputs", "-o", "net.onnx", "--json", *options).json
    assert [(item["name"], item["shape"]) for item in found["inputs"]] == [("features", ["rows", 4])]
    assert [(item["name"], item["shape"]) for item in found["outputs"]] == [("scores", ["rows", 3])]
    assert found["opsets"] == {"": 17}


def test_one_changed_weight_is_a_mismatch(run, module, tmp_path):
    models = module(MODELS)
    assert run("convert", f"{models}:with_inputs", "-o", "net.onnx").code == 0
    proto = onnx.load(tmp_path / "net.onnx")
    tensor = next(item for item in proto.graph.initializer if item.name == "first.weight")
    weight = onnx.numpy_helper.to_array(tensor).copy()
    weight[0, 0] += 0.01
    tensor.CopyFrom(onnx.numpy_helper.from_array(weight, tensor.name))
    onnx.save(proto, tmp_path / "net.onnx")
    done = run("validate", f"{models}:with_inputs", "net.onnx", "--json")
    assert done.code == 1
    assert done.json["passed"] is False
    assert "1 of 4 weights of the file have other values than the source's ('first.weight')" in done.json["notes"]


def test_weights_that_are_drawn_anew_are_noted(run, module):
    models = module(MODELS.replace("torch.manual_seed(0)", "pass"))
    assert run("convert", f"{models}:with_inputs", "-o", "net.onnx").code == 0
    done = run("validate", f"{models}:with_inputs", "net.onnx")
    assert done.code == 1
    assert (
        "4 of 4 weights of the file have other values than the source's ('first.weight'): a source that draws"
        in done.out
    )


@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
def test_weights_come_from_a_file(run, module, tmp_path, suffix):
    safetensors = pytest.importorskip("safetensors.torch", reason="safetensors comes with transformers")
    state = {
        "first.weight": torch.full((8, 4), 0.5),
        "first.bias": torch.zeros(8),
        "last.weight": torch.ones(3, 8),
        "last.bias": torch.zeros(3),
    }
    path = tmp_path / f"weights{suffix}"
    torch.save(state, path) if suffix == ".pt" else safetensors.save_file(state, path)
    np.save(tmp_path / "x.npy", np.ones((2, 4), np.float32))
    models = module(MODELS)
    assert run("convert", f"{models}:Net", "--weights", path, "--inputs", "x.npy", "-o", "net.onnx").code == 0
    from onnxport import OnnxModel

    np.testing.assert_allclose(OnnxModel.load(tmp_path / "net.onnx")(np.ones((1, 4), np.float32)), [[16, 16, 16]])


def test_an_exported_program_needs_no_inputs(run, module, tmp_path):
    torch.manual_seed(0)
    program = torch.export.export(torch.nn.Linear(4, 2), (torch.ones(3, 4),))
    torch.export.save(program, tmp_path / "linear.pt2")
    assert run("convert", "linear.pt2").code == 0
    assert run("validate", "linear.pt2", "linear.onnx").code == 0
    assert run("convert", f"{module(MODELS)}:program").code == 0
    assert run("validate", "linear.pt2", "program.onnx").code == 0


REFUSED = [
    (["convert", "MODULE:factory"], "--input-shape"),
    (["convert", "MODULE:missing"], "has no 'missing'"),
    (["convert", "no_such_module_at_all:net"], "there is no module 'no_such_module_at_all'"),
    (["convert", "MODULE:broken"], "no weights here"),
    (["convert", "MODULE:factory", "--input-shape", "2x5"], "x"),
    (["convert", "MODULE:with_inputs", "--weights", "missing.pt"], "no weights file"),
    (["convert", "MODULE:with_inputs", "--weights", "text.pt"], "truncated"),
    (["convert", "MODULE:with_inputs", "--weights", "text.safetensors"], "truncated"),
    (["convert", "MODULE:with_inputs", "--weights", "other.pt"], "do not fit"),
    (["convert", "MODULE:with_inputs", "--weights", "code.pt"], "would run code"),
    (["convert", "text.pt2"], "truncated"),
    (["convert", "MODULE:with_inputs", "--opset", "12"], "--opset 12: a version"),
    (["convert", "MODULE:with_inputs", "--dynamic", "z:0=batch"], "z"),
    (["convert", "MODULE:with_inputs", "-o", "text.pt2/net.onnx"], "no folder"),
    (["keras2onnx", "MODULE:with_inputs"], "is a model of pytorch, not of keras"),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSED, ids=[" ".join(row[0]) for row in REFUSED])
def test_refusals_are_short_and_leave_no_file(run, module, tmp_path, arguments, message):
    models = module(MODELS)
    for name in ("text.pt", "text.pt2", "text.safetensors"):
        (tmp_path / name).write_text("this is no model")
    torch.save({"first.weight": torch.ones(2)}, tmp_path / "other.pt")
    torch.save(torch.nn.Linear(2, 2), tmp_path / "code.pt")
    before = set(tmp_path.iterdir())
    done = run(*[item.replace("MODULE", models) for item in arguments])
    assert done.code == 2, done
    assert message in done.err
    assert "Traceback" not in done.err
    assert done.out == ""
    assert {path for path in tmp_path.iterdir() if path.name != "__pycache__"} == before


def test_all_unsupported_operators_are_named_at_once(run, module):
    done = run("convert", f"{module(MODELS)}:unsupported", "--json")
    assert done.code == 2
    ops = [item["op"] for item in done.json["error"]["operators"]]
    assert ops == ["aten::linalg_eigvals.default", "aten::linalg_eig.default"]
    assert all(".py:" in item["where"] for item in done.json["error"]["operators"])


@pytest.mark.parametrize(
    "options", [["--emit-code", "code/net.py"], ["-o", "net.pt2", "--to", "pytorch", "--emit-code", "code/net.py"]]
)
def test_plain_source_is_written_too(run, module, tmp_path, options):
    (tmp_path / "code").mkdir()
    assert run("convert", f"{module(MODELS)}:with_inputs", "-o", "net.onnx").code == 0
    done = run("convert", "net.onnx", "--json", *options, "--emit-code", "code/net.py")
    assert (done.code, done.err, done.json["to"]) == (0, "", "pytorch")
    assert (tmp_path / done.json["output"]).exists()
    assert sorted(item.name for item in (tmp_path / "code").iterdir()) == ["net.py", "net.safetensors"]
    names = {"__file__": str(tmp_path / "code" / "net.py"), "__name__": "net"}
    exec((tmp_path / "code" / "net.py").read_text(), names)
    x = torch.randn(5, 4)
    session = onnxruntime.InferenceSession(tmp_path / "net.onnx", providers=["CPUExecutionProvider"])
    expected = session.run(None, {session.get_inputs()[0].name: x.numpy()})[0]
    np.testing.assert_allclose(names["load"]()(x).detach(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("options", [["--emit-code", "net.txt"], ["-o", "two.onnx", "--emit-code", "net.py"]])
def test_source_is_of_pytorch_alone(run, module, options):
    done = run("convert", f"{module(MODELS)}:with_inputs", *options)
    assert done.code == 2
    assert "a PyTorch module is written as source, to a file in .py; give --to pytorch" in done.err
