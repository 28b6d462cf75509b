"""What every written graph goes through before it leaves."""

from __future__ import annotations

import onnx_ir as ir
from onnx_ir.passes import InPlacePass, Sequential
from onnx_ir.passes.common import CommonSubexpressionEliminationPass, RemoveUnusedNodesPass, RemoveUnusedOpsetsPass

from onnxport.graph.bodies import every_node
from onnxport.graph.passes.identity import RemoveIdentityPass
from onnxport.graph.passes.unused import ReleaseUnusedBodiesPass

# Random operators that onnx-ir's subexpression pass does not know: two equal nodes draw two different values.
RANDOM = frozenset({"Bernoulli", "Dropout"})


def clean(model: ir.Model, *, merge: bool = True) -> ir.Model:
    """The model without unused nodes, needless identities and, with `merge`, repeated subexpressions; changed in place."""
    nodes = list(every_node(model.graph))
    kinds = {node.op_type for node in nodes}
    # Of different operators no two nodes are equal; those in bodies are not compared.
    repeated = len({node.op_type for node in model.graph}) < len(model.graph)
    passes: list[InPlacePass] = [RemoveIdentityPass()] if "Identity" in kinds else []
    passes += [CommonSubexpressionEliminationPass()] if merge and repeated and not kinds & RANDOM else []
    passes += [ReleaseUnusedBodiesPass()] if len(nodes) > len(model.graph) else []
    return Sequential(*passes, RemoveUnusedNodesPass(), RemoveUnusedOpsetsPass())(model).model
