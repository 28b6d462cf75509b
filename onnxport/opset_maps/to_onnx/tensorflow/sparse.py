"""Sparse tensors as their components: indices [n, rank] in row-major order, values [n], the dense shape [rank]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict, Unpack

import numpy as np
import onnx_ir as ir
import tensorflow as tf

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import case, f32, i32
from onnxport.opset_maps.lowerings import reductions
from onnxport.opset_maps.lowerings.axes import transposed
from onnxport.opset_maps.lowerings.products import matmul
from onnxport.opset_maps.lowerings.scatter import Reduction, scatter_slices
from onnxport.opset_maps.maps import tensorflow
from onnxport.opset_maps.to_onnx.tensorflow.operands import int64, rank
from onnxport.opset_maps.to_onnx.tensorflow.sparse_groups import by_groups, reduction_operands

_INT64 = ir.DataType.INT64
_PLACES = np.array([[0, 1], [0, 3], [2, 0], [2, 2]], np.int64)


def _sparse(values: tf.Tensor) -> tf.SparseTensor:
    return tf.SparseTensor(_PLACES, values, [3, 4])


def _twice(values: tf.Tensor) -> tf.SparseTensor:
    """Two values at one place."""
    return tf.SparseTensor(np.array([[0, 1], [0, 1], [2, 0], [2, 2]], np.int64), values, [3, 4])


def _parts(sparse: tf.SparseTensor) -> tuple[tf.Tensor, ...]:
    return sparse.indices, sparse.values, sparse.dense_shape


def _dense(
    op: OpBuilder, indices: ir.Value, values: ir.Value, shape: ir.Value, fill: float = 0, *, reduction: Reduction | None
) -> ir.Value:
    """The dense tensor; `reduction` says what values of one place are together, None where there are no two of a place."""
    empty = op.Expand(op.const(fill, values.dtype), int64(op, shape))
    return scatter_slices(op, empty, op.cast(indices, _INT64), values, reduction)


@tensorflow.lower(
    "SparseToDense",
    cases=[
        case(lambda x: tf.sparse.to_dense(_sparse(x), -1.0), f32(4)),
        case(
            lambda x: tf.raw_ops.SparseToDense(
                sparse_indices=[1, 3], output_shape=[5], sparse_values=x, default_value=7
            ),
            i32(2),
        ),
        case(
            lambda x: tf.raw_ops.SparseToDense(
                sparse_indices=_PLACES, output_shape=[3, 4], sparse_values=x[0], default_value=0.0
            ),
            f32(2),
        ),
    ],
)
def sparse_to_dense(
    op: OpBuilder,
    sparse_indices: ir.Value,
    output_shape: ir.Value,
    sparse_values: ir.Value,
    default_value: ir.Value,
    *,
    validate_indices: bool = True,
) -> ir.Value:
    """ScatterND into the default value."""
    places = op.cast(sparse_indices, _INT64)
    if rank(places) < 2:
        places = op.Reshape(places, [-1, 1])
    if rank(sparse_values) == 0:
        sparse_values = op.Expand(sparse_values, op.dim(places, 0))
    dense = op.Expand(default_value, int64(op, output_shape))
    return scatter_slices(op, dense, places, sparse_values)


class Adjoint(TypedDict, total=False):
    """Which factors of a product are transposed first."""

    adjoint_a: bool
    adjoint_b: bool


@tensorflow.lower(
    "SparseTensorDenseMatMul",
    cases=[
        case(lambda x, y: tf.sparse.sparse_dense_matmul(_sparse(x), y), f32(4), f32(4, 2)),
        case(lambda x, y: tf.sparse.sparse_dense_matmul(_sparse(x), y, True, True), f32(4), f32(2, 3)),
        case(lambda x, y: tf.sparse.sparse_dense_matmul(_twice(x), y), f32(4), f32(4, 2)),
    ],
    min_opset=16,
)
def sparse_dense_matmul(
    op: OpBuilder, a_indices: ir.Value, a_values: ir.Value, a_shape: ir.Value, b: ir.Value, **flags: Unpack[Adjoint]
) -> ir.Value:
    """The product of the dense matrix."""
    a = _dense(op, a_indices, a_values, a_shape, reduction="add")
    return matmul(
        op, transposed(op, a) if flags.get("adjoint_a") else a, transposed(op, b) if flags.get("adjoint_b") else b
    )


@tensorflow.lower(
    "SparseTensorDenseAdd", cases=[case(lambda x, y: tf.sparse.add(_sparse(x), y), f32(4), f32(3, 4))], min_opset=16
)
def sparse_dense_add(
    op: OpBuilder, a_indices: ir.Value, a_values: ir.Value, a_shape: ir.Value, b: ir.Value
) -> ir.Value:
    """The values added at their places."""
    return scatter_slices(op, b, op.cast(a_indices, _INT64), a_values, "add")


def _register_elementwise(name: str) -> None:
    @tensorflow.lower(
        f"SparseDenseCwise{name}",
        cases=[
            case(
                lambda x, y: getattr(tf.raw_ops, f"SparseDenseCwise{name}")(
                    sp_indices=_PLACES, sp_values=x, sp_shape=[3, 4], dense=y
                ),
                f32(4),
                drawn,
            )
            for drawn in (f32(3, 4, low=0.5), f32(4, low=0.5))
        ],
    )
    def lower(
        op: OpBuilder, sp_indices: ir.Value, sp_values: ir.Value, sp_shape: ir.Value, dense: ir.Value
    ) -> ir.Value:
        whole = op.Expand(dense, int64(op, sp_shape))
        return op.node(name, sp_values, op.GatherND(whole, op.cast(sp_indices, _INT64)))

    lower.__doc__ = f"{name} of the values and the dense elements at their places."


for _name in ("Add", "Mul", "Div"):
    _register_elementwise(_name)


@tensorflow.lower(
    "SparseReduceSum SparseReduceMax",
    cases=[
        case(lambda x: tf.sparse.reduce_sum(_sparse(x), 1), f32(4), min_opset=16),
        case(lambda x: tf.sparse.reduce_sum(_twice(x), 1), f32(4), min_opset=16),
        case(lambda x: tf.sparse.reduce_sum(_sparse(x), [0, -1], keepdims=True), f32(4), min_opset=16),
        case(lambda x: tf.sparse.reduce_max(_sparse(x), 0), f32(4)),
        case(lambda x: tf.sparse.reduce_max(_sparse(x), 1, keepdims=True), i32(4), min_opset=18),
    ],
)
def sparse_reduce(op: OpBuilder, *operands: ir.Value, keep_dims: bool = False) -> ir.Value:
    """The dense tensor reduced; a greatest of no values is 0."""
    input_indices, input_values, input_shape, _, axes = reduction_operands(op, *operands)
    if op.name == "SparseReduceSum":
        dense = _dense(op, input_indices, input_values, input_shape, reduction="add")
        return op.reduce("ReduceSum", dense, axes, keepdims=keep_dims)
    if not reductions.is_floating(input_values):
        return _greatest_integers(op, input_indices, input_values, input_shape, axes, keep_dims)
    largest: Reduction | None = "max" if op.opset >= 18 else None
    dense = _dense(op, input_indices, input_values, input_shape, -np.inf, reduction=largest)
    greatest = op.reduce("ReduceMax", dense, axes, keepdims=keep_dims)
    ones = op.Expand(op.const(1.0, input_values.dtype), op.Shape(input_values))
    held = _dense(op, input_indices, ones, input_shape, reduction=None)
    some = op.reduce("ReduceMax", held, axes, keepdims=keep_dims)
    return op.Where(op.Greater(some, 0.0), greatest, op.const(0.0, input_values.dtype))


def _greatest_integers(
    op: OpBuilder, indices: ir.Value, values: ir.Value, shape: ir.Value, axes: list[int], keep_dims: bool
) -> ir.Value:
    """The greatest of the integers of each group that has some, 0 for the others."""
    known, result, sizes = by_groups(op, indices, values, int64(op, shape), axes, largest=True)
    dense = op.Expand(op.const(0, values.dtype), op.ReduceProd(sizes, keepdims=1))
    dense = op.Reshape(op.ScatterElements(dense, known, result, axis=0), sizes)
    return op.Unsqueeze(dense, op.axes(*sorted(axes))) if keep_dims else dense


def _flat_places(op: OpBuilder, indices: ir.Value, shape: ir.Value) -> ir.Value:
    """The number of each place in row-major order."""
    return op.reduce("ReduceSum", op.Mul(indices, _strides(op, shape)), [1], keepdims=False)


def _strides(op: OpBuilder, shape: ir.Value) -> ir.Value:
    """How many elements lie between neighbours along each axis."""
    known = op.constant(shape)
    if known is None:
        raise UnsupportedOperator("a sparse tensor of a shape that is computed when the model runs")
    sizes = [int(item) for item in known]
    return op.const([int(np.prod(sizes[i + 1 :], dtype=np.int64)) for i in range(len(sizes))])


@tensorflow.lower(
    "SparseReorder",
    cases=[case(lambda x: _parts(tf.sparse.reorder(tf.SparseTensor(_PLACES[::-1], x, [3, 4]))), f32(4))],
)
def sparse_reorder(
    op: OpBuilder, input_indices: ir.Value, input_values: ir.Value, input_shape: ir.Value
) -> Sequence[ir.Value]:
    """In row-major order."""
    numbers = _flat_places(op, input_indices, input_shape)
    _, order = op.TopK(numbers, op.Shape(numbers), axis=0, largest=0, sorted=1)
    return op.Gather(input_indices, order, axis=0), op.Gather(input_values, order, axis=0)


@tensorflow.lower("SparseReshape", cases=[case(lambda x: _parts(tf.sparse.reshape(_sparse(x), [2, -1])), f32(4))])
def sparse_reshape(
    op: OpBuilder, input_indices: ir.Value, input_shape: ir.Value, new_shape: ir.Value
) -> Sequence[ir.Value]:
    """The places in a tensor of another shape."""
    numbers = op.Unsqueeze(_flat_places(op, input_indices, input_shape), [1])
    old, wanted = op.constant(input_shape), op.constant(new_shape)
    if old is None or wanted is None:
        raise UnsupportedOperator("SparseReshape: the shape is computed when the model runs")
    sizes = np.empty(int(np.prod(old)), np.bool_).reshape([int(item) for item in wanted]).shape
    shape = op.const(list(sizes))
    return op.Mod(op.Div(numbers, _strides(op, shape)), shape), shape


@tensorflow.lower("SparseSoftmax", cases=[case(lambda x: _parts(tf.sparse.softmax(_sparse(x))), f32(4))])
def sparse_softmax(op: OpBuilder, sp_indices: ir.Value, sp_values: ir.Value, sp_shape: ir.Value) -> ir.Value:
    """The softmax of the values of each row."""
    least = -np.inf
    dense = op.Softmax(_dense(op, sp_indices, sp_values, sp_shape, least, reduction=None), axis=-1)
    return op.GatherND(dense, op.cast(sp_indices, _INT64))


@tensorflow.lower(
    "SparseSlice",
    cases=[case(lambda x: _parts(tf.sparse.slice(_sparse(x), [0, 1], [2, 3])), f32(4))],
)
def sparse_slice(
    op: OpBuilder, indices: ir.Value, values: ir.Value, shape: ir.Value, start: ir.Value, size: ir.Value
) -> Sequence[ir.Value]:
    """The places inside, counted from the start."""
    first, count = int64(op, start), int64(op, size)
    moved = op.Sub(indices, first)
    inside = op.And(op.GreaterOrEqual(moved, 0), op.Less(moved, count))
    kept = op.Equal(op.reduce("ReduceMin", op.cast(inside, ir.DataType.INT32), [1], keepdims=False), 1)
    left = op.Max(op.Min(count, op.Sub(int64(op, shape), first)), op.const(0))
    return op.Compress(moved, kept, axis=0), op.Compress(values, kept, axis=0), left
