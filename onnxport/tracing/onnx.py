"""Reading ONNX files and objects."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnx
import onnx_ir as ir

from onnxport.errors import InvalidModelError
from onnxport.graph.mapped import MappedFile, map_weights, mapped_tensor, settled
from onnxport.graph.protos import from_proto
from onnxport.tracing.onnx_file import Spans, read_file
from onnxport.tracing.trust.faults import existing_file, reading

if TYPE_CHECKING:
    from onnxport.tracing.trust.onnx_tensors import DataFolder


def load_model(path: str | os.PathLike[str], *, mapped: bool = False) -> ir.Model:
    """The model in a file; external weights are memory-mapped, and only from the model's own folder.

    The mapping holds what belonged to the model when it was loaded, also after the file is replaced.

    Args:
        path: the file.
        mapped: whether weights in the file itself are mapped too, for a model that no caller gets: once the file is written to
            in place they are gone.

    Raises:
        InvalidModelError: the file is missing, truncated or no ONNX model, or its weights lie outside its folder.
    """
    return settled(Path(path), lambda: _load(path, mapped))


def _load(path: str | os.PathLike[str], mapped: bool) -> ir.Model:
    from onnxport.tracing.trust.onnx_tensors import DataFolder

    place = existing_file(path)
    with reading(f"{str(path)!r} is truncated or no ONNX model"):
        proto, spans = read_file(place)
    if not proto.HasField("graph") or not proto.ir_version:
        raise InvalidModelError(f"{str(path)!r} is no ONNX model: it holds no graph")
    file = place
    place = _beside_data(proto, place)
    try:
        model = model_of(proto, DataFolder.of(place), spans)
        _put_weights(model, proto, spans, file, mapped)
    except InvalidModelError as error:
        raise InvalidModelError(f"{place.name!r}: {error}") from error
    map_weights(model, place.parent)
    return model


def _put_weights(model: ir.Model, proto: onnx.ModelProto, spans: Spans, path: Path, mapped: bool) -> None:
    if not spans:
        return
    file = MappedFile(str(path))
    for position, (offset, _) in spans.items():
        value = model.graph.initializers[proto.graph.initializer[position].name]
        assert value.const_value is not None
        value.const_value = tensor = mapped_tensor(value.const_value, file, offset)
        if not mapped:
            array, about, props = np.array(tensor.numpy()), tensor.doc_string, tensor.metadata_props
            value.const_value = ir.Tensor(array, tensor.dtype, name=tensor.name, doc_string=about, metadata_props=props)


def model_of(proto: onnx.ModelProto, folder: DataFolder | None, spans: Spans | None = None) -> ir.Model:
    """The model of a message, after `check_model`; a message without a folder is the user's own and stays as it is.

    `spans` say which data of initializers were read apart.
    """
    from onnxport.tracing.trust.onnx import check_model  # a conversion to ONNX reads no message
    from onnxport.tracing.trust.onnx_order import UnknownOperand, sort_nodes

    apart = {position: length for position, (_, length) in (spans or {}).items()}
    try:
        changes = check_model(proto, folder, apart)
    except UnknownOperand:
        if folder is None:
            copy = onnx.ModelProto()
            copy.CopyFrom(proto)
            proto = copy
        sort_nodes(proto.graph.node)
        changes = check_model(proto, folder, apart)
    if changes and folder is None:
        copy = onnx.ModelProto()
        copy.CopyFrom(proto)
        proto, changes = copy, check_model(copy, None)
    for change in changes:
        change()
    try:
        return from_proto(proto)
    except Exception as error:  # whatever a malformed graph makes of the reader
        raise InvalidModelError(f"malformed graph: {type(error).__name__}: {error}") from error


def _beside_data(proto: onnx.ModelProto, place: Path) -> Path:
    """The model's path, or where the symbolic link there leads: its data stand beside one of the two."""
    entries = [item for tensor in proto.graph.initializer for item in tensor.external_data]
    locations = {item.value for item in entries if item.key == "location"}
    if place.is_symlink() and not all(os.path.exists(place.parent / location) for location in locations):
        return place.resolve()
    return place
