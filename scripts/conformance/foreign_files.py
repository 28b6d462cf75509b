"""ONNX files that other tools wrote, with inputs for each: the corpus of `foreign.py`.

    python -m scripts.conformance.foreign_files --folder /elsewhere/foreign [--match torch,skl2onnx]

Runs in an environment that has the tools beside the frameworks: onnxscript, tf2onnx, skl2onnx, onnxconverter-common, onnxslim
(`scripts/bench/run` shows how one is layered over ``.venv``). Each producer is a list of recipes by name; ``producer/name.onnx``
stands beside ``producer/name.npz``, which holds inputs by set and place: two draws, and another batch size where the
file has one. What a tool itself refuses has its reason in ``missing.jsonl`` and is no part of the corpus.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

Write = Callable[[Path], Sequence[Sequence[np.ndarray]]]  # writes the file, and gives its inputs by set
SECONDS = 240
PRODUCERS = ("torch", "keras", "sklearn", "hand", "tools")  # and "optimum", in an environment of its own


def recipes(producer: str) -> Iterator[tuple[str, Write]]:
    """The files of a producer: names and what writes them."""
    if producer == "torch":
        from scripts.conformance import foreign_torch

        return foreign_torch.recipes()
    if producer == "keras":
        from scripts.conformance import foreign_keras

        return foreign_keras.recipes()
    if producer == "sklearn":
        from scripts.conformance import foreign_sklearn

        return foreign_sklearn.recipes()
    if producer == "hand":
        from scripts.conformance import foreign_graphs

        return foreign_graphs.recipes()
    if producer == "optimum":
        from scripts.conformance import foreign_optimum

        return foreign_optimum.recipes()
    from scripts.conformance import foreign_tools

    return foreign_tools.recipes()


def save_inputs(path: Path, sets: Sequence[Sequence[np.ndarray]]) -> None:
    """Writes the inputs beside a file; strings as fixed-width text, so that nothing is pickled."""
    held = {
        f"{index}.{place}": np.asarray(item, dtype=str) if item.dtype == object else item
        for index, given in enumerate(sets)
        for place, item in enumerate(given)
    }
    np.savez(path.with_suffix(".npz"), **held)


def read_inputs(path: Path) -> list[list[np.ndarray]]:
    """The sets of inputs of a file."""
    sets: dict[int, dict[int, np.ndarray]] = {}
    with np.load(path.with_suffix(".npz")) as held:
        for key in held.files:
            index, place = map(int, key.split("."))
            item = held[key]
            sets.setdefault(index, {})[place] = item.astype(object) if item.dtype.kind == "U" else item
    return [[given[place] for place in sorted(given)] for _, given in sorted(sets.items())]


def redrawn(rng: np.random.Generator, item: np.ndarray, rows: int | None = None) -> np.ndarray:
    """Another draw of an input like the given one: numbers of its kind and range, whole ones that it holds."""
    shape = item.shape if rows is None or not item.ndim else (rows, *item.shape[1:])
    if item.dtype.kind == "f":
        return (item.mean() + item.std() * rng.standard_normal(shape)).astype(item.dtype)
    values = item.ravel()
    return np.asarray(rng.choice(values, size=shape) if values.size else np.zeros(shape), dtype=item.dtype)


def drawn(inputs: Sequence[np.ndarray], rows: int | None) -> list[list[np.ndarray]]:
    """The inputs, another draw of them, and, where a number of rows is given, a third set with those."""
    rng = np.random.default_rng(7)
    sets = [list(inputs), [redrawn(rng, item) for item in inputs]]
    return sets if rows is None else [*sets, [redrawn(rng, item, rows) for item in inputs]]


class Late(Exception):
    """A recipe takes too long."""


def _late(*_: object) -> None:
    raise Late(f"more than {SECONDS} s")


def write(folder: Path, producers: Sequence[str], names: str = "") -> None:
    """Writes what is not there yet."""
    missing = folder / "missing.jsonl"
    folder.mkdir(parents=True, exist_ok=True)
    gone = {json.loads(line)[0] for line in missing.read_text().splitlines()} if missing.exists() else set()
    signal.signal(signal.SIGALRM, _late)
    for producer in producers:
        for name, make in recipes(producer):
            path = folder / f"{name}.onnx"
            if path.with_suffix(".npz").exists() or name in gone or names not in name:
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            signal.alarm(SECONDS)
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    sets = make(path)
                save_inputs(path, that_run(path, sets))
            except Exception as error:
                path.unlink(missing_ok=True)
                reason = traceback.format_exception_only(error)[-1].strip()[:300]
                print(name, reason.splitlines()[0] if reason else "", flush=True)
                with missing.open("a") as stream:
                    print(json.dumps([name, reason]), file=stream)
            finally:
                signal.alarm(0)


def that_run(path: Path, sets: Sequence[Sequence[np.ndarray]]) -> list[Sequence[np.ndarray]]:
    """The sets that onnxruntime takes: it raises for the first two, other sizes that the file does not take are dropped."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [item.name for item in session.get_inputs()]
    taken: list[Sequence[np.ndarray]] = []
    for index, given in enumerate(sets):
        try:
            session.run(None, dict(zip(names, given, strict=True)))
        except Exception:
            if index < 2:
                raise
            continue
        taken.append(given)
    return taken


def main() -> None:
    """Writes the corpus."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--match", default=",".join(PRODUCERS), help="producers, comma-separated")
    parser.add_argument("--names", default="", help="only files whose name has this in it")
    options = parser.parse_args()
    write(options.folder, options.match.split(","), options.names)


if __name__ == "__main__":
    main()
