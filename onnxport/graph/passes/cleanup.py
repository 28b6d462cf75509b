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
    # Nodes of different operators or operands are not equal, unless an identity alone tells their operands apart; those in bodies
    # are not compared.
    forms = {
        (node.op_type, node.domain, *(() if "Identity" in kinds else map(id, node.inputs))) for node in model.graph
    }
    repeated = len(forms) < len(model.graph)
    passes: list[InPlacePass] = [RemoveIdentityPass()] if "Identity" in kinds else []
    passes += [CommonSubexpressionEliminationPass()] if merge and repeated and not kinds & RANDOM else []
    passes += [ReleaseUnusedBodiesPass()] if len(nodes) > len(model.graph) else []
    if passes or len(nodes) > len(model.graph) or model.functions or not _is_lean(model.graph):
        passes += [RemoveUnusedNodesPass()]
    if passes or not model.graph.opset_imports.keys() <= {"", *(node.domain for node in nodes)}:
        passes += [RemoveUnusedOpsetsPass()]
    return Sequential(*passes)(model).model if passes else model


def _is_lean(graph: ir.Graph) -> bool:
    """Whether onnx-ir's pass for unused nodes would leave a graph as it is; most that are written are so, and it takes longer."""
    results = frozenset(graph.outputs)
    for node in graph:
        if (node.inputs and node.inputs[-1] is None) or "training_mode" in node.attributes:
            return False
        if not all(value.uses() or value in results for value in node.outputs):
            return False
    return all(value.uses() for value in graph.initializers.values())
