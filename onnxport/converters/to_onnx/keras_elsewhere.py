"""Keras models that their own backend can't trace: rebuilt from configuration and weights, and converted, in another process.

The process of the other backend is started when it is first needed and serves further conversions, since importing a framework
takes longer than most models. One that has imported the user's own classes is ended behind its conversion: they may change.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from onnxport import errors
from onnxport.errors import InvalidInputError, OnnxportError, TracingError, Unsupported, UnsupportedOperator
from onnxport.model import OnnxModel
from onnxport.request import Request
from onnxport.tracing.keras import build, has_doubles
from onnxport.tracing.keras_rebuilding import write_model, write_values
from onnxport.tracing.onnx import load_model

# Backends that can be traced, and the packages that they need.
_BACKENDS = (("tensorflow", "tensorflow"), ("torch", "torch"))
# Files of the folder in which a model goes to the other process, and its result comes back.
ORDER, RESULT, ANSWER = "order.json", "result.onnx", "answer.json"
_PASSED_ON = ("target_opset", "input_names", "output_names", "runtime")
_GIVEN = ("inputs", "examples", "kwargs", "dynamic_shapes")


def other_backend(own: str) -> str | None:
    """The first backend that can be traced and is installed, but for `own`; None where there is none."""
    return next((name for name, package in _BACKENDS if name != own and find_spec(package) is not None), None)


def export_elsewhere(model: Any, request: Request, backend: str) -> OnnxModel:
    """The ONNX model of a Keras model rebuilt on `backend`, in a process of its own.

    Raises:
        UnsupportedOperator: operators without an ONNX form, all of them at once.
        TracingError: the model can't be rebuilt or traced there.
        InvalidInputError: inputs or names do not fit.
    """
    if not getattr(model, "built", True):
        build(model, *_arguments(request))
    with TemporaryDirectory(prefix="onnxport-") as place:
        folder = Path(place)
        own_classes = write_model(model, folder)
        given = write_values({name: getattr(request, name) for name in _GIVEN}, folder)
        order = {"given": given, "narrow": not has_doubles(), **{name: getattr(request, name) for name in _PASSED_ON}}
        (folder / ORDER).write_text(json.dumps(order))
        process = _process(backend)
        process.convert(folder)
        if own_classes:
            process.end()
        answer = json.loads((folder / ANSWER).read_text())
        if "error" in answer:
            raise _error(answer)
        result = load_model(folder / RESULT)
    note = f"rebuilt on Keras' {backend} backend from its configuration and weights"
    return OnnxModel(result, notes=(note, *answer["notes"]), runtime=request.runs_in)


def _arguments(request: Request) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """Positional and keyword arguments of the example.

    Raises:
        InvalidInputError: there is none.
    """
    inputs, named = request.inputs, dict(request.kwargs or {})
    if inputs is None and not named:
        raise InvalidInputError("the model does not know its inputs: pass inputs=(...)")
    if isinstance(inputs, Mapping):
        return (), {**inputs, **named}
    return () if inputs is None else inputs if isinstance(inputs, tuple) else (inputs,), named


class _Process:
    """A process in which Keras runs on another backend."""

    def __init__(self, backend: str) -> None:
        program = (
            f"import sys; sys.path[:] = {[item for item in sys.path if item]!r}; "
            "from onnxport.converters.to_onnx.keras_child import serve; serve()"
        )
        self.owner, self.alive, self._backend = os.getpid(), True, backend
        self._process = subprocess.Popen(
            [sys.executable, "-c", program],
            env={**os.environ, "KERAS_BACKEND": backend},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # an interrupt from the keyboard is for the parent
        )
        atexit.register(self.end)

    def convert(self, folder: Path) -> None:
        """Has the model in a folder converted.

        Raises:
            TracingError: the process has ended.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(str(folder)).encode() + b"\n")
            self._process.stdin.flush()
            done = self._process.stdout.readline()
        except OSError:
            done = b""
        except BaseException:  # an interrupt: what comes later would be taken for the next answer
            self.end()
            raise
        if not done:
            self.end()
            raise TracingError(
                f"the process that rebuilds the model on the {self._backend} backend has ended "
                f"(code {self._process.returncode})"
            )

    def end(self) -> None:
        """Ends the process; a fork of its owner leaves it alone."""
        if not self.alive or self.owner != os.getpid():
            return
        self.alive = False
        atexit.unregister(self.end)
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()


_processes: dict[str, _Process] = {}


def _process(backend: str) -> _Process:
    running = _processes.get(backend)
    if running is None or not running.alive or running.owner != os.getpid():
        running = _processes[backend] = _Process(backend)
    return running


def _error(answer: dict[str, Any]) -> OnnxportError:
    kind = getattr(errors, answer["error"])
    if issubclass(kind, UnsupportedOperator):
        return UnsupportedOperator(answer["message"], [Unsupported(**item) for item in answer["operators"]])
    return kind(answer["message"]) if issubclass(kind, OnnxportError) else TracingError(answer["message"])
