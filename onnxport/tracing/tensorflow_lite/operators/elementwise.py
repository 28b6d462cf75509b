"""Operators of elements, and what normalises along the last axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from onnxport.tracing.tensorflow_lite.node import TABLE, Node, activated, builtin, clipped, simple

_SIMPLE: dict[str, Callable[..., Any]] = {
    "ABS": tf.abs,
    "ATAN2": tf.atan2,
    "BITWISE_XOR": tf.bitwise.bitwise_xor,
    "CEIL": tf.math.ceil,
    "COMPLEX_ABS": tf.abs,
    "COS": tf.cos,
    "ELU": tf.nn.elu,
    "EQUAL": tf.equal,
    "EXP": tf.exp,
    "FLOOR": tf.floor,
    "FLOOR_DIV": tf.math.floordiv,
    "FLOOR_MOD": tf.math.floormod,
    "GREATER": tf.greater,
    "GREATER_EQUAL": tf.greater_equal,
    "IMAG": tf.math.imag,
    "LESS": tf.less,
    "LESS_EQUAL": tf.less_equal,
    "LOG": tf.math.log,
    "LOGICAL_AND": tf.logical_and,
    "LOGICAL_NOT": tf.logical_not,
    "LOGICAL_OR": tf.logical_or,
    "LOGISTIC": tf.sigmoid,
    "LOG_SOFTMAX": tf.nn.log_softmax,
    "MAXIMUM": tf.maximum,
    "MINIMUM": tf.minimum,
    "NEG": tf.negative,
    "NOT_EQUAL": tf.not_equal,
    "POW": tf.pow,
    "REAL": tf.math.real,
    "RELU": tf.nn.relu,
    "RELU6": tf.nn.relu6,
    "RELU_0_TO_1": lambda x: clipped(x, 0.0, 1.0),
    "RELU_N1_TO_1": lambda x: clipped(x, -1.0, 1.0),
    "RIGHT_SHIFT": tf.bitwise.right_shift,
    "ROUND": tf.round,  # halves to even
    "RSQRT": tf.math.rsqrt,
    "SELECT": lambda condition, x, y: tf.raw_ops.Select(condition=condition, x=x, y=y),
    "SELECT_V2": tf.where,
    "SIGN": tf.sign,
    "SIN": tf.sin,
    "SQRT": tf.sqrt,
    "SQUARE": tf.square,
    "SQUARED_DIFFERENCE": tf.math.squared_difference,
    "TANH": tf.tanh,
    "ZEROS_LIKE": tf.zeros_like,
    "PRELU": lambda x, slope: tf.where(x >= 0, x, x * slope),
    "HARD_SWISH": lambda x: x * tf.nn.relu6(x + 3.0) * (1.0 / 6.0),
}
_SIMPLE["QUANTIZE"] = _SIMPLE["DEQUANTIZE"] = lambda x: x  # what they convert, `quantised` does
TABLE.update({name: simple(function) for name, function in _SIMPLE.items()})


@builtin("ADD")
def add(node: Node, x: Any, y: Any) -> Any:
    """x + y, activated."""
    return activated(node, tf.add(x, y))


@builtin("SUB")
def sub(node: Node, x: Any, y: Any) -> Any:
    """x - y, activated."""
    return activated(node, tf.subtract(x, y))


@builtin("MUL")
def mul(node: Node, x: Any, y: Any) -> Any:
    """x y, activated."""
    return activated(node, tf.multiply(x, y))


@builtin("DIV")
def div(node: Node, x: Any, y: Any) -> Any:
    """x / y, activated; of whole numbers the part towards zero."""
    quotient = tf.raw_ops.TruncateDiv(x=x, y=y) if x.dtype.is_integer else tf.divide(x, y)
    return activated(node, quotient)


@builtin("ADD_N")
def add_n(node: Node, *operands: Any) -> Any:
    """The sum of the operands."""
    return tf.add_n(operands)


@builtin("GELU")
def gelu(node: Node, x: Any) -> Any:
    """Gelu, or its tanh form."""
    return tf.nn.gelu(x, approximate=bool(node.options.approximate))


@builtin("LEAKY_RELU")
def leaky_relu(node: Node, x: Any) -> Any:
    """LeakyRelu."""
    return tf.nn.leaky_relu(x, float(node.options.alpha))


@builtin("SOFTMAX")
def softmax(node: Node, x: Any) -> Any:
    """Softmax of beta x along the last axis."""
    beta = float(node.options.beta)
    return tf.nn.softmax(x if beta == 1.0 else x * tf.cast(beta, x.dtype))


@builtin("L2_NORMALIZATION")
def l2_normalization(node: Node, x: Any) -> Any:
    """x by its length along the last axis, at least 1e-6 (l2normalization.h)."""
    length = tf.sqrt(tf.reduce_sum(tf.square(x), axis=-1, keepdims=True))
    return activated(node, x / tf.maximum(length, tf.cast(1e-6, x.dtype)))


@builtin("LOCAL_RESPONSE_NORMALIZATION")
def local_response_normalization(node: Node, x: Any) -> Any:
    """LRN over `radius` channels to either side."""
    o = node.options
    return tf.nn.local_response_normalization(x, o.radius, float(o.bias), float(o.alpha), float(o.beta))


@builtin("CAST")
def cast(node: Node, x: Any) -> Any:
    """x in the type of the result."""
    return tf.cast(x, node.result.dtype)


@builtin("BITCAST")
def bitcast(node: Node, x: Any) -> Any:
    """The bits of x as the type of the result."""
    return tf.bitcast(x, node.result.dtype)


@builtin("BUCKETIZE")
def bucketize(node: Node, x: Any) -> Any:
    """How many boundaries lie at or below x."""
    return tf.raw_ops.Bucketize(input=x, boundaries=[float(item) for item in node.options.boundaries])


@builtin("FAKE_QUANT")
def fake_quant(node: Node, x: Any) -> Any:
    """x rounded to the steps of a range."""
    o = node.options
    return tf.quantization.fake_quant_with_min_max_args(x, float(o.min), float(o.max), o.numBits, bool(o.narrowRange))
