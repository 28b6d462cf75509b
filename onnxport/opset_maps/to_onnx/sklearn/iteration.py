"""Iterations that end when they have converged."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx_ir as ir

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.to_onnx.sklearn.arrays import Array

# From the states and the arrays given from outside to the next states and whether to go on.
Step = Callable[[Sequence[Array], Sequence[Array]], tuple[Sequence[Array], Array]]


def iterate(op: OpBuilder, limit: int, states: Sequence[Array], given: Sequence[Array], step: Step) -> list[Array]:
    """The states after at most `limit` steps.

    Args:
        op: the builder.
        limit: the most steps.
        states: where the iteration starts; shapes and element types stay.
        given: arrays of the graph that the steps read.
        step: one step; what it says last is whether another one follows.
    """

    def build(b: OpBuilder) -> list[ir.Value]:
        b.input("step", ir.DataType.INT64, [])
        b.input("going", ir.DataType.BOOL, [])
        inner = [Array(b, b.input("state", item.value.dtype, list(item.value.shape or ()))) for item in states]
        following, going = step(inner, [Array(b, item.value) for item in given])
        return [going.value, *(item.astype(old.dtype).value for item, old in zip(following, states, strict=True))]

    made = op.Loop(op.const(limit), True, *(item.value for item in states), body=op.body(build), outputs=len(states))
    found = [Array(op, value) for value in (made if isinstance(made, tuple) else (made,))]
    for item, state in zip(found, states, strict=True):
        item.value.shape = state.value.shape
    return found
