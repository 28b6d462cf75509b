"""TensorFlow 1's control flow: loops of Enter, Merge, Switch, NextIteration and Exit, and branches of Switch and Merge.

Both are given back as parts of a graph with inputs and outputs, which are lowered as the functions of While and If are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from onnxport.converters.to_onnx.tensorflow_graphs import skip_identities
from onnxport.errors import UnsupportedOperator
from onnxport.graph.walks import operands_first

ENTER = frozenset({"Enter", "RefEnter"})
EXIT = frozenset({"Exit", "RefExit"})
MERGE = frozenset({"Merge", "RefMerge"})
SWITCH = frozenset({"Switch", "RefSwitch"})


@dataclass(frozen=True)
class GraphPart:
    """A part of a graph that is lowered like a function.

    Attributes:
        name: its name.
        inputs: the tensors that stand for its arguments.
        outputs: its results.
    """

    name: str
    inputs: list[Any]
    outputs: list[Any]

    def passed(self) -> tuple[int | None, ...]:
        """For every result the index of the argument that it is, else None."""
        places = {tensor.name: index for index, tensor in enumerate(self.inputs)}
        return tuple(places.get(skip_identities(tensor).name) for tensor in self.outputs)


@dataclass
class LoopFrame:
    """One loop: the tensors that enter it, its variables first and then what stays the same, and its parts."""

    entering: list[Any] = field(default_factory=list)
    merged: list[Any] = field(default_factory=list)  # the variables' tensors where turns meet
    exits: dict[str, int] = field(default_factory=dict)  # by the name of an Exit's result, the variable
    condition: GraphPart | None = None
    body: GraphPart | None = None


class ControlFlow:
    """The loops and branches of one graph."""

    def __init__(self, graph: Any) -> None:
        self._frames: dict[str, LoopFrame] = {}
        entries: dict[str, list[Any]] = {}
        self._merges = False
        for node in graph.get_operations():
            self._merges |= node.type in MERGE
            if node.type in ENTER:
                entries.setdefault(node.get_attr("frame_name").decode(), []).append(node)
        for name, enters in entries.items():
            frame = _frame(name, enters)
            for result in frame.exits:
                self._frames[result] = frame

    def frame(self, node: Any) -> LoopFrame | None:
        """The loop that an Exit leaves."""
        return self._frames.get(node.outputs[0].name) if node.type in EXIT else None

    def operands(self, node: Any) -> Iterable[Any]:
        """The tensors that a node needs: of an Exit those that enter the loop, of a Merge those that enter its branches."""
        frame = self.frame(node) if self._frames else None
        if frame is not None:
            return frame.entering
        if self._merges and node.type in MERGE:
            predicate, switches = branch(node)
            return [predicate, *(switch.inputs[0] for switch in switches)]
        return node.inputs


def ordered(roots: Iterable[Any], known: Mapping[str, Any], flow: ControlFlow, before: Any) -> list[Any]:
    """The nodes that `roots` are computed from, but for those with a known result, each after its inputs.

    `before` gives further nodes that a node has to come after.
    """

    def operands(node: Any) -> Iterable[Any]:
        if any(tensor.name in known for tensor in node.outputs):
            return ()
        return (*(tensor.op for tensor in flow.operands(node)), *before(node))

    return operands_first(roots, operands)


def _frame(name: str, enters: list[Any]) -> LoopFrame:
    frame, switched, following, constants = LoopFrame(), [], [], []
    for node in enters:
        merge = next((item for item in node.outputs[0].consumers() if item.type in MERGE), None)
        if merge is None:
            constants.append(node)
            continue
        value = merge.outputs[0]
        switch = next(item for item in value.consumers() if item.type in SWITCH)
        for item in switch.outputs[0].consumers():
            if item.type in EXIT:
                frame.exits[item.outputs[0].name] = len(frame.merged)
        if frame.condition is None:
            frame.condition = GraphPart(f"{name} condition", [], [switch.inputs[1].op.inputs[0]])
        frame.entering.append(node.inputs[0])
        frame.merged.append(value)
        switched.append(switch.outputs[1])
        following.append(merge.inputs[1].op.inputs[0])
    same = [node.outputs[0] for node in constants]
    frame.entering += [node.inputs[0] for node in constants]
    if frame.condition is not None:
        frame.condition.inputs.extend([*frame.merged, *same])
    frame.body = GraphPart(f"{name} body", [*switched, *same], [*following, *same])
    frame.merged += same
    return frame


def branch(merge: Any) -> tuple[Any, list[Any]]:
    """The condition of a branch's Merge, and the Switches that its two sides begin with.

    Raises:
        UnsupportedOperator: it is no such Merge.
    """
    predicate = _predicate(merge, set())

    def begins(node: Any) -> bool:
        return node.type in SWITCH and skip_identities(node.inputs[1]).name == predicate.name

    return predicate, [node for node in _back(merge, stop=begins) if begins(node)]


def _back(merge: Any, stop: Callable[[Any], bool] | None = None, *, control: bool = False) -> Iterator[Any]:
    """The operators before a Merge, each once, but none before one at which to `stop`; `control`: by control inputs too."""
    seen: set[str] = set()
    stack = [tensor.op for tensor in merge.inputs]
    while stack:
        node = stack.pop()
        if node.name in seen:
            continue
        seen.add(node.name)
        yield node
        if stop is None or not stop(node):
            stack.extend([*(tensor.op for tensor in node.inputs), *(node.control_inputs if control else ())])


def _predicate(merge: Any, inside: set[str]) -> Any:
    """The condition of the first Switch on the way back that belongs to no Merge on that way."""
    inside = set(inside)
    for node in _back(merge, control=True):
        if node.type in SWITCH and (predicate := skip_identities(node.inputs[1])).name not in inside:
            return predicate
        if node.type in MERGE:
            inside.add(_predicate(node, inside).name)
    raise UnsupportedOperator("Merge: no condition tells which side is taken")
