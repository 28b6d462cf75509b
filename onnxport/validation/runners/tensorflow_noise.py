"""What stands beside 1 in a sum, moved by a unit of 1 in a TensorFlow graph, as `pytorch.noise` does while PyTorch runs.

Runtimes compute 1 / (1 + exp(-x)), log(1 + exp(x)), exp(x) - 1 and 1 - erf(x) as they are written, so that small results have
fewer digits than their type holds. Long sums are added as runtimes do, a term after the other in a few lanes, not in pairs.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import function_pb2, graph_pb2, node_def_pb2, types_pb2

from onnxport.validation import tolerance
from onnxport.validation.runners.base import DEFAULT_LENGTH

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
_SUMS = ("Mean", "Sum")
_MOVED = {types_pb2.DT_FLOAT: tf.float32, types_pb2.DT_DOUBLE: tf.float64}
_COMPLEX = {types_pb2.DT_COMPLEX64: tf.complex64, types_pb2.DT_COMPLEX128: tf.complex128}


def add_noise(definition: graph_pb2.GraphDef) -> None:
    """Moves the results of these operators up or down at random, in the graph and its functions, each time that it runs."""
    kinds: set[tuple[int, str]] = set()
    renamed = _insert(definition.node, kinds, inside=False)
    _rename(definition.node, renamed)
    for function in definition.library.function:
        renamed = _insert(function.node_def, kinds, inside=True)
        _rename(function.node_def, renamed)
        for name, source in function.ret.items():
            function.ret[name] = renamed.get(source, source)
    definition.library.function.extend(_mover(*kind) for kind in sorted(kinds))


def _insert(nodes: Any, kinds: set[tuple[int, str]], *, inside: bool) -> dict[str, str]:
    """Adds a call behind each operator; the new name of what it gives by the old one."""
    renamed: dict[str, str] = {}
    for node in list(nodes):
        way, kind = _way_of(node)
        if not way:
            continue
        kinds.add((kind, way))
        source = f"{node.name}:{_BESIDE_ONE.get(node.op, 'output')}:0" if inside else node.name
        read = [source, *node.input[:2]] if way in _SUMS else [source]
        call = node_def_pb2.NodeDef(op="StatefulPartitionedCall", name=f"{node.name}/moved", input=read)
        call.attr["Tin"].list.type.extend([kind, kind, types_pb2.DT_INT32][: len(read)])
        call.attr["Tout"].list.type.append(kind)
        call.attr["f"].func.name = _mover(kind, way).signature.name
        nodes.append(call)
        renamed[source] = f"{call.name}:output:0" if inside else call.name
    return renamed


def _way_of(node: node_def_pb2.NodeDef) -> tuple[str, int]:
    """How the result of an operator moves, "" where it stays, and its type."""
    if node.op in _TRANSFORMS:
        kind = node.attr[_TRANSFORMS[node.op]].type
        return "transform" if kind in _MOVED or kind in _COMPLEX else "", kind
    if node.op not in _BESIDE_ONE and node.op not in _SUMS:  # to ask for an attribute adds it
        return "", 0
    kind = node.attr["T"].type
    if node.op in _BESIDE_ONE:
        return "beside one" if kind in _MOVED else "", kind
    usual = kind == types_pb2.DT_FLOAT and node.attr["Tidx"].type == types_pb2.DT_INT32
    return node.op if usual else "", kind


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
def _mover(kind: int, way: str) -> function_pb2.FunctionDef:
    """A function that moves numbers of a type."""
    dtype = _MOVED.get(kind) or _COMPLEX[kind]
    moved = {
        "transform": _moved_transform,
        "beside one": _moved_beside_one,
        "Mean": _mean_in_lanes,
        "Sum": _sum_in_lanes,
    }
    specs = [tf.TensorSpec(None, dtype)]
    specs += [tf.TensorSpec(None, dtype), tf.TensorSpec(None, tf.int32)] if way in _SUMS else []
    concrete = tf.function(moved[way], autograph=False).get_concrete_function(*specs)
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


def _mean_in_lanes(y: Any, x: Any, axes: Any) -> Any:
    count = tf.cast(tf.maximum(tf.size(x) // tf.maximum(tf.size(y), 1), 1), x.dtype)
    return y + _lost_in_lanes(y, x, axes) / count


def _sum_in_lanes(y: Any, x: Any, axes: Any) -> Any:
    return y + _lost_in_lanes(y, x, axes)


def _lost_in_lanes(y: Any, x: Any, axes: Any) -> Any:
    """By how much the sums of `x` along `axes`, in the shape of `y`, differ in lanes; 0 for short ones.

    Without tf.cond, whose branches would be functions of their own.
    """
    count = tf.size(x) // tf.maximum(tf.size(y), 1)
    summed = tf.reshape(axes, [-1]) % tf.maximum(tf.rank(x), 1)
    kept = tf.reduce_all(tf.not_equal(tf.range(tf.rank(x))[:, None], summed), 1)
    others = tf.cast(tf.where(kept)[:, 0], tf.int32)
    rows = tf.reshape(tf.transpose(x, tf.concat([others, summed], 0)), [tf.size(y), count])
    last = tf.equal(tf.reduce_min(summed), tf.rank(x) - tf.size(summed))
    lanes = tf.where(last, tolerance.LANES, 1)  # what lies apart in memory is added one by one
    steps = tf.maximum((count + lanes - 1) // lanes, 1)
    padded = tf.pad(rows, [[0, 0], [0, steps * lanes - count]])
    added = tf.cumsum(tf.reshape(padded, [tf.size(y), steps, lanes]), 1)[:, -1]
    lost = tf.reshape(tf.reduce_sum(added, 1) - tf.reduce_sum(rows, 1), tf.shape(y))
    return tf.where(tf.logical_and(count > DEFAULT_LENGTH, tf.math.is_finite(lost)), lost, tf.zeros_like(lost))


def _signs(x: Any) -> Any:
    return tf.sign(tf.random.uniform(tf.shape(x), -1.0, 1.0, x.dtype, seed=1))


def _epsilon(dtype: tf.DType) -> float:
    return 2.0**-23 if dtype == tf.float32 else 2.0**-52
