"""What stands beside 1 in a sum, moved by a unit of 1 in a TensorFlow graph, as `pytorch.noise` does while PyTorch runs.

Runtimes compute 1 / (1 + exp(-x)), log(1 + exp(x)) and exp(x) - 1 as they are written, so that small results have fewer digits
than their type holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import function_pb2, graph_pb2, node_def_pb2, types_pb2

# The operators, and what their definitions call the result.
_BESIDE_ONE = {"Sigmoid": "y", "Softplus": "activations", "Expm1": "y", "Elu": "activations", "Selu": "activations"}
_MOVED = {types_pb2.DT_FLOAT: tf.float32, types_pb2.DT_DOUBLE: tf.float64}


def add_noise(definition: graph_pb2.GraphDef) -> None:
    """Moves the results of these operators up or down at random, in the graph and its functions, each time that it runs."""
    kinds: set[int] = set()
    renamed = _insert(definition.node, kinds, inside=False)
    _rename(definition.node, renamed)
    for function in definition.library.function:
        renamed = _insert(function.node_def, kinds, inside=True)
        _rename(function.node_def, renamed)
        for name, source in function.ret.items():
            function.ret[name] = renamed.get(source, source)
    definition.library.function.extend(_mover(kind) for kind in sorted(kinds))


def _insert(nodes: Any, kinds: set[int], *, inside: bool) -> dict[str, str]:
    """Adds a call behind each operator; the new name of what it gives by the old one."""
    renamed: dict[str, str] = {}
    for node in list(nodes):
        kind = node.attr["T"].type if node.op in _BESIDE_ONE else 0
        if kind not in _MOVED:
            continue
        kinds.add(kind)
        source = f"{node.name}:{_BESIDE_ONE[node.op]}:0" if inside else node.name
        call = node_def_pb2.NodeDef(op="StatefulPartitionedCall", name=f"{node.name}/moved", input=[source])
        call.attr["Tin"].list.type.append(kind)
        call.attr["Tout"].list.type.append(kind)
        call.attr["f"].func.name = _mover(kind).signature.name
        nodes.append(call)
        renamed[source] = f"{call.name}:output:0" if inside else call.name
    return renamed


def _rename(nodes: Any, renamed: dict[str, str]) -> None:
    calls = {name.removesuffix(":output:0") for name in renamed.values()}
    for node in nodes:
        if node.name not in calls:
            node.input[:] = list(_names(node, renamed))


def _names(node: node_def_pb2.NodeDef, renamed: dict[str, str]) -> Iterator[str]:
    for name in node.input:
        plain = name.removesuffix(":0") if name.count(":") == 1 else name  # in a graph ``x:0`` is ``x``
        yield renamed.get(plain, name)


@cache
def _mover(kind: int) -> function_pb2.FunctionDef:
    """A function that moves numbers by a unit of 1: no whole number, and none below 0, whose root or logarithm is NaN."""
    dtype = _MOVED[kind]

    def moved(x: Any) -> Any:
        unit = tf.constant(dtype.as_numpy_dtype(2.0**-23 if dtype == tf.float32 else 2.0**-52))
        move = unit * tf.sign(tf.random.uniform(tf.shape(x), -1.0, 1.0, dtype, seed=1))
        exact = tf.logical_and(tf.equal(x, tf.floor(x)), tf.abs(x) < 1 / unit)
        turned = tf.not_equal(tf.sign(x + move), tf.sign(x))
        return tf.where(exact, x, tf.where(turned, x - move, x + move))

    concrete = tf.function(moved).get_concrete_function(tf.TensorSpec(None, dtype))
    result: function_pb2.FunctionDef = concrete.function_def
    return result
