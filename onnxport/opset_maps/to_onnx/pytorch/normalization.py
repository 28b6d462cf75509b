"""Normalisation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import torch
import torch.nn.functional as F
from torch import nn

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.graph.compositions import standardized
from onnxport.opset_maps.cases import built, case, f32, f64
from onnxport.opset_maps.lowerings.axes import rank
from onnxport.opset_maps.lowerings.dtypes import Size
from onnxport.opset_maps.lowerings.normalization import affine, batch_normalized, ones_and_zeros
from onnxport.opset_maps.maps import aten


@aten.lower(
    "aten::batch_norm",
    "aten::instance_norm",
    cases=[
        built(lambda: nn.BatchNorm2d(3).eval(), f32(2, 3, 4, 5), dynamic=True),
        built(lambda: nn.BatchNorm1d(3, affine=False).eval(), f32(4, 3)),
        built(lambda: nn.BatchNorm2d(3).double().eval(), f64(2, 3, 4, 5)),
        built(lambda: nn.BatchNorm1d(3, track_running_stats=False), f32(4, 3, 5)),
        built(lambda: nn.InstanceNorm2d(3, affine=True), f32(2, 3, 4, 5), dynamic=True),
        built(lambda: nn.InstanceNorm1d(3), f32(2, 3, 5)),
        built(lambda: nn.InstanceNorm1d(3, track_running_stats=True).eval(), f32(2, 3, 5)),
        case(lambda x, m, v: F.batch_norm(x, m, v, training=True), f32(4, 3, 5), f32(3), f32(3, low=0.5)),
        case(lambda x, m, v: F.instance_norm(x, m, v), f32(4, 3, 5), f32(3), f32(3, low=0.5)),
    ],
)
def batch_norm(
    op: OpBuilder,
    x: ir.Value,
    weight: ir.Value | None,
    bias: ir.Value | None,
    running_mean: ir.Value | None,
    running_var: ir.Value | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = True,
) -> ir.Value:
    """BatchNormalization with the running statistics; else by the batch's own, or each instance's (InstanceNormalization)."""
    if training and "instance_norm" in op.name:
        return op.InstanceNormalization(x, *ones_and_zeros(op, x, weight, bias), epsilon=eps)
    mean = None if training else running_mean
    return batch_normalized(op, x, weight, bias, (mean, running_var), eps)


@aten.lower(
    "aten::native_batch_norm",
    cases=[
        case(
            lambda x, m, v: torch.native_batch_norm(x, None, None, m, v, False, 0.1, 1e-3)[0],
            f32(4, 3, 5),
            f32(3),
            f32(3, low=0.5),
        ),
        case(lambda x, w: torch.native_batch_norm(x, w, w, None, None, True, 0.1, 1e-3), f32(4, 3, 5), f32(3)),
    ],
)
def native_batch_norm(op: OpBuilder, x: ir.Value, *options: Any) -> tuple[ir.Value, ...]:
    """BatchNormalization; in training also the batch's mean and the reciprocal of its deviation."""
    result = batch_norm(op, x, *options)
    training, eps = options[4], options[6]
    if not training:
        empty = op.const(np.zeros(0), x.dtype)
        return result, empty, empty
    axes = [0, *range(2, rank(x))]
    own = op.reduce("ReduceMean", x, axes, keepdims=True)
    centred = op.Sub(x, own)
    variance = op.reduce("ReduceMean", op.Mul(centred, centred), axes, keepdims=False)
    return result, op.Reshape(own, [-1]), op.Reciprocal(op.Sqrt(op.Add(variance, eps)))


@aten.lower(
    "aten::layer_norm",
    cases=[
        built(lambda: nn.LayerNorm(4), f32(2, 3, 4), dynamic=True),
        built(lambda: nn.LayerNorm((3, 4), bias=False), f32(2, 3, 4)),
        case(lambda x: F.layer_norm(x, (4,)), f32(2, 4)),
        case(lambda x: F.layer_norm(x, x.shape), f32(5, 4), dynamic=True),
    ],
)
def layer_norm(
    op: OpBuilder,
    x: ir.Value,
    normalized_shape: Sequence[Size],
    weight: ir.Value | None = None,
    bias: ir.Value | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> ir.Value:
    """LayerNormalization from opset 17; before, its parts."""
    count = len(normalized_shape)
    if op.opset >= 17:
        if weight is None:
            weight = op.Expand(op.const(1.0, x.dtype), op.shape_vector(normalized_shape))
        return op.LayerNormalization(x, weight, bias, axis=-count, epsilon=eps)
    result = standardized(op, x, list(range(-count, 0)), eps)
    result = result if weight is None else op.Mul(result, weight)
    return result if bias is None else op.Add(result, bias)


@aten.lower(
    "aten::rms_norm",
    cases=[
        built(lambda: nn.RMSNorm(4), f32(2, 3, 4), dynamic=True),
        case(lambda x: F.rms_norm(x, (3, 4), eps=1e-3), f32(2, 3, 4)),
        case(lambda x, w: F.rms_norm(x, (4,), w, eps=1e-3), f64(2, 3, 4), f64(4)),
    ],
)
def rms_norm(
    op: OpBuilder,
    x: ir.Value,
    normalized_shape: Sequence[Size],
    weight: ir.Value | None = None,
    eps: float | None = None,
) -> ir.Value:
    """RMSNormalization from opset 23, where its float32 epsilon has all digits; else its parts.

    Without eps it is that of the type computed in.
    """
    if x.dtype is None:
        raise UnsupportedOperator("an operand of unknown type")
    count, double = len(normalized_shape), x.dtype == ir.DataType.DOUBLE
    if eps is None:
        eps = float(np.finfo(np.float64 if double else np.float32).eps)
    if op.opset >= 23 and not (double and float(np.float32(eps)) != eps):
        if weight is None:
            weight = op.Expand(op.const(1.0, x.dtype), op.shape_vector(normalized_shape))
        return op.RMSNormalization(x, weight, axis=-count, epsilon=eps)
    wide = x if double else op.cast(x, ir.DataType.FLOAT)
    # in this form, with Pow and Div, runtimes take it for one operator
    mean = op.reduce("ReduceMean", op.Pow(wide, 2.0), list(range(-count, 0)), keepdims=True)
    result = op.cast_like(op.Div(wide, op.Sqrt(op.Add(mean, eps))), x)
    return result if weight is None else op.Mul(result, weight)


@aten.lower(
    "aten::group_norm",
    cases=[
        built(lambda: nn.GroupNorm(2, 4), f32(2, 4, 5, 6), dynamic=True),
        built(lambda: nn.GroupNorm(2, 4, affine=False), f32(2, 4)),
    ],
)
def group_norm(
    op: OpBuilder,
    x: ir.Value,
    num_groups: int,
    weight: ir.Value | None = None,
    bias: ir.Value | None = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> ir.Value:
    """InstanceNormalization of the groups, then scale and shift a channel."""
    inner = list(x.shape)[1:] if x.shape is not None else [None]
    if not isinstance(inner[0], int):
        raise UnsupportedOperator("normalisation over a dynamic number of channels")
    sizes = [size for size in inner if isinstance(size, int)]
    size = math.prod(sizes) // num_groups if len(sizes) == len(inner) else -1  # -1 of an empty batch could be anything
    grouped = op.Reshape(x, [0, num_groups, size])
    one, zero = op.const(np.ones(num_groups), x.dtype), op.const(np.zeros(num_groups), x.dtype)
    result = op.InstanceNormalization(grouped, one, zero, epsilon=eps)
    return affine(op, op.typed(op.Reshape(result, op.shape(x)), shape=x.shape), weight, bias)


@aten.lower(
    "aten::local_response_norm",
    cases=[built(lambda: nn.LocalResponseNorm(3, alpha=0.1, k=2.0), f32(2, 4, 5, 5))],
)
def local_response_norm(
    op: OpBuilder, x: ir.Value, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> ir.Value:
    """LRN."""
    return op.LRN(x, size=size, alpha=alpha, beta=beta, bias=k)
