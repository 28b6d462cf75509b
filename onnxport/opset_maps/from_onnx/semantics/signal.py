"""Fourier transforms."""

from __future__ import annotations

import onnx_ir as ir

from onnxport.errors import UnsupportedOperator
from onnxport.opset_maps.from_onnx.axes import int_op, number, part, resolved, scalar
from onnxport.opset_maps.from_onnx.namespace import Namespace
from onnxport.opset_maps.from_onnx.values import Host, Int, Tensor, UnknownUntilRun, known
from onnxport.opset_maps.maps import onnx


def _as_complex(xp: Namespace, x: Tensor) -> Tensor:
    """A tensor whose last axis holds a real part and perhaps an imaginary one."""
    parts = xp.shape(x)[-1]
    if not known(parts):
        raise UnknownUntilRun("whether a signal is complex is known only when the model runs")
    real = part(xp, x, xp.ndim(x) - 1, 0)
    wide = real if xp.dtype(x) in (ir.DataType.FLOAT, ir.DataType.DOUBLE) else xp.astype(real, ir.DataType.FLOAT)
    if parts == 2:
        imag = xp.astype(part(xp, x, xp.ndim(x) - 1, 1), xp.dtype(wide))
    else:
        imag = xp.zeros(xp.shape(wide), xp.dtype(wide))
    return xp.complex(wide, imag)


def _as_pairs(xp: Namespace, z: Tensor, dtype: ir.DataType) -> Tensor:
    pair = xp.stack([xp.real(z), xp.imag(z)], xp.ndim(z))
    return xp.astype(pair, dtype)


def _resized(xp: Namespace, z: Tensor, axis: int, length: Int) -> Tensor:
    """Cut or padded with zeros at the end of an axis."""
    ours = xp.shape(z)[axis]
    if known(ours) and known(length):
        if length <= ours:
            return xp.slice(z, axis, 0, length) if length < ours else z
        return xp.pad(z, [(0, length - ours) if i == axis else (0, 0) for i in range(xp.ndim(z))])
    missing = int_op(xp, "max", int_op(xp, "sub", length, ours), 0)
    wide = xp.pad(z, [(0, missing) if i == axis else (0, 0) for i in range(xp.ndim(z))])
    return xp.slice(wide, axis, 0, length)


@onnx.op("DFT", versions=(17, 20))
def dft(
    xp: Namespace,
    x: Tensor,
    length: Host | None = None,
    axis_operand: Host | None = None,
    *,
    axis: int = 1,
    inverse: int = 0,
    onesided: int = 0,
) -> Tensor:
    """Discrete Fourier transform of a signal whose last axis holds real and imaginary parts."""
    along = number(scalar(axis_operand)) if axis_operand is not None else axis if xp.version < 20 else -2
    along = resolved(along, xp.ndim(x))
    dtype = xp.dtype(x)
    z = _as_complex(xp, x)
    if inverse and onesided:
        return _real_inverse(xp, z, along, None if length is None else scalar(length), dtype)
    if length is not None:
        z = _resized(xp, z, along, scalar(length))
    result = xp.fft(z, along, bool(inverse))
    if onesided:
        half = int_op(xp, "add", int_op(xp, "floor_div", xp.shape(result)[along], 2), 1)
        result = xp.slice(result, along, 0, half)
    return _as_pairs(xp, result, dtype)


def _real_inverse(xp: Namespace, z: Tensor, axis: int, length: Int | None, dtype: ir.DataType) -> Tensor:
    """The real signal of which z is the first half of the spectrum."""
    half = xp.shape(z)[axis]
    n = length if length is not None else int_op(xp, "mul", int_op(xp, "sub", half, 1), 2)
    if not known(n):
        raise UnknownUntilRun("the length of a real signal is known only when the model runs")
    z = _resized(xp, z, axis, n // 2 + 1)
    mirrored = xp.flip(xp.slice(z, axis, 1, (n + 1) // 2), (axis,))
    conjugate = xp.complex(xp.real(mirrored), xp.negative(xp.imag(mirrored)))
    whole = xp.fft(xp.concat([z, conjugate], axis), axis, True)
    return xp.astype(xp.expand_dims(xp.real(whole), [xp.ndim(z)]), dtype)


@onnx.op("STFT", versions=(17,))
def stft(
    xp: Namespace, x: Tensor, step: Host, window: Tensor | None = None, length: Host | None = None, *, onesided: int = 1
) -> Tensor:
    """Fourier transforms of the windowed frames of a signal (batch, time, 1 or 2)."""
    hop = number(scalar(step))
    if length is not None:
        size = scalar(length)
    elif window is not None:
        size = xp.shape(window)[0]
    else:
        raise UnsupportedOperator("neither window nor frame_length is given")
    dtype = xp.dtype(x)
    z = _as_complex(xp, x)
    total = xp.shape(z)[1]
    frames = int_op(xp, "add", int_op(xp, "floor_div", int_op(xp, "sub", total, size), hop), 1)
    starts = xp.multiply(xp.arange(0, frames), hop)
    index = xp.add(xp.expand_dims(starts, [1]), xp.expand_dims(xp.arange(0, size), [0]))
    cut = xp.take(z, index, 1)
    if window is not None:
        shape = xp.astype(window, xp.dtype(xp.real(cut)))
        cut = xp.complex(xp.multiply(xp.real(cut), shape), xp.multiply(xp.imag(cut), shape))
    result = xp.fft(cut, 2)
    if onesided:
        result = xp.slice(result, 2, 0, int_op(xp, "add", int_op(xp, "floor_div", size, 2), 1))
    return _as_pairs(xp, result, dtype)
