"""Operators on whole numbers that stand for real ones.

What moves elements, or chooses among them, does so with the whole numbers. Everything else computes with the real numbers and
rounds its results to the steps that the file declares, as TFLite's kernels do with whole numbers inside. Where weights alone are
whole numbers, TFLite's hybrid kernels round their input to 8 bits each time they run, and so does what is written here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from onnxport.tracing.tensorflow_lite.file import Tensor
from onnxport.tracing.tensorflow_lite.node import Node
from onnxport.tracing.tensorflow_lite.operators.convolution import as_rows, biased, product
from onnxport.tracing.tensorflow_lite.operators.images import average_pool_2d
from onnxport.tracing.tensorflow_lite.steps import dequantised, dynamic_steps, quantised

_MOVES = frozenset(
    "BATCH_TO_SPACE_ND BROADCAST_TO CONCATENATION DEPTH_TO_SPACE EMBEDDING_LOOKUP EXPAND_DIMS GATHER GATHER_ND MAX_POOL_2D PACK "
    "PAD RESHAPE RESIZE_NEAREST_NEIGHBOR REVERSE_SEQUENCE REVERSE_V2 SHAPE SLICE SPACE_TO_DEPTH SPLIT SPLIT_V SQUEEZE "
    "STRIDED_SLICE TILE TRANSPOSE UNPACK RANK ARG_MAX ARG_MIN REDUCE_MAX REDUCE_MIN MIRROR_PAD DYNAMIC_UPDATE_SLICE "
    "MAXIMUM MINIMUM".split()
)
# What TFLite's kernels compute as the real numbers would, rounded: scripts/conformance/tflite.py proves each.
_COMPUTED = frozenset(
    "ABS ADD CONCATENATION CONV_2D DEPTHWISE_CONV_2D DEQUANTIZE EXP FULLY_CONNECTED GELU HARD_SWISH L2_NORMALIZATION LEAKY_RELU "
    "LOGISTIC LOG_SOFTMAX MEAN MUL QUANTIZE RELU RELU6 RELU_N1_TO_1 RESIZE_BILINEAR RSQRT SOFTMAX "
    "SQUARED_DIFFERENCE SUB SUM TANH TRANSPOSE_CONV EQUAL NOT_EQUAL LESS LESS_EQUAL GREATER GREATER_EQUAL MAX_POOL_2D "
    "AVERAGE_POOL_2D".split()
)
_FILTERED = frozenset(("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV"))
_HYBRID = frozenset(("FULLY_CONNECTED", "CONV_2D", "DEPTHWISE_CONV_2D"))
_TABLES = frozenset(("LOGISTIC", "SOFTMAX", "TANH", "LOG_SOFTMAX", "EXP", "GELU", "ELU", "HARD_SWISH"))
_STORED = (tf.int8, tf.uint8, tf.int16, tf.int32, tf.int64)


def is_quantised(node: Node) -> bool:
    """Whether an operand or result of a node is quantised, or it converts one."""
    tensors = [*(item for item in node.inputs if item is not None), *node.outputs]
    return node.operator.code in ("QUANTIZE", "DEQUANTIZE") or any(_stands_for_real(item) for item in tensors)


def run(node: Node, function: Callable[..., Any], operands: Sequence[Any]) -> Any:
    """The results of an operator some of whose operands or results are quantised."""
    code = node.operator.code
    if code in _MOVES and _alike(node):
        if code == "PAD":
            return _padded(node, *operands)
        return function(node, *operands)
    if code == "AVERAGE_POOL_2D" and _alike(node):
        return _mean_of_windows(node, *operands)
    if code == "DEQUANTIZE" and operands[0].dtype == tf.float16:
        return tf.cast(operands[0], tf.float32)
    if code in _HYBRID and _is_hybrid(node):
        return _hybrid(node, *operands)
    _check(node)
    if any(item.dtype == tf.int16 and item.steps for item in node.outputs) and code in _TABLES:
        raise node.refused(
            "on 16-bit numbers its kernel reads a table between whose entries it interpolates: no ONNX form"
        )
    if code == "FULLY_CONNECTED":
        operands = [as_rows(node, operands[0], operands[1]), *operands[1:]]
    reals = [
        dequantised(x, tensor.steps)
        if tensor is not None and tensor.steps and x is not None and _stored(x, tensor)
        else x
        for x, tensor in zip(operands, node.inputs, strict=True)
    ]
    results = reals[0] if code in ("QUANTIZE", "DEQUANTIZE") else function(node, *reals)
    flat = list(results) if isinstance(results, (list, tuple)) else [results]
    return [
        quantised(x, tensor.steps, tensor.dtype) if _stands_for_real(tensor) and tensor.steps else x
        for x, tensor in zip(flat, node.outputs, strict=True)
    ]


def _check(node: Node) -> None:
    """Refuses what TFLite's kernels do not compute as the real numbers would.

    Raises:
        UnsupportedOperator: it is such.
    """
    code = node.operator.code
    if code in ("MAX_POOL_2D", "AVERAGE_POOL_2D") and not _alike(node, activated=True):
        raise node.refused("its quantised operand and result have other scales, which its kernel does not look at")
    if code in _COMPUTED:
        if code in _FILTERED and any(_has_offset(item) for item in node.inputs[1:2] if code != "TRANSPOSE_CONV"):
            raise node.refused("an int8 filter with a zero point, which its kernel does not take")
        return
    if code in _MOVES:
        raise node.refused("its quantised operands and results have other scales, which its kernel does not look at")
    raise node.refused("on quantised numbers it has no form whose numbers are proved")


def _has_offset(tensor: Tensor | None) -> bool:
    return (
        tensor is not None
        and tensor.steps is not None
        and tensor.dtype == tf.int8
        and bool(np.any(tensor.steps.zero_point))
    )


def _stored(x: Any, tensor: Tensor) -> bool:
    """Whether an operand is the whole numbers of its tensor; biases of 64 bits come as real ones."""
    return x.dtype == tensor.dtype and _stands_for_real(tensor)


def _stands_for_real(tensor: Tensor) -> bool:
    return tensor.steps is not None and tensor.dtype in _STORED and bool(np.all(tensor.steps.scale > 0))


def _alike(node: Node, *, activated: bool = False) -> bool:
    """Whether all quantised operands and results have the same steps, and nothing is activated, unless that is `activated`."""
    if getattr(node.operator.options, "fusedActivationFunction", 0) and not activated:
        return False
    tensors = [item for item in (*node.inputs, *node.outputs) if item is not None and item.steps is not None]
    first = tensors[0].steps
    same = [
        first is not None
        and item.steps is not None
        and not item.steps.per_channel
        and first.scale[0] == item.steps.scale[0]
        and first.zero_point[0] == item.steps.zero_point[0]
        for item in tensors
    ]
    return all(same)


def _padded(node: Node, x: Any, borders: Any) -> Any:
    """Borders of what stands for zero."""
    steps = node.outputs[0].steps
    zero = 0 if steps is None else int(steps.zero_point[0])
    return tf.raw_ops.PadV2(input=x, paddings=borders, constant_values=tf.constant(zero, x.dtype))


def _mean_of_windows(node: Node, x: Any) -> Any:
    """The mean of the whole numbers themselves, halves away from zero, as all of TFLite's kernels have it.

    A mean of up to 2,048 numbers lies on a half or further off than 2^-12, which is more than a sum loses in float32.
    """
    mean = average_pool_2d(node, tf.cast(x, tf.float32))
    return tf.cast(tf.sign(mean) * tf.floor(tf.abs(mean) + (0.5 + 2.0**-12)), x.dtype)


def _is_hybrid(node: Node) -> bool:
    x, weight = node.inputs[0], node.inputs[1]
    return x is not None and weight is not None and x.dtype == tf.float32 and _stands_for_real(weight)


def _hybrid(node: Node, x: Any, weight: Any, bias: Any = None) -> Any:
    """A product of the input's own steps with the weights', whole numbers whose sums are exact, by both scales."""
    steps = node.inputs[1].steps if node.inputs[1] is not None else None
    if steps is None or np.any(steps.zero_point):
        raise node.refused("hybrid weights with a zero point have no form")
    if node.operator.code == "FULLY_CONNECTED":
        symmetric = not node.options.asymmetricQuantizeInputs
        x = as_rows(node, x, weight)
        numbers, size = dynamic_steps(x, symmetric=symmetric, axes=[-1])
    else:
        numbers, size = dynamic_steps(x, symmetric=not steps.per_channel, axes=[1, 2, 3])
    scale = tf.constant(steps.scale if steps.per_channel else steps.scale[0])
    return biased(node, product(node, numbers, tf.cast(weight, tf.float32)) * size * scale, bias)
