"""ONNX operator schemas: which exist at an opset, what their attributes are, what types they give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx import defs

from onnxport.errors import MapEntryError, UnsupportedOperator

ML_DOMAIN = "ai.onnx.ml"
_VARIADIC = defs.OpSchema.FormalParameterOption.Variadic
_SINGLE = defs.OpSchema.FormalParameterOption.Single

# ai.onnx.ml version that shipped in the same onnx release as an ai.onnx opset, so that a file loads wherever its
# ai.onnx opset does: onnx/helper.py's version table.
_ML_OF_OPSET = {13: 2, 14: 2, 15: 2, 16: 3, 17: 3, 18: 3, 19: 3, 20: 4, 21: 5}


def ml_opset(opset: int) -> int:
    """The newest ai.onnx.ml version that runtimes of ai.onnx `opset` know.

    >>> ml_opset(15), ml_opset(18), ml_opset(26)
    (2, 3, 5)
    """
    return _ML_OF_OPSET.get(opset, 5)


@dataclass(frozen=True)
class SchemaParameter:
    """A formal input of an operator: its type variable or concrete type, and the dtypes that are allowed."""

    type_str: str
    dtypes: tuple[ir.DataType, ...]


@cache
def any_schema(domain: str, op_type: str, opset: int) -> defs.OpSchema | None:
    """The schema of an operator as of `opset`, a deprecated one too; None where it does not exist."""
    try:
        return defs.get_schema(op_type, opset, domain)
    except defs.SchemaError:
        return None


def find_schema(domain: str, op_type: str, opset: int) -> defs.OpSchema | None:
    """The schema of an operator as of `opset`, or None where it does not exist yet or any more."""
    schema = any_schema(domain, op_type, opset)
    return None if schema is None or schema.deprecated else schema


@cache
def require_schema(domain: str, op_type: str, opset: int) -> defs.OpSchema:
    """The schema of an operator as of `opset`.

    Raises:
        UnsupportedOperator: the operator comes in a later opset.
        MapEntryError: there is no such operator in any opset.
    """
    schema = find_schema(domain, op_type, opset)
    if schema is not None:
        return schema
    since = [item.since_version for item in _history(domain, op_type)]
    name = f"{domain}::{op_type}" if domain else op_type
    if since and min(since) > opset:
        raise UnsupportedOperator(
            f"needs ONNX {name}, which exists from opset {min(since)} on; target_opset is {opset}: ask for a newer one"
        )
    raise MapEntryError(f"ONNX opset {opset} has no operator {name}")


def absent_operator(model: onnx.ModelProto) -> str:
    """An operator of ai.onnx or ai.onnx.ml in the main graph that no version of ONNX has at the model's opset, as the start of
    a message; empty where there is none.
    """
    versions = {item.domain or "ai.onnx": item.version for item in model.opset_import}
    own = {(item.domain or "ai.onnx", item.name) for item in model.functions}
    for node in model.graph.node:
        domain = node.domain or "ai.onnx"
        opset = versions.get(domain, 0)
        bare = "" if domain == "ai.onnx" else domain
        if domain not in ("ai.onnx", ML_DOMAIN) or not opset or (domain, node.op_type) in own:
            continue
        if any_schema(bare, node.op_type, opset) is None:
            since = min((item.since_version for item in _history(bare, node.op_type)), default=0)
            exists = f"; it exists from opset {since} on, so the model may declare a wrong one" if since > opset else ""
            return f"{node.op_type} ({(node.name or node.output[0])!r}): {domain} {opset} has no such operator{exists}"
    return ""


def _history(domain: str, op_type: str) -> list[defs.OpSchema]:
    every = defs.get_all_schemas_with_history()
    return [item for item in every if item.name == op_type and item.domain == domain]


# Element types by what a schema, and onnxruntime, call a tensor of them.
TENSOR_TYPES = {f"tensor({dtype.name.lower()})": dtype for dtype in ir.DataType if dtype != ir.DataType.UNDEFINED}


def _dtypes(type_strings: Sequence[str]) -> tuple[ir.DataType, ...]:
    return tuple(TENSOR_TYPES[text] for text in sorted(type_strings) if text in TENSOR_TYPES)


@cache
def _parameters(schema: defs.OpSchema) -> tuple[tuple[SchemaParameter, ...], bool]:
    constraints = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    typed = [(item.type_str, constraints.get(item.type_str, [item.type_str])) for item in schema.inputs]
    formal = tuple(SchemaParameter(name, _dtypes(allowed)) for name, allowed in typed)
    variadic = bool(schema.inputs) and schema.inputs[-1].option == _VARIADIC
    homogeneous = variadic and schema.inputs[-1].is_homogeneous
    if variadic and not homogeneous:  # each of the rest has a type of its own
        formal = (*formal[:-1], SchemaParameter("", formal[-1].dtypes))
    return formal, variadic


def parameter(schema: defs.OpSchema, index: int) -> SchemaParameter:
    """The formal input at `index`, counting a variadic one as often as needed.

    Raises:
        MapEntryError: the operator has fewer inputs.
    """
    formal, variadic = _parameters(schema)
    if index < len(formal):
        return formal[index]
    if not variadic:
        raise MapEntryError(f"ONNX {schema.name}-{schema.since_version} takes at most {len(formal)} inputs")
    return formal[-1]


@cache
def allowed_dtypes(domain: str, op_type: str, opset: int, index: int = 0) -> tuple[ir.DataType, ...]:
    """The element types that input `index` of an operator may have at `opset`."""
    return parameter(require_schema(domain, op_type, opset), index).dtypes


@cache
def default_output_count(schema: defs.OpSchema) -> int:
    """How many outputs a node has where nothing asks for another number: those that are not optional, at least one."""
    return max(1, sum(item.option == _SINGLE for item in schema.outputs))


def attribute(schema: defs.OpSchema, name: str, value: Any) -> ir.Attr:
    """`value` as the attribute `name` of the schema's declared type.

    Raises:
        MapEntryError: the operator has no such attribute at this version.
    """
    declared = schema.attributes.get(name)
    if declared is None:
        raise MapEntryError(f"ONNX {schema.name}-{schema.since_version} has no attribute {name!r}")
    kind = ir.AttributeType(declared.type.value)  # type: ignore[attr-defined]  # an enum, which onnx's stub does not say
    if kind not in _ATTRIBUTES:
        raise MapEntryError(f"ONNX {schema.name}: attributes of type {kind.name} can't be written ({name!r})")
    if kind == ir.AttributeType.TENSOR and isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        value = ir.Tensor(value)  # many times faster than onnx-ir's looking for what else it may be
    elif kind == ir.AttributeType.TENSOR and not isinstance(value, ir.TensorProtocol):
        value = ir.tensor(np.asarray(value))
    if kind in (ir.AttributeType.INTS, ir.AttributeType.FLOATS) and isinstance(value, np.ndarray):
        value = value.tolist()  # many times faster than onnx-ir's reading of NumPy's numbers one by one
    return ir.Attr(name, kind, value)


_ATTRIBUTES = frozenset(
    ir.AttributeType[kind] for kind in "FLOAT INT STRING FLOATS INTS STRINGS TENSOR GRAPH TYPE_PROTO".split()
)


def type_proto(value: ir.Value) -> onnx.TypeProto | None:
    """Element type and shape of a value as ONNX's inference reads them; None where the type is unknown."""
    if value.type is None:
        return None
    proto = onnx.TypeProto()
    if not isinstance(value.type, ir.TensorType):
        ir.serde.serialize_type_into(proto, value.type)
        return proto
    tensor = proto.tensor_type
    tensor.elem_type = value.type.dtype.value
    if value.shape is not None:
        tensor.shape.SetInParent()
        for dim in value.shape:
            item = tensor.shape.dim.add()
            if isinstance(dim, int):
                item.dim_value = dim
            elif dim.value is not None:
                item.dim_param = dim.value
    return proto
