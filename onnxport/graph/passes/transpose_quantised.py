"""Whole numbers that stand for real ones, in the layout that their operator takes."""

from __future__ import annotations

import onnx_ir as ir
from onnx_ir.passes import InPlacePass, PassResult

from onnxport.graph.names import NameAuthority
from onnxport.graph.passes.rewriting import node_from, replace_value


class TransposeQuantisedPass(InPlacePass):
    """Makes ``Transpose(DequantizeLinear(x))`` a ``DequantizeLinear(Transpose(x))``, its axis renumbered; a weight's Cast too.

    The pass that merges the moves of weights then does a weight's Transpose in the file, and runtimes see the operator behind its
    operand's DequantizeLinear, by which they know quantised operators.
    """

    def __init__(self, names: NameAuthority) -> None:
        super().__init__()
        self._names = names

    def call(self, model: ir.Model) -> PassResult:
        """The model with transposes before whole numbers become real ones."""
        nodes = [node for node in model.graph if node.op_type == "Transpose" and not node.domain]
        return PassResult(model, modified=bool(sum(self._move(model.graph, node) for node in nodes)))

    def _move(self, graph: ir.Graph, node: ir.Node) -> bool:
        value, result = node.inputs[0], node.outputs[0]
        source = value.producer() if value is not None else None
        if source is None or source.op_type not in ("Cast", "DequantizeLinear") or source.domain:
            return False
        weight, perm = source.inputs[0], node.attributes.get_ints("perm", None)
        if weight is None or perm is None or result.shape is None:
            return False
        if source.op_type == "Cast" and not weight.is_initializer():
            return False
        order = ir.AttrInt64s("perm", list(perm))
        name = self._names.unique(f"{node.name}/weight")
        moved = node_from(node, "Transpose", [weight], [order], name=name, type=weight.type, shape=result.shape)
        attributes = {key: item for key, item in source.attributes.items() if key != "axis"}
        if source.op_type == "DequantizeLinear":
            axis = source.attributes.get_int("axis", 1) % len(perm)
            attributes["axis"] = ir.AttrInt64("axis", list(perm).index(axis))
        operands = [moved.outputs[0], *source.inputs[1:]]
        name = self._names.unique(f"{node.name}/dequantised")
        real = node_from(
            source, source.op_type, operands, list(attributes.values()), name=name, type=result.type, shape=result.shape
        )
        graph.insert_after(node, [moved, real])
        replace_value(result, real.outputs[0])
        graph.remove(node, safe=True)
        return True
