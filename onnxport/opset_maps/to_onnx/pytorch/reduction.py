"""Reductions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir
import torch

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import boolean, case, f32, i64
from onnxport.opset_maps.lowerings import reductions
from onnxport.opset_maps.maps import aten
from onnxport.opset_maps.to_onnx.pytorch.linear import rank

Dims = Sequence[int] | int | None


def axes_of(x: ir.Value, dim: Dims) -> list[int]:
    """The reduced axes: all where none is named."""
    count = rank(x)
    if dim is None or (isinstance(dim, (list, tuple)) and not dim):
        return list(range(count))
    return [axis % count if count else axis for axis in ([dim] if isinstance(dim, int) else dim)] if count else []


@aten.lower(
    "aten::sum",
    cases=[
        case(lambda x: x.sum(), f32(2, 3)),
        case(lambda x: x.sum(-1, keepdim=True), f32(2, 3, 4), dynamic=True),
        case(lambda x: x.sum((0, 2)), i64(2, 3, 4)),
        case(lambda x: x.sum(0), boolean(2, 3)),
    ],
)
def sum_(
    op: OpBuilder, x: ir.Value, dim: Dims = None, keepdim: bool = False, *, dtype: ir.DataType | None = None
) -> ir.Value:
    """ReduceSum."""
    over = reductions.over(op, axes_of(x, dim))
    return reductions.reduced(op, "ReduceSum", op.cast(x, op.result.dtype), keepdims=keepdim, reduce=over)


@aten.lower(
    "aten::mean",
    cases=[
        case(lambda x: x.mean(), f32(2, 3)),
        case(lambda x: x.mean((1, 2), keepdim=True), f32(2, 3, 4), dynamic=True),
        case(lambda x: x[:, :0].mean(1), f32(2, 3)),
    ],
)
def mean(
    op: OpBuilder, x: ir.Value, dim: Dims = None, keepdim: bool = False, *, dtype: ir.DataType | None = None
) -> ir.Value:
    """ReduceMean."""
    return _mean(op, op.cast(x, op.result.dtype), axes_of(x, dim), keepdim=keepdim)


def _mean(op: OpBuilder, x: ir.Value, axes: Sequence[int], *, keepdim: bool) -> ir.Value:
    over, count = reductions.over(op, axes), reductions.element_count(op, x, axes)
    return reductions.mean(op, x, keepdims=keepdim, reduce=over, count=count)


def _extreme(op: OpBuilder, name: str, x: ir.Value, axes: Sequence[int], keepdim: bool) -> ir.Value:
    """ReduceMax or ReduceMin; booleans and int16 by way of INT32."""
    if x.dtype in (ir.DataType.BOOL, ir.DataType.INT16, ir.DataType.UINT16):
        result = op.reduce(name, op.cast(x, ir.DataType.INT32), axes, keepdims=keepdim)
        return op.cast(result, x.dtype)
    if not axes:
        return x
    return reductions.reduced(op, name, x, keepdims=keepdim, reduce=reductions.over(op, axes))


@aten.lower(
    "aten::amax",
    "aten::max.default",
    cases=[
        case(lambda x: x.amax(1), f32(2, 3, 4), dynamic=True),
        case(lambda x: x.max(), i64(2, 3)),
        case(lambda x: x.amax((0, 1), keepdim=True), f32(2, 3)),
    ],
)
def amax(op: OpBuilder, x: ir.Value, dim: Dims = None, keepdim: bool = False) -> ir.Value:
    """ReduceMax."""
    return _extreme(op, "ReduceMax", x, axes_of(x, dim), keepdim)


@aten.lower(
    "aten::amin",
    "aten::min.default",
    cases=[case(lambda x: x.amin(1), f32(2, 3, 4)), case(lambda x: x.min(), i64(2, 3))],
)
def amin(op: OpBuilder, x: ir.Value, dim: Dims = None, keepdim: bool = False) -> ir.Value:
    """ReduceMin."""
    return _extreme(op, "ReduceMin", x, axes_of(x, dim), keepdim)


def _with_index(
    op: OpBuilder, reduce: str, arg: str, x: ir.Value, dim: int, keepdim: bool
) -> tuple[ir.Value, ir.Value]:
    if not rank(x):
        return x, op.const(0)
    return _extreme(op, reduce, x, [dim % rank(x)], keepdim), _arg(op, arg, x, dim, keepdim)


def _arg(op: OpBuilder, name: str, x: ir.Value, dim: int, keepdim: bool) -> ir.Value:
    if x.dtype in (ir.DataType.BOOL, ir.DataType.INT16):  # onnxruntime has no kernel for these
        x = op.cast(x, ir.DataType.INT32)
    return reductions.first_extreme(op, name, x, dim, keepdims=keepdim)


@aten.lower(
    "aten::max.dim",
    cases=[case(lambda x: x.max(1), f32(2, 3), dynamic=True), case(lambda x: torch.max(x, 0, True), f32(2, 3))],
)
def max_dim(op: OpBuilder, x: ir.Value, dim: int, keepdim: bool = False) -> tuple[ir.Value, ir.Value]:
    """ReduceMax and ArgMax."""
    return _with_index(op, "ReduceMax", "ArgMax", x, dim, keepdim)


@aten.lower("aten::min.dim", cases=[case(lambda x: x.min(1), f32(2, 3))])
def min_dim(op: OpBuilder, x: ir.Value, dim: int, keepdim: bool = False) -> tuple[ir.Value, ir.Value]:
    """ReduceMin and ArgMin."""
    return _with_index(op, "ReduceMin", "ArgMin", x, dim, keepdim)


@aten.lower(
    "aten::argmax", cases=[case(lambda x: x.argmax(1), f32(2, 3), dynamic=True), case(lambda x: x.argmax(), f32(2, 3))]
)
def argmax(op: OpBuilder, x: ir.Value, dim: int | None = None, keepdim: bool = False) -> ir.Value:
    """ArgMax, of the flattened tensor where no axis is named."""
    return _arg_reduced(op, "ArgMax", x, dim, keepdim)


@aten.lower("aten::argmin", cases=[case(lambda x: x.argmin(1), f32(2, 3)), case(lambda x: x.argmin(), f32(2, 3))])
def argmin(op: OpBuilder, x: ir.Value, dim: int | None = None, keepdim: bool = False) -> ir.Value:
    """ArgMin, of the flattened tensor where no axis is named."""
    return _arg_reduced(op, "ArgMin", x, dim, keepdim)


def _arg_reduced(op: OpBuilder, name: str, x: ir.Value, dim: int | None, keepdim: bool) -> ir.Value:
    if not rank(x):
        return op.const(0)
    if dim is not None:
        return _arg(op, name, x, dim, keepdim)
    result = _arg(op, name, op.Reshape(x, [-1]), 0, False)
    return op.Reshape(result, [1] * rank(x)) if keepdim else result


@aten.lower(
    "aten::any",
    cases=[case(lambda x: (x > 1).any(), f32(2, 3)), case(lambda x: x.any(1), f32(2, 3), dynamic=True)],
)
def any_(op: OpBuilder, x: ir.Value, dim: Dims = None, keepdim: bool = False) -> ir.Value:
    """Whether something is not zero."""
    return _all_or_any(op, "ReduceMax", x, dim, keepdim)


@aten.lower(
    "aten::all",
    cases=[case(lambda x: (x > 1).all(), f32(2, 3)), case(lambda x: (x > 0).all(1), f32(2, 3), dynamic=True)],
)
def all_(op: OpBuilder, x: ir.Value, dim: Dims = None, keepdim: bool = False) -> ir.Value:
    """Whether nothing is zero."""
    return _all_or_any(op, "ReduceMin", x, dim, keepdim)


def _all_or_any(op: OpBuilder, name: str, x: ir.Value, dim: Dims, keepdim: bool) -> ir.Value:
    numbers = op.cast(op.cast(x, ir.DataType.BOOL), ir.DataType.INT32)
    result = op.reduce(
        name, numbers, axes_of(x, dim), keepdims=keepdim
    )  # of nothing the type's least or greatest number
    return op.cast(op.Greater(result, 0), op.result.dtype)


@aten.lower(
    "aten::prod",
    cases=[case(lambda x: x.prod(1), f32(2, 3), dynamic=True), case(lambda x: x.prod(), i64(3))],
)
def prod(
    op: OpBuilder, x: ir.Value, dim: Dims = None, keepdim: bool = False, *, dtype: ir.DataType | None = None
) -> ir.Value:
    """ReduceProd."""
    return op.reduce("ReduceProd", op.cast(x, op.result.dtype), axes_of(x, dim), keepdims=keepdim)


def variance(
    op: OpBuilder, x: ir.Value, axes: Sequence[int], correction: float, keepdim: bool
) -> tuple[ir.Value, ir.Value]:
    """The variance with `correction` taken from the count, and the mean."""
    over, count = reductions.over(op, axes), reductions.element_count(op, x, axes)
    centre = reductions.mean(op, x, keepdims=True, reduce=over, count=count)
    gap = op.Sub(x, centre)
    total = op.reduce("ReduceSum", op.Mul(gap, gap), axes, keepdims=keepdim)
    number = count if isinstance(count, ir.Value) else op.const(count)
    divisor = op.Max(op.Sub(op.cast(number, ir.DataType.DOUBLE), float(correction)), 0.0)
    centre = centre if keepdim or not axes else op.Squeeze(centre, op.axes(*axes))
    centre = op.Where(op.IsNaN(total), total, centre)  # beside a variance of NaN, as of infinities, torch's mean is NaN
    return op.Div(total, op.cast(divisor, x.dtype or ir.DataType.FLOAT)), centre


def _variance_arguments(x: ir.Value, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[list[int], float, bool]:
    """Axes, correction and keepdim of the overloads of var and std."""
    correction = kwargs.get("correction", 1)
    keepdim = bool(kwargs.get("keepdim", False))
    rest = list(args)
    dim: Dims = None
    if rest and isinstance(rest[0], bool):  # var(unbiased)
        correction = int(rest[0])
    elif rest:
        dim = rest[0]
        if len(rest) > 1:
            correction = int(bool(rest[1]))
        if len(rest) > 2:
            keepdim = bool(rest[2])
    return axes_of(x, dim), 1.0 if correction is None else float(correction), keepdim


@aten.lower(
    "aten::var",
    cases=[
        case(lambda x: x.var(), f32(2, 3)),
        case(lambda x: x.var(1, keepdim=True), f32(2, 3), dynamic=True),
        case(lambda x: x.var((0, 1), correction=0), f32(2, 3), dynamic=True),
        case(lambda x: x.var(unbiased=False), f32(2, 3)),
        case(lambda x: x.var(0, unbiased=False), f32(2, 3)),
    ],
)
def var(op: OpBuilder, x: ir.Value, *args: Any, **kwargs: Any) -> ir.Value:
    """The variance from its definition."""
    return variance(op, x, *_variance_arguments(x, args, kwargs))[0]


@aten.lower("aten::std", cases=[case(lambda x: x.std(), f32(2, 3)), case(lambda x: x.std(1, keepdim=True), f32(2, 3))])
def std(op: OpBuilder, x: ir.Value, *args: Any, **kwargs: Any) -> ir.Value:
    """The root of the variance."""
    return op.Sqrt(var(op, x, *args, **kwargs))


@aten.lower("aten::var_mean", cases=[case(lambda x: torch.var_mean(x, 1), f32(2, 3))])
def var_mean(op: OpBuilder, x: ir.Value, *args: Any, **kwargs: Any) -> tuple[ir.Value, ir.Value]:
    """The variance and the mean."""
    return variance(op, x, *_variance_arguments(x, args, kwargs))


@aten.lower("aten::std_mean", cases=[case(lambda x: torch.std_mean(x, 1), f32(2, 3))])
def std_mean(op: OpBuilder, x: ir.Value, *args: Any, **kwargs: Any) -> tuple[ir.Value, ir.Value]:
    """The standard deviation and the mean."""
    spread, centre = variance(op, x, *_variance_arguments(x, args, kwargs))
    return op.Sqrt(spread), centre


@aten.lower(
    "aten::logsumexp",
    cases=[
        case(lambda x: x.logsumexp(1), f32(2, 3), dynamic=True),
        case(lambda x: x.logsumexp((0, 1), True), f32(2, 3)),
    ],
)
def logsumexp(op: OpBuilder, x: ir.Value, dim: Dims, keepdim: bool = False) -> ir.Value:
    """ReduceLogSumExp, which runtimes compute from the maximum."""
    return op.reduce("ReduceLogSumExp", op.cast(x, op.result.dtype), axes_of(x, dim), keepdims=keepdim)
