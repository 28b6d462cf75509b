"""Interrupts saves, reads beside them, fills the disk, and writes the table in docs/security.md.

python scripts/conformance/saves.py [--kills 200] [--megabytes 400] [--looks 20000] [--fillings 60] [--page]

All weights of a model here are one number, its generation: a mixture of two models shows as two numbers. What is looked at is the
files as any reader sees them, not onnxport's word.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir

from onnxport.errors import SavingError
from onnxport.model import OnnxModel

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "security.md"
BEGIN, END = "<!-- saves: begin -->", "<!-- saves: end -->"
WEIGHTS = 4


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    what: str
    count: int
    outcome: str
    wrong: int


def generation(number: int, megabytes: float) -> OnnxModel:
    """A model of products whose weights are all `number`."""
    columns = max(int(megabytes * 1e6 / 4 / WEIGHTS / 16), 1)
    return model_of([np.full((16, columns), number, np.float32) for _ in range(WEIGHTS)])


def model_of(arrays: list[np.ndarray], names: Sequence[str] = ("w0", "w1", "w2", "w3")) -> OnnxModel:
    """A model of products with these weights, which are not copied."""
    x = ir.val("x", ir.DataType.FLOAT, ["N", arrays[0].shape[0]])
    weights = [ir.val(name, const_value=ir.tensor(array, name=name)) for name, array in zip(names, arrays, strict=True)]
    products = [ir.node("MatMul", [x, weight]) for weight in weights]
    total = ir.node("Sum", [node.outputs[0] for node in products])
    total.outputs[0].name, total.outputs[0].type = "y", ir.TensorType(ir.DataType.FLOAT)
    graph = ir.Graph(
        [x], total.outputs, nodes=[*products, total], initializers=weights, opset_imports={"": 21}, name="generation"
    )
    return OnnxModel(ir.Model(graph, ir_version=10))


# -- what a reader sees: the numbers in the model there ------------------------------------------------------------------------


def by_hand(place: Path) -> set[float]:
    """With the protobuf message and the data file that it names; nothing is held but a page at a time."""
    numbers: set[float] = set()
    for item in onnx.load(place, load_external_data=False).graph.initializer:
        entries = {entry.key: entry.value for entry in item.external_data}
        weight = (
            np.memmap(place.parent / entries["location"], np.float32, "r", int(entries["offset"]), tuple(item.dims))
            if entries
            else onnx.numpy_helper.to_array(item)
        )
        numbers |= {float(weight.min()), float(weight.max())}
    return numbers


def by_onnx(place: Path) -> set[float]:
    """With the onnx package."""
    weights = [onnx.numpy_helper.to_array(item) for item in onnx.load(place).graph.initializer]
    return {float(edge) for weight in weights for edge in (weight.min(), weight.max())}


def by_onnxport(place: Path) -> set[float]:
    """With onnxport."""
    model = OnnxModel.load(place).model
    weights = [
        value.const_value.numpy() for value in model.graph.initializers.values() if value.const_value is not None
    ]
    return {float(edge) for weight in weights for edge in (weight.min(), weight.max())}


def by_onnxruntime(place: Path) -> set[float]:
    """With onnxruntime, by the outputs: a mixture has columns that are not 16 x 4 x the same number."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(os.fspath(place), options, providers=["CPUExecutionProvider"])
    (result,) = session.run(None, {"x": np.ones((1, 16), np.float32)})
    return {float(edge) / 16 / WEIGHTS for edge in (result.min(), result.max())}


READERS: dict[str, Callable[[Path], set[float]]] = {
    "onnxport": by_onnxport,
    "onnx": by_onnx,
    "onnxruntime": by_onnxruntime,
}


# -- killed savers -------------------------------------------------------------------------------------------------------------


def _child(work: Callable[[], None]) -> int:
    child = os.fork()
    if child:
        return child
    try:
        work()
    finally:
        os._exit(0)


def killed_saves(folder: Path, count: int, megabytes: float, number: signal.Signals, external: bool) -> Row:
    """Kills savers at moments spread over the save of a model over an existing one."""
    place = folder / "m.onnx"
    current = 1
    arrays = [np.full((16, int(megabytes * 1e6 / 4 / WEIGHTS / 16)), current, np.float32) for _ in range(WEIGHTS)]
    model = model_of(arrays)
    model.save(place, external_data=external)
    started = time.monotonic()
    model.save(place, external_data=external)
    window = time.monotonic() - started  # the time within which a save is killed; it follows how busy the machine is
    kept, replaced, wrong = 0, 0, 0
    for turn in range(count):
        for array in arrays:
            array.fill(turn + 2)
        child = _child(lambda: model.save(place, external_data=external))
        moment = random.random()
        time.sleep(window * moment)
        os.kill(child, number)
        os.waitpid(child, 0)
        seen = by_hand(place)
        if seen == {float(current)}:
            kept += 1
            window *= 1.1 if moment > 0.8 else 1
        elif seen == {float(turn + 2)}:
            replaced, current = replaced + 1, turn + 2
            window *= 0.9 if moment < 0.7 else 1
        else:
            wrong += 1
    model.save(place, external_data=external)
    left = len(list(folder.iterdir())) - 1 - external
    kind = "with a data file" if external else "in one file"
    return Row(
        f"{number.name} during saves of {megabytes:g} MB {kind} over an existing model",
        count,
        f"{kept} old whole, {replaced} new whole, {wrong} mixed; {left} files left after the next save",
        wrong + left,
    )


# -- readers beside writers ----------------------------------------------------------------------------------------------------


def looks(folder: Path, count: int, reader: str, megabytes: float) -> Row:
    """Reads a model again and again while two writers replace it without a pause."""
    place = folder / "m.onnx"
    generation(1, megabytes).save(place, external_data=True)

    def write(start: int) -> None:
        for number in range(start, 1 << 23, 2):
            generation(number, megabytes).save(place, external_data=True)

    writers = [_child(lambda start=start: write(start)) for start in (2, 3)]
    seen: Counter[str] = Counter()
    generations: set[float] = set()
    try:
        for _ in range(count):
            try:
                numbers = READERS[reader](place)
            except Exception as error:  # each reader has errors of its own for a data file that is gone
                seen["gone" if "data" in str(error) else "failed"] += 1
                continue
            seen["whole" if len(numbers) == 1 else "mixed"] += 1
            generations |= numbers
    finally:
        for writer in writers:
            os.kill(writer, signal.SIGKILL)
            os.waitpid(writer, 0)
    outcome = f"{seen['whole']} whole, of {len(generations)} generations; {seen['mixed']} mixed"
    if reader != "onnxport" or seen["gone"]:
        outcome += f"; {seen['gone']} came too late for the old data file and said so"
    return Row(f"looks with {reader} beside two writers", count, outcome, seen["mixed"] + seen["failed"])


# -- a full disk ---------------------------------------------------------------------------------------------------------------


@contextmanager
def small_disk(megabytes: int) -> Iterator[Path | None]:
    """A file system of that size; None where this user can't mount one."""
    folder = Path(tempfile.mkdtemp())
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)]
    mounted = (
        shutil.which("mount") is not None and subprocess.run(mount, check=False, capture_output=True).returncode == 0
    )
    try:
        yield folder if mounted else None
    finally:
        if mounted:
            subprocess.run(["umount", str(folder)], check=True)
        folder.rmdir()


def full_disk(count: int) -> Row:
    """Saves a model over another where the disk has from nothing to nearly enough room for it."""
    refused, wrong, left = 0, 0, 0
    with small_disk(40) as folder:
        if folder is None:
            return Row("saves on a full disk", 0, "not run: no file system can be mounted here", 0)
        place, filler = folder / "m.onnx", folder / "filler"
        for turn in range(count):
            external = turn % 2 == 0
            generation(1, 6).save(place, external_data=external)
            before = {path.name: path.read_bytes() for path in folder.iterdir()}
            room = int(8e6 * turn / count)
            filler.write_bytes(bytes(shutil.disk_usage(folder).free - room))
            try:
                generation(2, 8).save(place, external_data=not external if turn % 3 else external)
            except SavingError as error:
                refused += "m.onnx" in str(error)
            filler.unlink()
            left += {path.name for path in folder.iterdir()} != set(before)
            wrong += {path.name: path.read_bytes() for path in folder.iterdir()} != before
    return Row(
        "saves over a model of 6 MB on a disk with room for 0 to 100% of the new one",
        count,
        f"{refused} refused by name, {count - wrong} times the old model whole, {left} files left",
        wrong + left + count - refused,
    )


# -- the table -----------------------------------------------------------------------------------------------------------------


def table(rows: list[Row]) -> str:
    """The rows as Markdown."""
    lines = ["| what | how often | outcome |", "|---|---|---|"]
    lines += [f"| {row.what} | {row.count:,} | {row.outcome} |" for row in rows]
    return "\n".join(lines)


def write_page(text: str) -> None:
    """Puts the table between its marks in docs/security.md."""
    page = PAGE.read_text()
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")


def main() -> int:
    """Runs all of it; 1 where a reader saw anything but one whole model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--megabytes", type=float, default=400)
    parser.add_argument("--looks", type=int, default=20_000, help="with onnxport; half as many with the others")
    parser.add_argument("--fillings", type=int, default=60)
    parser.add_argument("--page", action="store_true", help="write the table into docs/security.md")
    options = parser.parse_args()
    random.seed(12)
    rows: list[Row] = []

    def run(measure: Callable[..., Row], *arguments: object) -> None:
        folder = Path(tempfile.mkdtemp())
        try:
            rows.append(measure(folder, *arguments))
        finally:
            shutil.rmtree(folder)
        print(table(rows[-1:]).splitlines()[-1], flush=True)

    run(killed_saves, options.kills, options.megabytes, signal.SIGKILL, True)
    run(killed_saves, options.kills // 8, options.megabytes, signal.SIGTERM, True)
    run(killed_saves, options.kills // 8, options.megabytes, signal.SIGKILL, False)
    for reader in READERS:
        run(looks, options.looks // (1 if reader == "onnxport" else 2), reader, 1)
    rows.append(full_disk(options.fillings))
    print(table(rows))
    if options.page:
        write_page(table(rows))
    return int(any(row.wrong for row in rows))


if __name__ == "__main__":
    sys.exit(main())
