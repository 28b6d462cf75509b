"""Readers in native code, tried in a process of their own first: on a damaged file they may crash, or never come back."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Literal

from onnxport.tracing.trust.faults import damaged, hostile

_CHILD = Path(__file__).with_name("reader_process.py")
_SECONDS = 8.0
_BYTES_A_SECOND = 100 << 20
_BYTES = 700 << 20  # what Python and the reader take themselves, and 300 MB

Reader = Literal["hdf5", "lightgbm", "xgboost"]


def check_reader(reader: Reader, path: Path, title: str, *, library: str = "") -> None:
    """Reads a file in a process that ends with it, within a bound of time and memory.

    HDF5 reads also inside of a ``.keras`` archive; a booster's reader is in its shared `library`.

    Raises:
        InvalidModelError: the reader refuses the file, crashes, or takes too long.
    """
    size = path.stat().st_size
    seconds = _SECONDS + size / _BYTES_A_SECOND
    order = {
        "reader": reader,
        "path": str(path.resolve()),
        "library": library,
        "search": sys.path,
        "bytes": 4 * size + _BYTES,
    }
    try:
        done = subprocess.run(
            [sys.executable, "-P", str(_CHILD)],
            input=json.dumps(order).encode(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise hostile(title, f"reading it takes longer than {seconds:.0f} s") from error
    except OSError:  # no process can be started here: the checks before have to do
        return
    if done.returncode < 0:
        raise hostile(title, f"its reader crashes (signal {-done.returncode})")
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise damaged(title, lines[-1][:300] if lines else "its reader fails")
