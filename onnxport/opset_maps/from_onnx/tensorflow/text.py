"""Strings in TensorFlow."""

from __future__ import annotations

import tensorflow as tf

from onnxport.errors import UnsupportedOperator
from onnxport.opset_maps.from_onnx.tensorflow.tensors import TensorFlowTensorFamily, size_vector


class TensorFlowTextFamily(TensorFlowTensorFamily):
    """What is computed of strings."""

    def string_case(self, x: tf.Tensor, upper: bool) -> tf.Tensor:
        return (tf.strings.upper if upper else tf.strings.lower)(x, encoding="utf-8")

    def string_concat(self, a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
        if a.shape.as_list() != b.shape.as_list() or None in a.shape.as_list():
            shape = tf.broadcast_dynamic_shape(tf.shape(a), tf.shape(b))
            a, b = tf.broadcast_to(a, shape), tf.broadcast_to(b, shape)
        return tf.strings.join([a, b])

    def string_split(self, x: tf.Tensor, delimiter: str | None, maxsplit: int | None) -> tuple[tf.Tensor, tf.Tensor]:
        flat = tf.reshape(x, [-1])
        shape = self.shape(x)
        if delimiter:
            pieces = tf.strings.split(flat, delimiter, -1 if maxsplit is None else maxsplit)
            counts = tf.where(flat == "", tf.constant(0, tf.int64), tf.cast(pieces.row_lengths(), tf.int64))
            table = pieces.to_tensor("")
        else:
            table = _at_spaces(flat, maxsplit)
            counts = tf.reduce_sum(tf.cast(table != "", tf.int64), 1)
            table = table[:, : tf.reduce_max(counts)]
        return tf.reshape(
            table, tf.concat([size_vector(shape), tf.shape(table, out_type=tf.int64)[1:]], 0)
        ), tf.reshape(counts, size_vector(shape))

    def regex_full_match(self, x: tf.Tensor, pattern: str) -> tf.Tensor:
        with tf.init_scope():
            try:
                tf.strings.regex_full_match(tf.constant(""), pattern)
            except tf.errors.InvalidArgumentError as error:
                reason = error.message.rpartition("error: ")[2].partition(" [Op:")[0]
                raise UnsupportedOperator(f"RegexFullMatch: pattern={pattern[:80]!r}: {reason[:80]}") from error
        return tf.strings.regex_full_match(x, pattern)


def _at_spaces(x: tf.Tensor, maxsplit: int | None) -> tf.Tensor:
    """Pieces between runs of spaces alone, as onnxruntime, where TensorFlow takes any whitespace; "" beyond them."""
    rest = tf.strings.regex_replace(x, "^ +| +$", "")
    if maxsplit is None or maxsplit < 0:
        return tf.strings.split(tf.strings.regex_replace(rest, " +", " "), " ").to_tensor("")
    pieces = []
    for _ in range(maxsplit):
        pieces.append(tf.strings.regex_replace(rest, "(?s) .*", ""))
        rest = tf.strings.regex_replace(rest, "^[^ ]+ *", "")
    return tf.stack([*pieces, rest], 1)
