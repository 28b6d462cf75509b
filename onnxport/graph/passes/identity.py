"""Removal of Identity nodes that no graph needs."""

from __future__ import annotations

import onnx_ir as ir
from onnx_ir.passes import InPlacePass, PassResult

from onnxport.graph.bodies import every_node
from onnxport.graph.passes.rewriting import replace_value


class RemoveIdentityPass(InPlacePass):
    """Removes ``y = Identity(x)``:

    1. where y is no output of a graph, by using x instead of y;
    2. where y is an output, by giving its name to x, provided that x is computed in the same graph and is not itself an
       output: an output that is an input, a weight, another output or a value of an enclosing graph keeps its node.

    onnx-ir's own pass also renames values that already are outputs or that belong to an enclosing graph, and so loses the
    user's names.
    """

    def call(self, model: ir.Model) -> PassResult:
        """The model without needless Identity nodes."""
        identities = [node for node in every_node(model.graph) if node.op_type == "Identity" and node.domain == ""]
        removed = [_remove(node) for node in identities]
        return PassResult(model, modified=any(removed))


def _remove(node: ir.Node) -> bool:
    source, result, graph = node.inputs[0], node.outputs[0], node.graph
    if source is None or graph is None:
        return False
    if result.is_graph_output():
        producer = source.producer()
        if producer is None or producer.graph is not graph or source.is_graph_output():
            return False
    replace_value(result, source)
    graph.remove(node, safe=True)
    return True
