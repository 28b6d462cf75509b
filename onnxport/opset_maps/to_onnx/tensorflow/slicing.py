"""Slices: StridedSlice with its masks, Slice and Roll."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypedDict, Unpack

import numpy as np
import onnx_ir as ir
import tensorflow as tf
from tensorflow.compiler.tf2xla.python.xla import dynamic_update_slice

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import case, f32, i32
from onnxport.opset_maps.lowerings.axes import rolled
from onnxport.opset_maps.maps import tensorflow
from onnxport.opset_maps.to_onnx.tensorflow.operands import elements, int64, rank, static_int, static_ints

_LAST, _FIRST = np.iinfo(np.int64).max, np.iinfo(np.int64).min


@dataclass
class _Plan:
    """A StridedSlice spelled per axis of the operand.

    Attributes:
        slices: per sliced axis its entry's position in begin, end and strides.
        shrunk: per dropped axis its entry's position.
        new_axes: where the result has new axes.
    """

    slices: dict[int, int] = field(default_factory=dict)
    shrunk: dict[int, int] = field(default_factory=dict)
    new_axes: list[int] = field(default_factory=list)


def _plan(n: int, count: int, ellipsis_mask: int, new_axis_mask: int, shrink_axis_mask: int) -> _Plan:
    """What `count` entries with these masks mean for an operand of rank `n` (tf.strided_slice).

    An ellipsis outranks a new axis, which outranks a dropped one; without an ellipsis one stands at the end.
    """
    plan = _Plan()
    ellipsis = next((i for i in range(count) if ellipsis_mask >> i & 1), count)
    used = sum(not (new_axis_mask >> i & 1) for i in range(count) if i != ellipsis)
    axis = position = 0
    for i in range(count):
        if i == ellipsis:
            axis += n - used
            position += n - used
        elif new_axis_mask >> i & 1:
            plan.new_axes.append(position)
            position += 1
        elif shrink_axis_mask >> i & 1:
            plan.shrunk[axis] = i
            axis += 1
        else:
            plan.slices[axis] = i
            axis += 1
            position += 1
    return plan


class Masks(TypedDict, total=False):
    """What the bits of StridedSlice's masks say of each range: it is open, an ellipsis, a new axis, a single element."""

    begin_mask: int
    end_mask: int
    ellipsis_mask: int
    new_axis_mask: int
    shrink_axis_mask: int


@tensorflow.lower(
    "StridedSlice",
    cases=[
        case(lambda x: x[:, 1:3], f32(4, 5), dynamic=True),
        case(lambda x: x[::2, ::-1], f32(4, 5), dynamic=True),
        case(lambda x: x[..., -1], f32(4, 5, 6), dynamic=True),
        case(lambda x: x[1, tf.newaxis, ..., 2:-1, tf.newaxis], f32(4, 5, 6, 7)),
        case(lambda x: x[-2:0:-1, 4:1:-2], f32(5, 6)),
        case(lambda x: x[:, tf.newaxis, -1, :2], f32(4, 5, 6), dynamic=True),
        case(lambda x: x[tf.newaxis, ..., tf.newaxis], f32(4, 5)),
        case(lambda x, i: x[i[0] : i[1], i[2]], f32(4, 5), np.array([1, 3, -1], np.int32)),
        case(lambda x, i: x[: i[0], i[1] :: -1], f32(4, 5), np.array([3, 2], np.int32)),
        case(lambda x: x[-100:100, 3:1], f32(4, 5)),
    ],
)
def strided_slice(
    op: OpBuilder,
    input: ir.Value,
    begin: ir.Value,
    end: ir.Value,
    strides: ir.Value,
    **masks: Unpack[Masks],
) -> ir.Value:
    """ONNX Slice for the ranges, Gather for the single elements, Unsqueeze for the new axes."""
    begin_mask, end_mask = masks.get("begin_mask", 0), masks.get("end_mask", 0)
    ellipsis_mask, new_axis_mask = masks.get("ellipsis_mask", 0), masks.get("new_axis_mask", 0)
    shrink_axis_mask = masks.get("shrink_axis_mask", 0)
    count = begin.shape[0] if begin.shape is not None else None
    if not isinstance(count, int):
        raise UnsupportedOperator("StridedSlice: how many axes it slices is only known when the model runs")
    if rank(input) == 1 and not (ellipsis_mask or new_axis_mask):
        result = _known_part(op, input, begin, end, strides, begin_mask, end_mask, shrink_axis_mask)
        if result is not None:
            return op.const(result, input.dtype)
    plan = _plan(rank(input), count, ellipsis_mask, new_axis_mask, shrink_axis_mask)
    steps = static_ints(op, strides, "StridedSlice: strides")
    starts, ends, axes, used = [], [], [], []
    for axis, i in plan.slices.items():
        start = (_LAST if steps[i] < 0 else 0) if begin_mask >> i & 1 else _element(op, begin, i)
        stop = (_FIRST if steps[i] < 0 else _LAST) if end_mask >> i & 1 else _element(op, end, i)
        if not (start == 0 and steps[i] == 1 and stop == _LAST):
            starts.append(start)
            ends.append(stop)
            axes.append(axis)
            used.append(steps[i])
    x = op.Slice(input, op.shape_vector(starts), op.shape_vector(ends), axes, used) if axes else input
    for axis, i in sorted(plan.shrunk.items(), reverse=True):
        index = _element(op, begin, i)
        x = op.Gather(x, op.const(index) if isinstance(index, int) else op.Squeeze(index, [0]), axis=axis)
    return op.Unsqueeze(x, op.axes(*plan.new_axes)) if plan.new_axes else x


def _known_part(
    op: OpBuilder,
    x: ir.Value,
    begin: ir.Value,
    end: ir.Value,
    strides: ir.Value,
    begin_mask: int,
    end_mask: int,
    shrink: int,
) -> np.ndarray | None:
    """The sliced elements of an integer vector, such as a shape, where just these are known."""
    known, bounds = elements(op, x), [op.constant(item) for item in (begin, end, strides)]
    if known is None or any(item is None for item in bounds):
        return None
    first, last, step = (int(item.ravel()[0]) for item in bounds if item is not None)
    part = [known[first]] if shrink else known[None if begin_mask else first : None if end_mask else last : step]
    if any(item is None for item in part):
        return None
    return np.asarray(part[0] if shrink else part, np.int64)


def _element(op: OpBuilder, vector: ir.Value, i: int) -> int | ir.Value:
    """An element of an integer vector: a Python int where it is constant, else an INT64 vector of one."""
    result = op.constant(vector)
    if result is not None:
        return int(result[i])
    producer = vector.producer()
    if producer is not None and producer.op_type == "Concat" and len(producer.inputs) == _length(vector):
        part = producer.inputs[i]  # a stack of scalars: one of them may be constant though not all are
        if part is not None:
            known = op.constant(part)
            return int(known.ravel()[0]) if known is not None else int64(op, part)
    return op.Slice(int64(op, vector), [i], [i + 1])


def _length(vector: ir.Value) -> int:
    size = vector.shape[0] if vector.shape is not None else None
    return size if isinstance(size, int) else -1


@tensorflow.lower(
    "Slice",
    cases=[
        case(lambda x: tf.slice(x, [0, 1], [-1, 2]), f32(4, 5), dynamic=True),
        case(lambda x, i: tf.slice(x, i, [2, -1]), f32(4, 5), np.array([1, 2], np.int32)),
        case(lambda x, i: tf.slice(x, [1, 0], i), f32(4, 5), np.array([-1, 3], np.int32)),
    ],
)
def slice_(op: OpBuilder, input: ir.Value, begin: ir.Value, size: ir.Value) -> ir.Value:
    """ONNX Slice from begin over size elements, -1 meaning the rest."""
    starts, sizes = int64(op, begin), int64(op, size)
    lengths = op.constant(sizes)
    if lengths is not None and (lengths == -1).all():
        ends = op.const(np.full(len(lengths), _LAST))
    else:
        ends = op.Where(op.Equal(sizes, -1), op.const(_LAST), op.Add(starts, sizes))
    return op.Slice(input, starts, ends)


@tensorflow.lower(
    "Roll",
    cases=[
        case(lambda x: tf.roll(x, shift=2, axis=1), f32(4, 5), dynamic=True),
        case(lambda x: tf.roll(x, shift=[-1, 7], axis=[0, 1]), f32(4, 5)),
        case(lambda x: tf.roll(x, shift=-3, axis=0), i32(5, 2), dynamic=True),
        case(lambda x: tf.roll(x, tf.shape(x)[0] // 2, 0), f32(4, 5), dynamic=True),
        case(lambda x, n: tf.roll(x, n, [0, 1]), f32(4, 5), np.array([-3, 7], np.int32)),
    ],
)
def roll(op: OpBuilder, input: ir.Value, shift: ir.Value, axis: ir.Value) -> ir.Value:
    """The end of each axis moved to its front."""
    x, axes, known = input, static_ints(op, axis, "Roll: axis"), op.constant(shift)
    vector = op.Reshape(op.cast(shift, ir.DataType.INT64), [-1])
    for i, at in enumerate(axes):
        step = op.Slice(vector, [i], [i + 1], [0]) if known is None else int(np.ravel(known)[i])
        x = rolled(op, x, step, at % rank(x))
    return x


@tensorflow.lower(
    "ConcatOffset",
    cases=[
        case(
            lambda x, y: tf.raw_ops.ConcatOffset(concat_dim=-1, shape=[tf.shape(x), tf.shape(y), tf.shape(x)]),
            f32(2, 3),
            f32(2, 5),
        )
    ],
)
def concat_offset(op: OpBuilder, concat_dim: ir.Value, shape: list[ir.Value]) -> list[ir.Value]:
    """Where each of some tensors begins in them all, one behind the other."""
    axis = static_int(op, concat_dim, "concat_dim")
    begin = op.const(np.zeros(1, np.int64))
    result = []
    for sizes in shape:
        count = sizes.shape[0] if sizes.shape is not None else None
        if not isinstance(count, int):
            raise UnsupportedOperator("ConcatOffset: the rank of the tensors is only known when the model runs")
        at = np.arange(count) == axis % count
        result.append(op.cast_like(op.Where(op.const(at), begin, 0), sizes))
        begin = op.Add(begin, op.Gather(int64(op, sizes), [axis % count]))
    return result


def _updating(start: list[int]) -> Callable[[Any, Any], Any]:
    return lambda x, y: dynamic_update_slice(x, y, start)


@tensorflow.lower(
    "XlaDynamicUpdateSlice",
    cases=[
        case(_updating([1, 2]), f32(4, 5), f32(2, 3), dynamic=False),
        case(_updating([3, -1]), f32(4, 5), f32(2, 3)),
        case(
            lambda x, y, i: dynamic_update_slice(x, y, i),
            i32(2, 4, 3),
            i32(2, 1, 3),
            np.array([0, 2, 0], np.int32),
        ),
    ],
)
def updated_slice(op: OpBuilder, input: ir.Value, update: ir.Value, indices: ir.Value) -> ir.Value:
    """A block written into a tensor; it starts no further out than that it fits."""
    shape, block, axes = op.shape(input), op.shape(update), list(range(rank(input)))
    start = op.node("Max", op.node("Min", int64(op, indices), op.Sub(shape, block)), op.const(0))
    places = op.Reshape(op.Range(0, op.Size(input), 1), shape)
    inside = op.Slice(places, start, op.Add(start, block), axes) if axes else places
    flat = op.ScatterElements(op.Reshape(input, [-1]), op.Reshape(inside, [-1]), op.Reshape(update, [-1]), axis=0)
    return op.Reshape(flat, shape)
