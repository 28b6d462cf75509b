"""Complex numbers, as pairs along a last axis, and Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import tensorflow as tf

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import Case, case, f32
from onnxport.opset_maps.lowerings import complex_functions as functions
from onnxport.opset_maps.lowerings.complex_numbers import (
    PART_TYPES,
    Parts,
    argument,
    conjugate,
    division,
    from_real,
    joined,
    modulus,
    part_type,
    parts_of,
    product,
)
from onnxport.opset_maps.lowerings.spectral import from_half, size_of, transform
from onnxport.opset_maps.maps import tensorflow
from onnxport.opset_maps.to_onnx.tensorflow.operands import int64, rank, static_int, static_ints


def _split(z: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    return tf.math.real(z), tf.math.imag(z)


@tensorflow.lower(
    "Complex", accepts_complex=True, cases=[case(lambda x, y: _split(tf.complex(x, y)), f32(2, 3), f32(3))]
)
def complex_(op: OpBuilder, real: ir.Value, imag: ir.Value) -> ir.Value:
    """Both parts, side by side."""
    return joined(op, real, imag)


# TensorFlow's name, what it is of a pair, the function that the case calls, what it gives.
_UNARY: tuple[tuple[str, Callable[[OpBuilder, ir.Value], ir.Value], Callable[[tf.Tensor], tf.Tensor], str], ...] = (
    ("Real", lambda op, z: parts_of(op, z)[0], tf.math.real, "The first part."),
    ("Imag", lambda op, z: parts_of(op, z)[1], tf.math.imag, "The second part."),
    ("ComplexAbs", modulus, tf.abs, "The length of the pair."),
    ("Angle", argument, tf.math.angle, "The angle of the pair."),
    ("Conj", conjugate, lambda z: _split(tf.math.conj(z)), "The second part negated."),
    ("Neg", lambda op, z: op.Neg(z), lambda z: _split(-z), "Part by part."),
    ("Square", lambda op, z: _product(op, z, z), lambda z: _split(tf.square(z)), "The product with itself."),
    (
        "Reciprocal Inv",
        functions.of_pair(lambda op, *z: functions.inverse(op, z)),
        lambda z: _split(tf.math.reciprocal(z)),
        "1 / z.",
    ),
)
_FUNCTIONS: dict[str, functions.OfParts] = {
    "Exp": functions.exp,
    "Expm1": functions.expm1,
    "Log": functions.log,
    "Log1p": functions.log1p,
    "Sqrt": functions.sqrt,
    "Rsqrt": functions.rsqrt,
    "Sin": functions.sin,
    "Cos": functions.cos,
    "Tan": functions.tan,
    "Sinh": functions.sinh,
    "Cosh": functions.cosh,
    "Tanh": functions.tanh,
    "Asin": functions.asin,
    "Acos": functions.acos,
    "Atan": functions.atan,
    "Asinh": functions.asinh,
    "Acosh": functions.acosh,
    "Atanh": functions.atanh,
    "Sigmoid": functions.sigmoid,
}


def _register_unary(
    name: str,
    function: Callable[[OpBuilder, ir.Value], ir.Value],
    call: Callable[[tf.Tensor], tf.Tensor],
    summary: str,
) -> None:
    cases = [case(lambda x, y: call(tf.complex(x, y)), f32(2, 3), f32(2, 3))]

    @tensorflow.lower(name, accepts_complex=True, cases=cases)
    def lower(op: OpBuilder, x: ir.Value) -> ir.Value:
        return function(op, x)

    lower.__doc__ = summary


def _called(name: str) -> Callable[[tf.Tensor], tf.Tensor]:
    return lambda z: _split(getattr(tf.raw_ops, name)(x=z))


for _row in _UNARY:
    _register_unary(*_row)
for _name, _function in _FUNCTIONS.items():
    _register_unary(_name, functions.of_pair(_function), _called(_name), _function.__doc__ or "")


def _aligned(op: OpBuilder, x: ir.Value, y: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Both operands with equal rank, so that their parts stay last when they are broadcast."""
    n = max(rank(x), rank(y))
    x, y = (op.Unsqueeze(item, op.axes(*range(n - rank(item)))) if rank(item) < n else item for item in (x, y))
    return x, y


def _product(op: OpBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    return product(op, parts_of(op, x), parts_of(op, y), lambda a, b: op.Mul(a, b))


def _power(op: OpBuilder, x: Parts, y: Parts) -> Parts:
    real, imaginary = functions.power(op, x, y)
    zero = op.And(op.Equal(x[0], 0.0), op.Equal(x[1], 0.0))
    undefined = op.And(zero, op.Not(op.Greater(y[0], 0.0)))
    nan = op.const(np.nan, real.dtype)
    of_zero = op.Where(op.Less(y[0], 0.0), op.const(np.inf, real.dtype), nan)
    return op.Where(undefined, of_zero, real), op.Where(undefined, nan, imaginary)


def _power_cases() -> list[Case]:
    zeros, powers = np.zeros(5, np.float32), np.array([0, -1, 1, 0, 2], np.float32)

    def run(x: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return _split(tf.pow(tf.complex(x, x), tf.complex(y, y[::-1])))

    return [case(run, zeros, powers)]


# TensorFlow's name, what it is of two pairs, the function that the case calls, the least example input, what it gives.
_Pairs = Callable[[OpBuilder, ir.Value, ir.Value], ir.Value]
_BINARY: tuple[tuple[str, _Pairs, Callable[[tf.Tensor, tf.Tensor], tf.Tensor], float, str], ...] = (
    ("AddV2", lambda op, x, y: op.Add(*_aligned(op, x, y)), tf.add, -3.0, "Part by part."),
    ("Sub", lambda op, x, y: op.Sub(*_aligned(op, x, y)), tf.subtract, -3.0, "Part by part."),
    ("Mul", _product, tf.multiply, -3.0, "(a + bi)(c + di)."),
    (
        "Pow",
        lambda op, x, y: functions.of_pairs(_power)(op, *_aligned(op, x, y)),
        tf.pow,
        0.5,
        "exp(y log x); of 0 to a power with no positive real part infinite or NaN, where PyTorch has 1 for 0 to 0.",
    ),
    (
        "RealDiv Div",
        lambda op, x, y: division(op, parts_of(op, x), parts_of(op, y)),
        tf.divide,
        0.5,
        "Smith's quotient.",
    ),
)


def _register_binary(
    name: str, function: _Pairs, call: Callable[[tf.Tensor, tf.Tensor], tf.Tensor], low: float, summary: str
) -> None:
    def run(x: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return _split(call(tf.complex(x, y), tf.complex(y[:1], x[:1])))

    further = _power_cases() if name == "Pow" else []

    @tensorflow.lower(name, accepts_complex=True, cases=[case(run, f32(2, 3, low=low), f32(2, 3, low=low)), *further])
    def lower(op: OpBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
        return function(op, x, y)

    lower.__doc__ = summary


for _pair in _BINARY:
    _register_binary(*_pair)


@tensorflow.lower("Cast", accepts_complex=True, cases=[case(lambda x: _split(tf.cast(x, tf.complex64)), f32(2, 3))])
def cast(op: OpBuilder, x: ir.Value, *, SrcT: ir.DataType, DstT: ir.DataType) -> ir.Value:
    """From a real type with zeros as second part, between complex types part by part, to a real type the first part."""
    if SrcT in PART_TYPES:
        return op.cast(x if DstT in PART_TYPES else parts_of(op, x)[0], part_type(DstT))
    return from_real(op, op.cast(x, part_type(DstT)))


@tensorflow.lower(
    "Identity StopGradient PreventGradient Snapshot EnsureShape PlaceholderWithDefault DeepCopy",
    accepts_complex=True,
    cases=[case(lambda x, y: _split(tf.identity(tf.complex(x, y))), f32(2), f32(2))],
)
def identity(op: OpBuilder, input: ir.Value, **_: object) -> ir.Value:
    """The operand itself."""
    return input


@tensorflow.lower(
    "Reshape",
    accepts_complex=True,
    cases=[case(lambda x, y: _split(tf.reshape(tf.complex(x, y), [3, -1])), f32(2, 3), f32(2, 3))],
)
def reshape(op: OpBuilder, tensor: ir.Value, shape: ir.Value) -> ir.Value:
    """ONNX Reshape that leaves the parts alone."""
    return op.Reshape(tensor, op.Concat(int64(op, shape), [2], axis=0))


@tensorflow.lower(
    "ExpandDims",
    accepts_complex=True,
    cases=[case(lambda x, y: _split(tf.expand_dims(tf.complex(x, y), -1)), f32(2, 3), f32(2, 3))],
)
def expand_dims(op: OpBuilder, input: ir.Value, dim: ir.Value) -> ir.Value:
    """ONNX Unsqueeze before the parts."""
    return op.Unsqueeze(input, [static_int(op, dim, "dim") % rank(input)])


@tensorflow.lower(
    "Transpose",
    accepts_complex=True,
    cases=[case(lambda x, y: _split(tf.transpose(tf.complex(x, y))), f32(2, 3), f32(2, 3))],
)
def transpose(op: OpBuilder, x: ir.Value, perm: ir.Value) -> ir.Value:
    """ONNX Transpose that leaves the parts last."""
    order = static_ints(op, perm, "perm")
    return op.Transpose(x, perm=[*(item % len(order) for item in order), len(order)])


@tensorflow.lower(
    "ConjugateTranspose",
    accepts_complex=True,
    cases=[case(lambda x, y: _split(tf.transpose(tf.complex(x, y), [1, 0], conjugate=True)), f32(2, 3), f32(2, 3))],
)
def conjugate_transpose(op: OpBuilder, x: ir.Value, perm: ir.Value) -> ir.Value:
    """The conjugate, its axes permuted."""
    return transpose(op, conjugate(op, x), perm)


def _transformed(op: OpBuilder, x: ir.Value, axes: Sequence[int], *, inverse: bool) -> ir.Value:
    for axis in axes:
        x = transform(op, x, axis, inverse=inverse)
        if inverse:
            x = op.Div(x, size_of(op, x, axis))
    return x


def _register(name: str, count: int, inverse: bool) -> None:
    def call(x: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return _split(getattr(tf.raw_ops, name)(input=tf.complex(x, y)))

    @tensorflow.lower(name, accepts_complex=True, cases=[case(call, f32(2, 3, 4, 5), f32(2, 3, 4, 5))])
    def lower(op: OpBuilder, input: ir.Value) -> ir.Value:
        n = rank(input) - 1
        return _transformed(op, input, range(n - count, n), inverse=inverse)

    lower.__doc__ = f"ONNX DFT over the last {count} axes{', divided by their sizes' if inverse else ''}."


def _lengths(op: OpBuilder, fft_length: ir.Value, count: int) -> list[int | ir.Value]:
    """The lengths of a transform along each axis; those that are computed when the model runs as INT64 vectors of one number."""
    if op.constant(fft_length) is not None:
        return [*static_ints(op, fft_length, "fft_length")]
    return [op.Slice(int64(op, fft_length), [place], [place + 1], [0]) for place in range(count)]


def _cut(op: OpBuilder, x: ir.Value, axis: int, size: int | ir.Value) -> ir.Value:
    """The first elements along one axis, of which TensorFlow's kernels ask for as many or more."""
    known = size if isinstance(size, int) else None
    dims: list[Any] = list(x.shape or ())
    if known is not None and dims[axis] == known:
        return x
    dims[axis] = known
    return op.typed(op.Slice(x, [0], op.const([size]) if isinstance(size, int) else size, [axis]), shape=dims)


def _register_real(name: str, count: int) -> None:
    def call(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return _split(getattr(tf.raw_ops, name)(input=x, fft_length=[4, 6][-count:] if count < 3 else [3, 4, 6]))

    def call_at_any_size(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return _split(getattr(tf.raw_ops, name)(input=x, fft_length=tf.tile(tf.shape(x)[:1] + 1, [count])))

    cases = [
        case(call, f32(2, 3, 5, 6)),
        case(call_at_any_size, f32(3, 8, 9, 7), dynamic=True, min_opset=17),
    ]

    @tensorflow.lower(name, accepts_complex=True, cases=cases)
    def lower(op: OpBuilder, input: ir.Value, fft_length: ir.Value) -> ir.Value:
        n = rank(input)
        for axis, size in zip(range(n - count, n), _lengths(op, fft_length, count), strict=True):
            input = _cut(op, input, axis, size)  # noqa: A001
        x = transform(op, op.Unsqueeze(input, [-1]), n - 1, onesided=True)
        return _transformed(op, x, range(n - count, n - 1), inverse=False)

    lower.__doc__ = f"ONNX DFT of a real operand over the last {count} axes, half of the last one."


def _register_real_inverse(name: str, count: int) -> None:
    def call(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        lengths = [3, 4, 7][-count:]
        return getattr(tf.raw_ops, name)(input=tf.complex(x, y), fft_length=lengths)

    def call_at_any_size(x: tf.Tensor) -> tf.Tensor:
        lengths = tf.tile(tf.shape(x)[:1] + 3, [count])
        return getattr(tf.raw_ops, name)(input=tf.complex(x, x[::-1]), fft_length=lengths)

    cases = [
        case(call, f32(2, 3, 5, 5), f32(2, 3, 5, 5)),
        case(call_at_any_size, f32(3, 8, 9, 7), dynamic=True, min_opset=17),
    ]

    @tensorflow.lower(name, accepts_complex=True, cases=cases)
    def lower(op: OpBuilder, input: ir.Value, fft_length: ir.Value) -> ir.Value:
        n = rank(input) - 1
        sizes = _lengths(op, fft_length, count)
        for axis, size in zip(range(n - count, n - 1), sizes[:-1], strict=True):
            input = _cut(op, input, axis, size)  # noqa: A001
        last = sizes[-1]
        x = _cut(op, input, n - 1, last // 2 + 1 if isinstance(last, int) else op.Add(op.Div(last, 2), 1))
        x = _transformed(op, x, range(n - count, n - 1), inverse=True)
        return parts_of(op, _transformed(op, from_half(op, x, n - 1, sizes[-1]), [n - 1], inverse=True))[0]

    lower.__doc__ = (
        f"The real inverse over the last {count} axes, of a spectrum whose other half mirrors the given one."
    )


for _axes, _suffix in ((1, ""), (2, "2D"), (3, "3D")):
    _register(f"FFT{_suffix}", _axes, inverse=False)
    _register(f"IFFT{_suffix}", _axes, inverse=True)
    _register_real(f"RFFT{_suffix}", _axes)
    _register_real_inverse(f"IRFFT{_suffix}", _axes)
