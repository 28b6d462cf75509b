"""Operands and attributes of a node against the schema of its operator: how many, of which kind, all that must be there."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from onnx import AttributeProto, NodeProto, defs

from onnxport.errors import InvalidModelError
from onnxport.graph.schema import any_schema


@dataclass(frozen=True)
class OperatorSignature:
    """What a schema asks of a node."""

    inputs: tuple[int, int]  # the least and the greatest number of operands
    outputs: tuple[int, int]  # the least and the greatest number of results
    single: tuple[bool, ...]  # for each operand whether it must be there
    attributes: dict[str, tuple[int, bool]]  # by name their type and whether they must be there
    schema: defs.OpSchema


@cache
def signature_of(domain: str, op_type: str, version: int) -> OperatorSignature | None:
    """The schema of an operator at a version of its domain; None where onnx has none."""
    schema = any_schema(domain, op_type, version)
    if schema is None:
        return None
    single = defs.OpSchema.FormalParameterOption.Single
    operands, results = (schema.min_input, schema.max_input), (schema.min_output, schema.max_output)
    needed = tuple(item.option == single for item in schema.inputs)
    # the enumeration's stub lacks `value`
    kinds = {name: int(item.type.value) for name, item in schema.attributes.items()}  # type: ignore[attr-defined]
    attributes = {name: (kinds[name], item.required) for name, item in schema.attributes.items()}
    return OperatorSignature(operands, results, needed, attributes, schema)


def normal_domain(name: str) -> str:
    """A domain's name; ONNX's own has two, of which this gives the empty one."""
    return "" if name == "ai.onnx" else name


def where(node: NodeProto, place: str) -> str:
    """A node in an error: the graphs that it stands in, its operator and its name."""
    name = node.name or next((item for item in node.output if item), "")
    return f"{place}{node.domain + '::' if node.domain else ''}{node.op_type} {name!r}"


def check_operands(node: NodeProto, signature: OperatorSignature, place: str) -> None:
    """Checks how many operands and results a node has.

    Raises:
        InvalidModelError: more or fewer than its operator takes.
    """
    for kind, count, (least, most) in (
        ("operands", len(node.input), signature.inputs),
        ("results", len(node.output), signature.outputs),
    ):
        if not least <= count <= most:
            limits = f"{least} to {most}" if most < 1 << 30 else f"at least {least}"
            raise InvalidModelError(f"{where(node, place)}: it has {count} {kind}, its operator takes {limits}")
    for name, single in zip(node.input, signature.single, strict=False):
        if single and not name:
            raise InvalidModelError(f"{where(node, place)}: an operand that it must have is left out")


def check_attributes(node: NodeProto, kinds: dict[str, int], signature: OperatorSignature, place: str) -> None:
    """Checks which attributes a node has, `kinds` being their types by name.

    Raises:
        InvalidModelError: one is missing, of another type or not its operator's, or a count that is not positive.
    """
    if normal_domain(node.domain) in _OF_ONNX:  # runtimes read further ones of their own operators
        foreign = sorted(name for name in kinds.keys() - signature.attributes.keys() if not name.startswith(_UNREAD))
        if foreign:
            version = f"{node.op_type}-{signature.schema.since_version}"
            raise InvalidModelError(f"{where(node, place)}: {version} has no attribute {', '.join(map(repr, foreign))}")
    for name, (kind, required) in signature.attributes.items():
        if name not in kinds:
            if required:
                raise InvalidModelError(f"{where(node, place)}: the attribute {name!r} is missing")
        elif kinds[name] != kind:
            names = AttributeProto.AttributeType
            raise InvalidModelError(
                f"{where(node, place)}: the attribute {name!r} is {names.Name(kinds[name])}, not {names.Name(kind)}"
            )
    if not normal_domain(node.domain):
        _check_counts(node, place)


_OF_ONNX = ("", "ai.onnx.ml")
_UNREAD = ("consumed_inputs", "__")  # of operators before version 6; the second is what ONNX's own check passes over
# Counts, which schemas leave unbounded.
_POSITIVE = frozenset(
    "group strides dilations kernel_shape blocksize hidden_size num_groups q_num_heads kv_num_heads num_outputs pooled_shape "
    "output_height output_width".split()
)


def _check_counts(node: NodeProto, place: str) -> None:
    for item in node.attribute:
        if item.name in _POSITIVE and not item.ref_attr_name:
            numbers = item.ints if item.type == AttributeProto.INTS else (item.i,)
            if any(not 0 < number < 1 << 31 for number in numbers):
                raise InvalidModelError(
                    f"{where(node, place)}: the attribute {item.name!r} is {list(numbers)[:8]}, not positive or too large"
                )
        if item.name == "num_outputs" and not item.ref_attr_name and item.i != len(node.output):
            raise InvalidModelError(f"{where(node, place)}: {len(node.output)} results, its num_outputs is {item.i}")
