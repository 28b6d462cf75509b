"""Many reports as one page: which row and column each verdict stands in, where it links to, and what is no report."""

import json
import math
from dataclasses import replace

import onnx
import pytest

import onnxport
from onnxport.validation.matrix import read_entries
from onnxport.validation.records import Side, WitnessRecord

TEXT = "agraph (float[n,3] x) => (float[n,3] y) { y = %s(x) }"
HEAD = '<ir_version: 8, opset_import: ["": 17]> '


def model(operator):
    return onnx.parser.parse_model(HEAD + TEXT % operator)


@pytest.fixture(scope="module")
def proofs():
    """A report that passes, with witnesses, and one that fails."""
    passed, failed = (onnxport.validate(model("Neg"), model(operator)) for operator in ("Neg", "Abs"))
    assert (passed.verdict, failed.verdict) == ("passed", "failed")
    witnesses = (WitnessRecord("a", "A", "1", sets=passed.sets), WitnessRecord("b", "B", "2", refused="no <Neg>"))
    return replace(passed, source=Side("onnx", "neg.onnx"), witnesses=witnesses), failed


@pytest.fixture
def folder(proofs, tmp_path):
    """Each kind of JSON that the commands print, and a page beside one of them."""
    passed, failed = (report.to_dict() for report in proofs)
    files = {
        "validated": passed,
        "converted": {"source": "neg.onnx", "to": "onnx", "validation": {**passed, "witnesses": []}},
        "round": {
            "model": "abs.onnx",
            "legs": [{"leg": "onnx to keras", "validation": failed}, {"leg": "x", "validation": None}],
        },
        "differs": {"error": {"type": "ValidationError", "message": "it differs"}, "validation": failed},
        "broken": {
            "error": {
                "type": "UnsupportedOperator",
                "message": "1 unsupported operator:\n  Foo (at net.py:3)\na way out",
            }
        },
    }
    files["converted"]["validation"]["converted"] = {**passed["converted"], "opset": 13}
    for name, content in files.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    (tmp_path / "validated.html").write_text("the page")
    return tmp_path


def test_a_verdict_stands_in_the_row_of_its_model_and_the_column_of_what_ran_it(folder):
    entries = read_entries(
        [folder / f"{name}.json" for name in ("validated", "converted", "round", "differs", "broken")]
    )
    assert [f"{item.model}: {item.column}: {item.verdict}" for item in entries] == [
        "neg.onnx: onnxruntime, opset 17: passed",
        "neg.onnx: A 1, opset 17: passed",
        "neg.onnx: B 2, opset 17: refused",
        "neg.onnx: onnxruntime, opset 13: passed",
        "abs.onnx: onnx to keras: failed",
        "agraph: onnxruntime, opset 17: failed",
        "broken: conversion: impossible",
    ]
    assert [item.page for item in entries] == [folder / "validated.html"] * 3 + [None] * 4
    assert entries[0].seconds > 0
    assert math.isnan(entries[2].seconds)
    assert entries[2].reason == "does not load the file: no <Neg>"
    assert "y: " in entries[4].reason
    assert entries[6].reason == "1 unsupported operator: Foo (at net.py:3) a way out"


def test_models_of_one_title_have_a_row_each(proofs, tmp_path):
    for name in ("first", "second"):
        (tmp_path / f"{name}.json").write_text(proofs[1].to_json())
    entries = read_entries([tmp_path / "first.json", tmp_path / "second.json"])
    assert [item.model for item in entries] == ["agraph (first)", "agraph (second)"]


def test_the_command_writes_the_page(folder, run):
    names = [f"{name}.json" for name in ("validated", "round", "broken")]
    (folder / "out").mkdir()
    done = run("report", *names, "-o", "out/matrix.html")
    assert (done.code, done.err) == (0, ""), done
    assert done.out == "out/matrix.html  (2 passed, 1 refused, 1 impossible, 1 failed)\n"
    page = (folder / "out" / "matrix.html").read_text()
    assert '<a href="../validated.html"><span class="chip pass">passed</span></a>' in page
    assert "no &lt;Neg&gt;" in page
    assert '<h1><span class="chip fail">failed</span> 3 models, 5 columns</h1>' in page


@pytest.mark.parametrize(
    "content, message",
    [
        ("<html>", "is no report"),
        ('{"verdict": "good", "sets": []}', "is no report"),
        ('{"source": "a", "validation": null}', "without a proof"),
        ("[]", "is no report"),
        (None, "can't be read"),
    ],
)
def test_what_is_no_report_is_refused_by_name(run, tmp_path, content, message):
    if content is not None:
        (tmp_path / "odd.json").write_text(content)
    done = run("report", "odd.json", "-o", "matrix.html")
    assert done.code == 2
    assert "'odd.json'" in done.err
    assert message in done.err
    assert not (tmp_path / "matrix.html").exists()
