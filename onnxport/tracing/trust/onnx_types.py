"""Element types of a node's operands against the schema of its operator, and the types of its results.

Runtimes refuse a node whose operands have types that its operator does not take, or that should be of one type and are not
(ONNX operator specification, type constraints). Frameworks promote them: such a file would give a model whose numbers ONNX
does not define.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import onnx_ir as ir
from onnx import AttributeProto, NodeProto, TypeProto, ValueInfoProto, defs

from onnxport.errors import InvalidModelError
from onnxport.graph.schema import TENSOR_TYPES, parameter

_KNOWN = frozenset(int(item) for item in ir.DataType)
UNKNOWN = 0  # ONNX's own number for it; also of sequences, maps and optional values


@dataclass(frozen=True)
class OperandTypes:
    """The types that a schema gives an operand."""

    variable: str  # operands and results of one variable have one type; empty where each has its own
    allowed: frozenset[int]  # element types of tensors; empty where it takes no tensor
    families: frozenset[str]  # of these types


@cache
def operand_types(schema: defs.OpSchema, index: int) -> OperandTypes:
    """The types of the operand at `index`, which the operator has."""
    formal = parameter(schema, index)
    free = formal.type_str in TENSOR_TYPES or _is_heterogeneous(schema, index)
    allowed = frozenset(int(item) for item in formal.dtypes)
    families = {_family(item) for item in allowed}
    # Releases of ONNX differ in which operators of floating-point numbers take whole ones (Erf-13): the importers decide.
    more = {"whole"} if "real" in families else set()
    return OperandTypes("" if free else formal.type_str, allowed, frozenset(families | more))


def _family(kind: int) -> str:
    known = ir.DataType(kind) if kind in _KNOWN else ir.DataType.FLOAT
    if known in (ir.DataType.BOOL, ir.DataType.STRING):
        return known.name
    return "whole" if known.is_integer() else "real"


def _is_heterogeneous(schema: defs.OpSchema, index: int) -> bool:
    last = schema.inputs[-1]
    variadic = last.option == defs.OpSchema.FormalParameterOption.Variadic
    return variadic and index >= len(schema.inputs) - 1 and not last.is_homogeneous


def element_type(kind: TypeProto) -> int:
    """The element type of a tensor; `UNKNOWN` of anything else."""
    return kind.tensor_type.elem_type if kind.HasField("tensor_type") else UNKNOWN


def check_declared(output: ValueInfoProto, kind: int, place: str) -> None:
    """Checks the declared element type of a graph's output against what is known of the value.

    Raises:
        InvalidModelError: they differ.
    """
    declared = element_type(output.type)
    if UNKNOWN not in (declared, kind) and declared != kind:
        raise InvalidModelError(
            f"{place}the output {output.name!r} is declared {_name(declared)}, but is {_name(kind)}"
        )


def result_types(node: NodeProto, schema: defs.OpSchema, operands: list[int], place: str) -> list[int]:
    """The element types of the node's results, `UNKNOWN` where the schema alone does not tell, from those of its operands.

    Raises:
        InvalidModelError: the operator does not take them.
    """
    bound: dict[str, tuple[int, str]] = {}  # of each variable the type, and the operand that it is from
    for index, (name, kind) in enumerate(zip(node.input, operands, strict=True)):
        if not name or kind == UNKNOWN:
            continue
        types = operand_types(schema, index)
        if types.allowed and _family(kind) not in types.families:
            taken = ", ".join(sorted(_name(item) for item in types.allowed))
            version = f"{schema.name}-{schema.since_version}"
            raise InvalidModelError(f"{place}: its operand {name!r} is {_name(kind)}; {version} takes {taken}")
        if not types.variable:
            continue
        first, other = bound.setdefault(types.variable, (kind, name))
        if first != kind:
            raise InvalidModelError(
                f"{place}: its operands {other!r} and {name!r} are {_name(first)} and {_name(kind)}; "
                f"{schema.name} takes them of one type: put a Cast before one of them"
            )
    return [_result_type(node, schema, index, bound) for index in range(len(node.output))]


def _result_type(node: NodeProto, schema: defs.OpSchema, index: int, bound: dict[str, tuple[int, str]]) -> int:
    if index >= len(schema.outputs):  # of a variadic one
        last = schema.outputs[-1] if schema.outputs else None
        if last is None or not last.is_homogeneous:
            return UNKNOWN
        text = last.type_str
    else:
        text = schema.outputs[index].type_str
    if text in TENSOR_TYPES:
        return int(TENSOR_TYPES[text])
    if text in bound:
        return bound[text][0]
    # Operators whose result's type is an attribute: Cast, Constant, the random ones, ...
    for item in node.attribute:
        if item.name in ("to", "dtype", "output_dtype") and item.type == AttributeProto.INT and len(node.output) == 1:
            return item.i
    return UNKNOWN


def _name(kind: int) -> str:
    return ir.DataType(kind).name.lower() if kind in _KNOWN else str(kind)
