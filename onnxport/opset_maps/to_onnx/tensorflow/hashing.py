"""Categories by their hash, and the hashes of several crossed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import tensorflow as tf

from onnxport.graph.builder import OpBuilder
from onnxport.graph.facts import Fact
from onnxport.opset_maps.cases import case, i32, i64
from onnxport.opset_maps.lowerings import hashes
from onnxport.opset_maps.lowerings.characters import Bytes, bytes_of, digits
from onnxport.opset_maps.maps import tensorflow

# The integers that strings are the decimals of: their bytes are computed, not read.
NUMBERS_OF: Fact[ir.Value] = Fact("numbers of")
_SEED = 0xDECAFCAFFE  # of TensorFlow's Hash64
_WORDS = np.array([["", "a"], ["user_4711", "\u00e9t\u00e9 \U0001f600"], ["x" * 17, "\u6f22\u5b57" * 9]], object)
_LONG = np.array(["0123456789" * 7, "ab" * 70, "a"], object)


def with_hash(op: OpBuilder, x: ir.Value, hashed: Callable[[OpBuilder, Bytes], ir.Value]) -> ir.Value:
    """A hash of each string, of any shape; each different string is hashed once."""
    numbers = NUMBERS_OF.of(x)
    if numbers is not None:
        return op.Reshape(hashed(op, digits(op, op.Reshape(numbers, [-1]))), op.shape(x))
    distinct, _, places, _ = op.node("Unique", op.Reshape(x, [-1]), outputs=4)
    result = hashed(op, bytes_of(op, distinct))
    return op.Reshape(op.Gather(result, places, axis=0), op.shape(x))


@tensorflow.lower(
    "StringToHashBucketFast",
    min_opset=18,
    cases=[
        case(lambda x: tf.strings.to_hash_bucket_fast(x, 1000), _WORDS, min_opset=20),
        case(lambda x: tf.strings.to_hash_bucket_fast(x, 2**40 + 7), _LONG, min_opset=20, dynamic=True),
        case(lambda x: tf.strings.to_hash_bucket_fast(tf.as_string(x), 7), i64(5, low=-(2**62), high=2**62)),
        case(lambda x: tf.strings.to_hash_bucket_fast(tf.as_string(x), 7), i32(2, 3, low=-9999), dynamic=True),
    ],
)
def hash_bucket_fast(op: OpBuilder, input: ir.Value, *, num_buckets: int) -> ir.Value:
    """FarmHash's Fingerprint64 of the bytes, modulo the buckets."""
    return with_hash(op, input, lambda b, x: hashes.remainder(b, hashes.fingerprint(b, x), num_buckets))


@tensorflow.lower(
    "StringToHashBucketStrong",
    min_opset=18,
    cases=[
        case(lambda x: tf.strings.to_hash_bucket_strong(x, 1000, [1, 2]), _WORDS, min_opset=20),
        case(lambda x: tf.strings.to_hash_bucket_strong(tf.as_string(x), 1000, [-3, 2**40]), i64(5, low=-(2**62))),
    ],
)
def hash_bucket_strong(op: OpBuilder, input: ir.Value, *, num_buckets: int, key: Sequence[int]) -> ir.Value:
    """SipHash of the bytes, modulo the buckets."""
    return with_hash(op, input, lambda b, x: hashes.remainder(b, hashes.siphash(b, x, key), num_buckets))


@tensorflow.lower(
    "StringToHashBucket",
    min_opset=18,
    cases=[
        case(lambda x: tf.raw_ops.StringToHashBucket(string_tensor=x, num_buckets=1000), _WORDS, min_opset=20),
        case(lambda x: tf.strings.to_hash_bucket(tf.as_string(x), 1000), i64(5, low=-(2**62))),
    ],
)
def hash_bucket(op: OpBuilder, string_tensor: ir.Value, *, num_buckets: int) -> ir.Value:
    """MurmurHash64A of the bytes, modulo the buckets."""
    return with_hash(op, string_tensor, lambda b, x: hashes.remainder(b, hashes.murmur64(b, x, _SEED), num_buckets))


def _bytes(x: Any) -> Any:
    return tf.raw_ops.Fingerprint(data=x, method=tf.constant("farmhash64"))


@tensorflow.lower(
    "Fingerprint",
    min_opset=18,
    cases=[
        case(_bytes, np.arange(18, dtype=np.uint8).reshape(2, 9)),
        case(_bytes, np.arange(70, dtype=np.uint8)[None]),
    ],
)
def fingerprint(op: OpBuilder, data: ir.Value, method: ir.Value) -> ir.Value:
    """The eight bytes of FarmHash's Fingerprint64 of rows of bytes."""
    values = op.Reshape(op.cast(data, ir.DataType.INT64), op.Concat(op.dim(data, 0), op.const([-1]), axis=0))
    lengths = op.Expand(op.dim(values, 1), op.dim(values, 0))
    code = op.Unsqueeze(hashes.fingerprint(op, Bytes(values, lengths)), op.axes(1))
    parts = [hashes.shifted(op, code, 8 * i) if i else code for i in range(8)]
    return op.cast(op.BitwiseAnd(op.Concat(*parts, axis=1), np.int64(0xFF)), ir.DataType.UINT8)
