"""Random numbers, drawn when the graph runs: of the same distribution as TensorFlow's, never the same numbers.

A stateless operator of a known seed and size gives the same numbers each time: these are constants.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
import onnx_ir as ir
import tensorflow as tf

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import built, case, f32
from onnxport.opset_maps.lowerings import random
from onnxport.opset_maps.maps import tensorflow
from onnxport.opset_maps.to_onnx.tensorflow.operands import int64

_DOUBLE = ir.DataType.DOUBLE
_SEED = np.array([3, 4], np.int32)
Draw = Callable[..., ir.Value]


def _same_where_known(function: Draw) -> Draw:
    """An entry whose stateless operators are TensorFlow's own numbers where all operands are constants."""

    @wraps(function)
    def draw(op: OpBuilder, *operands: ir.Value, **attributes: object) -> ir.Value:
        known = [op.constant(item) for item in operands]
        if not op.name.startswith("Stateless") or any(item is None for item in known):
            return function(op, *operands, **attributes)
        operator = getattr(tf.raw_ops, op.name)
        names = [name for name in inspect.signature(operator).parameters if name != "name"]
        given = dict(zip(names, map(tf.constant, known), strict=False))
        kind = next((name for name in names if name.endswith("dtype")), None)
        if kind is not None and op.result.dtype is not None:
            given[kind] = tf.as_dtype(op.result.dtype.numpy())
        return op.const(operator(**given).numpy())

    return draw


_DRAWS: dict[str, Draw] = {
    "Uniform": random.uniform,
    "TruncatedNormal": random.truncated_normal,
    "Normal": random.normal,
}


@tensorflow.lower(
    "RandomUniform StatelessRandomUniform StatelessRandomUniformV2 "
    "RandomStandardNormal StatelessRandomNormal StatelessRandomNormalV2 "
    "TruncatedNormal StatelessTruncatedNormal StatelessTruncatedNormalV2",
    cases=[
        case(lambda x: tf.floor(tf.random.uniform(tf.shape(x))) + x, f32(2, 3), dynamic=True),
        case(lambda x: tf.random.stateless_uniform([2, 3], _SEED) + x, f32(3)),
        case(lambda x: tf.floor(tf.random.stateless_uniform(tf.shape(x), _SEED)) + x, f32(2, 3), dynamic=True),
        case(lambda x: tf.random.normal(tf.shape(x), stddev=0.0) + x, f32(2, 3), dynamic=True),
        case(lambda x: tf.random.stateless_normal([2, 3], _SEED) + x, f32(3)),
        case(lambda x: tf.random.stateless_normal(tf.shape(x), _SEED) * 0 + x, f32(2, 3), dynamic=True),
        case(lambda x: tf.cast(tf.abs(tf.random.truncated_normal([2, 3])) > 2.0, tf.float32) + x, f32(3)),
        case(lambda x: tf.random.stateless_truncated_normal([2, 3], _SEED) + x, f32(3)),
    ],
)
@_same_where_known
def random_number(op: OpBuilder, shape: ir.Value, *state: ir.Value, **_: Any) -> ir.Value:
    """RandomUniform, RandomNormal; normal numbers within two deviations by the inverse of the distribution function."""
    draw = next(draw for part, draw in _DRAWS.items() if part in op.name)
    return draw(op, int64(op, shape), op.result.dtype or ir.DataType.FLOAT)


def _integers(op: OpBuilder, shape: ir.Value, low: ir.Value, high: ir.Value) -> ir.Value:
    drawn = random.integers(op, int64(op, shape), op.cast(low, _DOUBLE), op.cast(high, _DOUBLE))
    return op.cast(drawn, op.result.dtype or ir.DataType.INT32)


@tensorflow.lower(
    "RandomUniformInt", cases=[case(lambda x: tf.random.uniform([2, 3], 5, 6, tf.int32) + tf.cast(x, tf.int32), f32(3))]
)
def random_uniform_int(op: OpBuilder, shape: ir.Value, minval: ir.Value, maxval: ir.Value, **_: Any) -> ir.Value:
    """Uniform numbers, rounded down."""
    return _integers(op, shape, minval, maxval)


@tensorflow.lower(
    "StatelessRandomUniformInt StatelessRandomUniformIntV2",
    cases=[case(lambda x: tf.random.stateless_uniform([2, 3], _SEED, 5, 60, tf.int64) + tf.cast(x, tf.int64), f32(3))],
)
@_same_where_known
def stateless_uniform_int(op: OpBuilder, shape: ir.Value, *operands: ir.Value, **_: Any) -> ir.Value:
    """Uniform numbers, rounded down, between the last two operands."""
    return _integers(op, shape, *operands[-2:])


@tensorflow.lower(
    "Multinomial StatelessMultinomial",
    cases=[
        case(lambda x: tf.random.categorical(x * 1000.0, 3), np.array([[1, 2, 0], [5, 1, 1]], np.float32)),
        case(
            lambda x: tf.random.stateless_categorical(x * 1000.0, 3, _SEED, tf.int32),
            np.array([[1, 2, 0], [5, 1, 1]], np.float32),
        ),
    ],
)
@_same_where_known
def multinomial(op: OpBuilder, logits: ir.Value, num_samples: ir.Value, *state: ir.Value, **_: Any) -> ir.Value:
    """The place of the greatest logit with Gumbel's noise, again and again."""
    scores = op.cast(logits, ir.DataType.FLOAT)
    drawn = random.categorical(op, scores, op.Reshape(int64(op, num_samples), [1]))
    return op.cast(drawn, op.result.dtype or ir.DataType.INT64)


@tensorflow.lower(
    "RandomShuffle StatelessShuffle",
    cases=[
        case(lambda x: tf.sort(tf.random.shuffle(x), 0), f32(5)),
        case(lambda x: tf.random.shuffle(x[:1]), f32(2, 3)),
        case(lambda x: tf.gather(x, tf.random.experimental.stateless_shuffle(tf.range(5), _SEED)), f32(5)),
    ],
)
@_same_where_known
def random_shuffle(op: OpBuilder, value: ir.Value, *state: ir.Value, **_: Any) -> ir.Value:
    """The rows in the order of uniform numbers."""
    return op.Gather(value, random.permutation(op, op.dim(value, 0)), axis=0)


def _with_generator() -> Any:
    module = tf.Module()
    module.generator = tf.random.Generator.from_seed(1)
    return tf.function(lambda x: x + module.generator.normal(tf.shape(x)) * 0.0)


@tensorflow.lower("RngReadAndSkip", cases=[built(_with_generator, f32(2, 3))])
def read_and_skip(op: OpBuilder, resource: Any, alg: ir.Value, delta: ir.Value) -> ir.Value:
    """Zeros: ONNX's generators have a state of their own."""
    return op.const(np.zeros(3, np.int64))


@tensorflow.lower(
    "StatelessRandomGetKeyCounter", cases=[case(lambda x: tf.random.stateless_uniform([3], _SEED) * 0 + x, f32(3))]
)
def key_and_counter(op: OpBuilder, seed: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Those of a known seed; zeros for any other: ONNX's generators have a state of their own."""
    known = op.constant(seed)
    if known is not None:
        key, counter = tf.raw_ops.StatelessRandomGetKeyCounter(seed=known)
        return op.const(key.numpy()), op.const(counter.numpy())
    zero = op.const(np.zeros(1, np.uint64))
    return zero, op.const(np.zeros(2, np.uint64))


@tensorflow.lower(
    "StatelessRandomGetAlg", cases=[case(lambda x: tf.random.stateless_normal([3], _SEED) * 0 + x, f32(3))]
)
def algorithm(op: OpBuilder) -> ir.Value:
    """The one that TensorFlow takes."""
    return op.const(tf.raw_ops.StatelessRandomGetAlg().numpy())


@tensorflow.lower(
    "StatelessRandomGetKeyCounterAlg",
    cases=[
        case(lambda x: tf.cast(tf.raw_ops.StatelessRandomGetKeyCounterAlg(seed=_SEED)[2], tf.float32) * 0 + x, f32(3))
    ],
)
def key_counter_and_algorithm(op: OpBuilder, seed: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Those of both."""
    return *key_and_counter(op, seed), algorithm(op)


# -- distributions with parameters -------------------------------------------------------------------------------------


def _before(op: OpBuilder, shape: ir.Value, parameter: ir.Value) -> ir.Value:
    """A parameter repeated, its own axes behind those of `shape`."""
    return op.Expand(parameter, op.Concat(int64(op, shape), op.shape(parameter), axis=0))


def _as_result(op: OpBuilder, x: ir.Value) -> ir.Value:
    return op.cast(x, op.result.dtype or ir.DataType.FLOAT)


def _positive(x: Any) -> Any:
    """What is known of positive numbers whatever they are."""
    return tf.cast(x > 0, tf.float32)


@tensorflow.lower(
    "RandomGamma", cases=[case(lambda x: _positive(tf.random.gamma([3, 2], x)), f32(4, low=0.5, high=4.0))]
)
def random_gamma(op: OpBuilder, shape: ir.Value, alpha: ir.Value, **_: Any) -> ir.Value:
    """Numbers of gamma distributions."""
    return _as_result(op, random.gamma(op, _before(op, shape, alpha)))


@tensorflow.lower(
    "StatelessRandomGammaV2 StatelessRandomGammaV3",
    cases=[
        case(lambda x: _positive(tf.random.stateless_gamma([3, 4], _SEED, x)), f32(4, low=0.5, high=4.0)),
        case(lambda x: tf.random.stateless_gamma([3, 1], _SEED, x * 1e12) / 1e12 // 0.5, f32(1, low=0.9, high=0.98)),
    ],
)
@_same_where_known
def stateless_gamma(op: OpBuilder, shape: ir.Value, *operands: ir.Value, **_: Any) -> ir.Value:
    """Numbers of gamma distributions, whose shapes are the last operand."""
    return _as_result(op, random.gamma(op, op.Expand(operands[-1], int64(op, shape))))


@tensorflow.lower(
    "RandomPoisson RandomPoissonV2",
    cases=[case(lambda x: tf.random.poisson([3, 2], x * 0.0) + tf.round(x), f32(4))],
)
def random_poisson(op: OpBuilder, shape: ir.Value, rate: ir.Value, **_: Any) -> ir.Value:
    """Numbers of Poisson distributions."""
    return _as_result(op, random.poisson(op, _before(op, shape, rate)))


@tensorflow.lower(
    "StatelessRandomPoisson",
    cases=[case(lambda x: tf.random.stateless_poisson([3, 4], _SEED, x * 1e8) // 50000000, f32(4, low=0.6, high=0.9))],
)
@_same_where_known
def stateless_poisson(op: OpBuilder, shape: ir.Value, seed: ir.Value, lam: ir.Value, **_: Any) -> ir.Value:
    """Numbers of Poisson distributions."""
    return _as_result(op, random.poisson(op, op.Expand(lam, int64(op, shape))))


@tensorflow.lower(
    "StatelessRandomBinomial",
    cases=[
        case(lambda x: tf.random.stateless_binomial([3, 4], _SEED, [5.0, 7.0, 1.0, 3.0], tf.round(x)), f32(4, low=0)),
        case(lambda x: tf.random.stateless_binomial([9, 1], _SEED, 1e9, x) // 400000000, f32(1, low=0.5, high=0.7)),
    ],
)
@_same_where_known
def stateless_binomial(
    op: OpBuilder, shape: ir.Value, seed: ir.Value, counts: ir.Value, probs: ir.Value, **_: Any
) -> ir.Value:
    """Numbers of binomial distributions."""
    size = int64(op, shape)
    return _as_result(op, random.binomial(op, op.Expand(counts, size), op.Expand(probs, size)))


def _kept_inside(x: Any) -> Any:
    drawn = tf.random.stateless_parameterized_truncated_normal([3, 4], _SEED, x, 2.0, x + 1.0, x + 3.0)
    return (drawn - x - 1.0) // 2.01


@tensorflow.lower("StatelessParameterizedTruncatedNormal", cases=[case(_kept_inside, f32(4))])
@_same_where_known
def stateless_truncated(
    op: OpBuilder,
    shape: ir.Value,
    seed: ir.Value,
    means: ir.Value,
    stddevs: ir.Value,
    minvals: ir.Value,
    maxvals: ir.Value,
    **_: Any,
) -> ir.Value:
    """Normal numbers between bounds."""
    parameters = (op.cast(item, _DOUBLE) for item in (means, stddevs, minvals, maxvals))
    return _as_result(op, random.truncated(op, int64(op, shape), *parameters))


@tensorflow.lower(
    "ParameterizedTruncatedNormal",
    cases=[
        case(
            lambda x: (
                tf.raw_ops.ParameterizedTruncatedNormal(
                    shape=[4, 9], means=x, stdevs=[1.0, 2.0, 1.0, 2.0], minvals=x - 0.0, maxvals=x + 1e-6
                )
                // 0.5
            ),
            np.array([0.7, 1.2, -0.3, 5.2], np.float32),
        )
    ],
)
def parameterized_truncated(
    op: OpBuilder,
    shape: ir.Value,
    means: ir.Value,
    stdevs: ir.Value,
    minvals: ir.Value,
    maxvals: ir.Value,
    **_: Any,
) -> ir.Value:
    """Normal numbers between bounds, which hold for a row of the result each."""
    size = int64(op, shape)
    ones = op.Mul(op.Slice(size, [1], [2**31 - 1], [0]), 0)
    rows = op.Concat(op.const([-1]), op.Add(ones, 1), axis=0)
    parameters = (op.Reshape(op.cast(item, _DOUBLE), rows) for item in (means, stdevs, minvals, maxvals))
    return _as_result(op, random.truncated(op, size, *parameters))


@tensorflow.lower(
    "StatelessRandomUniformFullInt StatelessRandomUniformFullIntV2",
    cases=[
        case(lambda x: tf.random.stateless_uniform([3], _SEED, None, None, tf.int64) * 0 + tf.cast(x, tf.int64), f32(3))
    ],
)
@_same_where_known
def uniform_of_all(op: OpBuilder, shape: ir.Value, *state: ir.Value, **_: Any) -> ir.Value:
    """Whole numbers of all that the type has."""
    return random.bits(op, int64(op, shape), op.result.dtype or ir.DataType.INT32)
