"""Activation functions."""

from __future__ import annotations

import math
from collections.abc import Callable

import onnx_ir as ir

from onnxport.opset_maps.from_onnx.axes import product, resolved
from onnxport.opset_maps.from_onnx.namespace import Namespace
from onnxport.opset_maps.from_onnx.semantics.elementwise import aligned
from onnxport.opset_maps.from_onnx.values import Tensor
from onnxport.opset_maps.maps import onnx


@onnx.op("LeakyRelu", versions=(1, 6, 16))
def leaky_relu(xp: Namespace, x: Tensor, *, alpha: float = 0.01) -> Tensor:
    """x, below zero times alpha."""
    return xp.where(xp.less(x, 0), xp.multiply(x, alpha), x)


@onnx.op("PRelu", versions=(1, 6, 7, 9, 16))
def prelu(xp: Namespace, x: Tensor, slope: Tensor) -> Tensor:
    """x, below zero times slope; before opset 7 a slope per channel."""
    if xp.version < 7:
        slope = aligned(xp, x, slope, 1, int(xp.ndim(slope) == 1))
    return xp.where(xp.less(x, 0), xp.multiply(x, slope), x)


@onnx.op("Elu", versions=(1, 6, 22))
def elu(xp: Namespace, x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """x, below zero alpha (exp(x) - 1)."""
    return xp.where(xp.less(x, 0), xp.multiply(xp.elementwise("expm1", xp.minimum(x, 0)), alpha), x)


@onnx.op("Selu", versions=(1, 6, 22))
def selu(xp: Namespace, x: Tensor, *, alpha: float = 1.6732, gamma: float = 1.0507) -> Tensor:
    """gamma times elu."""
    return xp.multiply(elu(xp, x, alpha=alpha), gamma)


@onnx.op("Celu", versions=(12, 28))
def celu(xp: Namespace, x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """x, below zero alpha (exp(x / alpha) - 1)."""
    low = xp.multiply(xp.elementwise("expm1", xp.divide(xp.minimum(x, 0), alpha)), alpha)
    return xp.where(xp.less(x, 0), low, x)


@onnx.op("ThresholdedRelu", versions=(10, 22))
def thresholded_relu(xp: Namespace, x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """x above alpha, else 0."""
    return xp.where(xp.greater(x, alpha), x, xp.zeros((), xp.dtype(x)))


@onnx.op("HardSigmoid", versions=(1, 6, 22))
def hard_sigmoid(xp: Namespace, x: Tensor, *, alpha: float = 0.2, beta: float = 0.5) -> Tensor:
    """alpha x + beta between 0 and 1."""
    return xp.clip(xp.add(xp.multiply(x, alpha), beta), 0, 1)


@onnx.op("Gelu", versions=(20,))
def gelu(xp: Namespace, x: Tensor, *, approximate: str = "none") -> Tensor:
    """x times the normal distribution function of x, or its tanh approximation."""
    if approximate == "tanh":
        cubed = xp.multiply(xp.multiply(x, x), x)
        inner = xp.multiply(xp.add(x, xp.multiply(cubed, 0.044715)), math.sqrt(2 / math.pi))
        return xp.multiply(xp.multiply(x, 0.5), xp.add(xp.tanh(inner), 1))
    return xp.multiply(xp.multiply(x, 0.5), xp.add(xp.erf(xp.divide(x, math.sqrt(2))), 1))


@onnx.op("Swish", versions=(24,))
def swish(xp: Namespace, x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """x sigmoid(alpha x)."""
    return xp.multiply(x, xp.sigmoid(x if alpha == 1 else xp.multiply(x, alpha)))


@onnx.op("Shrink", versions=(9,))
def shrink(xp: Namespace, x: Tensor, *, bias: float = 0.0, lambd: float = 0.5) -> Tensor:
    """x moved by bias toward zero outside [-lambd, lambd], else 0; integers are computed as floats and truncated."""
    dtype = xp.dtype(x)
    wide = x if dtype.is_floating_point() else xp.astype(x, ir.DataType.DOUBLE)
    zero = xp.zeros((), xp.dtype(wide))
    low = xp.where(xp.less(wide, -lambd), xp.add(wide, bias), zero)
    result = xp.where(xp.greater(wide, lambd), xp.subtract(wide, bias), low)
    return result if dtype.is_floating_point() else xp.astype(result, dtype)


def _along_axis(meaning: str, compute: Callable[[Namespace, Tensor, int], Tensor]) -> Callable[..., Tensor]:
    """An operator along one axis; before opset 13 over all axes from it on, as if they were one."""

    def operator(xp: Namespace, x: Tensor, *, axis: int) -> Tensor:
        rank = xp.ndim(x)
        axis = resolved(axis, rank)
        if xp.version >= 13 or axis == rank - 1:
            return compute(xp, x, axis)
        shape = xp.shape(x)
        return xp.reshape(compute(xp, xp.reshape(x, (*shape[:axis], product(xp, shape[axis:]))), axis), shape)

    operator.__doc__ = f"{meaning} along an axis; before opset 13 over all axes from it on."
    return operator


def _hardmax(xp: Namespace, x: Tensor, axis: int) -> Tensor:
    return xp.astype(xp.one_hot(xp.argmax(x, axis), xp.shape(x)[axis], axis), xp.dtype(x))


for _op, _meaning, _compute in (
    ("Softmax", "exp(x) / sum(exp(x))", lambda xp, x, axis: xp.softmax(x, axis)),
    ("LogSoftmax", "log(softmax(x))", lambda xp, x, axis: xp.log_softmax(x, axis)),
    ("Hardmax", "1 at the first greatest element, else 0,", _hardmax),
):
    onnx.op(_op, versions=(1, 11, 13))(_along_axis(_meaning, _compute))
