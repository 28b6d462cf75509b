"""What the tracer recorded about the nodes of a program."""

from __future__ import annotations

from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx.experimental.symbolic_shapes import statically_known_true


def recorded(node: torch.fx.Node) -> Any:
    """A node's result as the tracer saw it: a fake tensor, a number or a nest of them; None where it saw none."""
    return node.meta.get("val")


def is_dynamic(size: object) -> bool:
    """Whether a traced size varies; tracing may have fixed a symbol to a number."""
    return isinstance(size, torch.SymInt) and not size.node.expr.is_number


def recorded_inputs(program: ExportedProgram) -> dict[str, Any]:
    """The tracer's inputs by the names of their nodes; parameters and buffers are among them."""
    return {node.name: recorded(node) for node in program.graph.nodes if node.op == "placeholder"}


def lies_in_order(node: object) -> bool:
    """Whether the elements of a node's tensor lie in memory in their order, and nothing else lies there."""
    tensor = recorded(node) if isinstance(node, torch.fx.Node) else node
    if not isinstance(tensor, torch.Tensor):
        return False
    expected: Any = 1
    for size, stride in zip(reversed(tensor.shape), reversed(tensor.stride()), strict=True):
        if not statically_known_true(size == 1) and not statically_known_true(stride == expected):
            return False
        expected = expected * size
    whole = statically_known_true(tensor.untyped_storage().nbytes() == expected * tensor.itemsize)
    return whole and statically_known_true(tensor.storage_offset() == 0)


def drops_ones(program: ExportedProgram) -> bool:
    """Some squeeze meets a symbolic dimension: at size 1 the model gives another rank than the trace."""
    for node in program.graph.nodes:
        if node.op != "call_function" or "squeeze" not in str(node.target) or "unsqueeze" in str(node.target):
            continue
        shape = recorded(node.args[0]).shape
        axes = node.args[1] if len(node.args) > 1 else range(len(shape))
        axes = [axes] if isinstance(axes, int) else axes
        if any(is_dynamic(shape[axis]) for axis in axes):
            return True
    return False
