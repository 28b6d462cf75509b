"""ONNX files on the command line: inspect, and what is refused."""

import numpy as np
import onnx
import onnx.helper as make
import onnxruntime
import pytest


@pytest.fixture
def saved(tmp_path):
    # No zeros: infinite inputs give infinities, as they do with the ones of the model that it is compared with.
    weight = onnx.numpy_helper.from_array(np.arange(1, 7, dtype=np.float32).reshape(2, 3), "weight")
    x = make.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["batch", 2])
    y = make.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["batch", 3])
    nodes = [make.make_node("MatMul", ["x", "weight"], ["h"]), make.make_node("Relu", ["h"], ["y"])]
    graph = make.make_graph(nodes, "g", [x], [y], [weight])
    onnx.save(make.make_model(graph, opset_imports=[make.make_opsetid("", 17)], ir_version=8), tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


def test_inspect_tells_what_is_in_a_file(run, saved):
    found = run("inspect", "net.onnx", "--json").json
    assert found["inputs"] == [{"name": "x", "type": "FLOAT", "shape": ["batch", 2]}]
    assert found["outputs"] == [{"name": "y", "type": "FLOAT", "shape": ["batch", 3]}]
    assert (found["opsets"], found["ir_version"]) == ({"": 17}, 8)
    assert (found["nodes"], found["operators"]) == (2, {"MatMul": 1, "Relu": 1})
    assert (found["parameters"], found["bytes"], found["file_bytes"]) == (6, 24, saved.stat().st_size)
    text = run("inspect", "net.onnx").out
    assert "6 numbers in 24 B" in text
    assert "MatMul" in text


@pytest.mark.parametrize(
    "command", [["convert", "--to", "pytorch"], ["inspect"], ["roundtrip", "--through", "pytorch"]]
)
@pytest.mark.parametrize("broken", ["missing", "truncated", "text", "empty", "folder"])
def test_broken_files_are_refused(run, saved, tmp_path, command, broken):
    path = tmp_path / "broken.onnx"
    if broken == "folder":
        path.mkdir()
    elif broken != "missing":
        path.write_bytes({"truncated": saved.read_bytes()[:40], "text": b"this is no model", "empty": b""}[broken])
    before = set(tmp_path.iterdir())
    done = run(command[0], "broken.onnx", *command[1:])
    assert done.code == 2, done
    assert "broken.onnx" in done.err
    assert done.out == ""
    assert set(tmp_path.iterdir()) == before


REFUSED = [
    (["convert", "net.onnx", "--to", "mars"], "unknown framework 'mars'"),
    (["roundtrip", "net.onnx", "--through", "onnx"], "name a framework"),
    (["roundtrip", "net.onnx", "--through", "mars"], "unknown framework 'mars'"),
    (["ops", "mars"], "unknown framework 'mars'"),
    (["ops", "onnx"], "name a framework"),
    (["onnx2torch", "other.txt"], "other.txt"),
    (["validate", "net.onnx", "missing.onnx"], "missing.onnx"),
    (["validate", "net.onnx", "net.onnx", "--inputs", "missing.npz"], "missing.npz"),
    (["convert", "net.onnx", "--weights", "w.pt"], "--weights belongs to"),
    (["convert", "net.onnx", "-o", "model.txt"], "--output: 'model.txt' does not say what to convert to"),
    (["convert", "net.onnx", "-o", "model"], "--output: 'model' does not say what to convert to"),
    (["convert", "net.onnx", "--to", "onnx", "-o", "model.txt"], "--output: 'model.txt'"),
    (["convert", "net.onnx", "--to", "keras", "-o", "other.onnx"], "--output: 'other.onnx'"),
    (["convert", "net.onnx", "-o", "net.onnx/other.onnx"], "--output: there is no folder"),
    (["convert", "net.onnx", "--methods", "predict"], "--methods means nothing for an ONNX model to ONNX"),
    (["convert", "net.onnx", "--option", "zipmap=true"], "--option means nothing"),
    (["convert", "net.onnx", "--signature", "s"], "--signature means nothing"),
    (["convert", "net.onnx", "--allow-pickle"], "--allow-pickle means nothing"),
    (["convert", "net.onnx", "--runtime", "reference"], "--runtime means nothing"),
    (["convert", "net.onnx", "--allow-code"], "--allow-code means nothing"),
    (["convert", "net.onnx", "--to", "keras", "--opset", "17"], "--opset means nothing"),
    (["convert", "net.onnx", "--rtol", "-1"], "--rtol is -1.0"),
    (["convert", "net.onnx", "--atol", "nan"], "--atol is nan"),
    (["convert", "net.onnx", "--atol", "1e-3", "--no-validate"], "--atol means nothing without a validation"),
    (["validate", "net.onnx", "net.onnx", "--rtol", "-1"], "--rtol is -1.0"),
    (["validate", "net.onnx", "net.onnx", "--methods", "predict"], "--methods means nothing"),
    (["validate", "net.onnx", "net.onnx", "--signature", "s"], "--signature means nothing"),
    (["inspect", "net.onnx", "--signature", "s"], "--signature means nothing"),
    (["roundtrip", "net.onnx", "--through", "keras", "--signature", "s"], "--signature means nothing"),
    (["roundtrip", "net.onnx", "--through", "keras", "--rtol", "inf"], "--rtol is inf"),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSED, ids=[" ".join(row[0]) for row in REFUSED])
def test_wrong_arguments(run, saved, tmp_path, arguments, message):
    (tmp_path / "other.txt").write_text("no model")
    done = run(*arguments)
    assert done.code == 2
    assert message in done.err
    as_json = run(*arguments, "--json")
    assert as_json.code == 2
    assert message in as_json.json["error"]["message"]


def test_a_wrong_option_is_a_usage_error(run):
    assert run("convert").code == 2
    assert run("convert", "net.onnx", "--nothing").code == 2
    assert run("nothing").code == 2


def test_a_part_at_another_opset_under_other_names(run, saved):
    done = run(
        "convert", "net.onnx", "-o", "part.onnx", "--cut-outputs", "h", "--output-names", "p", "--opset", "21", "--json"
    )
    assert done.code == 0, done
    assert (done.json["opsets"], [item["name"] for item in done.json["outputs"]]) == ({"": 21}, ["p"])
    fixed = run("convert", "net.onnx", "-o", "fixed.onnx", "--dynamic", "x:0=4", "--json")
    assert [item["shape"] for item in fixed.json["inputs"]] == [[4, 2]]


ABSENT = [
    (
        "onnx2keras",
        ["--opset", "--methods", "--signature", "--option", "--output-names", "--weights", "--allow-pickle"],
    ),
    ("onnx2torch", ["--opset", "--methods", "--output-names"]),
    ("torch2onnx", ["--methods", "--signature", "--cut-inputs", "--cut-outputs"]),
    ("tf2onnx", ["--methods", "--weights", "--cut-outputs"]),
    ("keras2onnx", ["--methods", "--signature"]),
    ("sklearn2onnx", ["--signature", "--dynamic", "--weights"]),
]


@pytest.mark.parametrize(("alias", "flags"), ABSENT, ids=[row[0] for row in ABSENT])
def test_an_alias_has_only_options_that_do_something(run, alias, flags):
    listed = run(alias, "--help").out
    for flag in flags:
        assert f"{flag} " not in listed
        assert run(alias, "model", flag, "1").code == 2


def test_a_file_agrees_with_itself_and_not_with_another(run, saved, tmp_path):
    assert run("validate", "net.onnx", "net.onnx").code == 0
    proto = onnx.load(saved)
    proto.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(np.ones((2, 3), np.float32), "weight"))
    onnx.save(proto, tmp_path / "other.onnx")
    done = run("validate", "net.onnx", "other.onnx", "--html", "report.html")
    assert done.code == 1
    assert "<html" in (tmp_path / "report.html").read_text()
    assert run("validate", "net.onnx", "other.onnx", "--rtol", "100", "--atol", "100").code == 0


def test_unproved_has_an_exit_code_of_its_own(run, tmp_path):
    text = '<ir_version: 8, opset_import: ["": 17]> g (float[N] x) => (float[N] y) { a = Abs(x) b = Neg(a) c = Exp(a) '
    text += "d = Sub(b, c) y = Sqrt(d) }"
    onnx.save(onnx.parser.parse_model(text), tmp_path / "nothing.onnx")
    done = run("validate", "nothing.onnx", "nothing.onnx", "--json")
    assert (done.code, done.json["verdict"], done.json["passed"]) == (3, "unproved", False)
    assert "NaN on both sides" in run("validate", "nothing.onnx", "nothing.onnx").out
    assert run("validate", "nothing.onnx", "nothing.onnx", "--allow-unproved").code == 0


@pytest.mark.pytorch
def test_unproved_conversions_are_written_and_tell_of_it(run, tmp_path):
    test_unproved_has_an_exit_code_of_its_own(run, tmp_path)
    for command in ("onnx2torch", "convert"):
        done = run(command, "nothing.onnx", "-o", f"{command}.pt2")
        assert done.code == 3, done
        assert "UNPROVED" in done.out
        assert (tmp_path / f"{command}.pt2").exists()
    assert run("onnx2torch", "nothing.onnx", "-o", "again.pt2", "--allow-unproved").code == 0
    assert run("roundtrip", "nothing.onnx", "--through", "torch").code == 3
    assert run("roundtrip", "nothing.onnx", "--through", "torch", "--allow-unproved").code == 0


@pytest.mark.pytorch
def test_round_trip_through_pytorch(run, saved):
    pytest.importorskip("torch", reason="PyTorch is an extra")
    done = run("roundtrip", "net.onnx", "--through", "torch", "--json")
    assert done.code == 0, done
    assert [leg["leg"] for leg in done.json["legs"]] == ["onnx to pytorch", "pytorch to onnx", "onnx to onnx"]
    assert all(leg["validation"]["passed"] for leg in done.json["legs"])


@pytest.mark.parametrize(
    ("framework", "package"),
    [("pytorch", "torch"), ("tensorflow", "tensorflow"), ("keras", "keras"), ("sklearn", "sklearn")],
)
def test_ops_lists_the_maps(run, framework, package):
    pytest.importorskip(package)
    found = run("ops", framework, "--json").json[framework]
    # Other tests add operators to the maps, without cases and perhaps without a word about them.
    assert all(row["op"] and (row["about"] or not row["cases"]) for row in found["to_onnx"])
    assert sum(bool(row["about"]) for row in found["to_onnx"]) > 100
    assert run("ops", framework, "--markdown").out.startswith("# Supported operators")


@pytest.mark.sklearn
@pytest.mark.parametrize("name", ["net.joblib", "net.pkl"])
def test_to_an_estimator(run, saved, tmp_path, name):
    pytest.importorskip("sklearn")
    joblib = pytest.importorskip("joblib", reason="joblib comes with scikit-learn, an extra")
    done = run("onnx2sklearn", "net.onnx", "-o", name)
    assert done.code == 0, done
    estimator = joblib.load(tmp_path / name)
    samples = np.ones((3, 2), np.float32)
    (expected,) = onnxruntime.InferenceSession(saved).run(None, {"x": samples})
    assert np.array_equal(estimator.run(samples)["y"], expected)
    assert run("onnx2sklearn", "net.onnx", "-o", "net.skops").code == 2
    assert not (tmp_path / "net.skops").exists()


def test_the_opset_of_another_domain(run, tmp_path):
    text = """<ir_version: 8, opset_import: ["": 17, "com.acme": 1]> net (float[n] x) => (float[n] y) { y = com.acme.Twice (x) }
        <domain: "com.acme", opset_import: ["": 17]> Twice (a) => (b) { b = Add (a, a) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "net.onnx")
    assert run("convert", "net.onnx", "-o", "same.onnx", "--extra-opset", "com.acme:1", "--opset", "18").code == 0
    opsets = {item.domain: item.version for item in onnx.load(tmp_path / "same.onnx").opset_import}
    assert (opsets[""], opsets["com.acme"]) == (18, 1)
    answer = run("convert", "net.onnx", "-o", "other.onnx", "--extra-opset", "org.none:3")
    assert answer.code == 2
    assert "'org.none' at 3: the model has no operator of it" in answer.err
