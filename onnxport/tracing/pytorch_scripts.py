"""TorchScript: a scripted or traced module as a module of plain operators, which torch.export takes."""

from __future__ import annotations

import inspect
import io
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch
from torch.fx.node import map_arg

from onnxport.errors import TracingError, first_line
from onnxport.tracing.pytorch_inputs import bind
from onnxport.tracing.pytorch_modules import with_forward


def is_script(model: object) -> bool:
    """Whether a model is a TorchScript module."""
    return isinstance(model, torch.jit.ScriptModule)


def of_script(model: Any, inputs: object, kwargs: Mapping[str, Any] | None) -> torch.nn.Module:
    """A TorchScript module as a module of plain operators, with its parameters, names and defaults.

    The program is read for inputs of these ranks and types; sizes and values are the trace's to follow.

    Raises:
        TracingError: it has an operator or a branch of which PyTorch has no plain form, or no forward.
        InvalidInputError: the inputs do not fit its forward.
    """
    if getattr(model, "forward", None) is None:
        raise TracingError(
            f"the TorchScript module {model.original_name} has no forward of one form.\n"
            "Pass the module that it was scripted from."
        )
    signature = signature_of(model.forward)
    call = bind(with_forward(torch.nn.Module(), lambda *_, **__: None, signature), inputs, kwargs)
    try:
        with warnings.catch_warnings(), _unlogged():
            warnings.simplefilter("ignore")  # of deprecated parts that PyTorch itself uses
            graph = _read(_copied(model), _in_order(signature, *call.args, **call.kwargs))
    except Exception as error:  # whatever PyTorch raises
        raise TracingError(
            f"PyTorch can't read the TorchScript module {model.original_name} as plain operators: {first_line(error)}\n"
            "Pass the module that it was scripted from."
        ) from error
    given = signature.bind(*call.args, **call.kwargs).arguments
    _settle(graph, [None if name in given else item for name, item in signature.parameters.items()])
    graph.train(getattr(model, "training", False))  # a frozen module has no mode
    return with_forward(graph, graph.forward, inspect.Signature([signature.parameters[name] for name in given]))


def _read(model: Any, inputs: tuple[object, ...]) -> torch.fx.GraphModule:
    """PyTorch's reading of a program, without the trace that follows there, which knows no names of dimensions."""
    # PyTorch has no public name for it: a version that moves it must not take the tracing of modules with it.
    from torch._export.converter import TS2EPConverter

    class Reader(TS2EPConverter):
        def retrace_as_exported_program(self, gm: torch.fx.GraphModule, name_to_constant: dict[str, Any]) -> Any:
            """The module that the reading gives, where an exported program of it is expected."""
            return SimpleNamespace(module=gm, state_dict=self.ts_model.state_dict())

    return Reader(model, inputs).convert().module


def _settle(module: torch.fx.GraphModule, left: Sequence[inspect.Parameter | None]) -> None:
    """Puts the defaults of the parameters that are `left` out in their place: torch.export runs the graph, not its forward."""
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    for node, parameter in zip(placeholders, left, strict=True):
        if parameter is not None:
            settled = partial(_instead, node, parameter.default)
            for user in list(node.users):
                user.args, user.kwargs = map_arg(user.args, settled), map_arg(user.kwargs, settled)
            module.graph.erase_node(node)
    for node in module.graph.nodes:
        if node.target is torch.cond and isinstance(node.args[0], bool):  # of which PyTorch would warn
            way, other, operands = node.args[1:4]
            node.target, node.args = _called, (way if node.args[0] else other, *operands)
    module.recompile()


def _called(module: torch.nn.Module, *operands: object) -> Any:
    return module(*operands)


def _instead(node: torch.fx.Node, value: Any, item: torch.fx.Node) -> Any:
    return value if item is node else item


@contextmanager
def _unlogged() -> Iterator[None]:
    """Without what PyTorch logs of a program for those who debug its reading."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


def signature_of(forward: Any) -> inspect.Signature:
    """The parameters of a method of TorchScript, which keeps them in a schema of its own."""
    kind, empty = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.empty
    return inspect.Signature(
        [
            inspect.Parameter(item.name, kind, default=item.default_value if item.has_default_value() else empty)
            for item in forward.schema.arguments
            if item.name != "self"
        ]
    )


def _in_order(signature: inspect.Signature, *args: object, **named: object) -> tuple[object, ...]:
    """The arguments of a call by position, those by default among them."""
    bound = signature.bind(*args, **named)
    bound.apply_defaults()
    return bound.args


def _copied(model: Any) -> Any:
    """A copy by TorchScript's own means, since the reading changes the program."""
    buffer = io.BytesIO()
    torch.jit.save(model, buffer)
    buffer.seek(0)
    return torch.jit.load(buffer)
