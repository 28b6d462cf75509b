"""Nodes of a recorded graph as Python expressions, and the small functions that they call as source of their own."""

from __future__ import annotations

import dis
import inspect
import keyword
import math
import operator
import re
import textwrap
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import fx, nn

from onnxport.errors import UnsupportedOperator
from onnxport.graph.names import numbered

_INFIX = {
    operator.add: "+",
    operator.sub: "-",
    operator.mul: "*",
    operator.truediv: "/",
    operator.floordiv: "//",
}
_IMPORTS = {
    "torch": "import torch",
    "F": "import torch.nn.functional as F",
    "math": "import math",
    "operator": "import operator",
}
_MODULES = {"torch": torch, "F": F, "math": math, "operator": operator}
_BUILT = (int, float, str, bool, type(None), torch.dtype)
_PACKAGE = "onnxport."
_RESERVED = ("self", "nn", "Path", "load", "load_file", "block", "range", "getattr", "slice", "super")


def is_name(text: str) -> bool:
    """Whether a text can be an attribute in the source as it is."""
    return text.isidentifier() and text.isascii() and not keyword.iskeyword(text)


def holder_of(module: nn.Module) -> str:
    """The class of a container without a call: a list or dict of numbered children, or a plain module."""
    names = list(module._modules)
    if not names or module._parameters or module._buffers or not all(name.isdigit() for name in names):
        return "Module"
    return "ModuleList" if names == [str(i) for i in range(len(names))] else "ModuleDict"


def constructor(layer: nn.Module, path: str) -> str:
    """The call that makes a layer of torch like this one.

    Raises:
        UnsupportedOperator: it is none of torch's layers.
    """
    if type(layer).__module__.startswith("torch.nn.modules"):
        more = [layer.extra_repr()]
        weight = next((item for item in layer.parameters() if item.is_floating_point()), None)
        if isinstance(layer, nn.RNN):
            more.append(f"nonlinearity={layer.nonlinearity!r}")
        if isinstance(layer, nn.LayerNorm) and layer.bias is None and "bias=" not in more[0]:
            more.append("bias=False")
        if weight is not None and weight.dtype != torch.float32:
            more.append(f"dtype={weight.dtype}")
        return f"nn.{type(layer).__name__}({', '.join(filter(None, more))})"
    raise UnsupportedOperator(
        f"{path}: {type(layer).__name__}, a branch or loop that values decide, has no plain source"
    )


def tensor(item: torch.Tensor, *, content: bool = False) -> str:
    """A tensor of the same shape and element type, with its content or without."""
    dtype = "" if item.dtype == torch.float32 else f", dtype={item.dtype}"
    if not content:
        return f"torch.empty({tuple(item.shape)}{dtype})"
    numbers = repr(item.tolist())
    numbers = re.sub(r"\b(inf|nan)\b", r"math.\1", numbers)
    return f"torch.tensor({numbers}{dtype or ', dtype=torch.float32'})"


class Expressions:
    """The expressions of one module.

    Attributes:
        called: paths of the layers that its graph calls.
        functions: source of the functions that are none of torch's, by name, each behind those that it calls.
        taken: names of values and functions.
    """

    def __init__(self, module: fx.GraphModule) -> None:
        self._module = module
        self.called = {str(node.target) for node in module.graph.nodes if node.op == "call_module"}
        self.functions: dict[str, str] = {}
        for node in module.graph.nodes:
            if node.op == "call_function" and _is_own(node.target):
                self._own(node.target)
        reserved = {*_IMPORTS, *self.functions, *_RESERVED}
        self.taken: set[str | None] = {*reserved, *(node.name for node in module.graph.nodes)}
        clashing = [node for node in module.graph.nodes if node.name in reserved]
        self._other_names = {node: numbered(f"{node.name}_of", self.taken) for node in clashing}

    def name(self, node: fx.Node) -> str:
        """The variable of a value: torch.fx's name, where no function of the source has it."""
        return self._other_names.get(node, node.name)

    def imports(self, text: str) -> Iterator[str]:
        """The import lines of a source."""
        yield from sorted(
            line
            for name, line in _IMPORTS.items()
            if name != "F" and name != "torch" and re.search(rf"\b{name}\.", text)
        )
        yield "from pathlib import Path\n"
        yield "import torch"
        if re.search(r"\bF\.", text):
            yield _IMPORTS["F"]
        yield "from safetensors.torch import load_file"
        yield "from torch import nn"

    def held(self, node: fx.Node, root: str) -> str:
        """A parameter, buffer or constant in a class whose paths begin with `root`."""
        return self.attribute(str(node.target), root)

    def attribute(self, target: str, root: str = "") -> str:
        """What stands at a path, in a class whose paths begin with `root`."""
        module, expression = self._module.get_submodule(root), "self"
        names = (target.removeprefix(f"{root}.") if root else target).split(".")
        for name in names:
            kind = holder_of(module) if module is not self._module else "Module"
            if kind == "ModuleList":
                expression = f"{expression}[{name}]"
            elif kind == "ModuleDict":
                expression = f"{expression}[{name!r}]"
            else:
                expression = f"{expression}.{name}" if is_name(name) else f"getattr({expression}, {name!r})"
            module = module._modules.get(name) or module
        return expression

    def argument(self, item: Any, named: Callable[[fx.Node], str]) -> str:
        """An argument."""
        if isinstance(item, fx.Node):
            return named(item)
        if isinstance(item, (tuple, list)):
            parts = ", ".join(self.argument(part, named) for part in item)
            return f"[{parts}]" if isinstance(item, list) else f"({parts}{',' if len(item) == 1 else ''})"
        if isinstance(item, slice):
            parts = ", ".join(self.argument(part, named) for part in (item.start, item.stop, item.step))
            return f"slice({parts})"
        if isinstance(item, float) and not math.isfinite(item):
            return f"math.{'nan' if math.isnan(item) else 'inf'}" if not item < 0 else "-math.inf"
        if item is Ellipsis:
            return "..."
        if isinstance(item, _BUILT):
            return repr(item)
        raise UnsupportedOperator(f"an argument of type {type(item).__name__} has no plain source")

    def of(self, node: fx.Node, named: Callable[[fx.Node], str], root: str) -> str:
        """The expression of a node."""
        args = [self.argument(item, named) for item in node.args]
        words = [f"{key}={self.argument(item, named)}" for key, item in node.kwargs.items()]
        if node.op == "call_module":
            return f"{self.attribute(str(node.target), root)}({', '.join(args)})"
        if node.op == "call_method":
            return f"{args[0]}.{node.target}({', '.join((*args[1:], *words))})"
        function: Any = node.target
        if function in _INFIX:
            return f"{args[0]} {_INFIX[function]} {args[1]}"
        if function is operator.neg:
            return f"-{args[0]}"
        if function is operator.getitem:
            return f"{args[0]}[{self._index(node.args[1], named)}]"
        if function is getattr and isinstance(node.args[1], str) and node.args[1].isidentifier():
            return f"{args[0]}.{node.args[1]}"
        name = str(getattr(function, "__name__", ""))
        if function is not None and getattr(torch.Tensor, name, None) is function:
            return f"{args[0]}.{name}({', '.join((*args[1:], *words))})"
        return f"{self._function(function)}({', '.join((*args, *words))})"

    def _index(self, item: Any, named: Callable[[fx.Node], str]) -> str:
        if isinstance(item, tuple) and item:
            return ", ".join(self._index(part, named) for part in item) + ("," if len(item) == 1 else "")
        if isinstance(item, slice):
            start, stop, step = (
                "" if x is None else self.argument(x, named) for x in (item.start, item.stop, item.step)
            )
            return f"{start}:{stop}" + (f":{step}" if step else "")
        return self.argument(item, named)

    def _function(self, function: Any) -> str:
        name = getattr(function, "__name__", "")
        for prefix, room in (("F", F), ("torch", torch), ("operator", operator), ("math", math)):
            if getattr(room, name, None) is function:
                return f"{prefix}.{name}"
        if _is_own(function):
            return name
        raise UnsupportedOperator(f"{name or function!r} has no plain source")

    def _own(self, function: types.FunctionType) -> None:
        """Takes over the source of a function of the package, and of what it calls."""
        name = function.__name__
        if name in self.functions:
            return
        for used in _names(function.__code__):
            value = function.__globals__.get(used, _MODULES)
            if value is _MODULES or value is _MODULES.get(used):
                continue
            if _is_own(value):
                self._own(value)
            elif _is_plain(value):
                self.functions[used] = f"{used} = {value!r}\n"
            else:
                raise UnsupportedOperator(f"{name} uses {used}, which has no plain source")
        self.functions[name] = textwrap.dedent(inspect.getsource(function))


def _is_plain(value: object) -> bool:
    """Whether the text of a value is an expression that gives it again."""
    if isinstance(value, dict):
        return all(_is_plain(item) for pair in value.items() for item in pair)
    return all(map(_is_plain, value)) if isinstance(value, (tuple, list)) else isinstance(value, _BUILT)


def _is_own(function: object) -> bool:
    return isinstance(function, types.FunctionType) and function.__module__.startswith(_PACKAGE)


def _names(code: types.CodeType) -> Iterator[str]:
    """The globals that a function reads; its ``co_names`` are those of attributes too."""
    yield from (str(item.argval) for item in dis.get_instructions(code) if item.opname == "LOAD_GLOBAL")
    for item in code.co_consts:
        if isinstance(item, types.CodeType):
            yield from _names(item)
