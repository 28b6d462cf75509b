"""Numbers of steps, positions in a sequence, and masks over steps."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from onnxport.validation.input_sets.operands.scene import SEQUENCE_LENGTH, Rules, Scene, Shape, Values

RULES = Rules()


@RULES.of("ReverseSequence", shapes=(0, 1))
@RULES.of("RNN", "GRU", "LSTM", shapes=(0, 4))
def _step_counts(scene: Scene, data: Shape, lengths: Shape) -> Values:
    """Numbers of steps, from 1 to the size of an axis of the data."""
    place = 1 if scene.node.op_type == "ReverseSequence" else 4
    return {place: scene.rng.integers(1, data[scene.attribute("time_axis", 0)] + 1, lengths)}


@RULES.of("Attention")
def _attention(scene: Scene) -> Values:
    keys, mask, lengths = (scene.shape(i) for i in (1, 3, 6))
    values: dict[int, Any] = {}
    if keys is not None and lengths is not None:
        longest = min(keys[-2], mask[-1]) if mask else keys[-2]
        values[6] = scene.rng.integers(1, longest + 1, lengths)
    if mask and (value := scene.operand(3)) is not None and value.dtype == ir.DataType.BOOL:
        seen = scene.rng.random(mask) < 0.6
        seen[..., 0] = True  # a row that sees nothing has no softmax
        values[3] = seen
    return values


@RULES.of("SequenceAt", "SequenceErase", "SequenceInsert")
def _sequence_index(scene: Scene) -> Values:
    place, count = (2, SEQUENCE_LENGTH + 1) if scene.node.op_type == "SequenceInsert" else (1, SEQUENCE_LENGTH)
    return {place: scene.rng.integers(-SEQUENCE_LENGTH, count)}


@RULES.of("Loop")
def _loop(scene: Scene) -> Values:
    outs = [shape for output in scene.node.outputs if (shape := scene.draw.shape(output))]
    return {0: outs[-1][0] if outs and 0 < outs[-1][0] <= 16 else 3, 1: True}
