"""Imported modules as plain PyTorch files: they run without onnxport, give the same numbers, and fold repeated blocks."""

import os
import subprocess
import sys

import numpy as np
import onnx
import pytest

import onnxport
from onnxport.errors import UnsupportedOperator

torch = pytest.importorskip("torch", reason="PyTorch is an extra")
pytestmark = pytest.mark.pytorch
nn = torch.nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(4, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)
        self.scale = nn.Parameter(torch.ones(4, 1, 1))

    def forward(self, x):
        return torch.relu(self.bn1(self.conv1(x)) * self.scale + x)


class Images(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, 2)
        self.layer1 = nn.Sequential(Block(), Block(), Block())
        self.head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 5))

    def forward(self, x):
        return self.head(self.layer1(self.stem(x)))


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(20, 8)
        self.rnn = nn.LSTM(8, 4, 2, batch_first=True, bidirectional=True)
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, activation="gelu")
        self.encoder = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
        self.head = nn.Linear(8, 20, bias=False)
        self.head.weight = self.words.weight

    def forward(self, ids):
        return self.head(self.encoder(self.rnn(self.words(ids))[0])).half()


class Nested(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Sequential(Block(), Block(), Block()), Sums())


class Sums(nn.Module):
    def forward(self, x):
        rows = x.flatten(1)
        return rows.scatter_add(1, torch.zeros_like(rows, dtype=torch.int64), rows)


MODELS = {
    "nested": (Nested, lambda n: torch.randn(n, 4, 6, 6), "for block in getattr(self, '0'):"),
    "images": (Images, lambda n: torch.randn(n, 3, 16, 16), "for block in self.layer1:"),
    "words": (Words, lambda n: torch.randint(0, 20, (n, 6)), "for block in self.encoder.layers:"),
}
_RUN = """
import sys
sys.modules["onnxport"] = None
sys.path.insert(0, sys.argv[1])
import torch, net
model = net.load()
given, state = torch.load(sys.argv[1] + "/given.pt")
model.load_state_dict(state, strict=False)
assert [key for key in model.state_dict() if key in state] == list(state)
torch.save([model(*args) for args in given], sys.argv[1] + "/results.pt")
"""


@pytest.mark.parametrize("name", MODELS)
def test_a_file_runs_without_onnxport_and_folds_repeated_blocks(name, tmp_path):
    build, draw, loop = MODELS[name]
    torch.manual_seed(0)
    module, other = build().eval(), build().eval()
    graph = onnxport.convert(module, inputs=(draw(2),), validate=False)
    onnxport.convert(graph, to="pytorch", output=tmp_path / "net.py", validate=False)
    given = [(draw(n),) for n in (2, 5)]
    torch.save((given, other.state_dict()), tmp_path / "given.pt")
    subprocess.run([sys.executable, "-c", _RUN, os.fspath(tmp_path)], check=True, cwd=tmp_path)
    for args, result in zip(given, torch.load(tmp_path / "results.pt"), strict=True):
        torch.testing.assert_close(result, other(*args), rtol=1e-3, atol=1e-3)
    text = (tmp_path / "net.py").read_text()
    assert loop in text
    assert text.count("nn.LSTM(") == (name == "words")


def test_names_of_a_file_stand_quoted_in_the_source(tmp_path):
    names = ['a"b', "x\n__import__('os')", "class", "0", "a/b:0"]
    initializers = [onnx.numpy_helper.from_array(np.full(3, i + 1.0, np.float32), name) for i, name in enumerate(names)]
    nodes, last = [], "x"
    for i, name in enumerate(names):
        nodes.append(onnx.helper.make_node("Mul", [last, name], [f"h{i}"]))
        last = f"h{i}"
    kind = onnx.TensorProto.FLOAT
    inputs, outputs = ([onnx.helper.make_tensor_value_info(item, kind, ["N", 3])] for item in ("x", last))
    graph = onnx.helper.make_graph(nodes, "None", inputs, outputs, initializers)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10)
    onnxport.convert(model, to="pytorch", output=tmp_path / "net.py", validate=False)
    space = {"__file__": os.fspath(tmp_path / "net.py"), "__name__": "net"}
    exec(compile((tmp_path / "net.py").read_text(), "net.py", "exec"), space)
    assert "__import__" not in (tmp_path / "net.py").read_text().replace("getattr(self, ", "").replace("'x", "").split(
        "\n"
    )
    torch.testing.assert_close(space["load"]()(torch.ones(2, 3)), torch.full((2, 3), 120.0))


def test_what_values_decide_is_refused_by_name(tmp_path):
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]> g (float[N, 4] x) => (float[N, 4] y)
        {zero = Constant <value = float {0.0}> () s = ReduceSum <keepdims = 0> (x) c = Greater (s, zero)
         y = If (c) <then_branch = a () => (float[N, 4] p) {p = Neg (x)},
                     else_branch = b () => (float[N, 4] q) {q = Exp (x)}>}"""
    )
    with pytest.raises(UnsupportedOperator, match="cond: Cond, a branch or loop"):
        onnxport.convert(model, to="pytorch", output=tmp_path / "net.py", validate=False)
    assert not list(tmp_path.iterdir())
