"""Linear algebra, convolutions, pooling and Fourier transforms in TensorFlow.

Convolutions are computed channels-last, since TensorFlow has no others on the CPU (see `layout.py`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import reduce
from typing import Any, Unpack

import tensorflow as tf

from onnxport.errors import UnsupportedOperator
from onnxport.opset_maps.from_onnx.tensorflow.elements import HALVES, permuted, widened
from onnxport.opset_maps.from_onnx.tensorflow.tensors import TensorFlowTensorFamily, size, size_vector, with_shape
from onnxport.opset_maps.from_onnx.values import GroupedStrides, Int, Ints, PaddedStrides, Strides, known
from onnxport.opset_maps.from_onnx.windows import spanned


class TensorFlowWindowFamily(TensorFlowTensorFamily):
    """Products, and what slides over images."""

    def matmul(self, a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
        left, right = self.ndim(a) == 1, self.ndim(b) == 1
        x = tf.expand_dims(a, 0) if left else a
        y = tf.expand_dims(b, 1) if right else b
        if x.dtype in HALVES:  # a half holds no sum of many products
            product = tf.cast(tf.linalg.matmul(tf.cast(x, tf.float32), tf.cast(y, tf.float32)), x.dtype)
        else:
            product = widened("matmul", tf.linalg.matmul, [[1, 1], [1, 1]], [x, y])
        dropped = ([-2] if left else []) + ([-1] if right else [])
        return tf.squeeze(product, dropped) if dropped else product

    def einsum(self, equation: str, *xs: tf.Tensor) -> tf.Tensor:
        dtype = xs[0].dtype
        wide = dtype
        if dtype in HALVES:  # a half holds no sum of many products
            wide = tf.float32
        elif dtype.is_integer and dtype not in (tf.int32, tf.int64):  # which alone have kernels; sums wrap alike
            wide = tf.int64
        return tf.cast(tf.einsum(equation, *(tf.cast(x, wide) for x in xs)), dtype)

    def det(self, x: tf.Tensor) -> tf.Tensor:
        return widened("det", tf.linalg.det, [[1, 1]], [x])

    def fft(self, x: tf.Tensor, axis: int, inverse: bool = False) -> tf.Tensor:
        if x.dtype == tf.complex64:  # kernels of single precision lose half of its digits
            return tf.cast(self.fft(tf.cast(x, tf.complex128), axis, inverse), tf.complex64)
        rank = self.ndim(x)
        swap = [i for i in range(rank) if i != axis] + [axis]
        function = tf.signal.ifft if inverse else tf.signal.fft
        if axis == rank - 1:
            return function(x)
        return permuted(function(permuted(x, swap)), [swap.index(i) for i in range(rank)])

    def conv_last(
        self, x: tf.Tensor, weight: tf.Tensor, bias: tf.Tensor | None = None, **form: Unpack[PaddedStrides]
    ) -> tf.Tensor:
        """`conv` of a channels-last image; the weight stays as ONNX has it."""
        spatial = self.ndim(weight) - 2
        if spatial not in (1, 2, 3):
            raise UnsupportedOperator(f"TensorFlow has no convolution over {spatial} axes")
        padded = self.pad(x, [(0, 0), *form["pads"], (0, 0)])
        kernel = permuted(weight, [*range(2, spatial + 2), 1, 0])
        y = _convolved(padded, kernel, form["strides"], form["dilations"], form.get("groups", 1))
        return y if bias is None else tf.nn.bias_add(y, bias)

    def conv_transpose_last(
        self, x: tf.Tensor, weight: tf.Tensor, bias: tf.Tensor | None = None, **form: Unpack[GroupedStrides]
    ) -> tf.Tensor:
        """`conv_transpose` of a channels-last image; the weight stays as ONNX has it."""
        strides, groups = form["strides"], form.get("groups", 1)
        spatial = self.ndim(weight) - 2
        if spatial not in (1, 2, 3):
            raise UnsupportedOperator(f"TensorFlow has no transposed convolution over {spatial} axes")
        kernel = _spread(permuted(weight, [*range(2, spatial + 2), 1, 0]), form["dilations"])  # k1, ..., out/groups, in
        n = self.shape(x)
        ends = [spanned(self, m, s, k) for m, s, k in zip(n[1:-1], strides, self.shape(kernel)[:spatial], strict=True)]
        parts = []
        inputs = tf.split(x, groups, -1) if groups > 1 else [x]
        kernels = tf.split(kernel, groups, -1) if groups > 1 else [kernel]
        for part, part_kernel in zip(inputs, kernels, strict=True):
            shape = [n[0], *ends, self.shape(part_kernel)[spatial]]
            target = tf.cast(size_vector(shape), tf.int32)
            y = tf.nn.conv_transpose(part, part_kernel, target, list(strides), padding="VALID")
            parts.append(with_shape(y, shape))
        y = tf.concat(parts, -1) if groups > 1 else parts[0]
        return y if bias is None else tf.nn.bias_add(y, bias)

    def max_pool_last(self, x: tf.Tensor, kernel: Ints, **form: Unpack[Strides]) -> tf.Tensor:
        """`max_pool` of a channels-last image."""
        return self._pooled(x, kernel, form, _max_pool, self.maximum)

    def sum_pool_last(self, x: tf.Tensor, kernel: Ints, **form: Unpack[Strides]) -> tf.Tensor:
        """`sum_pool` of a channels-last image."""
        return self._pooled(x, kernel, form, _sum_pool, self.add)

    def _pooled(
        self, x: tf.Tensor, kernel: Ints, form: Strides, pool: Callable[..., tf.Tensor], join: Callable[..., tf.Tensor]
    ) -> tf.Tensor:
        """Pooling by TensorFlow's kernel; where it has none, the shifted images of each place in the window, combined."""
        strides, dilations = form["strides"], form["dilations"]
        kernels = (tf.float32,) if len(kernel) == 3 else (tf.float32, tf.float64)
        if len(kernel) in (1, 2, 3) and all(d == 1 for d in dilations) and x.dtype in kernels:
            return pool(x, list(kernel), list(strides))
        counts: list[Int] = []
        for n, k, s, d in zip(self.shape(x)[1:-1], kernel, strides, dilations, strict=True):
            reach = (k - 1) * d
            counts.append((n - 1 - reach) // s + 1 if known(n) else tf.math.floordiv(size(n) - 1 - reach, s) + 1)
        images = []
        for offsets in itertools.product(*(range(k) for k in kernel)):
            shifted = x
            for axis, (offset, count, s, d) in enumerate(zip(offsets, counts, strides, dilations, strict=True), 1):
                shifted = self.slice(shifted, axis, offset * d, offset * d + (count - 1) * s + 1, s)
            images.append(shifted)
        return reduce(join, images)


def _spread(kernel: tf.Tensor, dilations: Ints) -> tf.Tensor:
    """A kernel (k1, ..., a, b) with zeros between its elements, instead of a dilation that TensorFlow can't compute."""
    if all(d == 1 for d in dilations):
        return kernel
    for axis, d in enumerate(dilations):
        if d == 1 or kernel.shape[axis] == 1:
            continue
        shape = _sizes(kernel)
        k = shape[axis]
        apart = tf.expand_dims(kernel, axis + 1)
        pads = [[0, 0]] * (len(shape) + 1)
        pads[axis + 1] = [0, d - 1]
        filled = tf.reshape(tf.pad(apart, pads), [*shape[:axis], k * d, *shape[axis + 1 :]])
        kernel = tf.gather(filled, tf.range((k - 1) * d + 1), axis=axis)
    return kernel


def _sizes(kernel: tf.Tensor) -> list[Any]:
    """The sizes of a kernel, as tensors where some are known only when the model runs."""
    return kernel.shape.as_list() if kernel.shape.is_fully_defined() else tf.unstack(tf.shape(kernel))


def _convolved(x: tf.Tensor, kernel: tf.Tensor, strides: Ints, dilations: Ints, groups: int) -> tf.Tensor:
    """Convolution of a channels-last, padded image with a kernel (k1, ..., in/groups, out)."""
    if not x.dtype.is_floating or x.dtype in HALVES:  # sums of products, in a type that holds them
        wide = tf.float32 if x.dtype.is_floating else tf.float64
        y = _convolved(tf.cast(x, wide), tf.cast(kernel, wide), strides, dilations, groups)
        return tf.cast(y, x.dtype)
    if any(s > 1 for s in strides) and any(d > 1 for d in dilations):
        kernel, dilations = _spread(kernel, dilations), [1] * len(strides)
    if groups == 1:
        return _one_group(x, kernel, strides, dilations)
    if kernel.shape[-2] == 1 and len(strides) == 2 and strides[0] == strides[1]:
        return _depthwise(x, kernel, strides, dilations, groups)
    # The CPU has no gradient of a grouped convolution, so each group is one of its own.
    parts = zip(tf.split(x, groups, -1), tf.split(kernel, groups, -1), strict=True)
    return tf.concat([_one_group(a, k, strides, dilations) for a, k in parts], -1)


def _one_group(x: tf.Tensor, kernel: tf.Tensor, strides: Ints, dilations: Ints) -> tf.Tensor:
    if (
        len(strides) == 2
        and kernel.shape[2] == 1
        and strides[1] > 1
        and not _has_columns(x, kernel, strides, dilations)
    ):
        # Of a batch of images of one channel TensorFlow (2.21) computes wrong numbers where its stride leaves one column.
        # With a channel of zeros it is right; not by a pad, which TensorFlow joins to the convolution as one of rows and columns.
        x, kernel = tf.concat([x, tf.zeros_like(x)], 3), tf.concat([kernel, tf.zeros_like(kernel)], 2)
    return tf.nn.convolution(x, kernel, list(strides), "VALID", dilations=list(dilations))


def _has_columns(x: tf.Tensor, kernel: tf.Tensor, strides: Ints, dilations: Ints) -> bool:
    """Whether a convolution surely gives more than one column."""
    width, taps = x.shape[2], kernel.shape[1]
    return width is not None and taps is not None and width - (taps - 1) * dilations[1] - 1 >= strides[1]


def _depthwise(x: tf.Tensor, kernel: tf.Tensor, strides: Ints, dilations: Ints, groups: int) -> tf.Tensor:
    height, width, _, out = _sizes(kernel)
    filters = tf.reshape(kernel, size_vector([height, width, groups, out // groups]))
    return tf.nn.depthwise_conv2d(x, filters, [1, *strides, 1], "VALID", dilations=list(dilations))


_MAX_POOLS = (tf.nn.max_pool1d, tf.nn.max_pool2d, tf.nn.max_pool3d)
_MEAN_POOLS = (tf.nn.avg_pool1d, tf.nn.avg_pool2d, tf.nn.avg_pool3d)


def _max_pool(x: tf.Tensor, kernel: list[int], strides: list[int]) -> tf.Tensor:
    return _MAX_POOLS[len(kernel) - 1](x, kernel, strides, "VALID")


def _sum_pool(x: tf.Tensor, kernel: list[int], strides: list[int]) -> tf.Tensor:
    return _MEAN_POOLS[len(kernel) - 1](x, kernel, strides, "VALID") * tf.cast(math.prod(kernel), x.dtype)
