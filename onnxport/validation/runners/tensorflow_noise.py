"""What stands beside 1 in a sum, moved by a unit of 1 in a TensorFlow graph, as `pytorch.noise` does while PyTorch runs.

Runtimes compute 1 / (1 + exp(-x)), log(1 + exp(x)), exp(x) - 1 and 1 - erf(x) as they are written, so that small results have
fewer digits than their type holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import function_pb2, graph_pb2, node_def_pb2, types_pb2

# The operators, and what their definitions call the result.
_BESIDE_ONE = {
    "Sigmoid": "y",
    "Erfc": "y",
    "Softplus": "activations",
    "Expm1": "y",
    "Elu": "activations",
    "Selu": "activations",
}
# Fourier transforms, and the attribute that names the type of their result: their rounding is that of all results along an axis.
_TRANSFORMS = {"FFT": "Tcomplex", "IFFT": "Tcomplex", "RFFT": "Tcomplex", "IRFFT": "Treal"}
_MOVED = {types_pb2.DT_FLOAT: tf.float32, types_pb2.DT_DOUBLE: tf.float64}
_COMPLEX = {types_pb2.DT_COMPLEX64: tf.complex64, types_pb2.DT_COMPLEX128: tf.complex128}


def add_noise(definition: graph_pb2.GraphDef) -> None:
    """Moves the results of these operators up or down at random, in the graph and its functions, each time that it runs."""
    kinds: set[tuple[int, bool]] = set()
    renamed = _insert(definition.node, kinds, inside=False)
    _rename(definition.node, renamed)
    for function in definition.library.function:
        renamed = _insert(function.node_def, kinds, inside=True)
        _rename(function.node_def, renamed)
        for name, source in function.ret.items():
            function.ret[name] = renamed.get(source, source)
    definition.library.function.extend(_mover(*kind) for kind in sorted(kinds))


def _insert(nodes: Any, kinds: set[tuple[int, bool]], *, inside: bool) -> dict[str, str]:
    """Adds a call behind each operator; the new name of what it gives by the old one."""
    renamed: dict[str, str] = {}
    for node in list(nodes):
        transform = node.op in _TRANSFORMS
        kind = node.attr[_TRANSFORMS.get(node.op, "T")].type if transform or node.op in _BESIDE_ONE else 0
        if kind not in _MOVED and not (transform and kind in _COMPLEX):
            continue
        kinds.add((kind, transform))
        source = f"{node.name}:{_BESIDE_ONE.get(node.op, 'output')}:0" if inside else node.name
        call = node_def_pb2.NodeDef(op="StatefulPartitionedCall", name=f"{node.name}/moved", input=[source])
        call.attr["Tin"].list.type.append(kind)
        call.attr["Tout"].list.type.append(kind)
        call.attr["f"].func.name = _mover(kind, transform).signature.name
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
def _mover(kind: int, transform: bool) -> function_pb2.FunctionDef:
    """A function that moves numbers of a type up or down at random."""
    dtype = _MOVED.get(kind) or _COMPLEX[kind]
    moved = _moved_transform if transform else _moved_beside_one
    concrete = tf.function(moved, autograph=False).get_concrete_function(tf.TensorSpec(None, dtype))
    result: function_pb2.FunctionDef = concrete.function_def
    return result


def _moved_beside_one(x: Any) -> Any:
    """Moves by a unit of 1: no whole number, and none below 0, whose root or logarithm is NaN."""
    unit = tf.constant(_epsilon(x.dtype), x.dtype)
    move = unit * _signs(x)
    exact = tf.logical_and(tf.equal(x, tf.floor(x)), tf.abs(x) < 1 / unit)
    turned = tf.not_equal(tf.sign(x + move), tf.sign(x))
    return tf.where(exact, x, tf.where(turned, x - move, x + move))


def _moved_transform(x: Any) -> Any:
    """Moves by a unit in the last place of the root mean square along the last axis (Higham, section 24.1)."""
    size = tf.sqrt(tf.reduce_mean(tf.abs(x) ** 2, -1, keepdims=True))
    move = size * tf.constant(_epsilon(size.dtype), size.dtype)
    real = _signs(tf.math.real(x)) * move
    return x + (tf.complex(real, _signs(real) * move) if x.dtype.is_complex else real)


def _signs(x: Any) -> Any:
    return tf.sign(tf.random.uniform(tf.shape(x), -1.0, 1.0, x.dtype, seed=1))


def _epsilon(dtype: tf.DType) -> float:
    return 2.0**-23 if dtype == tf.float32 else 2.0**-52
