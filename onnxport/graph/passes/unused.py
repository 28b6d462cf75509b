"""What the bodies of unused nodes read."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir
from onnx_ir.passes import InPlacePass, PassResult

from onnxport.graph.bodies import bodies


class ReleaseUnusedBodiesPass(InPlacePass):
    """Makes the bodies of nodes that no output depends on read nothing.

    onnx-ir removes such an If, Loop or Scan, but what its body reads of the graph around it still counts as used then, and
    stays to be computed for nothing.
    """

    def call(self, model: ir.Model) -> PassResult:
        """The model, of which the unused bodies read nothing; the nodes themselves are left."""
        released = list(_unused(model.graph, set()))
        for body in released:
            for node in body.all_nodes():
                node.resize_inputs(0)
        return PassResult(model, modified=bool(released))


def _unused(graph: ir.Graph, needed: set[ir.Value]) -> Iterator[ir.Graph]:
    needed.update(graph.outputs)
    for node in reversed(graph):
        if needed.isdisjoint(node.outputs):
            yield from bodies(node)
            continue
        needed.update(item for item in node.inputs if item is not None)
        for body in bodies(node):
            yield from _unused(body, needed)
