"""Tensors out of sizes and numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir
import torch
from onnx_ir.tensor_adapters import to_torch_dtype

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import case, f32, i64
from onnxport.opset_maps.lowerings.axes import positions
from onnxport.opset_maps.lowerings.dtypes import Operand, Size, to_dtype
from onnxport.opset_maps.maps import aten
from onnxport.opset_maps.to_onnx.pytorch.linear import rank

# A size, or a tensor that has it.
Extent = Sequence[Size] | ir.Value


def extent(op: OpBuilder, size: Extent) -> ir.Value:
    """A size, or the shape of a tensor, as an INT64 vector."""
    return op.shape(size) if isinstance(size, ir.Value) else op.shape_vector(size)


def filled(op: OpBuilder, size: Extent, value: Operand) -> ir.Value:
    """A tensor of the result's type with one number everywhere."""
    shape, number = extent(op, size), to_dtype(op, value, op.result.dtype)
    return op.Expand(number, shape) if isinstance(size, ir.Value) or size else number


def _constant(op: OpBuilder, values: torch.Tensor) -> ir.Value:
    """A constant of the result's type, bfloat16 too, which NumPy lacks."""
    array = values.float().numpy() if values.dtype == torch.bfloat16 else values.numpy()
    return op.const(array, op.result.dtype)


@aten.lower(
    "aten::full aten::full_like aten::fill",
    cases=[
        case(lambda x: torch.full((x.shape[0], 3), 2.5) + x, f32(2, 3), dynamic=True),
        case(lambda x: torch.full((), 7, dtype=torch.int64) + x, i64(3)),
        case(lambda x: torch.full_like(x, 3), f32(2, 3), dynamic=True),
        case(lambda x: x.clone().fill_(3), f32(2, 3), dynamic=True),
    ],
)
def full(op: OpBuilder, size: Extent, fill_value: Operand, **_: object) -> ir.Value:
    """A number, expanded."""
    return filled(op, size, fill_value)


@aten.lower(
    "aten::zeros aten::zeros_like aten::zero aten::empty.memory_format aten::empty_strided aten::empty_permuted",
    "aten::empty_like aten::_efficientzerotensor",
    cases=[
        case(lambda x: torch.zeros(x.shape[0], 3) + x, f32(2, 3), dynamic=True),
        case(torch.zeros_like, f32(2, 3), dynamic=True),
        case(lambda x: torch.empty(x.shape[0], 3).copy_(x), f32(2, 3), dynamic=True),
    ],
)
def zeros(op: OpBuilder, size: Extent, *_: object, **__: object) -> ir.Value:
    """0, expanded: what is not written yet may hold anything."""
    return filled(op, size, 0)


@aten.lower(
    "aten::ones aten::ones_like",
    cases=[
        case(lambda x: torch.ones(x.shape[0], 3) + x, f32(2, 3), dynamic=True),
        case(torch.ones_like, f32(2, 3), dynamic=True),
    ],
)
def ones(op: OpBuilder, size: Extent, **_: object) -> ir.Value:
    """1, expanded."""
    return filled(op, size, 1)


@aten.lower(
    "aten::new_zeros aten::new_empty aten::new_empty_strided",
    cases=[case(lambda x: x.new_zeros(x.shape[0], 2), f32(2, 3), dynamic=True)],
)
def new_zeros(op: OpBuilder, x: ir.Value, size: Sequence[Size], *_: object, **__: object) -> ir.Value:
    """0, expanded."""
    return filled(op, size, 0)


@aten.lower(
    "aten::_new_zeros_with_same_feature_meta",
    cases=[
        case(lambda x: x + torch.ops.aten._new_zeros_with_same_feature_meta(x, x[0], self_num_batch_dims=1), f32(2, 3))
    ],
)
def zeros_of_tangents(op: OpBuilder, x: ir.Value, other: ir.Value, *, self_num_batch_dims: int = 0) -> ir.Value:
    """0 in the shape of another tensor, behind the first axes of `x`: where forward gradients begin."""
    return filled(op, [*(op.dim(x, axis) for axis in range(self_num_batch_dims)), op.shape(other)], 0)


@aten.lower("aten::new_ones", cases=[case(lambda x: x.new_ones(x.shape[0], 2), f32(2, 3), dynamic=True)])
def new_ones(op: OpBuilder, x: ir.Value, size: Sequence[Size], **_: object) -> ir.Value:
    """1, expanded."""
    return filled(op, size, 1)


@aten.lower("aten::new_full", cases=[case(lambda x: x.new_full((x.shape[0], 2), 5), f32(2, 3), dynamic=True)])
def new_full(op: OpBuilder, x: ir.Value, size: Sequence[Size], fill_value: Operand, **_: object) -> ir.Value:
    """A number, expanded."""
    return filled(op, size, fill_value)


@aten.lower("aten::scalar_tensor", cases=[case(lambda x: x + torch.scalar_tensor(2.0), f32(3))])
def scalar_tensor(op: OpBuilder, s: Operand, **_: object) -> ir.Value:
    """A number as a tensor."""
    return to_dtype(op, s, op.result.dtype)


@aten.lower(
    "aten::arange",
    cases=[
        case(lambda x: torch.arange(x.shape[0]) + x[:, 0], f32(4, 3), dynamic=True),
        case(lambda x: torch.arange(1, 7, 2) + x, f32(3)),
        case(lambda x: torch.arange(0.0, 1.0, 0.3) + x, f32(4)),
        case(lambda x: torch.arange(3, -1, -1) + x, f32(4)),
        case(lambda x: torch.arange(x.shape[0], -x.shape[0], -2.0).sum() + x, f32(4, 3), dynamic=True),
    ],
)
def arange(op: OpBuilder, *bounds: Operand, **_: object) -> ir.Value:
    """Range."""
    start, end, step = (0, bounds[0], 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    dtype = op.result.dtype
    plain = [item for item in (start, end, step) if not isinstance(item, ir.Value)]
    if len(plain) == 3:
        return _constant(op, torch.arange(start, end, step, dtype=to_torch_dtype(dtype)))
    if any(isinstance(item, float) and not item.is_integer() for item in plain):
        raise UnsupportedOperator("arange with a fractional step or start and a dynamic end")
    whole = [to_dtype(op, item, ir.DataType.INT64) for item in (start, end, step)]
    return op.cast(op.Range(*whole), dtype)


@aten.lower(
    "aten::linspace",
    cases=[
        case(lambda x: torch.linspace(0, 1, 5) + x, f32(5)),
        case(lambda x: torch.linspace(-3, 1, 7, dtype=torch.bfloat16).float() + x, f32(7)),
        case(lambda x: torch.linspace(0.5, x.shape[0] - 0.5, 5), f32(6), dynamic=True),
        case(lambda x: torch.linspace(x.shape[0], -2, 7, dtype=torch.float64), f32(6), dynamic=True),
        case(lambda x: torch.linspace(x.shape[0], 9, 1), f32(6), dynamic=True),
    ],
)
def linspace(op: OpBuilder, start: Operand, end: Operand, steps: int, **_: object) -> ir.Value:
    """Evenly spaced numbers, counted from the nearer end as PyTorch does."""
    if not isinstance(start, ir.Value) and not isinstance(end, ir.Value):
        return _constant(op, torch.linspace(start, end, steps, dtype=to_torch_dtype(op.result.dtype)))
    dtype = op.result.dtype
    if not dtype.is_floating_point():
        raise UnsupportedOperator("linspace of whole numbers with bounds that depend on the input")
    first, last = (op.cast(x, dtype) if isinstance(x, ir.Value) else op.const(x, dtype) for x in (start, end))
    place = np.arange(steps)
    step = op.Div(op.Sub(last, first), op.const(max(steps - 1, 1), dtype))
    upwards = op.Add(first, op.Mul(step, op.const(place, dtype)))
    downwards = op.Sub(last, op.Mul(step, op.const(steps - 1 - place, dtype)))
    return op.Where(op.const((place < steps // 2) | (steps == 1)), upwards, downwards)


@aten.lower(
    "aten::eye",
    cases=[
        case(lambda x: torch.eye(3) + x, f32(3)),
        case(lambda x: torch.eye(2, 3) + x, f32(3)),
        case(lambda x: torch.eye(x.shape[0]) @ x, f32(2, 3), dynamic=True),
        case(lambda x: torch.eye(x.shape[0], 3, dtype=torch.int64) + x, f32(2, 3), dynamic=True),
    ],
)
def eye(op: OpBuilder, n: Size, m: Size | None = None, **_: object) -> ir.Value:
    """The identity matrix."""
    if isinstance(n, int) and (m is None or isinstance(m, int)):
        return op.const(np.eye(n, m), op.result.dtype)
    rows = op.Unsqueeze(op.Range(0, n, 1), op.axes(1))
    columns = op.Unsqueeze(op.Range(0, n if m is None else m, 1), op.axes(0))
    return op.cast(op.Equal(rows, columns), op.result.dtype)


@aten.lower(
    "aten::tril",
    "aten::triu",
    cases=[
        case(lambda x: x.tril(), f32(3, 4), dynamic=True),
        case(lambda x: x.triu(1), f32(2, 3, 4)),
        case(lambda x: x.tril(x.shape[1] - x.shape[0]), f32(3, 4), dynamic=True),
        case(lambda x: torch.ones(x.shape[1], x.shape[1]).tril().bool(), f32(2, 3)),
    ],
)
def tril(op: OpBuilder, x: ir.Value, diagonal: int | ir.Value = 0) -> ir.Value:
    """Trilu from opset 14."""
    upper = int(op.name.startswith("aten::triu"))
    if op.opset >= 14 and x.dtype not in (
        ir.DataType.BOOL,
        ir.DataType.INT32,
        ir.DataType.INT8,
        ir.DataType.UINT8,
        ir.DataType.INT16,
    ):
        return op.Trilu(x, op.Squeeze(op.shape_vector([diagonal]), op.axes(0)), upper=upper)
    count = rank(x)
    rows = op.Unsqueeze(positions(op, x, count - 2), op.axes(1))
    columns = op.Unsqueeze(positions(op, x, count - 1), op.axes(0))
    gap = op.Sub(columns, rows)
    keep = op.Not(op.Less(gap, diagonal)) if upper else op.Not(op.Greater(gap, diagonal))
    if x.dtype == ir.DataType.BOOL:
        return op.And(x, keep)
    return op.Where(keep, x, op.const(0, x.dtype))
