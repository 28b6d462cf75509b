"""An engine's file inside the engine's own process, as the helper process asks for it."""

from __future__ import annotations

import statistics
import time
from importlib import import_module
from pathlib import Path
from typing import Any

from onnxport.validation.witnesses.engine import OpenFile, Shapes

_RUNS, _SECONDS = 7, 0.3  # the latency is the median of so many further runs, as far as they fit into these seconds


class ServedFile:
    """A file in an engine; each answer ends with the seconds that a run takes."""

    def __init__(self, run: OpenFile, seconds: float) -> None:
        self._run, self._seconds = run, seconds

    def about(self) -> dict[str, Any]:
        """In how many seconds the engine has loaded the file."""
        return {"seconds": self._seconds}

    def run_prepared(self, feeds: dict[str, Any], names: list[str]) -> list[Any]:
        """The outputs, and the latency."""
        results = list(self._run(feeds))
        if len(results) != len(names):
            raise ValueError(f"it gives {len(results)} outputs, the file has {len(names)}")
        return [*results, self._latency(feeds)]

    def _latency(self, feeds: dict[str, Any]) -> float:
        taken: list[float] = []
        end = time.perf_counter() + _SECONDS
        while len(taken) < _RUNS and (not taken or time.perf_counter() < end):
            started = time.perf_counter()
            self._run(feeds)
            taken.append(time.perf_counter() - started)
        return statistics.median(taken)


def open_served(path: str, engine: str, shapes: Shapes) -> ServedFile:
    """A file in an engine, whose opener is ``"package.module:name"``."""
    module, _, name = engine.partition(":")
    opener = getattr(import_module(module), name)
    started = time.perf_counter()
    run = opener(Path(path), shapes)
    return ServedFile(run, time.perf_counter() - started)
