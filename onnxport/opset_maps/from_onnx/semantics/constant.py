"""Constants, element types, and tensors that need no operand."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypedDict, Unpack

import numpy as np
import onnx_ir as ir

from onnxport.errors import UnsupportedOperator
from onnxport.opset_maps.cases import f32
from onnxport.opset_maps.from_onnx.axes import int_op, number, real, scalar, size_operand, sizes
from onnxport.opset_maps.from_onnx.cases import graph
from onnxport.opset_maps.from_onnx.namespace import Namespace
from onnxport.opset_maps.from_onnx.values import (
    Host,
    HostValue,
    Int,
    Ints,
    Law,
    Tensor,
    UnknownUntilRun,
    all_known,
    known,
)
from onnxport.opset_maps.maps import onnx


@onnx.op("Constant", versions=(1, 9, 11, 12, 13, 19, 21, 23, 24, 25))
def constant(xp: Namespace, **attributes: Any) -> HostValue:
    """The value of the attribute, whichever it is."""
    ((name, value),) = attributes.items()
    if name == "value":
        return value if isinstance(value, HostValue) else HostValue(value.numpy(), value.dtype)
    if name.startswith("value_string"):
        texts = np.empty(len(value) if name == "value_strings" else (), object)
        texts[...] = list(value) if name == "value_strings" else value
        return HostValue(texts, ir.DataType.STRING)
    if name in ("value_int", "value_ints"):
        return HostValue(np.asarray(value, np.int64), ir.DataType.INT64)
    if name in ("value_float", "value_floats"):
        return HostValue(np.asarray(value, np.float32), ir.DataType.FLOAT)
    raise UnsupportedOperator(f"a constant given as {name} has no mapping")


@onnx.op("ConstantOfShape", versions=(9, 20, 21, 23, 24, 25))
def constant_of_shape(xp: Namespace, shape: Host, *, value: HostValue | None = None) -> Any:
    """A tensor of one repeated value; a short integer vector stays on the Python side."""
    dtype = value.dtype if value is not None else ir.DataType.FLOAT
    fill = value.array.reshape(-1)[0] if value is not None else np.float32(0)
    dims = sizes(shape)
    if dtype == ir.DataType.INT64 and all_known(dims) and len(dims) <= 1 and math.prod(dims) <= 64:
        return HostValue(np.full(dims, fill), dtype)
    return xp.full(dims, fill.item() if dtype.bitwidth >= 8 else float(fill), dtype)


@onnx.op("Cast", versions=(1, 6, 9, 13, 19, 21, 23, 24, 25, 28))
def cast(xp: Namespace, x: Tensor, *, to: int | str, saturate: int = 1, round_mode: str = "up") -> Tensor:
    """x in another element type."""
    dtype = ir.DataType[to] if isinstance(to, str) else ir.DataType(to)
    return convert(xp, x, dtype, bool(saturate), round_mode)


@onnx.op("CastLike", versions=(15, 19, 21, 23, 24, 25))
def cast_like(xp: Namespace, x: Tensor, like: Tensor, *, saturate: int = 1, round_mode: str = "up") -> Tensor:
    """x in the element type of another tensor."""
    dtype = xp.input_dtype(1)
    return convert(xp, x, dtype if dtype is not None else xp.dtype(like), bool(saturate), round_mode)


def convert(xp: Namespace, x: Tensor, dtype: ir.DataType, saturate: bool = True, round_mode: str = "up") -> Tensor:
    """Cast, whose only source and target that are no numbers are strings."""
    source = xp.input_dtype(0) or xp.dtype(x)
    if dtype == source:
        return x
    if dtype.name == "FLOAT8E8M0":
        return _power_of_two(xp, x, round_mode)
    return xp.astype(x, dtype, saturate)


def _power_of_two(xp: Namespace, x: Tensor, round_mode: str) -> Tensor:
    """x as FLOAT8E8M0, which holds an exponent alone: rounded up, down or to the nearest (halves up).

    Source: ONNX Cast-24; the exponent field of a float32 is that of the result.
    """
    wide = xp.astype(x, ir.DataType.FLOAT)
    bits = xp.bitcast(wide, ir.DataType.INT32)
    # Integer division by a power of two is the shift that every framework has for signed integers of known sign.
    exponent = xp.divide(xp.elementwise("BitwiseAnd", bits, 0x7F800000), 1 << 23)
    fraction = xp.elementwise("BitwiseAnd", bits, 0x007FFFFF)
    limit = {"up": 0, "nearest": (1 << 22) - 1, "down": 1 << 23}[round_mode]
    # The least power stands for an exponent field of 0 and of fraction 1/2; below it nothing is left to round up to.
    carry = xp.logical_and(
        xp.greater(fraction, limit), xp.logical_or(xp.greater(exponent, 0), xp.greater(fraction, 1 << 22))
    )
    exponent = xp.add(exponent, xp.astype(carry, ir.DataType.INT32))
    exponent = xp.where(xp.isnan(wide), 255, xp.minimum(exponent, 254))
    return xp.bitcast(xp.astype(exponent, ir.DataType.UINT8), ir.DataType.FLOAT8E8M0)


@onnx.op("BitCast", versions=(26,))
def bit_cast(xp: Namespace, x: Tensor, *, to: int) -> Tensor:
    """The bits of x read as another type."""
    return xp.bitcast(x, ir.DataType(to))


@onnx.op("Range", versions=(11, 27))
def range_(xp: Namespace, start: Host, limit: Host, delta: Host) -> Any:
    """start, start + delta, ... before limit."""
    bounds = [scalar(item) for item in (start, limit, delta)]
    dtype = xp.input_dtype(0) or ir.DataType.INT64
    if not dtype.is_floating_point():
        return _whole_range(xp, bounds[0], bounds[1], bounds[2], dtype)
    whole = [int(item) if isinstance(item, float) and item.is_integer() else item for item in bounds]
    if all(known(item) or xp.is_whole(item) for item in whole) and not all(map(known, whole)):
        return xp.astype(_whole_range(xp, whole[0], whole[1], whole[2], ir.DataType.INT64), dtype)
    if not all(isinstance(item, (int, float)) for item in bounds):
        raise UnknownUntilRun("the bounds of a floating-point range are known only when the model runs")
    count = max(math.ceil((bounds[1] - bounds[0]) / bounds[2]), 0)
    steps = xp.astype(xp.arange(0, count, 1, ir.DataType.INT64), dtype)
    return xp.add(xp.multiply(steps, bounds[2]), bounds[0])


def _whole_range(xp: Namespace, start: Int, limit: Int, delta: Int, dtype: ir.DataType) -> Tensor:
    """A range of whole numbers, empty where the step leads away from the limit, which frameworks refuse."""
    if known(delta):
        return xp.arange(start, int_op(xp, "max" if delta > 0 else "min", start, limit), delta, dtype)
    count = int_op(xp, "max", 0, int_op(xp, "ceil_div", int_op(xp, "sub", limit, start), delta))
    steps = xp.multiply(xp.arange(0, count), size_operand(xp, delta))
    return xp.astype(xp.add(steps, size_operand(xp, start)), dtype)


@onnx.op("EyeLike", versions=(9, 22))
def eye_like(xp: Namespace, x: Tensor, *, dtype: int | None = None, k: int = 0) -> Tensor:
    """Ones on diagonal k of a matrix of the shape of x."""
    rows, columns = xp.shape(x)
    i = xp.expand_dims(xp.arange(0, rows), [1])
    j = xp.expand_dims(xp.arange(0, columns), [0])
    wanted = ir.DataType(dtype) if dtype is not None else xp.dtype(x)
    return xp.astype(xp.equal(xp.subtract(j, i), k), wanted)


class DrawnAttributes(TypedDict, total=False):
    """Attributes of random tensors."""

    dtype: int | None
    seed: float | None


class UniformAttributes(DrawnAttributes, total=False):
    """Those of the uniform law."""

    high: float
    low: float


class NormalAttributes(DrawnAttributes, total=False):
    """Those of the normal law."""

    mean: float
    scale: float


def _drawn(
    xp: Namespace, like: Tensor | None, shape: Ints, form: DrawnAttributes, law: Law, a: float, b: float
) -> Tensor:
    dtype = form.get("dtype") or (ir.DataType.FLOAT if like is None else xp.dtype(like))
    sizes = shape if like is None else xp.shape(like)
    return xp.random(law, sizes, a, b, ir.DataType(dtype), form.get("seed"))


@onnx.op(
    "RandomNormal",
    versions=(1, 22),
    cases=[graph("() => (float[50] y) {x = RandomNormal <shape = [50], mean = 7.0, scale = 0.001> () y = Round(x)}")],
)
@onnx.op(
    "RandomNormalLike",
    versions=(1, 22),
    cases=[
        graph(
            "(float[N, 9] x) => (float[N, 9] y) {z = RandomNormalLike <mean = 7.0, scale = 0.001> (x) y = Round(z)}",
            f32(5, 9),
        )
    ],
)
def random_normal(
    xp: Namespace, like: Tensor | None = None, *, shape: Ints = (), **form: Unpack[NormalAttributes]
) -> Tensor:
    """Normally distributed, of a shape or that of another tensor."""
    return _drawn(xp, like, shape, form, "normal", form["mean"], form["scale"])


@onnx.op(
    "RandomUniform",
    versions=(1, 22),
    cases=[graph("() => (float[50] y) {x = RandomUniform <shape = [50], low = 3.0, high = 4.0> () y = Floor(x)}")],
)
@onnx.op("RandomUniformLike", versions=(1, 22))
def random_uniform(
    xp: Namespace, like: Tensor | None = None, *, shape: Ints = (), **form: Unpack[UniformAttributes]
) -> Tensor:
    """Uniformly distributed, of a shape or that of another tensor."""
    return _drawn(xp, like, shape, form, "uniform", form["low"], form["high"])


@onnx.op("Bernoulli", versions=(15, 22))
def bernoulli(xp: Namespace, x: Tensor, *, dtype: int | None = None, seed: float | None = None) -> Tensor:
    """1 with probability x."""
    drawn = xp.random("uniform", xp.shape(x), 0.0, 1.0, xp.dtype(x), seed)
    return xp.astype(xp.less(drawn, x), ir.DataType(dtype) if dtype else xp.dtype(x))


@onnx.op(
    "Multinomial",
    versions=(7, 22),
    cases=[
        graph(
            "(float[N, 3] x) => (int32[N, 20] y) {y = Multinomial <sample_size = 20> (x)}",
            np.array([[-90, 90, -90], [90, -90, -90]], np.float32),
        )
    ],
)
def multinomial(xp: Namespace, x: Tensor, *, dtype: int = 6, sample_size: int = 1, seed: float | None = None) -> Tensor:
    """Samples of classes with unnormalised log probabilities x: the greatest after adding Gumbel noise."""
    batch, classes = xp.shape(x)
    uniform = xp.random("uniform", (batch, sample_size, classes), 1e-7, 1.0, xp.dtype(x), seed)
    gumbel = xp.negative(xp.log(xp.negative(xp.log(uniform))))
    return xp.astype(xp.argmax(xp.add(xp.expand_dims(x, [1]), gumbel), 2), ir.DataType(dtype))


@onnx.op("Dropout", versions=(1, 6, 7, 10, 12, 13, 22))
def dropout(
    xp: Namespace, x: Tensor, ratio: Host | None = None, training_mode: Host | None = None, **attributes: Any
) -> Any:
    """x itself in inference; in training mode x with a share `ratio` of its elements 0 and the others scaled up."""
    if xp.version < 12:
        training = not attributes.get("is_test", 1)
    else:
        training = training_mode is not None and scalar(training_mode)
    if training is False:
        flags = xp.version >= 10
        mask = xp.full(xp.shape(x), flags, ir.DataType.BOOL if flags else xp.dtype(x)) if xp.wants(1) else None
        return (x, mask) if xp.output_count > 1 else x
    share = attributes["ratio"] if "ratio" in attributes else 0.5 if ratio is None else scalar(ratio)
    if training is not True or not isinstance(share, (int, float)):
        raise UnknownUntilRun("whether Dropout trains is known only when the model runs")
    if share == 0:
        kept = xp.full(xp.shape(x), True, ir.DataType.BOOL)
        return (x, kept) if xp.output_count > 1 else x
    drawn = xp.random("uniform", xp.shape(x), 0.0, 1.0, xp.dtype(x), attributes.get("seed"))
    kept = xp.greater_equal(drawn, share)
    result = xp.where(kept, xp.divide(x, 1 - share), xp.zeros((), xp.dtype(x)))
    return (result, kept) if xp.output_count > 1 else result


@onnx.op("MelWeightMatrix", versions=(17,))
def mel_weight_matrix(
    xp: Namespace, bins: Host, length: Host, rate: Host, lower: Host, upper: Host, *, output_datatype: int = 1
) -> HostValue:
    """Weights that gather the bins of a spectrum into mel bins.

    Source: the operator's reference in the ONNX specification, MelWeightMatrix-17.
    """
    count, frame, sample_rate = number(scalar(bins)), number(scalar(length)), number(scalar(rate))
    low, high = real(scalar(lower)), real(scalar(upper))
    spectrum = frame // 2 + 1
    mel_low, mel_high = (2595 * math.log10(1 + f / 700) for f in (low, high))
    edges = np.arange(count + 2) * ((mel_high - mel_low) / (count + 2)) + mel_low
    positions = np.floor((frame + 1) * (700 * (np.power(10, edges / 2595) - 1)) / sample_rate).astype(np.int64)
    weights = np.zeros((spectrum, count))
    for i in range(count):
        left, centre, right = positions[i : i + 3]
        if centre == left:
            weights[centre, i] = 1
        else:
            weights[left : centre + 1, i] = np.arange(centre - left + 1) / (centre - left)
        if right > centre:
            weights[centre:right, i] = np.arange(right - centre, 0, -1) / (right - centre)
    dtype = ir.DataType(output_datatype)
    return HostValue(weights.astype(dtype.numpy()), dtype)


# Windows sum terms[k] cos(2 pi k n / N), N the size or, for a symmetric window, the size less one.
_WINDOWS: dict[str, tuple[float, ...]] = {
    "BlackmanWindow": (0.42, -0.5, 0.08),
    "HammingWindow": (25 / 46, -21 / 46),  # the specification's constants
    "HannWindow": (0.5, -0.5),
}


def _window(name: str) -> Callable[..., Any]:
    def operator(xp: Namespace, size: Host, *, output_datatype: int = 1, periodic: int = 1) -> HostValue:
        count = number(scalar(size))
        n = np.arange(count) / max(count if periodic else count - 1, 1)
        terms = [term * np.cos(2 * np.pi * k * n) for k, term in enumerate(_WINDOWS[name])]
        values = sum(terms[1:]) + terms[0]  # the largest last: Blackman's ends are 0, not what rounding leaves
        dtype = ir.DataType(output_datatype)
        return HostValue(np.asarray(values).astype(dtype.numpy()), dtype)

    operator.__doc__ = f"{name.removesuffix('Window')} window."
    return operator


for _op in _WINDOWS:
    onnx.op(_op, versions=(17,))(_window(_op))
