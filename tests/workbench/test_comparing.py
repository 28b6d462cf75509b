"""diff, debug, reduce and view: what is different, which operator is wrong, what is the least that shows it."""

import json
import shlex
import sys

import numpy as np
import onnx
import pytest

from onnxport.graph.workbench.reduction import smallest
from tests.workbench.graphs import files as files


def changed(path, place, change):
    """A copy of a file with one thing changed."""
    proto = onnx.load(path)
    change(proto)
    onnx.save(proto, path.parent / place)


def test_a_file_does_not_differ_from_itself(run, files):
    done = run("diff", "first.onnx", "first.onnx", "--json")
    assert (done.code, done.json["differences"], done.json["outputs"]["verdict"]) == (0, [], "passed")


def double(proto):
    weight = proto.graph.initializer[0]
    weight.CopyFrom(onnx.numpy_helper.from_array(2 * onnx.numpy_helper.to_array(weight), weight.name))


def other_operator(proto):
    proto.graph.node[3].op_type = "Add"


def other_name(proto):
    proto.graph.input[0].name = proto.graph.node[0].input[0] = "z"


def more_outputs(proto):
    proto.graph.output.append(onnx.helper.make_tensor_value_info("d", onnx.TensorProto.FLOAT, ["batch", 4]))


DIFFERENT = [
    (double, "weight w: FLOAT[3, 4] became other values, up to 12 apart in 12 of 12 places", "FAILED"),
    (other_operator, "node h: h = Mul(d, c) became h = Add(d, c)", "FAILED"),
    (other_name, "node m: m = MatMul(x, w) became m = MatMul(z, w)", "the same graph under other names\npassed"),
    (more_outputs, "output d: only in the second: FLOAT [batch,4]", "passed"),
]


@pytest.mark.parametrize(("change", "line", "numbers"), DIFFERENT, ids=[row[0].__name__ for row in DIFFERENT])
def test_each_difference_is_named(run, files, change, line, numbers):
    changed(files / "first.onnx", "other.onnx", change)
    done = run("diff", "first.onnx", "other.onnx")
    assert done.code == 1
    assert line in done.out
    assert numbers in done.out
    assert numbers not in run("diff", "first.onnx", "other.onnx", "--no-numbers").out or "names" in numbers


def test_the_operator_that_is_wrong_and_a_folder_that_shows_it(run, files):
    def other_operator_of_f(proto):
        next(node for node in proto.graph.node if node.output[0] == "f").op_type = "Softplus"

    changed(files / "needless.onnx", "wrong.onnx", other_operator_of_f)
    done = run("debug", "needless.onnx", "wrong.onnx", "-o", "shown", "--json")
    assert done.code == 1, done
    rows = {item["output"]: item for item in done.json["operators"]}
    assert [name for name, item in rows.items() if item["differs"]] == ["f"]
    assert rows["h"]["local"] == 0.0  # right by itself
    assert rows["h"]["propagated"] not in (0.0, "nan")  # and wrong in the whole
    assert [node.op_type for node in onnx.load(files / "shown" / "model.onnx").graph.node] == ["Softplus"]
    assert json.loads((files / "shown" / "operator.json").read_text())["op"] == "Softplus"
    assert run("validate", "shown/model.onnx").code == 1
    changed(files / "shown" / "model.onnx", "model.onnx", lambda proto: setattr(proto.graph.node[0], "op_type", "Exp"))
    assert run("validate", "shown/model.onnx").code == 0
    assert run("debug", "needless.onnx", "needless.onnx").code == 0


NETS = """
import torch
class Net(torch.nn.Module):
    def forward(self, x):
        y = x * 2.0
        return torch.softmax(y, 1).sum(0)
def net(): return Net().eval(), (torch.arange(12.0).reshape(3, 4),)
"""


@pytest.mark.pytorch
def test_the_line_of_the_users_code(run, module, tmp_path):
    pytest.importorskip("torch", reason="PyTorch is an extra")
    name = module(NETS)
    assert run("convert", f"{name}:net", "-o", "net.onnx", "--no-validate").code == 0

    def other_axis(proto):
        node = next(node for node in proto.graph.node if node.op_type == "Softmax")
        node.attribute[0].i = 0

    changed(tmp_path / "net.onnx", "net.onnx", other_axis)
    done = run("debug", f"{name}:net", "net.onnx")
    assert done.code == 1
    assert (
        f"the first that is wrong by itself: Softmax 'softmax/Softmax' from aten::softmax.int at {name}.py:6"
        in done.out
    )


PROGRAM = "import sys; file = open(sys.argv[1], 'rb').read(); "  # the names of operators stand in a file as they are
PROGRAM += "print('the defect' if b'Pad' in file else 'another'); sys.exit(b'Exp' in file)"


@pytest.mark.parametrize(("message", "left"), [(None, ["Exp"]), ("the defect", ["Pad", "Exp"])])
def test_the_least_that_still_fails(run, files, message, left):
    more = ["--message", message] if message else []
    command = shlex.join([sys.executable, "-SE", "-c", PROGRAM])
    done = run("reduce", "needless.onnx", "-o", "least.onnx", "--check", command, *more, "--json")
    assert (done.code, done.json["nodes"], done.json["of"]) == (0, len(left), 16), done
    proto = onnx.load(files / "least.onnx")
    assert [node.op_type for node in proto.graph.node] == left
    onnx.checker.check_model(proto, full_check=True)


def test_a_command_that_does_not_fail_reduces_nothing(run, files):
    for command, message in (
        (f"{sys.executable} -c pass", "does not fail on"),
        ("no-such-command", "can't be run"),
        (f"{sys.executable} check.py {{model}}", "'{model}' stands for nothing: {} is the file"),
    ):
        done = run("reduce", "needless.onnx", "-o", "least.onnx", "--check", command)
        assert done.code == 2
        assert message in done.err


def test_a_command_that_fails_on_any_file_is_noted(run, files, tmp_path):
    """It would be reduced to some node that has nothing to do with it."""
    (tmp_path / "exp.py").write_text("import onnx, sys; sys.exit('Exp' in str(onnx.load(sys.argv[1])))")
    wrong = run("reduce", "needless.onnx", "-o", "least.onnx", "--check", f"{sys.executable} nowhere.py")
    assert (wrong.code, wrong.err) == (0, "")
    assert "note: the command fails on a file that computes nothing, too" in wrong.out
    right = run("reduce", "needless.onnx", "-o", "least.onnx", "--check", f"{sys.executable} exp.py", "--json")
    assert (right.code, right.json["notes"], right.json["nodes"]) == (0, [], 1)


@pytest.mark.parametrize("needed", [{0}, {63}, {7, 40}, set(range(10, 20)), {0, 21, 42, 63}])
def test_no_place_can_be_left_out(needed):
    seen = []

    def shows(places):
        seen.append(places)
        return needed <= set(places)

    assert smallest(64, shows) == sorted(needed)
    assert len(seen) < 64 * len(needed)


def test_view_says_what_it_needs(run, files, monkeypatch):
    from onnxport.cli import view

    monkeypatch.setattr(view, "find_spec", lambda name: None)
    done = run("view", "first.onnx")
    assert done.code == 2
    assert "pip install netron" in done.err
    assert run("view", "missing.onnx").code == 2


@pytest.fixture
def netron(monkeypatch):
    """What was handed to netron: its calls."""
    from onnxport.cli import view

    calls = []

    class Netron:
        def start(self, path, browse):
            calls.append((path, browse))
            return "localhost", 8080

        def serve(self, path, data, browse):
            calls.append((path, data, browse))
            return "localhost", 8080

        def wait(self):
            calls.append("waits")

    monkeypatch.setattr(view, "find_spec", lambda name: name)
    monkeypatch.setattr(view, "import_module", lambda name: Netron())
    return calls


def test_view_opens_the_file_in_netron(run, files, netron):
    done = run("view", "first.onnx", "--no-browse")
    assert (done.code, done.out) == (0, "first.onnx is shown at http://localhost:8080\n")
    assert netron == [("first.onnx", False), "waits"]
    done = run("view", "first.onnx", "--input-shape", "x=1x3")
    assert done.code == 2
    assert "--input-shape: without --source nothing runs" in done.err


def test_view_has_the_verdict_on_each_node(run, files, netron):
    def other_operator_of_f(proto):
        next(node for node in proto.graph.node if node.output[0] == "f").op_type = "Softplus"
        next(node for node in proto.graph.node if node.output[0] == "e").output[0] = "renamed"  # unknown to the source
        next(node for node in proto.graph.node if node.output[0] == "f").input[0] = "renamed"

    changed(files / "needless.onnx", "wrong.onnx", other_operator_of_f)
    done = run("view", "wrong.onnx", "--source", "needless.onnx", "--no-browse")
    first, second = done.out.splitlines()
    assert (done.code, first) == (0, "wrong.onnx is shown at http://localhost:8080; agrees: 14, differs: 2")
    assert second == "wrong by themselves, Ctrl+F there leads to each: f"
    (path, data, browse), _ = netron
    assert (path, browse, type(data)) == ("wrong.onnx", False, bytearray)
    shown = onnx.load_model_from_string(bytes(data))
    mark = shown.graph.node.pop()  # of ours, so that the drawing shows it: no other node is added or changed
    assert (mark.domain, mark.op_type, mark.name, mark.input, mark.output) == (
        "onnxport",
        "differs",
        "differs: f",
        ["f"],
        [],
    )
    assert shown.opset_import.pop().domain == "onnxport"
    nodes = {node.output[0]: node for node in shown.graph.node}
    words = {name: {item.key: item.value for item in node.metadata_props} for name, node in nodes.items()}
    assert {name for name, item in words.items() if item["onnxport.verdict"] == "differs"} == {"f", "renamed"}
    assert nodes["f"].doc_string.startswith("differs: own error ")
    assert nodes["renamed"].doc_string.startswith("differs with the nodes up to 'f': own error ")
    assert nodes["h"].doc_string.startswith("agrees: own error 0, allowed ")
    assert shown.doc_string.startswith("onnxport: the outputs differ on the inputs ")
    assert "Softplus 'f' differs: own error" in shown.doc_string
    assert shown.graph.doc_string == shown.doc_string
    assert {item.key: item.value for item in shown.graph.metadata_props} == {
        "outputs": "differ",
        "on inputs": "drawn (n=2)",
        "differs 1": "f",
    }
    assert words["h"]["own error"] == "0"
    assert float(words["f"]["own error"]) > float(words["f"]["allowed"])
    for node in shown.graph.node:
        node.ClearField("doc_string")
        node.ClearField("metadata_props")
    for described in (shown, shown.graph):
        described.ClearField("doc_string")
    shown.graph.ClearField("metadata_props")
    assert shown == onnx.load(files / "wrong.onnx")


def test_values_between_nodes_become_inputs_of_a_part(files):
    from onnxport import OnnxModel
    from onnxport.converters.workbench import with_types
    from onnxport.graph.workbench.reduction import part

    whole = OnnxModel.load(files / "first.onnx")
    cut = OnnxModel(part(with_types(whole), [2, 3]))
    assert (cut.input_names, cut.output_names) == (["m", "c"], ["h"])
    np.testing.assert_array_equal(cut(np.full((1, 4), 3.0, np.float32), np.float32(2)), np.full((1, 4), 6.0))
