"""Tensor lists, as TensorArray, map_fn and recurrent layers use them: elements stacked along axis 0."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import onnx_ir as ir
import tensorflow as tf

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import case, f32
from onnxport.opset_maps.lowerings.axes import size
from onnxport.opset_maps.lowerings.origins import number
from onnxport.opset_maps.maps import tensorflow
from onnxport.opset_maps.to_onnx.tensorflow.operands import int64, static_ints
from onnxport.opset_maps.to_onnx.tensorflow.values import NeedsState, TensorList, Write


def stacked(op: OpBuilder, items: TensorList) -> ir.Value:
    """The elements along axis 0; zeros where none was set, as TensorFlow has it."""
    if items.stack is not None:
        return items.stack
    if items.shape is None:
        raise UnsupportedOperator(
            "a list that is never written to and whose elements have no known shape has no ONNX form"
        )
    return blank(op, items)


def blank(op: OpBuilder, items: TensorList) -> ir.Value:
    """Zeros in place of the elements, with size 0 along the axes that are not known."""
    sizes = [dim if isinstance(dim, int) else 0 for dim in items.shape or ()]
    return op.Expand(
        zero(op, items.dtype), op.Concat(op.Reshape(items.size, [1]), op.const(np.asarray(sizes, np.int64)), axis=0)
    )


def zero(op: OpBuilder, dtype: ir.DataType) -> ir.Value:
    """What an element that was never set is: 0, False or the empty string."""
    return op.const(np.asarray("", object)) if dtype == ir.DataType.STRING else op.const(0, dtype)


def shape_behind(op: OpBuilder, x: ir.Value, first: int = 1) -> ir.Value:
    """The sizes of the axes of `x` from `first` on."""
    return op.Slice(op.shape(x), [first], [np.iinfo(np.int64).max])


def _static_shape(x: ir.Value) -> tuple[int | None, ...] | None:
    return tuple(dim if isinstance(dim, int) else None for dim in x.shape) if x.shape is not None else None


def _slice_shape(x: ir.Value) -> tuple[int | None, ...] | None:
    """What is known of the shape of a slice along axis 0."""
    shape = _static_shape(x)
    return shape[1:] if shape is not None else None


def element_shape(op: OpBuilder, x: ir.Value) -> tuple[int | None, ...] | None:
    """A static shape from an operand that holds it, -1 for unknown sizes, a scalar -1 for an unknown rank."""
    result = op.constant(x)
    if result is None:
        size = x.shape[0] if x.shape is not None and x.shape.rank() == 1 else None
        return (None,) * size if isinstance(size, int) else None
    return None if result.ndim == 0 else tuple(None if dim < 0 else int(dim) for dim in result)


def merged_shape(items: TensorList, item: ir.Value) -> tuple[int | None, ...] | None:
    """What is known of the elements' shape once `item` is one of them."""
    result = _static_shape(item)
    if result is None:
        return items.shape
    if items.shape is None or len(items.shape) != len(result):
        return result
    return tuple(a if a is not None else b for a, b in zip(items.shape, result, strict=True))


def _grown(op: OpBuilder, items: TensorList, item: ir.Value) -> ir.Value:
    """The stack that `item` can be written to, blank elements brought to the item's shape."""
    shape = op.Concat(op.Reshape(items.size, [1]), op.shape(item), axis=0)
    if items.stack is None:
        return op.Expand(zero(op, items.dtype), shape)
    if not items.blank:
        return items.stack
    stack = items.stack
    return op.If(
        op.Equal(op.Size(stack), 0),
        then_branch=op.body(lambda b: [b.Expand(zero(b, items.dtype), shape)]),
        else_branch=op.body(lambda b: [stack]),
    )


@tensorflow.lower("EmptyTensorList", cases=[case(lambda x: tf.map_fn(lambda r: r * 2.0, x), f32(3, 2))])
def empty_tensor_list(
    op: OpBuilder, element_shape_: ir.Value, max_num_elements: ir.Value, *, element_dtype: ir.DataType | None
) -> TensorList:
    """No elements."""
    if element_dtype is None:
        raise UnsupportedOperator("EmptyTensorList: lists of lists or resources have no ONNX form")
    return TensorList(element_dtype, element_shape(op, element_shape_), op.const(np.asarray(0, np.int64)))


def _array(x: tf.Tensor) -> tf.Tensor:
    array = tf.TensorArray(tf.float32, size=3, element_shape=[2])
    return array.write(2, x[0]).write(0, x[1]).stack()


@tensorflow.lower("TensorListReserve", cases=[case(_array, f32(3, 2))])
def tensor_list_reserve(
    op: OpBuilder, element_shape_: ir.Value, num_elements: ir.Value, *, element_dtype: ir.DataType | None
) -> TensorList:
    """Elements that are not set yet."""
    if element_dtype is None:
        raise UnsupportedOperator("TensorListReserve: lists of lists or resources have no ONNX form")
    return TensorList(element_dtype, element_shape(op, element_shape_), int64(op, num_elements))


def _unstacked(x: tf.Tensor) -> tf.Tensor:
    array = tf.TensorArray(tf.float32, size=3).unstack(x)
    return array.read(1) + array.read(tf.cast(array.size(), tf.int32) - 1)


@tensorflow.lower("TensorListFromTensor", cases=[case(_unstacked, f32(3, 2))])
def tensor_list_from_tensor(
    op: OpBuilder, tensor: ir.Value, element_shape_: ir.Value, *, element_dtype: ir.DataType
) -> TensorList:
    """The slices along axis 0."""
    return TensorList(element_dtype, _slice_shape(tensor), size(op, tensor, 0), tensor)


@tensorflow.lower("TensorListStack", cases=[case(_array, f32(3, 2))])
def tensor_list_stack(
    op: OpBuilder,
    input_handle: TensorList,
    element_shape_: ir.Value,
    *,
    element_dtype: ir.DataType,
    num_elements: int = -1,
) -> ir.Value:
    """The stack."""
    if input_handle.stack is None and input_handle.shape is None:
        return stacked(op, replace(input_handle, shape=element_shape(op, element_shape_)))
    return stacked(op, input_handle)


@tensorflow.lower(
    "TensorListGetItem",
    "TensorListGather",
    cases=[
        case(_unstacked, f32(3, 2)),
        case(lambda x: tf.TensorArray(tf.float32, 3).unstack(x).gather([2, 0]), f32(3, 2)),
    ],
)
def tensor_list_get_item(
    op: OpBuilder, input_handle: TensorList, index: ir.Value, element_shape_: ir.Value, *, element_dtype: ir.DataType
) -> ir.Value:
    """One slice of the stack, or several."""
    return op.Gather(stacked(op, input_handle), index, axis=0)


@tensorflow.lower("TensorListSetItem", cases=[case(_array, f32(3, 2))])
def tensor_list_set_item(
    op: OpBuilder,
    input_handle: TensorList,
    index: ir.Value,
    item: ir.Value,
    *,
    element_dtype: ir.DataType,
    resize_if_index_out_of_bounds: bool = False,
) -> TensorList:
    """The stack with one slice replaced; of a loop variable only the note of it."""
    items = replace(input_handle, shape=merged_shape(input_handle, item))
    if items.variable is not None:
        items.variable.element = items.shape
        if resize_if_index_out_of_bounds:
            raise NeedsState(items.variable)
        return replace(items, variable=None, write=Write(items.variable, index, item))
    if resize_if_index_out_of_bounds:
        needed = op.Add(int64(op, index), 1)
        size = op.Max(items.size, needed)
        items = replace(_resized(op, replace(items, tensor=_grown(op, items, item), blank=False), size), size=size)
    if number(op, items.size) == 1 and op.constant(index) is not None:
        return replace(items, tensor=op.Unsqueeze(item, [0]), blank=False)
    at = op.Reshape(int64(op, index), [1, 1])
    return replace(items, tensor=op.ScatterND(_grown(op, items, item), at, op.Unsqueeze(item, [0])), blank=False)


def _resized(op: OpBuilder, items: TensorList, size: ir.Value) -> TensorList:
    """The list with as many elements, new ones zero."""
    stack = items.stack
    if stack is None:
        return replace(items, size=size)
    rest = shape_behind(op, stack)
    missing = op.Max(op.Sub(op.Reshape(size, [1]), op.dim(stack, 0)), 0)
    more = op.Expand(zero(op, items.dtype), op.Concat(missing, rest, axis=0))
    longer = op.Concat(stack, more, axis=0)
    return replace(items, size=size, tensor=op.Slice(longer, [0], op.Reshape(size, [1]), [0]))


def _pushed(x: tf.Tensor) -> tf.Tensor:
    items = tf.raw_ops.EmptyTensorList(element_shape=[2], max_num_elements=-1, element_dtype=tf.float32)
    for i in range(3):
        items = tf.raw_ops.TensorListPushBack(input_handle=items, tensor=x[i])
    items, last = tf.raw_ops.TensorListPopBack(input_handle=items, element_shape=[2], element_dtype=tf.float32)
    stack = tf.raw_ops.TensorListStack(input_handle=items, element_shape=[2], element_dtype=tf.float32, num_elements=-1)
    return stack + last


@tensorflow.lower("TensorListPushBack", cases=[case(_pushed, f32(3, 2))])
def tensor_list_push_back(
    op: OpBuilder, input_handle: TensorList, tensor: ir.Value, *, element_dtype: ir.DataType
) -> TensorList:
    """The stack with a slice more; of a loop variable only the note of it."""
    items = replace(input_handle, shape=merged_shape(input_handle, tensor))
    if items.variable is not None:
        return replace(items, variable=None, write=Write(items.variable, None, tensor))
    one = op.Unsqueeze(tensor, [0])
    size = op.Add(items.size, 1)
    if number(op, items.size) == 0:
        return replace(items, tensor=one, size=size, blank=False)
    return replace(items, tensor=op.Concat(_grown(op, items, tensor), one, axis=0), size=size, blank=False)


@tensorflow.lower("TensorListPopBack", cases=[case(_pushed, f32(3, 2))])
def tensor_list_pop_back(
    op: OpBuilder, input_handle: TensorList, element_shape_: ir.Value, *, element_dtype: ir.DataType
) -> tuple[TensorList, ir.Value]:
    """All but the last slice, and the last."""
    stack = stacked(op, input_handle)
    rest = op.Slice(stack, [0], [-1], [0])
    return replace(input_handle, tensor=rest, size=op.Sub(input_handle.size, 1)), op.Gather(stack, -1, axis=0)


@tensorflow.lower(
    "TensorListLength", cases=[case(lambda x: tf.TensorArray(tf.float32, 3).unstack(x).size() + 1, f32(3, 2))]
)
def tensor_list_length(op: OpBuilder, input_handle: TensorList) -> ir.Value:
    """The number of elements."""
    if input_handle.variable is not None or input_handle.write is not None:
        input_handle.stack  # noqa: B018 (raises: in a loop the length of a list without a state is not known)
    return op.cast(input_handle.size, ir.DataType.INT32)


@tensorflow.lower(
    "TensorListElementShape",
    cases=[
        case(
            lambda x: tf.raw_ops.TensorListElementShape(
                input_handle=tf.raw_ops.TensorListFromTensor(tensor=x, element_shape=[2]), shape_type=tf.int32
            ),
            f32(3, 2),
        )
    ],
)
def tensor_list_element_shape(op: OpBuilder, input_handle: TensorList, *, shape_type: ir.DataType) -> ir.Value:
    """The shape of a slice."""
    if input_handle.shape is not None and None not in input_handle.shape:
        return op.const(np.asarray(input_handle.shape), shape_type)
    return op.cast(shape_behind(op, stacked(op, input_handle)), shape_type)


def _resize_case(x: tf.Tensor) -> tf.Tensor:
    items = tf.raw_ops.TensorListFromTensor(tensor=x, element_shape=[2])
    items = tf.raw_ops.TensorListResize(input_handle=items, size=5)
    items = tf.raw_ops.TensorListResize(input_handle=items, size=4)
    return tf.raw_ops.TensorListStack(input_handle=items, element_shape=[2], element_dtype=tf.float32, num_elements=-1)


@tensorflow.lower("TensorListResize", cases=[case(_resize_case, f32(3, 2))])
def tensor_list_resize(op: OpBuilder, input_handle: TensorList, size: ir.Value) -> TensorList:
    """Slices cut off or zeros added."""
    return _resized(op, input_handle, int64(op, size))


def _scattered(x: tf.Tensor) -> tf.Tensor:
    items = tf.raw_ops.TensorListScatterV2(tensor=x, indices=[3, 0, 1], element_shape=[2], num_elements=5)
    return tf.raw_ops.TensorListStack(input_handle=items, element_shape=[2], element_dtype=tf.float32, num_elements=-1)


@tensorflow.lower(
    "TensorListScatterV2",
    "TensorListScatter",
    cases=[case(_scattered, f32(3, 2))],
)
def tensor_list_scatter(
    op: OpBuilder,
    tensor: ir.Value,
    indices: ir.Value,
    element_shape_: ir.Value,
    num_elements: ir.Value | None = None,
    *,
    element_dtype: ir.DataType,
) -> TensorList:
    """Zeros with some slices replaced."""
    at = op.Unsqueeze(int64(op, indices), [1])
    least = op.Add(op.reduce("ReduceMax", int64(op, indices), [0], keepdims=False), 1)
    given = None if num_elements is None else int64(op, num_elements)
    size = least if given is None else op.Max(given, least)
    rest = shape_behind(op, tensor)
    zeros = op.Expand(zero(op, element_dtype), op.Concat(op.Reshape(size, [1]), rest, axis=0))
    return TensorList(element_dtype, _slice_shape(tensor), size, op.ScatterND(zeros, at, tensor))


@tensorflow.lower(
    "TensorListScatterIntoExistingList",
    cases=[case(lambda x: tf.TensorArray(tf.float32, 5, element_shape=[2]).scatter([3, 0, 1], x).stack(), f32(3, 2))],
)
def tensor_list_scatter_into(
    op: OpBuilder, input_handle: TensorList, tensor: ir.Value, indices: ir.Value, *, element_dtype: ir.DataType
) -> TensorList:
    """The stack with some slices replaced."""
    item = op.Gather(tensor, 0, axis=0)
    items = replace(input_handle, shape=merged_shape(input_handle, item))
    at = op.Unsqueeze(int64(op, indices), [1])
    least = op.Add(op.reduce("ReduceMax", int64(op, indices), [0], keepdims=False), 1)
    base = replace(items, tensor=_grown(op, items, item), blank=False)
    longer = _resized(op, base, op.Max(items.size, least))
    return replace(longer, tensor=op.ScatterND(stacked(op, longer), at, tensor))


@tensorflow.lower(
    "TensorListConcatV2",
    cases=[case(lambda x: tf.TensorArray(tf.float32, 3, element_shape=[2, 2]).unstack(x).concat(), f32(3, 2, 2))],
)
def tensor_list_concat(
    op: OpBuilder,
    input_handle: TensorList,
    element_shape_: ir.Value,
    leading_dims: ir.Value,
    *,
    element_dtype: ir.DataType,
) -> Sequence[ir.Value]:
    """The stack's first two axes as one."""
    stack = stacked(op, input_handle)
    rest = shape_behind(op, stack, 2)
    lengths = op.Expand(op.dim(stack, 1), op.dim(stack, 0))
    return op.Reshape(stack, op.Concat([-1], rest, axis=0)), lengths


@tensorflow.lower(
    "TensorListSplit", cases=[case(lambda x: tf.TensorArray(tf.float32, 3).split(x, [2, 2, 2]).stack(), f32(6, 3))]
)
def tensor_list_split(
    op: OpBuilder, tensor: ir.Value, element_shape_: ir.Value, lengths: ir.Value, *, element_dtype: ir.DataType
) -> TensorList:
    """Pieces of equal length along axis 0."""
    sizes = static_ints(op, lengths, "TensorListSplit: lengths")
    if len(set(sizes)) != 1:
        raise UnsupportedOperator("TensorListSplit: pieces of different lengths have no common shape")
    rest = shape_behind(op, tensor)
    stack = op.Reshape(tensor, op.Concat([len(sizes)], [sizes[0]], rest, axis=0))
    behind = _slice_shape(tensor)
    shape = (sizes[0], *behind) if behind is not None else None
    return TensorList(element_dtype, shape, op.const(np.asarray(len(sizes), np.int64)), stack)
