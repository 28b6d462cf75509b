"""Random numbers, drawn when the graph runs: of the same distribution as TensorFlow's, never the same numbers."""

from __future__ import annotations

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


@tensorflow.lower(
    "RandomUniform StatelessRandomUniform StatelessRandomUniformV2",
    cases=[
        case(lambda x: tf.floor(tf.random.uniform(tf.shape(x))) + x, f32(2, 3), dynamic=True),
        case(lambda x: tf.floor(tf.random.stateless_uniform([2, 3], _SEED)) + x, f32(3)),
    ],
)
def random_uniform(op: OpBuilder, shape: ir.Value, *state: ir.Value, **_: Any) -> ir.Value:
    """RandomUniform."""
    return random.uniform(op, int64(op, shape), op.result.dtype or ir.DataType.FLOAT)


@tensorflow.lower(
    "RandomStandardNormal StatelessRandomNormal StatelessRandomNormalV2",
    cases=[
        case(lambda x: tf.random.normal(tf.shape(x), stddev=0.0) + x, f32(2, 3), dynamic=True),
        case(lambda x: tf.random.stateless_normal([2, 3], _SEED) * 0 + x, f32(3)),
    ],
)
def random_normal(op: OpBuilder, shape: ir.Value, *state: ir.Value, **_: Any) -> ir.Value:
    """RandomNormal."""
    return random.normal(op, int64(op, shape), op.result.dtype or ir.DataType.FLOAT)


@tensorflow.lower(
    "TruncatedNormal StatelessTruncatedNormal StatelessTruncatedNormalV2",
    cases=[
        case(lambda x: tf.cast(tf.abs(tf.random.truncated_normal([2, 3])) > 2.0, tf.float32) + x, f32(3)),
        case(lambda x: tf.random.stateless_truncated_normal([2, 3], _SEED) * 0 + x, f32(3)),
    ],
)
def truncated_normal(op: OpBuilder, shape: ir.Value, *state: ir.Value, **_: Any) -> ir.Value:
    """Normal numbers within two deviations, by the inverse of the distribution function."""
    return random.truncated_normal(op, int64(op, shape), op.result.dtype or ir.DataType.FLOAT)


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
    cases=[case(lambda x: tf.random.stateless_uniform([2, 3], _SEED, 5, 6, tf.int64) + tf.cast(x, tf.int64), f32(3))],
)
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
    ],
)
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
    """Zeros: ONNX's generators have a state of their own."""
    zero = op.const(np.zeros(1, np.uint64))
    return zero, op.const(np.zeros(2, np.uint64))


@tensorflow.lower(
    "StatelessRandomGetAlg", cases=[case(lambda x: tf.random.stateless_normal([3], _SEED) * 0 + x, f32(3))]
)
def algorithm(op: OpBuilder) -> ir.Value:
    """Zero: ONNX does not say which generator draws."""
    return op.const(np.zeros((), np.int32))


@tensorflow.lower(
    "StatelessRandomGetKeyCounterAlg",
    cases=[
        case(lambda x: tf.cast(tf.raw_ops.StatelessRandomGetKeyCounterAlg(seed=_SEED)[2], tf.float32) * 0 + x, f32(3))
    ],
)
def key_counter_and_algorithm(op: OpBuilder, seed: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Zeros, as of both."""
    return *key_and_counter(op, seed), algorithm(op)
