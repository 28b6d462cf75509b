"""More programs in the shape of onnx2torch's README and issues: what is done with a module that came from a file."""

import numpy as np
import onnx
import onnxruntime
import pytest

import onnxport
from tests.compat.programs import run

torch = pytest.importorskip("torch", reason="PyTorch is an extra")
pytestmark = pytest.mark.pytorch

START = """
import torch
from torch import nn
from onnx2torch import convert

torch.manual_seed(0)
image, ids = torch.randn(2, 3, 8, 8), torch.randint(0, 20, (3, 7))
"""
# Each leaves `feeds` by the names of the inputs, and `results` in the order of the outputs, of the file that `path` names.
PROGRAMS = {
    "words and a recurrent layer, of another length": """
path = "words.onnx"
model = convert(path)
feeds, results = {"ids": ids}, model(ids)
""",
    "a module that is traced": """
path = "net.onnx"
traced = torch.jit.trace(convert(path), image)
feeds, results = {"input": image}, [traced(image)]
""",
    "a module that is compiled": """
path = "net.onnx"
compiled = torch.compile(convert(path), backend="eager")
feeds, results = {"input": image}, [compiled(image)]
""",
    "its layers under their own names": """
path = "net.onnx"
model = convert(path)
kinds = [type(module).__name__ for module in model.modules()]
assert {"Conv2d", "BatchNorm2d", "Linear"} <= set(kinds)
feeds, results = {"input": image}, [model(image)]
""",
    "a hook behind a layer": """
path, shapes = "net.onnx", []
model = convert(path)
for module in model.modules():
    if isinstance(module, nn.Conv2d):
        module.register_forward_hook(lambda module, inputs, result: shapes.append(tuple(result.shape)))
feeds, results = {"input": image}, [model(image)]
assert shapes == [(2, 8, 8, 8)]
""",
    "a new head": """
path = "net.onnx"
model = convert(path)
for name, module in list(model.named_modules()):
    if isinstance(module, nn.Linear):
        parent, _, last = name.rpartition(".")
        head = nn.Linear(module.in_features, 7)
        setattr(model.get_submodule(parent), last, head)
assert model(image).shape == (2, 7)
setattr(model.get_submodule(parent), last, module)
feeds, results = {"input": image}, [convert(path)(image)]
""",
    "a training step": """
path = "net.onnx"
model = convert(path).train()
before = model.state_dict()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(image).square().mean().backward()
optimizer.step()
assert all(parameter.grad is not None for parameter in model.parameters())
feeds, results = {"input": image}, [convert(path)(image)]
""",
    "a message at an old opset": """
import onnx
text = '<ir_version: 4, opset_import: ["": 9]> g (float[N,4] x) => (float[N,4] y) {'
text += ' s = Softmax<axis=1>(x) c = Clip<min=0.1, max=0.5>(s) y = Dropout<ratio=0.5>(c) }'
message, path = onnx.parser.parse_model(text), "old.onnx"
onnx.save(message, path)
rows = torch.randn(3, 4)
feeds, results = {"x": rows}, [convert(message)(rows)]
""",
    "weights in a file beside it": """
import onnx
path = "apart.onnx"
onnx.save(onnx.load("net.onnx"), path, save_as_external_data=True, size_threshold=100, location="weights.bin")
feeds, results = {"input": image}, [convert(path)(image)]
""",
    "weights in eight bits": """
path = "net.onnx"
model = convert(path)
small = torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)
assert (small(image) - model(image)).abs().max() < 0.1
feeds, results = {"input": image}, [model(image)]
""",
    "a program and its constants folded": """
path = "net.onnx"
program = torch.export.export(convert(path).eval(), (image,)).run_decompositions()
feeds, results = {"input": image}, [program.module()(image)]
""",
}


class Words(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.body = torch.nn.Embedding(20, 8), torch.nn.LSTM(8, 6, batch_first=True, bidirectional=True)

    def forward(self, ids):
        states, (last, _) = self.body(self.table(ids))
        return states.mean(1), last


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder with the files that programs read."""
    folder = tmp_path_factory.mktemp("files")
    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.MaxPool2d(2)]
    net = torch.nn.Sequential(*layers, torch.nn.Flatten(), torch.nn.Linear(8 * 16, 4)).eval()
    onnxport.convert(net, inputs=(torch.randn(2, 3, 8, 8),), output=str(folder / "net.onnx"), target_opset=13)
    shapes = {"ids": {0: "batch", 1: "length"}}
    ids = torch.randint(0, 20, (2, 5))
    onnxport.convert(Words().eval(), inputs=(ids,), dynamic_shapes=shapes, output=str(folder / "words.onnx"))
    return folder


@pytest.mark.sampled(0.5)
@pytest.mark.filterwarnings("ignore")  # of what PyTorch itself gives up
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_a_program_runs_with_one_line_changed(program, files, monkeypatch):
    monkeypatch.chdir(files)
    old, new = "from onnx2torch import convert", "from onnxport.compat.onnx2torch import convert"
    left = run(START + program, old, new)
    onnx.checker.check_model(left["path"])
    session = onnxruntime.InferenceSession(left["path"], providers=["CPUExecutionProvider"])
    given = {name: tensor.numpy() for name, tensor in left["feeds"].items()}
    for expected, result in zip(session.run(None, given), left["results"], strict=True):
        np.testing.assert_allclose(result.detach().numpy(), expected, rtol=1e-4, atol=1e-5)
