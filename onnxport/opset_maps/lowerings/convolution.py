"""Convolutions in groups whose number is known only when the model runs: ONNX's Conv has it as an attribute."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.lowerings.axes import rank

# convolve(builder, x, weight, bias, groups) gives the convolution in so many groups.
Convolve = Callable[[OpBuilder, ir.Value, ir.Value, "ir.Value | None", int], ir.Value]


def in_groups(
    op: OpBuilder, x: ir.Value, weight: ir.Value, bias: ir.Value | None, groups: int | ir.Value, convolve: Convolve
) -> ir.Value:
    """The convolution in `groups`: by `convolve` at once, or a group after the other where their number is no constant.

    Args:
        op: the builder.
        x: [batch, channels, *space].
        weight: ONNX's weight of Conv or ConvTranspose, whose first axis holds the groups one behind the other.
        bias: [channels of the result].
        groups: how many, an INT64 scalar or one element where the model computes it.
        convolve: gives the convolution of what it is given.
    """
    if isinstance(groups, int):
        return convolve(op, x, weight, bias, groups)
    count, axes = op.shape_vector([groups]), [1, 0, 0]
    parts = [_split(op, item, axis, count) for item, axis in zip((x, weight, bias), axes) if item is not None]

    def build(b: OpBuilder) -> list[ir.Value]:
        taken = [
            b.input("part", item.dtype or ir.DataType.FLOAT, _without(item, axis))
            for item, axis in zip(parts, axes, strict=False)
        ]
        return [convolve(b, taken[0], taken[1], taken[2] if len(taken) > 2 else None, 1)]

    y = op.Scan(
        *parts,
        body=op.body(build),
        num_scan_inputs=len(parts),
        scan_input_axes=axes[: len(parts)],
        scan_output_axes=[1],
    )
    y.dtype, y.shape = x.dtype, ir.Shape([None] * (rank(x) + 1))
    space = [op.dim(y, axis) for axis in range(3, rank(x) + 1)]
    result = op.Reshape(y, op.shape_vector([op.dim(y, 0), op.Mul(count, op.dim(y, 2)), *space]))
    if result.shape is None:  # inference at old opsets does not give it
        result.shape = ir.Shape([None] * rank(x))
    return result


def _split(op: OpBuilder, x: ir.Value, axis: int, count: ir.Value) -> ir.Value:
    """`x` with an axis of `count` groups before what one of them has of `axis`."""
    sizes = [op.dim(x, i) for i in range(rank(x))]
    split = op.Reshape(x, op.shape_vector([*sizes[:axis], count, op.Div(sizes[axis], count), *sizes[axis + 1 :]]))
    dims = list(x.shape) if x.shape is not None else [None] * rank(x)
    split.shape = ir.Shape([*dims[:axis], None, None, *dims[axis + 1 :]])
    return split


def _without(x: ir.Value, axis: int) -> list[int | ir.SymbolicDim]:
    return [dim for i, dim in enumerate(x.shape or ()) if i != axis]
