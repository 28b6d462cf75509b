"""The log lines of compiled libraries, which bypass Python's streams, kept from a person's terminal.

TensorFlow writes about its start and about its graph optimizer to file descriptor 2, whatever its Python settings are. The
descriptor belongs to the whole process, so nothing else may get lost: while lines are kept back, a thread reads all that is
written there, in whole lines, and passes on at once what is no such log line. Kept lines go to the logger ``onnxport.native``.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from onnxport.frameworks.turns import Turns

# The lines of absl and of glog before it: severity, date or thread, file. A fatal one (F) is passed on.
_LOG_LINE = (
    rb"(?:[IWE]\d{4} \d\d:\d\d:[\d.]+ |\d{4}-\d\d-\d\d \d\d:\d\d:[\d.]+: [IWE] )"
    rb"|INFO: (?:Created|Applying|Initialized) \w+"  # TensorFlow Lite's, of delegates
    rb"|WARNING: All log messages before absl::InitializeLog|To enable the following instructions:"
)
# Of what may become one; anything else is passed on at once. TensorFlow Lite writes "INFO: ", the message and its end one by one.
_BEGINNING = rb"[IWE]\d|\d{4}-|INFO: (?:[CAI]|$)|WARNING: All|To enable"
_STDERR = 2
_SECONDS = 1.0  # that the end waits for the reader: a child process of another thread may hold the other end open
_LOGGER = logging.getLogger("onnxport.native")
_turns = Turns()


@contextmanager
def native_log_kept() -> Iterator[None]:
    """Keeps log lines of compiled libraries from standard error during the block."""
    with _turns:
        try:
            original = os.dup(_STDERR)
        except OSError:  # the process has no standard error
            yield
            return
        source, sink = os.pipe()
        reader = threading.Thread(target=_pass_on, args=(source, original), daemon=True, name="onnxport native log")
        reader.start()
        _flush()
        os.dup2(sink, _STDERR)
        os.close(sink)
        try:
            yield
        finally:
            _flush()
            os.dup2(original, _STDERR)
            reader.join(_SECONDS)


def _pass_on(source: int, original: int) -> None:
    """Reads lines until nobody can write more; what is no log line goes where it would have gone."""
    kept: list[bytes] = []
    rest = b""
    while part := os.read(source, 1 << 16):
        lines = (rest + part).splitlines(keepends=True)
        rest = lines.pop() if not lines[-1].endswith(b"\n") and re.match(_BEGINNING, lines[-1]) else b""
        for line in lines:
            kept.append(line) if re.match(_LOG_LINE, line) else _write(original, line)
    _write(original, rest)
    os.close(source)
    os.close(original)
    for line in kept:
        _LOGGER.debug(line.decode(errors="replace").rstrip())


def _write(descriptor: int, text: bytes) -> None:
    with suppress(OSError):  # nobody reads
        while text:
            text = text[os.write(descriptor, text) :]


def _flush() -> None:
    with suppress(Exception):  # a stream of the user's own, or none
        sys.stderr.flush()
