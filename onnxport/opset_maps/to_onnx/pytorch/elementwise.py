"""Elementwise arithmetic: the rows of the shared table, and the operators that take more than their operands."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import Case, boolean, case, f32, f64, i32, i64
from onnxport.opset_maps.elementwise import BY_ONNX, ROWS, Row
from onnxport.opset_maps.lowerings import arithmetic
from onnxport.opset_maps.lowerings.dtypes import Operand, to_dtype
from onnxport.opset_maps.lowerings.elementwise import lower_row
from onnxport.opset_maps.maps import aten

_NAN = np.array([1, np.nan, np.nan, 2], np.float32), np.array([np.nan, 1, np.nan, 3], np.float32)


def _function(name: str) -> Callable[..., Any]:
    base = name.removeprefix("aten::").partition(".")[0]
    if base.startswith("special_"):
        function: Callable[..., Any] = getattr(torch.special, base.removeprefix("special_"))
        return function
    return getattr(torch, base, None) or getattr(torch.nn.functional, base, None) or getattr(torch.ops.aten, base)


def _row_cases(row: Row, name: str) -> list[Case]:
    call, short, least = _function(name), name.partition("::")[2], max(13, row.since)
    cases = [
        case(call, *operands, min_opset=least, dynamic=row.is_special, name=f"{short}-{kind}")
        for kind, operands in row.examples("int64")
    ]
    if row.is_special and row.onnx != "erfinv":  # infinite at 1 already
        cases.append(case(call, i64(4, low=1, high=3), name=f"{short}-i"))
    return [*cases, *_MORE_CASES.get(name, ())]


def _comparison_cases(call: Callable[..., Any]) -> list[Case]:
    return [
        case(call, f32(2, 3), f32(3), dynamic=True),
        case(lambda x: call(x, 1), i64(2, 3)),
        case(call, boolean(4), boolean(4)),
        case(call, i64(2, 3), f32(3)),
    ]


# By the name of the operator: what a row's own cases leave out, such as other element types, numbers and dynamic sizes.
_MORE_CASES: dict[str, list[Case]] = {
    **{f"aten::{name}": _comparison_cases(getattr(torch, name)) for name in ("lt", "le", "gt", "ge", "eq")},
    **{
        f"aten::{name}": [case(_function(name), boolean(4), boolean(4), dynamic=True)]
        for name in ("bitwise_and", "bitwise_or", "bitwise_xor")
    },
    **{
        f"aten::{name}": [
            case(_function(name), f32(2, 3), f32(3), dynamic=True),
            case(_function(name), boolean(3), boolean(3)),
            case(_function(name), i64(3), i64(1)),
        ]
        for name in ("maximum", "minimum")
    },
    **{
        f"aten::{name}": [case(_function(name), *_NAN), case(_function(name), i64(3), i64(3))]
        for name in ("fmax", "fmin")
    },
    "aten::mul": [
        case(lambda x, y: x * y, f32(2, 3), i64(3), dynamic=True),
        case(lambda x, y: x * y, boolean(4), boolean(4)),
        case(lambda x: x * 2, i32(3)),
    ],
    "aten::remainder": [
        case(lambda x: x % 3, i64(2, 3)),
        case(lambda x, y: torch.remainder(x, y), f32(2, 3), f32(3, low=0.5)),
    ],
    "aten::logical_and": [case(lambda x, y: (x > 0).logical_and(y), f32(2, 3), i64(3))],
    "aten::logical_or": [case(torch.logical_or, f32(3), f32(3))],
    "aten::logical_not": [case(torch.logical_not, f32(2, 3))],
    "aten::bitwise_not": [case(torch.bitwise_not, boolean(4)), case(torch.bitwise_not, i64(4), min_opset=13)],
    "aten::special_xlog1py": [
        case(torch.special.xlog1py, f32(2, 3), f32(3, low=-0.9)),
        case(lambda x: torch.special.xlog1py(x, 2), f32(3)),
    ],
    "aten::special_zeta": [
        case(torch.special.zeta, f32(30, low=1.1, high=9.0), f32(30, low=0.1, high=9.0)),
        case(lambda s: torch.special.zeta(s, 2.5), f32(30, low=1.1, high=9.0)),
    ],
}
# Their entries stand further down or in their family: PyTorch's are more than the row.
_OWN = frozenset(("aten::relu", "aten::mish", "aten::hardswish", "aten::sign", "aten::sgn"))

# In float64 PyTorch's own numbers of these are right to seven places only.
_COARSE = frozenset(f"aten::special_{name}" for name in "airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1".split())


def _of_single(lower: Callable[..., ir.Value]) -> Callable[..., ir.Value]:
    @wraps(lower)
    def lowered(op: OpBuilder, x: Operand) -> ir.Value:
        if op.result.dtype == ir.DataType.DOUBLE:
            raise UnsupportedOperator("PyTorch's float64 numbers of it are off by up to 3e-7; convert it in float32")
        return lower(op, x)

    return lowered


for _row in ROWS:
    for _name in [name for name in _row.aten if name not in _OWN]:
        _lower = lower_row(_row)
        aten.lower(_name, cases=_row_cases(_row, _name))(_of_single(_lower) if _name in _COARSE else _lower)

aten.lower(
    "aten::float_power",
    cases=[
        case(torch.float_power, f32(3, low=0.1), i64(3)),
        case(lambda x: torch.float_power(x, 2), i64(3)),
        case(lambda x: torch.float_power(2, x), f32(3)),
    ],
)(lower_row(BY_ONNX["Pow"]))


def _scaled(op: OpBuilder, x: Operand, alpha: Operand, dtype: ir.DataType) -> ir.Value:
    value = to_dtype(op, x, dtype)
    if not isinstance(alpha, ir.Value) and alpha == 1:
        return value
    return op.Mul(value, to_dtype(op, alpha, dtype))


@aten.lower(
    "aten::add",
    cases=[
        case(lambda x, y: torch.add(x, y, alpha=2), f32(2, 3), f32(3), dynamic=True),
        case(lambda x: x + 1.5, i64(2, 3)),
        case(lambda x: torch.ops.aten.add.Scalar(x, 2, 3), f32(2, 3)),
        case(lambda x, y: x + y, boolean(4), boolean(4)),
        case(lambda x, y: x + y, i32(4), f64(4)),
    ],
)
def add(op: OpBuilder, x: Operand, y: Operand, alpha: Operand = 1) -> ir.Value:
    """Add; of booleans it is or."""
    dtype = op.result.dtype
    if dtype == ir.DataType.BOOL:
        return op.Or(to_dtype(op, x, dtype), to_dtype(op, y, dtype))
    return op.Add(to_dtype(op, x, dtype), _scaled(op, y, alpha, dtype))


@aten.lower(
    "aten::sub",
    "aten::subtract",
    cases=[
        case(lambda x, y: torch.sub(x, y, alpha=3), i64(2, 3), i64(3)),
        case(lambda x: torch.sub(x, 2), f32(3)),
        case(lambda x: torch.ops.aten.sub.Scalar(x, 2, 3), f32(3)),
    ],
)
def sub(op: OpBuilder, x: Operand, y: Operand, alpha: Operand = 1) -> ir.Value:
    """Sub."""
    dtype = op.result.dtype
    return op.Sub(to_dtype(op, x, dtype), _scaled(op, y, alpha, dtype))


@aten.lower("aten::rsub", cases=[case(lambda x: 1 - x, f32(2, 3)), case(lambda x: torch.rsub(x, 3, alpha=2), i64(3))])
def rsub(op: OpBuilder, x: Operand, y: Operand, alpha: Operand = 1) -> ir.Value:
    """Sub with the operands exchanged."""
    dtype = op.result.dtype
    return op.Sub(to_dtype(op, y, dtype), _scaled(op, x, alpha, dtype))


@aten.lower(
    "aten::div aten::divide aten::true_divide",
    cases=[
        case(lambda x, y: x / y, f32(2, 3), f32(3, low=1.0), dynamic=True),
        case(lambda x: x / 2, i64(2, 3)),
        case(lambda x: torch.div(x, 2, rounding_mode="floor"), i64(2, 3)),
        case(lambda x: torch.div(x, 2, rounding_mode="trunc"), i64(2, 3)),
        case(lambda x: torch.div(x, 0.7, rounding_mode="floor"), f32(2, 3)),
        case(lambda x: torch.div(x, 0.7, rounding_mode="trunc"), f32(2, 3)),
    ],
)
def div(op: OpBuilder, x: Operand, y: Operand, *, rounding_mode: str | None = None) -> ir.Value:
    """Div, rounded down or toward zero on request."""
    dtype = op.result.dtype
    a, b = to_dtype(op, x, dtype), to_dtype(op, y, dtype)
    if rounding_mode == "floor":
        return arithmetic.floor_div(op, a, b)
    quotient = op.Div(a, b)
    return arithmetic.trunc(op, quotient) if rounding_mode == "trunc" else quotient


@aten.lower(
    "aten::pow",
    cases=[
        case(
            torch.pow,
            np.array([2, -2, 3, -1, -1, 0, 1, -3, 7], np.int8),
            np.array([7, 6, 120, -3, -2, 0, -5, 127, -1], np.int8),
        ),
        case(torch.pow, np.array([2, 3, 255], np.uint8), np.array([255, 5, 2], np.uint8)),
        case(torch.pow, np.array([2, 3, 181], np.int16), np.array([15, 3000, 2], np.int16)),
        case(torch.pow, np.array([[3], [-7], [-1], [2]]), np.array([39, 21, 62, 0, -5, 90]), name="beyond double"),
        case(torch.pow, np.array([100, 3, -1], np.int32), np.array([5, 31, -3], np.int32)),
        case(lambda x: 3**x, np.array([0, 39, 40, 63])),
        case(lambda x: x**2, f32(2, 3)),
        case(lambda x: x**3, i64(2, 3)),
        case(lambda x: x**0.5, f32(2, 3, low=0.1)),
        case(lambda x, y: x**y, f32(2, 3, low=0.2), f32(3)),
        case(lambda x: 2.0**x, f32(2, 3)),
    ],
)
def pow_(op: OpBuilder, x: Operand, y: Operand) -> ir.Value:
    """Pow; squares and roots by their own operators, which runtimes compute faster and more exactly."""
    dtype = op.result.dtype
    base = to_dtype(op, x, dtype)
    if not isinstance(y, ir.Value):
        if y == 1:
            return base
        if y == 2:
            return op.Mul(base, base)
        if y == 3:
            return op.Mul(op.Mul(base, base), base)
        by_root = dtype.is_floating_point() and dtype != ir.DataType.FLOAT16  # whose kernel calls pow
        if y == 0.5 and by_root:
            return op.Sqrt(base)
        if y == -1 and dtype.is_floating_point():
            return op.Reciprocal(base)
        if y == -0.5 and by_root:
            return op.Reciprocal(op.Sqrt(base))
    return arithmetic.power(op, base, to_dtype(op, y, dtype))


@aten.lower(
    "aten::clamp aten::clip aten::clamp_min",
    cases=[
        case(lambda x: x.clamp_min(0.5), f32(2, 3)),
        case(lambda x: x.clamp(-1, 1), f32(2, 3), dynamic=True),
        case(lambda x: x.clamp(max=2), i64(2, 3)),
        case(lambda x, a, b: torch.clamp(x, a, b), f32(2, 3), f32(3, high=0.0), f32(2, 1, low=0.0)),
    ],
)
def clamp(op: OpBuilder, x: ir.Value, min: Operand | None = None, max: Operand | None = None) -> ir.Value:
    """Clip, or Max and Min where the bounds are tensors."""
    dtype = op.result.dtype
    value = to_dtype(op, x, dtype)
    if any(isinstance(bound, ir.Value) for bound in (min, max)):
        value = value if min is None else op.Max(value, to_dtype(op, min, dtype))
        return value if max is None else op.Min(value, to_dtype(op, max, dtype))
    low, high = (None if bound is None else to_dtype(op, bound, dtype) for bound in (min, max))
    return op.Clip(value, low, high)


@aten.lower(
    "aten::sign",
    "aten::sgn",
    cases=[
        case(torch.sign, f32(2, 3)),
        case(torch.sign, np.array([np.nan, -0.0, -2], np.float32)),
        case(torch.sgn, i64(3)),
    ],
)
def sign(op: OpBuilder, x: ir.Value) -> ir.Value:
    """Sign; 0 of NaN."""
    if not op.result.dtype.is_floating_point():
        return x if x.dtype == ir.DataType.BOOL else op.Sign(x)
    return op.Sign(op.Where(op.IsNaN(x), op.const(0.0, x.dtype), x))


@aten.lower("aten::clamp_max", cases=[case(lambda x: x.clamp_max(0.5), f32(2, 3))])
def clamp_max(op: OpBuilder, x: ir.Value, max: Operand) -> ir.Value:
    """Clip from above."""
    return clamp(op, x, None, max)


@aten.lower(
    "aten::where.self aten::where.ScalarSelf aten::where.ScalarOther aten::where.Scalar",
    cases=[
        case(lambda x, y: torch.where(x > 0, x, y), f32(2, 3), f32(3), dynamic=True),
        case(lambda x: torch.where(x > 0, x, 0.0), f32(2, 3)),
        case(lambda x: torch.where(x > 0, 1, 2), f32(2, 3)),
    ],
)
def where(op: OpBuilder, condition: ir.Value, x: Operand, y: Operand) -> ir.Value:
    """Where."""
    dtype = op.result.dtype
    return op.Where(op.cast(condition, ir.DataType.BOOL), to_dtype(op, x, dtype), to_dtype(op, y, dtype))


@aten.lower(
    "aten::masked_fill",
    cases=[
        case(lambda x: x.masked_fill(x > 0, float("-inf")), f32(2, 3), dynamic=True),
        case(lambda x, v: x.masked_fill(x > 0, v), f32(2, 3), np.array(2.5, np.float32)),
    ],
)
def masked_fill(op: OpBuilder, x: ir.Value, mask: ir.Value, value: Operand) -> ir.Value:
    """Where with a number."""
    return where(op, mask, value, x)


@aten.lower("aten::round.default", cases=[case(torch.round, f32(2, 3)), case(torch.round, i64(2, 3))])
def round_(op: OpBuilder, x: ir.Value) -> ir.Value:
    """Round, halves to even."""
    return x if x.dtype is not None and x.dtype.is_integer() else op.Round(x)


@aten.lower("aten::round.decimals", cases=[case(lambda x: torch.round(x, decimals=2), f32(2, 3))])
def round_decimals(op: OpBuilder, x: ir.Value, *, decimals: int = 0) -> ir.Value:
    """Round at a decimal place."""
    scale = 10.0 ** abs(decimals)
    if decimals >= 0:
        return op.Div(op.Round(op.Mul(x, scale)), scale)
    return op.Mul(op.Round(op.Div(x, scale)), scale)


@aten.lower(
    "aten::addcmul",
    "aten::addcdiv",
    cases=[
        case(lambda x, a, b: torch.addcmul(x, a, b, value=0.5), f32(2, 3), f32(3), f32(2, 1)),
        case(lambda x, a, b: torch.addcdiv(x, a, b, value=0.5), f32(2, 3), f32(3), f32(2, 1, low=1.0)),
    ],
)
def addcmul(op: OpBuilder, x: ir.Value, tensor1: ir.Value, tensor2: ir.Value, *, value: Operand = 1) -> ir.Value:
    """x + value tensor1 tensor2, or x + value tensor1 / tensor2, the value with the first as in torch: it may overflow."""
    dtype = op.result.dtype
    operator = "Div" if op.name.startswith("aten::addcdiv") else "Mul"
    term = op.node(operator, _scaled(op, tensor1, value, dtype), op.cast(tensor2, dtype))
    return op.Add(op.cast(x, dtype), term)


@aten.lower(
    "aten::lerp",
    cases=[case(lambda x, y: torch.lerp(x, y, 0.3), f32(2, 3), f32(3)), case(torch.lerp, f32(2, 3), f32(3), f32(2, 1))],
)
def lerp(op: OpBuilder, x: ir.Value, end: ir.Value, weight: Operand) -> ir.Value:
    """x + weight (end - x), counted from the nearer end as torch does."""
    dtype = op.result.dtype
    value = to_dtype(op, weight, dtype)
    gap = op.Sub(end, x)
    near = op.Add(x, op.Mul(value, gap))
    far = op.Sub(end, op.Mul(gap, op.Sub(op.const(1.0, dtype), value)))
    return op.Where(op.Less(op.Abs(value), 0.5), near, far)


@aten.lower("aten::logit", cases=[case(lambda x: torch.logit(x, 1e-3), f32(2, 3, low=0.0, high=1.0))])
def logit(op: OpBuilder, x: ir.Value, eps: float | None = None) -> ir.Value:
    """log(x / (1 - x)), x held away from 0 and 1 by eps."""
    value = op.cast(x, op.result.dtype)
    if eps is not None:
        value = op.Clip(value, op.const(eps, value.dtype), op.const(1 - eps, value.dtype))
    return op.Log(op.Div(value, op.Sub(op.const(1.0, value.dtype), value)))


@aten.lower(
    "aten::nextafter",
    cases=[
        case(
            torch.nextafter,
            np.array(
                [1, 1, -1, 0, 0, 1e-45, 1.1754944e-38, 3.4028235e38, np.inf, -np.inf, np.nan, 2, 4, -8, 0.1], np.float32
            ),
            np.array([2, 0, 0, 1, -1, 0, 0, np.inf, 0, 0, 1, 2, -9, 9, np.nan], np.float32),
        ),
        case(torch.nextafter, f32(50, low=-9.0, high=9.0), f32(50, low=-9.0, high=9.0), dynamic=True),
    ],
)
def nextafter(op: OpBuilder, x: ir.Value, other: ir.Value) -> ir.Value:
    """The next float32 number towards another, by rounding of a double beside it."""
    if op.result.dtype != ir.DataType.FLOAT:
        raise UnsupportedOperator(f"nextafter of {op.result.dtype.name}: float32 alone is written", final=True)
    return arithmetic.next_single(op, x, other)
