"""Rows of strings, gathered as onnxruntime can."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir
from onnx_ir.passes import InPlacePass, PassResult


class GatherStringsPass(InPlacePass):
    """Gathers strings along the last axis, between two transpositions.

    onnxruntime's Gather (1.31) copies the first string only of what lies behind the axis, and leaves the others empty.
    """

    def call(self, model: ir.Model) -> PassResult:
        """The model with such nodes rewritten."""
        found = [node for node in model.graph.all_nodes() if _loses(node)]
        for node in found:
            _rewrite(node)
        return PassResult(model, modified=bool(found))


def _loses(node: ir.Node) -> bool:
    if node.domain or node.op_type != "Gather" or node.inputs[0] is None or node.inputs[0].dtype != ir.DataType.STRING:
        return False
    shape, index = node.inputs[0].shape, node.inputs[1]
    if shape is None or index is None or index.shape is None:
        return False
    return any(size != 1 for size in shape[_axis(node) + 1 :])


def _axis(node: ir.Node) -> int:
    data = node.inputs[0]
    axis = node.attributes["axis"].as_int() if "axis" in node.attributes else 0
    rank = data.shape.rank() if data is not None and data.shape is not None else 0
    return axis % rank


def _rewrite(node: ir.Node) -> None:
    data, index, axis = node.inputs[0], node.inputs[1], _axis(node)
    if data is None or data.shape is None or index is None or index.shape is None or node.graph is None:
        return
    rest = [i for i in range(data.shape.rank()) if i != axis]
    last, more = len(rest), index.shape.rank()
    moved = _beside(node, "Transpose", [data], [data.shape[i] for i in (*rest, axis)], perm=[*rest, axis])
    sizes = [*(data.shape[i] for i in rest), *index.shape]
    taken = _beside(node, "Gather", [moved, index], sizes, axis=last)
    order = [*range(axis), *range(last, last + more), *range(axis, last)]
    back = ir.node("Transpose", [taken], {"perm": order}, name=f"{node.name}/back")
    back.metadata_props.update(node.metadata_props)
    result, old = back.outputs[0], node.outputs[0]
    result.name, result.type, result.shape = f"{old.name}/back", old.type, old.shape
    node.graph.insert_before(node, back)
    ir.convenience.replace_nodes_and_values(node.graph, node, [node], [back], [old], [result])


def _beside(
    node: ir.Node, op_type: str, inputs: list[ir.Value], sizes: list[int | ir.SymbolicDim], **attributes: Any
) -> ir.Value:
    made = ir.node(op_type, inputs, attributes, name=f"{node.name}/{op_type.lower()}")
    made.metadata_props.update(node.metadata_props)
    value = made.outputs[0]
    value.name, value.type, value.shape = made.name, ir.TensorType(ir.DataType.STRING), ir.Shape(sizes)
    assert node.graph is not None
    node.graph.insert_before(node, made)
    return value
