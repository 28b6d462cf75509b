"""Models that differentiate or vectorise while they run: `torch.func.grad`, `vmap`, `jacrev`, `torch.autograd.grad`.

torch.export keeps such transforms as calls that nothing else understands, or fails on them. Here the model is traced once more by
make_fx, behind them: what is left is a graph of plain operators, which stands in for the module's forward.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch.export import ExportedProgram
from torch.func import functional_call
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from onnxport.tracing.pytorch_inputs import Call
from onnxport.tracing.pytorch_modules import with_forward

# Where torch's transforms live; a trace that fails there, or holds calls of these, needs this form.
_FILES = (
    "_functorch/eager_transforms.py _functorch/vmap.py _functorch/apis.py _functorch/predispatch.py "
    "torch/autograd/__init__.py autograd/functional.py autograd/forward_ad.py"
).split()
_LEFT_OVER = "fake tensor in the exported program constant's list"  # what a gradient was asked for
_MODULES = ("torch._functorch.predispatch", "torch._functorch.vmap")


class HoldsTransforms(Exception):
    """A traced program calls a transform."""


def check_plain(program: ExportedProgram) -> None:
    """Refuses a traced program that calls a transform.

    Raises:
        HoldsTransforms: it does.
    """
    # A transform within `enable_grad`, as torch.func's own run, stands in the body of that block.
    graphs = [part.graph for part in program.graph_module.modules() if isinstance(part, torch.fx.GraphModule)]
    targets = [node.target for graph in graphs for node in graph.nodes if node.op == "call_function"]
    if any(getattr(target, "__module__", None) in _MODULES for target in targets):
        raise HoldsTransforms("torch.func's transforms can't be written as plain operators")


def failed_in_transform(error: BaseException | None) -> bool:
    """Whether an error, or one that led to it, comes from torch's transforms."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, HoldsTransforms) or _LEFT_OVER in str(error):
            return True
        seen.add(id(error))
        frame = error.__traceback__
        while frame is not None:
            if frame.tb_frame.f_code.co_filename.replace("\\", "/").endswith(tuple(_FILES)):
                return True
            frame = frame.tb_next
        error = error.__cause__ or error.__context__
    return False


class _written_out(TorchFunctionMode):
    """While it is active, flex_attention, whose functions torch vectorises, is the formula that it stands for."""

    def __torch_function__(self, func: Any, types: object, args: Any = (), kwargs: dict[str, Any] | None = None) -> Any:
        """Passes every other call on."""
        from torch._higher_order_ops.flex_attention import flex_attention, math_attention

        return (math_attention if func is flex_attention else func)(*args, **(kwargs or {}))


@contextmanager
def _uncompiled() -> Iterator[None]:
    """Parts that the model compiles, as transformers does flex_attention's mask, run as they are written."""
    with torch._dynamo.config.patch(error_on_nested_fx_trace=False), torch.compiler.set_stance("force_eager"):
        yield


def without_transforms(call: Call, mode: Literal["symbolic", "real"]) -> Call:
    """The call of a module of the same parameters that computes by plain operators; `mode` real holds for its sizes alone."""
    module = call.module
    state = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    flat, spec = pytree.tree_flatten((call.args, call.kwargs))
    places = [i for i, item in enumerate(flat) if isinstance(item, torch.Tensor)]
    results: list[Any] = []

    def plain(weights: list[torch.Tensor], tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        leaves = list(flat)
        for place, tensor in zip(places, tensors, strict=True):
            leaves[place] = tensor
        args, kwargs = pytree.tree_unflatten(leaves, spec)
        outcome = functional_call(module, dict(zip(state, weights, strict=True)), args, kwargs)
        results[:] = pytree.tree_flatten(outcome)
        return [item.detach() for item in results[0] if isinstance(item, torch.Tensor)]

    weights = [item.detach() for item in state.values()]
    tensors = [flat[i].detach() for i in places]
    with torch.enable_grad(), _uncompiled(), _written_out():
        graph = make_fx(plain, tracing_mode=mode, _allow_non_fake_inputs=True)(weights, tensors)
    if graph.graph.eliminate_dead_code():  # jvp asks of each tangent whether it has the storage of its tensor
        graph.recompile()
    leaves, result_spec = results

    def forward(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        own = {**dict(self.named_parameters()), **dict(self.named_buffers())}
        given = [item for item in pytree.tree_leaves((args, kwargs)) if isinstance(item, torch.Tensor)]
        outputs = iter(graph([own[name] for name in state], given))
        filled = [next(outputs) if isinstance(item, torch.Tensor) else item for item in leaves]
        return pytree.tree_unflatten(filled, result_spec)

    signature = inspect.signature(module.forward)
    return Call(with_forward(module, types.MethodType(forward, module), signature), call.args, call.kwargs)
