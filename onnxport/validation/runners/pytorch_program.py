"""Example inputs: names of their parts, and those that a `torch.export.ExportedProgram` was exported for, by name or in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.utils import _pytree as pytree

from onnxport.errors import InvalidInputError
from onnxport.graph.cache_names import is_cache, tensor_path


def fitted_to(
    program: ExportedProgram, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments as the program takes them: what it was exported with by position comes so, however it is given.

    Raises:
        InvalidInputError: names, number, sizes or types are others than the program was exported for.
    """
    by_place, by_name = program.call_spec.in_spec.children()
    recorded = program.module_call_graph[0].signature
    names = list(getattr(recorded, "forward_arg_names", None) or ())[: by_place.num_children]
    keywords = list(by_name.context or ())
    rest = names[len(args) :]
    left = set(kwargs) - set(rest)
    if len(args) > by_place.num_children or (names and (not set(rest) <= set(kwargs) or left != set(keywords))):
        given = ", ".join([f"{len(args)} by position"] * bool(args) + [repr(name) for name in kwargs])
        raise InvalidInputError(
            f"the program was exported for the inputs {', '.join([*names, *keywords])}; given: {given or 'none'}"
        )
    placed = (*args, *(kwargs[name] for name in rest))
    named = {name: item for name, item in kwargs.items() if name not in rest}
    _check_leaves(program, placed, named)
    return placed, named


def _check_leaves(program: ExportedProgram, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Refuses tensors of a fixed size or a type that the program was not exported for."""
    nodes = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    inputs = [item.arg.name for item in program.graph_signature.input_specs if item.kind is InputKind.USER_INPUT]
    flat, _ = pytree.tree_flatten((args, dict(kwargs)))
    if len(flat) != len(inputs):
        raise InvalidInputError(f"the program was exported for {len(inputs)} inputs, {len(flat)} are given")
    for name, leaf in zip(inputs, flat, strict=True):
        expected = nodes.get(name)
        if not isinstance(expected, torch.Tensor) or not hasattr(leaf, "shape") or not hasattr(leaf, "dtype"):
            continue
        kind = str(leaf.dtype).removeprefix("torch.")
        wanted = str(expected.dtype).removeprefix("torch.")
        sizes = zip(expected.shape, leaf.shape, strict=False)
        fixed = all(not isinstance(size, int) or size == given for size, given in sizes)
        if kind == wanted and fixed and len(expected.shape) == len(leaf.shape):
            continue
        declared = f"{wanted}[{', '.join(str(size) if isinstance(size, int) else 'any' for size in expected.shape)}]"
        way_out = "" if fixed else ", or export it anew with dynamic_shapes="
        raise InvalidInputError(
            f"{name!r} is {kind}{list(leaf.shape)}, and the program was exported for {declared}: pass such a tensor{way_out}"
        )


def argument_name(
    path: tuple[str, ...], parameters: Sequence[str], args: Sequence[object], kwargs: Mapping[str, object]
) -> str:
    """``x``, ``past.0.key``: the path of an argument, a positional one under its parameter's name."""
    kind, root, *rest = path
    if kind == "0":
        index = int(root)
        root, argument = parameters[index] if index < len(parameters) else f"input_{index}", args[index]
    else:
        argument = kwargs[root]
    name = ".".join((root, *rest))
    return tensor_path(name) if is_cache(type(argument)) else name
