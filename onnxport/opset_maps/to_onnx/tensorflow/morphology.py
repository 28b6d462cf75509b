"""Greatest sums over windows (grey dilation), and their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack

import numpy as np
import onnx_ir as ir
import tensorflow as tf

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import Case, case, f32
from onnxport.opset_maps.lowerings.reductions import is_floating, without_nan
from onnxport.opset_maps.lowerings.scatter import scatter_elements
from onnxport.opset_maps.maps import tensorflow
from onnxport.opset_maps.to_onnx.tensorflow.operands import channels_first, static_sizes
from onnxport.opset_maps.to_onnx.tensorflow.windows import windows_of


class _Form(TypedDict):
    """Attributes of the windows."""

    strides: Sequence[int]
    rates: Sequence[int]
    padding: str


@dataclass(frozen=True)
class _Sums:
    """What the windows on an image see.

    Attributes:
        by_place: for each element of the filter, row by row, its sum with the pixel that each window has there.
        rows: the image's row, and `columns` its column, that each window has at each element [elements, windows].
        columns: as above.
        image: rows and columns of the image.
    """

    by_place: list[ir.Value]
    rows: np.ndarray
    columns: np.ndarray
    image: list[int]


def _dilation(padding: str, strides: int, rates: int) -> Case:
    def call(x: tf.Tensor, filters: tf.Tensor) -> Any:
        return tf.nn.dilation2d(x, filters, [1, strides, 1, 1], padding, "NHWC", [1, rates, 2, 1])

    return case(call, f32(2, 7, 6, 3), f32(2, 3, 3))


def _sums(op: OpBuilder, input: ir.Value, filter: ir.Value, form: _Form) -> _Sums:
    kernel = static_sizes(list(filter.shape)[:2]) if filter.shape is not None else None
    image = static_sizes(list(input.shape)[1:3]) if input.shape is not None else None
    if kernel is None or image is None:
        raise UnsupportedOperator(f"{op.name} of images or filters of dynamic size")
    windows = windows_of(
        list(kernel), {"strides": form["strides"], "dilations": form["rates"], "padding": form["padding"]}
    )
    begins, ends = np.reshape(windows.pads(channels_first(op, input, "NHWC")).get("pads", [0] * 4), (2, 2))
    if input.dtype is None or not is_floating(input):
        raise UnsupportedOperator(f"{op.name} of whole numbers")
    lowest = op.const(float(input.dtype.min), input.dtype)  # where TensorFlow begins
    padded = op.Pad(without_nan(op, input), op.const(np.asarray([0, *begins, 0, 0, *ends, 0], np.int64)), lowest)
    spans = [(k - 1) * rate + 1 for k, rate in zip(kernel, windows.dilations, strict=True)]
    counts = [
        (size + begin + end - span) // stride + 1
        for size, begin, end, span, stride in zip(image, begins, ends, spans, windows.strides, strict=True)
    ]
    sums, places = [], []
    for place in np.ndindex(*kernel):
        first = [i * rate for i, rate in zip(place, windows.dilations, strict=True)]
        last = [f + (n - 1) * s + 1 for f, n, s in zip(first, counts, windows.strides, strict=True)]
        seen = op.Slice(padded, first, [int(item) for item in last], [1, 2], windows.strides)
        sums.append(op.Add(seen, op.Gather(op.Gather(filter, op.const(place[0]), axis=0), op.const(place[1]), axis=0)))
        places.append(
            [f - b + np.arange(n) * s for f, b, n, s in zip(first, begins, counts, windows.strides, strict=True)]
        )
    rows, columns = (np.stack([place[axis] for place in places]) for axis in (0, 1))
    return _Sums(sums, rows, columns, list(image))


@tensorflow.lower("Dilation2D", cases=[_dilation("VALID", 1, 1), _dilation("SAME", 1, 2), _dilation("SAME", 2, 1)])
def dilation_2d(op: OpBuilder, input: ir.Value, filter: ir.Value, **form: Unpack[_Form]) -> ir.Value:
    """The greatest sum of a pixel of the window and the filter's element there; pixels beyond the image do not count."""
    return op.Max(*_sums(op, input, filter, form).by_place)


def _first_greatest(op: OpBuilder, sums: _Sums) -> ir.Value:
    """Which of the filter's elements gives the greatest sum, [batch, rows, columns, channels]."""
    stacked = op.Concat(*(op.Unsqueeze(item, op.axes(4)) for item in sums.by_place), axis=4)
    return op.ArgMax(stacked, axis=4, keepdims=0)


def _gradient_cases(name: str) -> list[Case]:
    def call(padding: str, strides: int, rates: int) -> Any:
        layout = {"strides": [1, strides, 1, 1], "rates": [1, rates, 2, 1], "padding": padding}

        def run(x: Any, filters: Any) -> Any:
            y = tf.raw_ops.Dilation2D(input=x, filter=filters, **layout)
            return getattr(tf.raw_ops, name)(input=x, filter=filters, out_backprop=y**3.0, **layout)

        return run

    forms = (("VALID", 1, 1), ("SAME", 1, 2), ("SAME", 2, 1))
    return [case(call(*form), f32(2, 7, 6, 3), f32(2, 3, 3)) for form in forms]


@tensorflow.lower("Dilation2DBackpropInput", min_opset=16, cases=_gradient_cases("Dilation2DBackpropInput"))
def dilation_2d_backprop_input(
    op: OpBuilder, input: ir.Value, filter: ir.Value, out_backprop: ir.Value, **form: Unpack[_Form]
) -> ir.Value:
    """Each gradient added at the pixel that gives the greatest sum of its window."""
    sums = _sums(op, input, filter, form)
    height, width = sums.image
    flat = sums.rows[:, :, None] * width + sums.columns[:, None, :]  # of windows that see no pixel there anything
    by_element = np.moveaxis(flat, 0, 2)[None]
    chosen = _first_greatest(op, sums)
    table = op.Expand(op.const(by_element), op.Concat(op.dim(input, 0), op.const([1, 1, 1]), axis=0))
    places = op.GatherElements(table, chosen, axis=3)
    rows = op.Concat(op.dim(input, 0), op.const([-1]), op.dim(input, 3), axis=0)
    zeros = op.Expand(op.const(0, input.dtype), op.Concat(op.dim(input, 0), [height * width], op.dim(input, 3), axis=0))
    result = scatter_elements(op, zeros, op.Reshape(places, rows), op.Reshape(out_backprop, rows), 1, "add")
    return op.Reshape(result, op.shape(input))


@tensorflow.lower("Dilation2DBackpropFilter", cases=_gradient_cases("Dilation2DBackpropFilter"))
def dilation_2d_backprop_filter(
    op: OpBuilder, input: ir.Value, filter: ir.Value, out_backprop: ir.Value, **form: Unpack[_Form]
) -> ir.Value:
    """The gradients of the windows whose greatest sum an element of the filter gives, added."""
    sums = _sums(op, input, filter, form)
    chosen, zero = _first_greatest(op, sums), op.const(0, out_backprop.dtype)
    parts = [
        op.reduce("ReduceSum", op.Where(op.Equal(chosen, i), out_backprop, zero), [0, 1, 2], keepdims=False)
        for i in range(len(sums.by_place))
    ]
    return op.Reshape(op.Concat(*(op.Unsqueeze(part, op.axes(0)) for part in parts), axis=0), op.shape(filter))
