"""Types and shapes of a node's outputs, as the node is written."""

from __future__ import annotations

import onnx
import onnx_ir as ir
from onnx import defs
from onnx.shape_inference import InferenceError, infer_node_outputs

from onnxport.errors import MapEntryError, UnsupportedOperator
from onnxport.graph import schema as schemas
from onnxport.graph.protos import has_map, set_type
from onnxport.graph.shape_rules import Known, set_by_rule

# Before opset 16 these are defined by a function body alone, and ONNX infers nothing through it.
_INFERRED_AS = {"LessOrEqual": "Less", "GreaterOrEqual": "Greater"}


def infer_outputs(schema: defs.OpSchema, node: ir.Node, opsets: tuple[tuple[str, int], ...], known: Known) -> None:
    """Sets type and shape of the node's outputs by the schema's own inference function.

    The node's values are named, its inputs typed; nodes with subgraphs are left alone. `opsets` are pairs of domain and
    version in force, `known` the constant values of inputs by name, as far as they are small.

    Raises:
        UnsupportedOperator: the operator does not take the inputs' element types at this version.
        MapEntryError: the inputs contradict the schema.
    """
    if set_by_rule(schema, node, known):
        return
    if node.op_type in _INFERRED_AS and schema.since_version < 16:
        schema = schemas.require_schema("", _INFERRED_AS[node.op_type], schema.since_version)
    proto = onnx.NodeProto(op_type=schema.name, domain=node.domain)
    proto.input.extend(value.name if value is not None else "" for value in node.inputs)
    proto.output.extend(value.name for value in node.outputs)
    for item in node.attributes.values():
        ir.serde.serialize_attribute_into(proto.attribute.add(), item)
    typed = ((value.name or "", schemas.type_proto(value)) for value in node.inputs if value is not None)
    types = {name: known_type for name, known_type in typed if known_type is not None}
    imports = [onnx.OperatorSetIdProto(domain=domain, version=version) for domain, version in opsets]
    data = {name: onnx.numpy_helper.from_array(array) for name, array in known.items()}
    try:
        inferred = infer_node_outputs(schema, proto, types, input_data=data, opset_imports=imports, ir_version=10)
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
        declared = inferred.get(value.name or "")
        if declared is None:
            continue
        if has_map(declared):
            set_type(value, declared)
            continue
        value.type = ir.serde.deserialize_type_proto_for_type(declared)
        value.shape = ir.serde.deserialize_type_proto_for_shape(declared) if declared.HasField("tensor_type") else None
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
