"""Indexing, scattering and sorting in TensorFlow."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from onnxport.opset_maps.from_onnx.tensorflow.elements import tensor_of, widened
from onnxport.opset_maps.from_onnx.tensorflow.tensors import TensorFlowTensorFamily, size, size_vector, with_shape
from onnxport.opset_maps.from_onnx.values import Array, Int, Reduction, known

# Up to so many keys, comparing with all of them is cheaper than a search.
_FEW = 16
_INDICES = (tf.int32, tf.int64)


def _index(x: tf.Tensor) -> tf.Tensor:
    return x if x.dtype in _INDICES else tf.cast(x, tf.int64)


class TensorFlowIndexingFamily(TensorFlowTensorFamily):
    """Elements picked, placed and ordered."""

    def take(self, x: tf.Tensor, indices: tf.Tensor, axis: int) -> tf.Tensor:
        return tf.gather(x, _index(indices), axis=axis)

    def take_along_axis(self, x: tf.Tensor, indices: tf.Tensor, axis: int) -> tf.Tensor:
        rank = self.ndim(x)
        same = [a is not None and a == b for a, b in zip(x.shape.as_list(), indices.shape.as_list(), strict=True)]
        if axis == rank - 1 and all(same[:-1]):
            return tf.gather(x, _index(indices), axis=axis, batch_dims=rank - 1)
        return tf.gather_nd(x, self._grid(indices, axis))

    def _grid(self, indices: tf.Tensor, axis: int) -> tf.Tensor:
        """For each element of `indices` the index tuple in which it stands for the coordinate along `axis`."""
        indices = tf.cast(indices, tf.int64)
        shape = self.shape(indices)
        rank = len(shape)
        coordinates = []
        for place, n in enumerate(shape):
            if place == axis:
                coordinates.append(indices)
                continue
            steps = tf.reshape(tf.range(size(n)), [-1 if i == place else 1 for i in range(rank)])
            coordinates.append(tf.broadcast_to(steps, size_vector(shape)))
        return tf.stack(coordinates, -1)

    def gather_nd(self, x: tf.Tensor, indices: tf.Tensor, batch_dims: int = 0) -> tf.Tensor:
        return tf.gather_nd(x, _index(indices), batch_dims=batch_dims)

    def scatter_elements(
        self, x: tf.Tensor, indices: tf.Tensor, updates: tf.Tensor, axis: int, reduction: Reduction = "none"
    ) -> tf.Tensor:
        return self.scatter_nd(x, self._grid(indices, axis), updates, reduction)

    def scatter_nd(
        self, x: tf.Tensor, indices: tf.Tensor, updates: tf.Tensor, reduction: Reduction = "none"
    ) -> tf.Tensor:
        places = _index(indices)
        if reduction == "mul":
            return _scatter_product(x, places, updates)
        scatter = getattr(tf, f"tensor_scatter_nd_{'update' if reduction == 'none' else reduction}")
        return with_shape(scatter(x, places, updates), x.shape.as_list())

    def nonzero(self, x: tf.Tensor) -> tf.Tensor:
        flags = x if x.dtype == tf.bool else tf.not_equal(x, tf.zeros([], x.dtype))
        if x.shape.rank == 0:  # which tf.where refuses
            return tf.zeros([0, tf.cast(flags, tf.int32)], tf.int64)
        return tf.transpose(tf.where(flags))

    def compress(self, x: tf.Tensor, condition: tf.Tensor, axis: int) -> tf.Tensor:
        return tf.gather(x, tf.squeeze(tf.where(condition), [1]), axis=axis)

    def unique(self, x: tf.Tensor, axis: int | None) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
        if x.dtype == tf.string and axis is not None:  # slices of strings as those of their places among all strings
            vocabulary, _, codes, _ = self.unique(x, None)
            places, first, inverse, counts = self.unique(tf.reshape(codes, tf.shape(x)), axis)
            return tf.gather(vocabulary, places), first, inverse, counts
        if axis is None:
            values, inverse, counts = tf.unique_with_counts(tf.reshape(x, [-1]), tf.int64)
            text = x.dtype == tf.string
            order = self._row_order(_as_numbers(values), 0) if text else tf.argsort(values, stable=True)
            order = tf.cast(order, tf.int64)
            values = tf.gather(values, order)
        else:
            values, inverse, counts = tf.raw_ops.UniqueWithCountsV2(x=x, axis=[axis], out_idx=tf.int64)
            order = self._row_order(values, axis)
            values = tf.gather(values, order, axis=axis)
        rank = tf.math.invert_permutation(order)
        inverse = tf.gather(rank, inverse)
        counts = tf.gather(counts, order)
        count = tf.size(order, tf.int64)
        first = tf.math.unsorted_segment_min(tf.range(tf.size(inverse, tf.int64)), inverse, count)
        return values, first, inverse, counts

    def _row_order(self, x: tf.Tensor, axis: int) -> tf.Tensor:
        """The lexicographic order of the slices along `axis`: stable sorting by each of their elements, the last one first."""
        rank = self.ndim(x)
        rows = tf.transpose(x, [axis, *(i for i in range(rank) if i != axis)])
        rows = tf.reshape(rows, tf.stack([tf.shape(rows)[0], -1]))
        width = tf.shape(rows)[1]

        def step(i: tf.Tensor, order: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            column = tf.gather(tf.gather(rows, width - 1 - i, axis=1), order)
            return i + 1, tf.gather(order, tf.argsort(column, stable=True))

        start = (tf.constant(0), tf.range(tf.shape(rows, out_type=tf.int64)[0]))
        shapes = (tf.TensorShape([]), tf.TensorShape([None]))
        return tf.while_loop(lambda i, _: i < width, step, start, shape_invariants=shapes)[1]

    def top_k(self, x: tf.Tensor, k: Int, axis: int, largest: bool) -> tuple[tf.Tensor, tf.Tensor]:
        rank = self.ndim(x)
        swap = [i for i in range(rank) if i != axis] + [axis]
        back = [swap.index(i) for i in range(rank)]
        keys = x if axis == rank - 1 else tf.transpose(x, swap)
        if not largest:  # in reverse; integers by their complement, which can't overflow
            keys = tf.bitwise.invert(keys) if x.dtype.is_integer else -keys
        amount = tf.cast(size(k), tf.int32) if not known(k) else int(k)
        _, places = widened(
            "top_k", lambda y: tf.math.top_k(y, 1 if y.shape == [1] else amount), [[1]], [keys], back=False
        )
        places = tf.cast(places, tf.int64)
        places = places if axis == rank - 1 else tf.transpose(places, back)
        return self.take_along_axis(x, places, axis), places

    def argsort(self, x: tf.Tensor, axis: int, descending: bool = False) -> tf.Tensor:
        return tf.cast(
            tf.argsort(x, axis, direction="DESCENDING" if descending else "ASCENDING", stable=True), tf.int64
        )

    def lookup(self, x: tf.Tensor, keys: Array) -> tf.Tensor:
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


def _hashed(x: tf.Tensor) -> tf.Tensor:
    """Numbers to search strings by."""
    return tf.strings.to_hash_bucket_strong(x, (1 << 63) - 1, key=[0x5DEECE66D, 0xB])


def _as_numbers(x: tf.Tensor) -> tf.Tensor:
    """Strings [n] as INT64 [n, m], whose rows have the order of the strings' bytes: seven to a number, the length at the end."""
    lengths = tf.strings.length(x)
    width = tf.maximum(tf.reduce_max(lengths), 1)
    columns = (width + 6) // 7
    raw = tf.cast(tf.io.decode_raw(x, tf.uint8, fixed_length=7 * columns), tf.int64)  # zeros behind each
    weights = tf.constant([256**i for i in range(6, -1, -1)], tf.int64)
    packed = tf.reduce_sum(tf.reshape(raw, tf.stack([-1, columns, 7])) * weights, 2)
    return tf.concat([packed, tf.cast(lengths, tf.int64)[:, tf.newaxis]], 1)


def _scatter_product(x: tf.Tensor, places: tf.Tensor, updates: tf.Tensor) -> tf.Tensor:
    """x times the product of all updates of a slice: TensorFlow scatters no products, but it multiplies segments."""
    shape = tf.shape(x, out_type=tf.int64)
    depth = places.shape[-1]
    strides = tf.math.cumprod(shape[:depth], exclusive=True, reverse=True)
    segments = tf.reshape(tf.reduce_sum(tf.cast(places, tf.int64) * strides, -1), [-1])
    rows = (
        tf.reshape(updates, tf.concat([[-1], shape[depth:]], 0)) if depth < x.shape.rank else tf.reshape(updates, [-1])
    )
    product = tf.math.unsorted_segment_prod(rows, segments, tf.reduce_prod(shape[:depth]))
    result = x * tf.reshape(product, shape)
    return with_shape(result, x.shape.as_list())
