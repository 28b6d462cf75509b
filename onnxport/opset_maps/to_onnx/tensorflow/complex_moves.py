"""Complex numbers as pairs: every operator that treats the parts alike, and comparisons, sums and products."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
import onnx_ir as ir
import tensorflow as tf

from onnxport.errors import MapEntryError
from onnxport.graph.builder import OpBuilder
from onnxport.graph.result_types import Expected
from onnxport.opset_maps.cases import Case, case, f32
from onnxport.opset_maps.lowerings import complex_functions as functions
from onnxport.opset_maps.lowerings import complex_numbers, reductions
from onnxport.opset_maps.lowerings.complex_numbers import Parts, joined, modulus, parts_of
from onnxport.opset_maps.maps import tensorflow
from onnxport.opset_maps.to_onnx.tensorflow import (
    elementwise,
    indexing,
    linalg,
    moves,
    reduction,
    segments,
    slicing,
)
from onnxport.opset_maps.to_onnx.tensorflow import shape as shapes
from onnxport.opset_maps.to_onnx.tensorflow.operands import int64, rank, static_ints

_DOUBLE = ir.DataType.DOUBLE
HOMES = (elementwise, indexing, linalg, moves, reduction, segments, shapes, slicing)  # of the real entries


def complex_case(call: Callable[..., Any], *shapes: tuple[int, ...], low: float = -3.0, min_opset: int = 13) -> Case:
    """A case of complex operands of these shapes; complex results are taken apart."""

    def run(*parts: tf.Tensor) -> list[tf.Tensor]:
        half = len(parts) // 2
        numbers = [tf.complex(a, b) for a, b in zip(parts[:half], parts[half:], strict=True)]
        results = tf.nest.flatten(call(*numbers))
        return [
            part
            for item in results
            for part in ((tf.math.real(item), tf.math.imag(item)) if item.dtype.is_complex else (item,))
        ]

    return case(run, *(f32(*shape, low=low) for shape in (*shapes, *shapes)), min_opset=min_opset)


def _part(op: OpBuilder, item: Any, index: int) -> Any:
    if isinstance(item, (list, tuple)):
        return [_part(op, one, index) for one in item]
    return op.Gather(item, index, axis=-1)


def lifted(name: str, places: tuple[int, ...]) -> Callable[..., Any]:
    """The real entry of `name` applied to both parts of the operands at `places`: it is linear, or only moves elements."""
    entry = tensorflow.find(name)
    if entry is None:
        raise MapEntryError(f"{name} has no mapping")

    @wraps(entry.function)
    def lower(op: OpBuilder, *operands: Any, **attributes: Any) -> Any:
        entry.require_opset(op.opset)
        expected = [
            item and Expected(item.dtype, None if item.shape is None else item.shape[:-1]) for item in op.results
        ]
        results = []
        for index in (0, 1):
            parts = [_part(op, item, index) if i in places else item for i, item in enumerate(operands)]
            with op.at(None, expected):
                result = entry.function(op, *parts, **attributes)
            results.append(result if isinstance(result, (list, tuple)) else [result])
        return [complex_numbers.paired(op, first, second) for first, second in zip(*results, strict=True)]

    lower.__doc__ = "The real form, on both parts."
    return lower


_ROWS = np.array([[2], [0]])
# TensorFlow's name, which operands are complex, an example.
_LIFTED: dict[str, tuple[tuple[int, ...], Case]] = {
    "ConcatV2": ((0,), complex_case(lambda z, w: tf.concat([z, w], 1), (2, 3), (2, 1))),
    "Concat": ((1,), complex_case(lambda z, w: tf.raw_ops.Concat(concat_dim=1, values=[z, w]), (2, 3), (2, 1))),
    "Pack": ((0,), complex_case(lambda z, w: tf.stack([z, w], -1), (2, 3), (2, 3))),
    "Unpack": ((0,), complex_case(lambda z: tf.unstack(z, axis=1), (2, 3))),
    "Split": ((1,), complex_case(lambda z: tf.split(z, 2, 1), (2, 4))),
    "SplitV": ((0,), complex_case(lambda z: tf.split(z, [1, 3], 1), (2, 4))),
    "Tile": ((0,), complex_case(lambda z: tf.tile(z, [2, 1]), (2, 3))),
    "Fill": ((1,), complex_case(lambda z: tf.fill([2, 2], z), ())),
    "BroadcastTo": ((0,), complex_case(lambda z: tf.broadcast_to(z, [4, 2, 3]), (2, 3))),
    "Squeeze": ((0,), complex_case(lambda z: tf.squeeze(z, 1), (2, 1, 3))),
    "ZerosLike": ((0,), complex_case(lambda z: z + tf.zeros_like(z), (2, 3))),
    "Pad": ((0,), complex_case(lambda z: tf.pad(z, [[1, 0], [0, 2]]), (2, 3))),
    "PadV2": ((0, 2), complex_case(lambda z: tf.pad(z, [[1, 0], [0, 2]], constant_values=1 + 2j), (2, 3))),
    "MirrorPad": ((0,), complex_case(lambda z: tf.pad(z, [[1, 0], [0, 2]], "REFLECT"), (2, 3))),
    "ReverseV2": ((0,), complex_case(lambda z: tf.reverse(z, [-1]), (2, 3))),
    "ReverseSequence": ((0,), complex_case(lambda z: tf.reverse_sequence(z, [1, 2], seq_axis=1), (2, 3))),
    "StridedSlice": ((0,), complex_case(lambda z: (z[:, ::-1], z[1], z[..., tf.newaxis, 1:]), (2, 3))),
    "Slice": ((0,), complex_case(lambda z: tf.slice(z, [0, 1], [2, 2]), (2, 3))),
    "Roll": ((0,), complex_case(lambda z: tf.roll(z, 1, 1), (2, 3))),
    "GatherV2": ((0,), complex_case(lambda z: tf.gather(z, [2, 0], axis=1), (2, 3))),
    "Gather": ((0,), complex_case(lambda z: tf.raw_ops.Gather(params=z, indices=[1, 0]), (2, 3))),
    "GatherNd": ((0,), complex_case(lambda z: tf.gather_nd(z, [[0, 1], [1, 2]]), (2, 3))),
    "ScatterNd": ((1,), complex_case(lambda z: tf.scatter_nd([[3], [1]], z, [4, 3]), (2, 3), min_opset=16)),
    "TensorScatterUpdate": (
        (0, 2),
        complex_case(lambda z, w: tf.tensor_scatter_nd_update(z, _ROWS, w), (3, 2), (2, 2)),
    ),
    "TensorScatterAdd": (
        (0, 2),
        complex_case(lambda z, w: tf.tensor_scatter_nd_add(z, _ROWS, w), (3, 2), (2, 2), min_opset=16),
    ),
    "TensorScatterSub": (
        (0, 2),
        complex_case(lambda z, w: tf.tensor_scatter_nd_sub(z, _ROWS, w), (3, 2), (2, 2), min_opset=16),
    ),
    "ScatterNdNonAliasingAdd": (
        (0, 2),
        complex_case(
            lambda z, w: tf.raw_ops.ScatterNdNonAliasingAdd(input=z, indices=_ROWS, updates=w),
            (3, 2),
            (2, 2),
            min_opset=16,
        ),
    ),
    "OneHot": ((2, 3), complex_case(lambda z, w: tf.one_hot([0, 2], 3, z, w), (), ())),
    "Select": (
        (1, 2),
        complex_case(lambda z, w: tf.raw_ops.Select(condition=tf.math.real(z) > 0, x=z, y=w), (2, 3), (2, 3)),
    ),
    "SelectV2": ((1, 2), complex_case(lambda z, w: tf.where(tf.math.real(z) > 0, z, w), (2, 3), (3,))),
    "MatrixDiagV3": ((0, 4), complex_case(lambda z: tf.linalg.diag(z, k=1), (2, 3))),
    "MatrixDiagPartV3": ((0, 2), complex_case(lambda z: tf.linalg.diag_part(z, k=(-1, 0)), (2, 3, 3))),
    "MatrixSetDiagV3": ((0, 1), complex_case(lambda z, w: tf.linalg.set_diag(z, w), (2, 3, 3), (2, 3))),
    "MatrixBandPart": ((0,), complex_case(lambda z: tf.linalg.band_part(z, 1, 0), (2, 3, 3))),
    "Diag": ((0,), complex_case(tf.linalg.tensor_diag, (3,))),
    "DiagPart": ((0,), complex_case(tf.linalg.tensor_diag_part, (3, 3))),
    "Sum": ((0,), complex_case(lambda z: (tf.reduce_sum(z, -1), tf.reduce_sum(z, [0], keepdims=True)), (2, 3))),
    "Mean": ((0,), complex_case(lambda z: (tf.reduce_mean(z, 1), tf.math.reduce_std(z, 0)), (2, 3))),
    "Cumsum": ((0,), complex_case(lambda z: tf.cumsum(z, 1, exclusive=True), (2, 3))),
    "AddN": ((0,), complex_case(lambda z, w: tf.add_n([z, w, z]), (2, 3), (2, 3))),
    "SegmentSum": ((0,), complex_case(lambda z: tf.math.segment_sum(z, [0, 0, 2]), (3, 2), min_opset=16)),
    "SegmentMean": ((0,), complex_case(lambda z: tf.math.segment_mean(z, [0, 0, 1]), (3, 2), min_opset=16)),
    "UnsortedSegmentSum": (
        (0,),
        complex_case(lambda z: tf.math.unsorted_segment_sum(z, [2, 0, 2], 4), (3, 2), min_opset=16),
    ),
    "DynamicPartition": ((0,), complex_case(lambda z: tf.dynamic_partition(z, [1, 0, 1], 2), (3, 2))),
    "DynamicStitch": ((1,), complex_case(lambda z: tf.dynamic_stitch([[2, 0], [1]], [z[:2], z[2:]]), (3, 2))),
}
for _name, (_places, _case) in _LIFTED.items():
    tensorflow.lower(_name, accepts_complex=True, cases=[_case])(lifted(_name, _places))


@tensorflow.lower(
    "OnesLike", accepts_complex=True, cases=[complex_case(lambda z: tf.raw_ops.OnesLike(x=z[:1]) + z, (2, 3))]
)
def ones_like(op: OpBuilder, x: ir.Value) -> ir.Value:
    """The pair of 1 and 0."""
    return op.Expand(op.const(np.array([1, 0]), x.dtype), op.shape(x))


@tensorflow.lower(
    "Shape", accepts_complex=True, cases=[case(lambda x: tf.shape(tf.complex(x, x)), f32(2, 3), dynamic=True)]
)
def shape(op: OpBuilder, input: ir.Value, *, out_type: ir.DataType = ir.DataType.INT32) -> ir.Value:
    """The sizes before the parts."""
    return op.cast(op.Slice(op.shape(input), [0], [-1], [0]), out_type)


@tensorflow.lower(
    "Size", accepts_complex=True, cases=[case(lambda x: tf.size(tf.complex(x, x)), f32(2, 3), dynamic=True)]
)
def size(op: OpBuilder, input: ir.Value, *, out_type: ir.DataType = ir.DataType.INT32) -> ir.Value:
    """Half the number of parts."""
    return op.cast(op.Div(op.Size(input), 2), out_type)


# -- comparisons -------------------------------------------------------------------------------------------------------


def _broadcast(op: OpBuilder, x: ir.Value, y: ir.Value) -> tuple[Parts, Parts]:
    return parts_of(op, x), parts_of(op, y)


@tensorflow.lower(
    "Equal",
    accepts_complex=True,
    cases=[complex_case(lambda z, w: tf.equal(tf.where(tf.math.real(z) > 0, z, w), z), (2, 3), (3,))],
)
def equal(op: OpBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    """Both parts equal."""
    (a, b), (c, d) = _broadcast(op, x, y)
    return op.And(op.Equal(a, c), op.Equal(b, d))


@tensorflow.lower(
    "NotEqual",
    accepts_complex=True,
    cases=[complex_case(lambda z, w: tf.not_equal(tf.where(tf.math.real(z) > 0, z, w), z), (2, 3), (3,))],
)
def not_equal(op: OpBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    """One part differs."""
    return op.Not(equal(op, x, y))


# -- arithmetic with a zero --------------------------------------------------------------------------------------------


def _is_zero(op: OpBuilder, parts: Parts) -> ir.Value:
    return op.And(*(op.Equal(part, 0.0) for part in parts))


def _or_zero(op: OpBuilder, zero: ir.Value, z: ir.Value) -> ir.Value:
    return op.Where(op.Unsqueeze(zero, op.axes(-1)), op.const(0.0, z.dtype), z)


def _register_with_zero(
    name: str, decides: int, call: Callable[[Any, Any], Any], meaning: str, *, low: float = -3.0
) -> None:
    """An entry of two operands, one of which `decides` that the result is 0, whatever the other one is."""

    @tensorflow.lower(name, accepts_complex=True, cases=[complex_case(call, (2, 3), (3,), low=low)])
    def lower(op: OpBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
        parts = _broadcast(op, x, y)
        if name == "MulNoNan":
            result = complex_numbers.product(op, *parts, lambda a, b: op.Mul(a, b))
        else:
            result = complex_numbers.division(op, *parts)
        return _or_zero(op, _is_zero(op, parts[decides]), result)

    lower.__doc__ = meaning


def _some_zero(z: Any) -> Any:
    return tf.where(tf.math.real(z) > 0, z, 0)


_register_with_zero(
    "DivNoNan",
    1,
    lambda z, w: tf.math.divide_no_nan(z, _some_zero(w)),
    "Smith's quotient, 0 where the divisor is 0.",
)
_register_with_zero(
    "MulNoNan",
    1,
    lambda z, w: tf.math.multiply_no_nan(z, _some_zero(w)),
    "The product, 0 where the second factor is 0 whatever the first one is.",
)
_register_with_zero(
    "Xdivy",
    0,
    lambda z, w: tf.math.xdivy(_some_zero(z), w),
    "Smith's quotient, 0 where the dividend is 0.",
    low=0.3,
)


@tensorflow.lower(
    "SquaredDifference",
    accepts_complex=True,
    cases=[complex_case(tf.math.squared_difference, (2, 3), (3,))],
)
def squared_difference(op: OpBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    """The difference times its conjugate."""
    (a, b), (c, d) = _broadcast(op, x, y)
    real, imaginary = op.Sub(a, c), op.Sub(b, d)
    return complex_numbers.from_real(op, op.Add(op.Mul(real, real), op.Mul(imaginary, imaginary)))


@tensorflow.lower("Sign", accepts_complex=True, cases=[complex_case(lambda z: tf.raw_ops.Sign(x=z), (2, 3))])
def sign(op: OpBuilder, x: ir.Value) -> ir.Value:
    """The number over its modulus, 0 of 0."""
    length = op.Unsqueeze(modulus(op, x), op.axes(-1))
    zero = op.Equal(length, 0.0)
    return op.Div(x, op.Where(zero, op.const(1.0, x.dtype), length))


# -- products ----------------------------------------------------------------------------------------------------------


def _axes(op: OpBuilder, x: ir.Value, axis: ir.Value) -> list[int]:
    return [item % (rank(x) - 1) for item in static_ints(op, axis, "axis")]


@tensorflow.lower(
    "Prod",
    accepts_complex=True,
    cases=[complex_case(lambda z: (tf.reduce_prod(z, 1), tf.reduce_prod(z, keepdims=True)), (2, 3))],
)
def prod(op: OpBuilder, input: ir.Value, axis: ir.Value, *, keep_dims: bool = False) -> ir.Value:
    """The product of moduli at the sum of angles."""
    axes = _axes(op, input, axis)
    result = functions.whole_product(
        op, parts_of(op, op.cast(input, _DOUBLE)), lambda item: op.reduce("ReduceSum", item, axes, keepdims=keep_dims)
    )
    return op.cast_like(joined(op, *result), input)


@tensorflow.lower(
    "Cumprod",
    accepts_complex=True,
    cases=[
        complex_case(lambda z: (tf.math.cumprod(z, 1), tf.math.cumprod(z, 0, exclusive=True, reverse=True)), (2, 3))
    ],
)
def cumprod(op: OpBuilder, x: ir.Value, axis: ir.Value, *, exclusive: bool = False, reverse: bool = False) -> ir.Value:
    """The product of moduli at the sum of angles."""
    result = functions.whole_product(
        op,
        parts_of(op, op.cast(x, _DOUBLE)),
        lambda item: op.CumSum(item, int64(op, axis), exclusive=int(exclusive), reverse=int(reverse)),
    )
    return op.cast_like(joined(op, *result), x)


@tensorflow.lower(
    "EuclideanNorm", accepts_complex=True, cases=[complex_case(lambda z: tf.math.reduce_euclidean_norm(z, 1), (2, 3))]
)
def euclidean_norm(op: OpBuilder, input: ir.Value, axis: ir.Value, *, keep_dims: bool = False) -> ir.Value:
    """The norm of the parts, as a complex number."""
    length = op.reduce("ReduceL2", input, [-1], keepdims=False)
    return complex_numbers.from_real(
        op, reductions.reduced(op, "ReduceL2", length, _axes(op, input, axis), keepdims=keep_dims)
    )
