"""Scales of float64 products, kept from a runtime's float32 attributes."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
from onnx_ir.passes import InPlacePass, PassResult

from onnxport.graph.bodies import every_node
from onnxport.graph.passes.rewriting import add_weight, node_from

_LONGEST_ROW = 1 << 12  # a row of the scale up to this length stands in the file; a longer one is expanded at run time
_MODERATE = 24  # several powers of two below this exponent multiply to a float32


class KeepDoubleScalesPass(InPlacePass):
    """Gives the factor of a float64 ``Mul`` or ``Div`` beside a ``MatMul`` the shape of the other operand's last axis.

    onnxruntime fuses a product with one number into FusedMatMul, whose ``alpha`` is a float32 attribute: of 0.2 only
    eight digits are left. It does so with one number after another, and through transposes. It does not fuse a row of equal
    numbers. Powers of two stay as they are: float32 holds those, and their products with other factors.
    """

    def call(self, model: ir.Model) -> PassResult:
        """The model with such factors as rows."""
        nodes = [node for node in _fused(model.graph) if _factor(node) is not None]
        for node in nodes:
            _spread(node, model.graph)
        return PassResult(model, modified=bool(nodes))


def _fused(graph: ir.Graph) -> list[ir.Node]:
    """The nodes between a ``MatMul`` and the next one that no fusion takes away, before it and after it."""
    before: dict[ir.Node, None] = {}
    after: dict[ir.Node, None] = {}
    for product in every_node(graph):
        if product.op_type != "MatMul" or product.domain:
            continue
        rising = [value.producer() for value in product.inputs if value is not None]
        while rising:
            node = rising.pop()
            given = _taken(node) if node is not None and node not in before else None
            if node is not None and given is not None:
                before[node] = None
                rising.append(given.producer())
        falling = [use.node for use in product.outputs[0].uses()]
        while falling:
            node = falling.pop()
            if node not in after and _taken(node) is not None:
                after[node] = None
                falling += [use.node for use in node.outputs[0].uses()]
    return list(before | after)


def _taken(node: ir.Node) -> ir.Value | None:
    """What a node transposes, or multiplies or divides by one float64 number."""
    if node.domain:
        return None
    if node.op_type == "Transpose":
        return node.inputs[0]
    index = _number(node)
    return None if index is None else node.inputs[1 - index]


def _number(node: ir.Node) -> int | None:
    """Which operand of a float64 ``Mul`` or ``Div`` is one constant number."""
    if node.op_type not in ("Mul", "Div") or node.outputs[0].dtype != ir.DataType.DOUBLE:
        return None
    for index in (1,) if node.op_type == "Div" else (0, 1):
        value = node.inputs[index]
        if value is not None and value.const_value is not None and value.const_value.size == 1:
            return index
    return None


def _factor(node: ir.Node) -> int | None:
    """Which operand is one constant number, not a power of two of moderate size."""
    index = _number(node)
    value = None if index is None else node.inputs[index]
    if value is None or value.const_value is None:
        return None
    mantissa, exponent = np.frexp(float(value.const_value.numpy().reshape(())))
    return None if abs(mantissa) == 0.5 and abs(exponent) < _MODERATE else index


def _spread(node: ir.Node, graph: ir.Graph) -> None:
    index = _factor(node)
    factor, other = (node.inputs[index], node.inputs[1 - index]) if index is not None else (None, None)
    if factor is None or other is None or factor.const_value is None or index is None:
        return
    last = other.shape[-1] if other.shape is not None and other.shape.rank() else None
    if isinstance(last, int) and 1 < last <= _LONGEST_ROW:
        row = np.full(last, factor.const_value.numpy().reshape(()))
        node.replace_input_with(index, add_weight(graph, f"{node.name}/scale", row))
        if not factor.uses() and not factor.is_graph_output():
            graph.initializers.pop(factor.name or "", None)
        return
    kinds = ir.TensorType(ir.DataType.INT64), ir.TensorType(ir.DataType.DOUBLE)
    size = node_from(node, "Shape", [other], name=f"{node.name}/Shape", type=kinds[0])
    inputs = [factor, size.outputs[0]]
    spread = node_from(node, "Expand", inputs, name=f"{node.name}/Expand", type=kinds[1], shape=other.shape)
    if node.graph is not None:
        node.graph.insert_before(node, [size, spread])
    node.replace_input_with(index, spread.outputs[0])
