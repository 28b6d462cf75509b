"""Sizes that a graph declares as free and its weights settle."""

from __future__ import annotations

import onnx_ir as ir

# Operators with weights: the axis of the first operand whose size follows from the second one, and that one's axis.
_SAME_SHAPE = frozenset(("Add", "Cast", "Div", "Identity", "Mul", "Sub"))
_AXES = {"Conv": (1, 1), "ConvTranspose": (1, 0), "BatchNormalization": (1, 0), "MatMul": (-1, -2)}


def settled_sizes(graph: ir.Graph) -> dict[str, int]:
    """The names of the inputs' dimensions that weights leave one size, and that size.

    Exporters name a picture's channels among the sizes that vary, while the first convolution's kernel takes three. A name that
    stands at several places stays free: no runtime sees to it that their sizes are the same.
    """
    dims = [size.value for value in graph.inputs for size in value.shape or () if isinstance(size, ir.SymbolicDim)]
    free = {name for name in dims if name is not None and dims.count(name) == 1}
    sizes: dict[str, int] = {}
    for node in graph if free else ():
        x, weight = (*node.inputs, None, None)[:2]
        if node.domain or node.op_type not in _AXES or x is None:
            continue
        x = _origin(x)
        if x.shape is None:
            continue
        axis, of_weight = _AXES[node.op_type]
        known = _size(weight, of_weight)
        if known is None or not max(axis, 1) < x.shape.rank():
            continue
        dim = x.shape[axis]
        if isinstance(dim, ir.SymbolicDim) and dim.value in free:
            groups = node.attributes.get_int("group", 1) if node.op_type == "Conv" else 1
            sizes.setdefault(dim.value, known * groups)
    return sizes


def _origin(value: ir.Value) -> ir.Value:
    """The value of the same shape that a value is computed from: casts, and scales of one element, as they prepare a picture."""
    while (node := value.producer()) is not None and value.shape is None and not node.domain and node.inputs:
        first, *others = node.inputs
        alone = all(item is not None and item.const_value is not None and item.const_value.size == 1 for item in others)
        if node.op_type not in _SAME_SHAPE or first is None or not alone:
            break
        value = first
    return value


def _size(weight: ir.Value | None, axis: int) -> int | None:
    if weight is None or weight.const_value is None:
        return None
    shape = weight.const_value.shape.numpy()
    return shape[axis] if -len(shape) <= axis < len(shape) else None
