"""Sizes that a graph declares as free and its weights settle."""

from __future__ import annotations

import onnx_ir as ir

from onnxport.graph.constants import constant_of

_SAME_SHAPE = frozenset(("Add", "Cast", "Div", "Identity", "Mul", "Sub"))  # where others of one element
_QUANTISED = frozenset(("DequantizeLinear", "DynamicQuantizeLinear", "QuantizeLinear"))
# Operators with weights: the weight's place, the axis of the first operand whose size follows from it, and the weight's axis.
_AXES = {
    "BatchNormalization": (1, 1, 0),
    "Conv": (1, 1, 1),
    "ConvInteger": (1, 1, 1),
    "ConvTranspose": (1, 1, 0),
    "MatMul": (1, -1, -2),
    "QLinearConv": (3, 1, 1),
}
_GROUPED = frozenset(("Conv", "ConvInteger", "QLinearConv"))


def settled_sizes(graph: ir.Graph) -> dict[str, int]:
    """The names of the inputs' dimensions that weights leave one size, and that size.

    Exporters name a picture's channels among the sizes that vary, while the first convolution's kernel takes three. A name that
    stands at several places stays free: no runtime sees to it that their sizes are the same.
    """
    dims = [size.value for value in graph.inputs for size in value.shape or () if isinstance(size, ir.SymbolicDim)]
    free = {name for name in dims if name is not None and dims.count(name) == 1}
    sizes: dict[str, int] = {}
    for node in graph if free else ():
        if node.domain or node.op_type not in _AXES or node.inputs[0] is None:
            continue
        x = _origin(node.inputs[0])
        if x.shape is None:
            continue
        place, axis, of_weight = _AXES[node.op_type]
        known = _size(node.inputs[place], of_weight)
        if known is None or not max(axis, 1) < x.shape.rank():
            continue
        dim = x.shape[axis]
        if isinstance(dim, ir.SymbolicDim) and dim.value in free:
            groups = node.attributes.get_int("group", 1) if node.op_type in _GROUPED else 1
            sizes.setdefault(dim.value, known * groups)
    return sizes


def _origin(value: ir.Value) -> ir.Value:
    """The value of the same shape that a value is computed from: what prepares or quantises a picture."""
    while (node := value.producer()) is not None and value.shape is None and not node.domain and node.inputs:
        first, *others = node.inputs
        held = [None if item is None else constant_of(item) for item in others]
        alone = all(item is not None and item.size == 1 for item in held)
        if first is None or not (node.op_type in _QUANTISED or (node.op_type in _SAME_SHAPE and alone)):
            break
        value = first
    return value


def _size(weight: ir.Value | None, axis: int) -> int | None:
    tensor = None if weight is None else constant_of(weight)
    if tensor is None:
        return None
    shape = tensor.shape.numpy()
    return shape[axis] if -len(shape) <= axis < len(shape) else None
