"""Shapes and element types of the operators that most nodes of a graph are.

ONNX's own inference takes a node as a message and takes as long as all else that a node costs. A rule gives what ONNX's inference
gives, or nothing where the case is not plain; `graph/inference.py` asks ONNX then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod

import numpy as np
import onnx_ir as ir
from onnx import defs

from onnxport.graph import schema as schemas

Known = Mapping[str, np.ndarray]
Dims = Iterable[int | ir.SymbolicDim | None]
# Gives the shape of a node's first result from that of its first operand, whose type is known; None where it can't.
Rule = Callable[[ir.Node, ir.Value, ir.Shape, Known], Dims | None]


def set_by_rule(schema: defs.OpSchema, node: ir.Node, known: Known) -> bool:
    """Whether a rule gives the results' types and shapes, which are set then; the schema must take the operand's type.

    `known` are the constant values of inputs by name, as far as they are small.
    """
    rule, value = _RULES.get(node.op_type), node.inputs[0] if node.inputs else None
    if rule is None or value is None or not isinstance(value.type, ir.TensorType) or value.shape is None:
        return False
    if value.type.dtype not in schemas.parameter(schema, 0).dtypes or (rule is _like_all and schema.since_version < 7):
        return False
    shape = rule(node, value, value.shape, known)
    dtype = None if shape is None else _dtype_of_result(node, value.type.dtype)
    if shape is None or dtype is None:
        return False
    node.outputs[0].type, node.outputs[0].shape = ir.TensorType(dtype), ir.Shape(shape)
    return True


def _dtype_of_result(node: ir.Node, given: ir.DataType) -> ir.DataType | None:
    kind = node.op_type
    if kind in _RESULT:
        return _RESULT[kind]
    if kind == "Cast":
        wanted = ir.DataType(node.attributes.get_int("to", 0))
        return wanted if wanted in _CAST_TO else None
    if kind == "Where":
        return node.inputs[1].dtype if node.inputs[1] is not None else None
    if kind == "LabelEncoder":
        return next(dtype for name, dtype in _LABEL_VALUES.items() if name in node.attributes)
    return given


def _are_alike(first: ir.Value, others: Sequence[ir.Value | None]) -> bool:
    """Whether other operands have the type of the first one; those that are left out do."""
    return all(item is None or item.type == first.type for item in others)


def _like_operand(node: ir.Node, value: ir.Value, shape: ir.Shape, known: Known) -> Dims | None:
    return shape if len(node.inputs) == 1 else None


def _like_first(node: ir.Node, value: ir.Value, shape: ir.Shape, known: Known) -> Dims | None:
    return shape if _are_alike(value, node.inputs[1:]) else None


def _like_all(node: ir.Node, value: ir.Value, shape: ir.Shape, known: Known) -> Dims | None:
    return _broadcast([item.shape if item is not None else None for item in node.inputs], value, node.inputs[1:])


def _selected(node: ir.Node, value: ir.Value, shape: ir.Shape, known: Known) -> Dims | None:
    if len(node.inputs) != 3 or node.inputs[1] is None:
        return None
    shapes = [item.shape if item is not None else None for item in node.inputs]
    return _broadcast(shapes, node.inputs[1], node.inputs[2:])


def _power(node: ir.Node, value: ir.Value, shape: ir.Shape, known: Known) -> Dims | None:
    second = node.inputs[1]
    return _broadcast([shape, second.shape], value, ()) if second is not None and second.type is not None else None


def _expanded(node: ir.Node, value: ir.Value, shape: ir.Shape, known: Known) -> Dims | None:
    sizes = _integers(node.inputs[1], known)
    return _broadcast([shape, ir.Shape(sizes)], value, ()) if sizes and min(sizes) > 0 else None


def _broadcast(
    shapes: Sequence[ir.Shape | None], first: ir.Value, others: Sequence[ir.Value | None]
) -> list[int | ir.SymbolicDim | None] | None:
    """What shapes broadcast to; None where one is unknown, two don't fit, or the operands' types differ.

    As `multidirectionalBroadcastShapeInference` of ONNX has it: a size beside an unknown one stays, one name stays beside ones.
    """
    if None in shapes or not _are_alike(first, others):
        return None
    if len(shapes) == 2 and shapes[0] == shapes[1]:
        return list(shapes[0])  # type: ignore[arg-type]
    known = [list(shape) for shape in shapes if shape is not None]
    dims: list[int | ir.SymbolicDim | None] = []
    for place in range(-max(map(len, known)), 0):
        size, named, count = 1, None, 0
        for dim in (shape[place] for shape in known if len(shape) >= -place):
            if isinstance(dim, int):
                if dim != 1 and size not in (1, dim):
                    return None
                size = size if dim == 1 else dim
            elif not count:
                named, count = dim, 1
            elif dim != named:
                count += 1
        dims.append(size if size != 1 or not count else named if count == 1 else None)
    return dims


def _reshaped(node: ir.Node, value: ir.Value, shape: ir.Shape, known: Known) -> Dims | None:
    wanted = _integers(node.inputs[1], known) if len(node.inputs) == 2 else None
    if wanted is None:
        return None
    if not shape.is_static():
        return [None] if wanted == [-1] else None
    return wanted if min(wanted, default=1) > 0 and prod(wanted) == prod(shape.numpy()) else None


def _compressed(node: ir.Node, value: ir.Value, shape: ir.Shape, known: Known) -> Dims | None:
    flags = node.inputs[1]
    if flags is None or flags.dtype != ir.DataType.BOOL or flags.shape is None or flags.shape.rank() != 1:
        return None
    return _along_axis(node, shape, [None]) if "axis" in node.attributes else [None] if shape.rank() else None


def _over_axis(node: ir.Node, value: ir.Value, shape: ir.Shape, known: Known) -> Dims | None:
    return shape if -shape.rank() <= node.attributes.get_int("axis", -1) < shape.rank() else None


def _transposed(node: ir.Node, value: ir.Value, shape: ir.Shape, known: Known) -> Dims | None:
    perm = node.attributes.get_ints("perm")
    return None if perm is None or len(perm) != shape.rank() else [shape[i] for i in perm]


def _gathered(node: ir.Node, value: ir.Value, shape: ir.Shape, known: Known) -> Dims | None:
    index = node.inputs[1]
    if index is None or index.shape is None or index.dtype not in _INDICES:
        return None
    return None if index.name in known and value.name in known else _along_axis(node, shape, index.shape)


def _gathered_each(node: ir.Node, value: ir.Value, shape: ir.Shape, known: Known) -> Dims | None:
    index = node.inputs[1]
    return index.shape if index is not None and index.dtype in _INDICES else None


def _along_axis(
    node: ir.Node, shape: ir.Shape, new: Dims, *, default: int = 0
) -> list[int | ir.SymbolicDim | None] | None:
    """The operand's shape with other axes in the place of one."""
    rank, axis = shape.rank(), node.attributes.get_int("axis", default)
    return [*shape[: axis % rank], *new, *shape[axis % rank + 1 :]] if -rank <= axis < rank else None


def _at_axis(node: ir.Node, value: ir.Value, shape: ir.Shape, known: Known) -> Dims | None:
    return _along_axis(node, shape, [1] if node.attributes.get_int("keepdims", 1) else [])


def _reduced(node: ir.Node, value: ir.Value, shape: ir.Shape, known: Known) -> Dims | None:
    rank, given = shape.rank(), len(node.inputs) > 1 and node.inputs[1] is not None
    axes = _integers(node.inputs[1], known) if given else node.attributes.get_ints("axes")
    if (given and not axes) or not rank or node.attributes.get_int("noop_with_empty_axes", 0) != 0:
        return None
    gone = _places(axes, rank) if axes else set(range(rank))
    if gone is None:
        return None
    kept = [1] if node.attributes.get_int("keepdims", 1) else []
    return [dim for i, size in enumerate(shape) for dim in (kept if i in gone else [size])]


def _squeezed(node: ir.Node, value: ir.Value, shape: ir.Shape, known: Known) -> Dims | None:
    gone = _places(_axes(node, known), shape.rank())
    if not gone or any(shape[i] != 1 for i in gone):
        return None
    return [size for i, size in enumerate(shape) if i not in gone]


def _unsqueezed(node: ir.Node, value: ir.Value, shape: ir.Shape, known: Known) -> Dims | None:
    axes = _axes(node, known)
    new = _places(axes, shape.rank() + len(axes or ()))
    if not new:
        return None
    old = iter(shape)
    return [1 if i in new else next(old) for i in range(shape.rank() + len(new))]


def _axes(node: ir.Node, known: Known) -> Sequence[int] | None:
    return _integers(node.inputs[1], known) if len(node.inputs) > 1 else node.attributes.get_ints("axes")


def _places(axes: Sequence[int] | None, rank: int) -> set[int] | None:
    """Axes as they are counted from the front; None where one is named twice or there is none such."""
    if axes is None or any(not -rank <= axis < rank for axis in axes):
        return None
    places = {axis % rank for axis in axes}
    return places if len(places) == len(axes) else None


def _integers(value: ir.Value | None, known: Known) -> list[int] | None:
    """A constant list of whole numbers; None where it is not known."""
    array = known.get(value.name or "") if value is not None else None
    if array is None or array.ndim != 1 or array.dtype.kind != "i":
        return None
    items: list[int] = array.tolist()
    return items


def _joined(node: ir.Node, value: ir.Value, shape: ir.Shape, known: Known) -> Dims | None:
    shapes = [item.shape if item is not None else None for item in node.inputs]
    rank, axis = shape.rank(), node.attributes.get_int("axis", 0)
    if (
        None in shapes
        or "axis" not in node.attributes
        or not -rank <= axis < rank
        or not _are_alike(value, node.inputs[1:])
    ):
        return None
    total = 0
    for other in shapes:
        size = other[axis] if other is not None and other.rank() == rank else None
        if other is None or not isinstance(size, int):
            return None
        total += size
        if any(a != b or _is_unknown(a) for i, (a, b) in enumerate(zip(shape, other, strict=True)) if i != axis % rank):
            return None
    return _along_axis(node, shape, [total])


def _is_unknown(dim: int | ir.SymbolicDim) -> bool:
    return not isinstance(dim, int) and dim.value is None


def _general_product(node: ir.Node, value: ir.Value, shape: ir.Shape, known: Known) -> Dims | None:
    second = node.inputs[1]
    if second is None or second.shape is None or shape.rank() != 2 or second.shape.rank() != 2:
        return None
    left, right = node.attributes.get_int("transA", 0), node.attributes.get_int("transB", 0)
    rows, summed = (shape[1], shape[0]) if left else (shape[0], shape[1])
    other, columns = (second.shape[1], second.shape[0]) if right else (second.shape[0], second.shape[1])
    return [rows, columns] if _may_equal(summed, other) and _are_alike(value, node.inputs[1:]) else None


def _may_equal(a: int | ir.SymbolicDim, b: int | ir.SymbolicDim) -> bool:
    return not isinstance(a, int) or not isinstance(b, int) or a == b


def _product(node: ir.Node, value: ir.Value, shape: ir.Shape, known: Known) -> Dims | None:
    second = node.inputs[1]
    if second is None or second.shape is None or min(shape.rank(), second.shape.rank()) < 2:
        return None
    if not _may_equal(shape[-1], second.shape[-2]):
        return None
    if shape.rank() == second.shape.rank() == 2:
        return [shape[0], second.shape[1]] if _are_alike(value, [second]) else None
    stack = _broadcast([ir.Shape(shape[:-2]), ir.Shape(second.shape[:-2])], value, [second])
    return [*stack, shape[-2], second.shape[-1]] if stack is not None else None


def _sliced(node: ir.Node, value: ir.Value, shape: ir.Shape, known: Known) -> Dims | None:
    if len(node.inputs) < 4:
        return None
    starts, ends, axes = (_integers(item, known) for item in node.inputs[1:4])
    steps = _integers(node.inputs[4], known) if len(node.inputs) > 4 else [1] * len(starts or ())
    if starts is None or ends is None or axes is None or steps is None:
        return None
    if not len(starts) == len(ends) == len(axes) == len(steps) or _places(axes, shape.rank()) is None:
        return None
    dims: list[int | ir.SymbolicDim] = list(shape)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        size = dims[axis]
        if not isinstance(size, int) or step < 1:  # backwards, ONNX cuts off what is too far otherwise than Python
            return None
        dims[axis] = len(range(*slice(start, end, step).indices(size)))
    return dims


def _split(node: ir.Node, value: ir.Value, shape: ir.Shape, known: Known) -> Dims | None:
    sizes = _integers(node.inputs[1], known) if len(node.inputs) == 2 else None
    rank, axis = shape.rank(), node.attributes.get_int("axis", 0)
    if sizes is None or len(sizes) != len(node.outputs) or min(sizes) < 0:
        return None
    if not -rank <= axis < rank or shape[axis] != sum(sizes):
        return None
    for output, size in zip(node.outputs[1:], sizes[1:], strict=True):
        output.type, output.shape = value.type, ir.Shape(_along_axis(node, shape, [size]) or ())
    return _along_axis(node, shape, sizes[:1])


def _largest(node: ir.Node, value: ir.Value, shape: ir.Shape, known: Known) -> Dims | None:
    count = _integers(node.inputs[1], known) if len(node.inputs) == 2 else None
    dims = _along_axis(node, shape, count, default=-1) if count is not None and len(count) == 1 else None
    axis = node.attributes.get_int("axis", -1)
    if dims is None or len(node.outputs) != 2 or not isinstance(shape[axis], int) or not 0 < dims[axis] <= shape[axis]:  # type: ignore[operator]
        return None
    node.outputs[1].type, node.outputs[1].shape = ir.TensorType(ir.DataType.INT64), ir.Shape(dims)
    return dims


def _rank(node: ir.Node, value: ir.Value, shape: ir.Shape, known: Known) -> Dims | None:
    return None if node.attributes else [shape.rank()]


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


_INDICES = (ir.DataType.INT32, ir.DataType.INT64)
_LABEL_VALUES = {
    "values_int64s": ir.DataType.INT64,
    "values_strings": ir.DataType.STRING,
    "values_floats": ir.DataType.FLOAT,
}
# What every version of Cast gives; ONNX checks the newer types.
_CAST_TO = frozenset(
    getattr(ir.DataType, name)
    for name in "BOOL DOUBLE FLOAT FLOAT16 INT8 INT16 INT32 INT64 UINT8 UINT16 UINT32 UINT64 STRING".split()
)
_COMPARE = ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")
_REDUCE = "L1 L2 LogSum LogSumExp Max Mean Min Prod Sum SumSquare".split()
_RESULT = {
    **dict.fromkeys((*_COMPARE, "IsInf", "IsNaN"), ir.DataType.BOOL),
    **dict.fromkeys(("ArgMax", "ArgMin", "Shape"), ir.DataType.INT64),
    "TreeEnsembleRegressor": ir.DataType.FLOAT,
}
_RULES: dict[str, Rule] = {
    **dict.fromkeys(
        "Abs Cast Ceil Cos Elu Erf Exp Floor Gelu HardSigmoid HardSwish Identity IsInf IsNaN LeakyRelu Log Mish Neg Not "
        "Reciprocal Relu Round Selu Sigmoid Sign Sin Softplus Softsign Sqrt Tanh".split(),
        _like_operand,
    ),
    **dict.fromkeys(("Add", "And", "Div", "Max", "Min", "Mul", "Or", "Sub", *_COMPARE), _like_all),
    **dict.fromkeys((f"Reduce{name}" for name in _REDUCE), _reduced),
    **dict.fromkeys(("ArgMax", "ArgMin"), _at_axis),
    "Clip": _like_first,
    "Compress": _compressed,
    "Concat": _joined,
    "Expand": _expanded,
    "Gather": _gathered,
    "GatherElements": _gathered_each,
    "Gemm": _general_product,
    "LabelEncoder": _labels,
    "MatMul": _product,
    "Pow": _power,
    "Reshape": _reshaped,
    "Shape": _rank,
    "Slice": _sliced,
    "Softmax": _over_axis,
    "Split": _split,
    "Squeeze": _squeezed,
    "StringSplit": _split_strings,
    "TopK": _largest,
    "Transpose": _transposed,
    "TreeEnsemble": _of_trees,
    "TreeEnsembleRegressor": _of_trees,
    "Unsqueeze": _unsqueezed,
    "Where": _selected,
}
