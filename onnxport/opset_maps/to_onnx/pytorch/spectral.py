"""Fourier transforms; torch.fft's functions come here through torch's own decomposition."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import case, f32
from onnxport.opset_maps.lowerings.axes import rank
from onnxport.opset_maps.lowerings.complex_numbers import is_complex
from onnxport.opset_maps.lowerings.spectral import from_half, size_of, transform
from onnxport.opset_maps.maps import aten
from onnxport.opset_maps.to_onnx.pytorch.padding import pad


def _normalised(op: OpBuilder, result: ir.Value, x: ir.Value, axes: Sequence[int], normalization: int) -> ir.Value:
    """By torch's code: 0 as it is, 1 over the root of the count of elements, 2 over the count."""
    if normalization == 0 or not axes:
        return result
    count = size_of(op, x, axes[0])
    for axis in axes[1:]:
        count = op.Mul(count, size_of(op, x, axis))
    return op.Div(result, op.Sqrt(count) if normalization == 1 else count)


@aten.lower(
    "aten::_fft_c2c",
    accepts_complex=True,
    cases=[
        case(lambda x: torch.view_as_real(torch.fft.fft(torch.view_as_complex(x), dim=0)), f32(6, 3, 2)),
        case(lambda x: torch.view_as_real(torch.fft.ifftn(torch.view_as_complex(x), norm="ortho")), f32(4, 5, 2)),
        case(lambda x: torch.view_as_real(torch.fft.fft2(x, s=(4, 8))), f32(2, 5, 6), dynamic=True),
        case(lambda x: torch.view_as_real(torch.fft.fftshift(torch.fft.fft(x))), f32(7)),
        case(lambda x: torch.view_as_real(torch.fft.fft(torch.view_as_complex(x), dim=0)), f32(960, 2, 2)),
        case(lambda x: torch.view_as_real(torch.fft.fft(torch.view_as_complex(x))), f32(3, 960, 2), dynamic=True),
        case(lambda x: torch.view_as_real(torch.fft.fft(x.double(), dim=0).resolve_conj()), f32(37, 2), dynamic=True),
        case(lambda x: torch.view_as_real(torch.fft.fft(x)), f32(2, 1009)),
    ],
)
def c2c(op: OpBuilder, x: ir.Value, dim: Sequence[int], normalization: int, forward: bool) -> ir.Value:
    """DFT along each axis."""
    axes = [axis % (rank(x) - 1) for axis in dim]
    result = x
    for axis in axes:
        result = transform(op, result, axis, inverse=not forward)
    return _normalised(op, result, x, axes, normalization)


@aten.lower(
    "aten::_fft_r2c",
    accepts_complex=True,
    cases=[
        case(lambda x: torch.view_as_real(torch.fft.rfft(x)), f32(2, 8), dynamic=True),
        case(lambda x: torch.view_as_real(torch.fft.rfft2(x, norm="forward")), f32(5, 7)),
        case(lambda x: torch.view_as_real(torch.fft.fft(x, n=9)), f32(2, 6)),
        case(lambda x: torch.view_as_real(torch.fft.rfft(x)), f32(2, 1200), dynamic=True),
    ],
)
def r2c(op: OpBuilder, x: ir.Value, dim: Sequence[int], normalization: int, onesided: bool) -> ir.Value:
    """DFT of a real tensor along the last named axis, then along the others."""
    axes = [axis % rank(x) for axis in dim]
    result = transform(op, op.Unsqueeze(x, op.axes(-1)), axes[-1], onesided=onesided)
    for axis in axes[:-1]:
        result = transform(op, result, axis)
    return _normalised(op, result, x, axes, normalization)


@aten.lower(
    "aten::_fft_c2r",
    accepts_complex=True,
    cases=[
        case(lambda x: torch.fft.irfft(torch.fft.rfft(x)), f32(2, 8)),
        case(lambda x: torch.fft.irfft(torch.view_as_complex(x), n=7), f32(2, 4, 2)),
        case(lambda x: torch.fft.irfft2(torch.view_as_complex(x)), f32(4, 3, 2)),
        case(lambda x: torch.fft.irfft(torch.fft.rfft(x.T), n=x.shape[0]), f32(5, 2), dynamic=True, min_opset=17),
        case(lambda x: torch.fft.irfft(torch.view_as_complex(x)), f32(2, 961, 2)),
    ],
)
def c2r(op: OpBuilder, x: ir.Value, dim: Sequence[int], normalization: int, last_dim_size: int | ir.Value) -> ir.Value:
    """The half that was left out is the conjugate of the other, mirrored; the inverse DFT of both together is real."""
    axes = [axis % (rank(x) - 1) for axis in dim]
    result = x
    for axis in axes[:-1]:
        result = transform(op, result, axis, inverse=True)
    last = axes[-1]
    if isinstance(last_dim_size, int):
        size: int | ir.Value = last_dim_size
        end = op.const([last_dim_size // 2 + 1])
    else:
        size = op.shape_vector([last_dim_size])
        end = op.Add(op.Div(size, 2), 1)
    full = from_half(op, op.Slice(result, [0], end, [last]), last, size)
    result = op.Gather(transform(op, full, last, inverse=True), 0, axis=-1)
    return _normalised(op, result, full, axes, normalization)


def _pairs(x: torch.Tensor) -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch wants complex numbers in new code
        return torch.stft(x, 8, window=torch.hann_window(8), return_complex=False)


@aten.lower(
    "aten::stft",
    accepts_complex=True,
    cases=[
        case(
            lambda x: torch.view_as_real(torch.stft(x, 8, 4, window=torch.hann_window(8), return_complex=True)),
            f32(2, 40),
            dynamic=True,
        ),
        case(
            lambda x: torch.view_as_real(
                torch.stft(
                    x, 8, 3, 6, torch.hamming_window(6), False, normalized=True, onesided=False, return_complex=True
                )
            ),
            f32(40),
        ),
    ],
)
@aten.lower("aten::stft", cases=[case(_pairs, f32(2, 40), dynamic=True)])
def stft(
    op: OpBuilder,
    x: ir.Value,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: ir.Value | None = None,
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> ir.Value:
    """DFT of windows that step along the signal, its numbers as pairs if `return_complex` is false."""
    if is_complex(x) or (window is not None and is_complex(window)) or align_to_window:
        raise UnsupportedOperator("the short-time transform of a complex signal")
    hop = hop_length or n_fft // 4
    length = op.Squeeze(op.dim(x, -1), op.axes(0))
    starts = op.Range(0, op.Add(op.Sub(length, n_fft), 1), hop)
    frames = op.Gather(x, op.Add(op.Unsqueeze(starts, op.axes(1)), np.arange(n_fft)), axis=-1)
    size = win_length or n_fft
    if window is None:
        window = op.const(np.ones(size), x.dtype)
    if size < n_fft:
        left = (n_fft - size) // 2
        window = op.Pad(window, op.const([left, n_fft - size - left]), op.const(0.0, window.dtype))
    framed = op.Mul(frames, window)
    result = transform(op, op.Unsqueeze(framed, op.axes(-1)), rank(framed) - 1, onesided=onesided is not False)
    if normalized:
        result = op.Div(result, float(np.sqrt(n_fft)))
    count = rank(result)
    return op.Transpose(result, perm=[*range(count - 3), count - 2, count - 3, count - 1])


def _centred(mode: str, *more: bool) -> Callable[[torch.Tensor], torch.Tensor]:
    def call(x: torch.Tensor) -> torch.Tensor:
        window, centre = torch.hann_window(8), mode != "none"
        result = torch.ops.aten.stft.center(x, 8, 4, None, window, centre, mode, False, True, *(more or (True,)))
        return result if more else torch.view_as_real(result)

    return call


@aten.lower(
    "aten::stft.center",
    accepts_complex=True,
    cases=[case(_centred("reflect"), f32(2, 40)), case(_centred("constant"), f32(40)), case(_centred("none"), f32(40))],
)
@aten.lower("aten::stft.center", cases=[case(_centred("reflect", False), f32(2, 40))])
def stft_center(op: OpBuilder, x: ir.Value, n_fft: int, *given: Any, **named: Any) -> ir.Value:
    """The transform of a signal that is padded by half a window on both sides, so that frames have their numbers as centre."""
    options = dict(zip(_OF_CENTRES, given, strict=False)) | named
    centred, mode = options.pop("center", True), options.pop("pad_mode", "reflect")
    if centred and is_complex(x):
        raise UnsupportedOperator("the short-time transform of a complex signal")
    return stft(op, pad(op, x, [n_fft // 2, n_fft // 2], mode) if centred else x, n_fft, **options)


# The parameters of `aten::stft.center` behind the length of the transform.
_OF_CENTRES = "hop_length win_length window center pad_mode normalized onesided return_complex align_to_window".split()


@aten.lower(
    "aten::hann_window aten::hamming_window aten::blackman_window aten::bartlett_window aten::kaiser_window",
    cases=[
        case(lambda x: x * torch.hann_window(8), f32(8)),
        case(lambda x: x * torch.hamming_window(7, False), f32(7)),
    ],
)
def window(
    op: OpBuilder, window_length: int, *args: bool | float, dtype: ir.DataType | None = None, **_: object
) -> ir.Value:
    """The window as a constant."""
    name = op.name.removeprefix("aten::").partition(".")[0]
    return op.const(getattr(torch, name)(window_length, *args).numpy(), op.result.dtype)
