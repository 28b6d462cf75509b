"""A seeded sample of scripts/conformance/hostile_formats.py: damaged files load, or give an error of onnxport that names them."""

from __future__ import annotations

import random
import shutil
import warnings
from pathlib import Path

import pytest

from onnxport import frameworks
from onnxport.converters.convert import load
from onnxport.errors import OnnxportError

SCRIPTS = Path(__file__).parents[2] / "scripts" / "conformance"
FAMILIES = {"_tensorflow": 8, "_pytorch": 16, "_keras": 6, "_sklearn": 10, "_boosters": 12, "_inputs": 25}


@pytest.mark.filterwarnings("ignore")  # what frameworks say of old formats while the ordinary files are made
@pytest.mark.parametrize("family", FAMILIES)
def test_damaged_files_give_errors_of_onnxport(family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in {"_sklearn": ("sklearn", "skops"), "_boosters": ("xgboost", "lightgbm")}.get(family, ()):
        pytest.importorskip(package)
    monkeypatch.syspath_prepend(str(SCRIPTS))
    import hostile_formats
    import hostile_formats_damage
    import hostile_formats_ordinary

    ordinary = tmp_path / "ordinary"
    ordinary.mkdir()
    bases = getattr(hostile_formats_ordinary, family)(ordinary)
    said: list[tuple[str, str]] = []
    for base in bases:
        for number in range(FAMILIES[family]):
            rng = random.Random(f"sample/{base.name}/{number}")
            place = tmp_path / f"{number:03}-{base.name.replace('/', '-')}"
            place.mkdir()
            target = place / base.path.name
            shutil.copytree(base.path, target) if base.path.is_dir() else shutil.copyfile(base.path, target)
            try:
                hostile_formats_damage.changed(target, rng.choice(("bytes", "cut", "structure", "structure")), rng)
            except (ValueError, TypeError, OverflowError):  # the odd value does not fit the field
                continue
            try:
                with warnings.catch_warnings(record=True):
                    if base.actions[0] in ("weights", "inputs"):
                        hostile_formats.act(base.actions[0], target, ())
                    else:
                        load(target, frameworks.of_path(target))
            except OnnxportError as error:
                said.append((place.name, str(error)))
    assert said
    assert [(name, text) for name, text in said if name not in text] == []
