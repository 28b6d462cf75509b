"""Diagonals of matrices, and matrices from their diagonals."""

from __future__ import annotations

from functools import reduce

import onnx_ir as ir
import torch

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import boolean, case, f32, i64
from onnxport.opset_maps.lowerings.axes import permuted
from onnxport.opset_maps.lowerings.dtypes import Operand, to_dtype
from onnxport.opset_maps.maps import aten
from onnxport.opset_maps.to_onnx.pytorch.linear import rank


@aten.lower(
    "aten::diagonal",
    "aten::diagonal_copy",
    cases=[
        case(lambda x: x.diagonal(), f32(3, 4)),
        case(lambda x: x.diagonal(1, 0, 2), f32(3, 2, 4)),
        case(lambda x: x.diagonal(-1, -2, -1), f32(2, 3, 3), dynamic=True),
    ],
)
def diagonal(op: OpBuilder, x: ir.Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> ir.Value:
    """Gather from the two axes flattened to one."""
    flat, positions, _ = diagonal_positions(op, x, offset, dim1, dim2)
    return op.Gather(flat, positions, axis=-1)


def diagonal_positions(
    op: OpBuilder, x: ir.Value, offset: int, dim1: int, dim2: int
) -> tuple[ir.Value, ir.Value, list[int]]:
    """`x` with the two axes last and flattened, the places of the diagonal in it, and the order of the axes."""
    count = rank(x)
    first, second = dim1 % count, dim2 % count
    order = [*(axis for axis in range(count) if axis not in (first, second)), first, second]
    moved = permuted(op, x, order)
    rows, columns = op.dim(moved, -2), op.dim(moved, -1)
    length = op.Max(op.Min(op.Sub(rows, max(-offset, 0)), op.Sub(columns, max(offset, 0))), 0)
    step = op.Add(columns, 1)
    start = offset if offset >= 0 else op.Mul(columns, -offset)
    positions = op.Add(op.Mul(op.Range(0, op.Squeeze(length, op.axes(0)), 1), step), start)
    sizes = [x.shape[axis] for axis in order[-2:]] if x.shape is not None else [0]
    filled = op.opset < 14 or all(isinstance(size, int) and size > 0 for size in sizes)
    leading = [0 if filled else op.dim(moved, axis) for axis in range(count - 2)]  # 0 is the axis as it is
    shape = op.shape_vector([*leading, op.Mul(rows, columns)])
    return op.Reshape(moved, shape, allowzero=None if filled else 1), positions, order


@aten.lower(
    "aten::diag_embed",
    cases=[
        case(torch.diag_embed, f32(2, 3), dynamic=True),
        case(lambda x: torch.diag_embed(x, 1, 0, 2), f32(2, 3)),
        case(lambda x: torch.diag_embed(x, -2), i64(2, 3)),
        case(lambda x: torch.diag_embed(x, 2), f32(3, 0)),
        case(lambda x: torch.diag_embed(x, 1), boolean(2, 3)),
        case(torch.diag_embed, boolean(3)),
    ],
)
def diag_embed(op: OpBuilder, x: ir.Value, offset: int = 0, dim1: int = -2, dim2: int = -1) -> ir.Value:
    """The last axis as the diagonals of matrices of zeros, these on the axes `dim1` and `dim2` of the result."""
    size = op.dim(x, -1)
    numbers = op.Range(0, op.Squeeze(op.Add(size, abs(offset)), op.axes(0)), 1)
    pads = [0] * (2 * rank(x) - 1)
    elements = op.Pad(x, [*pads, abs(offset)]) if offset else x
    rows, columns = op.Unsqueeze(numbers, op.axes(1)), op.Unsqueeze(numbers, op.axes(0))
    spread = op.Unsqueeze(elements, op.axes(-1 if offset >= 0 else -2))
    result = op.Where(op.Equal(op.Add(rows, offset), columns), spread, op.const(0, x.dtype))
    first, second = dim1 % (rank(x) + 1), dim2 % (rank(x) + 1)
    rest = iter(range(rank(x) - 1))
    places = [rank(x) - 1 if i == first else rank(x) if i == second else next(rest) for i in range(rank(x) + 1)]
    return op.Transpose(result, perm=places)


@aten.lower(
    "aten::diag",
    cases=[
        case(torch.diag, f32(4), dynamic=True),
        case(lambda x: torch.diag(x, -1), f32(3)),
        case(lambda x: torch.diag(x, 1), f32(3, 4), dynamic=True),
    ],
)
def diag(op: OpBuilder, x: ir.Value, offset: int = 0) -> ir.Value:
    """A vector as a diagonal, or the diagonal of a matrix."""
    return diag_embed(op, x, offset) if rank(x) == 1 else diagonal(op, x, offset)


@aten.lower("aten::diagflat", cases=[case(lambda x: torch.diagflat(x, 1), f32(2, 3), dynamic=True)])
def diagflat(op: OpBuilder, x: ir.Value, offset: int = 0) -> ir.Value:
    """All elements as a diagonal."""
    return diag_embed(op, op.Reshape(x, [-1]), offset)


@aten.lower(
    "aten::fill_diagonal",
    cases=[
        case(lambda x: x.clone().fill_diagonal_(7.0), f32(2, 3), dynamic=True),
        case(lambda x: x.clone().fill_diagonal_(7), i64(7, 3)),
        case(lambda x: x.clone().fill_diagonal_(7.0, wrap=True), f32(9, 3)),
        case(lambda x: x.clone().fill_diagonal_(7.0), f32(3, 3, 3)),
    ],
)
def fill_diagonal(op: OpBuilder, x: ir.Value, fill_value: Operand, wrap: bool = False) -> ir.Value:
    """A number where all places are equal; of a tall matrix (`wrap`) at every place that is a multiple of its width and 1."""
    axes = range(rank(x))
    places = [op.Range(0, op.Squeeze(op.dim(x, axis), op.axes(0)), 1) for axis in axes]
    first, *others = (
        op.Unsqueeze(place, op.axes(*(other for other in axes if other != axis)))
        for axis, place in zip(axes, places, strict=True)
    )
    if wrap and rank(x) == 2:
        width = op.dim(x, 1)
        chosen = op.Equal(op.Mod(op.Add(op.Mul(first, width), others[0]), op.Add(width, 1)), 0)
    else:
        chosen = reduce(op.And, (op.Equal(first, other) for other in others))
    return op.Where(chosen, to_dtype(op, fill_value, op.result.dtype), x)
