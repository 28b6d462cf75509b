"""Losses that are more than a formula of elements."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import torch
import torch.nn.functional as F

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.graph.compositions import log1p
from onnxport.opset_maps.cases import case, f32, f64, i64
from onnxport.opset_maps.lowerings import ctc
from onnxport.opset_maps.lowerings.axes import rank
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


def _rows(op: OpBuilder, x: ir.Value) -> ir.Value:
    """One example as a row, and a number as a row of one."""
    return x if rank(x) == 2 else op.Reshape(x, [1, -1])


def _margin(op: OpBuilder, gap: ir.Value, counted: ir.Value) -> ir.Value:
    """The gaps above 0 that count; PyTorch's comparison leaves NaN out."""
    return op.Where(op.And(op.Greater(gap, 0.0), counted), gap, op.const(0.0, gap.dtype))


def _averaged(op: OpBuilder, loss: ir.Value, x: ir.Value, reduction: int, *, alone: bool) -> ir.Value:
    """The sums of each row of `x` over its classes, and of all rows as asked for."""
    loss = op.Div(loss, op.cast_like(op.Squeeze(op.dim(x, 1), op.axes(0)), loss))
    if reduction == 0:
        if alone:  # eager PyTorch gives a number, its trace and decompositions [1]
            raise UnsupportedOperator("reduction='none' of one example alone: give it as a batch of one", final=True)
        return loss
    return reduced(op, "ReduceMean" if reduction == 1 else "ReduceSum", loss, None, keepdims=False)


_LABELS = np.array([[4, -1, 0, -1, 2], [0, 0, 4, 1, 4], [-1, 3, -1, 1, 0], [4, 3, 2, 1, 0]])


@aten.lower(
    "aten::multilabel_margin_loss",
    cases=[
        case(F.multilabel_margin_loss, f32(4, 5), _LABELS),
        case(F.multilabel_margin_loss, f32(4, 5), i64(4, 5, low=-1, high=5), dynamic=True),
        case(lambda x, y: F.multilabel_margin_loss(x, y, reduction="none"), f32(4, 5), _LABELS),
        case(lambda x, y: F.multilabel_margin_loss(x, y, reduction="sum"), f64(4, 5), _LABELS),
        case(F.multilabel_margin_loss, f32(5), _LABELS[1]),
        case(F.multilabel_margin_loss, f32(), np.array(0)),
    ],
)
def multilabel_margin_loss(op: OpBuilder, x: ir.Value, target: ir.Value, reduction: int = 1) -> ir.Value:
    """Sums of max(0, 1 - x[label] + x[other]) over the labels before the first -1 and over all that are none of them.

    PyTorch's own decomposition counts class 0 for each place behind that -1.
    """
    alone = rank(x) < 2
    x, target = _rows(op, x), _rows(op, target)
    ended = op.CumSum(op.cast(op.Less(target, 0), ir.DataType.INT64), op.const(1))
    given = op.Equal(ended, 0)
    label = op.Where(given, target, op.const(0))
    own = op.GatherElements(x, label, axis=1)
    classes = op.Range(0, op.Squeeze(op.dim(x, 1), op.axes(0)), 1)
    column = op.Unsqueeze(op.Where(given, target, op.const(-1)), op.axes(2))
    hits = op.cast(op.Equal(column, classes), ir.DataType.INT64)
    other = op.Equal(op.reduce("ReduceSum", hits, [1], keepdims=True), 0)
    gap = op.Add(op.Sub(1.0, op.Unsqueeze(own, op.axes(2))), op.Unsqueeze(x, op.axes(1)))
    margin = _margin(op, gap, op.And(op.Unsqueeze(given, op.axes(2)), other))
    return _averaged(op, op.reduce("ReduceSum", margin, [1, 2], keepdims=False), x, reduction, alone=alone)


@aten.lower(
    "aten::multi_margin_loss",
    cases=[
        case(F.multi_margin_loss, f32(4, 5), i64(4, low=0, high=5), dynamic=True),
        case(lambda x, y, w: F.multi_margin_loss(x, y, p=2, margin=0.5, weight=w, reduction="sum"), f32(4, 5),
             i64(4, low=0, high=5), f32(5)),
        case(lambda x, y: F.multi_margin_loss(x, y, reduction="none"), f64(5), np.array([2])),
    ],
)  # fmt: skip
def multi_margin_loss(
    op: OpBuilder,
    x: ir.Value,
    target: ir.Value,
    p: float = 1,
    margin: float = 1,
    weight: ir.Value | None = None,
    reduction: int = 1,
) -> ir.Value:
    """Sums of max(0, margin - x[label] + x[other])^p over all classes but the label, times the label's weight."""
    alone = not rank(target)
    x, label = _rows(op, x), op.Reshape(target, [-1, 1])
    classes = op.Range(0, op.Squeeze(op.dim(x, 1), op.axes(0)), 1)
    gap = op.Add(op.Sub(float(margin), op.GatherElements(x, label, axis=1)), x)
    loss = _margin(op, gap, op.Not(op.Equal(label, classes)))
    loss = loss if p == 1 else op.Mul(loss, loss)
    if weight is not None:
        loss = op.Mul(loss, op.Gather(op.Reshape(weight, [-1]), label, axis=0))
    return _averaged(op, op.reduce("ReduceSum", loss, [1], keepdims=False), x, reduction, alone=alone)
