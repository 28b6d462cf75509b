"""The helper process, from inside: it opens and runs models, each request within the memory that its guard allows."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import onnx

from onnxport.errors import lacks_memory
from onnxport.graph.guard.bounds import WAY_OUT
from onnxport.graph.guard.messages import Message, decode, encode, receive, send

_STACK_BYTES = 9 << 20  # of a thread, as Linux reserves it; none of onnxruntime's fills it


class _OpenModel(Protocol):
    """What an opener gives: a `Session`, or an object with these methods of it."""

    def about(self) -> dict[str, Any]:
        """Names, element types and backend."""

    def run_prepared(self, feeds: dict[str, Any], names: list[str]) -> list[Any]:
        """The outputs named."""


def serve() -> None:
    """Answers requests on standard input until it ends."""
    requests, answers = os.fdopen(os.dup(0), "rb", buffering=0), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a runtime prints
    models, bound = _Models(), MemoryBound()
    while True:
        try:
            request, blocks = receive(requests)
        except EOFError:
            return
        if "close" in request:
            models.close(request["close"])
            send(answers, {}, [])
            continue
        before = time.process_time()
        try:
            with bound.memory(request["guard"], request["memory"], opens="open" in request):
                answer, results = models.answer(request, blocks)
        except Exception as error:  # whatever the runtime raises is the answer
            answer, results = _refusal(error), []
        send(answers, {**answer, "worked": time.process_time() - before}, results)


class _Models:
    """The open models by number."""

    def __init__(self) -> None:
        self._open: dict[int, _OpenModel] = {}
        self._count = 0

    def close(self, number: int) -> None:
        """Lets go of a model."""
        self._open.pop(number, None)

    def answer(self, request: dict[str, Any], blocks: list[bytes]) -> Message:
        """Shapes inferred, a model opened, or outputs."""
        if "infer" in request:
            model = onnx.ModelProto.FromString(blocks[0])
            shapes = onnx.shape_inference.infer_shapes(model, data_prop=request["infer"])
            return {}, [shapes.SerializeToString()]
        if "open" in request:
            opened = _opened(request["open"], **request["options"])
            self._count += 1
            self._open[self._count] = opened
            return {"id": self._count, **opened.about()}, []
        feeds = {name: decode(item, blocks) for name, item in request["feeds"].items()}
        outputs = self._open[request["run"]].run_prepared(feeds, request["names"])
        if request["output_bytes"] is not None and sum(map(_bytes_of, outputs)) > request["output_bytes"]:
            raise MemoryError("the outputs are too large to compare")
        results: list[bytes] = []
        return {"outputs": [encode(item, results) for item in outputs]}, results


def _opened(path: str, opener: str = "onnxport.graph.runtime:Session", **options: object) -> _OpenModel:
    module, _, name = opener.partition(":")
    opened: _OpenModel = getattr(import_module(module), name)(path, **options)
    return opened


def _bytes_of(item: object) -> int:
    if isinstance(item, (list, tuple, dict)):
        return sum(map(_bytes_of, item.values() if isinstance(item, dict) else item))
    return item.nbytes if isinstance(item, (np.ndarray, np.generic)) else 0


def _refusal(error: Exception) -> dict[str, Any]:
    if lacks_memory(error):
        return {"error": f"running the model takes more memory than a file may cost; {WAY_OUT}", "stopped": True}
    return {"error": str(error)[:2000] or type(error).__name__, "stopped": False}


class MemoryBound:
    """Bounds the process's memory, over what it has when the first request of a guard comes.

    What counts is data, not address space: a thread reserves 64 MiB of that and uses next to nothing.
    """

    def __init__(self) -> None:
        self._guard = self._base = self._sessions = 0

    @contextmanager
    def memory(self, guard: int, allowed: int, *, opens: bool = False) -> Iterator[None]:
        """All requests of the guard together may take so much, and each that opens a session the stacks of its threads."""
        try:
            import resource
        except ImportError:  # not Unix: only the time is bounded
            yield
            return
        if guard != self._guard:
            self._guard, self._base, self._sessions = guard, _data_bytes(), 0
        self._sessions += opens
        if not self._base:  # not Linux
            yield
            return
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        most = self._base + allowed + self._sessions * (os.cpu_count() or 1) * _STACK_BYTES
        resource.setrlimit(resource.RLIMIT_DATA, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))


def _data_bytes() -> int:
    """The process's data and stacks; 0 where the system does not tell."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[5]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0
