"""Model files other than ONNX that are written to do harm: to run code, to read or write files, to take memory without end.

What they would write is called ``ran`` in the folder that is watched; what they would read stands there too.
"""

from __future__ import annotations

import json
import pickle
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from hostile_formats_archives import archives, keras_files, stores
from hostile_formats_graphs import graphs
from hostile_formats_places import ACTIONS, Payload, Written, new_place
from hostile_run import Attack, Places


def built(places: Places) -> Iterator[Attack]:
    """Attacks with canaries in the places that are watched."""
    folder = places.files / "built"
    folder.mkdir()
    makers: list[Callable[[Path, Path], Iterator[Written]]] = [
        graphs, archives, keras_files, stores, _estimators, _pickles, _bombs,
    ]  # fmt: skip
    for make in makers:
        for number, (name, path, actions) in enumerate(make(folder, places.secret)):
            places.touched()  # what writing the attack itself touched
            shapes = ("5x4",) if path.suffix in (".pt2", ".skops") else ()
            yield Attack(
                f"{name.partition('/')[0]}/hostile/{number:03}-{name}", path, actions, inputs=shapes, worker="formats"
            )


def _estimators(folder: Path, secret: Path) -> Iterator[Written]:
    import skops.io
    from sklearn.datasets import dump_svmlight_file, load_files
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer
    from sklearn.tree import export_graphviz

    canary = str(secret / "ran")
    for function in (
        dump_svmlight_file,
        load_files,
        export_graphviz,
        np.save,
        np.savetxt,
        np.load,
        np.fromfile,
        np.memmap,
    ):
        for options in ({}, {"f": canary}, {"file": canary}, {"fname": canary}, {"filename": canary, "mode": "w+"}):
            place = new_place(folder, "model.skops")
            skops.io.dump(make_pipeline(FunctionTransformer(function, kw_args=options)), place)
            yield "skops/function", place, ACTIONS
    place = new_place(folder, "model.skops")
    skops.io.dump(CountVectorizer(input="filename", vocabulary={"a": 0}), place)
    yield "skops/filename", place, ACTIONS
    skops.io.dump(make_pipeline(FunctionTransformer(np.abs, kw_args={"x": [1, 2]})), folder.parent / "plain.skops")
    with zipfile.ZipFile(folder.parent / "plain.skops") as archive:
        text = archive.read("schema.json").decode()
    for module, name in (
        ("os", "system"), ("builtins", "exec"), ("subprocess", "Popen"), ("sklearn.datasets._base", "clear_data_home"),
        ("sklearn.utils._testing", "raises"), ("numpy", "memmap"), ("numpy.testing._private.utils", "measure"),
        ("antigravity", "x"),
    ):  # fmt: skip
        for loader in (
            "ListNode",
            "TupleNode",
            "DictNode",
            "ObjectNode",
            "FunctionNode",
            "TypeNode",
            "PartialNode",
            "LossNode",
        ):
            schema = json.loads(text)
            waiting = [schema]
            while waiting:
                item = waiting.pop()
                if isinstance(item, dict):
                    if item.get("__loader__") in (loader, "FunctionNode"):
                        item.update(__module__=module, __class__=name, __loader__=loader)
                        break
                    waiting += item.values()
                elif isinstance(item, list):
                    waiting += item
            place = new_place(folder, "model.skops")
            with zipfile.ZipFile(place, "w") as archive:
                archive.writestr("schema.json", json.dumps(schema))
            yield "skops/node", place, ACTIONS[:1]


def _pickles(folder: Path, secret: Path) -> Iterator[Written]:
    canary = secret / "ran"
    for suffix in (".pkl", ".pickle", ".joblib"):
        place = new_place(folder, f"model{suffix}")
        place.write_bytes(pickle.dumps(Payload(canary)))
        yield "pickle/plain", place, ACTIONS
    held = np.empty(1, object)
    held[0] = Payload(canary)
    place = new_place(folder, "inputs.npy")
    np.save(place, held, allow_pickle=True)
    yield "inputs/pickle", place, ("inputs",)
    place = new_place(folder, "inputs.npz")
    np.savez(place, x=held)
    yield "inputs/pickle", place, ("inputs",)


def _bombs(folder: Path, secret: Path) -> Iterator[Written]:
    """Files that unpack, nest or multiply to more than a machine has."""
    zeros = bytes(64 << 20)
    parts = {
        "model.keras": ("config.json", ACTIONS),
        "model.pt2": ("model/archive_format", ACTIONS),
        "model.skops": ("schema.json", ACTIONS),
        "inputs.npz": ("x.npy", ("inputs",)),
        "weights.pt": ("model/data.pkl", ("weights",)),
    }
    for name, (part, actions) in parts.items():
        place = new_place(folder, name)
        with (
            zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
            archive.open(part, "w") as stream,
        ):
            for _ in range(12):
                stream.write(zeros)
        yield f"{place.suffix[1:]}/packed", place, actions
        place = new_place(folder, name)
        with zipfile.ZipFile(place, "w") as archive:
            archive.writestr(part, "[" * 200_000)
        yield f"{place.suffix[1:]}/nested", place, actions
        place = new_place(folder, name)
        with zipfile.ZipFile(place, "w") as archive:
            archive.writestr(f"../../{secret.name}/ran", "x")
            archive.writestr(part, "{}")
        yield f"{place.suffix[1:]}/leads out", place, actions
    for suffix in (".json", ".txt", ".ubj"):
        place = new_place(folder, f"model{suffix}")
        place.write_bytes(b"[" * 300_000)
        yield "boosters/nested", place, ACTIONS
    place = new_place(folder, "model.ubj")
    place.write_bytes(b"{L" + bytes(7) + b"\x01x[$D#L" + b"\x7f" + b"\xff" * 7)
    yield "boosters/vast", place, ACTIONS
