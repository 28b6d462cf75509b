"""Iterations: until they have converged, or over blocks of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array
from onnxport.opset_maps.to_onnx.sklearn.arrays.functions import symbol

# From the states and the arrays given from outside to the next states and whether to go on.
Step = Callable[[Sequence[Array], Sequence[Array]], tuple[Sequence[Array], Array]]
# Rows of a block, so that a block's table against some thousand fitted rows stays in the processor's cache.
_BLOCK = 64
# From so many fitted rows on a table of all rows against them is worth a loop.
_LARGE = 256


def iterate(op: OpBuilder, limit: int, states: Sequence[Array], given: Sequence[Array], step: Step) -> list[Array]:
    """The states after at most `limit` steps.

    Args:
        op: the builder.
        limit: the most steps.
        states: where the iteration starts; shapes and element types stay.
        given: arrays of the graph that the steps read.
        step: one step; its last result is whether another one follows.
    """

    def build(b: OpBuilder) -> list[ir.Value]:
        b.input("step", ir.DataType.INT64, [])
        b.input("going", ir.DataType.BOOL, [])
        inner = [Array(b, b.input("state", item.value.dtype, list(item.value.shape or ()))) for item in states]
        following, going = step(inner, [Array(b, item.value) for item in given])
        return [going.value, *(item.astype(old.dtype).value for item, old in zip(following, states, strict=True))]

    result = op.Loop(op.const(limit), True, *(item.value for item in states), body=op.body(build), outputs=len(states))
    parts = [Array(op, value) for value in _several(result)]
    for item, state in zip(parts, states, strict=True):
        item.value.shape = state.value.shape
    return parts


def _several(results: ir.Value | tuple[ir.Value, ...]) -> tuple[ir.Value, ...]:
    """The results of a node: of a single one the builder gives that itself."""
    return results if isinstance(results, tuple) else (results,)


def in_blocks(
    x: Array, fitted: int, rowwise: Callable[[Array], Sequence[Array]], *, least: int = _LARGE
) -> list[Array]:
    """What `rowwise` gives for the rows of `x`, in blocks: its tables of rows against `fitted` rows are never whole in memory.

    Args:
        x: [N, F].
        fitted: number of the fitted rows; few of them need no blocks.
        rowwise: arrays [N, ...] from rows [N, F], each row for itself.
        least: from so many fitted rows on there are blocks.
    """
    if fitted < least:
        return list(rowwise(x))
    op = x.op
    parts: list[Array] = []

    def whole(b: OpBuilder) -> list[ir.Value]:
        parts.extend(rowwise(Array(b, x.value)))
        return [item.value for item in parts]

    def by_blocks(b: OpBuilder) -> list[ir.Value]:
        return [item.value for item in _looped(Array(b, x.value), rowwise)]

    width = int(np.prod([size or 0 for size in x.shape[1:]]))
    if width:
        few = op.LessOrEqual(op.Size(x.value), _BLOCK * width)
    else:
        few = op.LessOrEqual(op.Squeeze(op.dim(x.value, 0), op.axes(0)), _BLOCK)
    at_once = op.body(whole)  # which determines the number of results
    result = op.If(few, then_branch=at_once, else_branch=op.body(by_blocks), outputs=len(parts))
    return [
        x.of(op.typed(value, item.value.dtype, [symbol(x.value), *item.shape[1:]]))
        for value, item in zip(_several(result), parts, strict=True)
    ]


def _looped(x: Array, rowwise: Callable[[Array], Sequence[Array]]) -> list[Array]:
    op, one = x.op, np.ones(1, np.int64)
    count = op.dim(x.value, 0)  # more than a block
    size = op.const(one * _BLOCK)
    blocks = op.Div(op.Sub(op.Add(count, size), one), size)
    rest = op.Sub(op.Mul(blocks, size), count)
    padded = op.Pad(x.value, op.Concat(np.zeros(x.ndim, np.int64), rest, np.zeros(x.ndim - 1, np.int64), axis=0))
    parts: list[Array] = []

    def build(b: OpBuilder) -> list[ir.Value]:
        step = b.input("block", ir.DataType.INT64, [])
        going = b.input("going", ir.DataType.BOOL, [])
        start = b.Mul(b.Reshape(step, [1]), size)
        block = b.Slice(padded, start, b.Add(start, size), [0])
        block.shape = ir.Shape([None, *x.shape[1:]])
        parts.extend(rowwise(Array(b, block)))
        return [b.Identity(going), *(item.value for item in parts)]

    body = op.body(build)
    result = op.Loop(op.Squeeze(blocks, op.axes(0)), True, body=body, outputs=len(parts))
    results = []
    for value, item in zip(_several(result), parts, strict=True):
        flat = op.Reshape(value, [-1, *(int(size or -1) for size in item.shape[1:])])
        kept = op.Slice(flat, [0], count, [0])
        kept.shape = ir.Shape([symbol(x.value), *item.shape[1:]])
        results.append(x.of(kept))
    return results
