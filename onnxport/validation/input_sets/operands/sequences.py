"""Numbers of steps, positions in a sequence, and masks over steps."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from onnxport.validation.input_sets.operands.scene import SEQUENCE_LENGTH, Rule, Scene, Values, attribute, operand


def _step_counts(place: int, axis: int) -> Rule:
    """Numbers of steps, from 1 to the size of an axis of the data."""

    def rule(scene: Scene, node: ir.Node) -> Values:
        data, lengths = scene.shape(operand(node, 0)), scene.shape(operand(node, place))
        where = attribute(node, "time_axis", axis)
        return {place: scene.rng.integers(1, data[where] + 1, lengths)} if data and lengths is not None else {}

    return rule


def _attention(scene: Scene, node: ir.Node) -> Values:
    keys, mask, lengths = (scene.shape(operand(node, i)) for i in (1, 3, 6))
    values: dict[int, Any] = {}
    if keys is not None and lengths is not None:
        longest = min(keys[-2], mask[-1]) if mask else keys[-2]
        values[6] = scene.rng.integers(1, longest + 1, lengths)
    if mask is not None and mask and node.inputs[3] is not None and node.inputs[3].dtype == ir.DataType.BOOL:
        seen = scene.rng.random(mask) < 0.6
        seen[..., 0] = True  # a row that sees nothing has no softmax
        values[3] = seen
    return values


def _sequence_index_at(place: int, extra: int) -> Rule:
    def rule(scene: Scene, node: ir.Node) -> Values:
        count = SEQUENCE_LENGTH
        return {place: scene.rng.integers(-count, count + extra)}

    return rule


def _loop(scene: Scene, node: ir.Node) -> Values:
    outs = [shape for output in node.outputs if (shape := scene.shape(output))]
    return {0: outs[-1][0] if outs and 0 < outs[-1][0] <= 16 else 3, 1: True}


RULES: dict[str, Rule] = {
    "ReverseSequence": _step_counts(1, 0),
    "RNN": _step_counts(4, 0),
    "GRU": _step_counts(4, 0),
    "LSTM": _step_counts(4, 0),
    "Attention": _attention,
    "SequenceAt": _sequence_index_at(1, 0),
    "SequenceErase": _sequence_index_at(1, 0),
    "SequenceInsert": _sequence_index_at(2, 1),
    "Loop": _loop,
}
