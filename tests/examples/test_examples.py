"""The worked examples of the README run as they stand."""

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("from_pytorch", marks=pytest.mark.pytorch),
        pytest.param("from_tensorflow", marks=pytest.mark.tensorflow),
        pytest.param("from_keras", marks=[pytest.mark.keras, pytest.mark.pytorch]),
        pytest.param("from_sklearn", marks=pytest.mark.sklearn),
    ],
)
def test_example(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLES / f"{name}.py"))


def test_every_example_is_listed():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {
        "from_pytorch",
        "from_tensorflow",
        "from_keras",
        "from_sklearn",
    }
