"""The README, replayed: each command of it, and each Python block that is no example of its own, in a folder with such files."""

import re
import shlex
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest

import onnxport

torch = pytest.importorskip("torch", reason="PyTorch is an extra")
pytest.importorskip("keras", reason="Keras is an extra")
tf = pytest.importorskip("tensorflow", reason="TensorFlow is an extra")
pytestmark = [pytest.mark.pytorch, pytest.mark.keras, pytest.mark.tensorflow]

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
FENCED = re.findall(r"^```\n((?:onnxport .*\n)+)```$", README, re.MULTILINE)
COMMANDS = [shlex.split(line, comments=True)[1:] for text in FENCED for line in text.splitlines()]
FIRST = {
    "validate saved_model/": "convert saved_model/ -o model.onnx",
    "debug net.pt2": "convert net.pt2 -o net.onnx",
    "view net.onnx": "convert net.pt2 -o net.onnx",
    "validate net.onnx": "convert net.pt2 -o net.onnx --test-data",
}
"""What a command stands behind in the README: it reads what that one wrote."""
BLOCKS = re.findall(r"(?<!-->\n)^```python\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)

MODEL = """<ir_version: 8, opset_import: ["": 17]>
net (float[batch,3,8,8] x) => (float[batch,2] y)
<float[2,3,1,1] w = {0.5,-1,2,1,0.25,-0.5}, float[2] b = {0.1,-0.2}> {
  c = Conv(x, w, b) features = Relu(c) p = GlobalAveragePool(features) y = Flatten(p) }"""
SCALE = """<ir_version: 8, opset_import: ["": 17]>
scale (float[batch,3,8,8] image) => (float[batch,3,8,8] scaled) <float f = {0.5}> { scaled = Mul(image, f) }"""
NETS = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 2, 4, stride=4)

    def forward(self, x):
        return self.conv(x)

def factory():
    return Net()
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with every file that the commands name."""
    folder = tmp_path_factory.mktemp("readme")
    proto = onnx.parser.parse_model(MODEL)
    proto.graph.node[0].name = "Conv_0"
    for name in ("model.onnx", "before.onnx", "after.onnx"):
        onnx.save(proto, folder / name)
    onnx.save(onnx.parser.parse_model(SCALE), folder / "scale.onnx")
    onnxport.convert(folder / "model.onnx", to="tensorflow", output=folder / "saved_model", validate=False)
    (folder / "my_package").mkdir()
    (folder / "my_package" / "__init__.py").touch()
    (folder / "my_package" / "nets.py").write_text(NETS)
    names = {}
    exec(NETS, names)
    net = names["factory"]().eval()
    pytest.importorskip("safetensors.torch", reason="safetensors comes with transformers").save_file(
        net.state_dict(), folder / "net.safetensors"
    )
    torch.export.save(torch.export.export(net, (torch.ones(1, 3, 4, 4),)), folder / "net.pt2")
    runtime = folder / "my-runtime"  # one on which every file fails
    runtime.write_text("#!/bin/sh\nexit 1\n")
    runtime.chmod(0o755)
    return folder


@pytest.fixture
def place(made, tmp_path, monkeypatch):
    """A copy of the folder, as the working directory."""
    from onnxport.cli import view

    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    place = ("localhost", 8080)
    netron = SimpleNamespace(start=lambda path, browse: place, serve=lambda *_, browse: place, wait=lambda: None)
    monkeypatch.setattr(view, "find_spec", lambda name: name)
    monkeypatch.setattr(view, "import_module", lambda name: netron)
    yield tmp_path
    for name in [name for name in sys.modules if name.partition(".")[0] == "my_package"]:
        del sys.modules[name]


@pytest.mark.parametrize("words", [row for row in COMMANDS if "path/to" not in " ".join(row)], ids=" ".join)
def test_a_command_runs_and_writes_nothing_to_standard_error(run, place, words):
    if "--runtimes" in words:
        for engine in words[words.index("--runtimes") + 1].split(","):
            pytest.importorskip(engine, reason=f"{engine} is an extra")
    first = FIRST.get(" ".join(words[:2]))
    if first is not None:
        assert run(*first.split()).code == 0
    if words[0] == "report":  # of what commands printed with --json
        for report in (item for item in words if item.endswith(".json")):
            Path(report).write_text(run("validate", "before.onnx", "after.onnx", "--json").out)
    done = run(*words)
    assert (done.code, done.err) == (0, ""), done.err
    if "-o" in words:
        assert (place / words[words.index("-o") + 1]).exists()


@pytest.mark.huggingface
def test_the_commands_on_folders(run, tmp_path):
    """Those of the README on folders of transformers' models, without their proofs, which other tests run."""
    models = pytest.importorskip("tests.huggingface.models", reason="transformers is an extra")
    rows = [row for row in COMMANDS if "path/to" in " ".join(row)]
    assert len(rows) == 3
    (tmp_path / "path" / "to").mkdir(parents=True)
    for name, kind in (("llama", "LlamaForCausalLM"), ("bert", "BertModel")):
        Path(models.folder(tmp_path, kind, hidden_size=64, intermediate_size=64)).rename(
            tmp_path / "path" / "to" / name
        )
    for words in rows:
        done = run(*words, "--no-validate")
        assert (done.code, done.err) == (0, "")
        assert (tmp_path / words[words.index("-o") + 1] / "model.onnx").exists()


class Encoder(torch.nn.Module):
    """What keeps its last chunk."""

    def __init__(self):
        super().__init__()
        self.register_buffer("context", torch.zeros(1, 3))

    def forward(self, chunk):
        result = chunk + self.context
        self.context.copy_(chunk)
        return result


def names_of(block):
    """What stands in a block without being made in it."""
    torch.manual_seed(0)
    names = {"onnxport": onnxport, "x": torch.randn(2, 4), "net": torch.nn.Linear(4, 3).eval(), "__name__": "readme"}
    if "states=" in block:
        chunks = [np.float32([[1, 2, 3]]), np.float32([[4, 5, 6]])]
        names |= {"encoder": Encoder().eval(), "chunk": torch.ones(1, 3), "chunks": chunks}
    if "functions=" in block:
        layer = torch.nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
        names |= {"encoder": torch.nn.TransformerEncoder(layer, 2).eval(), "x": torch.randn(2, 5, 4)}
    return names | {"build": lambda: names["net"]}


@pytest.mark.parametrize("block", BLOCKS, ids=[text.splitlines()[0][:40] for text in BLOCKS])
def test_a_block_runs(block, tmp_path, monkeypatch, capfd, request):
    monkeypatch.chdir(tmp_path)
    names = names_of(block)
    exec(compile(block, "README.md", "exec"), names)
    for name, value in list(names.items()):
        if name.startswith("test_"):
            value(request.getfixturevalue("assert_converts"))
    if "states=" in block:
        assert np.asarray(names["output"]).tolist() == [[5, 7, 9]]
    if "functions=" in block:
        assert [node.op_type for node in names["model"].proto.graph.node].count("TransformerEncoderLayer") == 2
    assert capfd.readouterr().err == ""


def test_nothing_is_left_out():
    assert len(BLOCKS) == 5
    assert README.count("```python") == len(BLOCKS) + README.count("-->\n```python")
    assert len(COMMANDS) > 20
