"""Spectra of sound, and their coefficients on the scale of hearing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict, Unpack

import numpy as np
import onnx_ir as ir
import tensorflow as tf

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import case, f32
from onnxport.opset_maps.lowerings.axes import size
from onnxport.opset_maps.lowerings.spectral import transform
from onnxport.opset_maps.maps import tensorflow
from onnxport.opset_maps.to_onnx.tensorflow.operands import static_int

_FLOAT, _DOUBLE, _INT64 = ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.INT64
_FLOOR = 1e-12  # what TensorFlow takes the logarithm of at least


def _spectrogram(window: int, stride: int, squared: bool = False) -> Callable[[Any], Any]:
    return lambda x: tf.raw_ops.AudioSpectrogram(input=x, window_size=window, stride=stride, magnitude_squared=squared)


@tensorflow.lower(
    "AudioSpectrogram",
    cases=[
        case(_spectrogram(16, 8), f32(64, 2)),
        case(_spectrogram(25, 10, True), f32(70, 1), dynamic=True),
        case(_spectrogram(16, 8), f32(9, 2)),
    ],
)
def audio_spectrogram(
    op: OpBuilder, input: ir.Value, *, window_size: int, stride: int, magnitude_squared: bool = False
) -> ir.Value:
    """The Fourier transform of windows, weighted by a raised cosine, in double; its length is a power of two."""
    length = 1 << (window_size - 1).bit_length() if window_size > 1 else 1
    weights = 0.5 - 0.5 * np.cos(2.0 * np.pi * np.arange(window_size) / window_size)
    samples = op.Transpose(op.cast(input, _DOUBLE), perm=[1, 0])
    # whole windows; the division rounds towards zero
    count = op.Div(op.Add(op.Sub(size(op, input, 0), window_size), stride), stride)
    starts = op.Mul(op.Range(0, op.Max(count, 0), 1), stride)
    places = op.Add(op.Unsqueeze(starts, op.axes(1)), op.const(np.arange(window_size)))
    frames = op.Mul(op.Gather(samples, places, axis=1), op.const(weights))
    if length > window_size:
        frames = op.Pad(frames, op.const([0, 0, 0, 0, 0, length - window_size]))
    spectrum = transform(op, op.Unsqueeze(frames, op.axes(3)), 2, onesided=True)
    power = op.reduce("ReduceSumSquare", spectrum, [3], keepdims=False)
    return op.cast(power if magnitude_squared else op.Sqrt(power), _FLOAT)


def _heard(frequency: Any) -> Any:
    return 1127.0 * np.log1p(np.asarray(frequency, np.float64) / 700.0)


def _bank(bins: int, rate: float, count: int, low: float, high: float) -> np.ndarray:
    """The weights of triangles that lie evenly on the scale of hearing, [bins, count]."""
    start, end = _heard(low), _heard(high)
    centres = start + (end - start) / (count + 1) * np.arange(1, count + 2)
    step = 0.5 * rate / (bins - 1)
    first, last = int(1.5 + low / step), int(high / step)
    result = np.zeros((bins, count))
    for place in range(first, min(last + 1, bins)):
        heard = _heard(place * step)
        channel = int(np.searchsorted(centres[:count], heard)) - 1
        before = centres[channel] if channel >= 0 else start
        falling = (centres[channel + 1] - heard) / (centres[channel + 1] - before)
        if channel >= 0:
            result[place, channel] = falling
        if channel + 1 < count:
            result[place, channel + 1] = 1.0 - falling
    return result


def _coefficients(**given: Any) -> Callable[[Any], Any]:
    return lambda x: tf.raw_ops.Mfcc(spectrogram=x, sample_rate=16000, **given)


class _Bands(TypedDict, total=False):
    """Attributes of what is heard."""

    upper_frequency_limit: float
    lower_frequency_limit: float
    filterbank_channel_count: int
    dct_coefficient_count: int


@tensorflow.lower(
    "Mfcc",
    cases=[
        case(_coefficients(), f32(2, 5, 129, low=0.0), dynamic=True),
        case(
            _coefficients(
                upper_frequency_limit=7000.0,
                lower_frequency_limit=100.0,
                filterbank_channel_count=20,
                dct_coefficient_count=8,
            ),
            f32(1, 4, 65, low=0.0),
        ),
    ],
)
def mfcc(
    op: OpBuilder,
    spectrogram: ir.Value,
    sample_rate: ir.Value,
    **bands: Unpack[_Bands],
) -> ir.Value:
    """The cosine transform of the logarithm of what a bank of triangles hears, in double."""
    low, high = bands.get("lower_frequency_limit", 20.0), bands.get("upper_frequency_limit", 4000.0)
    count, given = bands.get("filterbank_channel_count", 40), bands.get("dct_coefficient_count", 13)
    bins = spectrogram.shape[2] if spectrogram.shape is not None else None
    if not isinstance(bins, int) or bins < 2:
        raise UnsupportedOperator("Mfcc: the number of frequencies is only known when the model runs")
    bank = _bank(bins, float(static_int(op, sample_rate, "sample_rate")), count, low, high)
    used = np.flatnonzero(bank.any(axis=1))
    if not len(used):
        raise UnsupportedOperator("Mfcc: no frequency lies between the limits")
    heard = op.Slice(spectrogram, [int(used[0])], [int(used[-1]) + 1], [2])
    channels = op.MatMul(op.Sqrt(op.cast(heard, _DOUBLE)), op.const(bank[used[0] : used[-1] + 1], name="bank"))
    levels = op.Log(op.Where(op.Less(channels, _FLOOR), op.const(_FLOOR, _DOUBLE), channels))
    angles = np.outer(np.arange(count) + 0.5, np.arange(given)) * np.pi / count
    cosines = op.const(np.sqrt(2.0 / count) * np.cos(angles), name="cosines")
    return op.cast(op.MatMul(levels, cosines), _FLOAT)
