"""The rules by operator.

A rule gives values for some of a node's inputs by their index. The declared shapes of the node's outputs decide first: a
`Reshape` is drawn to the shape that its output has.
"""

from __future__ import annotations

from onnxport.validation.input_sets.operands import indices, numbers, sequences, shapes, slices
from onnxport.validation.input_sets.operands.scene import Rule
from onnxport.validation.input_sets.pictures import encoded_image

RULES: dict[str, Rule] = {
    **shapes.RULES,
    **slices.RULES,
    **indices.RULES,
    **sequences.RULES,
    **numbers.RULES,
    "ImageDecoder": encoded_image,
}
