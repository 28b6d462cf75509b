"""Damaged and hostile model files other than ONNX: ordinary ones, changed from a seed, and some written to do harm.

Each ordinary file is cut, has bytes changed, and is changed where it has a structure: a field of its JSON or protocol buffer,
a member of its archive, an array in its HDF5 store, a number in its text.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

from hostile_formats_built import built
from hostile_formats_damage import changed
from hostile_formats_ordinary import COMMANDS, ordinary, weights_model, weights_module
from hostile_run import Attack, Places

WORKER = "formats"


def attacks(places: Places, count: int, seed: int) -> Iterator[Attack]:
    """As many attacks as `count` over all formats, and those that are written to do harm."""
    yield from built(places)
    folder = places.root / "ordinary"
    folder.mkdir(exist_ok=True)
    bases = ordinary(folder)
    for number in range(count):
        base = bases[number % len(bases)]
        rng = random.Random(f"{seed}/{base.name}/{number}")
        kind = rng.choice(("bytes", "cut", "structure", "structure", "structure"))
        place = places.files / f"formats-{number:05}"
        place.mkdir()
        target = place / base.path.name
        shutil.copytree(base.path, target) if base.path.is_dir() else shutil.copyfile(base.path, target)
        try:
            changed(target, kind, rng)
        except (ValueError, TypeError, OverflowError):  # the odd value does not fit the field
            continue
        action = base.actions[number // len(bases) % len(base.actions)]
        yield Attack(f"{base.name}/{kind}/{number:05}", target, (action,), inputs=base.inputs, worker=WORKER)
        shutil.rmtree(place, ignore_errors=True)


def warmed() -> None:
    """Imports every framework and converts a model of each, so that what they take to start is not counted."""
    import tempfile

    import onnxport

    with tempfile.TemporaryDirectory() as folder:
        for base in ordinary(Path(folder)):
            act(base.actions[0], base.path, base.inputs) if base.actions != COMMANDS else None
            if base.actions == COMMANDS and "text" not in base.name:
                from onnxport.cli.inputs import draw_inputs

                given = draw_inputs(base.inputs) if base.inputs else None
                onnxport.convert(base.path, inputs=given)


def act(action: str, path: Path, inputs: tuple[str, ...]) -> str:
    """Loads weights or example inputs as the command line does."""
    if action == "inputs":
        from onnxport.cli.inputs import read_inputs

        return type(read_inputs(path, table=False)).__name__
    from onnxport import frameworks
    from onnxport.cli.source import read_weights

    keras_file = path.name.endswith(".weights.h5")
    owner = frameworks.get("keras" if keras_file else "pytorch")
    read_weights(weights_model() if keras_file else weights_module(), owner, path)
    return "weights"
