"""Reshapes after each other, and after a reduction, as one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir
from onnx_ir.passes import InPlacePass, PassResult

from onnxport.graph.names import NameAuthority
from onnxport.graph.passes.matching import arithmetic_nodes, equal_sizes, small_numbers
from onnxport.graph.passes.rewriting import add_weight, node_from, replace_value

_SHAPERS = ("Reshape", "Unsqueeze", "Squeeze", "Flatten", "Transpose")


class MergeReshapesPass(InPlacePass):
    """Writes what moves no element in memory in one step:

    1. a transpose that moves axes of size 1 alone is a reshape;
    2. a reshape of a reshape is a reshape, or nothing where the shape is the first one's;
    3. a reshape that puts the axes back which a reduction dropped is the reduction's ``keepdims``.

    Only shapes of which at most one size is unknown are looked at, and nodes whose result has one reader.
    """

    def __init__(self, names: NameAuthority) -> None:
        super().__init__()
        self._names = names

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
        if graph is None or source is None or not _keeps_order(node) or source.is_initializer():
            return None
        before = source.producer()
        alone = len(source.uses()) == 1 and not source.is_graph_output()
        if before is None or before.graph is not graph or before.domain or not alone or not _known(result):
            return None
        if _is_reduction_of(before, result):
            return self._keep_axes(graph, node, before)
        root = before.inputs[0]
        if root is None or not _keeps_order(before) or root.is_initializer() or result.shape is None:
            return None
        sizes = _target(result)
        if sizes is None:
            return None
        constant = add_weight(main, self._names.unique("sizes"), np.asarray(sizes, np.int64))
        name = self._names.unique(f"{node.name}/Reshape")
        merged = node_from(node, "Reshape", [root, constant], name=name, type=result.type, shape=result.shape)
        graph.insert_after(node, [merged])
        replace_value(result, merged.outputs[0])
        graph.remove([node, before], safe=True)
        return merged

    def _keep_axes(self, graph: ir.Graph, node: ir.Node, reduction: ir.Node) -> ir.Node:
        result = node.outputs[0]
        attributes = {**reduction.attributes, "keepdims": ir.AttrInt64("keepdims", 1)}
        name = self._names.unique(f"{reduction.name}/kept")
        kept = node_from(
            reduction,
            reduction.op_type,
            reduction.inputs,
            list(attributes.values()),
            name=name,
            type=result.type,
            shape=result.shape,
        )
        graph.insert_after(node, [kept])
        replace_value(result, kept.outputs[0])
        graph.remove([node, reduction], safe=True)
        return kept


def _unknown(value: ir.Value) -> int:
    return sum(not isinstance(size, int) for size in value.shape or ())


def _known(value: ir.Value | None) -> bool:
    """Whether a value's shape follows from its number of elements."""
    return value is not None and value.shape is not None and _unknown(value) <= 1 and 0 not in list(value.shape)


def _target(value: ir.Value) -> list[int] | None:
    return [size if isinstance(size, int) else -1 for size in value.shape] if value.shape is not None else None


def _keeps_order(node: ir.Node) -> bool:
    """Whether a node leaves the elements in their order."""
    if node.op_type not in _SHAPERS or node.domain or not _known(node.inputs[0]) or not _known(node.outputs[0]):
        return False
    shape = node.inputs[0].shape if node.inputs[0] is not None else None
    if node.op_type != "Transpose" or shape is None:
        return node.op_type != "Transpose"
    wide = [axis for axis, size in enumerate(shape) if size != 1]
    perm = node.attributes.get_ints("perm", list(range(len(shape)))[::-1])
    return [axis for axis in perm if axis in wide] == wide


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
