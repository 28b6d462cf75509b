"""Inputs and expected outputs beside a model, in the layout of the ONNX Model Zoo.

``test_data_set_0/input_0.pb`` is the first of the graph's inputs that have no initializer, ``output_0.pb`` its first output: a
TensorProto each, or a SequenceProto or OptionalProto where the graph declares one. ``budget_0.pb`` beside it has how far the
elements of that output may lie from it, a number or a tensor of its shape: other tools read past it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError

from onnxport.errors import InvalidInputError, SavingError
from onnxport.graph.atomic import atomic_folder

_FOLDER = re.compile(r"test_data_set_(\d+)")
_FILE = re.compile(r"(input|output|budget)_(\d+)\.pb")


@dataclass(frozen=True)
class Vectors:
    """One set: inputs and outputs by name, in the graph's order, and how far outputs may be off."""

    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any]
    budgets: Mapping[str, np.ndarray] = field(
        default_factory=dict
    )  # by output; those that have none must be judged anew
    name: str = ""


def write(model: Path, sets: Sequence[Vectors]) -> list[Path]:
    """Writes the sets beside a model file, in place of what stands under their names; gives the folders.

    Raises:
        SavingError: a folder can't be written, or holds other things.
    """
    folders = []
    for number, item in enumerate(sets):
        place = model.parent / f"test_data_set_{number}"
        own = [entry.name for entry in place.iterdir() if _FILE.fullmatch(entry.name)] if place.is_dir() else []
        with atomic_folder(place, marks=("input_0.pb", "output_0.pb"), own=own) as folder:
            for kind, values in (("input", item.inputs), ("output", item.outputs)):
                for index, (name, value) in enumerate(values.items()):
                    (folder / f"{kind}_{index}.pb").write_bytes(_message(name, value))
            for index, name in enumerate(item.outputs):
                if name in item.budgets:
                    (folder / f"budget_{index}.pb").write_bytes(_message(name, item.budgets[name]))
        folders.append(place)
    return folders


def read(model: Path, graph: ir.Graph) -> list[Vectors]:
    """The sets that stand beside a model file, in order; none where there are none.

    Raises:
        InvalidInputError: one does not fit the model, or a file can't be read.
    """
    inputs = [value for value in graph.inputs if value.name not in graph.initializers]
    folders = {int(match[1]): path for path in model.parent.iterdir() if (match := _FOLDER.fullmatch(path.name))}
    sets = []
    for _, folder in sorted(folders.items()):
        given, expected = _read_all(folder, "input", inputs), _read_all(folder, "output", list(graph.outputs))
        places = [(value.name or "", folder / f"budget_{index}.pb") for index, value in enumerate(graph.outputs)]
        budgets = {name: np.asarray(_value(path, None)) for name, path in places if path.is_file()}
        sets.append(Vectors(given, expected, budgets, folder.name))
    return sets


def _read_all(folder: Path, kind: str, values: Sequence[ir.Value]) -> dict[str, Any]:
    count = sum(1 for path in folder.iterdir() if (match := _FILE.fullmatch(path.name)) and match[1] == kind)
    if count != len(values):
        names = ", ".join(str(value.name) for value in values)
        raise InvalidInputError(
            f"{folder.name} has {count} {kind}s, the model {len(values)} ({names}): it is of another model"
        )
    return {value.name or "": _value(folder / f"{kind}_{index}.pb", value.type) for index, value in enumerate(values)}


def _value(path: Path, kind: ir.TypeProtocol | None) -> Any:
    sequence, optional = isinstance(kind, ir.SequenceType), isinstance(kind, ir.OptionalType)
    message = onnx.SequenceProto() if sequence else onnx.OptionalProto() if optional else onnx.TensorProto()
    place = f"{path.parent.name}/{path.name}"
    try:
        message.ParseFromString(path.read_bytes())
        if isinstance(message, onnx.SequenceProto):
            return onnx.numpy_helper.to_list(message)
        if isinstance(message, onnx.OptionalProto):
            return onnx.numpy_helper.to_optional(message)
        if message.data_location == onnx.TensorProto.EXTERNAL:
            raise InvalidInputError(f"{place} points to another file")
        array = onnx.numpy_helper.to_array(message)
    except (DecodeError, ValueError, TypeError, OSError) as error:
        raise InvalidInputError(f"{place} can't be read: {error}") from error
    return _decoded(array) if array.dtype.kind == "O" else array


def _decoded(array: np.ndarray) -> np.ndarray:
    """Strings, which the format holds as bytes."""
    texts = [item.decode() if isinstance(item, bytes) else item for item in array.flat]
    return np.asarray(texts, object).reshape(array.shape)


def _message(name: str, value: Any) -> bytes:
    if value is None:
        return bytes(onnx.numpy_helper.from_optional(None, name).SerializeToString(deterministic=True))
    if isinstance(value, list):
        return bytes(onnx.numpy_helper.from_list(value, name).SerializeToString(deterministic=True))
    if isinstance(value, Mapping):
        raise SavingError(f"{name!r} is a map, which test data can't hold")
    array = np.asarray(value)
    if array.dtype.kind == "U":
        array = array.astype(object)
    return bytes(onnx.numpy_helper.from_array(array, name).SerializeToString(deterministic=True))
