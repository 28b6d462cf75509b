"""Other engines as witnesses: their section of the report, their exit code, and what becomes of one that refuses or crashes.

The engines are toys that the tests register; those of the extras are tried where they are installed.
"""

import json
import os
from dataclasses import replace
from importlib.util import find_spec

import onnx
import pytest
import typer

import onnxport
from onnxport.cli.console import settle
from onnxport.errors import InvalidInputError, MissingDependencyError
from onnxport.validation.witnesses.engine import Engine, known_engines, register_engine, unregister_engine
from onnxport.validation.witnesses.refusals import refusal

TEXT = """<ir_version: 8, opset_import: ["": 17]>
net (float[batch,3] x) => (float[batch,4] scores, int64[batch] best) <float[3,4] w = {1,2,3,4,5,6,7,8,9,1,2,3}> {
  h = MatMul(x, w) scores = Relu(h) best = ArgMax<axis = 1, keepdims = 0>(scores) }"""
# Each opens a file as an engine does, in the engine's own process.
TOYS = """
import os
import numpy as np
import onnx

def right(path, shapes):
    model = onnx.load(path)
    weight = onnx.numpy_helper.to_array(model.graph.initializer[0])
    assert shapes == {"x": [2, 3]}, shapes
    print("what an engine prints goes nowhere")
    def run(feeds):
        scores = np.maximum(feeds["x"] @ weight, 0)
        return [scores, scores.argmax(1)]
    return run

def wrong(path, shapes):
    run = right(path, shapes)
    return lambda feeds: [run(feeds)[0] * np.float32(1.001), run(feeds)[1]]

def refusing(path, shapes):
    raise RuntimeError("Error in core.cpp:84:\\n  no kernel for ArgMax-13\\nstack backtrace:\\n 0: main")

def forgetting(path, shapes):
    return lambda feeds: [np.nan_to_num(-feeds["p"])]

def breaking(path, shapes):
    os.abort()

def stopping(path, shapes):
    run = right(path, shapes)
    return lambda feeds: run(feeds) if len(feeds["x"]) == 2 else os.abort()
"""
NAMES = ("right", "wrong", "refusing", "breaking", "stopping")


@pytest.fixture(scope="module")
def toys(tmp_path_factory):
    """The toys, registered."""
    folder = tmp_path_factory.mktemp("toys")
    (folder / "toy_engines.py").write_text(TOYS)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        for name in NAMES:
            register_engine(Engine(name, name.title(), f"toy_engines:{name}", distribution="numpy"))
        yield
        for name in NAMES:
            unregister_engine(name)


@pytest.fixture
def net(tmp_path):
    """A model in a file."""
    onnx.save(onnx.parser.parse_model(TEXT), tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


@pytest.fixture(scope="module")
def report(toys):
    """A proof with all toys as witnesses."""
    model = onnx.parser.parse_model(TEXT)
    return onnxport.validate(model, model, runtimes=NAMES)


def test_a_witness_has_a_verdict_of_its_own_beside_the_proof(report):
    assert report.verdict == "passed"
    verdicts = {item.engine: item.verdict for item in report.witnesses}
    assert verdicts == dict(zip(NAMES, ("passed", "failed", "refused", "refused", "failed"), strict=True))
    right, wrong, refusing, breaking, stopping = report.witnesses
    assert [item.name for item in right.sets] == [item.name for item in report.sets]
    assert right.latency > 0
    assert right.load_seconds > 0
    assert "1.001" not in str(wrong)
    assert any("became" in line for line in wrong.reasons)
    assert refusing.refused == "no kernel for ArgMax-13"
    assert "has ended" in breaking.refused
    assert not stopping.sets[0].failed
    assert "has ended" in stopping.sets[1].error


def test_the_section_is_in_text_json_and_page(report, tmp_path):
    assert "  witness Right " in str(report)
    assert "REFUSED" in str(report)
    assert "    does not load the file: no kernel for ArgMax-13" in str(report)
    found = json.loads(report.to_json())["witnesses"]
    assert [item["verdict"] for item in found] == ["passed", "failed", "refused", "refused", "failed"]
    assert found[0]["version"] == report.versions["numpy"]
    report.to_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "<h2>Other engines</h2>" in page
    assert "no kernel for ArgMax-13" in page


def settled(report, *, allow_unproved=False):
    """The exit code of a command that ends with the report."""
    try:
        settle([report], allow_unproved=allow_unproved)
    except typer.Exit as end:
        return end.exit_code
    return 0


def test_a_witness_has_an_exit_code_of_its_own_and_the_proof_comes_first(report):
    right, wrong, refusing, *_ = report.witnesses
    assert settled(replace(report, witnesses=(right,))) == 0
    assert settled(replace(report, witnesses=(right, wrong))) == 4
    assert settled(replace(report, witnesses=(refusing,))) == 4
    idle = replace(right, sets=())  # nothing shows that it agrees
    assert settled(replace(report, witnesses=(idle,))) == 4
    assert settled(replace(report, witnesses=(idle,)), allow_unproved=True) == 0
    assert settled(replace(report, sets=wrong.sets)) == 1
    assert settled(replace(report, sets=())) == 3


def test_the_command_line_asks_witnesses(toys, net, run):
    done = run("validate", net, net, "--runtimes", "right,refusing")
    assert done.code == 4, done
    assert done.out.startswith("passed: ")
    assert "witness Refusing" in done.out


def test_a_file_replays_its_test_data_in_a_witness(toys, net, run):
    done = run("convert", net, "-o", "copy.onnx", "--test-data")
    assert done.code == 0, done
    done = run("validate", "copy.onnx", "--runtimes", "wrong", "--json")
    assert (done.code, done.json["verdict"], done.json["witnesses"][0]["verdict"]) == (4, "passed", "failed"), done


def test_an_engine_that_does_not_keep_nan_is_asked_on_numbers_alone(toys):
    net = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[n] p) => (float[n] q) { q = Neg(p) }'
    )
    register_engine(Engine("forgetting", "Forgetting", "toy_engines:forgetting", settles_nan=False))
    try:
        report = onnxport.validate(net, net, runtimes=["forgetting"])
    finally:
        unregister_engine("forgetting")
    (record,) = report.witnesses
    assert [item.name for item in report.sets] == [*(item.name for item in record.sets), "not finite (n=3)"]
    assert (report.verdict, record.verdict) == ("passed", "passed")
    assert "not finite (n=3): left out" in record.notes[-1]


def test_what_is_missing_or_unknown_is_refused_by_name():
    model = onnx.parser.parse_model(TEXT)
    with pytest.raises(InvalidInputError, match="no engine 'mars'; there are .*tract"):
        onnxport.validate(model, model, runtimes=["mars"])
    register_engine(Engine("absent", "Absent", "absent:open", packages=("absent_engine",), extra="absent"))
    try:
        with pytest.raises(MissingDependencyError, match=r"Absent is not installed: pip install 'onnxport\[absent\]'"):
            onnxport.validate(model, model, runtimes=["absent"])
        with pytest.raises(InvalidInputError, match="already"):
            register_engine(Engine("absent", "Other", "absent:open"))
    finally:
        unregister_engine("absent")


def test_an_error_becomes_the_line_that_names_the_operator():
    model = onnxport.convert(onnx.parser.parse_model(TEXT), validate=False).model
    model.graph[0].name = "encoder/first"
    for text, line in (
        ("failed:\n  Relu is not there", "Relu is not there"),
        ("at node encoder/first failed", "MatMul: at node encoder/first failed"),
        ("\n  out of luck\nmore", "out of luck"),
    ):
        assert refusal(text, model) == line


@pytest.mark.parametrize("name", sorted(known_engines()))
def test_an_engine_of_an_extra_takes_a_file(name, net):
    engine = known_engines()[name]
    if any(find_spec(package) is None for package in engine.packages):
        pytest.skip(f"needs the extra {engine.extra!r}")
    (record,) = onnxport.validate(os.fspath(net), net, runtimes=[name]).witnesses
    assert (record.verdict, record.version) == ("passed", engine.version), record.reasons
    assert record.latency > 0


def test_a_conversion_and_a_round_trip_ask_witnesses_too(toys, net, run):
    report = onnxport.convert(str(net), runtimes=["right", "wrong"]).report
    assert [(item.engine, item.verdict) for item in report.witnesses] == [("right", "passed"), ("wrong", "failed")]
    assert run("convert", net, "-o", "again.onnx", "--runtimes", "right").code == 0
    done = run("convert", net, "-o", "again.onnx", "--runtimes", "right,refusing")
    assert (done.code, "no kernel for ArgMax-13" in done.out) == (4, True)
    for given in ({"to": "pytorch"}, {"validate": False}, {"dtype": "float16"}):
        with pytest.raises(
            InvalidInputError, match=r"runtimes=\['right'\]: other engines run beside the proof of one ONNX"
        ):
            onnxport.convert(str(net), **given, runtimes=["right"])
    pytest.importorskip("torch", reason="PyTorch is an extra")
    done = run("roundtrip", net, "--through", "pytorch", "--runtimes", "wrong")
    assert (done.code, "witness Wrong" in done.out) == (4, True)


def test_a_test_fails_where_a_witness_differs(toys, net, assert_converts):
    assert assert_converts(str(net), runtimes=["right"]).report.passed
    with pytest.raises(pytest.fail.Exception, match="Wrong: failed"):
        assert_converts(str(net), runtimes=["right", "wrong"])
