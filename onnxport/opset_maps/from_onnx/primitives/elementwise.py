"""Elementwise arithmetic, comparison and logic."""

# A primitive's body is its docstring: `primitive` replaces it by a refusal.
# mypy: disable-error-code="empty-body"

from __future__ import annotations

from onnxport.opset_maps.from_onnx.primitives.tensors import TensorFamily, primitive
from onnxport.opset_maps.from_onnx.values import Scalar, Tensor


class ElementwiseFamily(TensorFamily):
    """One result an element."""

    @primitive
    def elementwise(self, name: str, *xs: Scalar) -> Tensor:
        """A row of `opset_maps/elementwise.py` by its ONNX name (``"Asinh"``) or composition name (``"expm1"``)."""

    def add(self, a: Scalar, b: Scalar) -> Tensor:
        """a + b."""
        return self.elementwise("Add", a, b)

    def subtract(self, a: Scalar, b: Scalar) -> Tensor:
        """a - b."""
        return self.elementwise("Sub", a, b)

    def multiply(self, a: Scalar, b: Scalar) -> Tensor:
        """a b."""
        return self.elementwise("Mul", a, b)

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

    def less(self, a: Scalar, b: Scalar) -> Tensor:
        """a < b."""
        return self.elementwise("Less", a, b)

    def less_equal(self, a: Scalar, b: Scalar) -> Tensor:
        """a <= b."""
        return self.elementwise("LessOrEqual", a, b)

    def greater(self, a: Scalar, b: Scalar) -> Tensor:
        """a > b."""
        return self.elementwise("Greater", a, b)

    def greater_equal(self, a: Scalar, b: Scalar) -> Tensor:
        """a >= b."""
        return self.elementwise("GreaterOrEqual", a, b)

    def logical_and(self, a: Scalar, b: Scalar) -> Tensor:
        """a and b."""
        return self.elementwise("And", a, b)

    def logical_or(self, a: Scalar, b: Scalar) -> Tensor:
        """a or b."""
        return self.elementwise("Or", a, b)

    def maximum(self, a: Scalar, b: Scalar) -> Tensor:
        """The greater; NaN where either is."""
        return self.elementwise("Max", a, b)

    def minimum(self, a: Scalar, b: Scalar) -> Tensor:
        """The lesser; NaN where either is."""
        return self.elementwise("Min", a, b)

    def negative(self, x: Tensor) -> Tensor:
        """-x."""
        return self.elementwise("Neg", x)

    def abs(self, x: Tensor) -> Tensor:
        """Magnitude."""
        return self.elementwise("Abs", x)

    def exp(self, x: Tensor) -> Tensor:
        """e to the x."""
        return self.elementwise("Exp", x)

    def log(self, x: Tensor) -> Tensor:
        """Natural logarithm."""
        return self.elementwise("Log", x)

    def sqrt(self, x: Tensor) -> Tensor:
        """Square root."""
        return self.elementwise("Sqrt", x)

    def square(self, x: Tensor) -> Tensor:
        """x x."""
        return self.multiply(x, x)

    def reciprocal(self, x: Tensor) -> Tensor:
        """1 / x."""
        return self.elementwise("Reciprocal", x)

    def sin(self, x: Tensor) -> Tensor:
        """Sine."""
        return self.elementwise("Sin", x)

    def cos(self, x: Tensor) -> Tensor:
        """Cosine."""
        return self.elementwise("Cos", x)

    def tanh(self, x: Tensor) -> Tensor:
        """Hyperbolic tangent."""
        return self.elementwise("Tanh", x)

    def sigmoid(self, x: Tensor) -> Tensor:
        """1 / (1 + exp(-x))."""
        return self.elementwise("Sigmoid", x)

    def erf(self, x: Tensor) -> Tensor:
        """Error function."""
        return self.elementwise("Erf", x)

    def relu(self, x: Tensor) -> Tensor:
        """max(x, 0)."""
        return self.elementwise("Relu", x)

    def softplus(self, x: Tensor) -> Tensor:
        """log(1 + exp(x)) without overflow."""
        return self.elementwise("Softplus", x)

    def floor(self, x: Tensor) -> Tensor:
        """Rounded toward minus infinity."""
        return self.elementwise("Floor", x)

    def ceil(self, x: Tensor) -> Tensor:
        """Rounded toward infinity."""
        return self.elementwise("Ceil", x)

    def round(self, x: Tensor) -> Tensor:
        """Rounded to nearest, halves to even."""
        return self.elementwise("Round", x)

    def sign(self, x: Tensor) -> Tensor:
        """-1, 0 or 1."""
        return self.elementwise("Sign", x)

    def clip(self, x: Tensor, low: Scalar | None = None, high: Scalar | None = None) -> Tensor:
        """min(max(x, low), high); bounds are numbers or scalar tensors."""
        x = x if low is None else self.maximum(x, low)
        return x if high is None else self.minimum(x, high)
