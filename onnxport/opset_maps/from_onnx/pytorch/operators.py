"""Operators that torch has as one function, where that is faster or truer than the shared semantics.

An entry gives NotImplemented for a case that torch's function does not cover; the shared semantics then compute it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Unpack

import numpy as np
import onnx_ir as ir
import torch
import torch.nn.functional as F

from onnxport.opset_maps.from_onnx.axes import resolved
from onnxport.opset_maps.from_onnx.pytorch import functions
from onnxport.opset_maps.from_onnx.pytorch.namespace import TorchNamespace
from onnxport.opset_maps.from_onnx.pytorch.traced import TorchTensor, Traced
from onnxport.opset_maps.from_onnx.semantics.attention import AttentionAttributes, AttentionHeads
from onnxport.opset_maps.from_onnx.semantics.image import GridSampleAttributes, ResizeAttributes, resized_axes, targets
from onnxport.opset_maps.from_onnx.semantics.linear import GemmAttributes
from onnxport.opset_maps.from_onnx.semantics.normalization import (
    BatchNormAttributes,
    GroupNormAttributes,
    LayerNormAttributes,
    batch_trains,
)
from onnxport.opset_maps.from_onnx.semantics.windows import TransposedLayout, transposed_windows
from onnxport.opset_maps.from_onnx.values import Host, Known, all_known, known, optional
from onnxport.opset_maps.from_onnx.windows import PoolAttributes
from onnxport.opset_maps.maps import pytorch_native

_COMPUTED = frozenset({ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16, ir.DataType.BFLOAT16})


def floating(xp: TorchNamespace, *xs: TorchTensor | None) -> bool:
    """Whether all operands are of one floating-point type that torch computes in."""
    dtypes = {xp.dtype(x) for x in xs if x is not None}
    return len(dtypes) == 1 and dtypes <= _COMPUTED


def _is_parameter(x: TorchTensor) -> bool:
    return isinstance(x, Traced) and x.node.op == "get_attr"


def as_buffer(x: TorchTensor) -> None:
    """Makes a parameter that is not trained (running statistics) a buffer."""
    if isinstance(x, Traced) and x.node.op == "get_attr":
        content = x.recorder.attributes[str(x.node.target)]
        if isinstance(content, torch.nn.Parameter):
            x.recorder.attributes[str(x.node.target)] = content.detach()


def _of_slope(function: Callable[..., torch.Tensor]) -> Callable[..., TorchTensor]:
    def activation(xp: TorchNamespace, x: TorchTensor, *, alpha: float) -> TorchTensor:
        return xp.call(function, x, alpha)

    activation.__doc__ = f"torch's {function.__name__}."
    return activation


pytorch_native.op("Elu", versions=(1, 6, 22))(_of_slope(F.elu))
pytorch_native.op("Celu", versions=(12, 28))(_of_slope(F.celu))
pytorch_native.op("LeakyRelu", versions=(1, 6, 16))(_of_slope(F.leaky_relu))


@pytorch_native.op("Gelu", versions=(20,))
def gelu(xp: TorchNamespace, x: TorchTensor, *, approximate: str = "none") -> TorchTensor:
    """torch's gelu by its tanh; the exact one as onnxruntime computes it."""
    return xp.call(F.gelu, x, approximate="tanh") if approximate == "tanh" else xp.call(functions.gelu, x)


@pytorch_native.op("Swish", versions=(24,))
def swish(xp: TorchNamespace, x: TorchTensor, *, alpha: float = 1.0) -> TorchTensor:
    """torch's silu."""
    return xp.call(F.silu, x) if alpha == 1 else NotImplemented


@pytorch_native.op("HardSigmoid", versions=(1, 6, 22))
def hard_sigmoid(xp: TorchNamespace, x: TorchTensor, *, alpha: float = 0.2, beta: float = 0.5) -> TorchTensor:
    """torch's hardsigmoid, which has one slope; the attribute's float32 is not that of a double."""
    usual = abs(alpha - 1 / 6) < 1e-7 and beta == 0.5 and xp.dtype(x) != ir.DataType.DOUBLE
    return xp.call(F.hardsigmoid, x) if usual else NotImplemented


@pytorch_native.op("Erf", versions=(9, 13))
def erf(xp: TorchNamespace, x: TorchTensor) -> TorchTensor:
    """erf of whole numbers in their type, of which torch makes float32."""
    dtype = xp.dtype(x)
    if dtype.is_floating_point():
        return NotImplemented
    return xp.astype(xp.erf(xp.astype(x, ir.DataType.DOUBLE)), dtype)


@pytorch_native.op("PRelu", versions=(7, 9, 16))
def prelu(xp: TorchNamespace, x: TorchTensor, slope: TorchTensor) -> TorchTensor:
    """torch's prelu, where the slope is one or one a channel and no parameter of another shape."""
    shape = xp.shape(slope)
    if not floating(xp, x, slope) or not all(known(n) for n in shape):
        return NotImplemented
    if shape == (1,) or (len(shape) == 1 and xp.ndim(x) == 2 and xp.shape(x)[1] == shape[0]):
        return xp.call(F.prelu, x, slope)
    if shape and len(shape) == xp.ndim(x) - 1 and shape[0] == xp.shape(x)[1] and all(n == 1 for n in shape[1:]):
        return xp.call(F.prelu, x, xp.reshape(slope, (-1,)))
    return NotImplemented


@pytorch_native.op("Gather", versions=(1, 11, 13))
def gather(xp: TorchNamespace, x: TorchTensor, indices: Known, *, axis: int = 0) -> TorchTensor:
    """An embedding, or torch's own indexing, which counts negative indices from the end."""
    axis = resolved(axis, xp.ndim(x)) if axis < 0 else axis
    lead = (slice(None),) * axis
    if isinstance(indices, np.ndarray):
        if indices.ndim == 0:
            return xp.call(operator.getitem, x, (*lead, int(indices)))
        return NotImplemented
    if axis == 0 and _is_parameter(x) and xp.ndim(x) == 2 and xp.dtype(x).is_floating_point():
        return xp.call(F.embedding, xp.call(functions.from_the_end, indices, xp.shape(x)[0]), x)
    return xp.call(operator.getitem, x, (*lead, indices))


@pytorch_native.op("GatherElements", versions=(11, 13))
def gather_elements(xp: TorchNamespace, x: TorchTensor, indices: TorchTensor, *, axis: int = 0) -> TorchTensor:
    """torch's gather, negative indices counted from the end."""
    return xp.call(functions.gather_elements, x, indices, resolved(axis, xp.ndim(x)))


@pytorch_native.op("GatherND", versions=(11, 12, 13))
def gather_nd(xp: TorchNamespace, x: TorchTensor, indices: TorchTensor, *, batch_dims: int = 0) -> TorchTensor:
    """torch's own indexing, whatever the length of the index tuples."""
    return xp.call(functions.gather_nd, x, indices, batch_dims)


@pytorch_native.op("ScatterND", versions=(11, 13, 16, 18))
def scatter_nd(
    xp: TorchNamespace, x: TorchTensor, indices: TorchTensor, updates: TorchTensor, *, reduction: str = "none"
) -> TorchTensor:
    """Slices replaced, whatever the length of the index tuples."""
    return xp.call(functions.scatter_nd, x, indices, updates, reduction)


@pytorch_native.op("Gemm", versions=(7, 9, 11, 13))
def gemm(
    xp: TorchNamespace, a: TorchTensor, b: TorchTensor, c: TorchTensor | None = None, **form: Unpack[GemmAttributes]
) -> TorchTensor:
    """torch's linear."""
    vector = c is None or xp.ndim(c) == 1
    scaled = form.get("alpha", 1.0) != 1 or form.get("beta", 1.0) != 1
    if scaled or form.get("transA") or not vector or not floating(xp, a, b, c):
        return NotImplemented
    transposed = form.get("transB")
    if c is not None and (not known(xp.shape(c)[0]) or xp.shape(c)[0] != xp.shape(b)[0 if transposed else 1]):
        return NotImplemented
    return xp.call(F.linear, a, b if transposed else xp.permute_dims(b, (1, 0)), c)


@pytorch_native.op("ConvTranspose", versions=(1, 11, 22))
def conv_transpose(
    xp: TorchNamespace, x: TorchTensor, w: TorchTensor, b: TorchTensor | None = None, **form: Unpack[TransposedLayout]
) -> TorchTensor:
    """torch's transposed convolution, where the padding is the same on both sides but for the output padding."""
    if form.get("auto_pad", "NOTSET") != "NOTSET" or form.get("output_shape"):
        return NotImplemented
    moves, cuts = transposed_windows(xp, x, w, form)
    rank = len(cuts)
    padding = [before for before, _ in cuts if known(before)]
    output = [before - after for before, after in cuts if known(before) and known(after)]
    if not 1 <= rank <= 3 or len(output) < rank or min(padding) < 0:
        return NotImplemented
    if not all(0 <= more < max(s, d) for more, s, d in zip(output, moves["strides"], moves["dilations"], strict=True)):
        return NotImplemented
    function = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[rank - 1]
    strides, dilations, groups = list(moves["strides"]), list(moves["dilations"]), moves["groups"]
    return xp.call(function, x, w, b, strides, padding, output, groups, dilations)


def _pooling(form: PoolAttributes) -> tuple[list[int], list[int], list[int], list[int]] | None:
    """Kernel, strides, padding and dilations as torch's pooling takes them; None where it has no such windows.

    Its padding is the same on both sides, at most half the window.
    """
    kernel = list(form["kernel_shape"])
    rank, auto_pad = len(kernel), form.get("auto_pad", "NOTSET")
    given = list(form.get("pads") or (0,) * (2 * rank))
    if given[:rank] != given[rank:] or any(not 0 <= 2 * p <= k for p, k in zip(given, kernel)):
        return None
    if auto_pad not in ("NOTSET", "VALID") or not 1 <= rank <= 3:
        return None
    padding = [0] * rank if auto_pad == "VALID" else given[:rank]
    return kernel, list(form.get("strides") or (1,) * rank), padding, list(form.get("dilations") or (1,) * rank)


@pytorch_native.op("MaxPool", versions=(1, 8, 10, 11, 12, 22))
def max_pool(xp: TorchNamespace, x: TorchTensor, **form: Unpack[PoolAttributes]) -> TorchTensor:
    """torch's max_pool."""
    pooling = _pooling(form)
    if pooling is None or xp.wants(1) or not floating(xp, x):
        return NotImplemented
    function = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[len(pooling[0]) - 1]
    return xp.call(function, x, *pooling, bool(form.get("ceil_mode", 0)))


@pytorch_native.op("AveragePool", versions=(1, 7, 10, 11, 19, 22))
def average_pool(xp: TorchNamespace, x: TorchTensor, **form: Unpack[PoolAttributes]) -> TorchTensor:
    """torch's avg_pool, which has no dilations."""
    pooling = _pooling(form)
    if pooling is None or any(d != 1 for d in pooling[3]):
        return NotImplemented
    function = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[len(pooling[0]) - 1]
    options = bool(form.get("ceil_mode", 0)), bool(form.get("count_include_pad", 0))
    dtype = xp.dtype(x)
    if function is F.avg_pool3d and dtype == ir.DataType.FLOAT16:  # of which the CPU has no kernel
        return xp.astype(xp.call(function, xp.astype(x, ir.DataType.FLOAT), *pooling[:3], *options), dtype)
    return xp.call(function, x, *pooling[:3], *options)


@pytorch_native.op("BatchNormalization", versions=(7, 9, 14, 15))
def batch_normalization(
    xp: TorchNamespace, x: TorchTensor, *statistics: TorchTensor, **form: Unpack[BatchNormAttributes]
) -> TorchTensor:
    """torch's batch_norm in inference."""
    if batch_trains(xp, form) or not form.get("spatial", 1) or not floating(xp, x, *statistics):
        return NotImplemented
    scale, bias, mean, variance = statistics
    for statistic in (mean, variance):
        as_buffer(statistic)
    momentum, epsilon = form.get("momentum", 0.9), form.get("epsilon", 1e-5)
    return xp.call(F.batch_norm, x, mean, variance, scale, bias, False, 1 - momentum, epsilon)


@pytorch_native.op("InstanceNormalization", versions=(6, 22))
def instance_normalization(
    xp: TorchNamespace, x: TorchTensor, scale: TorchTensor, bias: TorchTensor, *, epsilon: float = 1e-5
) -> TorchTensor:
    """torch's instance_norm, whose function in torch.nn refuses images of one element."""
    sizes = xp.shape(x)[2:]
    if not floating(xp, x, scale, bias) or not sizes or all(known(n) and n == 1 for n in sizes):
        return NotImplemented
    if not any(known(n) and n > 1 for n in sizes):
        return xp.call(torch.instance_norm, x, scale, bias, None, None, True, 0.1, epsilon, False)
    return xp.call(F.instance_norm, x, None, None, scale, bias, True, 0.1, epsilon)


@pytorch_native.op("GroupNormalization", versions=(21,))
def group_normalization(
    xp: TorchNamespace, x: TorchTensor, scale: TorchTensor, bias: TorchTensor, **form: Unpack[GroupNormAttributes]
) -> TorchTensor:
    """torch's group_norm."""
    if not floating(xp, x, scale, bias):
        return NotImplemented
    return xp.call(F.group_norm, x, form["num_groups"], scale, bias, form.get("epsilon", 1e-5))


def _normalised_shape(
    xp: TorchNamespace, x: TorchTensor, axis: int, *scales: TorchTensor | None
) -> tuple[int, ...] | None:
    """The sizes from `axis` on, where they are known and the shape of the scales too; else None."""
    shape = xp.shape(x)[resolved(axis, xp.ndim(x)) :]
    if not all_known(shape) or any(item is not None and xp.shape(item) != shape for item in scales):
        return None
    return tuple(shape)


@pytorch_native.op("LayerNormalization", versions=(17,))
def layer_normalization(
    xp: TorchNamespace, x: TorchTensor, *affine: TorchTensor | None, **form: Unpack[LayerNormAttributes]
) -> TorchTensor:
    """torch's layer_norm, where the scale has the shape of what is normalised."""
    scale, bias = (*affine, None)[:2]
    shape = _normalised_shape(xp, x, form.get("axis", -1), scale, bias)
    if shape is None or xp.output_count > 1 or form.get("stash_type", 1) != 1 or not floating(xp, x, scale, bias):
        return NotImplemented
    return xp.call(F.layer_norm, x, shape, scale, bias, form.get("epsilon", 1e-5))


@pytorch_native.op("RMSNormalization", versions=(23,))
def rms_normalization(
    xp: TorchNamespace, x: TorchTensor, scale: TorchTensor, **form: Unpack[LayerNormAttributes]
) -> TorchTensor:
    """torch's rms_norm in single and double precision."""
    shape = _normalised_shape(xp, x, form.get("axis", -1), scale)
    if shape is None or not floating(xp, x, scale) or xp.dtype(x) not in (ir.DataType.FLOAT, ir.DataType.DOUBLE):
        return NotImplemented
    return xp.call(F.rms_norm, x, shape, scale, form.get("epsilon", 1e-5))


def attend(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: torch.Tensor, scale: float | None, grouped: bool
) -> torch.Tensor:
    """torch's attention under a mask whose rows may forbid every key; such a query gives zeros."""
    result = F.scaled_dot_product_attention(q, k, v, bias, scale=scale, enable_gqa=grouped)
    empty = (bias == -torch.inf).all(-1, keepdim=True)
    return torch.where(empty, torch.zeros((), dtype=result.dtype, device=result.device), result)


@pytorch_native.op("Attention", versions=(23, 24, 25))
def attention(
    xp: TorchNamespace,
    q: TorchTensor,
    k: TorchTensor,
    v: TorchTensor,
    *optional: TorchTensor | None,
    **form: Unpack[AttentionAttributes],
) -> Any:
    """torch's scaled_dot_product_attention, in single and double precision."""
    dtype, precision = xp.dtype(q), form.get("softmax_precision")
    if form.get("softcap") or xp.wants(3) or dtype not in (ir.DataType.FLOAT, ir.DataType.DOUBLE):
        return NotImplemented
    if not floating(xp, q, k, v) or (precision is not None and ir.DataType(precision).bitwidth > dtype.bitwidth):
        return NotImplemented
    heads = AttentionHeads.of(xp, q, k, v, optional, form)
    queries, groups = xp.shape(heads.q)[1], xp.shape(heads.k)[1]
    if not (known(queries) and known(groups)):
        return NotImplemented
    operands, options = (heads.q, heads.k, heads.v), {"scale": form.get("scale"), "enable_gqa": queries != groups}
    if heads.sees_all and not heads.causal:
        result = xp.call(F.scaled_dot_product_attention, *operands, **options)
    elif heads.sees_all and heads.past is None:
        result = xp.call(F.scaled_dot_product_attention, *operands, is_causal=True, **options)
    else:
        result = xp.call(attend, *operands, heads.bias(xp), form.get("scale"), queries != groups)
    return heads.outputs(xp, result)


_INTERPOLATION = {
    ("linear", 1): "linear",
    ("linear", 2): "bilinear",
    ("linear", 3): "trilinear",
    ("cubic", 2): "bicubic",
}


@pytorch_native.op("Resize", versions=(11, 13, 18, 19))
def resize(xp: TorchNamespace, x: TorchTensor, *operands: Host | None, **form: Unpack[ResizeAttributes]) -> TorchTensor:
    """torch's interpolate, where the modes mean the same and sizes are whole multiples by their scales."""
    _, scales, wanted = optional(operands, 3)
    transform = form.get("coordinate_transformation_mode", "half_pixel")
    ours = xp.shape(x)
    interpolation = _interpolation(len(ours) - 2, transform, form)
    if interpolation is None or form.get("keep_aspect_ratio_policy", "stretch") != "stretch" or not floating(xp, x):
        return NotImplemented
    axes = resized_axes(len(ours), form)
    results = list(ours)
    for axis, (size, scale) in zip(axes, targets(xp, [ours[a] for a in axes], scales, wanted, "stretch"), strict=True):
        factor, length = scale if isinstance(scale, float) else None, ours[axis]
        if axis < 2:
            if size is not length and factor != 1.0:
                return NotImplemented
            continue
        exact = factor is not None and known(length) and size == factor * length
        if wanted is None and not exact and not (factor is not None and factor.is_integer()):
            return NotImplemented
        if transform == "half_pixel" and not (known(size) and size > 1) and interpolation[0] == "bicubic":
            return NotImplemented
        results[axis] = size
    mode, align_corners = interpolation
    return xp.call(F.interpolate, x, size=tuple(results[2:]), mode=mode, align_corners=align_corners)


def _interpolation(spatial: int, transform: str, form: ResizeAttributes) -> tuple[str, bool | None] | None:
    """torch's mode and align_corners; None where torch has no such interpolation."""
    if not 1 <= spatial <= 3 or form.get("exclude_outside") or form.get("antialias"):
        return None
    mode = form.get("mode", "nearest")
    if mode == "nearest":
        return ("nearest", None) if transform == "asymmetric" and form.get("nearest_mode") == "floor" else None
    name = _INTERPOLATION.get((mode, spatial))
    if name is None or (mode == "cubic" and abs(form.get("cubic_coeff_a", -0.75) + 0.75) > 1e-6):
        return None
    return {"half_pixel": (name, False), "align_corners": (name, True)}.get(transform)


@pytorch_native.op("GridSample", versions=(16, 20, 22))
def grid_sample(
    xp: TorchNamespace, x: TorchTensor, grid: TorchTensor, **form: Unpack[GridSampleAttributes]
) -> TorchTensor:
    """torch's grid_sample, of images with two or three axes."""
    rank = xp.ndim(x)
    mode = form.get("mode", "linear")
    mode = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
    if rank not in (4, 5) or (mode == "bicubic" and rank == 5) or not floating(xp, x, grid):
        return NotImplemented
    return xp.call(F.grid_sample, x, grid, mode, form.get("padding_mode", "zeros"), bool(form.get("align_corners", 0)))
