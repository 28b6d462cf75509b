"""What this process asks of the helper: to hold and run a model, and to infer its shapes."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx

from onnxport.errors import InvalidInputError, InvalidModelError
from onnxport.graph.guard.bounds import Guard, current
from onnxport.graph.guard.messages import decode, encode
from onnxport.graph.guard.process import Helper, helper


class RemoteModel:
    """A model that the helper process holds; `about` has its names, element types and backend.

    Its file is removed, with its folder, when this object goes. `options` are arguments of `Session`; or ``opener``,
    ``"module:function"`` of onnxport, which makes another object of the file's path that has `Session.about` and
    `Session.run_prepared`.

    Raises:
        InvalidModelError: no runtime loads it, or loading takes more memory or time than the guard allows.
    """

    def __init__(self, path: Path, options: Mapping[str, Any], guard: Guard) -> None:
        self._guard, self._options, self._path = guard, dict(options), path
        guard.used = True
        weakref.finalize(self, shutil.rmtree, path.parent, ignore_errors=True)
        self._open()

    def _open(self) -> None:
        process = helper()
        self.about = open_in(process, self._path, self._options, self._guard)
        self._process, self._id = process, self.about["id"]
        weakref.finalize(self, process.close, self._id)

    def run(self, feeds: Mapping[str, Any], names: Sequence[str]) -> list[Any]:
        """The outputs named.

        Raises:
            InvalidInputError: the model can't run on the inputs, or takes more memory or time than the guard allows.
        """
        if not self._process.alive:
            self._open()
        return run_in(self._process, self._id, feeds, names, self._guard)


def open_in(process: Helper, path: Path, options: Mapping[str, Any], guard: Guard) -> dict[str, Any]:
    """Opens a file in a helper process; what that has to tell of it, its ``id`` too.

    Raises:
        InvalidModelError: no runtime loads it, or loading takes more memory or time than the guard allows.
    """
    request = {"open": str(path), "options": dict(options), **_bounds(guard, 0)}
    about, _ = process.answer(request, [], guard, 0, InvalidModelError)
    return about


def run_in(process: Helper, number: int, feeds: Mapping[str, Any], names: Sequence[str], guard: Guard) -> list[Any]:
    """The outputs named of the file that a helper process has opened under this number.

    Raises:
        InvalidInputError: it can't run on the inputs, or takes more memory or time than the guard allows.
    """
    blocks: list[bytes] = []
    encoded = {name: encode(item, blocks) for name, item in feeds.items()}
    size = sum(map(len, blocks))
    request = {"run": number, "feeds": encoded, "names": list(names), **_bounds(guard, size)}
    request["output_bytes"] = guard.output_bytes
    answer, received = process.answer(request, blocks, guard, size, InvalidInputError)
    return [decode(item, received) for item in answer["outputs"]]


def _bounds(guard: Guard, input_bytes: int) -> dict[str, int]:
    return {"guard": guard.number, "memory": guard.memory(input_bytes)}


def with_shapes(proto: onnx.ModelProto, *, contents: bool = False) -> onnx.ModelProto:
    """The model with the types and shapes of ONNX's shape inference; under a guard that runs in the helper process.

    onnx 1.20 ends its process on a LabelEncoder of a value without a type, for one. `contents` follows those of vectors too.

    Raises:
        InvalidModelError: inference takes more memory or time than the guard allows, or ends the helper.
        Exception: of many types, where inference refuses the model.
    """
    guard = current()
    if guard is None:
        return onnx.shape_inference.infer_shapes(proto, data_prop=contents)
    request = {"infer": contents, **_bounds(guard, 0)}
    _, received = helper().answer(request, [proto.SerializeToString()], guard, 0, InvalidModelError)
    return onnx.ModelProto.FromString(received[0])


def stored(write: Callable[[Path], object]) -> Path:
    """A file in a folder of its own, written by ``write(path)``."""
    folder = Path(tempfile.mkdtemp(prefix="onnxport-"))
    write(folder / "model.onnx")
    return folder / "model.onnx"
