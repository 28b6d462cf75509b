"""The inner values of a TensorFlow graph, by the names that its nodes have in a trace of the model itself."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

_FIRST = 48  # tensors of the first run, of which nothing is known yet
_BYTES = 64 << 20  # what the tensors of one run should take: they stand in memory together
# Of several results the first is the one that inference has.
_FIRST_COUNTS = frozenset({"FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"})
# What only carries a value, feeds the graph or holds state.
_NO_OPERATORS = frozenset({"Const", "Placeholder", "Identity", "NoOp", "ReadVariableOp", "VarHandleOp"})
_CALLED = re.compile(r"PartitionedCall|^(?:Stateless)?(?:While|If|Case)$")  # what computes in functions of their own
_CALL = re.compile(r"(?:Stateful)?PartitionedCall(?:_\d+)?/")  # an inlined call stands before the names of its nodes


def values_of_call(concrete: Any, tensors: Sequence[Any], take: Callable[[str, Any], None]) -> bool:
    """Takes the result of each operator of a traced call; whether it can: variables are fed as numbers, so only read."""
    graph = concrete.graph
    held = {id(inner): outer for outer, inner in graph.captures}
    feeds = {inner.name: outer for outer, inner in graph.captures if outer.dtype != tf.resource}
    feeds |= {inner.name: tensor for inner, tensor in zip(concrete.inputs, tensors, strict=False)}
    for operation in graph.get_operations():
        if _CALLED.search(operation.type):
            return False
        handles = [held[id(item)] for item in operation.inputs if id(item) in held and item.dtype == tf.resource]
        if handles and operation.type != "ReadVariableOp":
            return False
        if handles:
            result = operation.outputs[0]
            feeds[result.name] = tf.raw_ops.ReadVariableOp(resource=handles[0], dtype=result.dtype)
    values_of_graph(graph, {name: tensor.numpy() for name, tensor in feeds.items()}, take)
    return True


def values_of_graph(graph: tf.Graph, feeds: Mapping[str, Any], take: Callable[[str, Any], None]) -> None:
    """Takes the result of each operator of a graph, fed with values by the names of tensors."""
    threads = tf.config.threading
    config = tf.compat.v1.ConfigProto(
        allow_soft_placement=True,
        intra_op_parallelism_threads=threads.get_intra_op_parallelism_threads(),
        inter_op_parallelism_threads=threads.get_inter_op_parallelism_threads(),
    )
    config.graph_options.rewrite_options.disable_meta_optimizer = True  # a graph that runs once is run as it is
    with tf.compat.v1.Session(graph=graph, config=config) as session:
        _hand_over(graph, lambda names: session.run(names, feeds), take)


def _hand_over(graph: tf.Graph, fetch: Callable[[list[str]], Sequence[Any]], take: Callable[[str, Any], None]) -> None:
    """Takes the result of each operator of the graph, in pieces: each piece is a run of its own."""
    named = _named(graph.get_operations())
    tensors = list(named)
    place, count = 0, _FIRST
    while place < len(tensors):
        piece, taken = tensors[place : place + count], 0
        place += len(piece)
        for tensor, value in zip(piece, fetch(piece), strict=True):
            array = np.asarray(value)
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
