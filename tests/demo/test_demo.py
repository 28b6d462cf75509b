"""The demo's path end to end: every source to every target."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.pytorch, pytest.mark.tensorflow, pytest.mark.keras, pytest.mark.sklearn, pytest.mark.slow]
for framework in ("torch", "tensorflow", "keras", "sklearn"):
    pytest.importorskip(framework)

from examples.demo import models  # noqa: E402
from examples.demo.matrix import TARGETS, row  # noqa: E402
from examples.demo.page import write  # noqa: E402


@pytest.mark.parametrize("train", models.ALL, ids=[train.__name__ for train in models.ALL])
def test_every_cell_of_a_source_passes_or_says_why_not(train, tmp_path, capfd):
    trained = train()
    assert trained.accuracy > 0.75
    capfd.readouterr()  # what a framework writes while it is imported and trains is not ours
    cells = list(row(trained, tmp_path))
    assert capfd.readouterr().err == ""
    assert [cell.target for cell in cells] == list(TARGETS)
    for cell in cells:
        assert cell.verdict in ("pass", "none"), f"{cell.source} to {cell.target}: {cell.reason or cell.details}"
        assert (cell.verdict == "none") == bool(cell.reason)
    write([(trained, cells)], tmp_path / "report.html")
    assert trained.title.split()[0] in (tmp_path / "report.html").read_text()


def demo(program, *arguments, cwd):
    """The demo in a process of its own, without what the environment keeps TensorFlow from writing."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TF_CPP")}
    environment["PYTHONPATH"] = str(Path(__file__).parents[2])
    command = [sys.executable, "-W", "ignore", *program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd, env=environment)


ONE = """
from pathlib import Path
from rich.console import Console
from examples.demo import models
from examples.demo.__main__ import run
run(Path("demo"), Console(), [item for item in models.ALL if "text" in item.__name__])
"""


def test_the_demo_writes_nothing_to_standard_error(tmp_path):
    done = demo(["-c", ONE], cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "demo" / "report.html").is_file()


def test_the_demo_answers_what_is_no_folder(tmp_path):
    done = demo(["-m", "examples.demo"], "--help", cwd=tmp_path)
    assert (done.returncode, done.stdout.partition(":")[0], done.stderr) == (0, "scripts/demo [FOLDER]", "")
    assert demo(["-m", "examples.demo"], "--folder", cwd=tmp_path).returncode == 2
    assert not list(tmp_path.iterdir())


OPSETS = (13, 26)  # the default opset above; scripts/conformance/runtimes.py takes 17 and 23 too


@pytest.mark.parametrize("train", models.ALL, ids=[train.__name__ for train in models.ALL])
def test_every_source_converts_at_old_and_new_opsets_and_to_the_same_bytes(train):
    import onnx

    import onnxport

    trained = train()
    for opset in OPSETS:
        hub = onnxport.convert(trained.model, inputs=trained.inputs, target_opset=opset)
        assert hub.report.passed
        assert hub.opset == opset
        onnx.checker.check_model(hub.proto, full_check=True)
    again = onnxport.convert(trained.model, inputs=trained.inputs, target_opset=OPSETS[-1], validate=False)
    assert again.proto.SerializeToString() == hub.proto.SerializeToString()
