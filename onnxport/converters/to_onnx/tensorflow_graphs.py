"""Walks over the nodes of TensorFlow graphs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from onnxport.graph.walks import operands_first


def skip_identities(tensor: Any) -> Any:
    """The tensor that `tensor` is the identity of."""
    while tensor.op.type == "Identity":
        tensor = tensor.op.inputs[0]
    return tensor


def functions_of(node: Any) -> list[str]:
    """Names of the functions in a node's attributes."""
    result: list[str] = []
    for proto in node.node_def.attr.values() if node.type in _CALLS else ():
        result.extend([proto.func.name] if proto.HasField("func") else [item.name for item in proto.list.func])
    return result


_CALLS = frozenset(
    "PartitionedCall StatefulPartitionedCall If StatelessIf Case StatelessCase While StatelessWhile".split()
)


def ordered(targets: Iterable[Any]) -> list[Any]:
    """The nodes that `targets` are computed from, each after its inputs; control edges do not count."""
    return operands_first((tensor.op for tensor in targets), lambda node: (tensor.op for tensor in node.inputs))


def executed(roots: Iterable[Any]) -> list[Any]:
    """The nodes that run when `roots` run, over data and control edges."""
    seen: dict[int, Any] = {}
    stack = list(roots)
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen[id(node)] = node
        stack.extend(tensor.op for tensor in node.inputs)
        stack.extend(node.control_inputs)
    return list(seen.values())


def writes_state(op_type: str) -> bool:
    """Whether an operator changes a variable, a table or a random generator."""
    prefixes = ("Assign", "ResourceApply", "ResourceSparseApply", "ResourceScatter", "ScatterNdUpdate_")
    return op_type.startswith(prefixes) or op_type in _WRITING


_WRITING = frozenset(
    "LookupTableInsertV2 LookupTableRemoveV2 StackPushV2 StackPopV2 RngReadAndSkip RngSkip StatefulUniform "
    "StatefulStandardNormalV2 StatefulTruncatedNormal".split()
)
