"""What a source reads besides its inputs while it runs: the clock, chance outside of its framework, the environment.

A trace keeps what such a call gave, and two runs shortly one after the other need not show it: the time in seconds is the same
float32 for minutes.
"""

from __future__ import annotations

import datetime
import os
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any, Literal

import numpy as np

from onnxport.graph.provenance import is_users, relative_path
from onnxport.validation.runners import Outputs, Runner

Kind = Literal["clock", "calendar", "chance", "environment"]

_CLOCKS = ("time", "time_ns", "perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "process_time")
_CALENDARS = ("localtime", "gmtime", "ctime", "asctime", "strftime")
_CALLS: dict[object, tuple[str, Kind]] = {
    **{getattr(time, name): (f"time.{name}", "clock") for name in _CLOCKS},
    **{getattr(time, name): (f"time.{name}", "calendar") for name in _CALENDARS},
    datetime.datetime.now: ("datetime.now", "calendar"),
    datetime.datetime.today: ("datetime.today", "calendar"),
    datetime.datetime.utcnow: ("datetime.utcnow", "calendar"),
    datetime.date.today: ("date.today", "calendar"),
    random.random: ("random.random", "chance"),
    random.getrandbits: ("random", "chance"),
    os.urandom: ("os.urandom", "chance"),
}
_ENVIRONMENT = type(os.environ).__getitem__.__code__
_RUNS = 3  # further ones, in the widest type: what they have in common does not hang on the clock or on chance


@dataclass(frozen=True)
class Reading:
    """A call that gives something else at another time or place, and the line of the user's code that leads to it."""

    call: str
    kind: Kind
    place: str

    def __str__(self) -> str:
        return f"{self.call} ({self.place})" if self.place else self.call


@contextmanager
def readings_of(wanted: bool = True) -> Iterator[list[Reading]]:
    """What this thread reads of its surroundings within the block; nothing where another profiler is at work."""
    readings: list[Reading] = []
    if not wanted or sys.getprofile() is not None:
        yield readings
        return
    before = _numpy_state()
    sys.setprofile(_noting(readings))
    try:
        yield readings
    finally:
        sys.setprofile(None)
        if _numpy_state() != before:
            readings.append(Reading("numpy.random", "chance", ""))


def _noting(readings: list[Reading]) -> Callable[[FrameType, str, Any], None]:
    def note(frame: FrameType, event: str, argument: Any) -> None:
        if event == "c_call":
            known = _CALLS.get(argument)
        elif event == "call" and frame.f_code is _ENVIRONMENT:
            known = (f"os.environ[{frame.f_locals.get('key')!r}]", "environment")
        else:
            return
        if known is not None and (place := _users_place(frame)):
            reading = Reading(*known, place)
            if reading not in readings:
                readings.append(reading)

    return note


def _users_place(frame: FrameType | None) -> str:
    """The line of the user's own code that a call of the standard library comes from; empty where a package does it."""
    stdlib = os.path.dirname(os.__file__)
    while frame is not None and _of_library(frame.f_code.co_filename, stdlib):
        frame = frame.f_back
    if frame is None or not is_users(frame.f_code.co_filename):
        return ""
    return f"{relative_path(frame.f_code.co_filename)}:{frame.f_lineno}"


def _of_library(file: str, stdlib: str) -> bool:
    return file.startswith((stdlib, "<")) and "site-packages" not in file


def _numpy_state() -> tuple[bytes, int]:
    kind = np.random.get_state(legacy=False)["state"]
    return kind["key"].tobytes(), int(kind.get("pos", 0))


def notes_of(readings: Sequence[Reading], *, failed: bool) -> list[str]:
    """A remark on what was read; of the clock, which a module may also read for its log, only where something differs."""
    kept = [item for item in readings if item.kind == "chance" or (failed and item.kind != "environment")]
    notes = [f"the source calls {_listed(kept)}: the converted model keeps what that gave in the trace"] if kept else []
    own = [item for item in readings if item.kind == "environment"]
    return notes + ([f"the source reads {_listed(own)}: the converted model keeps it as it was"] if own else [])


def unproved_by(readings: Sequence[Reading], source: Runner, leaves: Sequence[Any]) -> str:
    """Why agreement now is none for later; empty where nothing was read that the outputs hang on.

    A clock's or a draw's value shows in further runs in float64, as long as they run the user's code, not a graph of it.
    """
    dates = [item for item in readings if item.kind == "calendar"]
    if dates:
        return (
            f"the source calls {_listed(dates)}: at another time it may give other values, the converted model will not"
        )
    drawn = [item for item in readings if item.kind in ("clock", "chance")]
    if not drawn or _is_steady(source, leaves):
        return ""
    return f"the source calls {_listed(drawn)}, and its outputs change with it; the converted model's will not"


def _is_steady(source: Runner, leaves: Sequence[Any]) -> bool:
    """Whether runs in float64 that call clock or chance again are equal, bit for bit."""
    runs: list[Outputs] = []
    for _ in range(_RUNS):
        with readings_of() as again:
            outputs = source.run_float64(leaves) or _in_float64(source.run(leaves))
        if outputs is None or not any(item.kind in ("clock", "chance") for item in again):
            return False
        runs.append(outputs)
    return all(_same(value, other) for run in runs[1:] for (_, value), (_, other) in zip(runs[0], run, strict=True))


def _in_float64(outputs: Outputs) -> Outputs | None:
    """The outputs where they are of the widest type anyway, as scikit-learn's are; None where they are not."""
    kinds = {value.dtype.name for _, value in outputs if isinstance(value, np.ndarray) and value.dtype.kind in "fc"}
    return outputs if kinds == {"float64"} else None


def _same(value: object, other: object) -> bool:
    if isinstance(value, list) and isinstance(other, list):
        return len(value) == len(other) and all(map(_same, value, other))
    if isinstance(value, dict) and isinstance(other, dict):
        return value.keys() == other.keys() and all(_same(item, other[key]) for key, item in value.items())
    if isinstance(value, np.ndarray) and isinstance(other, np.ndarray):
        return value.shape == other.shape and value.tobytes() == other.tobytes()
    return bool(value == other)


def _listed(readings: Sequence[Reading]) -> str:
    return ", ".join(dict.fromkeys(map(str, readings)))
