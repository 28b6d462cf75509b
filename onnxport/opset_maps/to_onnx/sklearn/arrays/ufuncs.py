"""NumPy's and SciPy's ufuncs, on values of the graph."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from onnxport.graph import compositions
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.lowerings import arithmetic, special, trigonometry
from onnxport.opset_maps.to_onnx.sklearn.arrays import sparse_rows

_DOUBLE = ir.DataType.DOUBLE
Function = Callable[..., ir.Value]


def _known_in_float(operator: str) -> Function:
    """An operator that runtimes have in float32 only, composed for float64."""
    return lambda op, x: trigonometry.COMPOSED[operator](op, x) if x.dtype == _DOUBLE else op.node(operator, x)


def _power(op: OpBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    exponent = op.constant(y)
    if exponent is not None and exponent.size == 1 and exponent.ravel()[0] == 2:
        return op.Mul(x, x)
    return arithmetic.power(op, x, y)


def _cube_root(op: OpBuilder, x: ir.Value) -> ir.Value:
    """sign(x) |x|^(1/3), once refined: a third is rounded."""
    sure = op.Where(op.Equal(x, op.const(0.0, x.dtype)), op.const(1.0, x.dtype), x)
    root = op.Mul(op.Sign(sure), op.Pow(op.Abs(sure), op.const(1 / 3, x.dtype)))
    square = op.Mul(root, root)
    # where the cube or the root is infinite, as of infinity, nothing is refined
    step = op.Div(op.Sub(op.Mul(square, root), sure), op.Mul(square, op.const(3.0, x.dtype)))
    fine = op.Where(op.IsNaN(step), root, op.Sub(root, step))
    return op.Where(op.Equal(x, op.const(0.0, x.dtype)), x, fine)


def _heaviside(op: OpBuilder, x: ir.Value, at_zero: ir.Value) -> ir.Value:
    zero, one = op.const(0.0, x.dtype), op.const(1.0, x.dtype)
    result = op.Where(op.Less(x, zero), zero, op.Where(op.Greater(x, zero), one, at_zero))
    return op.Where(op.IsNaN(x), x, result)


def _log_expit(op: OpBuilder, x: ir.Value) -> ir.Value:
    """min(x, 0) - log1p(exp(-|x|))."""
    tail = compositions.log1p(op, op.Exp(op.Neg(op.Abs(x))))
    return op.Sub(op.Min(x, op.const(0.0, x.dtype)), tail)


def _expit(op: OpBuilder, x: ir.Value) -> ir.Value:
    # runtimes' Sigmoid is 0 for what is only small: its logarithm, or a share of such numbers, would be wrong
    one = op.const(1.0, x.dtype)
    return op.Div(one, op.Add(one, op.Exp(op.Neg(x))))


def _product(op: OpBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    # by a vector as by a column: the product of a matrix's entries is one with a matrix
    if y.shape is None or y.shape.rank() != 1 or x.shape is None or x.shape.rank() < 2:
        result = sparse_rows.product(op, x, y)
        return op.MatMul(x, y) if result is None else result
    return op.Squeeze(_product(op, x, op.Unsqueeze(y, op.axes(1))), op.axes(-1))


def _node(operator: str) -> Function:
    return lambda op, *values: op.node(operator, *values)


# What one operator of ONNX computes.
_NODES = (
    "add=Add subtract=Sub multiply=Mul divide=Div negative=Neg fabs=Abs sqrt=Sqrt reciprocal=Reciprocal "
    "exp=Exp log=Log sin=Sin cos=Cos tanh=Tanh equal=Equal less=Less less_equal=LessOrEqual greater=Greater "
    "greater_equal=GreaterOrEqual logical_and=And logical_or=Or logical_xor=Xor logical_not=Not rint=Round"
).split()


_FLOAT_NODES = "tan=Tan arcsin=Asin arccos=Acos arctan=Atan arcsinh=Asinh arccosh=Acosh arctanh=Atanh".split()
# What has NumPy's or SciPy's own name among the lowerings.
_OWN_NAMES = {
    arithmetic: "square exp2 log2 log10 logaddexp hypot fmax fmin not_equal isnan isinf isfinite xlogy",
    compositions: "expm1 log1p",
    special: "erf erfc erfcx erfinv log_ndtr xlog1py entr ndtr ndtri",
    trigonometry: "sinh cosh",
}


def _bitwise(operator: str) -> Function:
    return lambda op, *values: arithmetic.bitwise(op, operator, *values)


def _but_whole_numbers(operator: str) -> Function:
    return lambda op, x: op.node(operator, x) if x.dtype is not None and x.dtype.is_floating_point() else x


# By name, on operands of the loop's type.
UFUNCS: dict[str, Function] = {
    **{name: _node(operator) for name, _, operator in (pair.partition("=") for pair in _NODES)},
    **{name: _known_in_float(operator) for name, _, operator in (pair.partition("=") for pair in _FLOAT_NODES)},
    **{name: getattr(module, name) for module, names in _OWN_NAMES.items() for name in names.split()},
    "floor_divide": arithmetic.floor_div,
    "remainder": arithmetic.floor_mod,
    "fmod": arithmetic.trunc_mod,
    "power": _power,
    "positive": lambda op, x: x,
    "absolute": lambda op, x: x if x.dtype == ir.DataType.BOOL else op.Abs(x),
    "sign": lambda op, x: op.Sign(x),
    "conjugate": lambda op, x: x,
    "signbit": arithmetic.is_negative,
    "copysign": lambda op, x, y: op.Where(arithmetic.is_negative(op, y), op.Neg(op.Abs(x)), op.Abs(x)),
    "exp10": lambda op, x: op.Pow(op.const(10.0, x.dtype), x),
    "arctan2": trigonometry.atan2,
    **dict.fromkeys(("deg2rad", "radians"), lambda op, x: op.Mul(x, float(np.pi / 180))),
    **dict.fromkeys(("rad2deg", "degrees"), lambda op, x: op.Mul(x, float(180 / np.pi))),
    "cbrt": _cube_root,
    "heaviside": _heaviside,
    "float_power": _power,
    "maximum": lambda op, x, y: op.Max(x, y),
    "minimum": lambda op, x, y: op.Min(x, y),
    **{f"bitwise_{operator.lower()}": _bitwise(operator) for operator in ("And", "Or", "Xor")},
    "invert": _bitwise("Not"),
    "floor": _but_whole_numbers("Floor"),
    "ceil": _but_whole_numbers("Ceil"),
    "trunc": lambda op, x: x if x.dtype == ir.DataType.BOOL else arithmetic.trunc(op, x),
    "matmul": _product,
    # scipy.special
    "expit": _expit,
    "logit": lambda op, x: op.Log(op.Div(x, op.Sub(op.const(1.0, x.dtype), x))),
    "log_expit": _log_expit,
    "gammaln": special.lgamma,
    "psi": special.digamma,
}
