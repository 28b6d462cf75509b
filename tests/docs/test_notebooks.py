"""The notebooks of docs/notebooks run, cell after cell, as Jupyter would; a site shows them as pages."""

import json
import linecache
import sys
from pathlib import Path

import pytest

from onnxport import frameworks
from scripts import site

ROOM = Path(__file__).parents[2] / "docs" / "notebooks"
NOTEBOOKS = {
    "a-failing-proof": ["pytorch"],
    "keras": ["keras", "pytorch"],
    "onnx-to-frameworks": ["pytorch", "tensorflow", "keras", "sklearn"],
    "pytorch": ["pytorch"],
    "scikit-learn": ["sklearn"],
    "tensorflow": ["tensorflow"],
}


def cells(name, kind):
    book = json.loads((ROOM / f"{name}.ipynb").read_text(encoding="utf-8"))
    assert book["nbformat"] == 4
    return ["".join(cell["source"]) for cell in book["cells"] if cell["cell_type"] == kind]


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[getattr(pytest.mark, item) for item in needed]) for name, needed in NOTEBOOKS.items()],
)
def test_a_notebook_runs(name, tmp_path, monkeypatch, capsys):
    for framework in NOTEBOOKS[name]:
        pytest.importorskip(frameworks.get(framework).package, reason=f"{framework} is an extra")
    if "pandas" in "".join(cells(name, "code")):
        pytest.importorskip("pandas", reason="pandas is an extra")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setitem(sys.modules, "shop", None)  # one of the user's own, which a cell writes
    del sys.modules["shop"]
    names = {"__name__": "__main__"}
    for number, cell in enumerate(cells(name, "code")):
        place = f"<{name}, cell {number}>"
        # As Jupyter has it: a function of a cell can be asked for its lines.
        monkeypatch.setitem(linecache.cache, place, (len(cell), None, cell.splitlines(keepends=True), place))
        exec(compile(cell, place, "exec"), names)


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_shows_no_log_of_tensorflow(name):
    """Which it writes when it is imported: the first import of it, or of Keras, keeps its log."""
    code = "\n".join(cells(name, "code"))
    imports = [line for line in code.splitlines() if line.strip().startswith(("import tensorflow", "import keras"))]
    assert not imports or imports[0].startswith(" ")
    assert ("native_log_kept" in code) == bool(imports)


def test_every_notebook_is_a_page():
    assert {path.stem for path in ROOM.glob("*.ipynb")} == set(NOTEBOOKS)
    listed = (ROOM / "README.md").read_text(encoding="utf-8")
    assert all(f"({name}.ipynb)" in listed for name in NOTEBOOKS)
    for name in NOTEBOOKS:
        page = site.notebook_page(ROOM / f"{name}.ipynb")
        assert page.startswith("# ")
        assert page.count("```python\n") == len(cells(name, "code"))
        assert not any(
            cell["outputs"] for cell in json.loads((ROOM / f"{name}.ipynb").read_text())["cells"] if "outputs" in cell
        )
