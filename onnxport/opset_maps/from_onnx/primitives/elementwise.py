"""Elementwise arithmetic, comparison and logic."""

from __future__ import annotations

from collections.abc import Callable

from onnxport.opset_maps.from_onnx.primitives.tensors import TensorFamily, primitive
from onnxport.opset_maps.from_onnx.values import Scalar, Tensor


def _unary(onnx: str, meaning: str) -> Callable[[ElementwiseFamily, Tensor], Tensor]:
    """A primitive that is a row of one operand."""

    def primitive(self: ElementwiseFamily, x: Tensor) -> Tensor:
        return self.elementwise(onnx, x)

    primitive.__doc__ = meaning
    return primitive


def _binary(onnx: str, meaning: str) -> Callable[[ElementwiseFamily, Scalar, Scalar], Tensor]:
    """A primitive that is a row of two operands."""

    def primitive(self: ElementwiseFamily, a: Scalar, b: Scalar) -> Tensor:
        return self.elementwise(onnx, a, b)

    primitive.__doc__ = meaning
    return primitive


class ElementwiseFamily(TensorFamily):
    """One result an element."""

    @primitive
    def elementwise(self, name: str, *xs: Scalar) -> Tensor:
        """A row of `opset_maps/elementwise.py` by its ONNX name (``"Asinh"``) or composition name (``"expm1"``)."""

    add = _binary("Add", "a + b.")
    subtract = _binary("Sub", "a - b.")
    multiply = _binary("Mul", "a b.")
    less = _binary("Less", "a < b.")
    less_equal = _binary("LessOrEqual", "a <= b.")
    greater = _binary("Greater", "a > b.")
    greater_equal = _binary("GreaterOrEqual", "a >= b.")
    logical_and = _binary("And", "a and b.")
    logical_or = _binary("Or", "a or b.")
    maximum = _binary("Max", "The greater; NaN where either is.")
    minimum = _binary("Min", "The lesser; NaN where either is.")
    negative = _unary("Neg", "-x.")
    abs = _unary("Abs", "Magnitude.")
    exp = _unary("Exp", "e to the x.")
    log = _unary("Log", "Natural logarithm.")
    sqrt = _unary("Sqrt", "Square root.")
    reciprocal = _unary("Reciprocal", "1 / x.")
    sin = _unary("Sin", "Sine.")
    cos = _unary("Cos", "Cosine.")
    tanh = _unary("Tanh", "Hyperbolic tangent.")
    sigmoid = _unary("Sigmoid", "1 / (1 + exp(-x)).")
    erf = _unary("Erf", "Error function.")
    relu = _unary("Relu", "max(x, 0).")
    softplus = _unary("Softplus", "log(1 + exp(x)) without overflow.")
    floor = _unary("Floor", "Rounded toward minus infinity.")
    ceil = _unary("Ceil", "Rounded toward infinity.")
    round = _unary("Round", "Rounded to nearest, halves to even.")
    sign = _unary("Sign", "-1, 0 or 1.")

    @primitive
    def divide(self, a: Scalar, b: Scalar) -> Tensor:
        """a / b; between integers rounded toward zero."""

    @primitive
    def floor_mod(self, a: Scalar, b: Scalar) -> Tensor:
        """Remainder with the divisor's sign."""

    @primitive
    def trunc_mod(self, a: Scalar, b: Scalar) -> Tensor:
        """Remainder with the dividend's sign."""

    @primitive
    def pow(self, a: Scalar, b: Scalar) -> Tensor:
        """a to the b, in the element type of a; b may have another."""

    @primitive
    def where(self, condition: Tensor, a: Scalar, b: Scalar) -> Tensor:
        """a where the condition holds, else b; a or b may be a Python number, not both."""

    @primitive
    def bitwise_left_shift(self, a: Scalar, b: Scalar) -> Tensor:
        """a << b; 0 where b is at least the width."""

    @primitive
    def bitwise_right_shift(self, a: Scalar, b: Scalar) -> Tensor:
        """a >> b; for unsigned types 0 where b is at least the width."""

    @primitive
    def bitwise_invert(self, x: Tensor) -> Tensor:
        """not x, bit by bit."""

    @primitive
    def logical_not(self, x: Tensor) -> Tensor:
        """not x."""

    @primitive
    def isnan(self, x: Tensor) -> Tensor:
        """Not a number."""

    @primitive
    def isinf(self, x: Tensor) -> Tensor:
        """Infinite of either sign."""

    @primitive
    def equal(self, a: Scalar, b: Scalar) -> Tensor:
        """a = b, of strings too."""

    def not_equal(self, a: Scalar, b: Scalar) -> Tensor:
        """a differs from b."""
        return self.logical_not(self.equal(a, b))

    def square(self, x: Tensor) -> Tensor:
        """x x."""
        return self.multiply(x, x)

    def clip(self, x: Tensor, low: Scalar | None = None, high: Scalar | None = None) -> Tensor:
        """min(max(x, low), high); bounds are numbers or scalar tensors."""
        x = x if low is None else self.maximum(x, low)
        return x if high is None else self.minimum(x, high)
