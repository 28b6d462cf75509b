"""Keras models that their own backend can't trace: rebuilt from configuration and weights, and converted, in another process.

The process of the other backend ends with its conversion. Where many models are converted one after the other,
`processes_kept` lets one process serve them, since importing a framework takes longer than most models; one that has imported the
user's own classes is ended all the same: they may change.

Keras computes some layers otherwise on another backend. So what is rebuilt is always compared with the user's own model, and
refused by name where it differs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from onnxport import errors
from onnxport.converters.to_onnx.keras_agreement import disagreement, first_other_layer
from onnxport.errors import InvalidInputError, OnnxportError, TracingError, Unsupported, UnsupportedOperator
from onnxport.model import OnnxModel
from onnxport.request import Request
from onnxport.tracing.keras import backend as own_backend
from onnxport.tracing.keras import build, has_doubles
from onnxport.tracing.keras_names import input_names, output_names
from onnxport.tracing.keras_rebuilding import write_model, write_values
from onnxport.tracing.onnx import load_model

# Backends that can be traced, and the packages that they need.
_BACKENDS = (("tensorflow", "tensorflow"), ("torch", "torch"))
# Files of the folder in which a model goes to the other process, and its result comes back.
ORDER, RESULT, ANSWER, LAYERS = "order.json", "result.onnx", "answer.json", "layers.npz"
_PASSED_ON = ("target_opset", "input_names", "output_names", "runtime")
_GIVEN = ("inputs", "examples", "kwargs", "dynamic_shapes")


def other_backends(own: str) -> list[str]:
    """The backends that can be traced and are installed, but for `own`."""
    return [name for name, package in _BACKENDS if name != own and find_spec(package) is not None]


def export_elsewhere(model: Any, request: Request, backends: Sequence[str]) -> OnnxModel:
    """The ONNX model of a Keras model rebuilt on the first of `backends` that computes what the model's own does.

    Raises:
        UnsupportedOperator: operators without an ONNX form, all of them at once; or each backend computes something else.
        TracingError: the model can't be rebuilt or traced there.
        InvalidInputError: inputs or names do not fit.
    """
    failure: OnnxportError | None = None
    for backend in backends:
        try:
            return _export_on(model, request, backend)
        except (TracingError, UnsupportedOperator) as error:
            failure = failure or error
    assert failure is not None
    raise failure


def _export_on(model: Any, request: Request, backend: str) -> OnnxModel:
    if not getattr(model, "built", True):
        build(model, *_arguments(request))
    with TemporaryDirectory(prefix="onnxport-") as place, _process(backend) as process:
        folder = Path(place)
        if write_model(model, folder):
            process.used_up = True
        given = write_values({name: getattr(request, name) for name in _GIVEN}, folder)
        order = {
            "own": own_backend(),
            "given": given,
            "narrow": not has_doubles(),
            **{name: getattr(request, name) for name in _PASSED_ON},
        }
        # Keras names the tensors of a rebuilt model anew.
        order["input_names"] = request.input_names or input_names(model)
        order["output_names"] = request.output_names or output_names(model)
        notes = process.answer(folder, order)["notes"]
        note = f"rebuilt on Keras' {backend} backend from its configuration and weights"
        result = OnnxModel(load_model(folder / RESULT), notes=(note, *notes), runtime=request.runs_in)
        remarks: list[str] = []
        differing = disagreement(model, result, request, remarks)
        if differing is None:
            return OnnxModel(result.model, notes=(*result.notes, *remarks), runtime=request.runs_in)
        part = _differing_part(model, differing.leaves, process, folder)
    raise UnsupportedOperator(
        f"Keras computes {part} otherwise on the {backend} backend, on which it was "
        f"rebuilt to be traced, than on its own: {differing.words}"
    )


def _differing_part(model: Any, leaves: Sequence[Any], process: _Process, folder: Path) -> str:
    """Class and name of the first layer that gives something else on the other backend; the model's where none is seen."""
    try:
        process.answer(folder, {"layers": write_values(list(leaves), folder)})
    except OnnxportError:  # the layers of a user's class need not run by themselves
        return f"{type(model).__name__} {model.name!r}"
    with np.load(folder / LAYERS) as file:
        layer = first_other_layer(model, leaves, [file[name] for name in file.files])
    return layer or f"{type(model).__name__} {model.name!r}"


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
        self.used_up, self._backend = False, backend
        self._process = subprocess.Popen(
            [sys.executable, "-c", program],
            env={**os.environ, "KERAS_BACKEND": backend},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # an interrupt from the keyboard is for the parent
        )

    def answer(self, folder: Path, order: Mapping[str, Any]) -> dict[str, Any]:
        """What the process answers to an order about the model in a folder.

        Raises:
            OnnxportError: what went wrong there.
            TracingError: the process has ended.
        """
        (folder / ORDER).write_text(json.dumps(order))
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(str(folder)).encode() + b"\n")
            self._process.stdin.flush()
            done = self._process.stdout.readline()
        except OSError:
            done = b""
        except BaseException:  # an interrupt: what comes later would be taken for the next answer
            self.used_up = True
            raise
        if not done:
            self.end()
            raise TracingError(
                f"the process that rebuilds the model on the {self._backend} backend has ended "
                f"(code {self._process.returncode})"
            )
        reply: dict[str, Any] = json.loads((folder / ANSWER).read_text())
        if "error" in reply:
            raise _error(reply)
        return reply

    def end(self) -> None:
        """Ends the process."""
        self.used_up = True
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()


_kept: dict[str, _Process] | None = None


@contextmanager
def processes_kept() -> Iterator[None]:
    """In the block conversions share the processes of other backends; they end with it."""
    global _kept  # conversions take turns
    before, _kept = _kept, {}
    try:
        yield
    finally:
        for process in _kept.values():
            process.end()
        _kept = before


@contextmanager
def _process(backend: str) -> Iterator[_Process]:
    shared = _kept
    process = shared.pop(backend, None) if shared is not None else None
    process = process or _Process(backend)
    try:
        yield process
    finally:
        if shared is None or process.used_up:
            process.end()
        else:
            shared[backend] = process


def _error(answer: dict[str, Any]) -> OnnxportError:
    kind = getattr(errors, answer["error"])
    if issubclass(kind, UnsupportedOperator):
        return UnsupportedOperator(answer["message"], [Unsupported(**item) for item in answer["operators"]])
    return kind(answer["message"]) if issubclass(kind, OnnxportError) else TracingError(answer["message"])
