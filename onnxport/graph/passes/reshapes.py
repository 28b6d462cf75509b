"""Reshapes after each other, and after a reduction, as one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir
from onnx_ir.passes import PassResult

from onnxport.graph.passes.matching import arithmetic_nodes, equal_sizes, small_numbers
from onnxport.graph.passes.rewriting import NamingPass, add_weight, node_from, replace_value

_SHAPERS = ("Reshape", "Unsqueeze", "Squeeze", "Flatten", "Transpose")


class MergeReshapesPass(NamingPass):
    """Writes what moves no element in memory in one step:

    1. a transpose of a transpose is one transpose, or nothing;
    2. a transpose that moves axes of size 1 alone is a reshape;
    3. a reshape of a reshape is a reshape, or nothing where the shape is the first one's;
    4. a reshape that puts the axes back which a reduction dropped is the reduction's ``keepdims``.

    Only nodes whose result has one reader are looked at, and but for transposes shapes of which at most one size is unknown.
    """

    def call(self, model: ir.Model) -> PassResult:
        """The model with fewer reshapes."""
        nodes = arithmetic_nodes(model, *_SHAPERS)
        before = len(nodes)
        for node in nodes:  # grows: what was merged may merge with what stands before it
            merged = self._merged(model.graph, node)
            if merged is not None:
                nodes.append(merged)
        return PassResult(model, modified=len(nodes) > before)

    def _merged(self, main: ir.Graph, node: ir.Node) -> ir.Node | None:
        """The node that stands for a node and the one before it."""
        graph, source, result = node.graph, node.inputs[0], node.outputs[0]
        before = source.producer() if source is not None else None
        if graph is None or source is None or before is None or before.graph is not graph or before.domain:
            return None
        if len(source.uses()) != 1 or source.is_graph_output():
            return None
        root = before.inputs[0] if before.inputs else None
        if root is None or root.is_initializer():
            return None
        if node.op_type == before.op_type == "Transpose" and root.shape is not None:
            rank = root.shape.rank()
            perm = [_perm(before, rank)[axis] for axis in _perm(node, rank)]
            if perm == list(range(rank)):
                self._leave_out(graph, node, before, root)
                return None
            return self._replace(graph, node, before, "Transpose", [root], [ir.AttrInt64s("perm", perm)])
        if not _keeps_order(node):
            return None
        if _is_reduction_of(before, result):
            attributes = {**before.attributes, "keepdims": ir.AttrInt64("keepdims", 1)}
            return self._replace(graph, node, before, before.op_type, before.inputs, list(attributes.values()))
        if not _keeps_order(before) or result.shape is None or root.shape is None:
            return None
        if root.shape.rank() == result.shape.rank() and equal_sizes(list(root.shape), list(result.shape)):
            self._leave_out(graph, node, before, root)
            return None
        sizes = np.asarray([size if isinstance(size, int) else -1 for size in result.shape], np.int64)
        return self._replace(
            graph, node, before, "Reshape", [root, add_weight(main, self._names.unique("sizes"), sizes)]
        )

    def _replace(
        self,
        graph: ir.Graph,
        node: ir.Node,
        before: ir.Node,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        attributes: Sequence[ir.Attr] = (),
    ) -> ir.Node:
        """One node in the place of two."""
        result = node.outputs[0]
        name = self._names.unique(f"{node.name}/{op_type}")
        merged = node_from(node, op_type, inputs, attributes, name=name, type=result.type, shape=result.shape)
        graph.insert_after(node, [merged])
        replace_value(result, merged.outputs[0])
        graph.remove([node, before], safe=True)
        return merged

    def _leave_out(self, graph: ir.Graph, node: ir.Node, before: ir.Node, root: ir.Value) -> None:
        """Uses what the two nodes move there and back as it is."""
        if node.outputs[0].is_graph_output() and (root.producer() is None or root.is_graph_output()):
            return
        replace_value(node.outputs[0], root)
        graph.remove([node, before], safe=True)


def _unknown(value: ir.Value) -> int:
    return sum(not isinstance(size, int) for size in value.shape or ())


def _known(value: ir.Value | None) -> bool:
    """Whether a value's shape follows from its number of elements."""
    return value is not None and value.shape is not None and _unknown(value) <= 1 and 0 not in list(value.shape)


def _perm(node: ir.Node, rank: int) -> list[int]:
    return list(node.attributes.get_ints("perm", list(range(rank))[::-1]))


def _keeps_order(node: ir.Node) -> bool:
    """Whether a node leaves the elements in their order."""
    if node.op_type not in _SHAPERS or node.domain or not _known(node.inputs[0]) or not _known(node.outputs[0]):
        return False
    shape = node.inputs[0].shape if node.inputs[0] is not None else None
    if node.op_type != "Transpose" or shape is None:
        return node.op_type != "Transpose"
    wide = [axis for axis, size in enumerate(shape) if size != 1]
    return [axis for axis in _perm(node, len(shape)) if axis in wide] == wide


def _is_reduction_of(node: ir.Node, kept: ir.Value) -> bool:
    """Whether a value is what a reduction would give with its axes kept."""
    source = node.inputs[0]
    if not node.op_type.startswith("Reduce") or node.attributes.get_int("keepdims", 1) != 0 or source is None:
        return False
    axes = _axes(node)
    if axes is None or source.shape is None or kept.shape is None or source.shape.rank() != kept.shape.rank():
        return False
    rank = source.shape.rank()
    dropped = {axis % rank for axis in axes}
    return equal_sizes([1 if axis in dropped else source.shape[axis] for axis in range(rank)], list(kept.shape))


def _axes(node: ir.Node) -> Sequence[int] | None:
    attribute = node.attributes.get("axes")
    if attribute is not None:
        return list(attribute.as_ints())
    return small_numbers(node.inputs[1]) if len(node.inputs) > 1 and node.inputs[1] is not None else None
