"""Operators that torch has as one function, where that is faster or truer than the shared semantics.

An entry gives NotImplemented for a case that torch's function does not cover; the shared semantics then say it.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import torch
import torch.nn.functional as F

from onnxport.opset_maps.from_onnx.axes import resolved
from onnxport.opset_maps.from_onnx.pytorch import functions
from onnxport.opset_maps.from_onnx.pytorch.namespace import TorchNamespace
from onnxport.opset_maps.from_onnx.pytorch.traced import TorchTensor, Traced
from onnxport.opset_maps.from_onnx.semantics.attention import attention_bias, heads_first, heads_last
from onnxport.opset_maps.from_onnx.semantics.convolution import kernel_size, transposed_pads
from onnxport.opset_maps.from_onnx.semantics.image import targets
from onnxport.opset_maps.from_onnx.values import Host, Known, known
from onnxport.opset_maps.maps import pytorch_native

_COMPUTED = frozenset({ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16, ir.DataType.BFLOAT16})


def _floats(xp: TorchNamespace, *xs: TorchTensor) -> bool:
    """Whether all operands are of one floating-point type that torch computes in."""
    dtypes = {xp.dtype(x) for x in xs if x is not None}
    return len(dtypes) == 1 and dtypes <= _COMPUTED


def _parameter(x: TorchTensor) -> bool:
    return isinstance(x, Traced) and x.node.op == "get_attr"


def as_buffer(x: TorchTensor) -> None:
    """Makes a parameter that is not trained (running statistics) a buffer."""
    if isinstance(x, Traced) and x.node.op == "get_attr":
        content = x.recorder.attributes[str(x.node.target)]
        if isinstance(content, torch.nn.Parameter):
            x.recorder.attributes[str(x.node.target)] = content.detach()


# -- activations -------------------------------------------------------------------------------------------------------------


@pytorch_native.op("Elu", versions=(1, 6, 22))
def elu(xp: TorchNamespace, x: TorchTensor, *, alpha: float = 1.0) -> TorchTensor:
    """torch's elu."""
    return xp.call(F.elu, x, alpha)


@pytorch_native.op("Celu", versions=(12, 28))
def celu(xp: TorchNamespace, x: TorchTensor, *, alpha: float = 1.0) -> TorchTensor:
    """torch's celu."""
    return xp.call(F.celu, x, alpha)


@pytorch_native.op("LeakyRelu", versions=(1, 6, 16))
def leaky_relu(xp: TorchNamespace, x: TorchTensor, *, alpha: float = 0.01) -> TorchTensor:
    """torch's leaky_relu."""
    return xp.call(F.leaky_relu, x, alpha)


@pytorch_native.op("Gelu", versions=(20,))
def gelu(xp: TorchNamespace, x: TorchTensor, *, approximate: str = "none") -> TorchTensor:
    """torch's gelu."""
    return xp.call(F.gelu, x, approximate=approximate)


@pytorch_native.op("Swish", versions=(24,))
def swish(xp: TorchNamespace, x: TorchTensor, *, alpha: float = 1.0) -> TorchTensor:
    """torch's silu."""
    return xp.call(F.silu, x) if alpha == 1 else NotImplemented


@pytorch_native.op("HardSigmoid", versions=(1, 6, 22))
def hard_sigmoid(xp: TorchNamespace, x: TorchTensor, *, alpha: float = 0.2, beta: float = 0.5) -> TorchTensor:
    """torch's hardsigmoid, which has one slope."""
    return xp.call(F.hardsigmoid, x) if abs(alpha - 1 / 6) < 1e-7 and beta == 0.5 else NotImplemented


@pytorch_native.op("PRelu", versions=(7, 9, 16))
def prelu(xp: TorchNamespace, x: TorchTensor, slope: TorchTensor) -> TorchTensor:
    """torch's prelu, where the slope is one or one a channel and no parameter of another shape."""
    shape = xp.shape(slope)
    if not _floats(xp, x, slope) or not all(known(n) for n in shape):
        return NotImplemented
    if shape == (1,) or (len(shape) == 1 and xp.ndim(x) == 2 and xp.shape(x)[1] == shape[0]):
        return xp.call(F.prelu, x, slope)
    if len(shape) == xp.ndim(x) - 1 and shape[0] == xp.shape(x)[1] and all(n == 1 for n in shape[1:]):
        return xp.call(F.prelu, x, xp.reshape(slope, (-1,)))
    return NotImplemented


# -- indexing ----------------------------------------------------------------------------------------------------------------


@pytorch_native.op("Gather", versions=(1, 11, 13))
def gather(xp: TorchNamespace, x: TorchTensor, indices: Known, *, axis: int = 0) -> TorchTensor:
    """An embedding, or torch's own indexing, which counts negative indices from the end."""
    axis = resolved(axis, xp.ndim(x)) if axis < 0 else axis
    lead = (slice(None),) * axis
    if isinstance(indices, np.ndarray):
        if indices.ndim == 0:
            return xp.call(operator.getitem, x, (*lead, int(indices)))
        return NotImplemented
    if axis == 0 and _parameter(x) and xp.ndim(x) == 2 and xp.dtype(x).is_floating_point():
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


# -- linear algebra ----------------------------------------------------------------------------------------------------------


@pytorch_native.op("Gemm", versions=(7, 9, 11, 13))
def gemm(
    xp: TorchNamespace,
    a: TorchTensor,
    b: TorchTensor,
    c: TorchTensor | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> TorchTensor:
    """torch's linear."""
    vector = c is None or xp.ndim(c) == 1
    if alpha != 1 or beta != 1 or transA or not vector or not _floats(xp, a, b, c):
        return NotImplemented
    if c is not None and (not known(xp.shape(c)[0]) or xp.shape(c)[0] != xp.shape(b)[0 if transB else 1]):
        return NotImplemented
    return xp.call(F.linear, a, b if transB else xp.permute_dims(b, (1, 0)), c)


# -- convolution and pooling -------------------------------------------------------------------------------------------------


@pytorch_native.op("ConvTranspose", versions=(1, 11, 22))
def conv_transpose(
    xp: TorchNamespace,
    x: TorchTensor,
    w: TorchTensor,
    b: TorchTensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] | None = None,
    group: int = 1,
    kernel_shape: Sequence[int] | None = None,
    output_padding: Sequence[int] | None = None,
    output_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> TorchTensor:
    """torch's transposed convolution, where the padding is the same on both sides but for the output padding."""
    kernel = kernel_size(xp, w, kernel_shape)
    rank = len(kernel)
    step, spread = tuple(strides or (1,) * rank), tuple(dilations or (1,) * rank)
    if auto_pad != "NOTSET" or output_shape or not 1 <= rank <= 3:
        return NotImplemented
    cuts = transposed_pads(
        xp,
        (0,) * rank,
        kernel,
        step,
        spread,
        pads=tuple(pads) if pads else None,
        auto_pad=auto_pad,
        output_padding=(0,) * rank,
        output_shape=None,
    )
    extra = tuple(output_padding or (0,) * rank)
    pairs = [(before, before - after + more) for (before, after), more in zip(cuts, extra, strict=True)]
    fits = all(
        known(before) and known(more) and before >= 0 and 0 <= more < max(s, d)
        for (before, more), s, d in zip(pairs, step, spread, strict=True)
    )
    if not fits:
        return NotImplemented
    function = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[rank - 1]
    padding, output = [before for before, _ in pairs], [more for _, more in pairs]
    return xp.call(function, x, w, b, list(step), padding, output, group, list(spread))


def _symmetric(pads: Sequence[int] | None, kernel: Sequence[int]) -> list[int] | None:
    """Padding as torch's pooling takes it: the same on both sides, at most half the window."""
    rank = len(kernel)
    given = list(pads or (0,) * (2 * rank))
    if given[:rank] != given[rank:] or any(not 0 <= 2 * p <= k for p, k in zip(given, kernel)):
        return None
    return given[:rank]


@pytorch_native.op("MaxPool", versions=(1, 8, 10, 11, 12, 22))
def max_pool(
    xp: TorchNamespace,
    x: TorchTensor,
    *,
    kernel_shape: Sequence[int],
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    storage_order: int = 0,
    strides: Sequence[int] | None = None,
) -> TorchTensor:
    """torch's max_pool."""
    rank = len(kernel_shape)
    padding = _symmetric(pads, kernel_shape)
    if (
        auto_pad not in ("NOTSET", "VALID")
        or padding is None
        or xp.wants(1)
        or not 1 <= rank <= 3
        or not _floats(xp, x)
    ):
        return NotImplemented
    padding = [0] * rank if auto_pad == "VALID" else padding
    function = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[rank - 1]
    step, spread = list(strides or (1,) * rank), list(dilations or (1,) * rank)
    return xp.call(function, x, list(kernel_shape), step, padding, spread, bool(ceil_mode))


@pytorch_native.op("AveragePool", versions=(1, 7, 10, 11, 19, 22))
def average_pool(
    xp: TorchNamespace,
    x: TorchTensor,
    *,
    kernel_shape: Sequence[int],
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    dilations: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> TorchTensor:
    """torch's avg_pool."""
    rank = len(kernel_shape)
    padding = _symmetric(pads, kernel_shape)
    dilated = any(d != 1 for d in dilations or ())
    if auto_pad not in ("NOTSET", "VALID") or padding is None or dilated or not 1 <= rank <= 3:
        return NotImplemented
    padding = [0] * rank if auto_pad == "VALID" else padding
    function = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[rank - 1]
    step = list(strides or (1,) * rank)
    return xp.call(function, x, list(kernel_shape), step, padding, bool(ceil_mode), bool(count_include_pad))


# -- normalisation -----------------------------------------------------------------------------------------------------------


@pytorch_native.op("BatchNormalization", versions=(7, 9, 14, 15))
def batch_normalization(
    xp: TorchNamespace,
    x: TorchTensor,
    scale: TorchTensor,
    bias: TorchTensor,
    mean: TorchTensor,
    var: TorchTensor,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    training_mode: int = 0,
    spatial: int = 1,
) -> TorchTensor:
    """torch's batch_norm in inference."""
    training = training_mode if xp.version >= 14 else xp.output_count > 1
    if training or not spatial or not _floats(xp, x, scale, bias, mean, var):
        return NotImplemented
    for statistic in (mean, var):
        as_buffer(statistic)
    return xp.call(F.batch_norm, x, mean, var, scale, bias, False, 1 - momentum, epsilon)


@pytorch_native.op("InstanceNormalization", versions=(6, 22))
def instance_normalization(
    xp: TorchNamespace, x: TorchTensor, scale: TorchTensor, bias: TorchTensor, *, epsilon: float = 1e-5
) -> TorchTensor:
    """torch's instance_norm, which refuses images of one element."""
    sizes = xp.shape(x)[2:]
    if not _floats(xp, x, scale, bias) or not sizes or all(known(n) and n == 1 for n in sizes):
        return NotImplemented
    return xp.call(F.instance_norm, x, None, None, scale, bias, True, 0.1, epsilon)


@pytorch_native.op("GroupNormalization", versions=(21,))
def group_normalization(
    xp: TorchNamespace,
    x: TorchTensor,
    scale: TorchTensor,
    bias: TorchTensor,
    *,
    num_groups: int,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> TorchTensor:
    """torch's group_norm."""
    return xp.call(F.group_norm, x, num_groups, scale, bias, epsilon) if _floats(xp, x, scale, bias) else NotImplemented


@pytorch_native.op("LayerNormalization", versions=(17,))
def layer_normalization(
    xp: TorchNamespace,
    x: TorchTensor,
    scale: TorchTensor,
    bias: TorchTensor | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> TorchTensor:
    """torch's layer_norm, where the scale has the shape of what is normalised."""
    rank = xp.ndim(x)
    shape = xp.shape(scale)
    if xp.output_count > 1 or stash_type != 1 or not _floats(xp, x, scale, bias) or not all(map(known, shape)):
        return NotImplemented
    if len(shape) != rank - resolved(axis, rank) or shape != xp.shape(x)[rank - len(shape) :]:
        return NotImplemented
    if bias is not None and xp.shape(bias) != shape:
        return NotImplemented
    return xp.call(F.layer_norm, x, tuple(shape), scale, bias, epsilon)


@pytorch_native.op("RMSNormalization", versions=(23,))
def rms_normalization(
    xp: TorchNamespace,
    x: TorchTensor,
    scale: TorchTensor,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> TorchTensor:
    """torch's rms_norm in single and double precision."""
    rank, shape = xp.ndim(x), xp.shape(scale)
    if (
        not _floats(xp, x, scale)
        or xp.dtype(x) not in (ir.DataType.FLOAT, ir.DataType.DOUBLE)
        or not all(map(known, shape))
    ):
        return NotImplemented
    if len(shape) != rank - resolved(axis, rank) or shape != xp.shape(x)[rank - len(shape) :]:
        return NotImplemented
    return xp.call(F.rms_norm, x, tuple(shape), scale, epsilon)


# -- resampling --------------------------------------------------------------------------------------------------------------

_INTERPOLATION = {
    ("linear", 1): "linear",
    ("linear", 2): "bilinear",
    ("linear", 3): "trilinear",
    ("cubic", 2): "bicubic",
}


@pytorch_native.op("Resize", versions=(11, 13, 18, 19))
def resize(
    xp: TorchNamespace,
    x: TorchTensor,
    roi: Host | None = None,
    scales: Host | None = None,
    wanted: Host | None = None,
    *,
    antialias: int = 0,
    axes: Sequence[int] | None = None,
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
    extrapolation_value: float = 0.0,
) -> TorchTensor:
    """torch's interpolate, where the modes mean the same and sizes are whole multiples by their scales."""
    rank = xp.ndim(x)
    form = _interpolation(
        rank - 2, mode, coordinate_transformation_mode, nearest_mode, cubic_coeff_a, bool(exclude_outside)
    )
    if form is None or antialias or keep_aspect_ratio_policy != "stretch" or not _floats(xp, x):
        return NotImplemented
    ours = xp.shape(x)
    chosen = [resolved(axis, rank) for axis in axes] if axes is not None else list(range(rank))
    results = list(ours)
    for axis, (size, scale) in zip(
        chosen, targets(xp, [ours[a] for a in chosen], scales, wanted, "stretch"), strict=True
    ):
        if axis < 2:
            if size is not ours[axis] and not (isinstance(scale, float) and scale == 1.0):
                return NotImplemented
            continue
        exact = isinstance(scale, float) and known(ours[axis]) and size == scale * ours[axis]
        if wanted is None and not exact and not (isinstance(scale, float) and scale.is_integer()):
            return NotImplemented
        if coordinate_transformation_mode == "half_pixel" and not (known(size) and size > 1) and mode == "cubic":
            return NotImplemented
        results[axis] = size
    return xp.call(F.interpolate, x, size=tuple(results[2:]), mode=form[0], align_corners=form[1])


def _interpolation(
    spatial: int, mode: str, transform: str, nearest_mode: str, a: float, exclude_outside: bool
) -> tuple[str, bool | None] | None:
    """torch's mode and align_corners; None where torch has no such interpolation."""
    if not 1 <= spatial <= 3 or exclude_outside:
        return None
    if mode == "nearest":
        return ("nearest", None) if transform == "asymmetric" and nearest_mode == "floor" else None
    name = _INTERPOLATION.get((mode, spatial))
    if name is None or (mode == "cubic" and abs(a + 0.75) > 1e-6):
        return None
    return {"half_pixel": (name, False), "align_corners": (name, True)}.get(transform)


@pytorch_native.op("GridSample", versions=(16, 20, 22))
def grid_sample(
    xp: TorchNamespace,
    x: TorchTensor,
    grid: TorchTensor,
    *,
    align_corners: int = 0,
    mode: str = "linear",
    padding_mode: str = "zeros",
) -> TorchTensor:
    """torch's grid_sample, of images with two or three axes."""
    rank = xp.ndim(x)
    form = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
    if rank not in (4, 5) or (form == "bicubic" and rank == 5) or not _floats(xp, x, grid):
        return NotImplemented
    return xp.call(F.grid_sample, x, grid, form, padding_mode, bool(align_corners))


# -- attention ---------------------------------------------------------------------------------------------------------------


def attend(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    bias: torch.Tensor,
    scale: float | None,
    grouped: bool,
) -> torch.Tensor:
    """torch's attention under a mask whose rows may forbid every key; such a query gives zeros."""
    found = F.scaled_dot_product_attention(q, k, v, bias, scale=scale, enable_gqa=grouped)
    empty = (bias == -torch.inf).all(-1, keepdim=True)
    return torch.where(empty, torch.zeros((), dtype=found.dtype, device=found.device), found)


@pytorch_native.op("Attention", versions=(23, 24, 25))
def attention(
    xp: TorchNamespace,
    q: TorchTensor,
    k: TorchTensor,
    v: TorchTensor,
    mask: TorchTensor | None = None,
    past_key: TorchTensor | None = None,
    past_value: TorchTensor | None = None,
    valid: TorchTensor | None = None,
    *,
    is_causal: int = 0,
    kv_num_heads: int | None = None,
    left_window_size: int = -1,
    q_num_heads: int | None = None,
    qk_matmul_output_mode: int = 0,
    right_window_size: int = -1,
    scale: float | None = None,
    softcap: float = 0.0,
    softmax_precision: int | None = None,
) -> Any:
    """torch's scaled_dot_product_attention, in single and double precision."""
    if softcap or xp.wants(3) or xp.dtype(q) not in (ir.DataType.FLOAT, ir.DataType.DOUBLE) or not _floats(xp, q, k, v):
        return NotImplemented
    if softmax_precision is not None and ir.DataType(softmax_precision).bitwidth > xp.dtype(q).bitwidth:
        return NotImplemented
    flat = xp.ndim(q) == 3
    q, k, v = heads_first(xp, q, q_num_heads), heads_first(xp, k, kv_num_heads), heads_first(xp, v, kv_num_heads)
    k = k if past_key is None else xp.concat([past_key, k], 2)
    v = v if past_value is None else xp.concat([past_value, v], 2)
    heads, groups = xp.shape(q)[1], xp.shape(k)[1]
    if not (known(heads) and known(groups)):
        return NotImplemented
    grouped = heads != groups
    plain = mask is None and valid is None and left_window_size < 0 and right_window_size < 0
    if plain and not is_causal:
        found = xp.call(F.scaled_dot_product_attention, q, k, v, scale=scale, enable_gqa=grouped)
    elif plain and past_key is None:
        found = xp.call(F.scaled_dot_product_attention, q, k, v, is_causal=True, scale=scale, enable_gqa=grouped)
    else:
        bias = attention_bias(xp, q, k, mask, past_key, valid, bool(is_causal), left_window_size, right_window_size)
        found = xp.call(attend, q, k, v, bias, scale, grouped)
    found = heads_last(xp, found) if flat else found
    return (found, k, v)[: xp.output_count] if xp.output_count > 1 else found
