"""NumPy's functions in a module: Dynamo writes torch's in their place, whose results are not always of NumPy's types."""

from __future__ import annotations

import re

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind
from torch.utils import _pytree as pytree

from onnxport.tracing import pytorch_inputs
from onnxport.tracing.pytorch_inputs import Call
from onnxport.tracing.pytorch_nodes import function_stack, recorded, stack_trace

_WRAPPED = "wrapped_"  # before the name of a NumPy function in Dynamo's record of a node


class OtherThanNumpyError(Exception):
    """A program computes with torch's functions in the place of NumPy's, and gives another type than the module.

    Attributes:
        place: file and line of the first of NumPy's functions.
    """

    def __init__(self, message: str, place: tuple[str, int] | None) -> None:
        super().__init__(message)
        self.place = place


def check_types(program: ExportedProgram, call: Call) -> None:
    """Refuses a program with NumPy's functions whose outputs are of other types than those of the module itself.

    Raises:
        OtherThanNumpyError: an output is.
    """
    functions = {name: node for node in program.graph.nodes if (name := _numpy_function(node))}
    if not functions:
        return
    own = pytorch_inputs.apart(call)
    with torch.no_grad():
        results = [item for item in pytree.tree_leaves(own.module(*own.args, **own.kwargs)) if torch.is_tensor(item)]
    specs, leaves = program.graph_signature.output_specs, pytree.tree_leaves(program.graph.output_node().args[0])
    given = [leaf for spec, leaf in zip(specs, leaves, strict=False) if spec.kind is OutputKind.USER_OUTPUT]
    traced = [value for leaf in given if isinstance(leaf, torch.fx.Node) and torch.is_tensor(value := recorded(leaf))]
    for expected, value in zip(results, traced, strict=False):
        if expected.dtype != value.dtype:
            names, types = ", ".join(list(functions)[:5]), [str(item.dtype)[6:] for item in (value, expected)]
            why = f"torch's functions in the place of NumPy's ({names}) give {types[0]}, where the module gives {types[1]}"
            raise OtherThanNumpyError(why, _place(next(iter(functions.values()))))


def _numpy_function(node: torch.fx.Node) -> str:
    """The NumPy function that a node stands for; empty where it stands for none."""
    stack = function_stack(node) or [("", None)]
    name = str(stack[-1][0])
    called = "function" in str(stack[-1][1])  # methods and operators of arrays are no functions
    return re.sub(r"_\d+$", "", name.removeprefix(_WRAPPED)) if called and name.startswith(_WRAPPED) else ""


def _place(node: torch.fx.Node) -> tuple[str, int] | None:
    places = re.findall(r'File "(.*?)", line (\d+)', stack_trace(node))
    return (places[-1][0], int(places[-1][1])) if places else None
