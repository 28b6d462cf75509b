"""Shapes: reshaping, joining, cutting, repeating, padding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import onnx_ir as ir
import tensorflow as tf

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import case, f32, i32
from onnxport.opset_maps.lowerings.axes import permuted, positions
from onnxport.opset_maps.maps import tensorflow
from onnxport.opset_maps.to_onnx.tensorflow.operands import int64, rank, static_int, static_ints
from onnxport.opset_maps.to_onnx.tensorflow.sizes import target_shape
from onnxport.opset_maps.to_onnx.tensorflow.values import TensorList

_RESHAPES = frozenset({"Reshape", "Squeeze", "Unsqueeze"})


def reshaped(op: OpBuilder, x: ir.Value, shape: ir.Value | Sequence[int]) -> ir.Value:
    """`x` in another shape; where a chain of reshapes leads back to a value of that very shape, that value."""
    wanted = op.result.shape
    if wanted is not None and all(isinstance(dim, int) for dim in wanted):
        before: ir.Value | None = x
        while before is not None:
            if before.shape is not None and before.shape.is_static() and list(before.shape) == list(wanted):
                return before
            producer = before.producer()
            before = producer.inputs[0] if producer is not None and producer.op_type in _RESHAPES else None
        return op.Reshape(x, [int(dim) for dim in wanted]) if 0 not in wanted else op.Reshape(x, shape)  # type: ignore[arg-type]
    if wanted is not None and 0 not in wanted and sum(not isinstance(dim, int) for dim in wanted) == 1:
        return op.Reshape(x, [dim if isinstance(dim, int) else -1 for dim in wanted])
    return op.Reshape(x, shape, allowzero=1 if op.opset >= 14 and not _has_minus_one(op, shape) else None)


def _has_minus_one(op: OpBuilder, shape: ir.Value | Sequence[int]) -> bool:
    """Whether the shape may hold -1, beside which ONNX does not allow zeros to stand for themselves."""
    result = op.constant(shape) if isinstance(shape, ir.Value) else np.asarray(shape)
    return result is None or -1 in result


@tensorflow.lower(
    "Reshape",
    cases=[
        case(lambda x: tf.reshape(x, [-1, 6]), f32(4, 2, 3), dynamic=True),
        case(lambda x: tf.reshape(x, [tf.shape(x)[0], 3, 2]), f32(4, 2, 3), dynamic=True),
        case(lambda x: tf.reshape(x, [tf.shape(x)[0], 2, -1]), f32(4, 2, 6), dynamic=True),
        case(lambda x: tf.reshape(x, [tf.shape(x)[0] * 2, 3, -1]), f32(4, 2, 3), dynamic=True),
        case(lambda x: tf.reshape(x, []), f32(1, 1)),
    ],
)
def reshape(op: OpBuilder, tensor: ir.Value, shape: ir.Value) -> ir.Value:
    """ONNX Reshape."""
    wanted = op.result.shape
    if wanted is not None and all(isinstance(dim, int) and dim for dim in wanted):
        return reshaped(op, tensor, [int(dim) for dim in wanted])  # type: ignore[arg-type]
    known = target_shape(op, tensor, shape)
    return op.Reshape(tensor, known) if known is not None else reshaped(op, tensor, int64(op, shape))


@tensorflow.lower("ExpandDims", cases=[case(lambda x: tf.expand_dims(x, -1), f32(2, 3), dynamic=True)])
def expand_dims(op: OpBuilder, input: ir.Value, dim: ir.Value) -> ir.Value:
    """ONNX Unsqueeze."""
    return op.Unsqueeze(input, [static_int(op, dim, "dim")])


@tensorflow.lower(
    "Squeeze",
    cases=[
        case(lambda x: tf.squeeze(x, [1, -1]), f32(2, 1, 3, 1), dynamic=True),
        case(lambda x: tf.squeeze(x), f32(2, 1, 3, 1)),
        case(lambda x: tf.linalg.norm(x, 2, axis=[-2, -1]), f32(2, 5, 3)),  # one of unknown rank
    ],
)
def squeeze(op: OpBuilder, input: ir.Value, *, squeeze_dims: Sequence[int] = ()) -> ir.Value:
    """ONNX Squeeze."""
    wanted = op.result.shape
    if wanted is not None and all(isinstance(dim, int) for dim in wanted) and 0 not in wanted:
        return reshaped(op, input, [int(dim) for dim in wanted])  # type: ignore[arg-type]
    if squeeze_dims:
        return op.Squeeze(input, op.axes(*squeeze_dims))
    if input.shape is None or not input.shape.is_static():
        squeezed = op.Squeeze(input)  # the axes of size 1 when the model runs, as TensorFlow takes them
        return squeezed if wanted is None else op.typed(squeezed, shape=[None] * len(wanted))
    return op.Squeeze(input, op.axes(*(i for i, dim in enumerate(input.shape) if dim == 1)))


@tensorflow.lower(
    "ConcatV2",
    cases=[
        case(lambda x, y: tf.concat([x, y, x], axis=-1), f32(2, 3), f32(2, 1), dynamic=True),
        case(lambda x, y: tf.concat([x, y], axis=0), f32(2, 3), f32(1, 3)),
    ],
)
def concat_v2(op: OpBuilder, values: list[ir.Value], axis: ir.Value) -> ir.Value:
    """ONNX Concat."""
    return op.Concat(*values, axis=static_int(op, axis, "axis"))


@tensorflow.lower(
    "Concat", cases=[case(lambda x, y: tf.raw_ops.Concat(concat_dim=1, values=[x, y]), f32(2, 3), f32(2, 1))]
)
def concat(op: OpBuilder, concat_dim: ir.Value, values: list[ir.Value]) -> ir.Value:
    """ONNX Concat."""
    return op.Concat(*values, axis=static_int(op, concat_dim, "concat_dim"))


@tensorflow.lower(
    "ParallelConcat",
    cases=[case(lambda x, y: tf.raw_ops.ParallelConcat(values=[x, y], shape=[2, 3]), f32(1, 3), f32(1, 3))],
)
def parallel_concat(op: OpBuilder, values: list[ir.Value], **_: object) -> ir.Value:
    """ONNX Concat of the first axis."""
    return op.Concat(*values, axis=0)


@tensorflow.lower(
    "Pack",
    cases=[
        case(lambda x, y: tf.stack([x, y], axis=1), f32(2, 3), f32(2, 3), dynamic=True),
        case(lambda x, y: tf.stack([x, y], axis=-1), f32(2, 3), f32(2, 3)),
    ],
)
def pack(op: OpBuilder, values: list[ir.Value], *, axis: int = 0) -> ir.Value:
    """Each operand with a new axis, concatenated."""
    return op.Concat(*(op.Unsqueeze(item, [axis]) for item in values), axis=axis)


@tensorflow.lower(
    "Unpack",
    cases=[
        case(lambda x: tf.unstack(x, axis=1), f32(2, 3), dynamic=True),
        case(lambda x: tf.unstack(x, axis=-1), f32(2, 3, 1)),
    ],
)
def unpack(op: OpBuilder, value: ir.Value, *, num: int, axis: int = 0) -> list[ir.Value]:
    """Slices of one, their axis dropped."""
    return [op.Squeeze(item, [axis]) for item in op.split(value, [1] * num, axis)]


@tensorflow.lower(
    "Split",
    cases=[
        case(lambda x: tf.split(x, 3, axis=1), f32(2, 6), dynamic=True),
        case(lambda x: tf.split(x, 1, axis=0), f32(2, 6)),
    ],
)
def split(op: OpBuilder, split_dim: ir.Value, value: ir.Value, *, num_split: int) -> Sequence[ir.Value]:
    """ONNX Split into equal pieces."""
    axis = static_int(op, split_dim, "split_dim")
    size = value.shape[axis] if value.shape is not None else None
    if isinstance(size, int):
        return op.split(value, [size // num_split] * num_split, axis)
    if num_split == 1:
        return (value,)
    if op.opset >= 18:
        return tuple(op.Split(value, axis=axis, num_outputs=num_split, outputs=num_split))
    return tuple(op.Split(value, axis=axis, outputs=num_split))


@tensorflow.lower(
    "SplitV",
    cases=[
        case(lambda x: tf.split(x, [1, 2, 3], axis=1), f32(2, 6), dynamic=True),
        case(lambda x: tf.split(x, [1, -1, 3], axis=1), f32(2, 6)),
    ],
)
def split_v(
    op: OpBuilder, value: ir.Value, size_splits: ir.Value, split_dim: ir.Value, *, num_split: int
) -> Sequence[ir.Value]:
    """ONNX Split into pieces of given sizes, one of which may be the rest."""
    axis = static_int(op, split_dim, "split_dim")
    result = op.constant(size_splits)
    if result is None:
        return (
            tuple(op.Split(value, int64(op, size_splits), axis=axis, outputs=num_split)) if num_split > 1 else (value,)
        )
    sizes = [int(item) for item in result]
    if -1 in sizes:
        total = value.shape[axis] if value.shape is not None else None
        if not isinstance(total, int):
            rest = op.Sub(op.dim(value, axis), sum(sizes) + 1)
            pieces = [op.const([item]) if item != -1 else rest for item in sizes]
            return tuple(op.Split(value, op.Concat(*pieces, axis=0), axis=axis, outputs=num_split))
        sizes[sizes.index(-1)] = total - sum(sizes) - 1
    return op.split(value, sizes, axis)


@tensorflow.lower(
    "Tile",
    cases=[case(lambda x: tf.tile(x, [2, 3]), f32(2, 3)), case(lambda x: tf.tile(x, [tf.shape(x)[0], 1]), f32(2, 3))],
)
def tile(op: OpBuilder, input: ir.Value, multiples: ir.Value) -> ir.Value:
    """ONNX Tile."""
    if (result := op.constant(multiples)) is not None and (result == 1).all():
        return input
    return op.Tile(input, int64(op, multiples))


@tensorflow.lower(
    "Fill",
    cases=[
        case(lambda x: tf.fill([tf.shape(x)[0], 2], 1.5), f32(2, 3), dynamic=True),
        case(lambda x: tf.fill([2, 2], x[0, 0]), f32(2, 3)),
    ],
)
def fill(op: OpBuilder, dims: ir.Value, value: ir.Value) -> ir.Value:
    """ONNX Expand of the scalar."""
    return op.Expand(value, int64(op, dims))


@tensorflow.lower(
    "Empty", cases=[case(lambda x: x + tf.raw_ops.Empty(shape=[2, 3], dtype=tf.float32, init=True), f32(3))]
)
def empty(op: OpBuilder, shape: ir.Value, *, dtype: ir.DataType, init: bool = False) -> ir.Value:
    """Zeros, which TensorFlow promises only with `init`."""
    return op.Expand(op.const(0, dtype), int64(op, shape))


@tensorflow.lower(
    "BroadcastTo",
    cases=[
        case(lambda x: tf.broadcast_to(x, [4, 2, 3]), f32(2, 3)),
        case(lambda x: tf.broadcast_to(x[:1], tf.shape(x)), f32(2, 3)),
    ],
)
def broadcast_to(op: OpBuilder, input: ir.Value, shape: ir.Value) -> ir.Value:
    """ONNX Expand."""
    return op.Expand(input, int64(op, shape))


@tensorflow.lower(
    "BroadcastArgs",
    cases=[
        case(lambda x, y: tf.broadcast_dynamic_shape(tf.shape(x), tf.shape(y)), f32(2, 1), f32(5, 1, 3), dynamic=True)
    ],
)
def broadcast_args(op: OpBuilder, s0: ir.Value, s1: ir.Value) -> ir.Value:
    """The shape of ones of both shapes multiplied."""
    ones = (op.Expand(op.const(1), int64(op, item)) for item in (s0, s1))
    return op.cast_like(op.Shape(op.Mul(*ones)), s0)


@tensorflow.lower("Shape", cases=[case(lambda x: tf.shape(x), f32(2, 3), dynamic=True)])
def shape(op: OpBuilder, input: ir.Value, *, out_type: ir.DataType = ir.DataType.INT32) -> ir.Value:
    """ONNX Shape, in the type asked for."""
    return op.cast(op.shape(input), out_type)


@tensorflow.lower("ShapeN", cases=[case(lambda x, y: tf.shape_n([x, y]), f32(2, 3), f32(4))])
def shape_n(op: OpBuilder, input: list[ir.Value], *, out_type: ir.DataType = ir.DataType.INT32) -> list[ir.Value]:
    """ONNX Shape of each operand."""
    return [op.cast(op.shape(item), out_type) for item in input]


@tensorflow.lower("Size", cases=[case(lambda x: tf.size(x), f32(2, 3), dynamic=True)])
def size(op: OpBuilder, input: ir.Value, *, out_type: ir.DataType = ir.DataType.INT32) -> ir.Value:
    """ONNX Size."""
    if input.shape is not None and input.shape.is_static():
        return op.const(np.asarray(int(np.prod(input.shape.numpy()))), out_type)
    return op.cast(op.Size(input), out_type)


@tensorflow.lower("Rank", cases=[case(lambda x: tf.raw_ops.Rank(input=x) + 1, f32(2, 3))])
def rank_(op: OpBuilder, input: ir.Value) -> ir.Value:
    """The rank, a constant where it is known."""
    if input.shape is None:
        return op.cast(op.Size(op.Shape(input)), ir.DataType.INT32)
    return op.const(np.asarray(rank(input), np.int32))


@tensorflow.lower(
    "Range",
    cases=[
        case(lambda x: tf.range(tf.shape(x)[0]), f32(4, 3), dynamic=True),
        case(lambda x: tf.range(x[0], 9.0, 1.5), f32(1, low=0.0, high=1.0)),
    ],
)
def range_(op: OpBuilder, start: ir.Value, limit: ir.Value, delta: ir.Value) -> ir.Value:
    """ONNX Range."""
    return op.Range(start, limit, delta)


@tensorflow.lower(
    "LinSpace",
    cases=[case(lambda x: tf.linspace(x[0], x[1], 7), f32(2)), case(lambda x: tf.linspace(x[0], x[1], 1), f32(2))],
)
def lin_space(op: OpBuilder, start: ir.Value, stop: ir.Value, num: ir.Value) -> ir.Value:
    """start + i (stop - start) / (num - 1), the first exactly `start` and the last `stop`, infinite ones too."""
    count = static_int(op, num, "num")
    first = op.Reshape(start, [1])
    if count == 1:
        return first
    steps = op.const(np.arange(1, count - 1), start.dtype)
    step = op.Div(op.Sub(stop, start), float(count - 1))
    return op.Concat(first, op.Add(start, op.Mul(step, steps)), op.Reshape(stop, [1]), axis=0)


@tensorflow.lower(
    "ZerosLike",
    "OnesLike",
    cases=[
        case(lambda x: tf.zeros_like(x) + x * 0.0, f32(2, 3), dynamic=True),
        case(lambda x: tf.raw_ops.OnesLike(x=x), f32(2, 3), dynamic=True),
    ],
)
def zeros_like(op: OpBuilder, x: ir.Value | TensorList) -> ir.Value | TensorList:
    """Zeros, or ones, of the operand's shape; of strings empty ones, of a list one of zeros."""
    if isinstance(x, TensorList):
        return x if x.stack is None else replace(x, tensor=op.Expand(op.const(0, x.dtype), op.shape(x.stack)))
    number = "" if x.dtype == ir.DataType.STRING else int(op.name == "OnesLike")
    return op.Expand(op.const(np.asarray(number), x.dtype), op.shape(x))


def padded(op: OpBuilder, x: ir.Value, paddings: ir.Value, mode: str, value: ir.Value | None = None) -> ir.Value:
    """`x` padded by a [rank, 2] matrix of sizes."""
    result = op.constant(paddings)
    if result is not None:
        pads: ir.Value = op.const(np.asarray(result, np.int64).T.ravel())
    else:
        pads = op.Reshape(op.Transpose(int64(op, paddings), perm=[1, 0]), [-1])
    if x.dtype == ir.DataType.BOOL and mode != "constant":
        return op.cast(op.Pad(op.cast(x, ir.DataType.INT32), pads, mode=mode), ir.DataType.BOOL)
    if x.dtype != ir.DataType.STRING:
        return op.Pad(x, pads, value, mode=mode)
    # runtimes pad no strings: their places are padded, with that of one more string behind them
    count = op.Size(x)
    places = op.Pad(op.Reshape(op.Range(0, count, 1), op.shape(x)), pads, count, mode=mode)
    more = op.const(0, x.dtype) if value is None else value
    return op.Gather(op.Concat(op.Reshape(x, [-1]), op.Reshape(more, [1]), axis=0), places, axis=0)


@tensorflow.lower(
    "Pad",
    "PadV2",
    cases=[
        case(lambda x: tf.pad(x, [[0, 0], [1, 2]]), f32(2, 3), dynamic=True),
        case(lambda x: tf.pad(x, [[0, 1], [1, 2]], constant_values=-1.5), f32(2, 3)),
        case(lambda x: (tf.pad(x, [[1, 0]]), tf.pad(x, [[0, 2]], constant_values="c")), np.array(["a", "b"], object)),
        case(lambda x: tf.pad(x, [[0, 0], [0, tf.shape(x)[0]]], constant_values=3), i32(2, 3)),
    ],
)
def pad(op: OpBuilder, input: ir.Value, paddings: ir.Value, constant_values: ir.Value | None = None) -> ir.Value:
    """ONNX Pad with zeros or a value."""
    return padded(op, input, paddings, "constant", constant_values)


@tensorflow.lower(
    "MirrorPad",
    cases=[
        case(lambda x: tf.pad(x, [[0, 1], [1, 2]], "REFLECT"), f32(2, 3)),
        case(lambda x: tf.pad(x, [[1, 2], [2, 1]], "SYMMETRIC"), f32(2, 3)),
        case(lambda x: tf.pad(x, [[1, 1]], "REFLECT"), np.array(["a", "b", ""], object)),
    ],
)
def mirror_pad(op: OpBuilder, input: ir.Value, paddings: ir.Value, *, mode: str) -> ir.Value:
    """ONNX Pad by reflection; with the border repeated, slices of it are reversed and joined."""
    if mode == "REFLECT":
        return padded(op, input, paddings, "reflect")
    sizes = static_ints(op, paddings, "paddings")
    x = input
    for axis, (before, after) in enumerate(zip(sizes[::2], sizes[1::2], strict=True)):
        pieces = [x]
        if before:
            pieces.insert(0, op.Slice(x, [before - 1], [-(2**31)], [axis], [-1]))
        if after:
            pieces.append(op.Slice(x, [-1], [-1 - after], [axis], [-1]))
        x = op.Concat(*pieces, axis=axis) if len(pieces) > 1 else x
    return x


@tensorflow.lower("ReverseV2", cases=[case(lambda x: tf.reverse(x, [0, -1]), f32(2, 3, 4), dynamic=True)])
def reverse_v2(op: OpBuilder, tensor: ir.Value, axis: ir.Value) -> ir.Value:
    """ONNX Slice with steps of -1."""
    axes = static_ints(op, axis, "axis")
    if not axes:
        return tensor
    return op.Slice(tensor, [-1] * len(axes), [-(2**31)] * len(axes), axes, [-1] * len(axes))


@tensorflow.lower(
    "Reverse",
    cases=[case(lambda x: tf.raw_ops.Reverse(tensor=x, dims=[True, False, True]), f32(2, 3, 4), dynamic=True)],
)
def reverse(op: OpBuilder, tensor: ir.Value, dims: ir.Value) -> ir.Value:
    """ONNX Slice with steps of -1, of the axes that a constant names."""
    named = op.constant(dims)
    if named is None:
        raise UnsupportedOperator("Reverse: the axes are computed when the model runs")
    return reverse_v2(op, tensor, op.const(np.flatnonzero(named)))


@tensorflow.lower(
    "ReverseSequence",
    cases=[
        case(lambda x: tf.reverse_sequence(x, [2, 3], seq_axis=1, batch_axis=0), f32(2, 4, 3)),
        case(lambda x, n: tf.reverse_sequence(x, n, seq_axis=0, batch_axis=1), f32(4, 2), i32(2, low=1, high=4)),
        case(lambda x: tf.reverse_sequence(x, [2, 3], seq_axis=2, batch_axis=0), f32(2, 4, 3)),
        case(lambda x: tf.reverse_sequence(x, [2, 3, 1], seq_axis=1, batch_axis=2), f32(2, 4, 3)),
    ],
)
def reverse_sequence(
    op: OpBuilder, input: ir.Value, seq_lengths: ir.Value, *, seq_dim: int, batch_dim: int = 0
) -> ir.Value:
    """ONNX ReverseSequence, which has the two axes first."""
    n = rank(input)
    time, batch, lengths = seq_dim % n, batch_dim % n, int64(op, seq_lengths)
    if {time, batch} == {0, 1}:
        return op.ReverseSequence(input, lengths, time_axis=time, batch_axis=batch)
    order = [batch, time, *(axis for axis in range(n) if axis not in (batch, time))]
    moved = op.ReverseSequence(permuted(op, input, order), lengths, time_axis=1, batch_axis=0)
    return permuted(op, moved, [order.index(axis) for axis in range(n)])


@tensorflow.lower(
    "InvertPermutation", cases=[case(lambda x: tf.math.invert_permutation([2, 0, 1]) + tf.cast(x, tf.int32), f32(3))]
)
def invert_permutation(op: OpBuilder, x: ir.Value) -> ir.Value:
    """Where each index stands: positions scattered by the permutation."""
    places = positions(op, x, 0)
    return op.cast_like(op.ScatterElements(places, int64(op, x), places, axis=0), x)
