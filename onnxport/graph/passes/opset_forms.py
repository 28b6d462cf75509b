"""What changed about an operator from one opset to the next, for one of its nodes."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir
from onnx import defs

from onnxport.graph.schema import any_schema, parameter

_OPTION = defs.OpSchema.FormalParameterOption
_SINGLE, _OPTIONAL, _VARIADIC = _OPTION.Single, _OPTION.Optional, _OPTION.Variadic

# Operators whose result changed at a version though a node of theirs may read the same.
_MEANING_CHANGED = frozenset(
    "Softmax-13 LogSoftmax-13 Hardmax-13 BatchNormalization-14 RoiAlign-16 Split-18 GridSample-20".split()
)
# Forms that the version converter leaves as they are, though an operand has another layout.
_MISCONVERTED = {
    ("GroupNormalization", 21): "from opset 21 on its scale and bias have a value a channel, before one a group"
}
# Values of an attribute that came after the attribute itself: by operator, attribute and value, the version.
_LATER_VALUES = {"Pad.mode=wrap": 19, "Resize.coordinate_transformation_mode=half_pixel_symmetric": 19}
_LATER_VALUES |= {f"{op}.reduction={word}": 18 for op in ("ScatterElements", "ScatterND") for word in ("max", "min")}


def same_form(node: ir.Node, old: defs.OpSchema, new: defs.OpSchema) -> bool:
    """Whether a node reads, and means, the same under both definitions of its operator."""
    if old.since_version == new.since_version:
        return True
    later = max(old.since_version, new.since_version)
    changed = f"{node.op_type}-{later}" in _MEANING_CHANGED and not _has_sizes(node)
    if new.deprecated or changed or (node.op_type, later) in _MISCONVERTED:
        return False
    if not _same_attributes(node, old, new) or unlike(node, old, new):
        return False
    pairs = ((old.inputs, new.inputs, len(node.inputs)), (old.outputs, new.outputs, len(node.outputs)))
    return all(_same_parameters(*pair) for pair in pairs)


def _has_sizes(node: ir.Node) -> bool:
    """Whether a Split holds the lengths of its parts: without them its meaning changed with opset 18."""
    return node.op_type == "Split" and len(node.inputs) > 1 and node.inputs[1] is not None


def foreign_attribute(node: ir.Node, opset: int) -> str:
    """The first attribute of a node that its operator does not have at `opset`; empty where all are known."""
    schema = any_schema("", node.op_type, opset)
    return next((name for name in node.attributes if schema is not None and name not in schema.attributes), "")


def _same_parameters(
    old: Sequence[defs.OpSchema.FormalParameter], new: Sequence[defs.OpSchema.FormalParameter], used: int
) -> bool:
    """Whether what a node has of them stands at the same places, or became optional or was, and no more is required."""
    first, second = ([item.option for item in parameters[:used]] for parameters in (old, new))
    enough = len(new) >= (min(used, len(old)) if first == second else used)
    loosened = all(one == other or {one, other} == {_SINGLE, _OPTIONAL} for one, other in zip(first, second))
    needless = (_OPTIONAL, _VARIADIC)  # a loop may carry nothing
    return enough and loosened and all(item.option in needless for item in new[used:])


def _same_attributes(node: ir.Node, old: defs.OpSchema, new: defs.OpSchema) -> bool:
    for name in {*old.attributes, *new.attributes}:
        first, second = old.attributes.get(name), new.attributes.get(name)
        given = node.attributes.get(name)
        if second is None:  # the new form has no such attribute
            if given is not None and not _is_default(given, first):
                return False
        elif first is None:  # the old form had no such attribute
            if second.required:
                return False
        elif (given is None and _default(first) != _default(second)) or first.type != second.type:
            return False
    return True


def _default(attribute: defs.OpSchema.Attribute) -> bytes:
    return bytes(attribute.default_value.SerializeToString(deterministic=True))


def _is_default(given: ir.Attr, attribute: defs.OpSchema.Attribute | None) -> bool:
    if given.is_ref() or attribute is None:
        return False
    return bytes(ir.serde.serialize_attribute(given).SerializeToString(deterministic=True)) == _default(attribute)


def unlike(node: ir.Node, old: defs.OpSchema, new: defs.OpSchema | None) -> str:
    """Why the next form of its operator can't hold a node: an element type or a value that came with another version."""
    if new is None or new.deprecated:
        return ""
    later = max(old.since_version, new.since_version)
    if old.since_version != new.since_version and (node.op_type, later) in _MISCONVERTED:
        return _MISCONVERTED[node.op_type, later]
    for name, item in node.attributes.items():
        value = "" if item.is_ref() or item.type != ir.AttributeType.STRING else item.as_string()
        since = _LATER_VALUES.get(f"{node.op_type}.{name}={value}", 0)
        if new.since_version < since:
            return f"{name}={value!r} exists from opset {since} on"
    for index, operand in enumerate(node.inputs):
        if operand is None or not isinstance(operand.type, ir.TensorType) or index >= len(new.inputs):
            continue
        allowed = parameter(new, index).dtypes
        if allowed and operand.type.dtype not in allowed:
            return f"takes no {operand.type.dtype.name} at opset {new.since_version}"
    return ""
