"""Types and shapes of a node's outputs, as the node is written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import prod

import numpy as np
import onnx
import onnx_ir as ir
from onnx import defs
from onnx.shape_inference import InferenceError, infer_node_outputs

from onnxport.errors import MapEntryError, UnsupportedOperator
from onnxport.graph import schema as schemas
from onnxport.graph.protos import has_map, set_type

Known = Mapping[str, np.ndarray]
Dims = Iterable[int | ir.SymbolicDim | None]
# Gives the shape of a node's first result from that of its first operand, whose type is known; None where it can't.
Rule = Callable[[ir.Node, ir.Value, ir.Shape, Known], Dims | None]


def _like_operand(node: ir.Node, value: ir.Value, shape: ir.Shape, known: Known) -> Dims | None:
    return shape if len(node.inputs) == 1 else None


def _like_both(node: ir.Node, value: ir.Value, shape: ir.Shape, known: Known) -> Dims | None:
    second = node.inputs[1]
    if second is None or second.type != value.type or second.shape is None:
        return None
    return _broadcast(shape, second.shape)


def _reshaped(node: ir.Node, value: ir.Value, shape: ir.Shape, known: Known) -> Dims | None:
    sizes = node.inputs[1] if len(node.inputs) == 2 else None
    if sizes is None or not sizes.name or sizes.name not in known:
        return None
    wanted = known[sizes.name].tolist()
    if not shape.is_static():
        return [None] if wanted == [-1] else None
    return wanted if min(wanted, default=1) > 0 and prod(wanted) == prod(shape.numpy()) else None


def _compressed(node: ir.Node, value: ir.Value, shape: ir.Shape, known: Known) -> Dims | None:
    flags = node.inputs[1]
    if flags is None or flags.dtype != ir.DataType.BOOL or flags.shape is None or flags.shape.rank() != 1:
        return None
    return _along_axis(node, shape, [None]) if "axis" in node.attributes else [None]


def _transposed(node: ir.Node, value: ir.Value, shape: ir.Shape, known: Known) -> Dims | None:
    perm = node.attributes.get_ints("perm")
    return None if perm is None or len(perm) != shape.rank() else [shape[i] for i in perm]


def _gathered(node: ir.Node, value: ir.Value, shape: ir.Shape, known: Known) -> Dims | None:
    index = node.inputs[1]
    if index is None or index.shape is None or index.dtype not in (ir.DataType.INT32, ir.DataType.INT64):
        return None
    return None if index.name in known and value.name in known else _along_axis(node, shape, index.shape)


def _along_axis(node: ir.Node, shape: ir.Shape, new: Dims) -> Dims | None:
    """The operand's shape with other axes in the place of one."""
    rank, axis = shape.rank(), node.attributes.get_int("axis", 0)
    return [*shape[: axis % rank], *new, *shape[axis % rank + 1 :]] if -rank <= axis < rank else None


def _split_strings(node: ir.Node, value: ir.Value, shape: ir.Shape, known: Known) -> Dims | None:
    if len(node.outputs) != 2:
        return None
    node.outputs[1].type = ir.TensorType(ir.DataType.INT64)
    node.outputs[1].shape = ir.Shape(shape)
    return [*shape, None]


def _labels(node: ir.Node, value: ir.Value, shape: ir.Shape, known: Known) -> Dims | None:
    # whose keys and values would be written as a proto for the schema's own function to read
    return shape if len(_LABEL_VALUES.keys() & node.attributes.keys()) == 1 else None


def _of_trees(node: ir.Node, value: ir.Value, shape: ir.Shape, known: Known) -> Dims | None:
    # whose nodes and leaves would be written as a proto
    targets = node.attributes.get_int("n_targets", 0)
    return [shape[0], targets] if targets and shape.rank() == 2 else None


_LABEL_VALUES = {
    "values_int64s": ir.DataType.INT64,
    "values_strings": ir.DataType.STRING,
    "values_floats": ir.DataType.FLOAT,
}
_COMPARE_BOTH = frozenset(("Equal", "Greater", "Less"))
# By operator, most nodes of a graph: ONNX's inference takes as long as all else that a node costs.
_RULES: dict[str, Rule] = {
    **dict.fromkeys(
        "Abs Ceil Cos Elu Erf Exp Floor Gelu HardSigmoid HardSwish LeakyRelu Log Mish Neg Not Reciprocal Relu Round Selu "
        "Sigmoid Sign Sin Softmax Softplus Softsign Sqrt Tanh".split(),
        _like_operand,
    ),
    **dict.fromkeys(("Add", "And", "Div", "Mul", "Or", "Sub", *_COMPARE_BOTH), _like_both),
    "Compress": _compressed,
    "Gather": _gathered,
    "LabelEncoder": _labels,
    "Reshape": _reshaped,
    "StringSplit": _split_strings,
    "Transpose": _transposed,
    "TreeEnsemble": _of_trees,
    "TreeEnsembleRegressor": _of_trees,
}


def _inferred_by_rule(schema: defs.OpSchema, node: ir.Node, known: Known) -> bool:
    """Whether a rule gives the result's type and shape, which are set then; the schema must take the operand's type."""
    rule, value = _RULES.get(node.op_type), node.inputs[0] if node.inputs else None
    if rule is None or value is None or not isinstance(value.type, ir.TensorType) or value.shape is None:
        return False
    dtype = value.type.dtype
    if dtype not in schemas.parameter(schema, 0).dtypes or (rule is _like_both and schema.since_version < 7):
        return False
    shape = rule(node, value, value.shape, known)
    if shape is None:
        return False
    if node.op_type in _COMPARE_BOTH:
        dtype = ir.DataType.BOOL
    elif node.op_type == "TreeEnsembleRegressor":
        dtype = ir.DataType.FLOAT
    elif rule is _labels:
        dtype = next(kind for name, kind in _LABEL_VALUES.items() if name in node.attributes)
    node.outputs[0].type, node.outputs[0].shape = ir.TensorType(dtype), ir.Shape(shape)
    return True


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


def infer_outputs(schema: defs.OpSchema, node: ir.Node, opsets: tuple[tuple[str, int], ...], known: Known) -> None:
    """Sets type and shape of the node's outputs by the schema's own inference function.

    The node's values are named, its inputs typed; nodes with subgraphs are left alone. `opsets` are pairs of domain and
    version in force, `known` the constant values of inputs by name, as far as they are small.

    Raises:
        UnsupportedOperator: the operator does not take the inputs' element types at this version.
        MapEntryError: the inputs contradict the schema.
    """
    if _inferred_by_rule(schema, node, known):
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
