"""Convolutions of images that are sampled beside the usual places."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import product

import numpy as np
import onnx_ir as ir

from onnxport.graph.builder import OpBuilder
from onnxport.graph.runtimes.defect import Defect, dims, operand, optional, wholes

_INT64 = ir.DataType.INT64


def _write(op: OpBuilder, node: ir.Node) -> ir.Value:
    """Elements gathered around each place, weighted, and multiplied by the kernels as a matrix (Dai et al. 2017)."""
    x, weight, offset = (operand(node, place) for place in range(3))
    bias, mask = optional(node, 3), optional(node, 4)
    group, groups = (node.attributes.get_int(name, 1) for name in ("group", "offset_group"))
    kernel = wholes(node, "kernel_shape", [size or 0 for size in (dims(weight) or [])[2:]])
    taps = kernel[0] * kernel[1]
    batch, channels, outs = op.dim(x, 0), op.dim(x, 1), op.dim(weight, 0)
    rows, columns = op.dim(offset, 2), op.dim(offset, 3)
    moved = op.Reshape(offset, op.shape_vector([batch, groups, taps, 2, rows, columns]))
    strides, dilations, pads = (
        wholes(node, name, [usual] * count)
        for name, usual, count in (("strides", 1, 2), ("dilations", 1, 2), ("pads", 0, 4))
    )
    tap = np.indices(kernel).reshape(2, taps, 1)
    places = []
    for axis, count in enumerate((rows, columns)):
        starts = op.Sub(op.Mul(op.Range(0, op.Squeeze(count, op.axes(0)), 1), strides[axis]), pads[axis])
        usual = op.Add(tap[axis] * dilations[axis], op.Unsqueeze(starts, op.axes(0)))  # [taps, rows or columns]
        usual = op.Unsqueeze(usual, op.axes(2 if axis == 0 else 1))
        places.append(op.Add(op.Gather(moved, axis, axis=3), op.cast_like(usual, x)))
    elements = op.shape_vector([batch, groups, -1, 1])
    sampled = _bilinear(op, x, [op.Reshape(place, elements) for place in places], groups)
    if mask is not None:
        sampled = op.Mul(sampled, op.Reshape(mask, elements))
    windows = op.Mul(op.Div(channels, group), taps)
    by_channel = op.Transpose(sampled, perm=[0, 1, 3, 2])
    matrix = op.Reshape(by_channel, op.shape_vector([batch, group, windows, op.Mul(rows, columns)]), allowzero=1)
    kernels = op.Reshape(weight, op.shape_vector([1, group, op.Div(outs, group), windows]))
    result = op.Reshape(op.MatMul(kernels, matrix), op.shape_vector([batch, outs, rows, columns]), allowzero=1)
    return result if bias is None else op.Add(result, op.Unsqueeze(bias, op.axes(1, 2)))


def _bilinear(op: OpBuilder, x: ir.Value, places: Sequence[ir.Value], groups: int) -> ir.Value:
    """Elements of images (N, C, H, W) at fractional places (N, groups, count, 1): (N, groups, count, C / groups).

    Outside of the image are zeros, of which one row and column before it and two behind it are enough.
    """
    padded = op.Pad(x, op.const([0, 0, 1, 1, 0, 0, 2, 2]))
    width = op.dim(padded, 3)
    flat = op.Reshape(padded, op.shape_vector([op.dim(x, 0), groups, op.Div(op.dim(x, 1), groups), -1]))
    flat = op.Transpose(flat, perm=[0, 1, 3, 2])
    corners = []
    for axis, place in enumerate(places):
        size = op.cast_like(op.Squeeze(op.dim(x, 2 + axis), op.axes(0)), x)
        inside = op.Add(op.Max(op.Min(place, size), op.const(-1.0, x.dtype)), 1.0)
        low = op.Floor(inside)
        share = op.Sub(inside, low)
        index = op.cast(low, _INT64)
        corners.append(((index, op.Sub(1.0, share)), (op.Add(index, 1), share)))
    parts = []
    for (row, of_row), (column, of_column) in product(*corners):
        taken = op.GatherND(flat, op.Add(op.Mul(row, width), column), batch_dims=2)
        parts.append(op.Mul(taken, op.Mul(of_row, of_column)))
    return reduce(op.Add, parts)


DEFORMED = (
    Defect(
        ("DeformConv",),
        _write,
        instead="gathered elements, weighted, and a product with the kernels",
        reason="onnxruntime 1.24 has no kernel",
        opsets=range(19, 27),
        applies=lambda node: not {0, None} & set((dims(node.inputs[1]) or [0, 0, 0, 0])[2:]),
    ),
)
