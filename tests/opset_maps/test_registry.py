"""Look-ups: exact overload first, latest version at or below, the user's registration before the package's."""

import importlib
import sys

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


@pytest.mark.pytorch
def test_usual_modules_have_all_overloads_of_what_they_take_whole():
    """An entry for all overloads of an operator is taken from them before another module's for one overload is imported."""
    pytest.importorskip("torch", reason="PyTorch is an extra")
    from onnxport.opset_maps import maps

    package = "onnxport.opset_maps.to_onnx.pytorch."
    usual = {package + name for name in maps._USUAL_ATEN}
    modules = {entry.function.__module__ for entry in maps.aten}
    assert usual <= modules
    others = {module for module in modules if module.startswith(package)} - usual
    elsewhere = {(item.name, item.accepts_complex) for item in maps.aten if item.function.__module__ in others}
    whole = {
        (item.name, item.accepts_complex)
        for item in maps.aten
        if item.function.__module__ not in others and "." not in item.name
    }
    assert {
        (name, is_complex) for name, is_complex in elsewhere if (name.rpartition(".")[0], is_complex) in whole
    } == set()


@pytest.fixture
def layered(tmp_path, monkeypatch):
    """A map of two modules, of which one is a usual one."""
    package = tmp_path / "layered"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "often.py").write_text("import layered_home\nlayered_home.table.lower('add')(lambda op: 'often')\n")
    (package / "seldom.py").write_text(
        "import layered_home\nlayered_home.table.lower('sub.exact')(lambda op: 'seldom')\n"
    )
    (tmp_path / "layered_home.py").write_text(
        "from onnxport.opset_maps.registry import OpsetMap\ntable = OpsetMap('toy', 'layered', ('often',))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("layered_home").table
    for name in [name for name in sys.modules if name.partition(".")[0] in ("layered", "layered_home")]:
        del sys.modules[name]


def test_other_modules_are_imported_once_the_usual_ones_have_nothing(layered):
    assert layered.find("add").function(None) == "often"
    assert "layered.seldom" not in sys.modules
    assert layered.find("sub.exact").function(None) == "seldom"
    assert {entry.name for entry in layered} == {"add", "sub.exact"}


def test_beside_the_users_entries_the_whole_package_is_looked_through(layered):
    layered.lower("sub")(lambda op: "user")
    assert layered.find("sub.exact").function(None) == "seldom"
    assert layered.find("sub.other").function(None) == "user"
