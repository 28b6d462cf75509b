"""TensorArrays of TensorFlow 1: the flow, a number in TensorFlow, is the list of elements here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import onnx_ir as ir
import tensorflow as tf

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import built, f32
from onnxport.opset_maps.lowerings.origins import number
from onnxport.opset_maps.maps import tensorflow
from onnxport.opset_maps.to_onnx.tensorflow import tensor_list as lists
from onnxport.opset_maps.to_onnx.tensorflow.operands import int64
from onnxport.opset_maps.to_onnx.tensorflow.values import ArrayHandle, TensorList


def _traced(build: Callable[[Any], Any]) -> Callable[[], Any]:
    return lambda: tf.function(build, autograph=False)


def _array(size: int, **options: Any) -> Any:
    return tf.raw_ops.TensorArrayV3(size=size, dtype=tf.float32, clear_after_read=False, **options)


def _written(x: tf.Tensor) -> Any:
    handle, flow = _array(2, dynamic_size=True)
    for k in range(3):
        flow = tf.raw_ops.TensorArrayWriteV3(handle=handle, index=k, value=x[k] * 2.0, flow_in=flow)
    size = tf.raw_ops.TensorArraySizeV3(handle=handle, flow_in=flow)
    every = tf.raw_ops.TensorArrayGatherV3(handle=handle, indices=tf.range(size), flow_in=flow, dtype=tf.float32)
    return every, size, tf.raw_ops.TensorArrayReadV3(handle=handle, index=1, flow_in=flow, dtype=tf.float32)


def _scattered(x: tf.Tensor) -> Any:
    handle, flow = _array(3, element_shape=[2])
    flow = tf.raw_ops.TensorArrayScatterV3(handle=handle, indices=[2, 0, 1], value=x, flow_in=flow)
    return tf.raw_ops.TensorArrayConcatV3(handle=handle, flow_in=flow, dtype=tf.float32)


_WRITTEN = [built(_traced(_written), f32(3, 2))]
_SCATTERED = [built(_traced(_scattered), f32(3, 2))]


@tensorflow.lower("TensorArrayV3", cases=_WRITTEN)
def tensor_array(
    op: OpBuilder,
    size: ir.Value,
    *,
    dtype: ir.DataType,
    element_shape: tuple[int | None, ...] | None = None,
    dynamic_size: bool = False,
    clear_after_read: bool = True,
    identical_element_shapes: bool = False,
    tensor_array_name: str = "",
) -> tuple[ArrayHandle, TensorList]:
    """Elements that are not set yet."""
    return ArrayHandle(dtype, dynamic_size), TensorList(dtype, element_shape, int64(op, size))


@tensorflow.lower("TensorArrayWriteV3", cases=_WRITTEN)
def write(op: OpBuilder, handle: ArrayHandle, index: ir.Value, value: ir.Value, flow_in: TensorList) -> TensorList:
    """One element set."""
    return lists.tensor_list_set_item(
        op, flow_in, index, value, element_dtype=handle.dtype, resize_if_index_out_of_bounds=handle.grows
    )


@tensorflow.lower("TensorArrayReadV3", cases=_WRITTEN)
def read(op: OpBuilder, handle: ArrayHandle, index: ir.Value, flow_in: TensorList, *, dtype: ir.DataType) -> ir.Value:
    """One element."""
    return op.typed(op.Gather(lists.stacked(op, flow_in), index, axis=0), shape=flow_in.shape)


@tensorflow.lower("TensorArrayGatherV3", cases=_WRITTEN)
def gather(
    op: OpBuilder,
    handle: ArrayHandle,
    indices: ir.Value,
    flow_in: TensorList,
    *,
    dtype: ir.DataType,
    element_shape: tuple[int | None, ...] | None = None,
) -> ir.Value:
    """Some elements, stacked."""
    return op.Gather(lists.stacked(op, flow_in), indices, axis=0)


@tensorflow.lower("TensorArrayScatterV3", cases=_SCATTERED)
def scatter(op: OpBuilder, handle: ArrayHandle, indices: ir.Value, value: ir.Value, flow_in: TensorList) -> TensorList:
    """Some elements set; all of an array in their order are the slices of the value."""
    places, count = op.constant(indices), value.shape[0] if value.shape is not None else None
    whole = places is not None and list(places) == list(range(places.size)) and places.size == count
    if whole and flow_in.variable is None and flow_in.write is None and number(op, flow_in.size) == count:
        return lists.tensor_list_from_tensor(op, value, indices, element_dtype=handle.dtype)
    return lists.tensor_list_scatter_into(op, flow_in, value, indices, element_dtype=handle.dtype)


@tensorflow.lower("TensorArraySizeV3", cases=_WRITTEN)
def size(op: OpBuilder, handle: ArrayHandle, flow_in: TensorList) -> ir.Value:
    """The number of elements."""
    return lists.tensor_list_length(op, flow_in)


@tensorflow.lower("TensorArrayConcatV3", cases=_SCATTERED)
def concat(
    op: OpBuilder,
    handle: ArrayHandle,
    flow_in: TensorList,
    *,
    dtype: ir.DataType,
    element_shape_except0: tuple[int | None, ...] | None = None,
) -> Sequence[ir.Value]:
    """The elements one behind the other along their first axis, and their sizes along it."""
    stack = lists.stacked(op, flow_in)
    rest = lists.shape_behind(op, stack, 2)
    return op.Reshape(stack, op.Concat([-1], rest, axis=0)), op.Expand(op.dim(stack, 1), op.dim(stack, 0))
