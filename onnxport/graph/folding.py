"""Evaluation of a node on constants, while the graph is being written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx.shape_inference import infer_node_outputs

from onnxport.graph.evaluator import reference_evaluator
from onnxport.graph.schema import find_schema

# A folded value stands in the file; beyond this many elements the node is smaller than its value.
MAX_ELEMENTS = 1 << 16

UNKNOWN = 1 << 62  # stands for a number of elements that nothing tells

# Random, stateful or subgraph operators, and those whose very purpose is not to be folded.
_NEVER = frozenset(
    "RandomNormal RandomNormalLike RandomUniform RandomUniformLike Multinomial Bernoulli Dropout If Loop Scan SequenceMap "
    "DequantizeLinear QuantizeLinear Optional SequenceConstruct SequenceEmpty SplitToSequence ImageDecoder".split()
)

Arrays = tuple[np.ndarray, ...]


def sliced(data: np.ndarray, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> np.ndarray:
    """ONNX's Slice."""
    index: list[slice] = [slice(None)] * data.ndim
    for i, axis in enumerate(range(len(starts)) if axes is None else axes):
        step = 1 if steps is None else int(steps[i])
        end = int(ends[i])
        below = step < 0 and end < -data.shape[axis]
        index[axis] = slice(int(starts[i]), None if below else end, step)
    return data[tuple(index)]


def _truncated_div(a: np.ndarray, b: np.ndarray) -> np.ndarray | None:
    if a.dtype.kind not in "iu":
        return a / b
    if not np.all(b):
        return None
    quotient = np.abs(a) // np.abs(b)
    return (np.sign(a) * np.sign(b) * quotient).astype(a.dtype)


# The shape arithmetic that makes up nearly all folding; anything else goes to ONNX's reference evaluator.
_FAST: dict[str, Callable[..., np.ndarray | None]] = {
    "Add": lambda a, b: a + b,
    "Sub": lambda a, b: a - b,
    "Mul": lambda a, b: a * b,
    "Div": _truncated_div,
    "Neg": lambda a: -a,
    "Equal": lambda a, b: a == b,
    "Less": lambda a, b: a < b,
    "Greater": lambda a, b: a > b,
    "Not": np.logical_not,
    "And": np.logical_and,
    "Or": np.logical_or,
    "Where": np.where,
    "Concat": lambda *xs, axis: np.concatenate(xs, axis),
    "Gather": lambda x, i, axis=0: np.take(x, i, axis),
    "Identity": lambda x: x,
    "Reshape": lambda x, s, allowzero=0: x.reshape(
        [x.shape[i] if d == 0 and not allowzero else int(d) for i, d in enumerate(s)]
    ),
    "Expand": lambda x, s: x * np.ones(s, x.dtype) if x.dtype.kind in "iufb" else None,
    "Squeeze": lambda x, axes=None: np.squeeze(x, None if axes is None else tuple(int(a) for a in axes)),
    "Transpose": lambda x, perm=None: np.transpose(x, perm),
    "Unsqueeze": lambda x, axes: np.expand_dims(x, tuple(int(a) for a in axes)),
    "Slice": sliced,
    "Range": np.arange,
}


def fold(node: ir.Node, inputs: list[np.ndarray | None], opset: int, most: int = MAX_ELEMENTS) -> Arrays | None:
    """The node's outputs on constant `inputs`, None for one left out; None where it should or can not be evaluated here.

    A node whose outputs would together have more than `most` elements is not evaluated.
    """
    if node.op_type in _NEVER or node.domain or elements(node, inputs, opset) > most:
        return None
    fast = _FAST.get(node.op_type)
    if fast is not None and all(item is not None for item in inputs):
        attributes = {name: item.value for name, item in node.attributes.items()}
        with np.errstate(all="ignore"):
            result = fast(*inputs, **attributes)
        if result is not None:
            result = np.asarray(result)
            same_kind = inputs[0] is not None and node.op_type not in ("Equal", "Less", "Greater", "Where")
            return (result.astype(inputs[0].dtype, copy=False) if same_kind and inputs[0] is not None else result,)
    return _reference(node, inputs, opset)


# Operators with at most as many elements of result as the product of their operands' sizes, whatever these hold.
_AT_MOST_PRODUCT = frozenset(
    "Abs Acos Acosh Add And ArgMax ArgMin Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor "
    "Cast CastLike Ceil Celu Clip Compress Cos Cosh CumSum Det Div Einsum Elu Equal Erf Exp Flatten Floor Gather "
    "GatherElements GatherND Gelu Gemm Greater GreaterOrEqual HardSigmoid HardSwish Hardmax Identity IsInf IsNaN "
    "LeakyRelu Less LessOrEqual Log LogSoftmax MatMul Max Mean Min Mish Mod Mul Neg NonZero Not Or PRelu Pow "
    "Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum "
    "ReduceSumSquare Relu Reshape ReverseSequence Round ScatterElements ScatterND Selu Shape Sigmoid Sign Sin Sinh "
    "Size Slice Softmax Softplus Softsign Split Sqrt Squeeze Sub Tan Tanh TopK Transpose Trilu Unique Unsqueeze "
    "Where Xor".split()
)

# Operators whose output has the elements of their first operand, in its type.
_AS_MANY = frozenset("Flatten Identity Neg Reshape Squeeze Transpose Unsqueeze".split())


def elements(node: ir.Node, inputs: Sequence[np.ndarray | None], opset: int) -> int:
    """At most how many elements a node's outputs have on constant `inputs`, unevaluated; `UNKNOWN` where nothing tells."""
    first = inputs[0] if inputs else None
    if node.op_type in _AS_MANY and first is not None:
        return first.size
    sizes = [item.size for item in inputs if item is not None]
    bound = max(4, len(node.outputs)) * prod(max(size, 1) for size in sizes)
    if node.op_type in _AT_MOST_PRODUCT and bound <= MAX_ELEMENTS:
        return bound
    if node.op_type == "Concat":
        return sum(sizes)
    return _inferred_elements(node, inputs, opset)


def _inferred_elements(node: ir.Node, inputs: Sequence[np.ndarray | None], opset: int) -> int:
    """As `elements`, by ONNX's inference for the one node on the inputs' values."""
    schema = find_schema("", node.op_type, opset)
    if schema is None:
        return UNKNOWN
    proto = onnx.NodeProto(op_type=node.op_type)
    proto.output.extend(f"o{index}" for index in range(len(node.outputs)))
    types, known = {}, {}
    try:
        for index, item in enumerate(inputs):
            proto.input.append(f"i{index}" if item is not None else "")
            if item is None:
                continue
            if item.size <= MAX_ELEMENTS:
                known[f"i{index}"] = onnx.numpy_helper.from_array(item)
            kind = onnx.helper.np_dtype_to_tensor_dtype(item.dtype)
            types[f"i{index}"] = onnx.helper.make_tensor_type_proto(kind, item.shape)
        for attribute in node.attributes.values():
            ir.serde.serialize_attribute_into(proto.attribute.add(), attribute)
        imports = [onnx.helper.make_opsetid("", opset)]
        inferred = infer_node_outputs(schema, proto, types, input_data=known, opset_imports=imports, ir_version=10)
    except Exception:  # inference raises errors of many types; such a node is not evaluated
        return UNKNOWN
    total = 0
    for index in range(len(node.outputs)):
        kind_of = inferred.get(f"o{index}")
        if kind_of is None or not kind_of.tensor_type.HasField("shape"):
            return UNKNOWN
        dims = kind_of.tensor_type.shape.dim
        if not all(dim.HasField("dim_value") for dim in dims):
            return UNKNOWN
        total += prod(dim.dim_value for dim in dims)
    return total


def _reference(node: ir.Node, inputs: list[np.ndarray | None], opset: int) -> Arrays | None:
    names = [f"i{i}" if item is not None else "" for i, item in enumerate(inputs)]
    proto = ir.serde.serialize_node(node)
    del proto.input[:]
    proto.input.extend(names)
    inputs_info = [onnx.helper.make_empty_tensor_value_info(name) for name in names if name]
    outputs_info = [onnx.helper.make_empty_tensor_value_info(name) for name in proto.output]
    graph = onnx.helper.make_graph([proto], "fold", inputs_info, outputs_info)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=10)
    feeds = {name: item for name, item in zip(names, inputs, strict=True) if item is not None}
    try:
        with np.errstate(all="ignore"):
            outputs = reference_evaluator(model).run(None, feeds)
    except Exception:  # the evaluator knows not every operator and type; the node then simply stays in the graph
        return None
    return tuple(np.asarray(item) for item in outputs)
