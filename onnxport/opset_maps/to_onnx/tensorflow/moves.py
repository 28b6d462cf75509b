"""Operators that only move elements: TensorFlow itself moves the elements' numbers, and the graph gathers by these."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import onnx_ir as ir
import tensorflow as tf

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import Array, Case, case, f32, i32, i64
from onnxport.opset_maps.lowerings.axes import windowed
from onnxport.opset_maps.maps import tensorflow
from onnxport.opset_maps.to_onnx.tensorflow import blocks, linalg
from onnxport.opset_maps.to_onnx.tensorflow.operands import rank, static_ints

# Gives where the elements come from, of tensors that hold their own numbers from 1 on; 0 stands for the padding.
Move = Callable[..., Any]


def _static(x: ir.Value, lead: int, what: str) -> list[int]:
    """The sizes of the axes from `lead` on."""
    sizes = [item for item in list(x.shape or ())[lead:] if isinstance(item, int)]
    if x.shape is None or len(sizes) != x.shape.rank() - lead:
        raise UnsupportedOperator(f"{what} of a dynamic size")
    return sizes


def moved(op: OpBuilder, operands: Sequence[ir.Value], leads: Sequence[int], move: Move, fill: Any = None) -> ir.Value:
    """The elements of the operands, and the padding, where `move` puts them; the leading axes stay.

    Args:
        op: the builder.
        operands: tensors of one type and equal leading axes.
        leads: how many axes of each operand lead.
        move: TensorFlow's operator, on tensors of numbers without the leading axes.
        fill: the padding, a scalar; zero where it is left out.

    Raises:
        UnsupportedOperator: an axis behind the leading ones is dynamic.
    """
    numbers, flat, count = [], [], 1
    for x, lead in zip(operands, leads, strict=True):
        sizes = _static(x, lead, "moving elements")
        length = int(np.prod(sizes, dtype=np.int64))
        numbers.append(tf.constant(np.arange(count, count + length).reshape(sizes), tf.int32))
        flat.append(op.Reshape(x, [*[0] * lead, length]))
        count += length
    table = np.asarray(move(*numbers)).astype(np.int64)
    lead = leads[0]
    if not table.all():
        zero = fill if isinstance(fill, ir.Value) else op.const(0 if fill is None else fill, operands[0].dtype)
        once = op.Concat(*[op.dim(operands[0], i) for i in range(lead)], [1], axis=0) if lead else op.const([1])
        flat.insert(0, op.Expand(zero, once))
    else:
        table = table - 1
    return op.Gather(flat[0] if len(flat) == 1 else op.Concat(*flat, axis=lead), op.const(table), axis=lead)


_ALIGNED = ("RIGHT_LEFT", "LEFT_RIGHT", "LEFT_LEFT", "RIGHT_RIGHT")


def _diagonals(op: OpBuilder, k: ir.Value) -> int | tuple[int, int]:
    """The diagonal, or the first and the last one, as functions of `tf.linalg` take them."""
    low, *_, high = static_ints(op, k, "k") * 2
    return low if low == high else (low, high)


def _aligned_cases(call: Callable[..., Any], *drawn: Array) -> list[Case]:
    return [case(partial(call, align=align), *drawn, name=align) for align in _ALIGNED]


@tensorflow.lower(
    "MatrixDiagPartV2 MatrixDiagPartV3",
    cases=[
        case(lambda x: tf.linalg.diag_part(x), f32(2, 3, 4), dynamic=True),
        case(lambda x: tf.linalg.diag_part(x, k=1), f32(2, 3, 4), dynamic=True),
        *_aligned_cases(lambda x, align: tf.linalg.diag_part(x, k=(-2, 1), padding_value=7, align=align), f32(2, 4, 5)),
    ],
)
def matrix_diag_part(
    op: OpBuilder, input: ir.Value, k: ir.Value, padding_value: ir.Value, *, align: str = "LEFT_LEFT"
) -> ir.Value:
    """The diagonals from k[0] to k[1], of one length by padding."""
    bounds = _diagonals(op, k)
    if bounds == 0:
        return linalg.matrix_diag_part(op, input)
    lead = rank(input) - 2
    return moved(op, [input], [lead], lambda x: tf.linalg.diag_part(x, k=bounds, align=align), padding_value)


@tensorflow.lower(
    "MatrixDiagV2 MatrixDiagV3",
    cases=[
        case(lambda x: tf.linalg.diag(x), f32(2, 3), dynamic=True),
        case(lambda x: tf.linalg.diag(x, k=1), f32(2, 3), dynamic=True),
        case(lambda x: tf.linalg.diag(x, num_rows=3, num_cols=5, padding_value=9), i32(2, 3)),
        *_aligned_cases(lambda x, align: tf.linalg.diag(x, k=(-1, 1), align=align), f32(2, 3, 4)),
    ],
)
def matrix_diag(
    op: OpBuilder,
    diagonal: ir.Value,
    k: ir.Value,
    num_rows: ir.Value,
    num_cols: ir.Value,
    padding_value: ir.Value,
    *,
    align: str = "LEFT_LEFT",
) -> ir.Value:
    """A matrix of the diagonals from k[0] to k[1], of padding elsewhere."""
    bounds = _diagonals(op, k)
    rows, columns = (static_ints(op, item, "size")[0] for item in (num_rows, num_cols))
    padding = op.constant(padding_value)
    if bounds == 0 and rows == columns == -1 and padding is not None and not padding.any():
        return linalg.matrix_diag(op, diagonal)

    def move(x: Any) -> Any:
        return tf.linalg.diag(x, k=bounds, num_rows=rows, num_cols=columns, align=align)

    return moved(op, [diagonal], [rank(diagonal) - (1 if isinstance(bounds, int) else 2)], move, padding_value)


@tensorflow.lower(
    "MatrixSetDiagV2 MatrixSetDiagV3",
    cases=[
        case(lambda x, y: tf.linalg.set_diag(x, y), f32(2, 3, 4), f32(2, 3), dynamic=True),
        case(lambda x, y: tf.linalg.set_diag(x, y, k=-1), f32(2, 3, 4), f32(2, 2)),
        *_aligned_cases(
            lambda x, y, align: tf.linalg.set_diag(x, y, k=(-1, 1), align=align), f32(2, 4, 5), f32(2, 3, 4)
        ),
    ],
)
def matrix_set_diag(
    op: OpBuilder, input: ir.Value, diagonal: ir.Value, k: ir.Value, *, align: str = "LEFT_LEFT"
) -> ir.Value:
    """The diagonals from k[0] to k[1] replaced."""
    bounds = _diagonals(op, k)
    if bounds == 0:
        return linalg.matrix_set_diag(op, input, diagonal)
    leads = [rank(input) - 2] * 2
    return moved(op, [input, diagonal], leads, lambda x, y: tf.linalg.set_diag(x, y, k=bounds, align=align))


@tensorflow.lower("DiagPart", cases=[case(lambda x: tf.linalg.tensor_diag_part(x), f32(2, 3, 2, 3))])
def diag_part(op: OpBuilder, input: ir.Value) -> ir.Value:
    """The elements whose first and second half of indices are equal."""
    return moved(op, [input], [0], lambda x: tf.raw_ops.DiagPart(input=x))


@tensorflow.lower("Diag", cases=[case(lambda x: tf.linalg.tensor_diag(x), shape) for shape in (f32(3), f32(2, 3))])
def diag(op: OpBuilder, diagonal: ir.Value) -> ir.Value:
    """A tensor on the diagonal of one of twice its rank."""
    if rank(diagonal) == 1:
        return linalg.matrix_diag(op, diagonal)
    return moved(op, [diagonal], [0], lambda x: tf.raw_ops.Diag(diagonal=x))


def _patch_cases(operator: str, *shape: int) -> list[Case]:
    call, spatial = getattr(tf.raw_ops, operator), len(shape) - 2
    image = "images" if spatial == 2 else "input"

    def patches(x: Any, stride: int, padding: str, **rest: Any) -> Any:
        return call(
            **{image: x}, ksizes=[1, *[2] * spatial, 1], strides=[1, *[stride] * spatial, 1], padding=padding, **rest
        )

    rest: dict[str, Any] = {"rates": [1, 1, 1, 1]} if spatial == 2 else {}
    return [
        case(lambda x: patches(x, 2, "SAME", **rest), f32(*shape), dynamic=True),
        case(lambda x: patches(x, 1, "VALID", **rest), f32(*shape)),
    ]


def _dynamic_patches(
    op: OpBuilder, x: ir.Value, *, ksizes: list[int], strides: list[int], rates: list[int], padding: str
) -> ir.Value:
    """Windows of images whose sizes the run tells."""
    if padding == "SAME":  # (TensorFlow, tf.nn, "Notes on padding"): as many windows as steps go into the size
        sizes, step = op.Slice(op.shape(x), [1], [3], [0]), np.asarray(strides[1:3])
        reach = (np.asarray(ksizes[1:3]) - 1) * rates[1:3] + 1
        last = op.Mul(op.Div(op.Sub(sizes, 1), step), step)
        missing = op.Max(op.Sub(op.Add(last, reach), sizes), [0])
        before, none = op.Div(missing, [2]), op.const([0])
        x = op.Pad(x, op.Concat(none, before, none, none, op.Sub(missing, before), none, axis=0), op.const(0, x.dtype))
    for axis in (2, 1):
        x = windowed(op, x, axis, ksizes[axis], strides[axis], rates[axis])
    x = op.Transpose(x, perm=[0, 1, 3, 2, 4, 5])
    return op.Reshape(x, op.shape_vector([0, 0, 0, op.Mul(op.dim(x, 5), ksizes[1] * ksizes[2])]))


def _patches(op: OpBuilder, x: ir.Value, call: Callable[..., Any]) -> ir.Value:
    """Windows of places of each image or volume, then of all channels at each place."""
    spatial = rank(x) - 2
    sizes = _static(x, 1, "patches of images")
    whole = op.Reshape(x, [0, int(np.prod(sizes[:-1])), sizes[-1]])
    channel = np.arange(1, np.prod(sizes[:-1]) + 1).reshape(1, *sizes[:-1], 1)
    table = np.asarray(call(tf.constant(channel, tf.int32)))[0].astype(np.int64)
    padded = op.Pad(whole, [0, 1, 0, 0, 0, 0], op.const(0, x.dtype))
    picked = op.Gather(padded, op.const(table), axis=1)
    return op.Reshape(picked, [*[0] * (spatial + 1), table.shape[-1] * sizes[-1]])


@tensorflow.lower(
    "ExtractImagePatches",
    cases=[
        *_patch_cases("ExtractImagePatches", 2, 5, 6, 3),
        case(lambda x: tf.image.extract_patches(x, [1, 3, 2, 1], [1, 1, 2, 1], [1, 2, 1, 1], "SAME"), f32(2, 7, 6, 2)),
    ],
)
def extract_image_patches(
    op: OpBuilder, images: ir.Value, *, ksizes: list[int], strides: list[int], rates: list[int], padding: str
) -> ir.Value:
    """The pixels of each window one after the other, zeros beyond the image."""
    given = {"ksizes": ksizes, "strides": strides, "rates": rates, "padding": padding}
    if rank(images) == 4 and not all(isinstance(size, int) for size in list(images.shape or ())[1:3]):
        return _dynamic_patches(op, images, ksizes=ksizes, strides=strides, rates=rates, padding=padding)
    return _patches(op, images, lambda x: tf.raw_ops.ExtractImagePatches(images=x, **given))


@tensorflow.lower("ExtractVolumePatches", cases=_patch_cases("ExtractVolumePatches", 2, 4, 5, 3, 2))
def extract_volume_patches(
    op: OpBuilder, input: ir.Value, *, ksizes: list[int], strides: list[int], padding: str
) -> ir.Value:
    """The voxels of each window one after the other, zeros beyond the volume.

    Of volumes whose sizes vary TensorFlow's shape inference gives a rank too few.
    """
    given = {"ksizes": ksizes, "strides": strides, "padding": padding}
    return _patches(op, input, lambda x: tf.raw_ops.ExtractVolumePatches(input=x, **given))


@tensorflow.lower(
    "DataFormatVecPermute",
    cases=[
        case(lambda x: tf.raw_ops.DataFormatVecPermute(x=x), i32(4)),
        case(lambda x: tf.raw_ops.DataFormatVecPermute(x=x, src_format="NCHW", dst_format="NHWC"), i64(4, 2)),
    ],
)
def data_format_vec_permute(
    op: OpBuilder, x: ir.Value, *, src_format: str = "NHWC", dst_format: str = "NCHW"
) -> ir.Value:
    """The entries of axes in the other order."""
    formats = {"src_format": src_format, "dst_format": dst_format}
    return moved(op, [x], [0], lambda item: tf.raw_ops.DataFormatVecPermute(x=item, **formats))


@tensorflow.lower(
    "DataFormatDimMap",
    cases=[case(lambda x: tf.raw_ops.DataFormatDimMap(x=x), np.array([0, 1, 2, 3, -1, -4], np.int32))],
)
def data_format_dim_map(op: OpBuilder, x: ir.Value, *, src_format: str = "NHWC", dst_format: str = "NCHW") -> ir.Value:
    """The number of each axis in the other order, from a table of all of them."""
    count = len(src_format)
    axes = np.asarray(
        tf.raw_ops.DataFormatDimMap(x=np.arange(count, dtype=np.int32), src_format=src_format, dst_format=dst_format)
    )
    return op.cast_like(op.Gather(op.const(axes.astype(np.int64)), op.Mod(x, op.const(count, x.dtype))), x)


@tensorflow.lower(
    "SpaceToBatch",
    cases=[
        case(
            lambda x: tf.raw_ops.SpaceToBatch(input=x, paddings=[[1, 1], [0, 0]], block_size=2),
            f32(2, 4, 6, 3),
            dynamic=True,
        )
    ],
)
def space_to_batch(op: OpBuilder, input: ir.Value, paddings: ir.Value, *, block_size: int) -> ir.Value:
    """SpaceToBatchND of two axes."""
    return blocks.space_to_batch(op, input, op.const([block_size] * 2), paddings)


@tensorflow.lower(
    "BatchToSpace",
    cases=[
        case(lambda x: tf.raw_ops.BatchToSpace(input=x, crops=[[1, 0], [0, 1]], block_size=2), f32(8, 4, 3, 2)),
    ],
)
def batch_to_space(op: OpBuilder, input: ir.Value, crops: ir.Value, *, block_size: int) -> ir.Value:
    """BatchToSpaceND of two axes."""
    return blocks.batch_to_space(op, input, op.const([block_size] * 2), crops)
