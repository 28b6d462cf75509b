"""Types and shapes of a node's outputs, as the node is written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import prod

import onnx
import onnx_ir as ir
from onnx import defs
from onnx.shape_inference import InferenceError, infer_node_outputs

from onnxport.errors import MapEntryError, UnsupportedOperator
from onnxport.graph import schema as schemas
from onnxport.graph.protos import has_map, set_type

# Operators whose result is like their operand, and whose result is like their operands broadcast: most nodes of a graph, told
# without ONNX's inference, which takes as long as all else that a node costs.
_LIKE_OPERAND = frozenset(
    "Abs Ceil Cos Elu Erf Exp Floor Gelu HardSigmoid HardSwish LeakyRelu Log Mish Neg Not Reciprocal Relu Round Selu "
    "Sigmoid Sign Sin Softmax Softplus Softsign Sqrt Tanh".split()
)
_LIKE_BOTH = frozenset(("Add", "And", "Div", "Mul", "Or", "Sub"))
_COMPARE_BOTH = frozenset(("Equal", "Greater", "Less"))


Known = Mapping[str, onnx.TensorProto]


def _typed_operand(schema: defs.OpSchema, node: ir.Node) -> ir.Value | None:
    """The first operand, where type and rank are known and the schema takes the type."""
    value = node.inputs[0]
    if value is None or not isinstance(value.type, ir.TensorType) or value.shape is None:
        return None
    return value if value.type.dtype in schemas.parameter(schema, 0).dtypes else None


def _told_as(node: ir.Node, dtype: ir.DataType | None, shape: Iterable[int | ir.SymbolicDim | None]) -> bool:
    node.outputs[0].type = ir.TensorType(dtype or ir.DataType.UNDEFINED)
    node.outputs[0].shape = ir.Shape(shape)
    return True


def _told_of_operand(schema: defs.OpSchema, node: ir.Node, known: Known) -> bool:
    value = _typed_operand(schema, node) if len(node.inputs) == 1 else None
    return value is not None and value.shape is not None and _told_as(node, value.dtype, value.shape)


def _told_of_both(schema: defs.OpSchema, node: ir.Node, known: Known) -> bool:
    first, second = _typed_operand(schema, node), node.inputs[1]
    if first is None or second is None or second.type != first.type or schema.since_version < 7:
        return False
    if first.shape is None or second.shape is None:
        return False
    shape = _broadcast(first.shape, second.shape)
    dtype = ir.DataType.BOOL if node.op_type in _COMPARE_BOTH else first.dtype
    return shape is not None and _told_as(node, dtype, shape)


def _told_of_reshape(schema: defs.OpSchema, node: ir.Node, known: Known) -> bool:
    value, sizes = _typed_operand(schema, node), node.inputs[1] if len(node.inputs) == 2 else None
    if value is None or sizes is None or not sizes.name or sizes.name not in known or value.shape is None:
        return False
    shape = [int(n) for n in onnx.numpy_helper.to_array(known[sizes.name])]
    if not value.shape.is_static():
        return shape == [-1] and _told_as(node, value.dtype, [None])
    return min(shape, default=1) > 0 and prod(shape) == prod(value.shape.numpy()) and _told_as(node, value.dtype, shape)


def _told_of_compress(schema: defs.OpSchema, node: ir.Node, known: Known) -> bool:
    value, flags = _typed_operand(schema, node), node.inputs[1]
    if value is None or value.shape is None or flags is None or flags.dtype != ir.DataType.BOOL:
        return False
    if flags.shape is None or flags.shape.rank() != 1:
        return False
    if "axis" not in node.attributes:
        return _told_as(node, value.dtype, [None])
    rank, axis = value.shape.rank(), node.attributes["axis"].as_int()
    if not -rank <= axis < rank:
        return False
    axis %= rank
    return _told_as(node, value.dtype, [*value.shape[:axis], None, *value.shape[axis + 1 :]])


def _told_of_transpose(schema: defs.OpSchema, node: ir.Node, known: Known) -> bool:
    value = _typed_operand(schema, node)
    perm = node.attributes.get("perm")
    if value is None or value.shape is None or perm is None or len(perm.as_ints()) != value.shape.rank():
        return False
    return _told_as(node, value.dtype, [value.shape[i] for i in perm.as_ints()])


def _told_of_gather(schema: defs.OpSchema, node: ir.Node, known: Known) -> bool:
    value, index = _typed_operand(schema, node), node.inputs[1]
    if value is None or value.shape is None or index is None or index.shape is None:
        return False
    if index.dtype not in (ir.DataType.INT32, ir.DataType.INT64):
        return False
    rank, axis = value.shape.rank(), node.attributes["axis"].as_int() if "axis" in node.attributes else 0
    if not -rank <= axis < rank or (index.name in known and value.name in known):
        return False
    axis %= rank
    return _told_as(node, value.dtype, [*value.shape[:axis], *index.shape, *value.shape[axis + 1 :]])


def _told_of_split_strings(schema: defs.OpSchema, node: ir.Node, known: Known) -> bool:
    value = _typed_operand(schema, node)
    if value is None or value.shape is None or len(node.outputs) != 2:
        return False
    node.outputs[1].type = ir.TensorType(ir.DataType.INT64)
    node.outputs[1].shape = ir.Shape(value.shape)
    return _told_as(node, value.dtype, [*value.shape, None])


def _told_of_labels(schema: defs.OpSchema, node: ir.Node, known: Known) -> bool:
    # whose keys and values would be written as a proto for the schema's own function to read
    value = _typed_operand(schema, node)
    kinds = [kind for name, kind in _LABEL_VALUES.items() if name in node.attributes]
    if value is None or value.shape is None or len(kinds) != 1:
        return False
    node.outputs[0].type, node.outputs[0].shape = ir.TensorType(kinds[0]), value.shape.copy()
    return True


_LABEL_VALUES = {
    "values_int64s": ir.DataType.INT64,
    "values_strings": ir.DataType.STRING,
    "values_floats": ir.DataType.FLOAT,
}
_TOLD: dict[str, Callable[[defs.OpSchema, ir.Node, Known], bool]] = {
    **dict.fromkeys(_LIKE_OPERAND, _told_of_operand),
    **dict.fromkeys(_LIKE_BOTH | _COMPARE_BOTH, _told_of_both),
    "Compress": _told_of_compress,
    "Gather": _told_of_gather,
    "LabelEncoder": _told_of_labels,
    "Reshape": _told_of_reshape,
    "StringSplit": _told_of_split_strings,
    "Transpose": _told_of_transpose,
}


def _broadcast(a: ir.Shape, b: ir.Shape) -> ir.Shape | None:
    """The shape that two broadcast to, where one of them has it already; None where that is not plain."""
    for whole, part in ((a, b), (b, a)):
        tail = list(whole)[whole.rank() - part.rank() :]
        if len(tail) == part.rank() and all(_fits(n, m) for n, m in zip(part, tail, strict=True)):
            return whole
    return None


def _fits(size: int | ir.SymbolicDim, into: int | ir.SymbolicDim) -> bool:
    return size == 1 or (size == into and (isinstance(size, int) or size.value is not None))


# Before opset 16 these are defined by a function body alone, and ONNX infers nothing through it.
_INFERRED_AS = {"LessOrEqual": "Less", "GreaterOrEqual": "Greater"}


def infer_outputs(
    schema: defs.OpSchema,
    node: ir.Node,
    opsets: tuple[tuple[str, int], ...],
    known: dict[str, onnx.TensorProto],
) -> None:
    """Sets type and shape of the node's outputs by the schema's own inference function.

    Args:
        schema: the operator's schema.
        node: a node whose values are named and whose inputs are typed; nodes with subgraphs are left alone.
        opsets: pairs of domain and version in force.
        known: constant values of inputs by name, as far as they are small.

    Raises:
        UnsupportedOperator: the operator does not take the inputs' element types at this version.
        MapEntryError: the inputs contradict the schema.
    """
    if node.op_type in _TOLD and _TOLD[node.op_type](schema, node, known):
        return
    if node.op_type in _INFERRED_AS and schema.since_version < 16:
        schema = schemas.require_schema("", _INFERRED_AS[node.op_type], schema.since_version)
    proto = onnx.NodeProto(op_type=schema.name, domain=node.domain)
    proto.input.extend(value.name if value is not None else "" for value in node.inputs)
    proto.output.extend(value.name for value in node.outputs)
    for item in node.attributes.values():
        ir.serde.serialize_attribute_into(proto.attribute.add(), item)
    types = {
        value.name or "": found
        for value in node.inputs
        if value is not None and (found := schemas.type_proto(value)) is not None
    }
    imports = [onnx.OperatorSetIdProto(domain=domain, version=version) for domain, version in opsets]
    try:
        inferred = infer_node_outputs(schema, proto, types, input_data=known, opset_imports=imports, ir_version=10)
    except (InferenceError, onnx.checker.ValidationError, RuntimeError, ValueError) as error:
        shapes = ", ".join(
            f"{value.type}{list(value.shape) if value.shape is not None else '?'}" if value is not None else "-"
            for value in node.inputs
        )
        message = f"ONNX {node.op_type}-{schema.since_version} on ({shapes}): {error}"
        if isinstance(error, onnx.checker.ValidationError) and "unsupported type" in str(error):
            raise UnsupportedOperator(f"{message}; a newer target_opset may have the type") from error
        raise MapEntryError(message) from error
    for value in node.outputs:
        found = inferred.get(value.name or "")
        if found is None:
            continue
        if has_map(found):
            set_type(value, found)
            continue
        value.type = ir.serde.deserialize_type_proto_for_type(found)
        value.shape = ir.serde.deserialize_type_proto_for_shape(found) if found.HasField("tensor_type") else None
    if node.op_type.startswith("Reduce") and not node.domain and node.outputs[0].shape is None:
        node.outputs[0].shape = _reduced_rank(node)


def _reduced_rank(node: ir.Node) -> ir.Shape | None:
    """The rank that a reduction leaves over as many axes as are given: which they are is known at run time only."""
    value, axes = node.inputs[0], node.inputs[1] if len(node.inputs) > 1 else None
    if value is None or value.shape is None or axes is None or axes.shape is None or axes.shape.rank() != 1:
        return None
    count, keepdims = axes.shape[0], node.attributes.get("keepdims")
    if keepdims is None or keepdims.as_int():
        count = 0
    elif not isinstance(count, int) or not count:
        return None
    return ir.Shape([None] * (value.shape.rank() - count))
