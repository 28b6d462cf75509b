"""Branches in Python on a tensor's value whose ways do not come together: ``if mask.any(): return self.whole(x)``.

The model is traced once for each way that the answers lead through it. What the ways have in common before a question stands once
in the graph; what follows an answer is a branch of its own (If), with all that comes behind it. Ways end in the same outputs.
"""

from __future__ import annotations

import operator
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg

from onnxport.tracing.pytorch_joins import Export, NoJoin, described, expressions, is_draw, plain, writes
from onnxport.tracing.pytorch_nodes import record, record_like, recorded, recorded_inputs
from onnxport.tracing.pytorch_questions import answered, is_mark, place_of_mark

_QUESTIONS = 1 << 10  # more than one trace may ask
_WAYS = 8  # through a model: each is traced, and has its own part of the graph
_BOTH = "asks for a tensor's value: the graph holds both ways (If)"
_RAISES = "asks for a tensor's value, and one answer leads to an error: the graph raises none, and goes the other way"
_RESULTS = (OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT)


@dataclass
class _Way:
    """The trace of one way; `known` are the merged graph's values, or objects of the module, by the trace's nodes."""

    program: ExportedProgram
    answers: tuple[bool, ...]
    notes: tuple[str, ...]
    marks: list[Node] = field(default_factory=list)
    segments: list[list[Node]] = field(default_factory=lambda: [[]])  # before each question, and behind the last
    known: dict[Node, Any] = field(default_factory=dict)
    drawn: Counter[Any] = field(default_factory=Counter)
    new: tuple[int, ...] = ()  # the questions that are not asked again


def branched(export: Export) -> tuple[ExportedProgram, tuple[str, ...]]:
    """The program that holds every way, and its notes; `export` traces the model under a mode.

    Raises:
        Exception: what tracing raises, or NoJoin.
    """
    ways = _every(export)
    if not any(way.answers for way in ways):
        raise NoJoin("the model asks for nothing")
    _take_apart(ways)
    first = ways[0]
    for way in ways[1:]:
        _check_alike(first, way)
    main = _Scope(None, first.program.graph_module)
    for node in first.program.graph.nodes:
        if node.op == "placeholder":
            main.placeholder(node)
    _take_inputs(main, ways)
    results = _merged(main, ways, 0)
    main.graph.output(tuple(map_arg(results, main.own)))
    for spec, item in zip(first.program.graph_signature.output_specs, results, strict=True):
        if isinstance(item, Node):
            spec.arg.name = main.own(item).name
    first.program.graph_module.graph = main.graph
    first.program.graph_module.recompile()
    _take_guards(ways)
    notes = dict.fromkeys(note for way in ways for note in way.notes)
    return first.program, (*notes, *dict.fromkeys(_notes(ways)))


def _notes(ways: Sequence[_Way]) -> Iterator[str]:
    """What became of each question that is asked for the first time."""
    for way in ways:
        for i in way.new:
            answers = {other.answers[i] for other in ways if other.answers[:i] == way.answers[:i]}
            yield f"{place_of_mark(way.marks[i])} {_BOTH if len(answers) == 2 else _RAISES}"


def _every(export: Export) -> list[_Way]:
    """All ways but those that end in an error of the model's own; a question that is asked again gets its answer again."""
    ways: list[_Way] = []
    known: dict[Any, int] = {}
    waiting: list[tuple[bool, ...]] = [()]
    while waiting:
        given = waiting.pop()
        begun = len(given)
        only: set[int] = set()  # questions whose other answer leads to an error of the model's own
        while True:
            try:
                way = _traced(export, given)
            except _Raises as error:
                if error.answers == given:
                    break
                given = (*error.answers[:-1], True)
                only.add(len(given) - 1)
                continue
            asked = expressions(way.program.graph, known)[: len(way.answers)]
            firsts = [asked.index(item) for item in asked]
            other = next((i for i, before in enumerate(firsts) if way.answers[i] != way.answers[before]), None)
            if other is None:
                way.new = tuple(i for i, before in enumerate(firsts) if before == i)
                ways.append(way)
                waiting += [(*way.answers[:i], True) for i in way.new if i >= begun and i not in only]
                break
            given = (*way.answers[:other], way.answers[firsts[other]])
        if len(ways) + len(waiting) > _WAYS:
            raise NoJoin("too many ways")
    _check_repeatable(export, ways)
    return ways


def _check_repeatable(export: Export, ways: Sequence[_Way]) -> None:
    """Traces each way once more, in the other order: what the model keeps between calls would show.

    Raises:
        NoJoin: a way is another one the second time.
    """
    for way in reversed(ways):
        again = _traced(export, way.answers).program
        known: dict[Any, int] = {}
        same = expressions(again.graph, known) == expressions(way.program.graph, known)
        constants = zip(again.constants.items(), way.program.constants.items(), strict=False)
        kept = all(a == b and _is_same(one, other) for (a, one), (b, other) in constants)
        if not same or not kept or len(again.constants) != len(way.program.constants):
            raise NoJoin("the model is another one each time")


class _Raises(Exception):
    """The model raises an error behind these answers."""

    def __init__(self, answers: tuple[bool, ...]) -> None:
        super().__init__(answers)
        self.answers = answers


def _traced(export: Export, given: tuple[bool, ...]) -> _Way:
    """The way of these answers, and then of no alone.

    Raises:
        _Raises: the model does.
        NoJoin: the model asks for less.
        Exception: what tracing raises.
    """
    mode = answered((*given, *[False] * (_QUESTIONS - len(given))), apart=True)
    try:
        program, notes = export(mode)
    except Exception as error:
        if mode.asked < len(given) or not mode.asked or not mode.led_to(error):
            raise
        raise _Raises((*given, *[False] * (mode.asked - len(given)))) from error
    finally:
        mode.forget()
    count = sum(map(is_mark, program.graph.nodes))
    if count < len(given):
        raise NoJoin("the same answers lead to other questions")
    return _Way(program, (*given, *[False] * (count - len(given))), notes)


def _take_apart(ways: Sequence[_Way]) -> None:
    """Cuts the ways at their questions; where one writes in place all are functionalised, so that they stay alike.

    Raises:
        NoJoin: a way writes to an input or a buffer.
    """
    nodes = (node for way in ways for node in way.program.graph.nodes if node.op == "call_function")
    in_place = any(writes(node) and not is_mark(node) for node in nodes)
    for way in ways:
        if in_place:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", ".*LeafSpec", FutureWarning)  # torch's use of its own pytree
                way.program = way.program.run_decompositions({})
        if any(spec.kind not in _RESULTS for spec in way.program.graph_signature.output_specs):
            raise NoJoin("a way writes to an input or a buffer")
        for node in way.program.graph.nodes:
            if is_mark(node):
                way.marks.append(node)
                way.segments.append([])
            elif node.op != "placeholder":
                way.segments[-1].append(node)


def _check_alike(one: _Way, other: _Way) -> None:
    """Refuses ways with other inputs, for other sizes of them, or with other outputs."""
    forms = []
    for way in (one, other):
        values = recorded_inputs(way.program)
        specs = [item for item in way.program.graph_signature.input_specs if item.kind is not InputKind.CONSTANT_TENSOR]
        inputs = [(item.kind, item.target, item.arg.name, described(values.get(item.arg.name))) for item in specs]
        forms.append((inputs, way.program.call_spec.out_spec))
    if forms[0] != forms[1]:
        raise NoJoin("the ways have other inputs or outputs")


def _take_inputs(main: _Scope, ways: Sequence[_Way]) -> None:
    """What the ways' placeholders are: those of the first, but for constants that others alone have."""
    own = {node.name: node for node in main.graph.nodes}
    constants: list[tuple[Tensor, Any]] = []
    for way in ways:
        specs = {spec.arg.name: spec for spec in way.program.graph_signature.input_specs}
        for node in way.program.graph.nodes:
            if node.op != "placeholder":
                continue
            spec = specs[node.name]
            if spec.kind is not InputKind.CONSTANT_TENSOR:
                way.known[node] = own[node.name]
                continue
            content = way.program.constants[spec.target]
            same = next((value for other, value in constants if _is_same(content, other)), None)
            if same is None:
                same = own[node.name] if way is ways[0] else _Held(content)
                constants.append((content, same))
            way.known[node] = same


def _is_same(one: Any, other: Any) -> bool:
    if not isinstance(one, Tensor) or not isinstance(other, Tensor):
        return one is other
    return one is other or (one.dtype == other.dtype and one.shape == other.shape and torch.equal(one, other))


@dataclass(frozen=True, eq=False)
class _Held:
    """What a graph reads from its module: a constant, or a graph that an operator calls."""

    content: Any


class _Scope:
    """The main graph, or that of a branch, which takes from outside what it needs."""

    def __init__(self, outer: _Scope | None, module: torch.nn.Module) -> None:
        self.graph = Graph()
        self.outer = outer
        self.module = module
        self.taken: dict[Node, Node] = {}
        self.computed: dict[Any, Node] = {}
        self._held: dict[int, Node] = {}

    def placeholder(self, like: Node) -> Node:
        """An input like another graph's node."""
        node = self.graph.create_node("placeholder", like.name, name=like.name)
        node.target = node.name  # the parameter's name, which two values of several graphs may share
        record_like(node, like)
        return node

    def own(self, value: Any) -> Node:
        """What stands in this graph for a value of this or an outer one, or for what the module holds."""
        if isinstance(value, _Held):
            return self._attribute(value.content)
        if value.graph is self.graph:
            return value
        if value not in self.taken:
            if self.outer is None:
                raise NoJoin("a value of another branch")
            self.outer.own(value)
            self.taken[value] = self.placeholder(value)
        return self.taken[value]

    def find(self, key: Any) -> Node | None:
        """The value that is computed so, here or outside."""
        node = self.computed.get(key)
        return node if node is not None or self.outer is None else self.outer.find(key)

    def compute(self, key: Any, node: Node, known: Callable[[Node], Any]) -> Node:
        """A copy of a way's node, on the values that its arguments are."""
        args, kwargs = map_arg((node.args, node.kwargs), lambda item: self.own(known(item)))
        copy = self.graph.call_function(node.target, args, kwargs)
        record_like(copy, node)
        self.computed[key] = copy
        return copy

    def _attribute(self, content: Any) -> Node:
        if id(content) not in self._held:
            name = f"held_{len(self._held)}"
            while hasattr(self.module, name):
                name += "_"
            setattr(self.module, name, content)
            self._held[id(content)] = self.graph.create_node("get_attr", name)
        return self._held[id(content)]

    def takes(self, outside: Sequence[Node]) -> None:
        """Makes these, in this order, the inputs of a branch."""
        nodes = [self.own(item) for item in outside]
        for node in reversed(nodes):
            next(iter(self.graph.nodes)).prepend(node)


def _merged(scope: _Scope, ways: list[_Way], depth: int) -> list[Any]:
    """The outputs of ways that are one up to question `depth`, computed in a scope and in branches of it."""
    for way in ways:
        for node in way.segments[depth]:
            _place(scope, way, node)
    first = ways[0]
    if depth == len(first.marks):
        return [_value(first, item) for item in first.program.graph.output_node().args[0]]
    truths = {way.known[way.marks[depth].args[0]] for way in ways}
    if len(truths) != 1:
        raise NoJoin("the ways differ before they ask")
    sides = [[way for way in ways if way.answers[depth] is answer] for answer in (True, False)]
    if not all(sides):
        return _merged(scope, sides[0] or sides[1], depth + 1)
    branches = [_Scope(scope, torch.nn.Module()) for _ in sides]
    results = [_merged(branch, side, depth + 1) for branch, side in zip(branches, sides, strict=True)]
    return _chosen(scope, truths.pop(), branches, results, first.marks[depth])


def _value(way: _Way, item: Any) -> Any:
    return way.known[item] if isinstance(item, Node) else item


def _place(scope: _Scope, way: _Way, node: Node) -> None:
    """Notes what a way's node is in the merged graph, where it is computed once."""
    if node.op == "output":
        return
    if node.op == "get_attr":
        content: Any = way.program.graph_module
        for part in str(node.target).split("."):
            content = getattr(content, part)
        way.known[node] = _Held(content)
        return
    parts = map_arg(plain((node.args, node.kwargs)), lambda item: _Named(way.known[item]))
    key: Any = (node.target, repr(parts))
    if is_draw(node):  # each draws numbers of its own
        way.drawn[key] += 1
        key = (*key, way.drawn[key])
    same = scope.find(key)
    way.known[node] = scope.compute(key, node, way.known.__getitem__) if same is None else same


class _Named:
    """A value among arguments, by its identity."""

    def __init__(self, value: Any) -> None:
        self._of = id(value.content) if isinstance(value, _Held) else id(value)

    def __repr__(self) -> str:
        return f"value {self._of}"


def _chosen(scope: _Scope, truth: Node, branches: list[_Scope], results: list[list[Any]], mark: Node) -> list[Any]:
    """The outputs by the branch that is taken; those that are the same on both sides as they are."""
    outputs = list(results[0])
    differ = [i for i, (yes, no) in enumerate(zip(*results, strict=True)) if yes is not no]
    if not differ:
        return outputs
    values = [_either(results[0][i], results[1][i]) for i in differ]
    for branch, result in zip(branches, results, strict=True):
        branch.graph.output(tuple(branch.own(result[i]) for i in differ))
    operands = list(dict.fromkeys(item for branch in branches for item in branch.taken))
    for branch in branches:
        branch.takes(operands)
    graphs = [_Held(GraphModule(branch.module, branch.graph)) for branch in branches]
    args = (scope.own(truth), *map(scope.own, graphs), [scope.own(item) for item in operands])
    choice = scope.graph.call_function(torch.ops.higher_order.cond, args)
    record_like(choice, mark)  # the line that asks
    record(choice, tuple(values))
    for place, (i, value) in enumerate(zip(differ, values, strict=True)):
        outputs[i] = scope.graph.call_function(operator.getitem, (choice, place))
        record(outputs[i], value)
    return outputs


def _either(yes: Any, no: Any) -> Tensor:
    """What is known of an output that is one or the other: sizes that differ are unknown.

    Raises:
        NoJoin: they differ in type or rank, or one is no tensor.
    """
    one, other = (recorded(item) if isinstance(item, Node) else item for item in (yes, no))
    if not isinstance(one, Tensor) or not isinstance(other, Tensor):
        raise NoJoin("an output is a tensor on one way alone")
    if one.dtype != other.dtype or one.dim() != other.dim():
        raise NoJoin("an output is of another type or rank")
    if described(one) == described(other):
        return one
    mode = one.fake_mode
    pairs = zip(one.shape, other.shape, strict=True)
    with mode:
        sizes = [a if str(a) == str(b) else mode.shape_env.create_unbacked_symint() for a, b in pairs]
        return torch.empty(sizes, dtype=one.dtype)


def _take_guards(ways: list[_Way]) -> None:
    """Adds the conditions on sizes that the other ways were traced under to those of the first."""
    envs = [_guards(way) for way in ways]
    known = {item.expr for item in envs[0]}
    envs[0] += [item for others in envs[1:] for item in others if item.expr not in known]


def _guards(way: _Way) -> list[Any]:
    modes = (getattr(item, "fake_mode", None) for item in recorded_inputs(way.program).values())
    return next((mode.shape_env.guards for mode in modes if mode is not None and mode.shape_env is not None), [])
