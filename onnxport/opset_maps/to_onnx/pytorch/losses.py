"""Losses that are more than a formula of elements."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import torch
import torch.nn.functional as F

from onnxport.graph.builder import OpBuilder
from onnxport.graph.compositions import log1p
from onnxport.opset_maps.cases import case, f32, i64
from onnxport.opset_maps.lowerings import ctc
from onnxport.opset_maps.lowerings.reductions import reduced
from onnxport.opset_maps.maps import aten

_HALVES = np.array([-9, -3.5, 0.25, 2, 8], np.float16)
_LENGTHS = np.array([4, 0, 2], np.int64)


def _of_logits(x: torch.Tensor, *args: torch.Tensor, **options: object) -> torch.Tensor:
    return F.ctc_loss(x.log_softmax(-1), *args, **options)  # type: ignore[arg-type]


@aten.lower(
    "onnxport::ctc_losses",
    cases=[
        case(_of_logits, f32(12, 3, 6), i64(3, 5, low=1, high=6), np.array([12, 0, 9]), _LENGTHS),
        case(lambda *a: _of_logits(*a, reduction="none", blank=5), f32(12, 3, 6), i64(3, 5, low=0, high=5),
             np.array([12, 7, 9]), _LENGTHS),
        case(lambda *a: _of_logits(*a, reduction="sum", zero_infinity=True), f32(6, 3, 6), i64(6, low=1, high=6),
             np.array([6, 5, 1]), _LENGTHS),
        case(lambda x, y: _of_logits(x, y, (12,), (5,)), f32(12, 6), i64(5, low=1, high=6)),
        case(lambda x, y: _of_logits(x, y, (8, 8), (3, 2)), f32(8, 2, 6), i64(2, 3, low=1, high=3)),
    ],
)  # fmt: skip
def ctc_losses(
    op: OpBuilder,
    log_probs: ir.Value,
    targets: ir.Value,
    input_lengths: ir.Value,
    target_lengths: ir.Value,
    blank: int,
) -> ir.Value:
    """The forward variables step by step."""
    labels = op.cast(targets, ir.DataType.INT64)
    return op.cast_like(ctc.losses(op, log_probs, labels, input_lengths, target_lengths, blank), log_probs)


@aten.lower(
    "aten::soft_margin_loss",
    cases=[
        case(F.soft_margin_loss, f32(2, 3), f32(2, 3), dynamic=True),
        case(lambda x, y: F.soft_margin_loss(x, y, reduction="none"), _HALVES, _HALVES[::-1].copy()),
        case(lambda x, y: F.soft_margin_loss(x, y, reduction="sum"), f32(5, low=-99.0), f32(5)),
    ],
)
def soft_margin_loss(op: OpBuilder, x: ir.Value, target: ir.Value, reduction: int = 1) -> ir.Value:
    """log(1 + exp(-x y)), step by step in the operands' type as torch does: infinite where the exponential overflows."""
    exponent = op.Mul(op.Neg(x), target)
    halves = x.dtype in (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
    exponential = op.Exp(op.cast(exponent, ir.DataType.FLOAT) if halves else exponent)
    if x.dtype == ir.DataType.FLOAT16:  # an optimiser may drop the casts between float32 and float16, and its overflow
        infinite = op.GreaterOrEqual(exponential, 65520.0)
        exponential = op.Where(infinite, op.const(np.inf, ir.DataType.FLOAT), exponential)
    loss = op.cast_like(log1p(op, exponential), x)
    if reduction == 0:
        return loss
    return reduced(op, "ReduceMean" if reduction == 1 else "ReduceSum", loss, None, keepdims=False)
