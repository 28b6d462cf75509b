"""The worked examples of the README and of the guide to scikit-learn run as they stand."""

import re
import runpy
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
def test_example(name, tmp_path, monkeypatch, capfd):
    if name in ("from_transformers", "from_huggingface"):
        pytest.importorskip("transformers", reason="transformers is an extra")
    for framework in FRAMEWORKS[name]:
        frameworks.require(frameworks.get(framework))  # what a framework writes when it is imported is not ours
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLES / f"{name}.py"))
    assert capfd.readouterr().err == ""


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
