"""What the tracer recorded about the nodes of a program."""

from __future__ import annotations

from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.utils import _pytree as pytree


def _record(node: torch.fx.Node) -> dict[str, Any]:
    """All that is recorded about a node: what torch's tracer knows of it, and what is noted here."""
    return node.meta


def recorded(node: torch.fx.Node) -> Any:
    """A node's result as the tracer saw it: a fake tensor, a number or a nest of them; None where it saw none."""
    return _record(node).get("val")


def computed_numbers(node: torch.fx.Node) -> list[str]:
    """The parameters of an operator whose numbers the graph computes."""
    schema = getattr(node.target, "_schema", None)
    given = zip([item.name for item in schema.arguments], node.args) if schema is not None else ()
    names = []
    for name, value in (*given, *node.kwargs.items()):
        parts = [recorded(item) for item in pytree.tree_leaves(value) if isinstance(item, torch.fx.Node)]
        names += [name] if any(isinstance(part, (torch.SymInt, torch.SymFloat)) for part in parts) else []
    return names


def record(node: torch.fx.Node, value: object) -> None:
    """Notes what a new node's result is, as the tracer would."""
    _record(node)["val"] = value


def record_like(node: torch.fx.Node, other: torch.fx.Node) -> None:
    """Gives a new node the record of another, except for where that one came from."""
    kept = {key: item for key, item in _record(other).items() if key != "from_node"}
    _record(node).clear()
    _record(node).update(kept)


def module_stack(node: torch.fx.Node) -> dict[str, Any]:
    """The modules whose calls a node lies in, the outermost first: path and class by key."""
    return _record(node).get("nn_module_stack") or {}


def function_stack(node: torch.fx.Node) -> list[tuple[str, Any]]:
    """The functions whose calls a node lies in by Dynamo's record, the outermost first: name and kind; empty without one."""
    return _record(node).get("source_fn_stack") or []


def stack_trace(node: torch.fx.Node) -> str:
    """Python's stack at the call that a node comes from, as text; empty where torch kept none."""
    return _record(node).get("stack_trace") or ""


_CALLED_BY = "onnxport_called_by"


def record_call(node: torch.fx.Node, layer: str, file: str, line: int | None) -> None:
    """Notes which layer, and which line of which file, a node comes from, where torch's own record is without them."""
    _record(node).setdefault(_CALLED_BY, (layer, file, line))


def recorded_call(node: torch.fx.Node) -> tuple[str, str, int | None]:
    """What `record_call` noted; empty where nothing was."""
    called: tuple[str, str, int | None] = _record(node).get(_CALLED_BY) or ("", "", None)
    return called


def is_dynamic(size: object) -> bool:
    """Whether a traced size varies; tracing may have fixed a symbol to a number."""
    return isinstance(size, torch.SymInt) and not size.node.expr.is_number


def recorded_inputs(program: ExportedProgram) -> dict[str, Any]:
    """The tracer's inputs by the names of their nodes; parameters and buffers are among them."""
    return {node.name: recorded(node) for node in program.graph.nodes if node.op == "placeholder"}


def lies_in_order(node: object) -> bool:
    """Whether the elements of a node's tensor lie in memory in their order, and nothing else lies there."""
    tensor = _tensor(node)
    return tensor is not None and storage_order(node) == list(range(tensor.dim()))


def storage_order(node: object) -> list[int] | None:
    """The axes of a node's tensor as they lie in memory, the outermost first; None where something else lies there too."""
    tensor = _tensor(node)
    if tensor is None:
        return None
    inner: list[int] = []  # the innermost first
    expected: Any = 1
    waiting = list(reversed(range(tensor.dim())))
    while waiting:
        fits = (axis for axis in waiting if statically_known_true(tensor.stride(axis) == expected))
        ones = (axis for axis in waiting[:1] if statically_known_true(tensor.shape[axis] == 1))
        axis = next(ones, None)
        axis = next(fits, None) if axis is None else axis
        if axis is None:
            return None
        waiting.remove(axis)
        inner.append(axis)
        expected = expected * tensor.shape[axis]
    whole = statically_known_true(tensor.untyped_storage().nbytes() == expected * tensor.itemsize)
    return inner[::-1] if whole and statically_known_true(tensor.storage_offset() == 0) else None


def _tensor(node: object) -> torch.Tensor | None:
    value = recorded(node) if isinstance(node, torch.fx.Node) else node
    return value if isinstance(value, torch.Tensor) else None


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
