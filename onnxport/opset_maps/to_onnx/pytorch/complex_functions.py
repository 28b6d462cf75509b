"""Functions of complex numbers; what they are in ONNX is in `lowerings/complex_functions.py`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import onnx_ir as ir
import torch

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.lowerings import complex_functions as functions
from onnxport.opset_maps.lowerings import reductions
from onnxport.opset_maps.lowerings.complex_numbers import Parts, is_complex, joined, part_type, parts_of
from onnxport.opset_maps.maps import aten
from onnxport.opset_maps.to_onnx.pytorch.complex import Number, complex_case, parts

_DOUBLE = ir.DataType.DOUBLE
_FUNCTIONS: dict[str, functions.OfParts] = {
    "exp": functions.exp,
    "exp2": functions.scaled(functions.exp, math.log(2), before=True),
    "expm1": functions.expm1,
    "log": functions.log,
    "log2": functions.scaled(functions.log, 1 / math.log(2)),
    "log10": functions.scaled(functions.log, 1 / math.log(10)),
    "log1p": functions.log1p,
    "sqrt": functions.sqrt,
    "rsqrt": functions.rsqrt,
    "sin": functions.sin,
    "cos": functions.cos,
    "tan": functions.tan,
    "sinh": functions.sinh,
    "cosh": functions.cosh,
    "tanh": functions.tanh,
    "asin": functions.asin,
    "acos": functions.acos,
    "atan": functions.atan,
    "asinh": functions.asinh,
    "acosh": functions.acosh,
    "atanh": functions.atanh,
    "sigmoid": functions.sigmoid,
    "silu": functions.silu,
    "sinc": functions.sinc,
}


def _called(name: str) -> Callable[[torch.Tensor], torch.Tensor]:
    home = torch.nn.functional if name == "silu" else torch
    return lambda z: getattr(home, name)(z)


for _name, _function in _FUNCTIONS.items():
    aten.lower(f"aten::{_name}", accepts_complex=True, cases=[complex_case(_called(_name), (4, 3))])(
        functions.of_pair(_function)
    )


def _wide(op: OpBuilder, x: Number) -> Parts:
    """Both parts in double precision."""
    real, imaginary = parts(op, x, _DOUBLE)
    return real, op.const(0.0, _DOUBLE) if imaginary is None else imaginary


def _narrow(op: OpBuilder, result: Parts) -> ir.Value:
    return op.cast(joined(op, *result), part_type(op.result.dtype))


@aten.lower(
    "aten::pow",
    "aten::float_power",
    accepts_complex=True,
    cases=[
        complex_case(lambda z, w: (z**2, z**3, z**-0.5, z**1j, z**w, 2**z), (2, 3), (3,)),
        complex_case(lambda z, w: torch.float_power(z, w), (2, 3), (2, 3)),
    ],
)
def power(op: OpBuilder, x: Number, exponent: Number) -> ir.Value:
    """A repeated product for small whole exponents, else exp(y log x)."""
    if isinstance(exponent, (int, float)) and exponent in (1, 2, 3, 4):
        base = result = _wide(op, x)
        for _ in range(int(exponent) - 1):
            result = functions.times(op, result, base)
        return _narrow(op, result)
    return _narrow(op, functions.power(op, _wide(op, x), _wide(op, exponent)))


@aten.lower("aten::logaddexp", accepts_complex=True, cases=[complex_case(torch.logaddexp, (2, 3), (2, 3))])
def logaddexp(op: OpBuilder, x: ir.Value, other: ir.Value) -> ir.Value:
    """The operand of the larger real part, plus log1p of the exponential of the other less that one."""
    both = list(zip(_wide(op, x), _wide(op, other), strict=True))
    swapped = op.Less(*both[0])
    large = [op.Where(swapped, second, first) for first, second in both]
    small = [op.Where(swapped, first, second) for first, second in both]
    ratio = functions.exp(op, *(op.Sub(less, more) for less, more in zip(small, large, strict=True)))
    real, angle = functions.log1p(op, *ratio)
    return _narrow(op, (op.Add(real, large[0]), op.Add(angle, large[1])))


def _product(op: OpBuilder, x: ir.Value, total: Callable[[ir.Value], ir.Value]) -> ir.Value:
    return _narrow(op, functions.whole_product(op, _wide(op, x), total))


@aten.lower(
    "aten::prod",
    accepts_complex=True,
    cases=[complex_case(lambda z: (z.prod(), z.prod(1), z.prod(0, keepdim=True)), (2, 3))],
)
def prod(op: OpBuilder, x: ir.Value, dim: int | None = None, keepdim: bool = False, **_: object) -> ir.Value:
    """The product of moduli at the sum of angles."""
    count = (x.shape.rank() if x.shape is not None else 1) - 1
    axes = list(range(count)) if dim is None else [dim % count] if count else []
    return _product(op, x, lambda item: op.reduce("ReduceSum", item, axes, keepdims=keepdim) if axes else item)


@aten.lower("aten::cumprod", accepts_complex=True, cases=[complex_case(lambda z: z.cumprod(1), (2, 3))])
def cumprod(op: OpBuilder, x: ir.Value, dim: int, **_: object) -> ir.Value:
    """The product of moduli at the sum of angles."""
    count = (x.shape.rank() if x.shape is not None else 1) - 1
    return _product(op, x, lambda item: op.CumSum(item, op.const(dim % count)) if count else item)


# -- truth -------------------------------------------------------------------------------------------------------------


def truth(op: OpBuilder, x: ir.Value) -> ir.Value:
    """Whether a number is not 0."""
    if not is_complex(x):
        return op.cast(x, ir.DataType.BOOL)
    real, imaginary = parts_of(op, x)
    return op.Or(op.cast(real, ir.DataType.BOOL), op.cast(imaginary, ir.DataType.BOOL))


def _of_truths(name: str) -> Callable[..., Any]:
    """The entry for real operands, of whether each number is not 0."""

    def lower(op: OpBuilder, *args: Any, **kwargs: Any) -> Any:
        entry = aten.find(name)
        if entry is None:
            raise UnsupportedOperator(f"{name} has no mapping")
        return entry.function(op, *(truth(op, item) if isinstance(item, ir.Value) else item for item in args), **kwargs)

    lower.__doc__ = "The real form, of whether each number is not 0."
    return lower


_TRUTHS: dict[str, Callable[..., Any]] = {
    "aten::logical_and": lambda z, w: torch.logical_and(z * (z.real > 0), w),
    "aten::logical_or": lambda z, w: torch.logical_or(z * (z.real > 0), w * (w.real > 0)),
    "aten::logical_xor": lambda z, w: torch.logical_xor(z * (z.real > 0), w),
    "aten::logical_not": lambda z, w: torch.logical_not(z * (z.real > 0)),
    "aten::nonzero": lambda z, w: (z * (z.real > 0)).nonzero(),
    "aten::argwhere": lambda z, w: torch.argwhere(z * (z.real > 0)),
    "aten::any": lambda z, w: (z * (z.real > 0)).any(1),
    "aten::all": lambda z, w: (z * (z.real > 0)).all(1),
}
for _name, _call in _TRUTHS.items():
    aten.lower(_name, accepts_complex=True, cases=[complex_case(_call, (2, 3), (2, 3))])(_of_truths(_name))


@aten.lower(
    "aten::isnan", accepts_complex=True, cases=[complex_case(lambda z: torch.isnan(z / z.abs().floor()), (2, 3))]
)
def isnan(op: OpBuilder, x: ir.Value) -> ir.Value:
    """Whether one of the parts is NaN."""
    return op.Or(*(op.IsNaN(part) for part in parts_of(op, x)))


# -- variances ---------------------------------------------------------------------------------------------------------


def _variance(op: OpBuilder, x: ir.Value, args: Sequence[Any], kwargs: dict[str, Any]) -> ir.Value:
    entry = aten.find("aten::var.correction" if "correction" in kwargs else "aten::var")
    if entry is None:
        raise UnsupportedOperator("aten::var has no mapping")
    first, second = (entry.function(op, part, *args, **kwargs) for part in parts_of(op, x))
    return op.Add(first, second)


@aten.lower("aten::var", accepts_complex=True, cases=[complex_case(lambda z: z.var(1), (2, 4))])
def var(op: OpBuilder, x: ir.Value, *args: Any, **kwargs: Any) -> ir.Value:
    """The sum of the parts' variances."""
    return _variance(op, x, args, kwargs)


@aten.lower("aten::std", accepts_complex=True, cases=[complex_case(lambda z: z.std(1), (2, 4))])
def std(op: OpBuilder, x: ir.Value, *args: Any, **kwargs: Any) -> ir.Value:
    """The root of the variance."""
    return op.Sqrt(_variance(op, x, args, kwargs))


@aten.lower("aten::var_mean", accepts_complex=True, cases=[complex_case(lambda z: torch.var_mean(z, 1), (2, 4))])
def var_mean(op: OpBuilder, x: ir.Value, *args: Any, **kwargs: Any) -> tuple[ir.Value, ir.Value]:
    """The sum of the parts' variances, and the mean."""
    return _variance(op, x, args, kwargs), _mean(op, x, args, kwargs)


@aten.lower(
    "aten::std_mean",
    accepts_complex=True,
    cases=[
        complex_case(lambda z: torch.std_mean(z, 1), (2, 4)),
    ],
)
def std_mean(op: OpBuilder, x: ir.Value, *args: Any, **kwargs: Any) -> tuple[ir.Value, ir.Value]:
    """The root of the variance, and the mean."""
    return op.Sqrt(_variance(op, x, args, kwargs)), _mean(op, x, args, kwargs)


def _mean(op: OpBuilder, x: ir.Value, args: Sequence[Any], kwargs: dict[str, Any]) -> ir.Value:
    """The mean over the axes that come first among the arguments; a flag there stands for all."""
    dims = args[0] if args and not isinstance(args[0], bool) else kwargs.get("dim")
    keepdims = bool(kwargs.get("keepdim", args[2] if len(args) > 2 else False))
    count = (x.shape.rank() if x.shape is not None else 1) - 1
    chosen = [dims] if isinstance(dims, int) else list(dims or range(count))
    axes = [axis % count for axis in chosen] if count else []
    if not axes:
        return x
    means = (
        reductions.mean(op, part, axes, keepdims=keepdims, count=reductions.element_count(op, part, axes))
        for part in parts_of(op, x)
    )
    return joined(op, *means)
