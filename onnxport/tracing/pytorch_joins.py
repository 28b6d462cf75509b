"""Branches in Python on a tensor's value that come together again: ``if not h.isfinite().all(): h = h.clamp(-big, big)``.

The model is traced twice, once where every such question is answered with no and once with yes. The two graphs are walked side by
side: behind each question they may differ by a few operators, and what follows must be the same computation of one value or the
other. The graph computes both and selects by the value that was asked for. Further traces, with other answers to each two
questions, must be the same computation as the graph with these selections: one branch may not depend on another's.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.fx import Graph, Node
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from onnxport.tracing.pytorch_nodes import record_like, recorded
from onnxport.tracing.pytorch_questions import answered, is_mark, place_of_mark

_MOST = 48  # operators of one way
_ALL = 3  # questions whose every combination of answers is traced
# Of whole numbers these have no result where the divisor is 0, and the way that is not taken runs as well.
_PARTIAL = frozenset("div floor_divide remainder fmod".split())
# Beside pointwise ones, reductions and views: these have a result for every value as well.
_TOTAL = frozenset(
    "full scalar_tensor ones zeros arange sym_size lift_fresh_copy clone contiguous cat stack linear matmul mm bmm addmm conv1d "
    "conv2d conv3d layer_norm rms_norm group_norm softmax log_softmax scaled_dot_product_attention repeat pad flip cumsum".split()
)


class NoJoin(Exception):
    """Two ways that do not come together, or not in operators that may always run."""


@dataclass
class _Walk:
    """Two graphs side by side; `same` are nodes of the second by those of the first that compute the same."""

    first: ExportedProgram
    second: ExportedProgram
    same: dict[Node, Node] = field(default_factory=dict)
    own: dict[Node, int] = field(default_factory=dict)  # what only one way has, by the number of the question before it
    joined: dict[tuple[Node, Node], Node] = field(default_factory=dict)
    selections: dict[Node, tuple[int, Node, Node]] = field(default_factory=dict)  # question; then yes, no
    truths: list[Node] = field(default_factory=list)
    places: list[str] = field(default_factory=list)

    def run(self) -> None:
        one, other = list(self.first.graph.nodes), list(self.second.graph.nodes)
        i = j = 0
        while i < len(one) or j < len(other):
            skipped = self._meeting(one[i:], other[j:]) if self.truths else (0, 0)
            i, j = self._apart(one, other, i, j, skipped)
            while True:
                if i >= len(one) or j >= len(other):
                    raise NoJoin("the ways do not end together")
                a, b = one[i], other[j]
                i, j = i + 1, j + 1
                self._follow(a, b)
                if a.op == "output":
                    return
                if is_mark(a):
                    self.truths.append(a.args[0])
                    self.places.append(place_of_mark(a))
                    self.first.graph.erase_node(a)
                    break

    def _apart(self, one: list[Node], other: list[Node], i: int, j: int, skipped: tuple[int, int]) -> tuple[int, int]:
        """Notes what only one way has, and copies that of the second into the first graph."""
        mine, its = one[i : i + skipped[0]], other[j : j + skipped[1]]
        for node in (*mine, *its):
            _check_total(node)
            self.own[node] = len(self.truths) - 1
        for node in its:
            with self.first.graph.inserting_before(one[i + skipped[0]]):
                self.same[node] = self.first.graph.node_copy(node, lambda item: self.same[item])
        return i + skipped[0], j + skipped[1]

    def _meeting(self, one: list[Node], other: list[Node]) -> tuple[int, int]:
        """How many operators each way has of its own before both are the same up to the next question."""
        for total in range(2 * _MOST):
            for mine in range(total + 1):
                if max(mine, total - mine) <= _MOST and self._agree(one, other, mine, total - mine):
                    return mine, total - mine
        raise NoJoin("the ways do not come together")

    def _agree(self, one: list[Node], other: list[Node], mine: int, its: int) -> bool:
        own = {*one[:mine], *other[:its]}
        if any(node.op != "call_function" or is_mark(node) for node in own):
            return False
        if any(item in self.own for node in own for item in node.all_input_nodes):  # of another question
            return False
        same = dict(self.same)
        for a, b in zip(one[mine:], other[its:], strict=False):
            pairs = list(_pairs(a, b))
            if not pairs and not _alike(a, b):
                return False
            for x, y in pairs:
                known = same.get(y) is x or (x, y) in self.joined
                apart = x in own or y in own or x in self.own or y in self.own
                if x is None or not (known or (apart and _exchangeable(x, y))):
                    return False
            same[b] = a
            if a.op == "output" or is_mark(a):
                return True
        return False

    def _follow(self, a: Node, b: Node) -> None:
        """Takes two nodes for the same, with values that differ selected before."""
        pairs = list(_pairs(a, b))
        if not _alike(a, b) or any(x is None for x, _ in pairs):
            raise NoJoin(f"{a} and {b} are not the same")
        selected = [(x, y) for x, y in pairs if self.same.get(y) is not x]
        if selected and writes(a):
            raise NoJoin(f"{a} writes to a value that was selected")
        replaced = {pair: self._selected(a, *pair) for pair in dict.fromkeys(selected)}
        if replaced:
            a.args, a.kwargs = _with((a.args, a.kwargs), (b.args, b.kwargs), replaced)
        self.same[b] = a

    def _selected(self, before: Node, x: Node, y: Node) -> Node:
        if (x, y) in self.joined:
            return self.joined[x, y]
        numbers = {self.own[item] for item in (x, y) if item in self.own}
        if len(numbers) != 1 or y not in self.same or not _exchangeable(x, y):
            raise NoJoin(f"{x} and {y} are not two forms of one value")
        with self.first.graph.inserting_before(before):
            number = numbers.pop()
            node = self.first.graph.call_function(torch.ops.aten.where.self, (self.truths[number], self.same[y], x))
        self.selections[node] = number, self.same[y], x
        record_like(node, self.same[y])
        self.joined[x, y] = node
        return node


Export = Callable[[TorchFunctionMode], tuple[ExportedProgram, tuple[str, ...]]]


def joined(export: Export) -> tuple[ExportedProgram, tuple[str, ...]]:
    """The program that computes both ways, and its notes; `export` traces the model under a mode.

    Raises:
        Exception: what tracing raises, or NoJoin.
    """
    (no, notes), (yes, _) = export(answered([False])), export(answered([True]))
    _check_inputs(no, yes)
    walk = _Walk(no, yes)
    walk.run()
    for answers in _mixed(len(walk.truths)):
        other, _ = export(answered(answers))
        _check_inputs(no, other)
        known: dict[Any, int] = {}
        if expressions(no.graph, known, walk, answers) != expressions(other.graph, known):
            raise NoJoin("what one branch does depends on another")
    no.graph_module.recompile()
    note = "asks for a tensor's value: the graph computes both ways and selects"
    return no, (*notes, *(f"{place} {note}" for place in dict.fromkeys(walk.places)))


def _check_inputs(one: ExportedProgram, other: ExportedProgram) -> None:
    specs = [[(spec.kind, spec.arg, spec.target) for spec in item.graph_signature.input_specs] for item in (one, other)]
    if repr(specs[0]) != repr(specs[1]) or not any(map(is_mark, other.graph.nodes)):
        raise NoJoin("the programs have other inputs, or ask for nothing")


def _mixed(count: int) -> list[list[bool]]:
    """Answers to questions that are not all the same: of few all there are, of more those that tell each two apart."""
    if count <= _ALL:
        every = itertools.product((False, True), repeat=count)
        return [list(item) for item in every if len(set(item)) > 1]
    bits = (count - 1).bit_length()
    return [[bool(i >> bit & 1) is yes for i in range(count)] for bit in range(bits) for yes in (True, False)]


def expressions(
    graph: Graph, known: dict[Any, int], walk: _Walk | None = None, answers: Sequence[bool] = ()
) -> list[int]:
    """Numbers of what the truths, the writing operators and the outputs compute: the same for the same computation.

    Those of a walk's first graph with the selections of `answers`.
    """
    numbers: dict[Node, int] = {}
    asked: list[int] = []
    written: list[int] = []
    drawn: Counter[Any] = Counter()
    for node in graph.nodes:
        if walk and node in walk.selections:
            number, yes, no = walk.selections[node]
            numbers[node] = numbers[yes if answers[number] else no]
            continue
        parts = pytree.tree_map(
            lambda item: ("node", numbers[item]) if isinstance(item, Node) else item, plain((node.args, node.kwargs))
        )
        if is_mark(node):
            asked.append(numbers[node.args[0]])
            continue
        target = node.name if node.op == "placeholder" else node.target
        # behind an operator that writes, what is computed of the same values may be another number
        key: Any = (node.op, str(target), repr(parts), described(recorded(node)), len(written))
        if is_draw(node):
            drawn[key] += 1
            key = (*key, drawn[key])
        numbers[node] = known.setdefault(key, len(known))
        if writes(node):  # in order, and each a computation of its own
            written.append(numbers[node])
        if node.op == "output":
            truths = [numbers[item] for item in walk.truths] if walk else asked
            return [*truths, *written, numbers[node]]
    return []


def _alike(a: Node, b: Node) -> bool:
    """Whether two nodes are the same operator on the same Python values, with results of one type and shape."""
    if a.op != b.op or (a.op == "get_attr") or (a.op != "placeholder" and a.target != b.target):
        return False
    if a.op == "placeholder" and a.name != b.name:
        return False
    return a.op == "output" or described(recorded(a)) == described(recorded(b))


def described(value: object) -> str:
    """Types and sizes of what was recorded, as text."""
    leaves = pytree.tree_leaves(value)
    return str([(leaf.dtype, tuple(leaf.shape)) if isinstance(leaf, Tensor) else leaf for leaf in leaves])


def _pairs(a: Node, b: Node) -> Iterator[tuple[Any, Any]]:
    """Nodes among the arguments that stand in one place; None where the places do not hold the same otherwise."""
    if not _alike(a, b):
        yield None, None
        return
    one, of_one = pytree.tree_flatten(plain((a.args, a.kwargs)))
    other, of_other = pytree.tree_flatten(plain((b.args, b.kwargs)))
    if of_one != of_other:
        yield None, None
        return
    for x, y in zip(one, other, strict=True):
        if isinstance(x, Node) and isinstance(y, Node):
            yield x, y
        elif isinstance(x, Node) or isinstance(y, Node) or repr(x) != repr(y):
            yield None, None


def plain(value: Any) -> Any:
    """Arguments in lists and dicts; a slice as its parts."""
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return plain(["slice", value.start, value.stop, value.step]) if isinstance(value, slice) else value


def _with(value: Any, other: Any, replaced: dict[tuple[Node, Node], Node]) -> Any:
    """Arguments with selected values in the places of those that differ."""
    if isinstance(value, (list, tuple)):
        return type(value)(_with(x, y, replaced) for x, y in zip(value, other, strict=True))
    if isinstance(value, dict):
        return {key: _with(item, other[key], replaced) for key, item in value.items()}
    return replaced.get((value, other), value) if isinstance(value, Node) else value


def _exchangeable(x: Node, y: Node) -> bool:
    one, other = recorded(x), recorded(y)
    return isinstance(one, Tensor) and isinstance(other, Tensor) and described(one) == described(other)


def _schema(node: Node) -> Any:
    return getattr(node.target, "_schema", None)


def is_draw(node: Node) -> bool:
    """Whether an operator draws random numbers, others each time."""
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())


def writes(node: Node) -> bool:
    """Whether an operator writes to an argument, or has an effect beside its result."""
    schema = _schema(node)
    return schema is not None and bool(schema.is_mutable)


def _check_total(node: Node) -> None:
    """Refuses an operator that may fail where its way is not taken, or that writes.

    Raises:
        NoJoin: it may.
    """
    schema = _schema(node)
    if schema is None or schema.is_mutable:
        raise NoJoin(f"{node.target} may not run on both ways")
    name = schema.name.removeprefix("aten::")
    value = recorded(node)
    whole = not isinstance(value, Tensor) or not value.is_floating_point()
    views = any(item.alias_info is not None for item in schema.returns)
    plain = torch.Tag.pointwise in node.target.tags or torch.Tag.reduction in node.target.tags
    if not (plain or views or name in _TOTAL) or (whole and name in _PARTIAL):
        raise NoJoin(f"{node.target} may not run on both ways")
