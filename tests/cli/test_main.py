"""The command as a process: exit codes, streams, and a framework that is not there."""

import json
import subprocess
import sys

import pytest


def onnxport(*arguments, cwd, prelude=""):
    program = f"{prelude}\nfrom onnxport.cli.main import main\nmain()"
    return subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False, cwd=cwd
    )


def test_version_and_help(tmp_path):
    done = onnxport("--version", cwd=tmp_path)
    assert (done.returncode, done.stdout.split()[0]) == (0, "onnxport")
    listed = onnxport("--help", cwd=tmp_path).stdout
    for command in ("convert", "validate", "roundtrip", "ops", "inspect", "torch2onnx", "onnx2keras"):
        assert command in listed


def test_an_error_is_a_message_and_an_exit_code(tmp_path):
    done = onnxport("convert", "missing.onnx", "--to", "keras", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == ["error: no file or directory 'missing.onnx'"]


@pytest.mark.parametrize(
    ("package", "extra", "arguments"),
    [
        ("torch", "pytorch", ["convert", "model.pt2"]),
        ("tensorflow", "tensorflow", ["convert", "model.pb"]),
        ("keras", "keras", ["convert", "model.keras"]),
        ("sklearn", "sklearn", ["convert", "model.skops"]),
        ("torch", "pytorch", ["ops", "pytorch"]),
    ],
)
def test_a_missing_framework_names_the_extra(tmp_path, package, extra, arguments):
    (tmp_path / arguments[1]).write_text("not read")
    done = onnxport(*arguments, cwd=tmp_path, prelude=f"import sys; sys.modules[{package!r}] = None")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"onnxport[{extra}]" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("body", ["import torch\ndef net(): pass", "def net():\n    import torch"])
def test_a_factory_that_lacks_a_framework_is_answered(tmp_path, body):
    (tmp_path / "nets.py").write_text(body)
    done = onnxport("convert", "nets:net", cwd=tmp_path, prelude="import sys; sys.modules['torch'] = None")
    assert done.returncode == 2
    assert "ModuleNotFoundError" in done.stderr
    place = "" if body.startswith("import") else " (at nets.py:2: import torch)"
    assert done.stderr.rstrip().endswith(f"pip install 'onnxport[pytorch]'{place}")


@pytest.mark.pytorch
def test_standard_output_holds_json_alone(tmp_path):
    pytest.importorskip("torch", reason="PyTorch is an extra")
    (tmp_path / "noisy.py").write_text(
        "import torch\nprint('loading')\n"
        "def net():\n    print('building')\n    return torch.nn.Linear(2, 2), (torch.ones(1, 2),)\n"
    )
    done = onnxport("convert", "noisy:net", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["output"] == "net.onnx"
    assert "building" in done.stderr


FOREIGN = {
    "onnx2keras": ("--opset", "--methods", "--signature", "--option"),
    "keras2onnx": ("--methods", "--weights-only"),
}


@pytest.mark.parametrize("command", FOREIGN)
def test_help_lists_only_options_with_a_meaning(run, command):
    text = run(command, "-h").out
    assert "--input-shape" in text
    assert [option for option in FOREIGN[command] if option in text] == []


def test_completion_is_offered(run):
    assert "complete" in run("--show-completion", "bash").out
