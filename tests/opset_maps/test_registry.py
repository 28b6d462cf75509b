"""Look-ups: exact overload first, latest version at or below, the user's registration before the package's."""

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
