"""What keeps the house readable: no import circles, no long files, arguments that have types, facts that have names."""

import ast
import re
from graphlib import CycleError, TopologicalSorter

import pytest

from tests.test_package import FILES, MODULES, PACKAGE, ROOT, imported

LINES = 450
WRITTEN_BY_HAND = sorted(path for room in ("onnxport", "tests", "scripts") for path in (ROOT / room).rglob("*.py"))


def test_no_modules_import_each_other():
    """Imports inside of functions count, and those that only type checkers read."""
    known = {name.removesuffix(".__init__") for name in MODULES}
    graph = {}
    for path, name in zip(FILES, MODULES, strict=True):
        names = list(imported(path, type_checking=True))
        # `from package import module` names both: the module is what is meant
        finer = {item.rpartition(".")[0] for item in names if item in known}
        graph[name.removesuffix(".__init__")] = {item for item in names if item in known and item not in finer}
    graph["onnxport"] = set()  # its names are looked up when they are asked for
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_files_are_short_enough_to_be_about_one_thing():
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in WRITTEN_BY_HAND}
    assert {name: length for name, length in lengths.items() if length > LINES} == {}


def annotations(tree):
    """The annotation of each argument of each function."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            given = node.args
            rest = [item for item in (given.vararg, given.kwarg) if item is not None]
            for item in (*given.posonlyargs, *given.args, *given.kwonlyargs, *rest):
                if item.annotation is not None:
                    yield item.annotation


def is_any(annotation, aliases):
    if isinstance(annotation, ast.BinOp):
        return is_any(annotation.left, aliases) or is_any(annotation.right, aliases)
    return isinstance(annotation, ast.Name) and annotation.id in aliases


def test_few_arguments_are_of_any_type():
    """`Any` and its aliases: under 8 % of the annotated arguments."""
    trees = [ast.parse(path.read_text()) for path in FILES]
    aliases = {"Any"}
    for tree in trees:
        for node in tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and node.value.id == "Any":
                aliases |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    every = [annotation for tree in trees for annotation in annotations(tree)]
    assert sum(is_any(annotation, aliases) for annotation in every) < 0.08 * len(every)


def test_facts_about_values_are_typed():
    """`ir.Value.meta` is read in one place; PyTorch's nodes have a `meta` of their own."""
    others = [path.relative_to(PACKAGE).as_posix() for path in FILES]
    reads = {
        place: re.findall(r"\w+\.meta\b", (PACKAGE / place).read_text())
        for place in others
        if place != "graph/facts.py" and "pytorch" not in place
    }
    assert {place: matches for place, matches in reads.items() if matches} == {}, "declare a Fact"


def test_no_module_reads_what_another_keeps_private():
    """Names that begin with an underscore: neither imported nor taken from an imported module of the package."""
    taken = []
    for path in FILES:
        tree = ast.parse(path.read_text())
        own = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and (node.module or "")[:8] == "onnxport"
        ]
        names = {item.asname or item.name for node in own for item in node.names}
        taken += [(path.name, name) for name in names if name.startswith("_") and not name.startswith("__")]
        taken += [
            (path.name, ast.unparse(node))
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in names
            if node.attr.startswith("_") and not node.attr.startswith("__")
        ]
    assert taken == []


# What the words of the glossary say better; a handful is left where a sentence needs them.
DIALECT = ("found", "made", "said", "says", "told", "laid")


def test_the_package_keeps_to_the_glossary():
    text = "\n".join(path.read_text() for path in FILES)
    assert sum(len(re.findall(rf"\b{word}\b", text)) for word in DIALECT) < 60


def test_one_room_knows_what_a_runtime_gets_wrong():
    """The maps write the direct operator: graph/runtimes, and what runs a model or reads a file by a runtime, name one."""
    rooms = ("opset_maps/lowerings/", "opset_maps/to_onnx/", "graph/passes/")
    texts = {path.relative_to(PACKAGE).as_posix(): path.read_text() for path in FILES}
    naming = [place for place, text in texts.items() if place.startswith(rooms) and "onnxruntime" in text]
    assert naming == []


def test_the_examples_of_the_guide_stand_in_the_package_as_printed():
    blocks = re.findall(r"```python\n# (\S+\.py)\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL)
    assert len(blocks) == 6
    for path, text in blocks:
        source = (ROOT / path).read_text()
        parts = [line for line in text.splitlines() if line.startswith(("import ", "from "))]
        parts += [part for part in text.split("\n\n") if not part.startswith(("import ", "from "))]
        assert [part for part in parts if part.rstrip() not in source] == [], path
