"""Options that a person types: what each prints, writes and leaves out."""

import hashlib
import re
from io import StringIO

import numpy as np
import pytest
from rich.console import Console

from onnxport.cli import console
from onnxport.progress import stage

torch = pytest.importorskip("torch", reason="PyTorch is an extra")
pytestmark = pytest.mark.pytorch

NETS = """
import torch

class Gru(torch.nn.Module):
    "Names of weights and a free batch."

    def __init__(self):
        super().__init__()
        self.body = torch.nn.GRU(4, 3, batch_first=True)

    def forward(self, x):
        return self.body(x)[0]

def net():
    torch.manual_seed(0)
    return Gru().eval(), (torch.randn(2, 3, 4),)

class Odd(torch.nn.Module):
    def forward(self, x):
        return torch.linalg.ldl_factor_ex(x)[0] + torch.linalg.eig(x)[0].real

def odd():
    return Odd(), (torch.eye(2),)
"""


@pytest.fixture
def nets(module):
    return module(NETS)


def test_a_report_says_nothing_of_how_the_usual_trace_is_done(run, nets):
    done = run("convert", f"{nets}:net", "-o", "net.onnx")
    assert (done.code, done.err) == (0, "")
    assert "note:" not in done.out
    assert "against pytorch Gru\n" in done.out
    done = run("convert", "net.onnx", "-o", "net.pt2")
    assert (done.code, done.err) == (0, "")
    assert "pytorch Main against onnx net.onnx" in done.out


def test_quiet_prints_nothing_and_the_exit_code_says_it(run, nets):
    done = run("convert", f"{nets}:net", "-o", "net.onnx", "-q")
    assert (done.code, done.out, done.err) == (0, "", "")
    done = run("validate", f"{nets}:net", "net.onnx", "-q", "--rtol", "0", "--atol", "0")
    assert (done.code, done.out, done.err) == (1, "", "")


@pytest.mark.parametrize(
    ("terminal", "quiet", "expected"), [(True, False, True), (True, True, False), (False, False, False)]
)
def test_a_terminal_shows_the_stage_that_runs(monkeypatch, terminal, quiet, expected):
    shown = StringIO()
    monkeypatch.setattr(console, "err", Console(file=shown, force_terminal=terminal, width=100))
    with console.outcome(False, "converting net", quiet=quiet):
        stage("lowering")
    assert ("converting net: lowering" in shown.getvalue()) == expected
    assert expected or not shown.getvalue()


def test_verbose_names_the_stages(run, nets):
    done = run("convert", f"{nets}:net", "-o", "net.onnx", "-v")
    stages = [line.split("ms", 1)[1].strip() for line in done.err.splitlines()]
    assert stages[:3] == ["preparing", "tracing", "lowering"]
    assert stages[-1] == "writing net.onnx"
    assert "proving: given" in stages


def test_verbose_shows_the_traceback_of_an_error(run, nets):
    assert "Traceback" not in run("convert", f"{nets}:odd").err
    assert "Traceback" in run("convert", f"{nets}:odd", "-v").err


def test_check_names_what_does_not_convert_and_writes_nothing(run, nets, tmp_path):
    before = set(tmp_path.iterdir())
    done = run("convert", f"{nets}:odd", "--check", "-o", "odd.onnx")
    assert done.code == 2
    assert "aten::linalg_eig.default: " in done.err
    line = 1 + NETS.splitlines().index("        return torch.linalg.ldl_factor_ex(x)[0] + torch.linalg.eig(x)[0].real")
    assert f"{nets}.py:{line}" in done.err
    done = run("convert", f"{nets}:net", "--check")
    assert done.code == 0
    assert f"{nets}:net converts to onnx: 3 operators (onnxport::gru.default" in done.out
    done = run("convert", f"{nets}:net", "--check", "--to", "keras", "--json")
    assert done.json["operators"]["onnxport::gru.default"] > 0
    assert {path for path in tmp_path.iterdir() if path.name != "__pycache__"} == before


def test_html_holds_the_command_the_hash_and_the_verdict(run, nets, tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["onnxport", "convert", f"{nets}:net", "--html", "page.html"])
    assert run("convert", f"{nets}:net", "-o", "net.onnx", "--html", "page.html").code == 0
    page = (tmp_path / "page.html").read_text()
    assert f"onnxport convert {nets}:net --html page.html" in page
    assert hashlib.sha256((tmp_path / "net.onnx").read_bytes()).hexdigest() in page
    assert "UTC" in page
    assert "nodes have a value that the source knows" in page
    assert "a run of the converted model" in page


def test_a_failed_proof_leaves_its_page(run, nets, tmp_path):
    done = run("convert", f"{nets}:net", "-o", "net.onnx", "--html", "page.html", "--rtol", "0", "--atol", "0")
    assert done.code == 1
    assert not (tmp_path / "net.onnx").exists()
    page = (tmp_path / "page.html").read_text()
    assert page.index("<h1>") < page.index("failed", page.index("<body>")) < page.index(">Outputs<")


def test_a_round_trip_is_one_page_of_all_legs(run, nets, tmp_path):
    assert run("convert", f"{nets}:net", "-o", "net.onnx").code == 0
    done = run("roundtrip", "net.onnx", "--through", "pytorch", "--html", "trip.html")
    assert (done.code, done.err) == (0, "")
    page = (tmp_path / "trip.html").read_text()
    assert page.count("<h1>") == 1  # the verdict on the whole
    legs = re.findall(r"<h2>(\w+ to \w+): ", page)
    assert legs == ["onnx to pytorch", "pytorch to onnx", "onnx to onnx"]
    assert page.count("Table of layers") == 2  # of the legs that end in ONNX


def test_ops_shows_what_matches(run):
    done = run("ops", "pytorch", "celu", "--json")
    assert [row["op"] for row in done.json["pytorch"]["to_onnx"]] == ["aten::celu"]
    assert [row["op"] for row in done.json["pytorch"]["from_onnx"]] == ["Celu"]
    assert run("ops", "pytorch", "no_such_*", "--json").json == {"pytorch": {"to_onnx": [], "from_onnx": []}}
    assert "[time, batch, channels]" in run("ops", "pytorch", "conv_tbc").out  # no markup
    assert run("ops", "pytorch", "no_such_*").out.startswith("no operator has 'no_such_*' in its name")


@pytest.mark.parametrize(
    ("typed", "right"),
    [
        ("q:5x2", "q=5x2"),
        ("x=1,3,224,224", "x=1x3x224x224"),
        ("[1, 3]", "1x3"),
        ("ids:[2,7]:int64", "ids=2x7:int64"),
        ("nonsense", "NAME=1x3x224x224:float32"),
    ],
)
def test_a_wrong_input_shape_is_answered_with_the_right_form(run, nets, typed, right):
    done = run("convert", f"{nets}:Gru", "--input-shape", typed)
    assert done.code == 2
    assert f"input shape {typed!r}: written as {right}, " in done.err


TF2ONNX = [
    (["--saved-model", "folder", "--output", "m.onnx", "--opset", "17"], "no file or directory 'folder'"),
    (["--graphdef=graph.pb", "--large_model"], "no file or directory 'graph.pb'"),
    (["--checkpoint", "weights.meta", "--output", "m.onnx"], "no file or directory 'weights.meta'"),
    (["--custom-ops", "Mine"], "register the operator"),
    (["--saved-model", "folder", "--inputs-as-nchw", "x:0"], "no file or directory 'folder'"),
    (["--input", "graph.pb", "--inputs", "x:0", "--outputs", "y:0"], "no file or directory 'graph.pb'"),
    (["--saved-model", "folder", "--inputs", "x:0[2,8]"], "a signature names its inputs itself"),
    (["--saved-model", "folder", "--outputs", "y", "--rename-outputs", "z"], "--cut-outputs NAME"),
    (["--saved-model", "folder", "--ignore_default", "x"], "any other a constant"),
    (["--saved-model", "folder", "--use_default", "x"], "in the function that is converted"),
    (["--saved-model", "folder", "--output_frozen_graph", "f.pb"], "none is frozen"),
]


@pytest.mark.parametrize(("arguments", "answer"), TF2ONNX)
def test_options_of_tf2onnx_are_taken_or_answered(run, arguments, answer):
    done = run("tf2onnx", *arguments)
    assert done.code == 2
    assert answer in " ".join(done.err.replace("│", " ").split())


@pytest.mark.tensorflow
def test_options_of_tf2onnx_convert_a_saved_model(run, tmp_path):
    tf = pytest.importorskip("tensorflow", reason="TensorFlow is an extra")

    class Doubled(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec((None, 5, 3), name="x")])
        def __call__(self, x):
            return {"y": 2 * x}

    module = Doubled()
    tf.saved_model.save(module, str(tmp_path / "m"), signatures={"double": module.__call__})
    options = "--saved-model m --signature_def double --output m.onnx --opset 18 --rename-inputs a --rename-outputs b"
    done = run("tf2onnx", *options.split(), "--inputs_as_nchw", "a:0")
    assert (done.code, done.err) == (0, "")
    assert "tensorflow SavedModel" not in done.out
    assert "against tensorflow m\n" in done.out
    from onnxport import OnnxModel

    model = OnnxModel.load(tmp_path / "m.onnx")
    assert (model.opset, model.input_names, model.output_names) == (18, ["a"], ["b"])
    assert model(a=np.ones((2, 3, 5), np.float32)).shape == (2, 5, 3)
    done = run("tf2onnx", "m", "-o", "n.onnx", "--inputs-as-nchw", "z")
    assert (done.code, done.err) == (2, "error: inputs_as_nchw: there is no 'z' but x\n")
