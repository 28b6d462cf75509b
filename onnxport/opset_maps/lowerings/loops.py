"""Steps that follow each other: a counted Loop, and running results along an axis by Scan."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx_ir as ir

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.lowerings.axes import rank

# step(body, k, states) gives the next states.
LoopStep = Callable[[OpBuilder, ir.Value, Sequence[ir.Value]], Sequence[ir.Value]]
# step(body, states, slice) gives the next states; the first `outputs` of them are collected.
ScanStep = Callable[[OpBuilder, Sequence[ir.Value], ir.Value], Sequence[ir.Value]]


def loop(op: OpBuilder, count: ir.Value, states: Sequence[ir.Value], step: LoopStep) -> tuple[ir.Value, ...]:
    """The states after `count` (an INT64 scalar) steps."""

    def build(b: OpBuilder) -> list[ir.Value]:
        k = b.input("k", ir.DataType.INT64, [])
        going = b.input("going", ir.DataType.BOOL, [])
        inner = [
            b.input("state", item.dtype or ir.DataType.DOUBLE, list(item.shape) if item.shape is not None else None)
            for item in states
        ]
        return [b.Identity(going), *step(b, k, inner)]

    result = op.Loop(count, True, *states, body=op.body(build), outputs=len(states))
    result = result if isinstance(result, tuple) else (result,)
    for value, state in zip(result, states, strict=True):
        value.shape = state.shape
    return result


def running(
    op: OpBuilder, x: ir.Value, axis: int, initial: Sequence[ir.Value], step: ScanStep, *, outputs: int
) -> tuple[ir.Value, ...]:
    """The states after each slice of `x`, stacked along `axis`.

    Args:
        op: the builder.
        x: what is walked over.
        axis: the axis to walk along.
        initial: the states before the first slice.
        step: gives the next states of the states and a slice.
        outputs: how many of the states are wanted.
    """
    if x.shape is not None and 0 in x.shape:  # nothing to walk over
        return tuple(op.Expand(op.const(0, item.dtype), op.shape(x)) for item in initial[:outputs])

    def build(b: OpBuilder) -> list[ir.Value]:
        states = [b.input("state", item.dtype or ir.DataType.FLOAT, item.shape) for item in initial]
        shape = [dim for i, dim in enumerate(x.shape) if i != axis] if x.shape is not None else None
        part = b.input("slice", x.dtype or ir.DataType.FLOAT, shape)
        following = list(step(b, states, part))
        for value, state in zip(following, states, strict=True):
            value.shape = state.shape  # runtimes need it, and inference at old opsets does not give it
        return [*following, *following[:outputs]]

    result = op.Scan(
        *initial,
        x,
        body=op.body(build),
        num_scan_inputs=1,
        scan_input_axes=[axis],
        scan_output_axes=[axis] * outputs,
        outputs=len(initial) + outputs,
    )
    outcome = tuple(result[len(initial) :])
    for value, state in zip(outcome, initial):  # inference of Scan's types puts the new axis first
        sizes = list(state.shape) if state.shape is not None and x.shape is not None else None
        if sizes is not None and x.shape is not None:
            sizes.insert(axis, x.shape[axis])
        value.shape = ir.Shape(sizes) if sizes is not None else None
    return outcome


def slice_like(op: OpBuilder, x: ir.Value, axis: int, fill: float | int, dtype: ir.DataType) -> ir.Value:
    """A slice of `x` across `axis`, filled with one number."""
    count = rank(x)
    sizes = [op.dim(x, i) for i in range(count) if i != axis]
    value = op.const(fill, dtype)
    return op.Expand(value, op.shape_vector(sizes)) if sizes else value
