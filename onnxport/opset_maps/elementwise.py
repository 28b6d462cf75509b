"""The table of elementwise operators: a row an operator, a column a framework.

Every exporter and importer takes its elementwise operators from here. Where ONNX has no operator of its own the row names
a composition, a function of `lowerings/`; importers read no such row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from onnxport.opset_maps.cases import Array

Result = Literal["same", "bool"]
# Which element types an operator is tried on: f floating point, i integer, b boolean.
Kinds = Literal["f", "fi", "i", "b", "fib", "ib"]


@dataclass(frozen=True)
class Row:
    """One elementwise operator."""

    onnx: str  # ONNX operator; for a composition, the name of its function in `lowerings/`
    since: int  # opset in which the ONNX operator first exists; 0 for a composition
    arity: int  # number of operands; both are broadcast against each other
    versions: tuple[int, ...] = ()  # the versions of the ONNX operator, all that the importers' meaning of it holds for
    # ATen operators without overload, empty where PyTorch's form takes more than the operands.
    aten: tuple[str, ...] = ()
    tf: str = ""  # operator in `tf.raw_ops`, empty where TensorFlow has none
    keras: str = ""  # function in `keras.ops`, empty where Keras has none
    # Function that the PyTorch importer calls, below `torch`; empty where it needs more than the operands.
    torch: str = ""
    result: Result = "same"  # element type of the result, that of the operands or bool
    kinds: Kinds = "f"  # element types that the operator is defined on
    low: float = -3.0  # least value of the example inputs
    high: float = 3.0  # greatest value of the example inputs
    # A special function: tried on more numbers, of half precision computed in float32 as the frameworks do.
    is_special: bool = False

    def examples(self, integer: str) -> Iterator[tuple[str, tuple[Array, ...]]]:
        """Operands for each kind of element type, the second broadcast against the first; `integer` is the kind "i"."""
        dtypes = {"f": "float32", "i": integer, "b": "bool"}
        first = (40,) if self.is_special else (2, 3)
        for kind in self.kinds:
            whole = (max(int(self.low), 1) if self.low > 0 else -5, 6)
            low, high = whole if kind == "i" else (self.low, self.high)
            yield kind, tuple(Array(dtypes[kind], shape, low, high) for shape in (first, first[-1:])[: self.arity])


def _unary(
    onnx: str, versions: tuple[int, ...] = (), *, since: int = 0, arity: int = 1, aten: str = "", **columns: Any
) -> Row:
    """A row of one operand; `aten` holds names without prefix, `since` the first version where that is another."""
    names = tuple(f"aten::{name}" for name in aten.split())
    return Row(onnx, since or next(iter(versions), 0), arity, versions, names, **columns)


def _binary(onnx: str, versions: tuple[int, ...] = (), **columns: Any) -> Row:
    """A row of two operands."""
    return _unary(onnx, versions, arity=2, **columns)


def _special(onnx: str, aten: str, low: float, high: float, tf: str = "") -> Row:
    """A row of a special function."""
    return _unary(onnx, aten=aten, tf=tf, low=low, high=high, is_special=True)


# A table is read by rows.
# fmt: off
ROWS: tuple[Row, ...] = (
    _unary("Abs", (1, 6, 13), aten="abs", tf="Abs", keras="absolute", torch="abs", kinds="fi"),
    _unary("Neg", (1, 6, 13), aten="neg", tf="Neg", keras="negative", torch="neg", kinds="fi"),
    _unary("Exp", (1, 6, 13), aten="exp", tf="Exp", keras="exp", torch="exp"),
    _unary("Log", (1, 6, 13), aten="log", tf="Log", keras="log", torch="log", low=0.1),
    _unary("Sqrt", (1, 6, 13), aten="sqrt", tf="Sqrt", keras="sqrt", torch="sqrt", low=0.0),
    _unary("Reciprocal", (1, 6, 13), aten="reciprocal", tf="Reciprocal", keras="reciprocal", torch="reciprocal", low=0.1),
    _unary("Sin", (7, 22), aten="sin", tf="Sin", keras="sin", torch="sin"),
    _unary("Cos", (7, 22), aten="cos", tf="Cos", keras="cos", torch="cos"),
    _unary("Tan", (7, 22), aten="tan", tf="Tan", keras="tan", torch="tan", low=-1.4, high=1.4),
    _unary("Asin", (7, 22), aten="asin arcsin", tf="Asin", keras="arcsin", torch="asin", low=-0.95, high=0.95),
    _unary("Acos", (7, 22), aten="acos arccos", tf="Acos", keras="arccos", torch="acos", low=-0.95, high=0.95),
    _unary("Atan", (7, 22), aten="atan arctan", tf="Atan", keras="arctan", torch="atan"),
    _unary("Sinh", (9, 22), aten="sinh", tf="Sinh", keras="sinh", torch="sinh"),
    _unary("Cosh", (9, 22), aten="cosh", tf="Cosh", keras="cosh", torch="cosh"),
    _unary("Tanh", (1, 6, 13), aten="tanh", tf="Tanh", keras="tanh", torch="tanh"),
    _unary("Asinh", (9, 22), aten="asinh arcsinh", tf="Asinh", keras="arcsinh", torch="asinh"),
    _unary("Acosh", (9, 22), aten="acosh arccosh", tf="Acosh", keras="arccosh", torch="acosh", low=1.05),
    _unary("Atanh", (9, 22), aten="atanh arctanh", tf="Atanh", keras="arctanh", torch="atanh", low=-0.95, high=0.95),
    _unary("Ceil", (1, 6, 13), aten="ceil", tf="Ceil", keras="ceil", torch="ceil"),
    _unary("Floor", (1, 6, 13), aten="floor", tf="Floor", keras="floor", torch="floor"),
    _unary("Round", (11, 22), tf="Rint", keras="round", torch="round"),
    _unary("Sign", (9, 13), aten="sign sgn", tf="Sign", keras="sign", torch="sign", kinds="fi"),
    _unary("Erf", (9, 13), aten="erf special_erf", tf="Erf", keras="erf", torch="erf"),
    _unary("Sigmoid", (1, 6, 13), aten="sigmoid special_expit", tf="Sigmoid", keras="sigmoid", torch="sigmoid"),
    _unary("Relu", (1, 6, 13, 14), aten="relu", tf="Relu", keras="relu", torch="relu", kinds="fi"),
    _unary("Softsign", (1, 22), tf="Softsign", keras="softsign", torch="nn.functional.softsign"),
    _unary("Softplus", (1, 22), tf="Softplus", keras="softplus", torch="nn.functional.softplus"),
    _unary("Mish", (18, 22), aten="mish", torch="nn.functional.mish"),
    _unary("HardSwish", (14, 22), aten="hardswish", keras="hard_silu", torch="nn.functional.hardswish"),
    _unary("IsNaN", (9, 13, 20), aten="isnan", tf="IsNan", keras="isnan", torch="isnan", result="bool"),
    _unary("Not", (1,), aten="logical_not", tf="LogicalNot", keras="logical_not", torch="logical_not", result="bool", kinds="b"),
    _unary("BitwiseNot", (18,), aten="bitwise_not", tf="Invert", keras="bitwise_invert", torch="bitwise_not", kinds="i"),
    _binary("Add", (1, 6, 7, 13, 14), since=7, tf="AddV2", keras="add", torch="add", kinds="fi"),
    _binary("Sub", (1, 6, 7, 13, 14), since=7, tf="Sub", keras="subtract", torch="sub", kinds="fi"),
    _binary("Mul", (1, 6, 7, 13, 14), since=7, aten="mul multiply", tf="Mul", keras="multiply", torch="mul", kinds="fi"),
    _binary("Pow", (1, 7, 12, 13, 15), since=13, tf="Pow", keras="power", torch="pow", low=0.2),
    _binary("Max", (1, 6, 8, 12, 13), since=8, aten="maximum max.other",
            tf="Maximum", keras="maximum", torch="maximum", kinds="fi"),
    _binary("Min", (1, 6, 8, 12, 13), since=8, aten="minimum min.other",
            tf="Minimum", keras="minimum", torch="minimum", kinds="fi"),
    _binary("And", (1, 7), since=7, aten="logical_and",
            tf="LogicalAnd", keras="logical_and", torch="logical_and", result="bool", kinds="b"),
    _binary("Or", (1, 7), since=7, aten="logical_or",
            tf="LogicalOr", keras="logical_or", torch="logical_or", result="bool", kinds="b"),
    _binary("Xor", (1, 7), since=7, aten="logical_xor", keras="logical_xor", torch="logical_xor", result="bool", kinds="b"),
    _binary("Equal", (1, 7, 11, 13, 19), since=7, aten="eq", tf="Equal", keras="equal", torch="eq", result="bool", kinds="fib"),
    _binary("Less", (1, 7, 9, 13), since=7, aten="lt less", tf="Less", keras="less", torch="lt", result="bool", kinds="fi"),
    _binary("LessOrEqual", (12, 16), aten="le less_equal",
            tf="LessEqual", keras="less_equal", torch="le", result="bool", kinds="fi"),
    _binary("Greater", (1, 7, 9, 13), since=7, aten="gt greater",
            tf="Greater", keras="greater", torch="gt", result="bool", kinds="fi"),
    _binary("GreaterOrEqual", (12, 16), aten="ge greater_equal",
            tf="GreaterEqual", keras="greater_equal", torch="ge", result="bool", kinds="fi"),
    _binary("BitwiseAnd", (18,), aten="bitwise_and __and__",
            tf="BitwiseAnd", keras="bitwise_and", torch="bitwise_and", kinds="i"),
    _binary("BitwiseOr", (18,), aten="bitwise_or __or__",
            tf="BitwiseOr", keras="bitwise_or", torch="bitwise_or", kinds="i"),
    _binary("BitwiseXor", (18,), aten="bitwise_xor __xor__",
            tf="BitwiseXor", keras="bitwise_xor", torch="bitwise_xor", kinds="i"),
    # Compositions: ONNX has no operator of its own.
    _unary("square", aten="square", tf="Square", keras="square", kinds="fi"),
    _unary("rsqrt", aten="rsqrt", tf="Rsqrt", keras="rsqrt", low=0.1),
    _unary("exp2", aten="exp2 special_exp2", keras="exp2"),
    _unary("expm1", aten="expm1 special_expm1", tf="Expm1", keras="expm1"),
    _unary("log1p", aten="log1p special_log1p", tf="Log1p", keras="log1p", low=-0.9),
    _unary("log2", aten="log2", keras="log2", low=0.1),
    _unary("log10", aten="log10", keras="log10", low=0.1),
    _unary("erfc", aten="erfc special_erfc", tf="Erfc"),
    _unary("trunc", aten="trunc fix", keras="trunc"),
    _unary("frac", aten="frac"),
    _unary("silu", aten="silu", keras="silu"),
    _unary("log_sigmoid", aten="log_sigmoid", keras="log_sigmoid"),
    _unary("relu6", aten="relu6", tf="Relu6", keras="relu6"),
    _unary("isfinite", aten="isfinite", tf="IsFinite", keras="isfinite", result="bool"),
    _unary("isinf", aten="isinf", tf="IsInf", keras="isinf", result="bool"),
    _binary("not_equal", aten="ne not_equal", tf="NotEqual", keras="not_equal", result="bool", kinds="fib"),
    _binary("real_div", tf="RealDiv", keras="true_divide", low=0.2),
    _binary("floor_div", aten="floor_divide", keras="floor_divide", kinds="fi", low=1.0),
    _binary("floor_quotient", tf="FloorDiv", kinds="fi", low=1.0),
    _binary("floor_mod", aten="remainder", tf="FloorMod", keras="mod", kinds="fi", low=1.0),
    _binary("trunc_mod", aten="fmod", tf="TruncateMod", kinds="fi", low=1.0),
    _binary("atan2", aten="atan2 arctan2", tf="Atan2", keras="arctan2"),
    _binary("squared_difference", tf="SquaredDifference", kinds="fi"),
    _binary("xlogy", aten="xlogy special_xlogy", low=0.1),
    _binary("xlog1py", aten="special_xlog1py", low=0.1),
    _binary("div_no_nan", tf="DivNoNan", keras="divide_no_nan"),
    _binary("hypot", aten="hypot", keras="hypot"),
    _binary("logaddexp", aten="logaddexp", keras="logaddexp"),
    _binary("fmax", aten="fmax", kinds="fi"),
    _binary("fmin", aten="fmin", kinds="fi"),
    _binary("zeta", aten="special_zeta", low=1.1, high=9.0),
    _special("lgamma", "lgamma special_gammaln", -6.0, 20.0, tf="Lgamma"),
    _special("digamma", "digamma special_digamma special_psi", -6.0, 20.0),
    _special("erfinv", "erfinv special_erfinv", -1.0, 1.0, tf="Erfinv"),
    _special("erfcx", "special_erfcx", -4.0, 40.0),
    _special("log_ndtr", "special_log_ndtr", -12.0, 6.0),
    _special("ndtri", "special_ndtri", 0.0, 1.0, tf="Ndtri"),
    _special("i0", "i0 special_i0 special_modified_bessel_i0", -20.0, 20.0, tf="BesselI0"),
    _special("i0e", "special_i0e", -20.0, 20.0, tf="BesselI0e"),
    _special("i1", "special_i1 special_modified_bessel_i1", -20.0, 20.0, tf="BesselI1"),
    _special("i1e", "special_i1e", -20.0, 20.0, tf="BesselI1e"),
    _special("bessel_j0", "special_bessel_j0", -30.0, 30.0, tf="BesselJ0"),
    _special("bessel_j1", "special_bessel_j1", -30.0, 30.0, tf="BesselJ1"),
    _special("bessel_y0", "special_bessel_y0", 0.0, 30.0),
    _special("bessel_y1", "special_bessel_y1", 0.0, 30.0),
    _special("k0", "special_modified_bessel_k0", 0.0, 9.0),
    _special("k1", "special_modified_bessel_k1", 0.0, 9.0),
    _special("k0e", "special_scaled_modified_bessel_k0", 0.0, 30.0),
    _special("k1e", "special_scaled_modified_bessel_k1", 0.0, 30.0),
    _special("spherical_bessel_j0", "special_spherical_bessel_j0", -30.0, 30.0),
    _special("airy_ai", "special_airy_ai", -20.0, 9.0),
    _special("dawsn", "", -9.0, 9.0, tf="Dawsn"),
    _special("expint", "", 0.1, 40.0, tf="Expint"),
    _special("spence", "", 0.0, 5.0, tf="Spence"),
    _special("fresnel_cos", "", -9.0, 9.0, tf="FresnelCos"),
    _special("fresnel_sin", "", -9.0, 9.0, tf="FresnelSin"),
    _special("sinc", "sinc special_sinc", -3.0, 3.0),
    _special("entr", "special_entr", -0.5, 3.0),
)
# fmt: on

BY_ONNX: dict[str, Row] = {row.onnx: row for row in ROWS if row.since}
BY_TF: dict[str, Row] = {row.tf: row for row in ROWS if row.tf}
