"""Whether a runtime runs a node that can't be rebuilt: what it refuses too is no defect of onnxport."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np
import onnx
import onnx_ir as ir

from onnxport.errors import InvalidInputError, first_line
from onnxport.graph.bodies import bodies
from onnxport.graph.guard.bounds import current
from onnxport.graph.runtime import Session
from onnxport.opset_maps.from_onnx.operands import Operand, Weight
from onnxport.opset_maps.from_onnx.values import HostValue

_MOST_ELEMENTS = 1 << 22  # elements of all operands together; a larger node is not tried
_OPEN = 2  # a dimension whose size the graph leaves open
# Errors of onnxruntime about a model that no runtime would take; of others it may only lack the kernel.
_REFUSALS = ("ShapeInferenceError", "TypeInferenceError", "INVALID_GRAPH", "InvalidGraph")


def refusal_of_runtime(node: ir.Node, operands: Sequence[Operand], opsets: Mapping[str, int]) -> str | None:
    """Why onnxruntime can't run the node alone, on its constants and zeros; None where it can, or where nothing tells.

    It runs in the helper process that a guard has opened, and only there.
    """
    if current() is None or bodies(node) or any(item.is_ref() for item in node.attributes.values()):
        return None
    given = [_operand(item, value) for item, value in zip(operands, node.inputs, strict=True)]
    if any(array is None and item is not None for array, item in zip(given, operands, strict=True)):
        return None
    arrays = {f"i{index}": array for index, array in enumerate(given) if array is not None}
    if sum(array.size for array in arrays.values()) > _MOST_ELEMENTS:
        return None
    session = Session(_alone(node, given, opsets))
    if session.backend != "onnxruntime":
        refused = any(words in session.fallback_reason for words in _REFUSALS)
        return session.fallback_reason.splitlines()[0][:300] if refused else None
    try:
        session.run(arrays)
    except InvalidInputError as error:
        return first_line(error)[:300]
    return None


def _operand(item: Operand, value: ir.Value | None) -> np.ndarray | None:
    """An operand's content, zeros where only its type is known; None where that is not known either."""
    if isinstance(item, HostValue):
        return np.asarray(item.array) if item.is_static else None
    if isinstance(item, Weight):
        tensor = item.value.const_value
        return tensor.numpy() if tensor.size <= _MOST_ELEMENTS else None
    if item is None or value is None or value.shape is None or not isinstance(value.type, ir.TensorType):
        return None
    dtype = value.type.dtype
    shape = [dim if isinstance(dim, int) else _OPEN for dim in value.shape]
    if prod(shape) > _MOST_ELEMENTS or any(dim < 0 for dim in shape):
        return None
    return np.full(shape, "", object) if dtype == ir.DataType.STRING else np.zeros(shape, dtype.numpy())


def _alone(node: ir.Node, given: Sequence[np.ndarray | None], opsets: Mapping[str, int]) -> onnx.ModelProto:
    """A model of the one node."""
    proto = onnx.NodeProto(op_type=node.op_type, domain=node.domain)
    proto.input.extend(f"i{index}" if array is not None else "" for index, array in enumerate(given))
    proto.output.extend(f"o{index}" if value.name else "" for index, value in enumerate(node.outputs))
    for attribute in node.attributes.values():
        ir.serde.serialize_attribute_into(proto.attribute.add(), attribute)
    known = {f"i{index}": array for index, array in enumerate(given) if array is not None}
    kinds = {name: onnx.helper.np_dtype_to_tensor_dtype(array.dtype) for name, array in known.items()}
    inputs = [onnx.helper.make_tensor_value_info(name, kind, known[name].shape) for name, kind in kinds.items()]
    outputs = [onnx.helper.make_empty_tensor_value_info(name) for name in proto.output if name]
    graph = onnx.helper.make_graph([proto], "node", inputs, outputs)
    imports = [onnx.helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    return onnx.helper.make_model(graph, opset_imports=imports, ir_version=10)
