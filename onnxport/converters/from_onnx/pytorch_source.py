"""An imported module as a plain PyTorch file: classes with layers and a ``forward``, weights beside them, and no onnxport.

Blocks of a repeated container (``encoder.layer.0``, ``encoder.layer.1``) that compute the same become one class. No text of the
file stands in the source but as a quoted string, or as an attribute whose name is a Python identifier.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import fx, nn

from onnxport.converters.from_onnx.pytorch_blocks import Block, fold, is_body
from onnxport.converters.from_onnx.pytorch_expressions import Expressions, constructor, holder_of, is_name, tensor
from onnxport.graph.atomic import atomic_file
from onnxport.graph.names import numbered

_INLINE = 16  # elements of a constant that stands in the source
_HEAD = '''"""A model as plain PyTorch, written by onnxport; `load` reads the weights that stand beside this file."""

from __future__ import annotations

{imports}


'''
_LOAD = '''

def load(path: str | Path = Path(__file__).with_name({weights!r})) -> {title}:
    """The model with its weights, in eval mode."""
    model = {title}()
    model.load_state_dict(load_file(path))
    return model.eval()
'''


def write(module: fx.GraphModule, path: str | os.PathLike[str]) -> None:
    """Writes ``net.py`` and, beside it, ``net.safetensors``.

    Raises:
        UnsupportedOperator: the module calls what is no plain PyTorch: a branch or loop that its values decide, strings.
    """
    from safetensors.torch import save as serialized

    place = Path(path)
    weights = place.with_suffix(".safetensors")
    text, stored = source(module, weights.name)
    with atomic_file(weights) as file:
        file.write(serialized({name: item.detach().contiguous().clone() for name, item in stored.items()}))
    with atomic_file(place) as file:
        file.write(text.encode())


def source(module: fx.GraphModule, weights: str) -> tuple[str, dict[str, torch.Tensor]]:
    """The text of the file, and the tensors that its `load` reads from `weights`."""
    blocks = fold(module)
    expressions = Expressions(module)
    title = type(module).__name__ if is_name(type(module).__name__) else "Model"
    title = f"{title}Model" if title in expressions.taken else title
    classes: dict[str, str] = {}  # source of a class by its name
    names: dict[tuple[Any, ...], str] = {}
    for block in blocks:
        if block.signature not in names:
            names[block.signature] = _class_name(block.path, {title, *names.values()})
            classes[names[block.signature]] = _block_class(module, block, names[block.signature], expressions)
    main = _Writer(module, expressions, {block.path: names[block.signature] for block in blocks})
    body = main.forward(blocks)
    init = main.init()
    text = "\n\n".join([*classes.values(), _class(title, init, main.arguments, body)])
    text = "".join(f"{item}\n\n" for item in expressions.functions.values()) + text
    imports = "\n".join(expressions.imports(text))
    whole = _HEAD.format(imports=imports) + text + _LOAD.format(title=title, weights=weights)
    return whole, {**module.state_dict(), **main.stored}


def _class_name(path: str, taken: Collection[str]) -> str:
    word = next((word for word in reversed(path.split(".")) if not word.isdigit()), "")
    base = "".join(
        part.capitalize() for part in "".join(c if c.isalnum() and c.isascii() else " " for c in word).split()
    )
    base = base if base[:1].isalpha() else f"Block{base}"
    return numbered(f"{base}Block", set(taken)) if f"{base}Block" in taken else f"{base}Block"


def _class(name: str, init: Sequence[str], arguments: Sequence[str], body: Sequence[str]) -> str:
    lines = [f"class {name}(nn.Module):", "    def __init__(self) -> None:", "        super().__init__()"]
    lines += [f"        {line}" for line in init]
    lines += ["", f"    def forward({', '.join(('self', *arguments))}):"]
    lines += [f"        {line}" for line in body]
    return "\n".join(lines) + "\n"


def _block_class(module: fx.GraphModule, block: Block, name: str, expressions: Expressions) -> str:
    inside = _Writer(module, expressions, {}, root=block.path)
    names = {node: f"input_{i}" if i else "x" for i, node in enumerate(block.inputs)}
    body = inside.statements(block.nodes, dict(names))
    body.append(f"return {', '.join(inside.named(node) for node in block.outputs)}")
    return _class(name, inside.init(), list(names.values()), body)


@dataclass
class _Loop:
    """Blocks of one container, each of which takes what the one before it gives."""

    blocks: list[Block]
    place: int  # which input of a block that is


class _Writer:
    """The source of one class: of the whole module, or of a block whose paths begin with `root`.

    Attributes:
        stored: large constants, which the weights hold under their names.
        arguments: of its ``forward``.
    """

    def __init__(
        self, module: fx.GraphModule, expressions: Expressions, blocks: dict[str, str], root: str = ""
    ) -> None:
        self.stored: dict[str, torch.Tensor] = {}
        self.arguments: list[str] = []
        self._module, self._expressions, self._blocks, self._root = module, expressions, blocks, root
        self._names: dict[fx.Node, str] = {}

    def init(self) -> list[str]:
        """The lines of ``__init__`` behind the first."""
        held = self._module.get_submodule(self._root)
        lines = list(self._inside(held, "self", self._root))
        seen: dict[int, str] = {}
        for name, item in held.named_parameters(remove_duplicate=False):
            first = seen.setdefault(id(item), name)
            if first != name:  # tied
                both = (self._expressions.attribute(self._under(item), self._root) for item in (name, first))
                lines.append(" = ".join(both))
        return lines

    def _inside(self, module: nn.Module, expression: str, path: str) -> Iterator[str]:
        for kind in (module._parameters, module._buffers):
            for name, item in kind.items():
                if item is not None:
                    yield self._tensor(module, expression, path, name, item)
        for name, child in module._modules.items():
            if child is None:
                continue
            inner = f"{path}.{name}" if path else name
            if inner in self._expressions.called or isinstance(child, nn.RNNBase):
                yield self._set(module, expression, name, constructor(child, inner))
            elif inner in self._blocks:
                yield self._set(module, expression, name, f"{self._blocks[inner]}()")
            else:
                yield from self._container(module, child, expression, name, inner)

    def _container(self, parent: nn.Module, child: nn.Module, expression: str, name: str, path: str) -> Iterator[str]:
        kinds = [self._blocks.get(f"{path}.{key}") for key in child._modules]
        kind = holder_of(child)
        if kind == "ModuleList" and kinds[0] and len(set(kinds)) == 1:
            fragment = f"nn.ModuleList({kinds[0]}() for _ in range({len(kinds)}))"
            yield self._set(parent, expression, name, fragment)
            return
        yield self._set(parent, expression, name, f"nn.{kind}()")
        yield from self._inside(child, self._expressions.attribute(path, self._root), path)

    def _set(self, parent: nn.Module, expression: str, name: str, value: str) -> str:
        kind = holder_of(parent) if expression != "self" else "Module"
        if kind == "ModuleList":
            return f"{expression}.append({value})"
        if kind == "ModuleDict":
            return f"{expression}[{name!r}] = {value}"
        return f"{expression}.{name} = {value}" if is_name(name) else f"{expression}.add_module({name!r}, {value})"

    def _under(self, name: str) -> str:
        return f"{self._root}.{name}" if self._root else name

    def _tensor(self, module: nn.Module, expression: str, path: str, name: str, item: torch.Tensor) -> str:
        if isinstance(item, nn.Parameter):
            fragment = f"nn.Parameter({tensor(item)})"
            return (
                f"{expression}.{name} = {fragment}"
                if is_name(name)
                else f"{expression}.register_parameter({name!r}, {fragment})"
            )
        kept = name not in module._non_persistent_buffers_set
        if not kept and item.numel() <= _INLINE and not item.dtype.is_complex:
            return f"{expression}.register_buffer({name!r}, {tensor(item, content=True)}, persistent=False)"
        if not kept:
            self.stored[f"{path}.{name}" if path else name] = item
        return f"{expression}.register_buffer({name!r}, {tensor(item)})"

    def named(self, node: fx.Node) -> str:
        """How the class reads a value."""
        return self._names[node] if node in self._names else self._expressions.held(node, self._root)

    def statements(self, nodes: Sequence[fx.Node], names: dict[fx.Node, str]) -> list[str]:
        """A line a node; `names` are of the values that are there already."""
        self._names.update(names)
        lines = []
        for node in nodes:
            expression = self._expressions.of(node, self.named, self._root)
            self._names[node] = self._variable(node)
            lines.append(f"{self._names[node]} = {expression}")
        return lines

    def _variable(self, node: fx.Node) -> str:
        """The name of a value in this class: a layer's in a block is its path there."""
        if self._root and node.op == "call_module":
            inside = str(node.target).removeprefix(f"{self._root}.").replace(".", "_")
            if is_name(inside) and inside not in {*self._names.values(), *self._expressions.taken}:
                return inside
        return self._expressions.name(node)

    def forward(self, blocks: Sequence[Block]) -> list[str]:
        """The lines of the module's ``forward``."""
        graph = self._module.graph
        for node in graph.nodes:
            if node.op == "placeholder":
                self._names[node] = self._expressions.name(node)
                self.arguments.append(self._names[node])
        # The first node of a block in the graph is of either kind.
        order = {node: i for i, node in enumerate(graph.nodes)}
        at = {min((*block.before, *block.nodes), key=order.__getitem__): block for block in blocks}
        inside = {node for block in blocks for node in (*block.before, *block.nodes)}
        loops = {id(loop.blocks[0]): loop for loop in _loops(blocks, self._module)}
        looped = {id(block) for loop in loops.values() for block in loop.blocks}
        lines: list[str] = []
        for node in graph.nodes:
            if node in at and id(at[node]) in loops:
                lines += [*self.statements(at[node].before, {}), *self._loop(loops[id(at[node])])]
            elif node in at and id(at[node]) not in looped:
                lines += [*self.statements(at[node].before, {}), self._call(at[node])]
            elif is_body(node) and node not in inside:
                lines += self.statements([node], {})
            elif node.op == "output":
                lines.append(f"return {self._expressions.argument(node.args[0], self.named)}")
        return lines

    def _call(self, block: Block) -> str:
        given = ", ".join(self.named(node) for node in block.inputs)
        self._names.update((node, self._expressions.name(node)) for node in block.outputs)
        results = ", ".join(self.named(node) for node in block.outputs)
        return f"{results} = {self._expressions.attribute(block.path)}({given})"

    def _loop(self, loop: _Loop) -> list[str]:
        first, last = loop.blocks[0], loop.blocks[-1]
        result = self._expressions.name(last.outputs[0])
        given = [self.named(node) for node in first.inputs]
        start, given[loop.place] = given[loop.place], result
        for block in loop.blocks:
            self._names[block.outputs[0]] = result
        container = self._expressions.attribute(first.path.rpartition(".")[0])
        lines = [f"{result} = {start}"]
        return [*lines, f"for block in {container}:", f"    {result} = block({', '.join(given)})"]


def _loops(blocks: Sequence[Block], module: fx.GraphModule) -> Iterator[_Loop]:
    containers: dict[str, list[Block]] = {}
    for block in blocks:
        containers.setdefault(block.path.rpartition(".")[0], []).append(block)
    for path, items in containers.items():
        whole = [f"{path}.{name}" for name in module.get_submodule(path)._modules] if path else []
        if [block.path for block in items] != whole or len({block.signature for block in items}) > 1:
            continue
        pairs = list(pairwise(items))
        if len(items[0].outputs) != 1 or not pairs or any(block.before for block in items[1:]):
            continue
        places = {place for place, node in enumerate(items[1].inputs) if node is items[0].outputs[0]}
        place = places.pop() if len(places) == 1 else None
        if place is not None and all(_follows(a, b, place, items[0]) for a, b in pairs):
            yield _Loop(items, place)


def _follows(before: Block, after: Block, place: int, first: Block) -> bool:
    """Whether a block takes the result of the one before it, which nothing else does, and else what the first takes."""
    result = before.outputs[0]
    others = [node for i, node in enumerate(after.inputs) if i != place]
    same = others == [node for i, node in enumerate(first.inputs) if i != place]
    return same and after.inputs[place] is result and set(result.users) <= {*before.nodes, *after.nodes}
