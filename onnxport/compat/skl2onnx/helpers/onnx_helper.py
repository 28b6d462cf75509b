"""Messages of ONNX cut, saved and read, as ``skl2onnx.helpers.onnx_helper`` spells it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import onnx

from onnxport.model import OnnxModel, as_onnx_model


def select_model_inputs_outputs(
    model: onnx.ModelProto, outputs: str | Sequence[str] | None = None, inputs: str | Sequence[str] | None = None
) -> onnx.ModelProto:
    """The part of a model between values.

    Raises:
        InvalidInputError: there is no such value.
    """
    ends = [[item] if isinstance(item, str) else list(item or ()) for item in (inputs, outputs)]
    cut: OnnxModel = as_onnx_model(model).cut(inputs=ends[0], outputs=ends[1])
    return cut.proto


def enumerate_model_node_outputs(model: onnx.ModelProto, add_node: bool = False) -> Iterator[object]:
    """The names of all values that nodes give, each with its node if that is asked for."""
    for node in model.graph.node:
        for name in node.output:
            yield (name, node) if add_node else name


def save_onnx_model(model: onnx.ModelProto, filename: str | os.PathLike[str] | None = None) -> bytes:
    """The message as bytes, which are also written where a file is named."""
    if filename is not None:
        OnnxModel(as_onnx_model(model).model).save(filename)
    return model.SerializeToString()


def load_onnx_model(source: str | os.PathLike[str] | bytes) -> onnx.ModelProto:
    """The message in a file or in bytes."""
    return onnx.load_model_from_string(source) if isinstance(source, bytes) else OnnxModel.load(source).proto
