"""The inner values of a TensorFlow graph, by the names that its nodes have in a trace of the model itself."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

_FIRST = 48  # tensors of the first run, of which nothing is known yet
_BYTES = 64 << 20  # what the tensors of one run should take: they stand in memory together
# Of several results the first is the one that inference has.
_FIRST_COUNTS = frozenset({"FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"})
# What only carries a value, feeds the graph or holds state.
_NO_OPERATORS = frozenset({"Const", "Placeholder", "Identity", "NoOp", "ReadVariableOp", "VarHandleOp"})
_CALL = re.compile(r"(?:Stateful)?PartitionedCall(?:_\d+)?/")  # an inlined call stands before the names of its nodes


def hand_over(graph: tf.Graph, fetch: Callable[[list[str]], Sequence[Any]], take: Callable[[str, Any], None]) -> None:
    """Takes the result of each operator of the graph, in pieces: each piece is a run of its own."""
    named = _named(graph.get_operations())
    tensors = list(named)
    place, count = 0, _FIRST
    while place < len(tensors):
        piece, taken = tensors[place : place + count], 0
        place += len(piece)
        for tensor, value in zip(piece, fetch(piece), strict=True):
            array = np.asarray(value.numpy() if isinstance(value, tf.Tensor) else value)
            taken += array.nbytes
            for name in named[tensor]:
                take(name, array)
        count = 2 * count if 2 * taken <= _BYTES else max(1, len(piece) * _BYTES // (2 * taken))


def _named(operations: Iterable[Any]) -> dict[str, list[str]]:
    """By tensor the names that its operator may have: as it is called, and without calls around it where that is one's own."""
    names: dict[str, list[str]] = {}
    for operation in operations:
        if operation.type in _NO_OPERATORS or not operation.outputs:
            continue
        first = operation.outputs[0]
        if len(operation.outputs) > 1 and operation.type not in _FIRST_COUNTS:
            continue
        if _is_array(first):
            names[first.name] = [operation.name]
            rest = operation.name
            while (call := _CALL.match(rest)) is not None:
                rest = rest[call.end() :]
                names[first.name].append(rest)
    counts = Counter(name for several in names.values() for name in several)
    return {tensor: [name for name in several if counts[name] == 1] for tensor, several in names.items()}


def _is_array(tensor: Any) -> bool:
    dtype = tensor.dtype
    return bool(dtype.is_floating or dtype.is_integer or dtype.is_bool or dtype.is_complex) and not dtype.is_quantized
