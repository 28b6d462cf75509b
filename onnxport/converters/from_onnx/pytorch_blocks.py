"""Parts of a recorded graph that belong to the children of a numbered container, and compute the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx, nn

_LEAST = 3  # nodes of a block that is worth a class
_AHEAD = (
    9  # nodes of a child that may come before the first that uses something of it, as a norm that is written out, and 1
)


@dataclass(frozen=True, eq=False)
class Block:
    """The consecutive nodes of one child of a container.

    Attributes:
        path: of the child.
        before: nodes among them that depend on nothing of the child, as the mask that all children share.
        nodes: the others in order, without those that read its parameters.
        inputs: values from outside that they use, in order of their first use.
        outputs: those of the nodes that others use.
        signature: equal for blocks that one class can stand for.
    """

    path: str
    before: tuple[fx.Node, ...]
    nodes: tuple[fx.Node, ...]
    inputs: tuple[fx.Node, ...]
    outputs: tuple[fx.Node, ...]
    signature: tuple[Any, ...]


def is_body(node: fx.Node) -> bool:
    """Whether a node computes something."""
    return node.op.startswith("call_")


def fold(module: fx.GraphModule) -> list[Block]:
    """The blocks that occur more than once, in order; no two overlap."""
    nodes = [node for node in module.graph.nodes if is_body(node)]
    paths = [list(_paths(node)) for node in nodes]
    taken: set[fx.Node] = set()
    blocks: list[Block] = []
    for container, count in _containers(module):
        kept: list[Block] = []
        for ahead in range(_AHEAD):
            cut = _cut(paths, container, count, ahead)
            if cut is None or any(node in taken for start, end in cut for node in nodes[start:end]):
                continue
            blocks_of = [
                _block(module, f"{container}.{i}", nodes[start:end], ahead) for i, (start, end) in enumerate(cut)
            ]
            counts = Counter(block.signature for block in blocks_of)
            alike = [block for block in blocks_of if counts[block.signature] > 1 and len(block.nodes) >= _LEAST]
            kept = max(kept, alike, key=len)
            if len(kept) == count:
                break
        blocks += kept
        taken.update(node for block in kept for node in (*block.before, *block.nodes))
    places = {node: i for i, node in enumerate(nodes)}
    return sorted(blocks, key=lambda block: places[block.nodes[0]])


def _containers(module: nn.Module) -> Iterator[tuple[str, int]]:
    """Paths of modules whose children are numbered, the outer ones first, and how many these are."""
    for path, item in module.named_modules():
        count = len(item._modules)
        if path and count > 1 and list(item._modules) == [str(i) for i in range(count)]:
            yield path, count


def _paths(node: fx.Node) -> Iterator[str]:
    """Paths of the modules and parameters that a node uses."""
    if node.op == "call_module":
        yield str(node.target)
    yield from (str(item.target) for item in node.all_input_nodes if item.op == "get_attr")


def _cut(paths: Sequence[Sequence[str]], container: str, count: int, ahead: int) -> list[tuple[int, int]] | None:
    """Start and end of each child's nodes: from `ahead` before the first that uses something of it to the next child's."""
    owners = [
        {int(p[len(container) + 1 :].split(".")[0]) for p in item if p.startswith(f"{container}.")} for item in paths
    ]
    starts: list[int] = []
    for child in range(count):
        places = [place for place, item in enumerate(owners) if child in item]
        if not places or (starts and places[0] <= starts[-1]):
            return None
        starts.append(places[0])
    starts = [start - ahead for start in starts]
    if starts[0] < 0:
        return None
    last = max(place for place, item in enumerate(owners) if count - 1 in item)
    end = max(last + 1, min(starts[-1] + starts[-1] - starts[-2], len(paths)))
    cut = list(zip(starts, [*starts[1:], end], strict=True))
    for child, (start, stop) in enumerate(cut):
        if any(item and item != {child} for item in owners[start:stop]):
            return None
        if any(child in item for item in (*owners[:start], *owners[stop:])):
            return None
    return cut


def _block(module: fx.GraphModule, path: str, whole: Sequence[fx.Node], ahead: int) -> Block:
    inside = set(whole[:ahead])
    for node in whole:
        if any(item.startswith(f"{path}.") for item in _paths(node)) or inside.intersection(node.all_input_nodes):
            inside.add(node)
    before, nodes = [node for node in whole if node not in inside], [node for node in whole if node in inside]
    own = {node: i for i, node in enumerate(nodes)}
    inputs: dict[fx.Node, int] = {}

    def canonical(item: Any) -> Any:
        if isinstance(item, fx.Node):
            if item in own:
                return ("own", own[item])
            if item.op == "get_attr" and str(item.target).startswith(f"{path}."):
                held = _held(module, str(item.target))
                return ("held", str(item.target)[len(path) :], tuple(held.shape), held.dtype)
            return ("input", inputs.setdefault(item, len(inputs)))
        if isinstance(item, (tuple, list)):
            return (type(item).__name__, *map(canonical, item))
        if isinstance(item, dict):
            return tuple((key, canonical(value)) for key, value in item.items())
        if isinstance(item, slice):
            return ("slice", canonical(item.start), canonical(item.stop), canonical(item.step))
        return (type(item).__name__, repr(item))

    signature = []
    for node in nodes:
        target = str(node.target)[len(path) :] if node.op == "call_module" else node.target
        kind = repr(module.get_submodule(str(node.target))) if node.op == "call_module" else ""
        signature.append((node.op, target, kind, canonical(node.args), canonical(node.kwargs)))
    outputs = tuple(node for node in nodes if any(user not in own for user in node.users))
    # The state dict of one class has one order, and the same tensors.
    state = tuple((key, tuple(item.shape), item.dtype) for key, item in module.get_submodule(path).state_dict().items())
    parts = (*signature, tuple(own[node] for node in outputs), state)
    return Block(path, tuple(before), tuple(nodes), tuple(inputs), outputs, parts)


def _held(module: nn.Module, path: str) -> torch.Tensor:
    parent, _, last = path.rpartition(".")
    holder = module.get_submodule(parent)
    item: torch.Tensor = getattr(holder, last)
    return item
