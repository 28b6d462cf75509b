"""One row an operator that is said one-to-one everywhere; a column a framework.

Every exporter and importer takes its elementwise operators from here. Where ONNX has no operator of its own the row names
a composition in `lowerings/elementwise.py`; importers then have nothing to read in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Result = Literal["same", "bool"]
# Which element types an operator is tried on: f floating point, i integer, b boolean.
Kinds = Literal["f", "fi", "i", "b", "fib", "ib"]


@dataclass(frozen=True)
class Row:
    """One elementwise operator.

    Attributes:
        onnx: ONNX operator; for a composition, the name of its function in `lowerings/elementwise.py`.
        since: opset in which the ONNX operator first exists; 0 for a composition.
        arity: number of operands; both are broadcast against each other.
        aten: ATen operators without overload, empty where PyTorch's form takes more than the operands.
        tf: operator in ``tf.raw_ops``, empty where TensorFlow has none.
        keras: function in ``keras.ops``, empty where Keras has none.
        torch: function that the PyTorch importer calls, below ``torch``; empty where it needs more than the operands.
        result: element type of the result, that of the operands or bool.
        kinds: element types that the operator is defined on.
        low: least value of the example inputs.
        high: greatest value of the example inputs.
    """

    onnx: str
    since: int
    arity: int
    aten: tuple[str, ...] = ()
    tf: str = ""
    keras: str = ""
    torch: str = ""
    result: Result = "same"
    kinds: Kinds = "f"
    low: float = -3.0
    high: float = 3.0


# A table is read by rows.
# fmt: off
ROWS: tuple[Row, ...] = (
    Row("Abs", 1, 1, ("aten::abs",), "Abs", "absolute", "abs", kinds="fi"),
    Row("Neg", 1, 1, ("aten::neg",), "Neg", "negative", "neg", kinds="fi"),
    Row("Exp", 1, 1, ("aten::exp",), "Exp", "exp", "exp"),
    Row("Log", 1, 1, ("aten::log",), "Log", "log", "log", low=0.1),
    Row("Sqrt", 1, 1, ("aten::sqrt",), "Sqrt", "sqrt", "sqrt", low=0.0),
    Row("Reciprocal", 1, 1, ("aten::reciprocal",), "Reciprocal", "reciprocal", "reciprocal", low=0.1),
    Row("Sin", 7, 1, ("aten::sin",), "Sin", "sin", "sin"),
    Row("Cos", 7, 1, ("aten::cos",), "Cos", "cos", "cos"),
    Row("Tan", 7, 1, ("aten::tan",), "Tan", "tan", "tan", low=-1.4, high=1.4),
    Row("Asin", 7, 1, ("aten::asin", "aten::arcsin"), "Asin", "arcsin", "asin", low=-0.95, high=0.95),
    Row("Acos", 7, 1, ("aten::acos", "aten::arccos"), "Acos", "arccos", "acos", low=-0.95, high=0.95),
    Row("Atan", 7, 1, ("aten::atan", "aten::arctan"), "Atan", "arctan", "atan"),
    Row("Sinh", 9, 1, ("aten::sinh",), "Sinh", "sinh", "sinh"),
    Row("Cosh", 9, 1, ("aten::cosh",), "Cosh", "cosh", "cosh"),
    Row("Tanh", 1, 1, ("aten::tanh",), "Tanh", "tanh", "tanh"),
    Row("Asinh", 9, 1, ("aten::asinh", "aten::arcsinh"), "Asinh", "arcsinh", "asinh"),
    Row("Acosh", 9, 1, ("aten::acosh", "aten::arccosh"), "Acosh", "arccosh", "acosh", low=1.05),
    Row("Atanh", 9, 1, ("aten::atanh", "aten::arctanh"), "Atanh", "arctanh", "atanh", low=-0.95, high=0.95),
    Row("Ceil", 1, 1, ("aten::ceil",), "Ceil", "ceil", "ceil"),
    Row("Floor", 1, 1, ("aten::floor",), "Floor", "floor", "floor"),
    Row("Round", 11, 1, (), "Rint", "round", "round"),
    Row("Sign", 9, 1, ("aten::sign", "aten::sgn"), "Sign", "sign", "sign", kinds="fi"),
    Row("Erf", 9, 1, ("aten::erf", "aten::special_erf"), "Erf", "erf", "erf"),
    Row("Sigmoid", 1, 1, ("aten::sigmoid", "aten::special_expit"), "Sigmoid", "sigmoid", "sigmoid"),
    Row("Relu", 1, 1, ("aten::relu",), "Relu", "relu", "relu", kinds="fi"),
    Row("Softsign", 1, 1, (), "Softsign", "softsign", "nn.functional.softsign"),
    Row("Softplus", 1, 1, (), "Softplus", "softplus", "nn.functional.softplus"),
    Row("Mish", 18, 1, ("aten::mish",), "", "", "nn.functional.mish"),
    Row("HardSwish", 14, 1, ("aten::hardswish",), "", "hard_silu", "nn.functional.hardswish"),
    Row("IsNaN", 9, 1, ("aten::isnan",), "IsNan", "isnan", "isnan", result="bool"),
    Row("Not", 1, 1, ("aten::logical_not",), "LogicalNot", "logical_not", "logical_not", result="bool", kinds="b"),
    Row("BitwiseNot", 18, 1, ("aten::bitwise_not",), "Invert", "bitwise_invert", "bitwise_not", kinds="i"),
    Row("Add", 7, 2, (), "AddV2", "add", "add", kinds="fi"),
    Row("Sub", 7, 2, (), "Sub", "subtract", "sub", kinds="fi"),
    Row("Mul", 7, 2, ("aten::mul", "aten::multiply"), "Mul", "multiply", "mul", kinds="fi"),
    Row("Pow", 13, 2, (), "Pow", "power", "pow", low=0.2),
    Row("Max", 8, 2, ("aten::maximum",), "Maximum", "maximum", "maximum", kinds="fi"),
    Row("Min", 8, 2, ("aten::minimum",), "Minimum", "minimum", "minimum", kinds="fi"),
    Row("And", 7, 2, ("aten::logical_and",), "LogicalAnd", "logical_and", "logical_and", result="bool", kinds="b"),
    Row("Or", 7, 2, ("aten::logical_or",), "LogicalOr", "logical_or", "logical_or", result="bool", kinds="b"),
    Row("Xor", 7, 2, ("aten::logical_xor",), "", "logical_xor", "logical_xor", result="bool", kinds="b"),
    Row("Equal", 7, 2, ("aten::eq",), "Equal", "equal", "eq", result="bool", kinds="fib"),
    Row("Less", 7, 2, ("aten::lt", "aten::less"), "Less", "less", "lt", result="bool", kinds="fi"),
    Row(
        "LessOrEqual",
        12,
        2,
        ("aten::le", "aten::less_equal"),
        "LessEqual",
        "less_equal",
        "le",
        result="bool",
        kinds="fi",
    ),
    Row("Greater", 7, 2, ("aten::gt", "aten::greater"), "Greater", "greater", "gt", result="bool", kinds="fi"),
    Row(
        "GreaterOrEqual",
        12,
        2,
        ("aten::ge", "aten::greater_equal"),
        "GreaterEqual",
        "greater_equal",
        "ge",
        result="bool",
        kinds="fi",
    ),
    Row("BitwiseAnd", 18, 2, ("aten::bitwise_and",), "BitwiseAnd", "bitwise_and", "bitwise_and", kinds="i"),
    Row("BitwiseOr", 18, 2, ("aten::bitwise_or",), "BitwiseOr", "bitwise_or", "bitwise_or", kinds="i"),
    Row("BitwiseXor", 18, 2, ("aten::bitwise_xor",), "BitwiseXor", "bitwise_xor", "bitwise_xor", kinds="i"),
    # Compositions: ONNX has no operator of its own.
    Row("square", 0, 1, ("aten::square",), "Square", "square", kinds="fi"),
    Row("rsqrt", 0, 1, ("aten::rsqrt",), "Rsqrt", "rsqrt", low=0.1),
    Row("exp2", 0, 1, ("aten::exp2", "aten::special_exp2"), "", "exp2"),
    Row("expm1", 0, 1, ("aten::expm1", "aten::special_expm1"), "Expm1", "expm1"),
    Row("log1p", 0, 1, ("aten::log1p", "aten::special_log1p"), "Log1p", "log1p", low=-0.9),
    Row("log2", 0, 1, ("aten::log2",), "", "log2", low=0.1),
    Row("log10", 0, 1, ("aten::log10",), "", "log10", low=0.1),
    Row("erfc", 0, 1, ("aten::erfc", "aten::special_erfc"), "Erfc", ""),
    Row("trunc", 0, 1, ("aten::trunc", "aten::fix"), "", "trunc"),
    Row("frac", 0, 1, ("aten::frac",), "", ""),
    Row("silu", 0, 1, ("aten::silu",), "", "silu"),
    Row("log_sigmoid", 0, 1, ("aten::log_sigmoid",), "", "log_sigmoid"),
    Row("relu6", 0, 1, ("aten::relu6",), "Relu6", "relu6"),
    Row("isfinite", 0, 1, ("aten::isfinite",), "IsFinite", "isfinite", result="bool"),
    Row("isinf", 0, 1, ("aten::isinf",), "IsInf", "isinf", result="bool"),
    Row("not_equal", 0, 2, ("aten::ne", "aten::not_equal"), "NotEqual", "not_equal", result="bool", kinds="fib"),
    Row("real_div", 0, 2, (), "RealDiv", "true_divide", low=0.2),
    Row("floor_div", 0, 2, ("aten::floor_divide",), "", "floor_divide", kinds="fi", low=1.0),
    Row("floor_quotient", 0, 2, (), "FloorDiv", "", kinds="fi", low=1.0),
    Row("floor_mod", 0, 2, (), "FloorMod", "mod", kinds="fi", low=1.0),
    Row("trunc_mod", 0, 2, ("aten::fmod",), "TruncateMod", "", kinds="fi", low=1.0),
    Row("atan2", 0, 2, ("aten::atan2", "aten::arctan2"), "Atan2", "arctan2"),
    Row("squared_difference", 0, 2, (), "SquaredDifference", "", kinds="fi"),
    Row("xlogy", 0, 2, ("aten::xlogy", "aten::special_xlogy"), "Xlogy", "", low=0.1),
    Row("div_no_nan", 0, 2, (), "DivNoNan", "divide_no_nan"),
    Row("hypot", 0, 2, ("aten::hypot",), "", "hypot"),
    Row("logaddexp", 0, 2, ("aten::logaddexp",), "", "logaddexp"),
)
# fmt: on

BY_ONNX: dict[str, Row] = {row.onnx: row for row in ROWS if row.since}
BY_TF: dict[str, Row] = {row.tf: row for row in ROWS if row.tf}
