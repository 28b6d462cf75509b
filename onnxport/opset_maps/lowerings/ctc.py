"""Connectionist temporal classification (Graves et al., 2006): the loss by section 4.1's forward variables, in logarithms."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.lowerings.loops import loop

_DOUBLE = ir.DataType.DOUBLE


def losses(
    op: OpBuilder,
    log_probs: ir.Value,
    labels: ir.Value,
    input_lengths: ir.Value,
    label_lengths: ir.Value,
    blank: int,
) -> ir.Value:
    """-log p(labels) of each sequence [batch], in double.

    Args:
        op: the builder.
        log_probs: [time, batch, classes], floating-point numbers.
        labels: [batch, length], INT64; what stands beyond a sequence's length has no part.
        input_lengths: how many steps of each sequence count [batch], INT64.
        label_lengths: how many labels each sequence has [batch], INT64.
        blank: the class that stands for no label.
    """
    probabilities = op.cast(log_probs, _DOUBLE)
    known = op.Clip(labels, 0, op.Sub(op.Squeeze(op.dim(log_probs, 2), op.axes(0)), 1))
    last = op.axes(-1)
    column = op.Mul(op.Unsqueeze(label_lengths, last), 0)  # [batch, 1]
    blanks = op.Add(op.Mul(known, 0), blank)
    pairs = op.Concat(op.Unsqueeze(blanks, last), op.Unsqueeze(known, last), axis=-1)
    # A blank before, between and after the labels: [batch, 2 * length + 1].
    spread = op.Concat(op.Reshape(pairs, op.Concat(op.dim(column, 0), op.Mul(op.dim(known, 1), 2), axis=0)),
                       op.Add(column, blank), axis=1)  # fmt: skip
    outside = op.Expand(op.const(-np.inf, _DOUBLE), op.Concat(op.dim(column, 0), [2], axis=0))
    # The blank between two labels may be left out where these differ.
    before = op.Slice(op.Concat(op.Add(column, -1), op.Add(column, -1), spread, axis=1), [0], [-2], [1])
    skips = op.And(op.Not(op.Equal(spread, before)), op.Not(op.Equal(spread, blank)))
    nothing = op.cast(op.Mul(spread, 0), _DOUBLE)
    start = op.Where(op.Greater(op.CumSum(op.Add(nothing, 1.0), 1), 1.0), op.const(-np.inf, _DOUBLE), nothing)

    def step(b: OpBuilder, k: ir.Value, states: Sequence[ir.Value]) -> list[ir.Value]:
        (alpha,) = states
        padded = b.Concat(outside, alpha, axis=1)
        skipped = b.Where(skips, b.Slice(padded, [0], [-2], [1]), b.const(-np.inf, _DOUBLE))
        paths = (alpha, b.Slice(padded, [1], [-1], [1]), skipped)
        emitted = b.GatherElements(b.Gather(probabilities, k, axis=0), spread, axis=1)
        counts = b.Less(k, b.Unsqueeze(input_lengths, last))
        return [b.Where(counts, b.Add(log_sum_exp(b, *paths), emitted), alpha)]

    (alpha,) = loop(op, op.Squeeze(op.dim(log_probs, 0), op.axes(0)), [start], step)
    end = op.Mul(op.Unsqueeze(label_lengths, last), 2)
    padded = op.Concat(outside, alpha, axis=1)
    ends = (op.GatherElements(padded, op.Add(end, shift), axis=1) for shift in (1, 2))
    return op.Squeeze(op.Neg(log_sum_exp(op, *ends)), last)


def log_sum_exp(op: OpBuilder, *items: ir.Value) -> ir.Value:
    """log(e^a + e^b + ...), elementwise; -inf where all are."""
    greatest = op.Max(*items)
    finite = op.Where(op.IsInf(greatest), op.const(0.0, _DOUBLE), greatest)
    total = op.Exp(op.Sub(items[0], finite))
    for item in items[1:]:
        total = op.Add(total, op.Exp(op.Sub(item, finite)))
    return op.Add(op.Log(total), finite)
