"""Runs the demo: ``scripts/demo [FOLDER]``."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console

from examples.demo import models
from examples.demo.matrix import Cell, row
from examples.demo.models import Trained
from examples.demo.page import show, write
from onnxport.frameworks.native_log import native_log_kept


def run(
    folder: Path, console: Console, sources: Sequence[Callable[[], Trained]] = models.ALL
) -> list[tuple[Trained, list[Cell]]]:
    """Trains, converts and compares; writes models and ``report.html`` into `folder` and gives the matrix."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for train in sources:
        started = time.perf_counter()
        with native_log_kept():  # what TensorFlow writes when it is imported
            trained = train()
        console.print(
            f"{trained.framework}: {trained.title}, accuracy {trained.accuracy:.1%}, "
            f"trained in {time.perf_counter() - started:.1f} s"
        )
        rows.append((trained, list(row(trained, folder))))
    write(rows, folder / "report.html")
    return rows


def main() -> int:
    """Prints the matrix; 1 where a cell failed."""
    if any(item.startswith("-") for item in sys.argv[1:]):  # no name of a folder
        sys.stdout.write("scripts/demo [FOLDER]: the models and report.html go to FOLDER, build/demo by default\n")
        return 0 if {"-h", "--help"}.intersection(sys.argv) else 2
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "build/demo")
    console = Console(width=150)
    started = time.perf_counter()
    rows = run(folder, console)
    show(rows, console)
    failed = sum(cell.verdict == "fail" for _, cells in rows for cell in cells)
    console.print(f"report: {folder / 'report.html'}, {time.perf_counter() - started:.0f} s, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
