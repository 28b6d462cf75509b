"""Special functions that take more than tensors; the others are rows of the shared table."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir
import torch

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import Case, case, f32, f64, i64
from onnxport.opset_maps.lowerings import polynomials, special
from onnxport.opset_maps.lowerings.dtypes import Operand, to_dtype
from onnxport.opset_maps.lowerings.incomplete_gamma import igamma, igammac
from onnxport.opset_maps.maps import aten


@aten.lower(
    "aten::polygamma",
    "aten::special_polygamma",
    cases=[
        *(
            case(lambda x, n=n: torch.polygamma(n, x), f32(20, low=0.1, high=20.0), name=f"polygamma-{n}")
            for n in range(4)
        ),
        case(lambda x: torch.special.polygamma(2, x), f64(20, low=0.1)),
        case(lambda x: torch.polygamma(1, x), i64(9, low=-9, high=3), name="trigamma-poles"),
    ],
)
def polygamma(op: OpBuilder, n: int, x: ir.Value) -> ir.Value:
    """The n-th derivative of digamma."""
    value = op.cast(x, op.result.dtype)
    if n != 1:
        return special.polygamma(op, n, value)
    value = value if value.dtype == ir.DataType.DOUBLE else op.cast(value, ir.DataType.FLOAT)
    result = special.polygamma(op, n, value)
    # At trigamma's poles torch's numbers are what the sine of pi x, rounded, leaves of infinity.
    sine = op.Sin(op.Mul(value, math.pi))
    at_pole = op.And(op.Equal(op.Floor(value), value), op.Less(value, 0.5))
    result = op.Where(at_pole, op.Div(op.const(math.pi**2, value.dtype), op.Mul(sine, sine)), result)
    return op.cast(result, op.result.dtype)


def _half_ndtr(x: torch.Tensor) -> torch.Tensor:
    return torch.special.ndtr(x.half()).float()


@aten.lower(
    "aten::special_ndtr", cases=[case(_half_ndtr, f32(30, low=-9.0)), case(torch.special.ndtr, f32(30, low=-5.0))]
)
def ndtr(op: OpBuilder, x: ir.Value) -> ir.Value:
    """The normal distribution; of 16-bit numbers (1 + erf(x / sqrt 2)) / 2 with torch's rounding after each step."""
    value = op.cast(x, op.result.dtype)
    if value.dtype not in (ir.DataType.FLOAT16, ir.DataType.BFLOAT16):
        return special.ndtr(op, value)
    # An optimiser may drop a pair of casts, and its rounding: Veltkamp's product cuts the digits in float32 instead.
    cut = 2.0 ** (13 if value.dtype == ir.DataType.FLOAT16 else 16) + 1.0

    def rounded(x: ir.Value) -> ir.Value:
        wide = op.Mul(x, cut)
        return op.Sub(wide, op.Sub(wide, x))

    factor = float(np.float32(math.sqrt(0.5)))
    wide = op.cast(value, ir.DataType.FLOAT)
    wide = op.Where(op.Greater(op.Abs(wide), 100.0), op.Mul(op.Sign(wide), 100.0), wide)  # the product is a number
    error = rounded(op.Erf(rounded(op.Mul(wide, factor))))
    return op.cast(op.Mul(op.Add(error, 1.0), 0.5), value.dtype)


@aten.lower(
    "aten::mvlgamma",
    "aten::special_multigammaln",
    cases=[case(lambda x: torch.mvlgamma(x, 3), f32(2, 5, low=1.5, high=20.0), dynamic=True)],
)
def multigammaln(op: OpBuilder, x: ir.Value, p: int) -> ir.Value:
    """The sum of p log gammas."""
    return special.multigammaln(op, op.cast(x, op.result.dtype), p)


_POLYNOMIALS = [
    *polynomials.FAMILIES,
    *(f"shifted_{name}" for name in polynomials.FAMILIES if name.startswith("chebyshev")),
]


def _polynomial_cases(name: str) -> list[Case]:
    call = getattr(torch.special, name)
    return [
        case(call, f32(40, low=-1.5, high=2.0), i64(40, low=-1, high=12)),
        case(call, f64(6, 1, low=-0.9), f64(3, low=0.0, high=40.0)),
        case(lambda x: call(x, 3), f32(2, 3), dynamic=True),
        case(lambda n: call(0.3, n), i64(4, low=0, high=9)),
    ]


@aten.lower(
    *(f"aten::special_{name}" for name in _POLYNOMIALS),
    cases=[item for name in _POLYNOMIALS for item in _polynomial_cases(name)],
)
def orthogonal_polynomial(op: OpBuilder, x: Operand, n: Operand) -> ir.Value:
    """The recurrence of the polynomials, as far as the greatest degree."""
    name = op.name.removeprefix("aten::special_").partition(".")[0]
    value = to_dtype(op, x, op.result.dtype)
    if name.startswith("shifted_"):
        value = op.Sub(op.Add(value, value), 1.0)
    degree = to_dtype(op, n, ir.DataType.INT64) if isinstance(n, ir.Value) else op.const(int(n))
    return polynomials.orthogonal(op, polynomials.FAMILIES[name.removeprefix("shifted_")], value, degree)


_GAMMA_LARGE = np.array(
    [[999, 1e3, 1e4, 1e5, 1e6, 1e8, 1e20], [950, 1010, 1e4, 1.005e5, 9.99e5, 1.0001e8, 1e20]], np.float32
)
_GAMMA_EDGES = (
    np.array([0, 0, 1, 0, np.inf, 1, np.inf, -1, 1, np.nan, 1e-3, 300, 300, 5], np.float32),
    np.array([1, 0, 0, np.inf, 1, np.inf, np.inf, 1, -1, 1, 5, 290, 310, 1e30], np.float32),
)


@aten.lower(
    "aten::igamma aten::special_gammainc aten::igammac aten::special_gammaincc",
    cases=[
        item
        for call in (torch.special.gammainc, torch.special.gammaincc)
        for item in (
            case(call, f32(200, low=0.05, high=30.0), f32(200, low=0.05, high=30.0), dynamic=True),
            case(call, f64(40, 1, low=0.5, high=5.0), f64(9, low=0.05, high=30.0)),
            case(call, *_GAMMA_EDGES),
            case(call, *_GAMMA_LARGE),
        )
    ],
)
def incomplete_gamma(op: OpBuilder, x: ir.Value, other: ir.Value) -> ir.Value:
    """A series below a + 1, a continued fraction above."""
    write = igammac if "igammac" in op.name or "gammaincc" in op.name else igamma
    return write(op, op.cast(x, op.result.dtype), op.cast(other, op.result.dtype))


# Bounds, what lies beyond them, and NaN.
_SHARES = np.array([-0.5, -0.0, 0.0, 0.05, 0.1, 0.3, 0.9, 0.95, 1.0, 1.5, np.nan], np.float32)


@aten.lower(
    "aten::logit_backward",
    cases=[
        case(torch.ops.aten.logit_backward, f32(2, 3), f32(2, 3, low=0.1, high=0.9), dynamic=True),
        case(torch.ops.aten.logit_backward, f32(11), _SHARES, name="logit_backward-edges"),
        case(lambda g, x: torch.ops.aten.logit_backward(g, x, 0.1), f32(11), _SHARES, name="logit_backward-eps"),
        case(lambda g, x: torch.ops.aten.logit_backward(g, x, 0.25), f64(2, 3), f64(2, 3, low=0.0, high=1.0)),
    ],
)
def logit_backward(op: OpBuilder, grad_output: ir.Value, self: ir.Value, eps: float | None = None) -> ir.Value:
    """The gradient through x (1 - x); beyond eps and 1 - eps it is 0, and without eps NaN beyond 0 and 1."""
    bounded = eps is not None and eps >= 0
    least = eps if bounded and eps is not None else 0.0
    # Abs takes the sign from minus zero.
    inner = op.Div(grad_output, op.Abs(op.Mul(self, op.Sub(op.const(1.0, self.dtype), self))))
    outside = op.Or(op.Less(self, least), op.Greater(self, 1.0 - least))
    return op.Where(outside, op.const(0.0 if bounded else math.nan, self.dtype), inner)
