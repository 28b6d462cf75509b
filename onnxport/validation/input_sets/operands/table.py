"""The rules by operator."""

from __future__ import annotations

from onnxport.validation.input_sets.operands import indices, numbers, pictures, sequences, shapes, slices

RULES = {**shapes.RULES, **slices.RULES, **indices.RULES, **sequences.RULES, **numbers.RULES, **pictures.RULES}
