"""Whose fault it is where a node can't be rebuilt, and what a node may cost while it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

import numpy as np
import onnx
import onnx_ir as ir
from onnx.shape_inference import infer_node_outputs

from onnxport.converters.from_onnx.blame_runtime import refusal_of_runtime
from onnxport.errors import InvalidModelError, OnnxportError, first_line
from onnxport.graph import folding, limits
from onnxport.graph import schema as schemas
from onnxport.opset_maps.from_onnx.operands import Operand, Weight
from onnxport.opset_maps.from_onnx.values import HostValue, InvalidOperand

# Values up to this size are shown to ONNX's inference, which then judges shapes, axes and repeats too.
_SHOWN_ELEMENTS = 1 << 10


def blame(
    node: ir.Node, operands: Sequence[Operand], opsets: Mapping[str, int], place: str, error: Exception
) -> OnnxportError:
    """The error for a node on which `error` was raised: the file's where ONNX's own inference refuses the node too."""
    where = f"{title(node)} (at {place}{label(node)})"
    reason = str(error) if isinstance(error, InvalidOperand) else None
    if reason is None and not _too_large(error):
        with suppress(Exception):  # no judgement then
            reason = _refusal(node, operands, opsets) or refusal_of_runtime(node, operands, opsets)
    return InvalidModelError(f"{where}: {defect(error) if reason is None else reason}")


# Errors of PyTorch and TensorFlow about sizes whose product is beyond 64 bits.
_OVERFLOWS = ("Storage size calculation overflowed", "too many elements", "Number of outputs is too big")


def _too_large(error: Exception) -> bool:
    return isinstance(error, (MemoryError, RecursionError)) or any(words in str(error) for words in _OVERFLOWS)


def defect(error: Exception) -> str:
    """The message for an error that is not known to be the file's."""
    if _too_large(error):
        return f"it takes more memory or depth than is there: {type(error).__name__}"
    lines = [line for line in str(error).splitlines() if line.strip()]
    # Keras tells the layer first, then what was wrong.
    own = lines[1:] if lines and lines[0].startswith("Exception encountered when calling") else lines
    text = (own or lines or [type(error).__name__])[0][:300]
    advice = "if the model runs elsewhere, this is a defect of onnxport: please report it"
    return f"{type(error).__name__}: {text}; {advice}"


@contextmanager
def attributed(doing: str) -> Iterator[None]:
    """Errors that are not onnxport's own become one that names the node.

    Raises:
        InvalidModelError: chained to the error.
    """
    try:
        yield
    except (OnnxportError, OSError, Warning):  # a warning, where the user's filters make errors of them
        raise
    except Exception as error:
        raise InvalidModelError(f"{doing}: {defect(error)}") from error


def bounded(node: ir.Node, operands: Sequence[Operand], opset: int, place: str, spare: int) -> int:
    """Bytes that a node takes which is computed here and now, on constants; 0 for any other.

    Raises:
        InvalidModelError: it takes more than `spare`, what may still be computed while the model is read.
    """
    if not operands or any(item.is_ref() for item in node.attributes.values()):
        return 0
    if node.op_type in _NEED_TYPES and any(item is None for item in operands):
        return 0
    arrays: list[np.ndarray | None] = []
    for item in operands:
        array = None if item is None else _computed(item)
        if array is None and item is not None:
            return 0
        arrays.append(array)
    count = folding.elements(node, arrays, opset)
    if count >= folding.UNKNOWN:
        return 0
    size = count * max((array.itemsize for array in arrays if array is not None), default=8)
    if size > spare:
        raise InvalidModelError(
            f"{title(node)} (at {place}{label(node)}): on constants alone it gives up to {count:,} elements; "
            f"at most {limits.MAX_COMPUTED_BYTES >> 20} MiB, and four times the weights, are computed while a model is read"
        )
    return size


def _computed(item: Operand) -> np.ndarray | None:
    """A constant's content: of the file, or a tensor that the framework has computed; None where it is known only to a run."""
    if isinstance(item, Weight):
        return np.asarray(item.value.const_value.numpy())
    if isinstance(item, HostValue):
        return item.array if item.is_static else None
    content = getattr(type(item), "numpy", None)  # proxies of a trace have any attribute, their classes do not
    try:
        return None if content is None else np.asarray(content(item))
    except Exception:  # symbolic ones of each framework refuse it in their own way
        return None


def _refusal(node: ir.Node, operands: Sequence[Operand], opsets: Mapping[str, int]) -> str | None:
    """Why ONNX's own inference refuses the node, as far as its operands are known; None where it does not."""
    domain = "" if node.domain == "ai.onnx" else node.domain
    schema = schemas.find_schema(domain, node.op_type, opsets.get(domain, 1))
    if schema is None or not _may_be_inferred(node, operands):
        return None
    proto = onnx.NodeProto(op_type=node.op_type, domain=domain)
    types, known = {}, {}
    for index, (item, value) in enumerate(zip(operands, node.inputs, strict=True)):
        name = f"i{index}" if item is not None and value is not None else ""
        proto.input.append(name)
        if not name or value is None:
            continue
        tensor = item.value.const_value if isinstance(item, Weight) else None
        if isinstance(item, HostValue) and item.is_static and item.array.size <= _SHOWN_ELEMENTS:
            known[name] = onnx.numpy_helper.from_array(item.array)
            types[name] = onnx.helper.make_tensor_type_proto(known[name].data_type, item.array.shape)
        elif tensor is not None:
            types[name] = onnx.helper.make_tensor_type_proto(tensor.dtype.value, tensor.shape.numpy())
            if tensor.size <= _SHOWN_ELEMENTS:
                known[name] = onnx.numpy_helper.from_array(tensor.numpy())
        elif (kind := schemas.type_proto(value)) is not None:
            types[name] = kind
    proto.output.extend(f"o{index}" for index in range(len(node.outputs)))
    imports = [onnx.helper.make_opsetid(key, version) for key, version in opsets.items()]
    try:
        for attribute in node.attributes.values():
            if not attribute.is_ref():
                ir.serde.serialize_attribute_into(proto.attribute.add(), attribute)
        infer_node_outputs(schema, proto, types, input_data=known, opset_imports=imports, ir_version=10)
    except Exception as error:  # inference raises errors of many types
        return first_line(error)[:300]
    return None


# Operators whose inference in onnx 1.20 ends the process on an operand without a type.
_NEED_TYPES = frozenset(("DictVectorizer", "EyeLike", "LabelEncoder", "RegexFullMatch", "TreeEnsemble"))


def _may_be_inferred(node: ir.Node, operands: Sequence[Operand]) -> bool:
    """Whether ONNX's inference bears the node: the types that it needs are known, and no size is below 0."""
    for item, value in zip(operands, node.inputs, strict=True):
        if value is not None and value.shape is not None:
            if any(isinstance(dim, int) and dim < 0 for dim in value.shape):
                return False
        typed = isinstance(item, (Weight, HostValue)) or (value is not None and value.dtype is not None)
        if node.op_type in _NEED_TYPES and not typed:
            return False
    return True


def title(node: ir.Node) -> str:
    """The operator's name, with its domain where that is not ONNX's own."""
    return f"{node.domain}::{node.op_type}" if node.domain else node.op_type


def label(node: ir.Node) -> str:
    """What tells the node from others: its name, or that of its first output."""
    return node.name or next((value.name for value in node.outputs if value.name), "") or ""
