"""Elements by their places."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from onnxport.tracing.tensorflow_lite.node import TABLE, Node, builtin, simple

TABLE.update(
    EMBEDDING_LOOKUP=simple(lambda places, table: tf.gather(table, places)),
    GATHER_ND=simple(tf.gather_nd),
    SCATTER_ND=simple(tf.scatter_nd),
    WHERE=simple(tf.where),
)


@builtin("GATHER")
def gather(node: Node, x: Any, places: Any) -> Any:
    """Slices of x along an axis, by places."""
    return tf.gather(x, places, axis=node.options.axis, batch_dims=node.options.batchDims)


@builtin("ONE_HOT")
def one_hot(node: Node, places: Any, depth: Any, on: Any, off: Any) -> Any:
    """`on` at each place and `off` elsewhere."""
    return tf.raw_ops.OneHot(indices=places, depth=depth, on_value=on, off_value=off, axis=node.options.axis)


@builtin("UNIQUE")
def unique(node: Node, x: Any) -> Any:
    """The different elements and the place of each element among them."""
    return tuple(tf.raw_ops.Unique(x=x, out_idx=node.outputs[1].dtype))


@builtin("SPARSE_TO_DENSE")
def sparse_to_dense(node: Node, places: Any, shape: Any, values: Any, default: Any) -> Any:
    """A tensor of a default with values at places."""
    return tf.raw_ops.SparseToDense(
        sparse_indices=places, output_shape=shape, sparse_values=values, default_value=default, validate_indices=False
    )


@builtin("DYNAMIC_UPDATE_SLICE")
def dynamic_update_slice(node: Node, x: Any, update: Any, start: Any) -> Any:
    """x with a part replaced, which is moved inside where it would reach over the edge."""
    sizes = tf.shape(update, start.dtype)
    first = tf.maximum(tf.minimum(start, tf.shape(x, start.dtype) - sizes), 0)
    grids = tf.meshgrid(*[first[i] + tf.range(sizes[i]) for i in range(x.shape.rank)], indexing="ij")
    return tf.tensor_scatter_nd_update(x, tf.stack(grids, -1), update)
