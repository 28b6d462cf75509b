"""What every written graph goes through before it leaves."""

from __future__ import annotations

import onnx_ir as ir
from onnx_ir.passes import Sequential
from onnx_ir.passes.common import CommonSubexpressionEliminationPass, RemoveUnusedNodesPass, RemoveUnusedOpsetsPass

from onnxport.graph.bodies import every_node
from onnxport.graph.passes.identity import RemoveIdentityPass
from onnxport.graph.passes.unused import ReleaseUnusedBodiesPass

# Random operators that onnx-ir's subexpression pass does not know: two equal nodes draw two different values.
RANDOM = frozenset({"Bernoulli", "Dropout"})


def clean(model: ir.Model, *, merge: bool = True) -> ir.Model:
    """The model without unused nodes, needless identities and, with `merge`, repeated subexpressions; changed in place."""
    random = any(node.op_type in RANDOM for node in every_node(model.graph))
    passes = Sequential(
        RemoveIdentityPass(),
        *((CommonSubexpressionEliminationPass(),) if merge and not random else ()),
        ReleaseUnusedBodiesPass(),
        RemoveUnusedNodesPass(),
        RemoveUnusedOpsetsPass(),
    )
    return passes(model).model
