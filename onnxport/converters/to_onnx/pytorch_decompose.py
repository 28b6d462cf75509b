"""One operator through PyTorch's own decomposition, where the map has no entry for it; a user's own through its Python body."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from torch._decomp import core_aten_decompositions, decomposition_table
from torch._library.custom_ops import OPDEFS
from torch._subclasses import FakeTensor
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils import _pytree as pytree

from onnxport.converters.to_onnx.pytorch_aliases import writes_to_view
from onnxport.tracing.pytorch_nodes import record, recorded

Leaves = Callable[[Sequence[Any], dict[str, Any]], list[Any]]


@cache
def _table() -> dict[Any, Callable[..., Any]]:
    return {**decomposition_table, **core_aten_decompositions()}


def decompose(node: torch.fx.Node, name: str) -> tuple[torch.fx.GraphModule, Leaves] | None:
    """The graph that a call of an operator decomposes into, and what picks its inputs out of the node's arguments.

    The arguments carry traced (fake) tensors; `name` is the node's own operator or the functional form of an in-place one.
    None where torch has no decomposition of it.
    """
    target, functions = _composed(name)
    if not functions:
        return None
    traced = pytree.tree_map_only(torch.fx.Node, _seen, (list(node.args), dict(node.kwargs)))
    flat, spec = pytree.tree_flatten(traced)
    varying = (torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool)
    dynamic = [i for i, item in enumerate(flat) if isinstance(item, varying)]

    def calling(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*leaves: Any) -> Any:
            items = list(flat)
            for index, leaf in zip(dynamic, leaves, strict=True):
                items[index] = leaf
            args, kwargs = pytree.tree_unflatten(items, spec)
            result = function(*args, **kwargs)
            return list(result) if isinstance(result, (list, tuple)) else [result]

        return call

    operands = [flat[i] for i in dynamic]
    before, decided = _fixed(operands), _conditions(operands)
    # Before dispatch the parts stay whole, but there some composite operators trace as themselves.
    # What vectorises is written out behind dispatch alone.
    orders = (False,) if "::flex" in name else (True, False)
    tries = (_traced(calling(item), operands, target, pre_dispatch=order) for item in functions for order in orders)
    module = next((item for item in tries if item is not None), None)
    if module is None or _fixed(operands) != before:  # it holds for one size of a dynamic dimension
        return None
    if (
        target is not None and _python_body(target) and _conditions(operands) != decided
    ):  # a body in Python that asks for sizes
        return None
    places, _ = pytree.tree_flatten_with_path((list(node.args), dict(node.kwargs)))
    paths = [places[i][0] for i in dynamic]
    return module, lambda args, kwargs: [pytree.key_get((args, kwargs), path) for path in paths]


def _seen(node: torch.fx.Node) -> Any:
    """What stands for an argument: a graph that the operator calls, or what was traced."""
    if node.op == "get_attr":
        item = getattr(node.graph.owning_module, str(node.target), None)
        if isinstance(item, torch.nn.Module):
            return item
    return recorded(node)


def _composed(name: str) -> tuple[Any, list[Callable[..., Any]]]:
    """The operator called `name`, and what it is composed of, in torch's own forms."""
    if name == "higher_order::flex_attention":
        from torch._higher_order_ops.flex_attention import flex_attention, math_attention

        return flex_attention, [math_attention]
    target = _overload(name)
    return target, [] if target is None else _decompositions(target)


def _traced(
    call: Callable[..., Any], operands: list[Any], target: Any, *, pre_dispatch: bool
) -> torch.fx.GraphModule | None:
    """The graph of `call`; None where tracing it fails, or leaves `target` as it is."""
    try:
        with torch.no_grad():
            module = make_fx(call, pre_dispatch=pre_dispatch)(*operands)
            if any(writes_to_view(node) for node in module.graph.nodes):
                _record_what_shares_memory(module, operands)
    except Exception:  # decompositions refuse some arguments with errors of every kind
        return None
    whole = any(item.op == "call_function" and item.target is target for item in module.graph.nodes)
    return None if whole else module


def _record_what_shares_memory(module: torch.fx.GraphModule, operands: Sequence[Any]) -> None:
    """Records the results of a run on the traced operands, of which views share their tensor's memory; make_fx records copies."""

    class Recorder(torch.fx.Interpreter):
        def run_node(self, n: torch.fx.Node) -> Any:
            result = super().run_node(n)
            if n.op == "call_function":
                record(n, result)
            return result

    mode = next(item.fake_mode for item in operands if isinstance(item, FakeTensor))
    with mode:
        Recorder(module).run(*operands)


def _fixed(operands: Sequence[Any]) -> int:
    """How many symbols of dynamic dimensions stand for another one or a number by now."""
    symbols = _symbols(operands)
    return len(symbols.replacements) if symbols is not None else 0


def _conditions(operands: Sequence[Any]) -> int:
    """How many conditions on dynamic dimensions have been asked for by now."""
    symbols = _symbols(operands)
    return len(symbols.guards) if symbols is not None else 0


def _symbols(operands: Sequence[Any]) -> ShapeEnv | None:
    modes = (getattr(item, "fake_mode", None) or getattr(item, "node", None) for item in operands)  # a size has a node
    return next((env for mode in modes if (env := getattr(mode, "shape_env", None)) is not None), None)


def _overload(name: str) -> Any:
    """The overload called `name`."""
    namespace, _, rest = name.partition("::")
    base, _, overload = rest.partition(".")
    packet = getattr(getattr(torch.ops, namespace), base, None)
    return getattr(packet, overload or "default", None) if packet is not None else None


def _decompositions(target: Any) -> list[Callable[..., Any]]:
    functions = [_OWN.get(target), _table().get(target)]
    try:
        if target._can_decompose():
            functions.insert(0, target.decompose)
    except RuntimeError:  # operators of TorchScript alone, which the dispatcher does not know
        return []
    if (body := _python_body(target)) is not None:
        functions.append(body)
    return [item for item in functions if item is not None]


def _python_body(target: Any) -> Callable[..., Any] | None:
    """What an operator of a user's ``torch.library.custom_op`` does on a CPU; None for any other operator."""
    known = OPDEFS.get(target.name())
    bodies = known._backend_fns if known is not None else {}
    body = bodies.get("cpu", bodies.get(None))
    return None if body is None else inspect.unwrap(body)


def _pdist_backward(grad: torch.Tensor, x: torch.Tensor, p: float, distances: torch.Tensor) -> torch.Tensor:
    """The gradient of the distances of all pairs of rows, 0 where a distance is 0."""
    first, second = torch.triu_indices(x.shape[0], x.shape[0], 1)
    gap = x[first] - x[second]
    length = distances.unsqueeze(1)
    factor = grad.unsqueeze(1) / torch.where(length == 0, 1.0, length) ** (p - 1)
    part = torch.where(length == 0, 0.0, torch.sign(gap) * gap.abs() ** (p - 1) * factor)
    return torch.zeros_like(x).index_add(0, first, part).index_add(0, second, -part)


# What torch has no decomposition of.
_OWN: dict[Any, Callable[..., Any]] = {torch.ops.aten._pdist_backward.default: _pdist_backward}
