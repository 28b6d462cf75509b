"""The worked examples of the README and of the guide to scikit-learn run as they stand."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from onnxport import frameworks

EXAMPLES = Path(__file__).parents[2] / "examples"
GUIDE = Path(__file__).parents[2] / "docs" / "scikit-learn.md"
BLOCKS = re.findall(r"^## (.+?)$.*?^```python\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


FRAMEWORKS = {
    "from_pytorch": ["pytorch"],
    "from_tensorflow": ["tensorflow"],
    "from_keras": ["keras", "pytorch"],
    "from_sklearn": ["sklearn"],
    "from_transformers": ["pytorch"],
    "from_huggingface": ["huggingface"],
}
"""The frameworks that each example needs."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[getattr(pytest.mark, framework) for framework in needed])
        for name, needed in FRAMEWORKS.items()
    ],
)
def test_example(name, tmp_path):
    """As a person runs it: nothing but what it prints itself reaches the terminal, the import of a framework included."""
    if name in ("from_transformers", "from_huggingface"):
        pytest.importorskip("transformers", reason="transformers is an extra")
    for framework in FRAMEWORKS[name]:
        pytest.importorskip(frameworks.get(framework).package, reason=f"{framework} is an extra")
    environment = {key: value for key, value in os.environ.items() if key != "TF_CPP_MIN_LOG_LEVEL"}
    command = [sys.executable, str(EXAMPLES / f"{name}.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_example_is_listed():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(FRAMEWORKS)


@pytest.mark.sklearn
@pytest.mark.parametrize(("title", "code"), BLOCKS, ids=[title for title, _ in BLOCKS])
def test_guide(title, code, tmp_path, monkeypatch, capsys):
    pytest.importorskip("sklearn")
    monkeypatch.chdir(tmp_path)
    exec(compile(code, title, "exec"), {"__name__": "example"})


def test_the_guide_has_its_examples():
    assert len(BLOCKS) == 7
