"""The helper process, seen from outside: it is started when first needed, asked, and ended when it takes too much."""

from __future__ import annotations

import atexit
import math
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from onnxport.graph.guard.bounds import PATIENCE, WAY_OUT, Guard
from onnxport.graph.guard.messages import Message, receive, send

_START_SECONDS = 60.0  # opening the helper, which imports onnxruntime, on a busy machine


class Helper:
    """The helper process."""

    def __init__(self) -> None:
        program = (
            f"import sys; sys.path[:] = {[item for item in sys.path if item]!r}; "
            "from onnxport.graph.guard.server import serve; serve()"
        )
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # an interrupt from the keyboard is for the parent
        )
        self._lock = threading.Lock()
        self._ready = False
        self._worked = self._in_all = 0.0
        self.alive = True
        atexit.register(self.end)

    def answer(
        self, request: dict[str, Any], blocks: list[bytes], guard: Guard, size: int, kind: type[Exception]
    ) -> Message:
        """The answer to a request in JSON, which refers to `blocks` of bytes; `size` are the bytes of its inputs.

        Raises:
            kind: the helper refused, was ended for its time, or died.
        """

        def stopped(reason: str) -> Exception:
            guard.stopped = reason
            return kind(reason)

        left = guard.seconds(size)
        if left <= 0:
            raise stopped(f"running the model takes more time than a file may cost; {WAY_OUT}")
        with self._lock:
            started = time.monotonic()
            worked = None
            try:
                if not self._ready:  # what it takes to start is not the model's
                    self._exchange({"close": 0}, [], lambda: time.monotonic() > started + _START_SECONDS)
                    self._ready, started = True, time.monotonic()
                answer, received = self._exchange(request, blocks, self._is_late(started, left))
                worked = answer.get("worked")
            except TimeoutError:
                self.end()
                raise stopped(f"running the model takes more than {left:.0f} s; {WAY_OUT}") from None
            except (OSError, ValueError, EOFError):
                self.end()
                raise stopped(
                    "the process in which the model was run has ended: it takes more memory than a file may cost, "
                    "or the runtime can't bear it"
                ) from None
            finally:
                waited = time.monotonic() - started
                if worked is None:  # the request ended the process: its seconds are those that no other one took
                    worked = max(self._in_all - self._worked, 0.0)
                self._worked += worked
                guard.spent += min(waited, worked)
                guard.waited += waited
        if "error" in answer:
            raise (stopped if answer["stopped"] else kind)(answer["error"])
        return answer, received

    def _is_late(self, started: float, left: float) -> Callable[[], bool]:
        """Whether a request has used up its time: of the processor as well as by the clock, or by the clock on a busy machine."""
        before = _seconds_of(self._process.pid)

        def is_late() -> bool:
            waited = time.monotonic() - started
            return waited > PATIENCE * left or (waited > left and _seconds_of(self._process.pid) - before > left)

        return is_late

    def _exchange(self, request: dict[str, Any], blocks: list[bytes], is_late: Callable[[], bool]) -> Message:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        send(self._process.stdin, request, blocks)
        return receive(self._process.stdout, is_late)

    def close(self, number: int) -> None:
        """Lets go of a model."""
        if self.alive and self._lock.acquire(blocking=False):
            try:
                end = time.monotonic() + 5
                self._exchange({"close": number}, [], lambda: time.monotonic() > end)
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
                with suppress(OSError):  # what was still to be written
                    stream.close()


def _seconds_of(pid: int) -> float:
    """Seconds of the processor that another process has taken; 0 where the system does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")  # proc_pid_stat(5): utime, stime
    except (OSError, IndexError, ValueError):
        return 0.0


_helpers: list[Helper] = []


def helper() -> Helper:
    """The process that answers; a new one where there is none."""
    if not _helpers or not _helpers[-1].alive:
        _helpers[:] = [Helper()]
    return _helpers[-1]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_helpers.clear)  # the pipes are the parent's
