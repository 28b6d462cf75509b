"""Look-ups: exact overload first, latest version at or below, the user's registration before the package's."""

import importlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from onnxport.opset_maps.registry import OpsetMap, Semantics


def test_overloads():
    table = OpsetMap("toy")
    table.lower("toy::add")(general := lambda op: "general")
    table.lower("toy::add.Scalar")(exact := lambda op: "exact")
    assert table.find("toy::add.Scalar").function is exact
    assert table.find("toy::add.Tensor").function is general
    assert table.find("toy::sub") is None


def test_complex_entries_stand_beside_the_real_ones():
    table = OpsetMap("toy")
    table.lower("toy::add")(lambda op: "real")
    assert table.find("toy::add", accepts_complex=True) is None
    table.lower("toy::add", accepts_complex=True)(both := lambda op: "complex")
    assert table.find("toy::add", accepts_complex=True).function is both


@pytest.mark.parametrize(("version", "expected"), [(1, None), (6, "old"), (12, "old"), (13, "new"), (99, "new")])
def test_latest_version_at_or_below(version, expected):
    table = Semantics()
    table.op("Clip", versions=(6, 11))(lambda xp: "old")
    table.op("Clip", versions=(13,))(lambda xp: "new")
    found = table.find("", "Clip", version)
    assert (found and found.function(None)) == expected


def test_the_last_registration_wins():
    table = OpsetMap("toy")
    table.lower("toy::add")(lambda op: 1)
    table.lower("toy::add")(lambda op: 2)
    assert table.find("toy::add").function(None) == 2
    semantics = Semantics()
    semantics.op("Add", versions=(7,))(lambda xp: 1)
    semantics.op("Add", versions=(7,))(lambda xp: 2)
    assert semantics.find("", "Add", 14).function(None) == 2


def test_what_the_user_registered_first_survives_the_loading_of_the_package(tmp_path, monkeypatch):
    package = tmp_path / "toy_families"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "basic.py").write_text(
        "import toy_home\ntoy_home.table.lower('toy::add', 'toy::sub')(lambda op: 'package')\n"
    )
    (tmp_path / "toy_home.py").write_text(
        "from onnxport.opset_maps.registry import OpsetMap\ntable = OpsetMap('toy', 'toy_families')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import toy_home

    toy_home.table.lower("toy::add")(lambda op: "user")
    assert toy_home.table.find("toy::sub").function(None) == "package"
    assert toy_home.table.find("toy::add").function(None) == "user"


def test_a_family_that_fails_to_import_fails_every_time(tmp_path, monkeypatch):
    package = tmp_path / "broken_families"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "basic.py").write_text("import no_such_module_at_all\n")
    monkeypatch.syspath_prepend(tmp_path)
    for table in (OpsetMap("toy", "broken_families"), Semantics("broken_families")):
        for _ in range(2):
            with pytest.raises(ModuleNotFoundError, match="no_such_module_at_all"):
                list(table)


@pytest.mark.parametrize(
    ("framework", "needs"),
    [
        pytest.param("pytorch", "torch", marks=pytest.mark.pytorch),
        pytest.param("tensorflow", "tensorflow", marks=pytest.mark.tensorflow),
    ],
)
def test_usual_modules_have_all_overloads_of_what_they_take_whole(framework, needs):
    """An entry for all overloads of an operator is taken from them before another module's for one overload is imported."""
    pytest.importorskip(needs, reason=f"{framework} is an extra")
    from onnxport.opset_maps import maps

    table, groups = {
        "pytorch": (maps.aten, maps._USUAL_ATEN),
        "tensorflow": (maps.tensorflow, maps._USUAL_TENSORFLOW),
    }[framework]
    package = f"onnxport.opset_maps.to_onnx.{framework}."
    modules = {entry.function.__module__ for entry in table}
    for last in range(len(groups)):
        usual = {package + name for group in groups[: last + 1] for name in group}
        assert usual <= modules
        others = {module for module in modules if module.startswith(package)} - usual
        elsewhere = {(item.name, item.accepts_complex) for item in table if item.function.__module__ in others}
        whole = {
            (item.name, item.accepts_complex)
            for item in table
            if item.function.__module__ not in others and "." not in item.name
        }
        assert {
            (name, is_complex) for name, is_complex in elsewhere if (name.rpartition(".")[0], is_complex) in whole
        } == set()


_REGISTERED = """
import sys
from collections import defaultdict
from onnxport.opset_maps.registry import OpsetMap
places, lower = defaultdict(set), OpsetMap.lower
def noted(self, *names, accepts_complex=False, **given):
    module = sys._getframe(1).f_globals["__name__"]
    for name in " ".join(names).split():
        places[name, accepts_complex].add(module)
    return lower(self, *names, accepts_complex=accepts_complex, **given)
OpsetMap.lower = noted
from onnxport.opset_maps import maps
entries = list(maps.{0})
print(len(entries), *(name for (name, _), modules in places.items() if len(modules) > 1))
"""


@pytest.mark.parametrize(
    ("table", "needs"),
    [
        pytest.param("aten", "torch", marks=pytest.mark.pytorch),
        pytest.param("tensorflow", "tensorflow", marks=pytest.mark.tensorflow),
        pytest.param("sklearn", "sklearn", marks=pytest.mark.sklearn),
    ],
)
def test_no_two_modules_register_one_operator(table, needs):
    """Else the entry that is taken follows from the order in which they are imported."""
    pytest.importorskip(needs, reason=f"the map needs {needs}")
    count, *twice = _printed(_REGISTERED.format(table))
    assert int(count) > 100
    assert twice == []


def _printed(program):
    """The words that a program prints in a process of its own."""
    command = [sys.executable, "-W", "ignore", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    return done.stdout.split()


def _dense():
    import keras

    layers = [keras.layers.Conv2D(2, 3, activation="relu"), keras.layers.BatchNormalization(), keras.layers.Flatten()]
    model = keras.Sequential([keras.Input((8, 8, 3)), *layers, keras.layers.Dense(2, activation="softmax")])
    return model, (np.zeros((2, 8, 8, 3), np.float32),)


def _transformer():
    import torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.places = torch.nn.Embedding(9, 8), torch.nn.Embedding(9, 8)
            self.block = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

        def forward(self, ids):
            return self.block(self.words(ids) + self.places(torch.arange(ids.shape[1])))

    return Net().eval(), (torch.zeros(2, 5, dtype=torch.int64),)


_USUAL_ALONE = """
import sys
import numpy as np
import onnxport
from tests.opset_maps.test_registry import {0}
model, inputs = {0}()
onnxport.convert(model, inputs=inputs, validate=False)
print(*sorted(name for name in sys.modules if name.startswith("onnxport.opset_maps.to_onnx.")))
"""


@pytest.mark.parametrize(
    ("build", "framework", "needs", "unusual"),
    [
        pytest.param("_transformer", "pytorch", "torch", "linalg", marks=pytest.mark.pytorch),
        pytest.param("_dense", "tensorflow", "keras", "control_flow", marks=pytest.mark.keras),
    ],
)
def test_a_usual_network_imports_the_usual_modules_alone(build, framework, needs, unusual):
    pytest.importorskip(needs, reason=f"{framework} is an extra")
    imported = _printed(_USUAL_ALONE.format(build))
    assert f"onnxport.opset_maps.to_onnx.{framework}.elementwise" in imported
    assert f"onnxport.opset_maps.to_onnx.{framework}.{unusual}" not in imported


@pytest.fixture
def layered(tmp_path, monkeypatch):
    """A map of three modules, of which two are usual ones, one after the other."""
    package = tmp_path / "layered"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "often.py").write_text("import layered_home\nlayered_home.table.lower('add')(lambda op: 'often')\n")
    (package / "next.py").write_text("import layered_home\nlayered_home.table.lower('neg')(lambda op: 'next')\n")
    (package / "seldom.py").write_text(
        "from layered_home import table\n"
        "assert table.find('add').function(None)\n"  # of the usual module, which is there already
        "table.lower('sub.exact')(lambda op: 'seldom')\n"
    )
    (tmp_path / "layered_home.py").write_text(
        "from onnxport.opset_maps.registry import OpsetMap\ntable = OpsetMap('toy', 'layered', (('often',), ('next',)))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("layered_home").table
    for name in [name for name in sys.modules if name.partition(".")[0] in ("layered", "layered_home")]:
        del sys.modules[name]


def test_other_modules_are_imported_once_the_usual_ones_have_nothing(layered):
    assert layered.find("add").function(None) == "often"
    assert "layered.next" not in sys.modules
    assert layered.find("neg").function(None) == "next"
    assert "layered.seldom" not in sys.modules
    assert layered.find("sub.exact").function(None) == "seldom"
    assert {entry.name for entry in layered} == {"add", "neg", "sub.exact"}


def test_beside_the_users_entries_the_whole_package_is_looked_through(layered):
    layered.lower("sub")(lambda op: "user")
    assert layered.find("sub.exact").function(None) == "seldom"
    assert layered.find("sub.other").function(None) == "user"
