"""Branches and loops: they run other graphs of the file."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from onnxport.tracing.tensorflow_lite.node import Node, builtin


@builtin("IF")
def branches(node: Node, condition: Any, *operands: Any) -> Any:
    """One of two graphs."""
    o = node.options
    return tf.cond(
        tf.reshape(condition, []),
        lambda: node.run(o.thenSubgraphIndex, operands),
        lambda: node.run(o.elseSubgraphIndex, operands),
    )


@builtin("WHILE")
def loop(node: Node, *operands: Any) -> Any:
    """A graph as long as another one gives true."""
    o = node.options
    shapes = [tf.TensorShape([None] * item.shape.rank) for item in operands]
    each = zip(operands, node.outputs, shapes, strict=True)
    fixed = [item.shape if None not in tensor.dims else shape for item, tensor, shape in each]

    def body(*items: Any) -> tuple[Any, ...]:
        results = node.run(o.bodySubgraphIndex, items)
        for result, shape in zip(results, fixed, strict=True):
            result.set_shape(
                shape
            )  # declared: TensorFlow does not infer it where a step is put into its place by slices
        return tuple(results)

    return tf.while_loop(
        lambda *items: tf.reshape(node.run(o.condSubgraphIndex, items)[0], []),
        body,
        tuple(operands),
        shape_invariants=tuple(fixed),
    )
