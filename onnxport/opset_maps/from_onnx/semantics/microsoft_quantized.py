"""Quantized elementwise operators and pools of com.microsoft, as onnxruntime's quantisers and optimisers write them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from itertools import zip_longest
from typing import Any, TypedDict, Unpack

import onnx_ir as ir

from onnxport.errors import UnsupportedOperator
from onnxport.opset_maps.cases import Case, f32
from onnxport.opset_maps.from_onnx.axes import product, resolved, size_operand
from onnxport.opset_maps.from_onnx.cases import graph
from onnxport.opset_maps.from_onnx.namespace import Namespace
from onnxport.opset_maps.from_onnx.semantics import elementwise, quantization, windows
from onnxport.opset_maps.from_onnx.semantics.linear import centred
from onnxport.opset_maps.from_onnx.semantics.microsoft import microsoft_op
from onnxport.opset_maps.from_onnx.semantics.quantization import dequantize_linear, saturated
from onnxport.opset_maps.from_onnx.values import Int, Tensor, known

_FLOAT = ir.DataType.FLOAT


def quantized_case(
    call: str, result: str, *inputs: Any, operands: str = "float[N, 4] x", held: str = "", more: str = ""
) -> Any:
    """A case whose operands are quantised in the graph: `q` is x in uint8, `p` in another scale."""
    constants = "".join(
        f"{name} = Constant <value = {kind} {{{value}}}> () "
        for name, kind, value in (
            ("s", "float", 0.0317),
            ("z", "uint8", 120),
            ("t", "float", 0.0471),
            ("u", "uint8", 131),
        )
    )
    body = f"{constants}{held}q = QuantizeLinear (x, s, z) p = QuantizeLinear (x, t, u) {more}{call}"
    return graph(f"({operands}) => ({result}) {{{body}}}", *inputs)


def _real(xp: Namespace, x: Tensor, scale: Tensor, zero: Tensor | None, axis: int = 1) -> Tensor:
    return dequantize_linear(xp, x, scale, zero, axis=axis)


def requantized(xp: Namespace, x: Tensor, scale: Tensor, zero: Tensor | None, dtype: ir.DataType) -> Tensor:
    """x / scale, rounded, plus the zero point."""
    offset = None if zero is None else xp.astype(zero, _FLOAT)
    return saturated(xp, xp.divide(x, scale), offset, dtype)


_Pair = Callable[[Namespace, Sequence[Tensor], Sequence[Tensor], Sequence[Tensor]], Tensor]


def _pair(compute: _Pair) -> Callable[..., Tensor]:
    """An operator of two quantized tensors, from what computes its result, the zero point added and not yet rounded.

    Operands come with their scales and zero points in FLOAT, the result's scale and zero point follow. They are rounded where
    onnxruntime's kernels for x86 round them: a sum like the x + 1 in Gelu lies in the middle of two steps for every x.
    """

    def operator(
        xp: Namespace,
        a: Tensor,
        a_scale: Tensor,
        a_zero: Tensor | None,
        b: Tensor,
        b_scale: Tensor,
        b_zero: Tensor | None,
        y_scale: Tensor,
        y_zero: Tensor | None = None,
    ) -> Tensor:
        def form(scale: Tensor, zero: Tensor | None) -> tuple[Tensor, Tensor]:
            return scale, xp.multiply(scale, 0) if zero is None else xp.astype(zero, _FLOAT)

        left, right = (xp.with_slope(xp.astype(x, _FLOAT), x) for x in (a, b))
        sides = (left, *form(a_scale, a_zero)), (right, *form(b_scale, b_zero))
        return saturated(xp, compute(xp, *sides, form(y_scale, y_zero)), None, xp.dtype(a))

    operator.__doc__ = compute.__doc__
    return operator


def _sum(xp: Namespace, a: Sequence[Tensor], b: Sequence[Tensor], y: Sequence[Tensor]) -> Tensor:
    """Sum of quantized numbers, quantized."""
    (x, x_scale, x_zero), (z, z_scale, z_zero), (scale, zero) = a, b, y
    x_factor, z_factor = xp.divide(x_scale, scale), xp.divide(z_scale, scale)
    fixed = xp.subtract(zero, xp.add(xp.multiply(x_factor, x_zero), xp.multiply(z_factor, z_zero)))
    if _is_repeated(xp, x, z):
        return _fused(xp, z, z_factor, xp.add(fixed, xp.multiply(x, x_factor)))
    if _is_repeated(xp, z, x):
        return _fused(xp, x, x_factor, xp.add(fixed, xp.multiply(z, z_factor)))
    return _fused(xp, x, x_factor, _fused(xp, z, z_factor, fixed))


def _fused(xp: Namespace, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """a b + c in FLOAT, rounded once."""
    a, b, c = (xp.astype(item, ir.DataType.DOUBLE) for item in (a, b, c))
    return xp.astype(xp.add(xp.multiply(a, b), c), _FLOAT)


def _is_repeated(xp: Namespace, x: Tensor, other: Tensor) -> bool:
    """Whether one element of `x` goes with a whole row of `other`."""
    ours, theirs = ((1, *xp.shape(item))[::-1] for item in (x, other))
    pairs = zip_longest(ours, theirs, fillvalue=1)
    n, _ = next((pair for pair in pairs if not (known(pair[0]) and known(pair[1]) and pair[0] == pair[1] == 1)), (0, 0))
    return known(n) and n == 1


def _product(xp: Namespace, a: Sequence[Tensor], b: Sequence[Tensor], y: Sequence[Tensor]) -> Tensor:
    """Product of quantized numbers, quantized."""
    (x, x_scale, x_zero), (z, z_scale, z_zero), (scale, zero) = a, b, y
    factor = xp.divide(xp.multiply(x_scale, z_scale), scale)
    whole = xp.multiply(xp.subtract(x, x_zero), xp.subtract(z, z_zero))
    return xp.add(xp.multiply(whole, factor), zero)


for _op_type, _compute in (("QLinearAdd", _sum), ("QLinearMul", _product)):
    _call = f"y = com.microsoft.{_op_type} (q, s, z, p, t, u, t, z)"
    _steps = (  # of a whole step and a half: every sum of the first pair lies in the middle of two
        f"k = Constant <value = float {{0.015686275}}> () h = Constant <value = float {{0.007843138}}> () "
        f"c = Constant <value = int8 {{0}}> () e = Constant <value = int8 {{-128}}> () "
        f"o = Constant <value = int8 {{127}}> () m = QuantizeLinear (x, k, c) n = QuantizeLinear (x, h, c) "
        f"w = Constant <value = int8[2, 1] {{127, -3}}> () g = com.microsoft.{_op_type} (m, k, c, o, h, c, k, e) "
        f"i = com.microsoft.{_op_type} (w, h, c, m, k, c, k, c) j = com.microsoft.{_op_type} (m, k, c, n, h, c, k, e) "
    )
    microsoft_op(
        _op_type,
        quantized_case(_call, "uint8[N, 4] y", f32(3, 4, low=-2.0, high=2.0)),
        quantized_case(
            "y = Concat <axis = 0> (g, i, j)", "int8[N, 40] y", f32(2, 40), operands="float[2, 40] x", held=_steps
        ),
    )(_pair(_compute))


class LayoutForm(TypedDict, total=False):
    """Whether an image has its channels last."""

    channels_last: int


def _planes(xp: Namespace, x: Tensor, compute: Callable[[Tensor], Tensor], form: Any) -> Tensor:
    """`compute` of an image with its channels first; the attribute `channels_last` says its layout, which the result keeps."""
    if not form.pop("channels_last", 0):
        return compute(x)
    rank = xp.ndim(x)
    first = compute(xp.permute_dims(x, (0, rank - 1, *range(1, rank - 1))))
    return xp.permute_dims(first, (0, *range(2, rank), 1))


def _in_whole_steps(xp: Namespace, x: Tensor, scale: Tensor, zero: Tensor | None, dtype: ir.DataType) -> Tensor:
    """x in steps of which a whole number makes 1, rounded, plus the zero point: how onnxruntime writes probabilities."""
    offset = None if zero is None else xp.astype(zero, _FLOAT)
    x = xp.where(xp.isnan(x), float("inf"), x)  # onnxruntime gives the greatest number where scores are none
    return saturated(xp, xp.multiply(x, xp.floor(xp.divide(1.0, scale))), offset, dtype)


def _by_one_factor(
    xp: Namespace, sums: tuple[Tensor, Int], x_scale: Tensor, y_scale: Tensor, y_zero: Tensor | None, dtype: ir.DataType
) -> Tensor:
    """A mean from the sum and the number of its terms, scaled once: how onnxruntime rounds it."""
    total, count = sums
    factor = xp.divide(x_scale, xp.multiply(y_scale, size_operand(xp, count, _FLOAT)))
    offset = None if y_zero is None else xp.astype(y_zero, _FLOAT)
    return saturated(xp, xp.multiply(xp.astype(total, _FLOAT), factor), offset, dtype)


def _rounded_with_zero(xp: Namespace, x: Tensor, scale: Tensor, zero: Tensor | None, dtype: ir.DataType) -> Tensor:
    """x / scale plus the zero point, rounded then: of an even and an odd one, what lies in the middle goes to other sides."""
    moved = xp.divide(x, scale)
    return saturated(xp, moved if zero is None else xp.add(moved, xp.astype(zero, _FLOAT)), None, dtype)


def _between_scales(
    compute: Callable[..., Any], write: Callable[..., Tensor] = requantized, whole: bool = False
) -> Callable[..., Tensor]:
    """An operator of quantized numbers, quantized, from what computes real ones; it takes the same attributes.

    With `whole` that computes from whole numbers, the zero point subtracted, and `write` also has the operand's scale.
    """

    def operator(
        xp: Namespace,
        x: Tensor,
        x_scale: Tensor,
        x_zero: Tensor | None,
        y_scale: Tensor,
        y_zero: Tensor | None = None,
        **form: Any,
    ) -> Tensor:
        def narrow(x: Tensor) -> Tensor:
            if whole:
                image = xp.with_slope(xp.astype(centred(xp, x, x_zero, 1), ir.DataType.DOUBLE), x)
                return write(xp, compute(xp, image, **form), x_scale, y_scale, y_zero, xp.dtype(x))
            wide = compute(xp, _real(xp, x, x_scale, x_zero), **form)
            return write(xp, wide, y_scale, y_zero, xp.dtype(x))

        return _planes(xp, x, narrow, form)

    *operands, _ = inspect.signature(operator).parameters.values()
    attributes = list(inspect.signature(compute).parameters.values())[2:]
    operator.__signature__ = inspect.Signature([*operands, *attributes])  # type: ignore[attr-defined]
    del operator.__annotations__["form"]
    operator.__annotations__.update({item.name: item.annotation for item in attributes})
    operator.__doc__ = compute.__doc__
    return operator


@microsoft_op(
    "QLinearSigmoid",
    quantized_case(
        "y = com.microsoft.QLinearSigmoid (q, s, z, k, c)",
        "uint8[N, 4] y",
        f32(3, 4),
        held="k = Constant <value = float {0.00390625}> () c = Constant <value = uint8 {0}> () ",
    ),
)
@_between_scales
def qlinear_sigmoid(xp: Namespace, x: Tensor) -> Tensor:
    """The logistic function."""
    return xp.sigmoid(x)


@microsoft_op(
    "QLinearLeakyRelu",
    quantized_case("y = com.microsoft.QLinearLeakyRelu <alpha = 0.2> (q, s, z, t, z)", "uint8[N, 4] y", f32(3, 4)),
)
@_between_scales
def qlinear_leaky_relu(xp: Namespace, x: Tensor, *, alpha: float = 0.01) -> Tensor:
    """x, below 0 alpha x."""
    return elementwise.leaky_relu(xp, x, alpha=alpha)


@microsoft_op(
    "QLinearSoftmax",
    *(
        quantized_case(
            "y = com.microsoft.QLinearSoftmax <axis = -1, opset = 13> (q, s, z, k, c)",
            "uint8[N, 4] y",
            f32(64, 4),
            held=f"k = Constant <value = float {{{scale}}}> () c = Constant <value = uint8 {{0}}> () ",
        )
        for scale in (0.00390625, 0.0039215687, 0.3)
    ),
)
@partial(_between_scales, write=_in_whole_steps)
def qlinear_softmax(xp: Namespace, x: Tensor, *, axis: int = -1, opset: int = 13) -> Tensor:
    """Softmax, as its `opset` has it."""
    rank = xp.ndim(x)
    axis = resolved(axis, rank)
    if opset < 13 and axis != rank - 1:
        raise UnsupportedOperator("a Softmax over several axes")
    return xp.softmax(x, axis)


def _image_case(call: str, result: str, held: str = "") -> Case:
    return quantized_case(call, result, f32(2, 2, 5, 6), operands="float[N, 2, 5, 6] x", held=held)


@microsoft_op(
    "QLinearGlobalAveragePool",
    _image_case("y = com.microsoft.QLinearGlobalAveragePool (q, s, z, t, u)", "uint8[N, 2, 1, 1] y"),
    quantized_case(  # means that lie in the middle of two steps
        "y = com.microsoft.QLinearGlobalAveragePool (q, s, z, s, z)",
        "uint8[N, 6, 1, 1] y",
        f32(40, 6, 2, 2),
        operands="float[N, 6, 2, 2] x",
    ),
)
@partial(_between_scales, write=_by_one_factor, whole=True)
def qlinear_global_average_pool(xp: Namespace, x: Tensor, **_: Unpack[LayoutForm]) -> tuple[Tensor, Int]:
    """The mean of each image."""
    axes = tuple(range(2, xp.ndim(x)))
    return xp.sum(x, axes, True), product(xp, [xp.shape(x)[axis] for axis in axes])


class QuantizedPoolForm(windows.PoolAttributes, LayoutForm, total=False):
    """Attributes of QLinearAveragePool."""


@microsoft_op(
    "QLinearAveragePool",
    *(
        _image_case(
            f"y = com.microsoft.QLinearAveragePool <kernel_shape = [2, 3], strides = [1, 2], pads = [1, 0, 0, 1]> {operands}",
            "uint8[N, 2, 5, 3] y",
        )
        for operands in ("(q, s, z, t, u)", "(q, s, z, s, u)")  # means of the second lie in the middle of two steps
    ),
)
@partial(_between_scales, write=_rounded_with_zero)
def qlinear_average_pool(xp: Namespace, x: Tensor, **form: Unpack[QuantizedPoolForm]) -> Tensor:
    """The mean of each window."""
    return windows.average_pool(xp, x, **form)  # type: ignore[misc]  # a pool's attributes are among them


@microsoft_op(
    "NhwcMaxPool",
    _image_case(
        "h = Transpose <perm = [0, 2, 3, 1]> (q) "
        "g = com.microsoft.NhwcMaxPool <kernel_shape = [2, 3], strides = [1, 2], pads = [1, 0, 0, 1]> (h) "
        "y = Transpose <perm = [0, 3, 1, 2]> (g)",
        "uint8[N, 2, 5, 3] y",
    ),
)
def nhwc_max_pool(xp: Namespace, x: Tensor, **form: Unpack[windows.PoolAttributes]) -> Tensor:
    """Greatest element of each window of quantized numbers, their channels last."""
    return _planes(xp, x, lambda x: windows.max_pool(xp, x, **form), {"channels_last": 1})


class QuantizedConvForm(windows.ConvAttributes, LayoutForm, total=False):
    """Attributes of QLinearConv."""


@microsoft_op(
    "QLinearConv",
    _image_case(
        "h = Transpose <perm = [0, 2, 3, 1]> (q) "
        "g = com.microsoft.QLinearConv <channels_last = 1, pads = [1, 0, 1, 0]> (h, s, z, w, k, v, t, u) "
        "y = Transpose <perm = [0, 3, 1, 2]> (g)",
        "uint8[N, 3, 6, 6] y",
        "w = Constant <value = int8[3, 2, 2, 1] {1, -2, 30, 4, -5, 60, 7, 8, -9, 10, 11, 12}> () "
        "k = Constant <value = float {0.0213}> () v = Constant <value = int8 {0}> () ",
    ),
)
def qlinear_conv(xp: Namespace, x: Tensor, *operands: Tensor, **form: Unpack[QuantizedConvForm]) -> Tensor:
    """Convolution of quantized numbers, quantized, in either layout."""
    return _planes(xp, x, lambda x: quantization.qlinear_conv(xp, x, *operands, **form), form)  # type: ignore[misc]


@microsoft_op(
    "QLinearConcat",
    quantized_case("y = com.microsoft.QLinearConcat <axis = 1> (t, z, q, s, z, p, t, u)", "uint8[N, 8] y", f32(3, 4)),
)
def qlinear_concat(xp: Namespace, y_scale: Tensor, y_zero: Tensor, *parts: Tensor, axis: int) -> Tensor:
    """Quantized tensors in a row, in one scale."""
    groups = [parts[place : place + 3] for place in range(0, len(parts), 3)]
    wide = [
        requantized(xp, _real(xp, part, scale, zero), y_scale, y_zero, xp.dtype(part)) for part, scale, zero in groups
    ]
    return xp.concat(wide, axis + xp.ndim(wide[0]) if axis < 0 else axis)


@microsoft_op(
    "QLinearWhere",
    quantized_case(
        "c = Greater (x, s) y = com.microsoft.QLinearWhere (c, q, s, z, p, t, u, t, z)", "uint8[N, 4] y", f32(3, 4)
    ),
)
def qlinear_where(
    xp: Namespace,
    condition: Tensor,
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor,
    y: Tensor,
    y_scale: Tensor,
    y_zero: Tensor,
    z_scale: Tensor,
    z_zero: Tensor,
) -> Tensor:
    """x where the condition holds, else y, quantized."""
    wide = xp.where(condition, _real(xp, x, x_scale, x_zero), _real(xp, y, y_scale, y_zero))
    return requantized(xp, wide, z_scale, z_zero, xp.dtype(x))


for _op_type, _entry in (
    ("QuantizeLinear", quantization.quantize_linear),
    ("DequantizeLinear", quantization.dequantize_linear),
):
    _call = "y = com.microsoft.QuantizeLinear (x, s, z)"
    if _op_type == "DequantizeLinear":
        _call = "y = com.microsoft.DequantizeLinear (q, s, z)"
    _kind = "uint8" if _op_type == "QuantizeLinear" else "float"
    microsoft_op(_op_type, quantized_case(_call, f"{_kind}[N, 4] y", f32(3, 4)))(_entry)
