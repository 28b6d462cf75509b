"""Sizes of pictures at which a model may run that takes one size, though its file leaves them free."""

from __future__ import annotations

from collections.abc import Iterator
from math import isqrt

import onnx_ir as ir

# What pretrained models take most.
_USUAL = (224, 256, 384, 32)
# Tokens beside the patches: of the class, and of distillation.
_EXTRA = (0, 1, 2)


def image_sizes(graph: ir.Graph) -> list[int]:
    """The sides of square pictures, in the order in which they are worth a try.

    A vision transformer adds a vector to each patch: how many there are, and the stride of the convolution that makes them, give
    the side.
    """
    sides = [patches * stride for stride in _strides(graph) for patches in _grids(graph)]
    return list(dict.fromkeys((*sides, *_USUAL)))


def _strides(graph: ir.Graph) -> list[int]:
    """Strides of the convolutions that cut pictures into patches."""
    strides = (node.attributes["strides"].as_ints() for node in graph if node.op_type == "Conv" and _cuts(node))
    return list(dict.fromkeys(int(item[0]) for item in strides))


def _cuts(node: ir.Node) -> bool:
    strides, kernel = node.attributes.get("strides"), node.attributes.get("kernel_shape")
    return strides is not None and kernel is not None and list(strides.as_ints()) == list(kernel.as_ints())


def _grids(graph: ir.Graph) -> Iterator[int]:
    """Patches a side, of tables of positions."""
    for value in graph.initializers.values():
        shape = value.const_value.shape.numpy() if value.const_value is not None else ()
        count = shape[-2] if len(shape) == 2 or (len(shape) == 3 and shape[0] == 1) else 0
        yield from (
            isqrt(count - extra) for extra in _EXTRA if count - extra > 1 and isqrt(count - extra) ** 2 == count - extra
        )
