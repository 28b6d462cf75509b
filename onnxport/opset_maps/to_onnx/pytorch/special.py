"""Special functions: what they compute is in `lowerings/special.py`."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir
import torch

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import Array, case, f32, f64, i64
from onnxport.opset_maps.lowerings import special
from onnxport.opset_maps.lowerings.dtypes import to_dtype
from onnxport.opset_maps.maps import aten

Operand = ir.Value | int | float

# Function of lowerings/special.py, the ATen operators that it is, an example input.
_UNARY: tuple[tuple[str, tuple[str, ...], Array], ...] = (
    ("lgamma", ("lgamma", "special_gammaln"), f32(40, low=-6.0, high=20.0)),
    ("digamma", ("digamma", "special_digamma", "special_psi"), f32(40, low=-6.0, high=20.0)),
    ("erfinv", ("erfinv", "special_erfinv"), f32(40, low=-1.0, high=1.0)),
    ("erfcx", ("special_erfcx",), f32(40, low=-4.0, high=40.0)),
    ("ndtr", ("special_ndtr",), f32(40, low=-6.0, high=6.0)),
    ("log_ndtr", ("special_log_ndtr",), f32(40, low=-12.0, high=6.0)),
    ("ndtri", ("special_ndtri",), f32(40, low=0.0, high=1.0)),
    ("i0", ("i0", "special_i0", "special_modified_bessel_i0"), f32(40, low=-20.0, high=20.0)),
    ("i0e", ("special_i0e",), f32(40, low=-20.0, high=20.0)),
    ("i1", ("special_i1", "special_modified_bessel_i1"), f32(40, low=-20.0, high=20.0)),
    ("i1e", ("special_i1e",), f32(40, low=-20.0, high=20.0)),
    ("sinc", ("sinc", "special_sinc"), f32(40)),
    ("entr", ("special_entr",), f32(40, low=-0.5)),
)


# Computed in float32, as torch does.
_HALVES = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)


def _unary(name: str) -> Callable[[OpBuilder, ir.Value], ir.Value]:
    function = getattr(special, name)

    def lower(op: OpBuilder, x: ir.Value) -> ir.Value:
        dtype = op.result.dtype
        result: ir.Value = function(op, op.cast(x, ir.DataType.FLOAT if dtype in _HALVES else dtype))
        return op.cast(result, dtype)

    lower.__doc__ = function.__doc__
    return lower


def _spelled(name: str) -> Callable[..., torch.Tensor]:
    base = name.removeprefix("special_")
    result: Callable[..., torch.Tensor] = getattr(torch.special if name.startswith("special_") else torch, base)
    return result


for _name, _operators, _input in _UNARY:
    for _operator in _operators:
        _cases = [
            case(_spelled(_operator), _input, dynamic=True, name=_operator),
            case(_spelled(_operator), i64(4, low=1, high=3), name=f"{_operator}-i"),
        ]
        aten.lower(f"aten::{_operator}", cases=_cases if _name != "erfinv" else _cases[:1])(_unary(_name))


@aten.lower(
    "aten::polygamma",
    cases=[
        case(lambda x, n=n: torch.polygamma(n, x), f32(20, low=0.1, high=20.0), name=f"polygamma-{n}") for n in range(4)
    ],
)
def polygamma(op: OpBuilder, n: int, x: ir.Value) -> ir.Value:
    """The n-th derivative of digamma."""
    return special.polygamma(op, n, op.cast(x, op.result.dtype))


@aten.lower("aten::special_polygamma", cases=[case(lambda x: torch.special.polygamma(2, x), f64(20, low=0.1))])
def special_polygamma(op: OpBuilder, n: int, x: ir.Value) -> ir.Value:
    """The n-th derivative of digamma."""
    return polygamma(op, n, x)


@aten.lower(
    "aten::mvlgamma",
    "aten::special_multigammaln",
    cases=[case(lambda x: torch.mvlgamma(x, 3), f32(2, 5, low=1.5, high=20.0), dynamic=True)],
)
def multigammaln(op: OpBuilder, x: ir.Value, p: int) -> ir.Value:
    """The sum of p log gammas."""
    return special.multigammaln(op, op.cast(x, op.result.dtype), p)


@aten.lower(
    "aten::special_zeta",
    cases=[
        case(torch.special.zeta, f32(30, low=1.1, high=9.0), f32(30, low=0.1, high=9.0)),
        case(lambda s: torch.special.zeta(s, 2.5), f32(30, low=1.1, high=9.0)),
    ],
)
def zeta(op: OpBuilder, x: Operand, other: Operand) -> ir.Value:
    """Hurwitz' zeta function."""
    dtype = op.result.dtype
    return special.zeta(op, to_dtype(op, x, dtype), to_dtype(op, other, dtype))


@aten.lower(
    "aten::special_xlog1py",
    cases=[
        case(torch.special.xlog1py, f32(2, 3), f32(3, low=-0.9)),
        case(lambda x: torch.special.xlog1py(x, 2), f32(3)),
    ],
)
def xlog1py(op: OpBuilder, x: Operand, other: Operand) -> ir.Value:
    """x log(1 + y)."""
    dtype = op.result.dtype
    return special.xlog1py(op, to_dtype(op, x, dtype), to_dtype(op, other, dtype))
