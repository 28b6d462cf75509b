"""How a command is typed: what is missing or mistyped is answered in a line, and folders for results are created."""

from importlib import import_module

import onnx
import pytest

import onnxport

NET = """<ir_version: 8, opset_import: ["": 17]>
net (float[batch,3] x) => (float[batch,3] y) { y = Relu(x) }"""


@pytest.fixture
def net(tmp_path):
    onnx.save(onnx.parser.parse_model(NET), tmp_path / "net.onnx")


MISTYPED = [
    (["convert"], "onnxport convert: SOURCE is missing: A file, a folder"),
    (["validate"], "onnxport validate: SOURCE is missing"),
    (["merge", "net.onnx"], "onnxport merge: "),
    (["check", "net.onnx"], "onnxport check: --for is missing: tensorrt, coreml"),
    (["roundtrip", "net.onnx"], "onnxport roundtrip: --through is missing: pytorch, tensorflow"),
    (["reduce", "net.onnx"], "onnxport reduce: --output is missing: "),
    (["slim", "net.onnx"], "onnxport slim: --output is missing: "),
    (["convert", "net.onnx", "--opset", "new"], "onnxport convert --opset 'new': "),
    (["convert", "net.onnx", "--rtol=small"], "onnxport convert --rtol 'small': "),
    (["convert", "net.onnx", "-o"], "option '-o' requires an argument; onnxport convert --help lists all"),
    (["convert", "net.onnx", "more.onnx"], "(more.onnx); onnxport convert --help lists all"),
    (["conver", "net.onnx"], "no such command 'conver'. Did you mean 'convert'?"),
    (["--opset", "convert"], "--opset is no option of onnxport; onnxport --help lists all"),
    (["tf2onnx", "--custom-ops", "Mine"], "--custom-ops is tf2onnx's: register the operator"),
]


@pytest.mark.parametrize("typed, answer", MISTYPED, ids=[" ".join(row[0]) for row in MISTYPED])
def test_what_is_mistyped_is_answered_in_a_line(run, net, typed, answer):
    done = run(*typed)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: ")
    assert answer in done.err
    assert done.err.count("\n") == 1


def test_every_command_answers_a_missing_argument_in_a_line(run):
    from onnxport.cli.main import app

    names = [item.name or item.callback.__name__.replace("_", "-") for item in app.registered_commands]
    assert len(names) > 20
    for name in names:
        if name != "ops":  # which needs none
            done = run(name)
            assert (done.code, done.out, done.err.count("\n")) == (2, "", 1), done
            assert done.err.startswith(f"error: onnxport {name}: ")


def test_folders_for_results_are_created(run, net, tmp_path):
    done = run("convert", "net.onnx", "--opset", "18", "-o", "out/deep/new.onnx", "--html", "pages/report.html")
    assert (done.code, done.err) == (0, "")
    assert (tmp_path / "out" / "deep" / "new.onnx").is_file()
    assert (tmp_path / "pages" / "report.html").is_file()
    assert run("slim", "net.onnx", "-o", "slim/net.onnx").code == 0
    assert (tmp_path / "slim" / "net.onnx").is_file()


def test_a_command_that_fails_leaves_no_folder(run, net, tmp_path):
    before = set(tmp_path.iterdir())
    assert run("convert", "missing.onnx", "-o", "out/deep/new.onnx").code == 2
    assert run("convert", "net.onnx", "--to", "keras", "-o", "out/new.onnx", "--html", "pages/report.html").code == 2
    assert set(tmp_path.iterdir()) == before


def test_a_file_is_no_folder(run, net, tmp_path):
    done = run("convert", "net.onnx", "--opset", "18", "-o", "net.onnx/new.onnx")
    assert done.code == 2
    assert "'net.onnx'" in done.err


SOURCES = """
import numpy as np

ROWS = np.ones((4, 3), np.float32)

def pytorch():
    import torch
    torch.manual_seed(0)
    return torch.nn.Linear(3, 2).eval(), (torch.from_numpy(ROWS),)

def tensorflow():
    import tensorflow as tf
    class Net(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec((None, 3), name="x"), tf.TensorSpec((None, 3), name="z")])
        def __call__(self, x, z):
            return {"y": 2 * x + z}
    return Net(), (ROWS, ROWS)

def keras():
    import keras
    keras.utils.set_random_seed(0)
    return keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)]), (ROWS,)

def sklearn():
    from pandas import DataFrame
    from sklearn.linear_model import LinearRegression
    table = DataFrame({"a": [1.0, 2, 3, 5], "b": [3.0, 4, 5, 1]})
    return LinearRegression().fit(table, [1, 2, 3, 4]), table
"""


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=getattr(pytest.mark, name)) for name in ("pytorch", "tensorflow", "keras", "sklearn")],
)
def test_static_fixes_every_dimension(run, module, name):
    pytest.importorskip("torch" if name == "pytorch" else name, reason=f"{name} is an extra")
    models = module(SOURCES)
    varying = run("convert", f"{models}:{name}", "-o", "varying.onnx", "--json").json
    assert all(not isinstance(item["shape"][0], int) for item in varying["inputs"])
    done = run("convert", f"{models}:{name}", "-o", "fixed.onnx", "--static", "--json")
    assert (done.code, done.err) == (0, "")
    assert all(item["shape"][0] == 4 and isinstance(item["shape"][-1], int) for item in done.json["inputs"])
    read = onnx.load("fixed.onnx").graph.input
    assert [item.type.tensor_type.shape.dim[0].dim_value for item in read] == [4] * len(read)
    rows = [shape[0] for item in done.json["validation"]["sets"] for _, _, shape in item["inputs"]]
    assert set(rows) == {4}  # the report is that of the file, not of the one whose rows vary
    assert done.json["validation"]["source"]["framework"] == name
    assert run("validate", f"{models}:{name}", "fixed.onnx").code == 0


def test_static_of_an_onnx_file_goes_by_the_examples(run, net):
    done = run("convert", "net.onnx", "-o", "fixed.onnx", "--static", "--input-shape", "x=5x3", "--json")
    assert (done.code, done.json["inputs"][0]["shape"]) == (0, [5, 3])
    done = run("convert", "net.onnx", "-o", "none.onnx", "--static")
    assert (done.code, done.out) == (2, "")
    assert "dimension 0 of 'x' varies, and no example has its size" in done.err
    assert "exclude each other" in run("convert", "net.onnx", "--static", "--dynamic", "x:0=4").err
    assert "one ONNX file" in run("convert", "net.onnx", "--static", "--to", "keras").err


MODES = """
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.norm, self.drop = torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.5)
    def forward(self, x): return self.drop(self.norm(self.body(x)))
def net():
    torch.manual_seed(0)
    return Net(), (torch.ones(2, 3),)
def ready():
    model, inputs = net()
    return model.eval(), inputs
"""


@pytest.mark.pytorch
def test_a_factory_in_training_mode_is_converted_for_inference_and_a_note_says_so(run, module):
    """The module that a person holds is another matter: the API converts it in its mode, or refuses it."""
    pytest.importorskip("torch", reason="PyTorch is an extra")
    models, note = module(MODES), "its factory gave the model in training mode; the command called model.eval()"
    done = run("convert", f"{models}:net", "-o", "net.onnx")
    assert (done.code, done.err) == (0, "")
    assert f"note: {note}" in done.out
    assert note in run("convert", f"{models}:net", "-o", "net.onnx", "--no-validate").out
    assert note in run("validate", f"{models}:net", "net.onnx").out
    assert note in run("roundtrip", f"{models}:net", "--through", "pytorch").out
    assert "training mode" not in run("convert", f"{models}:ready", "-o", "net.onnx").out
    net, inputs = import_module(models).net()
    with pytest.raises(onnxport.UnsupportedOperator, match=r"training updates these statistics.*call model\.eval\(\)"):
        onnxport.convert(net, inputs=inputs)
    assert net.training
    assert onnxport.convert(net.eval(), inputs=inputs).report.passed


@pytest.mark.pytorch
def test_what_is_named_wrong_is_answered_with_the_right_name(run, module, net):
    pytest.importorskip("torch", reason="PyTorch is an extra")
    name = module("import torch\n\nclass Net(torch.nn.Linear):\n    pass\n\ndef make():\n    return Net(4, 2)\n")
    answers = {
        ("convert", f"{name}:mke"): [f"'{name}' has no 'mke'; did you mean 'make'?"],
        ("convert", f"{name}:Net"): ["'Net' is a class that needs arguments", "def make(): return Net(...)"],
        ("convert", "no_such_module:make"): ["no module 'no_such_module' in this folder or on PYTHONPATH"],
        ("extract", "net.onnx", "--to", "nothing", "-o", "part.onnx"): ["--to: the graph has no value 'nothing'"],
        ("extract", "net.onnx", "--from", "nothing", "-o", "part.onnx"): ["--from: the graph has no value 'nothing'"],
        ("set-shapes", "net.onnx", "x:9=1", "-o", "fixed.onnx"): ["error: 'x' has no dimension 9"],
    }
    for words, parts in answers.items():
        done = run(*words)
        assert done.code == 2
        assert [part for part in parts if part not in done.err] == [], done.err
