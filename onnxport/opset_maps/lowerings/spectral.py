"""Discrete Fourier transforms of real pairs: ONNX DFT where the opset has it, else a product with the matrix of roots."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.graph.runtimes.kernels import exact_transform
from onnxport.opset_maps.lowerings.complex_numbers import conjugate

# Up to this size the transform is a product with the matrix of roots, which is more exact than kernels' DFT and takes a third of
# the time; the matrix has up to a million numbers.
_PRODUCT = 512


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
    if op.opset < 17 or _loses_digits(x, axis):
        return _by_matrix(op, x, axis, inverse=inverse, onesided=onesided)
    batched = op.Unsqueeze(x, op.axes(0))
    attributes = {"inverse": int(inverse), "onesided": int(onesided)}
    if op.opset >= 20:
        result = op.DFT(batched, None, op.const(axis + 1), **attributes)
    else:
        result = op.DFT(batched, axis=axis + 1, **attributes)
    result = op.Squeeze(result, op.axes(0))
    result = _real_ends(op, x, result, axis) if onesided else result
    return op.Mul(result, size_of(op, x, axis)) if inverse else result


def _real_ends(op: OpBuilder, x: ir.Value, half: ir.Value, axis: int) -> ir.Value:
    """The half spectrum of a real signal with its first result, and the middle one of an even size, real: kernels round there."""
    size = op.Squeeze(op.dim(x, axis), op.axes(0))
    number = op.Range(0, op.Squeeze(op.dim(half, axis), op.axes(0)), 1)
    real = op.Or(op.Equal(number, 0), op.Equal(op.Mul(number, 2), size))
    count = len(half.shape or ())
    at_end = op.Reshape(real, [-1 if i == axis else 1 for i in range(count)])
    imaginary = op.Reshape(op.const([False, True]), [1] * (count - 1) + [2])
    return op.Where(op.And(at_end, imaginary), op.const(0.0, half.dtype), half)


def _loses_digits(x: ir.Value, axis: int) -> bool:
    """Whether a kernel's DFT is less exact than the product, for sizes of which that is no burden.

    Raises:
        UnsupportedOperator: in double, of a size for which there is only that.
    """
    size = x.shape[axis] if x.shape is not None else None
    small = isinstance(size, int) and size <= _PRODUCT
    exact = isinstance(size, int) and exact_transform(size)
    if x.dtype == ir.DataType.DOUBLE and not (small or exact):
        raise UnsupportedOperator(
            f"a Fourier transform in double of a size that is dynamic, or above {_PRODUCT} and no power of 2"
        )
    return small


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
    turns = np.outer(np.arange(size), np.arange(size // 2 + 1 if onesided else size)) % size / size
    roots = np.exp((2j if inverse else -2j) * np.pi * turns)
    rank = len(x.shape or ())
    order = [i for i in range(rank - 1) if i != axis]
    last = [*order, axis]
    count = 2 if x.shape is not None and x.shape[-1] == 2 else 1
    parts = [op.Transpose(op.Gather(x, part, axis=-1), perm=last) for part in range(count)]
    # the cosine of a quarter turn and the sine of half a turn are 0, so that a real signal's middle result is real
    exact = (np.where(np.abs(part) < 1e-15, 0.0, part) for part in (roots.real, roots.imag))
    cosines, sines = (op.const(part, x.dtype, name="roots") for part in exact)
    real, imaginary = op.MatMul(parts[0], cosines), op.MatMul(parts[0], sines)
    if len(parts) == 2:
        real = op.Sub(real, op.MatMul(parts[1], sines))
        imaginary = op.Add(imaginary, op.MatMul(parts[1], cosines))
    back = [last.index(i) for i in range(rank - 1)]
    result = [op.Unsqueeze(op.Transpose(part, perm=back), op.axes(-1)) for part in (real, imaginary)]
    return op.Concat(*result, axis=-1)
