"""Discrete Fourier transforms of real pairs: ONNX DFT where that is exact, else products with matrices of roots."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.graph.runtimes.kernels import exact_transform
from onnxport.opset_maps.lowerings.complex_numbers import conjugate

# Up to this size the transform is a product with the matrix of roots, which is more exact than kernels' DFT and takes a third of
# the time. One of a product of two such sizes, and no power of 2, is two products.
_PRODUCT = 512
# The lengths of transforms that a kernel does exactly, among which the one for a size is chosen when the model runs.
_POWERS = range(3, 40)


def transform(op: OpBuilder, x: ir.Value, axis: int, *, inverse: bool = False, onesided: bool = False) -> ir.Value:
    """The transform along one axis, not normalised in either direction.

    Args:
        op: the builder.
        x: parts along a last axis of size 2, or of size 1 for a real tensor.
        axis: the axis, counted from the first, the last one (the parts) not among them.
        inverse: with the conjugate roots.
        onesided: only the first n // 2 + 1 results, of a real tensor.

    Raises:
        UnsupportedOperator: before opset 17, the axis has a dynamic size.
    """
    if x.shape is None:
        raise UnsupportedOperator("a Fourier transform of an operand of unknown rank")
    size = x.shape[axis]
    if isinstance(size, int) and exact_transform(size) and size > _PRODUCT and op.opset >= 17:
        batched = op.Unsqueeze(x, op.axes(0))
        result = op.Squeeze(_dft(op, batched, axis + 1, inverse=inverse, onesided=onesided), op.axes(0))
        result = _real_ends(op, x, result, axis) if onesided else result
        return op.Mul(result, size_of(op, x, axis)) if inverse else result
    if (factors := _factors(size)) is not None:
        whole = _by_factors(op, x, axis, *factors, inverse=inverse)
    elif op.opset < 17 or (isinstance(size, int) and size <= _PRODUCT):
        return _by_matrix(op, x, axis, inverse=inverse, onesided=onesided)
    else:
        whole = _by_chirp(op, x, axis, inverse=inverse)
    if not onesided:
        return whole
    results = op.Add(op.Div(op.dim(x, axis), 2), 1)
    return _real_ends(op, x, op.Slice(whole, [0], results, [axis]), axis)


def _dft(
    op: OpBuilder,
    x: ir.Value,
    axis: int,
    length: ir.Value | None = None,
    *,
    inverse: bool = False,
    onesided: bool = False,
) -> ir.Value:
    """ONNX DFT, whose axis is an attribute before opset 20, of an operand filled up with zeros to a length."""
    attributes = {"inverse": int(inverse), "onesided": int(onesided)}
    if op.opset >= 20:
        return op.DFT(x, length, op.const(axis), **attributes)
    result = op.DFT(x, length, axis=axis, **attributes)
    if result.shape is None and x.shape is not None:  # of a length that is not known inference gives no rank
        dims: list[Any] = list(x.shape)
        dims[axis], dims[-1] = None, 2
        result.shape = ir.Shape(dims)
    return result


def _real_ends(op: OpBuilder, x: ir.Value, half: ir.Value, axis: int) -> ir.Value:
    """The half spectrum of a real signal with its first result, and the middle one of an even size, real: kernels round there."""
    size = op.Squeeze(op.dim(x, axis), op.axes(0))
    number = op.Range(0, op.Squeeze(op.dim(half, axis), op.axes(0)), 1)
    real = op.Or(op.Equal(number, 0), op.Equal(op.Mul(number, 2), size))
    count = len(half.shape or ())
    at_end = op.Reshape(real, [-1 if i == axis else 1 for i in range(count)])
    imaginary = op.Reshape(op.const([False, True]), [1] * (count - 1) + [2])
    return op.Where(op.And(at_end, imaginary), op.const(0.0, half.dtype), half)


def _factors(size: object) -> tuple[int, int] | None:
    """The two factors of a size above the bound that lie nearest to each other, both within it; None for others."""
    if not isinstance(size, int) or not _PRODUCT < size <= _PRODUCT**2:
        return None
    first = next(item for item in range(math.isqrt(size), 0, -1) if size % item == 0)
    return (first, size // first) if size // first <= _PRODUCT else None


def size_of(op: OpBuilder, x: ir.Value, axis: int) -> ir.Value:
    """Size of one axis as a scalar of the operand's type."""
    return op.cast(op.Squeeze(op.dim(x, axis), op.axes(0)), x.dtype or ir.DataType.FLOAT)


def from_half(op: OpBuilder, half: ir.Value, axis: int, size: int | ir.Value) -> ir.Value:
    """The spectrum of a real signal of `size`: its first size // 2 + 1 results, and the conjugates of the others, mirrored.

    A size that is known only when the model runs is an INT64 vector of one number.
    """
    start = op.const([(size - 1) // 2]) if isinstance(size, int) else op.Div(op.Sub(size, 1), 2)
    mirrored = op.Slice(half, start, [0], [axis], [-1])
    return op.Concat(half, conjugate(op, mirrored), axis=axis)


def _by_matrix(op: OpBuilder, x: ir.Value, axis: int, *, inverse: bool, onesided: bool) -> ir.Value:
    size = x.shape[axis] if x.shape is not None else None
    if not isinstance(size, int):
        raise UnsupportedOperator("a Fourier transform of a dynamic size needs opset 17")
    parts, last = _parts_along(op, x, axis)
    cosines, sines = _roots(
        op, x, np.outer(np.arange(size), np.arange(size // 2 + 1 if onesided else size)), size, inverse
    )
    return _as_pairs(op, _complex(op, parts, op.MatMul, (cosines, sines)), last)


def _by_factors(op: OpBuilder, x: ir.Value, axis: int, first: int, second: int, *, inverse: bool) -> ir.Value:
    """Transforms of the two factors' sizes, one after the other, with roots of the whole size between (Cooley and Tukey 1965).

    With n = second * i + j and k = p + first * q, the root of n * k / size is that of i * p / first, of j * p / size and of
    j * q / second.
    """
    size = first * second
    parts, last = _parts_along(op, x, axis)
    leading = [0] * (len(last) - 1)  # as they are
    parts = [op.Reshape(part, [*leading, first, second]) for part in parts]
    i, j = np.arange(first), np.arange(second)
    rows, between, columns = (
        _roots(op, x, turns, count, inverse)
        for turns, count in ((np.outer(i, i), first), (np.outer(i, j), size), (np.outer(j, j), second))
    )
    parts = _complex(op, parts, lambda part, root: op.MatMul(root, part), rows)
    parts = _complex(op, parts, op.Mul, between)
    parts = _complex(op, parts, op.MatMul, columns)
    swapped = [*range(len(leading)), len(leading) + 1, len(leading)]
    parts = [op.Reshape(op.Transpose(part, perm=swapped), [*leading, size]) for part in parts]
    return _as_pairs(op, parts, last)


def _by_chirp(op: OpBuilder, x: ir.Value, axis: int, *, inverse: bool) -> ir.Value:
    """A convolution with the roots of half of k^2 turns, by transforms of a power of 2, which are exact (Bluestein 1970).

    As n * k is (n^2 + k^2 - (k - n)^2) / 2, the sum over n of x[n] * root(n * k) is one over x[n] times the root of n^2 / 2 and
    the conjugate root of (k - n)^2 / 2. In double, as three transforms follow each other.
    """
    parts, last = _parts_along(op, op.cast(x, ir.DataType.DOUBLE), axis)
    size = op.dim(x, axis)
    number = op.Range(0, op.Squeeze(size, op.axes(0)), 1)
    turns = op.cast(op.Mod(op.Mul(number, number), op.Mul(size, 2)), ir.DataType.DOUBLE)
    angle = op.Div(op.Mul(turns, math.pi if inverse else -math.pi), op.cast(size, ir.DataType.DOUBLE))
    cosines, sines = op.Cos(angle), op.Sin(angle)
    needed = op.Sub(op.Mul(size, 2), 1)
    powers = op.const([2**power for power in _POWERS])
    shorter = op.cast(op.Less(powers, needed), ir.DataType.INT64)
    length = op.Gather(powers, op.reduce("ReduceSum", shorter, [0], keepdims=True), axis=0)
    conjugates = _pairs(op, [cosines, op.Neg(sines)])
    zeros = op.Expand(op.const(0.0, ir.DataType.DOUBLE), op.Concat(op.Sub(length, needed), [2], axis=0))
    around = op.Concat(conjugates, zeros, op.Slice(conjugates, [-1], [0], [0], [-1]), axis=0)
    spread = _dft(op, op.Unsqueeze(around, op.axes(0)), 1)
    factors = tuple(op.Squeeze(op.Gather(spread, part, axis=-1), op.axes(0)) for part in range(2))
    carried = _pairs(op, _complex(op, parts, op.Mul, (cosines, sines)))
    spectrum = _dft(op, op.Unsqueeze(carried, op.axes(0)), len(last), op.Squeeze(length, op.axes(0)))
    product = _complex(op, [op.Gather(spectrum, part, axis=-1) for part in range(2)], op.Mul, factors)
    folded = op.Slice(_dft(op, _pairs(op, product), len(last), inverse=True), [0], size, [len(last)])
    inner = [op.Squeeze(op.Gather(folded, part, axis=-1), op.axes(0)) for part in range(2)]
    return op.cast_like(_as_pairs(op, _complex(op, inner, op.Mul, (cosines, sines)), last), x)


def _complex(
    op: OpBuilder, parts: Sequence[ir.Value], product: Callable[[Any, Any], Any], roots: tuple[ir.Value, ir.Value]
) -> list[ir.Value]:
    """The product of complex numbers, or of real ones where there is one part, with roots."""
    cosines, sines = roots
    real, imaginary = product(parts[0], cosines), product(parts[0], sines)
    if len(parts) == 2:
        real = op.Sub(real, product(parts[1], sines))
        imaginary = op.Add(imaginary, product(parts[1], cosines))
    return [real, imaginary]


def _roots(op: OpBuilder, x: ir.Value, turns: np.ndarray, size: int, inverse: bool) -> tuple[ir.Value, ir.Value]:
    """Cosines and sines of so many turns of 1 / size.

    The cosine of a quarter turn and the sine of half a turn are 0, so that a real signal's middle result is real.
    """
    roots = np.exp((2j if inverse else -2j) * np.pi * (turns % size / size))
    exact = (np.where(np.abs(part) < 1e-15, 0.0, part) for part in (roots.real, roots.imag))
    cosines, sines = (op.const(part, x.dtype, name="roots") for part in exact)
    return cosines, sines


def _parts_along(op: OpBuilder, x: ir.Value, axis: int) -> tuple[list[ir.Value], list[int]]:
    """The real and, where there is one, the imaginary part with the axis last, and how their axes came to lie."""
    rank = len(x.shape or ())
    last = [*(i for i in range(rank - 1) if i != axis), axis]
    count = 2 if x.shape is not None and x.shape[-1] == 2 else 1
    return [op.Transpose(op.Gather(x, part, axis=-1), perm=last) for part in range(count)], last


def _as_pairs(op: OpBuilder, parts: Sequence[ir.Value], last: list[int]) -> ir.Value:
    """The parts in pairs, with their axes in order again."""
    back = [last.index(i) for i in range(len(last))]
    return _pairs(op, [op.Transpose(part, perm=back) for part in parts])


def _pairs(op: OpBuilder, parts: Sequence[ir.Value]) -> ir.Value:
    return op.Concat(*(op.Unsqueeze(part, op.axes(-1)) for part in parts), axis=-1)
