"""Walks over the nodes of TensorFlow graphs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


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
    done: set[int] = set()
    order: list[Any] = []
    stack: list[tuple[Any, bool]] = [(tensor.op, False) for tensor in reversed(list(targets))]
    while stack:
        node, ready = stack.pop()
        if ready:
            order.append(node)
            continue
        if id(node) in done:
            continue
        done.add(id(node))
        stack.append((node, True))
        stack.extend((tensor.op, False) for tensor in reversed(node.inputs) if id(tensor.op) not in done)
    return order


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
    return (
        op_type.startswith(("Assign", "ResourceApply", "ResourceSparseApply", "ResourceScatter", "ScatterNdUpdate_"))
        or op_type in ("LookupTableInsertV2", "LookupTableRemoveV2", "StackPushV2", "StackPopV2")
        or op_type
        in ("RngReadAndSkip", "RngSkip", "StatefulUniform", "StatefulStandardNormalV2", "StatefulTruncatedNormal")
    )
