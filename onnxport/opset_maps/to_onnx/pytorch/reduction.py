"""Reductions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx_ir as ir
import torch

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import Case, boolean, case, f32, i64
from onnxport.opset_maps.lowerings import reductions
from onnxport.opset_maps.lowerings.axes import rank
from onnxport.opset_maps.maps import aten

Dims = Sequence[int] | int | None


def axes_of(x: ir.Value, dim: Dims) -> list[int]:
    """The reduced axes: all where none is named."""
    count = rank(x)
    if dim is None or (isinstance(dim, (list, tuple)) and not dim):
        return list(range(count))
    return [axis % count if count else axis for axis in ([dim] if isinstance(dim, int) else dim)] if count else []


def _reduction(operator: str) -> Callable[..., ir.Value]:
    def lower(
        op: OpBuilder, x: ir.Value, dim: Dims = None, keepdim: bool = False, *, dtype: ir.DataType | None = None
    ) -> ir.Value:
        return reductions.reduced(op, operator, op.cast(x, op.result.dtype), axes_of(x, dim), keepdims=keepdim)

    lower.__doc__ = f"{operator}."
    return lower


# ONNX's operator, the ATen operators that it is, their cases.
_REDUCTIONS: tuple[tuple[str, str, list[Case]], ...] = (
    (
        "ReduceSum",
        "aten::sum",
        [
            case(lambda x: x.sum(), f32(2, 3)),
            case(lambda x: x.sum(-1, keepdim=True), f32(2, 3, 4), dynamic=True),
            case(lambda x: x.sum((0, 2)), i64(2, 3, 4)),
            case(lambda x: x.sum(0), boolean(2, 3)),
        ],
    ),
    (
        "ReduceMean",
        "aten::mean",
        [
            case(lambda x: x.mean(), f32(2, 3)),
            case(lambda x: x.mean((1, 2), keepdim=True), f32(2, 3, 4), dynamic=True),
            case(lambda x: x[:, :0].mean(1), f32(2, 3)),
        ],
    ),
    (
        "ReduceProd",
        "aten::prod",
        [case(lambda x: x.prod(1), f32(2, 3), dynamic=True), case(lambda x: x.prod(), i64(3))],
    ),
    (
        "ReduceLogSumExp",  # which runtimes compute from the maximum
        "aten::logsumexp",
        [
            case(lambda x: x.logsumexp(1), f32(2, 3), dynamic=True),
            case(lambda x: x.logsumexp((0, 1), True), f32(2, 3)),
        ],
    ),
    (
        "ReduceMax",
        "aten::amax aten::max.default",
        [
            case(lambda x: x.amax(1), f32(2, 3, 4), dynamic=True),
            case(lambda x: x.max(), i64(2, 3)),
            case(lambda x: x.amax((0, 1), keepdim=True), f32(2, 3)),
        ],
    ),
    (
        "ReduceMin",
        "aten::amin aten::min.default",
        [case(lambda x: x.amin(1), f32(2, 3, 4)), case(lambda x: x.min(), i64(2, 3))],
    ),
)
for _operator, _names, _cases in _REDUCTIONS:
    aten.lower(*_names.split(), cases=_cases)(_reduction(_operator))


def _with_index(extreme: str) -> Callable[..., tuple[ir.Value, ir.Value]]:
    def lower(op: OpBuilder, x: ir.Value, dim: int, keepdim: bool = False) -> tuple[ir.Value, ir.Value]:
        if not rank(x):
            return x, op.const(0)
        values = reductions.reduced(op, f"Reduce{extreme}", x, [dim % rank(x)], keepdims=keepdim)
        return values, reductions.first_extreme(op, f"Arg{extreme}", x, dim, keepdims=keepdim)

    lower.__doc__ = f"Reduce{extreme} and Arg{extreme}."
    return lower


def _index(extreme: str) -> Callable[..., ir.Value]:
    def lower(op: OpBuilder, x: ir.Value, dim: int | None = None, keepdim: bool = False) -> ir.Value:
        if not rank(x):
            return op.const(0)
        if dim is not None:
            return reductions.first_extreme(op, f"Arg{extreme}", x, dim, keepdims=keepdim)
        result = reductions.first_extreme(op, f"Arg{extreme}", op.Reshape(x, [-1]), 0, keepdims=False)
        return op.Reshape(result, [1] * rank(x)) if keepdim else result

    lower.__doc__ = f"Arg{extreme}, of the flattened tensor where no axis is named."
    return lower


_MAXIMA = [case(lambda x: x.max(1), f32(2, 3), dynamic=True), case(lambda x: torch.max(x, 0, True), f32(2, 3))]
_MAXIMUM_PLACES = [case(lambda x: x.argmax(1), f32(2, 3), dynamic=True), case(lambda x: x.argmax(), f32(2, 3))]
_MINIMUM_PLACES = [case(lambda x: x.argmin(1), f32(2, 3)), case(lambda x: x.argmin(), f32(2, 3))]
aten.lower("aten::max.dim", cases=_MAXIMA)(_with_index("Max"))
aten.lower("aten::min.dim", cases=[case(lambda x: x.min(1), f32(2, 3))])(_with_index("Min"))
aten.lower("aten::argmax", cases=_MAXIMUM_PLACES)(_index("Max"))
aten.lower("aten::argmin", cases=_MINIMUM_PLACES)(_index("Min"))


def _truth(operator: str, summary: str) -> Callable[..., ir.Value]:
    def lower(op: OpBuilder, x: ir.Value, dim: Dims = None, keepdim: bool = False) -> ir.Value:
        return op.cast(reductions.truth(op, operator, x, axes_of(x, dim), keepdims=keepdim), op.result.dtype)

    lower.__doc__ = summary
    return lower


_ANY = [case(lambda x: (x > 1).any(), f32(2, 3)), case(lambda x: x.any(1), f32(2, 3), dynamic=True)]
_ALL = [case(lambda x: (x > 1).all(), f32(2, 3)), case(lambda x: (x > 0).all(1), f32(2, 3), dynamic=True)]
_ANY_TRUE = [case(lambda x: torch._is_any_true(x > 1), f32(2, 3), dynamic=True)]
_ALL_TRUE = [case(lambda x: torch._is_all_true(x > 1), f32(2, 3), dynamic=True)]
aten.lower("aten::any", "aten::_is_any_true", cases=[*_ANY, *_ANY_TRUE])(
    _truth("ReduceMax", "Whether something is not zero.")
)
aten.lower("aten::all", "aten::_is_all_true", cases=[*_ALL, *_ALL_TRUE])(
    _truth("ReduceMin", "Whether nothing is zero.")
)


def variance(
    op: OpBuilder, x: ir.Value, axes: Sequence[int], correction: float, keepdim: bool
) -> tuple[ir.Value, ir.Value]:
    """The variance with `correction` taken from the count, and the mean."""
    count = reductions.element_count(op, x, axes)
    centre = reductions.mean(op, x, axes, keepdims=True, count=count)
    gap = op.Sub(x, centre)
    total = op.reduce("ReduceSum", op.Mul(gap, gap), axes, keepdims=keepdim)
    number = count if isinstance(count, ir.Value) else op.const(count)
    divisor = op.Max(op.Sub(op.cast(number, ir.DataType.DOUBLE), float(correction)), 0.0)
    centre = centre if keepdim or not axes else op.Squeeze(centre, op.axes(*axes))
    centre = op.Where(op.IsNaN(total), total, centre)  # beside a variance of NaN, as of infinities, torch's mean is NaN
    return op.Div(total, op.cast(divisor, x.dtype or ir.DataType.FLOAT)), centre


def _variance(name: str, summary: str) -> Callable[..., ir.Value | tuple[ir.Value, ir.Value]]:
    def lower(
        op: OpBuilder,
        x: ir.Value,
        dim: Dims | bool = None,
        unbiased: bool = True,
        keepdim: bool = False,
        *,
        correction: float | None = None,
    ) -> ir.Value | tuple[ir.Value, ir.Value]:
        axes = None if isinstance(dim, bool) else dim
        unbiased = dim if isinstance(dim, bool) else unbiased  # the overload of all axes has nothing else
        less = float(unbiased) if correction is None else float(correction)
        spread, centre = variance(op, x, axes_of(x, axes), less, keepdim)
        spread = op.Sqrt(spread) if name.startswith("std") else spread
        return (spread, centre) if name.endswith("mean") else spread

    lower.__doc__ = summary
    return lower


_VARIANCES = [
    case(lambda x: x.var(), f32(2, 3)),
    case(lambda x: x.var(1, keepdim=True), f32(2, 3), dynamic=True),
    case(lambda x: x.var((0, 1), correction=0), f32(2, 3), dynamic=True),
    case(lambda x: x.var(unbiased=False), f32(2, 3)),
    case(lambda x: x.var(0, unbiased=False), f32(2, 3)),
]
_DEVIATIONS = [case(lambda x: x.std(), f32(2, 3)), case(lambda x: x.std(1, keepdim=True), f32(2, 3))]
for _name, _summary, _cases in (
    ("var", "The variance from its definition.", _VARIANCES),
    ("std", "The root of the variance.", _DEVIATIONS),
    ("var_mean", "The variance and the mean.", [case(lambda x: torch.var_mean(x, 1), f32(2, 3))]),
    ("std_mean", "The standard deviation and the mean.", [case(lambda x: torch.std_mean(x, 1), f32(2, 3))]),
):
    aten.lower(f"aten::{_name}", cases=_cases)(_variance(_name, _summary))


@aten.lower(
    "aten::linalg__powsum",
    cases=[
        case(lambda x: torch.ops.aten.linalg__powsum(x, 3, [1]), f32(2, 3), dynamic=True),
        case(lambda x: torch.ops.aten.linalg__powsum(x, 0.5, [0, 2], keepdim=True), f32(2, 3, 4)),
        case(lambda x: torch.ops.aten.linalg__powsum(x), f32(2, 3)),
    ],
)
def power_sum(
    op: OpBuilder,
    x: ir.Value,
    ord: float = 2,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: ir.DataType | None = None,
) -> ir.Value:
    """The sum of the magnitudes raised to a power: a norm before its root."""
    power = op.Pow(op.Abs(op.cast(x, op.result.dtype)), float(ord))
    return op.reduce("ReduceSum", power, axes_of(x, dim), keepdims=keepdim)
