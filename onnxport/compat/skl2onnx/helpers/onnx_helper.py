"""Messages of ONNX cut, saved and read, as ``skl2onnx.helpers.onnx_helper`` spells it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from onnxport.compat.absent import refusing
from onnxport.errors import InvalidInputError
from onnxport.model import OnnxModel, as_onnx_model

__getattr__ = refusing(__name__)


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


def enumerate_model_initializers(model: onnx.ModelProto, add_node: bool = False) -> Iterator[object]:
    """The names of all initializers, each with its message if that is asked for."""
    for item in model.graph.initializer:
        yield (item.name, item) if add_node else item.name


def get_initializers(model_onnx: onnx.ModelProto) -> dict[str, np.ndarray]:
    """The arrays of all initializers by name."""
    return {item.name: numpy_helper.to_array(item) for item in model_onnx.graph.initializer}


def update_onnx_initializers(model_onnx: onnx.ModelProto, new_inits: Mapping[str, np.ndarray]) -> list[str]:
    """Gives initializers other arrays, in place, and their names."""
    updated = []
    for item in model_onnx.graph.initializer:
        if item.name in new_inits:
            item.CopyFrom(numpy_helper.from_array(np.asarray(new_inits[item.name]), item.name))
            updated.append(item.name)
    return updated


def add_output_initializer(
    model_onnx: onnx.ModelProto, name: str | Sequence[str], value: Any, suffix: str = "_init"
) -> onnx.ModelProto:
    """A copy of a message that also gives arrays, each an output of its own.

    Raises:
        InvalidInputError: names and arrays are not as many, or a name is taken.
    """
    names, values = ([name], [value]) if isinstance(name, str) else (list(name), list(value))
    result = onnx.ModelProto()
    result.CopyFrom(model_onnx)
    graph = result.graph
    taken = {item.name for items in (graph.initializer, graph.input, graph.output) for item in items}
    odd = sorted(taken & {item for own in names for item in (own, f"{own}{suffix}")})
    if odd or len(names) != len(values):
        reason = f"{odd[0]!r} is taken" if odd else f"{len(names)} names and {len(values)} arrays"
        raise InvalidInputError(f"skl2onnx.add_output_initializer: {reason}")
    for own, item in zip(names, values, strict=True):
        array = np.asarray(item)
        array = array.astype(object) if array.dtype.kind in "OUS" else array
        constant = numpy_helper.from_array(array, f"{own}{suffix}")
        graph.initializer.append(constant)
        graph.node.append(helper.make_node("Identity", [constant.name], [own], own))
        graph.output.append(helper.make_tensor_value_info(own, constant.data_type, array.shape))
    return result


def change_onnx_domain(model: onnx.ModelProto, ops: Mapping[str, tuple[str, str]]) -> onnx.ModelProto:
    """A copy of a message in which nodes are of other operators and domains: ``{"Old": ("New", "acme")}``."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    for node in result.graph.node:
        if node.op_type in ops:
            node.op_type, node.domain = ops[node.op_type]
    known = {item.domain for item in result.opset_import}
    result.opset_import.extend(helper.make_opsetid(domain, 1) for _, domain in ops.values() if domain not in known)
    return result
