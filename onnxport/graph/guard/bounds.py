"""What the runs of one conversion may cost: memory, time, bytes of output."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

# What a model may cost over nothing, and for each byte of it and of its inputs: activations are some multiple of these.
_BYTES, _BYTES_PER_MODEL_BYTE, _BYTES_PER_INPUT_BYTE = 300 << 20, 4, 16
_SECONDS, _MODEL_BYTES_PER_SECOND, _INPUT_BYTES_PER_SECOND = 8.0, 20 << 20, 1 << 20
# On inputs that are drawn from the sizes which a file declares, the file alone pays: for the helper's own 110 MB too.
_DRAWN_BYTES = 160 << 20
_OUTPUT_BYTES = 24 << 20
PATIENCE = 1.5  # how much longer than that they may take by the clock, on a busy machine

WAY_OUT = "give inputs of your own, smaller ones, or convert with validate=False and run it yourself"


@dataclass
class Guard:
    """Bounds for the runs of one conversion."""

    model_bytes: int  # size of the model
    nodes: int = 0  # how many nodes its graph has
    drawn: bool = False  # nobody gave the inputs: they are drawn from the sizes that the model declares
    # Tells it from other guards, in the helper process too.
    number: int = field(default_factory=itertools.count(1).__next__)
    # Seconds that reading its nodes and its runs have taken so far: of the processor where others hold the machine,
    # else of the clock.
    spent: float = 0.0
    waited: float = 0.0  # seconds by the clock that its runs have taken so far
    used: bool = False  # whether a session was opened under it
    stopped: str = ""  # the error of a run that took too much; empty where none did

    def seconds(self, input_bytes: int) -> float:
        """What is left for runs on inputs of that size."""
        allowed = _SECONDS + self.model_bytes / _MODEL_BYTES_PER_SECOND
        allowed += 0 if self.drawn else input_bytes / _INPUT_BYTES_PER_SECOND
        return min(allowed - self.spent, PATIENCE * allowed - self.waited)

    def memory(self, input_bytes: int) -> int:
        """Bytes that all runs together may take."""
        model = _BYTES_PER_MODEL_BYTE * self.model_bytes
        return model + (_DRAWN_BYTES if self.drawn else _BYTES + _BYTES_PER_INPUT_BYTE * input_bytes)

    @property
    def output_bytes(self) -> int | None:
        """Bytes that all outputs of one run may take, which are compared in this process; None for any."""
        return _OUTPUT_BYTES + 2 * self.model_bytes if self.drawn else None


_current: ContextVar[Guard | None] = ContextVar("onnxport_guard", default=None)


def current() -> Guard | None:
    """The guard in force."""
    return _current.get()


def spent_elsewhere() -> float:
    """Seconds that the helper process has worked under the guard in force; 0 without one."""
    guard = current()
    return guard.spent if guard is not None else 0.0


def left_elsewhere() -> float:
    """Seconds that it has left."""
    guard = current()
    return guard.seconds(0) if guard is not None and guard.used else math.inf


@contextmanager
def guarded(model_bytes: int, *, nodes: int = 0, drawn: bool = False) -> Iterator[Guard]:
    """Sessions that are opened during the block run in the helper process."""
    guard = Guard(model_bytes, nodes, drawn)
    token = _current.set(guard)
    try:
        yield guard
    finally:
        _current.reset(token)
