"""Test data in the Model Zoo's layout: written from the source, replayed without it."""

import numpy as np
import onnx
import pytest

from onnxport.graph import test_vectors as vectors
from tests.workbench.graphs import files as files

NETS = """
import torch
class Net(torch.nn.Module):
    def __init__(self):
        torch.manual_seed(0)
        super().__init__()
        self.dense = torch.nn.Linear(3, 4)
    def forward(self, x, shift):
        y = self.dense(x + shift).softmax(-1)
        return {"scores": y, "best": y.argmax(-1)}
def net(): return Net().eval(), (torch.randn(2, 3), torch.randn(3))
"""


def tensor(path):
    proto = onnx.TensorProto()
    proto.ParseFromString(path.read_bytes())
    return onnx.numpy_helper.to_array(proto)


@pytest.mark.pytorch
def test_what_the_source_gives_travels_with_the_file(run, module, tmp_path):
    torch = pytest.importorskip("torch", reason="PyTorch is an extra")
    name = module(NETS)
    assert run("convert", f"{name}:net", "-o", "net.onnx", "--test-data").code == 0
    net = __import__(name).net()[0]
    for folder in ("test_data_set_0", "test_data_set_1"):
        x, shift, scores, best = (
            tensor(tmp_path / folder / f"{kind}_{i}.pb") for kind in ("input", "output") for i in (0, 1)
        )
        expected = net(torch.from_numpy(x.copy()), torch.from_numpy(shift.copy()))
        np.testing.assert_array_equal(scores, expected["scores"].detach().numpy())
        np.testing.assert_array_equal(best, expected["best"].numpy())
    done = run("validate", "net.onnx", "--json")
    assert (done.code, done.json["verdict"], len(done.json["sets"])) == (0, "passed", 2), done
    proto = onnx.load(tmp_path / "net.onnx")
    bias = next(item for item in proto.graph.initializer if item.name == "dense.bias")
    bias.CopyFrom(
        onnx.numpy_helper.from_array(
            onnx.numpy_helper.to_array(bias) + np.float32(1e-3) * np.arange(4, dtype=np.float32), "dense.bias"
        )
    )
    onnx.save(proto, tmp_path / "net.onnx")
    assert run("validate", "net.onnx").code == 1
    assert run("validate", "net.onnx", "--atol", "0.1").code == 0


def by_hand(folder, inputs, outputs):
    """Test data as another tool writes it, without names and budgets."""
    folder.mkdir()
    for kind, arrays in (("input", inputs), ("output", outputs)):
        for index, array in enumerate(arrays):
            (folder / f"{kind}_{index}.pb").write_bytes(onnx.numpy_helper.from_array(array).SerializeToString())


X = np.asarray([[1, 2, 3]], np.float32)
W = np.arange(1, 13, dtype=np.float32).reshape(3, 4)


def test_test_data_of_other_tools(run, files):
    by_hand(files / "test_data_set_0", [X], [2 * X @ W])
    assert run("validate", "first.onnx").code == 0
    by_hand(files / "test_data_set_3", [X], [2 * X @ W * (1 + 1e-5)])
    done = run("validate", "first.onnx", "--json")
    assert done.code == 1
    assert [(item["name"], item["outputs"][0]["verdict"]) for item in done.json["sets"]] == [
        ("test_data_set_0", "pass"),
        ("test_data_set_3", "fail"),
    ]


def test_strings_sequences_and_what_is_absent(tmp_path):
    from onnxport import OnnxModel

    text = """<ir_version: 8, opset_import: ["": 17]>
    g (string[n] words, seq(float[m]) parts) => (string[n] same, seq(float[m]) again) {
      same = Identity(words) again = Identity(parts) }"""
    model = OnnxModel(onnx_ir_of(text))
    words, parts = np.asarray(["a", "ß"], object), [np.float32([1, 2]), np.float32([3])]
    model.save(tmp_path / "net.onnx")
    sets = [vectors.Vectors({"words": words, "parts": parts}, {"same": words, "again": parts})]
    vectors.write(tmp_path / "net.onnx", sets)
    (back,) = vectors.read(tmp_path / "net.onnx", model.model.graph)
    assert back.inputs["words"].tolist() == ["a", "ß"]
    assert [part.tolist() for part in back.outputs["again"]] == [[1.0, 2.0], [3.0]]


def onnx_ir_of(text):
    import onnx_ir

    return onnx_ir.from_proto(onnx.parser.parse_model(text))


def broken(folder):
    by_hand(folder, [X], [X])
    (folder / "input_0.pb").write_bytes(b"\x12\xff\xff")


def elsewhere(folder):
    by_hand(folder, [X], [X])
    proto = onnx.TensorProto(data_type=1, dims=[1], data_location=onnx.TensorProto.EXTERNAL)
    (folder / "input_0.pb").write_bytes(proto.SerializeToString())


REFUSED = [
    (lambda folder: None, ["validate", "first.onnx"], "there is nothing to compare 'first.onnx' with"),
    (lambda folder: by_hand(folder, [X, X], [X]), ["validate", "first.onnx"], "has 2 inputs, the model 1 (x)"),
    (broken, ["validate", "first.onnx"], "test_data_set_0/input_0.pb can't be read"),
    (elsewhere, ["validate", "first.onnx"], "test_data_set_0/input_0.pb points to another file"),
    (lambda folder: None, ["validate", "first.onnx", "--methods", "predict"], "--methods means nothing without"),
    (
        lambda folder: None,
        ["convert", "first.onnx", "-o", "part.onnx", "--cut-outputs", "d", "--test-data"],
        "--test-data: with --cut-outputs",
    ),
    (lambda folder: None, ["convert", "first.onnx", "--to", "pytorch", "--test-data"], "convert to one"),
]


@pytest.mark.parametrize(("prepare", "arguments", "message"), REFUSED, ids=[row[2][:30] for row in REFUSED])
def test_what_does_not_fit_is_refused(run, files, prepare, arguments, message):
    prepare(files / "test_data_set_0")
    done = run(*arguments)
    assert done.code == 2
    assert message in done.err, done


def test_a_folder_of_other_things_stays(run, files):
    (files / "test_data_set_0").mkdir()
    (files / "test_data_set_0" / "mine.txt").write_text("mine")
    done = run("convert", "first.onnx", "-o", "copy.onnx", "--test-data")
    assert done.code == 2
    assert (files / "test_data_set_0" / "mine.txt").read_text() == "mine"
