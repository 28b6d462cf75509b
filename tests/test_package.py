"""The house rules that no linter knows: who imports what, what importing costs, and that generated pages are current."""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import onnxport
from onnxport import frameworks
from onnxport.validation.witnesses.engine import known_engines

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "onnxport"
FILES = sorted(PACKAGE.rglob("*.py"))
MODULES = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in FILES]

FRAMEWORKS = {
    "torch": ("pytorch", "huggingface"),
    "transformers": ("huggingface",),
    "tensorflow": ("tensorflow", "keras"),
    "keras": ("keras",),
    "sklearn": ("sklearn",),
    # Engines that are witnesses.
    "openvino": ("openvino",),
    "tract": ("tract",),
    "ai_edge_litert": ("litert",),
}
CONVERTERS = {
    "onnxscript",
    "tf2onnx",
    "skl2onnx",
    "onnxmltools",
    "onnx2torch",
    "onnx2tf",
    "onnx_tf",
    "jax2onnx",
    "hummingbird",
}

# Which rooms a file in a room may know; everyone knows the plain modules below.
ROOMS = {
    "frameworks": set(),
    "graph": {"graph"},
    "opset_maps": {"opset_maps", "graph"},
    "tracing": {"tracing", "graph"},
    "validation": {"validation", "graph"},
    "converters": {"converters", "tracing", "opset_maps", "validation", "graph"},
    "compat": {"compat", "converters", "validation", "graph"},
    "cli": {"cli", "converters", "tracing", "opset_maps", "validation", "graph"},
}
PLAIN = {"argument_types", "errors", "frameworks", "model", "model_folder", "options", "progress", "request", "version"}


def imported(path, type_checking=False):
    """Modules that a file imports, in functions too; with `type_checking` also those that only type checkers read."""
    tree = ast.parse(path.read_text())
    skipped = not type_checking and {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test)
        for node in ast.walk(block)
    }
    for node in ast.walk(tree):
        if skipped and id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("path", FILES, ids=MODULES)
def test_no_attribute_reaches_another_converter(path):
    """``torch.onnx`` needs no import of its own: ``import torch`` gives it."""
    nodes = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)]
    reached = [ast.unparse(node) for node in nodes]
    assert not [name for name in reached if name == "torch.onnx" or name.startswith("torch.onnx.")]


@pytest.mark.parametrize("path", FILES, ids=MODULES)
def test_imports_follow_the_house_rules(path):
    place = path.relative_to(PACKAGE)
    names = " ".join(place.with_suffix("").parts)
    room = place.parts[0] if len(place.parts) > 1 else None
    for name in imported(path):
        package, *rest = name.split(".")
        assert package not in CONVERTERS, f"{name} is another converter"
        assert name.split(".")[:2] != ["torch", "onnx"], "torch.onnx is another converter"
        if package in FRAMEWORKS:
            assert any(word in names for word in FRAMEWORKS[package]), f"{name} in a file that is not named after it"
        if package == "onnxport" and room is not None and rest and rest[0] not in PLAIN:
            assert rest[0] in ROOMS[room], f"{room} may not know {name}"


@pytest.mark.parametrize("module", ["onnxport", "onnxport.cli.main"])
def test_importing_is_quick_and_imports_no_framework(module):
    """Beside importing NumPy on the same machine, however busy that is."""
    program = (
        "import sys, time; start = time.process_time(); "
        "import {}; print(time.process_time() - start, *{{name.partition('.')[0] for name in sys.modules}})"
    )

    def run(name):
        command = [sys.executable, "-c", program.format(name)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()

    runs = [(run(module), run("numpy")) for _ in range(3)]
    assert not set(FRAMEWORKS) & set(runs[0][0])
    assert min(float(own[0]) for own, _ in runs) < 5 * min(float(floor[0]) for _, floor in runs)


def test_every_public_name_is_there():
    for name in onnxport.__all__:
        assert getattr(onnxport, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        onnxport.nothing  # noqa: B018


def test_every_framework_has_an_extra_and_a_marker():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    markers = {marker.partition(":")[0] for marker in settings["tool"]["pytest"]["ini_options"]["markers"]}
    for framework in frameworks.BUILT_IN:
        if framework.package:
            assert framework.extra in settings["project"]["optional-dependencies"]
            assert framework.name in markers


def test_every_engine_has_an_extra():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for name, engine in known_engines().items():
        assert engine.extra == name
        assert any(item.startswith(engine.distribution) for item in extras[name])


def test_versions_agree():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == onnxport.__version__
    assert f"## {onnxport.__version__}" in (ROOT / "CHANGELOG.md").read_text()


@pytest.mark.pytorch
@pytest.mark.tensorflow
@pytest.mark.keras
@pytest.mark.sklearn
def test_generated_pages_are_current():
    # In a process of its own: other tests add operators to the maps.
    command = [sys.executable, "-m", "scripts.docs", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_editors_complete_what_is_public():
    assert sorted(dir(onnxport)) == sorted([*onnxport.__all__, "__version__"])


def test_the_package_runs_as_a_module():
    run = subprocess.run([sys.executable, "-m", "onnxport", "--version"], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (0, f"onnxport {onnxport.__version__}\n", "")
