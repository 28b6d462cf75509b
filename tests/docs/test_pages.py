"""The pages of docs/migrate and docs/howto run: their Python blocks, page by page, and the site that they are part of."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from onnxport import frameworks

ROOT = Path(__file__).parents[2]
# The frameworks that each page's blocks need.
PAGES = {
    "howto/big-models.md": ["pytorch"],
    "howto/ci.md": ["pytorch"],
    "howto/custom-operators.md": ["pytorch"],
    "howto/decoders-with-cache.md": ["huggingface"],
    "howto/dynamic-shapes.md": ["pytorch"],
    "howto/opsets-and-runtimes.md": ["pytorch"],
    "howto/report.md": ["pytorch"],
    "howto/tolerance.md": ["pytorch"],
    "howto/pictures-and-text.md": ["huggingface"],
    "migrate/keras-export.md": ["keras"],
    "migrate/onnx-tf.md": ["tensorflow"],
    "migrate/onnx2keras.md": ["keras"],
    "migrate/onnx2torch.md": ["pytorch"],
    "migrate/onnxmltools.md": ["sklearn"],
    "migrate/optimum.md": ["huggingface"],
    "migrate/skl2onnx.md": ["sklearn"],
    "migrate/tf2onnx.md": ["tensorflow"],
    "migrate/torch-onnx.md": ["pytorch"],
}
WITH_FIXTURES = {"howto/ci.md"}  # it shows tests with the fixtures of our plugin
PROSE = {"howto/README.md", "howto/detection.md", "howto/troubleshooting.md", "migrate/README.md"}


def blocks(page):
    """The Python blocks; those of other tools are marked ``py``."""
    return re.findall(
        r"^```python\n(.*?)^```$", (ROOT / "docs" / page).read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )


@pytest.mark.sampled(0.5)
@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=[getattr(pytest.mark, item) for item in needed]) for page, needed in PAGES.items()],
)
def test_a_page_runs_and_writes_nothing_to_standard_error(page, tmp_path, monkeypatch, request):
    for framework in PAGES[page]:
        package = frameworks.get(framework).package if framework != "huggingface" else "transformers"
        pytest.importorskip(package, reason=f"{package} is an extra")
    if "onnxmltools" in page:
        pytest.importorskip("lightgbm", reason="LightGBM is an extra")
    if page not in WITH_FIXTURES:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TF_CPP")}
        environment |= {"PYTHONPATH": str(ROOT)}
        (tmp_path / "page.py").write_text("\n\n".join(blocks(page)))
        command = [sys.executable, "page.py"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        return
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "page"}
    for number, block in enumerate(blocks(page)):
        exec(compile(block, f"{page}, block {number}", "exec"), names)
    shown = [value for name, value in names.items() if name.startswith("test_")]
    for test in shown:
        test(request.getfixturevalue("assert_converts"))
    assert shown


def test_every_page_is_listed():
    known = {
        path.relative_to(ROOT / "docs").as_posix()
        for room in ("howto", "migrate")
        for path in (ROOT / "docs" / room).glob("*.md")
    }
    assert known == set(PAGES) | PROSE
    assert all(blocks(page) for page in PAGES)
    assert not any(blocks(page) for page in PROSE)


def test_links_between_pages_lead_to_files():
    pages = [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")]
    links = [
        (page, link)
        for page in pages
        for link in re.findall(r"\]\(([^)#\s:]+)(?:#[^)\s]*)?\)", page.read_text("utf-8"))
    ]
    assert len(links) > 50
    assert [f"{page.name}: {link}" for page, link in links if not (page.parent / link).exists()] == []


def test_the_site_builds_without_a_warning(tmp_path):
    """Without ``--quiet``, which keeps warnings from being counted, so that ``--strict`` would let them pass."""
    if find_spec("mkdocs") is None or find_spec("mkdocstrings") is None or find_spec("material") is None:
        pytest.skip("the extra docs is not installed: scripts/setup installs it, as pip install -e .[docs] does")
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--site-dir",
        str(tmp_path / "site"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    reference = (tmp_path / "site" / "reference" / "index.html").read_text(encoding="utf-8")
    for name in ("convert", "validate", "OnnxModel", "Report", "register_to_onnx", "Framework"):
        assert f">{name}<" in reference or f"{name}</span>" in reference
    notebook = (tmp_path / "site" / "notebooks" / "pytorch" / "index.html").read_text(encoding="utf-8")
    assert "load_state_dict" in notebook
    assert 'href="../pytorch.ipynb"' in notebook
