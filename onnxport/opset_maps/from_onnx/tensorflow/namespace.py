"""The array namespace in TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import tensorflow as tf

from onnxport.errors import UnsupportedOperator
from onnxport.opset_maps.from_onnx.call import Call, Operand
from onnxport.opset_maps.from_onnx.layout import ChannelsLast
from onnxport.opset_maps.from_onnx.tensorflow.control import Control
from onnxport.opset_maps.from_onnx.tensorflow.elements import elementwise, raw_op, tensor_of, widened
from onnxport.opset_maps.from_onnx.tensorflow.shapes import size_vector
from onnxport.opset_maps.from_onnx.values import UnknownUntilRun


class TensorFlowArrays(Control):
    """The primitives on ``tf.Tensor``, eager or symbolic.

    Attributes:
        parameters: the model's initializers: variables, or constants where they are no numbers to be trained.
        deferred: how many operators were refused for want of a value that only the running model has.
    """

    framework = "tensorflow"

    def __init__(self, parameters: Mapping[ir.Value, tf.Variable | tf.Tensor] | None = None) -> None:
        super().__init__()
        self.parameters = parameters or {}
        self.deferred = 0
        self._reads: dict[tuple[ir.Value, tf.Graph | None], tf.Tensor] = {}

    def parameter(self, value: ir.Value) -> tf.Tensor:
        held = self.parameters[value]
        if isinstance(held, tf.Tensor):
            return held
        place = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
        if (value, place) not in self._reads:
            self._reads[value, place] = held.read_value()
        return self._reads[value, place]

    # -- elementwise ---------------------------------------------------------------------------------------------------

    def elementwise(self, name: str, *xs: tf.Tensor) -> tf.Tensor:
        return elementwise(name, *_tensors(xs))

    def add(self, a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
        return self.elementwise("Add", _as_bias(a, b), _as_bias(b, a))

    def _apply(
        self, key: str, function: Callable[..., tf.Tensor], *xs: tf.Tensor | complex, exact: bool = True
    ) -> tf.Tensor:
        tensors = _tensors(xs)
        return widened(key, function, [[1]] * len(tensors), tensors, exact=exact)

    def divide(self, a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
        return self._apply("divide", raw_op("Div"), a, b)

    def floor_mod(self, a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
        return self._apply("floor_mod", raw_op("FloorMod"), a, b)

    def trunc_mod(self, a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
        return self._apply("trunc_mod", raw_op("TruncateMod"), a, b)

    def pow(self, a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
        return _power(a, b)

    def where(self, condition: tf.Tensor, a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
        return tf.where(condition, *_tensors([a, b]))

    def bitwise_left_shift(self, a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
        return _shifted(tf.bitwise.left_shift, a, b)

    def bitwise_right_shift(self, a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
        return _shifted(tf.bitwise.right_shift, a, b)

    def bitwise_invert(self, x: tf.Tensor) -> tf.Tensor:
        return tf.bitwise.invert(x)

    def logical_not(self, x: tf.Tensor) -> tf.Tensor:
        return tf.logical_not(x)

    def isnan(self, x: tf.Tensor) -> tf.Tensor:
        if not x.dtype.is_floating:
            return tf.zeros_like(x, tf.bool)
        return self._apply("isnan", tf.math.is_nan, x)

    def isinf(self, x: tf.Tensor) -> tf.Tensor:
        if not x.dtype.is_floating:
            return tf.zeros_like(x, tf.bool)
        return self._apply("isinf", tf.math.is_inf, x)

    def equal(self, a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
        tensors = _tensors([a, b])
        if tensors[0].dtype == tf.string:
            return tf.equal(*tensors)
        return widened("equal", raw_op("Equal"), [[1], [1]], tensors)

    # -- what only the running model knows ------------------------------------------------------------------------------

    def defer(
        self, call: Call, operands: Sequence[Operand], outputs: Sequence[ir.Value], error: UnknownUntilRun
    ) -> Any:
        self.deferred += 1
        return super().defer(call, operands, outputs, error)

    # -- strings -------------------------------------------------------------------------------------------------------

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

    def lookup(self, x: tf.Tensor, keys: np.ndarray[Any, Any]) -> tf.Tensor:
        if keys.dtype.kind == "f" or len(keys) <= _FEW:
            return super().lookup(x, keys)
        text = keys.dtype.kind == "O"
        with tf.init_scope():
            coded = _hashed(tensor_of(keys)).numpy() if text else keys
        if len(np.unique(coded)) < len(keys):  # two strings of one hash
            return super().lookup(x, keys)
        order = np.argsort(coded)
        flat = tf.reshape(x, [-1])
        place = tf.searchsorted(tf.constant(coded[order]), _hashed(flat) if text else flat, out_type=tf.int64)
        result = tf.gather(tf.constant(order, tf.int64), tf.minimum(place, len(keys) - 1))
        result = tf.where(tf.gather(tensor_of(keys), result) == flat, result, tf.constant(-1, tf.int64))
        return tf.reshape(result, tf.shape(x))


class TensorFlowNamespace(ChannelsLast, TensorFlowArrays):
    """`TensorFlowArrays` in which images stay channels-last between the operators that work so."""


# Up to so many keys, comparing with all of them is cheaper than a search.
_FEW = 16


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


def _hashed(x: tf.Tensor) -> tf.Tensor:
    """Numbers to search strings by."""
    return tf.strings.to_hash_bucket_strong(x, (1 << 63) - 1, key=[0x5DEECE66D, 0xB])


def _tensors(xs: Sequence[tf.Tensor | complex]) -> list[tf.Tensor]:
    """Operands of one element type: Python numbers take that of the first tensor."""
    dtype = next(x.dtype for x in xs if isinstance(x, (tf.Tensor, tf.Variable)))
    return [x if isinstance(x, (tf.Tensor, tf.Variable)) else tf.cast(x, dtype) for x in xs]


def _as_bias(x: object, other: object) -> Any:
    """A row [1, n] added to a matrix as a vector: TensorFlow 2.21 fuses a product and the row, and then refuses the row."""
    if not isinstance(x, tf.Tensor) or not isinstance(other, tf.Tensor):
        return x
    row = x.shape.rank == other.shape.rank == 2 and x.shape[0] == 1 and other.shape[0] != 1
    return tf.reshape(x, [x.shape[1]]) if row and x.shape[1] else x


def _power(a: tf.Tensor | complex, b: tf.Tensor | complex) -> tf.Tensor:
    """a to the b in the type of a; integers to a floating-point power go through double precision, as C's pow does."""
    if not isinstance(a, (tf.Tensor, tf.Variable)):
        a, b = _tensors([a, b])
    elif not isinstance(b, (tf.Tensor, tf.Variable)):
        b = tf.constant(b, tf.float64 if isinstance(b, float) and not a.dtype.is_floating else a.dtype)
    if a.dtype.is_floating:
        return widened("pow", raw_op("Pow"), [[1], [1]], [a, tf.cast(b, a.dtype)])
    if b.dtype.is_floating:
        return tf.cast(tf.pow(tf.cast(a, tf.float64), tf.cast(b, tf.float64)), a.dtype)
    base, exponent = tf.cast(a, tf.int64), tf.cast(b, tf.int64)
    power = tf.pow(base, tf.maximum(exponent, 0))
    odd = tf.math.floormod(exponent, 2)
    inverse = tf.where(base == 1, tf.ones_like(base), tf.where(base == -1, 1 - 2 * odd, tf.zeros_like(base)))
    return tf.cast(tf.where(exponent < 0, inverse, power), a.dtype)


def _shifted(shift: Callable[..., tf.Tensor], a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    """A shift; by the width or more, or by a negative number, nothing is left but the sign of a number shifted right."""
    width = tf.cast(8 * a.dtype.size, b.dtype)
    beyond = b >= width
    if not b.dtype.is_unsigned:
        beyond = tf.logical_or(beyond, b < tf.zeros_like(b))
    rest = tf.zeros_like(a)
    if shift is tf.bitwise.right_shift and not a.dtype.is_unsigned:
        rest = tf.where(a < rest, -tf.ones_like(a), rest)
    return tf.where(beyond, rest, shift(a, tf.where(beyond, tf.zeros_like(b), b)))
