"""Running a model of a file that nobody vouches for: in a process of its own, with bounds on memory and time.

A graph of a few bytes can ask for any amount of both (an endless Loop, a Tile by 2^40), and a runtime can crash on it. While a
`Guard` is in force, every `Session` opens its model in one helper process, which is ended when it takes too long, and which has
as much memory as the guard allows. What passes between the processes is plain data, never a pickle.
"""

from __future__ import annotations

import atexit
import itertools
import json
import math
import os
import select
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

import ml_dtypes
import numpy as np
import onnx

from onnxport.errors import InvalidInputError, InvalidModelError

# What a model may cost over nothing, and for each byte of it and of its inputs: activations are some multiple of these.
_BYTES, _BYTES_PER_MODEL_BYTE, _BYTES_PER_INPUT_BYTE = 300 << 20, 4, 16
_SECONDS, _MODEL_BYTES_PER_SECOND, _INPUT_BYTES_PER_SECOND = 8.0, 20 << 20, 1 << 20
# On inputs that are drawn from the sizes which a file declares, the file alone pays: for the helper's own 110 MB too.
_DRAWN_BYTES = 160 << 20
_OUTPUT_BYTES = 24 << 20
# How much longer than that they may take by the clock, on a busy machine.
_PATIENCE = 1.5
# Opening the helper, which imports onnxruntime, on a busy machine.
_START_SECONDS = 60.0

# What onnxruntime's allocators, its Tile (which has a bound of its own) and C++'s allocator say.
_NO_MEMORY = ("Failed to allocate memory", "exceeds the supported maximum of", "bad_alloc", "bad allocation")

_WAY_OUT = "give inputs of your own, smaller ones, or convert with validate=False and run it yourself"


@dataclass
class Guard:
    """Bounds for the runs of one conversion.

    Attributes:
        model_bytes: size of the model.
        nodes: how many nodes its graph has.
        drawn: nobody gave the inputs: they are drawn from the sizes that the model declares.
        number: tells it from other guards, in the helper process too.
        spent: seconds that its runs have taken so far: of the processor where others hold the machine, else of the clock.
        waited: seconds by the clock that its runs have taken so far.
        used: whether a session was opened under it.
        stopped: what a run that took too much was told; empty where none did.
    """

    model_bytes: int
    nodes: int = 0
    drawn: bool = False
    number: int = field(default_factory=itertools.count(1).__next__)
    spent: float = 0.0
    waited: float = 0.0
    used: bool = False
    stopped: str = ""

    def seconds(self, input_bytes: int) -> float:
        """What is left for runs on inputs of that size."""
        allowed = _SECONDS + self.model_bytes / _MODEL_BYTES_PER_SECOND
        allowed += 0 if self.drawn else input_bytes / _INPUT_BYTES_PER_SECOND
        return min(allowed - self.spent, _PATIENCE * allowed - self.waited)

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


class OutOfTime(InvalidInputError):
    """A rebuilt model takes more time than its file may cost."""


# When the rebuilt model that runs in this context is out of time, and how many such runs there are in all threads: their
# loops ask at every step, also where nothing is bounded.
_deadline: ContextVar[float | None] = ContextVar("onnxport_deadline", default=None)
_timed: list[None] = []


@contextmanager
def timed() -> Iterator[None]:
    """What a rebuilt model takes on drawn inputs counts as the file's: `check_time` ends it when that is used up."""
    guard = current()
    if guard is None or not guard.drawn:
        yield
        return
    started, spent = time.monotonic(), guard.spent
    token = _deadline.set(started + guard.seconds(0))
    _timed.append(None)
    try:
        yield
    except OutOfTime as error:
        guard.stopped = str(error)
        raise
    finally:
        _timed.pop()
        _deadline.reset(token)
        guard.spent = spent + time.monotonic() - started


def seconds_left() -> float | None:
    """What the rebuilt model that runs here has left; None where it is not bounded."""
    deadline = _deadline.get() if _timed else None
    return None if deadline is None else deadline - time.monotonic()


def check_time() -> None:
    """Ends a rebuilt model that is out of time; its loops call this.

    Raises:
        OutOfTime: it is.
    """
    if _timed and (left := seconds_left()) is not None and left < 0:
        raise out_of_time()


def out_of_time() -> OutOfTime:
    """The error for a rebuilt model that is out of time."""
    return OutOfTime(f"running the rebuilt model takes more time than a file may cost; {_WAY_OUT}")


class RemoteModel:
    """A model that the helper process holds.

    Args:
        path: the model's file; it is removed, with its folder, when this object goes.
        options: arguments of `Session`; or ``opener``, ``"module:function"`` of onnxport, which makes another object of the
            file's path that has `Session.about` and `Session.run_prepared`.

    Attributes:
        about: what the helper said of it: names, element types, backend.

    Raises:
        InvalidModelError: no runtime loads it, or loading takes more memory or time than the guard allows.
    """

    def __init__(self, path: Path, options: Mapping[str, Any], guard: Guard) -> None:
        self._guard, self._options, self._path = guard, dict(options), path
        guard.used = True
        weakref.finalize(self, shutil.rmtree, path.parent, ignore_errors=True)
        self._process: _Helper | None = None
        self._id = -1
        self.about: dict[str, Any] = {}
        self._open()

    def _open(self) -> None:
        helper = _helper()
        request = {"open": str(self._path), "options": self._options, **self._bounds(0)}
        self.about, _ = helper.asked(request, [], self._guard, 0, InvalidModelError)
        self._process, self._id = helper, self.about["id"]
        weakref.finalize(self, helper.close, self._id)

    def _bounds(self, input_bytes: int) -> dict[str, int]:
        return {"guard": self._guard.number, "memory": self._guard.memory(input_bytes)}

    def run(self, feeds: Mapping[str, Any], names: Sequence[str]) -> list[Any]:
        """The outputs named.

        Raises:
            InvalidInputError: the model can't run on the inputs, or takes more memory or time than the guard allows.
        """
        if self._process is None or not self._process.alive:
            self._open()
        blobs: list[bytes] = []
        given = {name: _encoded(item, blobs) for name, item in feeds.items()}
        size = sum(map(len, blobs))
        request = {"run": self._id, "feeds": given, "names": list(names), **self._bounds(size)}
        request["most"] = self._guard.output_bytes
        assert self._process is not None
        answer, received = self._process.asked(request, blobs, self._guard, size, InvalidInputError)
        return [_decoded(item, received) for item in answer["outputs"]]


def with_shapes(proto: onnx.ModelProto, *, contents: bool = False) -> onnx.ModelProto:
    """The model with what ONNX's shape inference tells; under a guard that runs in the helper process.

    onnx 1.20 ends its process on a LabelEncoder of a value without a type, for one.

    Args:
        proto: the model.
        contents: follow the contents of vectors too.

    Raises:
        InvalidModelError: inference takes more memory or time than the guard allows, or ends the helper.
        Exception: of many types, where inference refuses the model.
    """
    guard = current()
    if guard is None:
        return onnx.shape_inference.infer_shapes(proto, data_prop=contents)
    helper = _helper()
    request = {"infer": contents, "guard": guard.number, "memory": guard.memory(0)}
    _, received = helper.asked(request, [proto.SerializeToString()], guard, 0, InvalidModelError)
    return onnx.ModelProto.FromString(received[0])


class _Stopped(Exception):
    """A request took more memory or time than the guard allows."""


class _Helper:
    """The helper process."""

    def __init__(self) -> None:
        program = (
            f"import sys; sys.path[:] = {[item for item in sys.path if item]!r}; "
            "from onnxport.graph.guard import serve; serve()"
        )
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # an interrupt from the keyboard is for the parent
        )
        self._lock = threading.Lock()
        self._worked = self._in_all = 0.0
        self.alive = True
        atexit.register(self.end)

    def asked(
        self, request: dict[str, Any], blobs: list[bytes], guard: Guard, size: int, kind: type[Exception]
    ) -> tuple[dict[str, Any], list[bytes]]:
        """The answer to a request.

        Raises:
            kind: the helper refused, was ended for its time, or died.
        """
        try:
            return self._asked(request, blobs, guard, size, kind)
        except _Stopped as stop:
            guard.stopped = str(stop)
            raise kind(str(stop)) from None

    def _asked(
        self, request: dict[str, Any], blobs: list[bytes], guard: Guard, size: int, kind: type[Exception]
    ) -> tuple[dict[str, Any], list[bytes]]:
        left = guard.seconds(size)
        if left <= 0:
            raise _Stopped(f"running the model takes more time than a file may cost; {_WAY_OUT}")
        with self._lock:
            started = time.monotonic()
            worked = None
            try:
                if not self._ready:  # what it takes to start is not the model's
                    self._sent({"close": 0}, [])
                    _received(self._process.stdout, started + _START_SECONDS)
                    self._ready, started = True, time.monotonic()
                self._sent(request, blobs)
                answer = _received(self._process.stdout, started + _PATIENCE * left)
                worked = answer[0].get("worked")
            except TimeoutError:
                self.end()
                raise _Stopped(f"running the model takes more than {left:.0f} s; {_WAY_OUT}") from None
            except (OSError, ValueError, EOFError):
                self.end()
                raise _Stopped(
                    "the process in which the model was run has ended: it takes more memory than a file may cost, "
                    "or the runtime can't bear it"
                ) from None
            finally:
                waited = time.monotonic() - started
                worked = self._ended_after() if worked is None else worked
                self._worked += worked
                guard.spent += min(waited, worked)
                guard.waited += waited
        found, received = answer
        if "error" in found:
            raise (_Stopped if found["stopped"] else kind)(found["error"])
        return found, received

    _ready = False

    def _ended_after(self) -> float:
        """Seconds of the processor that a request took which ended the process."""
        return max(self._in_all - self._worked, 0.0)

    def _sent(self, request: dict[str, Any], blobs: list[bytes]) -> None:
        assert self._process.stdin is not None
        _send(self._process.stdin, request, blobs)

    def close(self, number: int) -> None:
        """Lets go of a model."""
        if self.alive and self._lock.acquire(blocking=False):
            try:
                self._sent({"close": number}, [])
                _received(self._process.stdout, time.monotonic() + 5)
            except (OSError, ValueError, EOFError, TimeoutError):
                self.end()
            finally:
                self._lock.release()

    def end(self) -> None:
        """Ends the process."""
        self.alive = False
        atexit.unregister(self.end)
        self._process.kill()
        try:
            _, status, usage = os.wait4(self._process.pid, 0)
            self._process.returncode = os.waitstatus_to_exitcode(status)
            self._in_all = usage.ru_utime + usage.ru_stime
        except ChildProcessError:  # somebody else has waited for it
            self._in_all = math.inf
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                try:
                    stream.close()
                except OSError:  # what was still to be written
                    continue


_helpers: list[_Helper] = []


def _helper() -> _Helper:
    if not _helpers or not _helpers[-1].alive:
        _helpers[:] = [_Helper()]
    return _helpers[-1]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_helpers.clear)  # the pipes are the parent's


# -- messages --------------------------------------------------------------------------------------------------------------


def _send(stream: BinaryIO | Any, message: dict[str, Any], blobs: list[bytes]) -> None:
    head = json.dumps({**message, "sizes": [len(blob) for blob in blobs]}).encode()
    stream.write(len(head).to_bytes(8, "little") + head)
    for blob in blobs:
        stream.write(blob)
    stream.flush()


def _received(stream: Any, deadline: float) -> tuple[dict[str, Any], list[bytes]]:
    head = json.loads(_exactly(stream, int.from_bytes(_exactly(stream, 8, deadline), "little"), deadline))
    return head, [_exactly(stream, size, deadline) for size in head["sizes"]]


def _exactly(stream: Any, size: int, deadline: float) -> bytes:
    parts, handle = [], stream.fileno()
    while size:
        left = deadline - time.monotonic()
        if deadline < float("inf"):
            if left <= 0 or not select.select([handle], [], [], left)[0]:
                raise TimeoutError
        part = os.read(handle, min(size, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _encoded(item: Any, blobs: list[bytes]) -> Any:
    """A runtime's value as JSON and bytes."""
    if isinstance(item, np.ndarray) and item.dtype.kind not in "OUS":
        blobs.append(np.ascontiguousarray(item).tobytes())
        return {"array": [item.dtype.name, item.shape, len(blobs) - 1]}
    if isinstance(item, np.ndarray):
        return {"texts": [item.shape, [_text(part) for part in item.ravel().tolist()]]}
    if isinstance(item, (list, tuple)):
        return {"list": [_encoded(part, blobs) for part in item]}
    if isinstance(item, dict):
        return {"dict": [[_encoded(key, blobs), _encoded(part, blobs)] for key, part in item.items()]}
    if isinstance(item, np.generic):
        return {"scalar": _encoded(np.asarray(item), blobs)}
    return {"plain": item}


def _text(item: Any) -> str:
    return item.decode(errors="replace") if isinstance(item, bytes) else str(item)


def _decoded(item: dict[str, Any], blobs: list[bytes]) -> Any:
    ((kind, content),) = item.items()
    match kind:
        case "array":
            name, shape, place = content
            return np.frombuffer(blobs[place], named_dtype(name)).reshape(shape).copy()
        case "texts":
            shape, texts = content
            found = np.empty(len(texts), object)
            found[:] = texts
            return found.reshape(shape)
        case "list":
            return [_decoded(part, blobs) for part in content]
        case "dict":
            return {_decoded(key, blobs): _decoded(part, blobs) for key, part in content}
        case "scalar":
            return _decoded(content, blobs)[()]
    return content


def named_dtype(name: str) -> np.dtype[Any]:
    """An element type by name, those of ml_dtypes too."""
    return np.dtype(getattr(ml_dtypes, name) if hasattr(ml_dtypes, name) else name)


# -- the helper ------------------------------------------------------------------------------------------------------------


def serve() -> None:
    """Answers requests on standard input until it ends."""
    given, answers = os.fdopen(os.dup(0), "rb", buffering=0), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a runtime prints
    sessions: dict[int, Any] = {}
    count, bound = 0, _Bound()
    while True:
        try:
            request, blobs = _received(given, float("inf"))
        except EOFError:
            return
        sent: list[bytes] = []
        if "close" in request:
            sessions.pop(request["close"], None)
            _send(answers, {}, [])
            continue
        before = time.process_time()
        try:
            with bound.memory(request["guard"], request["memory"], opens="open" in request):
                if "infer" in request:
                    given_model = onnx.ModelProto.FromString(blobs[0])
                    shapes = onnx.shape_inference.infer_shapes(given_model, data_prop=request["infer"])
                    answer, sent = {}, [shapes.SerializeToString()]
                elif "open" in request:
                    count += 1
                    sessions[count] = session = _opened(request["open"], **request["options"])
                    answer = {"id": count, **session.about()}
                else:
                    feeds = {name: _decoded(item, blobs) for name, item in request["feeds"].items()}
                    outputs = sessions[request["run"]].run_prepared(feeds, request["names"])
                    if request["most"] is not None and sum(map(_bytes_of, outputs)) > request["most"]:
                        raise MemoryError("the outputs are too large to compare")
                    answer = {"outputs": [_encoded(item, sent) for item in outputs]}
        except Exception as error:  # whatever the runtime raises is the answer
            stopped = _lacks_memory(error)
            said = f"running the model takes more memory than a file may cost; {_WAY_OUT}" if stopped else str(error)
            answer, sent = {"error": said[:2000] or type(error).__name__, "stopped": stopped}, []
        _send(answers, {**answer, "worked": time.process_time() - before}, sent)


def _bytes_of(item: Any) -> int:
    if isinstance(item, (list, tuple, dict)):
        return sum(map(_bytes_of, item.values() if isinstance(item, dict) else item))
    return int(getattr(item, "nbytes", 0))


def _opened(path: str, opener: str = "onnxport.graph.runtime:Session", **options: Any) -> Any:
    module, _, name = opener.partition(":")
    return getattr(import_module(module), name)(path, **options)


def _lacks_memory(error: BaseException | None) -> bool:
    """Whether an error, or one that it was raised from, is for want of memory: onnxruntime's have no type of their own."""
    while error is not None:
        if isinstance(error, MemoryError) or any(words in str(error) for words in _NO_MEMORY):
            return True
        error = error.__cause__
    return False


class _Bound:
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


# Of a thread, as Linux reserves it; none of onnxruntime's fills it.
_STACK_BYTES = 9 << 20


def _data_bytes() -> int:
    """The process's data and stacks; 0 where the system does not tell."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[5]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def stored(write: Any) -> Path:
    """A file in a folder of its own, written by ``write(path)``."""
    folder = Path(tempfile.mkdtemp(prefix="onnxport-"))
    write(folder / "model.onnx")
    return folder / "model.onnx"
