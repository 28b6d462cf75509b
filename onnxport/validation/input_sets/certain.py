"""Inputs on which a random operator has no choice left, so that its output can be compared by value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import onnx_ir as ir

from onnxport.validation.input_sets.base import InputSet, own_inputs
from onnxport.validation.numerics import is_random

_COMPARISONS = frozenset({"Greater", "GreaterOrEqual", "Less", "LessOrEqual"})
_CASTS = frozenset({"Cast", "CastLike", "Identity"})
# Probabilities that leave nothing to chance, and numbers below and above every one that is drawn from 0 to 1.
_UNIT_ENDS, _BEYOND = (0.0, 1.0), (-1.0, 2.0)
_LOW_AND_HIGH = {"low": 0.0, "high": 1.0}


def certain_sets(model: ir.Model | None, candidates: Iterable[InputSet], seed: int) -> Iterator[InputSet]:
    """The candidates with probabilities at which nothing is left to chance; none where some choice has no such input."""
    ends = _ends(model) if model is not None else {}
    if not ends:
        return
    for item in candidates:
        for narrow in (False, True):  # a source that checks its probabilities takes none beyond 0 and 1
            rng = np.random.default_rng(seed)
            leaves = list(item.leaves)
            for place, pair in ends.items():
                numbers = rng.choice(np.asarray(_UNIT_ENDS if narrow else pair), np.shape(leaves[place]))
                leaves[place] = numbers.astype(np.asarray(leaves[place]).dtype)
            yield InputSet(item.name, tuple(leaves), certain=True)


def has_certain_sets(model: ir.Model | None) -> bool:
    """Whether there are inputs on which a graph with random operators leaves nothing to chance."""
    return model is not None and bool(_ends(model))


def _ends(model: ir.Model) -> dict[int, tuple[float, float]]:
    """For each input that is the probability of a random choice: a number for never, one for always.

    Empty where the graph makes no random choice, or one whose probability is not an input.
    """
    inputs = {value: place for place, value in enumerate(own_inputs(model))}
    ends_by_input: dict[int, tuple[float, float]] = {}
    for node in model.graph.all_nodes():
        if not is_random(node):
            continue
        for value, ends in _probabilities(node):
            origin = _origin(value)
            if origin not in inputs:
                return {}
            place = inputs[origin]
            ends_by_input[place] = _UNIT_ENDS if _UNIT_ENDS in (ends, ends_by_input.get(place)) else ends
    return ends_by_input


def _probabilities(node: ir.Node) -> Iterator[tuple[ir.Value | None, tuple[float, float]]]:
    """What decides a random choice: Bernoulli's input, or what a number drawn from 0 to 1 is compared with."""
    if node.op_type == "Bernoulli":
        yield node.inputs[0], _UNIT_ENDS
        return
    given = {key: node.attributes[key].as_float() for key in _LOW_AND_HIGH if key in node.attributes}
    readers = list(node.outputs[0].uses())
    uniform = node.op_type in ("RandomUniform", "RandomUniformLike") and {**_LOW_AND_HIGH, **given} == _LOW_AND_HIGH
    if not uniform or not readers:
        yield None, _BEYOND
        return
    for reader, place in readers:
        compared = reader.op_type in _COMPARISONS and not reader.domain
        yield (reader.inputs[1 - place] if compared else None), _BEYOND


def _origin(value: ir.Value | None) -> ir.Value | None:
    """The value that this one is a cast of."""
    while value is not None and (node := value.producer()) is not None and node.op_type in _CASTS:
        value = node.inputs[0]
    return value
