"""Control flow."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from onnxport.errors import UnsupportedOperator
from onnxport.opset_maps.from_onnx.axes import part, resolved, scalar
from onnxport.opset_maps.from_onnx.namespace import Namespace
from onnxport.opset_maps.from_onnx.primitives.control import Body, Iteration
from onnxport.opset_maps.from_onnx.values import Axes, Host, InvalidOperand, Number, Tensor, host_array
from onnxport.opset_maps.maps import onnx


@onnx.op("If", versions=(1, 11, 13, 16, 19, 21, 23, 24, 25))
def if_(xp: Namespace, condition: Number, *, then_branch: Body, else_branch: Body) -> Any:
    """The outputs of one branch; of the only one that can be taken where the condition is known."""
    counts = len(then_branch.outputs), len(else_branch.outputs)
    if counts[0] != counts[1]:
        raise InvalidOperand(f"branches of {counts[0]} and {counts[1]} outputs")
    if isinstance(condition, (bool, int, float)):
        return (then_branch if condition else else_branch)()
    return xp.cond(condition, then_branch, else_branch)


@onnx.op("Loop", versions=(1, 11, 13, 16, 19, 21, 23, 24, 25))
def loop(
    xp: Namespace, trips: Host | None = None, condition: Number | None = None, *carried: Tensor, body: Body
) -> Any:
    """Values carried through iterations, and what each iteration gives, stacked."""
    limit = None if trips is None else scalar(trips)
    if isinstance(condition, (bool, int, float)):  # a condition that holds is none
        condition = None if condition else xp.constant(host_array(False, bool), ir.DataType.BOOL)
    scan_count = len(body.outputs) - 1 - len(carried)
    return xp.loop(limit, condition, carried, Iteration(body, scan_count, list(body.inputs[2:])))


@onnx.op("Scan", versions=(9, 11, 16, 19, 21, 23, 24, 25))
def scan(
    xp: Namespace,
    *operands: Tensor,
    body: Body,
    num_scan_inputs: int,
    scan_input_axes: Axes = None,
    scan_input_directions: Axes = None,
    scan_output_axes: Axes = None,
    scan_output_directions: Axes = None,
) -> Any:
    """A body run over the slices of its scan inputs, as a loop."""
    states = operands[: len(operands) - num_scan_inputs]
    sequences = operands[len(operands) - num_scan_inputs :]
    axes = scan_input_axes or (0,) * num_scan_inputs
    directions = scan_input_directions or (0,) * num_scan_inputs
    ready = []
    for x, axis, backward in zip(sequences, axes, directions, strict=True):
        along = resolved(axis, xp.ndim(x))
        order = (along, *(i for i in range(xp.ndim(x)) if i != along))
        x = xp.permute_dims(x, order)
        ready.append(xp.flip(x, (0,)) if backward else x)
    length = xp.shape(ready[0])[0]
    count = len(body.outputs) - len(states)

    def step(iteration: Tensor, condition: Tensor, *carried: Tensor) -> tuple[Tensor, ...]:
        slices = [xp.take(x, iteration, 0) for x in ready]
        return (xp.constant(host_array(True, bool), ir.DataType.BOOL), *body(*carried, *slices))

    results = list(xp.loop(length, None, states, Iteration(step, count, list(body.inputs[: len(states)]))))
    out_axes = scan_output_axes or (0,) * count
    out_directions = scan_output_directions or (0,) * count
    for i in range(count):
        result = results[len(states) + i]
        if out_directions[i]:
            result = xp.flip(result, (0,))
        if out_axes[i]:
            rank = xp.ndim(result)
            place = resolved(out_axes[i], rank)
            rest = list(range(1, rank))
            result = xp.permute_dims(result, [*rest[:place], 0, *rest[place:]])
        results[len(states) + i] = result
    return tuple(results)


@onnx.op("Scan", versions=(8,))
def batched_scan(
    xp: Namespace, lengths: Host | None, *operands: Tensor, body: Body, num_scan_inputs: int, directions: Axes = None
) -> Any:
    """Opset 8: axis 0 is a batch, each element of which is scanned along axis 1."""
    if lengths is not None and lengths.size:
        raise UnsupportedOperator("Scan-8 with sequence_lens has no mapping")
    batch = xp.shape(operands[0])[0]
    if not isinstance(batch, int):
        raise UnsupportedOperator("Scan-8 over a dynamic batch has no mapping")
    rows = []
    for index in range(batch):
        parts = [part(xp, x, 0, index) for x in operands]
        rows.append(scan(xp, *parts, body=body, num_scan_inputs=num_scan_inputs, scan_input_directions=directions))
    return tuple(xp.stack(parts, 0) for parts in zip(*rows, strict=True))
