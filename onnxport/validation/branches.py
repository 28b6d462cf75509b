"""Which branches (If) of a converted graph the inputs of a proof take, and inputs that take the others."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
import onnx
from onnx import helper

from onnxport.errors import OnnxportError
from onnxport.graph.external_data import weight_bytes
from onnxport.graph.protos import to_proto
from onnxport.graph.provenance import PREFIX, source_name
from onnxport.graph.runtime import Session
from onnxport.validation.input_sets.base import InputSet
from onnxport.validation.parties import Comparison
from onnxport.validation.runners.onnx import OnnxRunner

# The operators of sources that branch: an If of another operator is how that one is lowered.
_BRANCHING = frozenset(("higher_order::cond", "If", "StatelessIf"))
_WEIGHTS = 1 << 28  # a second session of more bytes costs more than it tells
_SECONDS, _TIMES = 2.0, 8.0  # a search for inputs takes so long, or so many times a run
_LARGE, _SMALL = 1e3, 1e-3
Way = tuple[int, bool]  # the number of a branching and whether its condition holds

_FLOATS: tuple[Callable[[np.ndarray], Any], ...] = (
    np.abs,
    lambda x: -np.abs(x),
    lambda x: x * 0,
    lambda x: x * 10,
    lambda x: x * _LARGE,
    lambda x: x * -_LARGE,
    lambda x: x * _SMALL,
    lambda x: x * 0 + 1,
    lambda x: np.where(np.arange(x.size).reshape(x.shape) == 0, np.inf, x),
    lambda x: np.where(np.arange(x.size).reshape(x.shape) == 0, np.nan, x),
)
_OTHERS: tuple[Callable[[np.ndarray], Any], ...] = (
    lambda x: x * 0,
    lambda x: x * 0 + 1,
    lambda x: x * 0 + x.max(initial=0),
    lambda x: x * 0 + x.min(initial=0),
    lambda x: np.flip(x),
    lambda x: x + 1,
    lambda x: np.where(np.arange(x.size).reshape(x.shape) == 0, x + 1, x),
    lambda x: -x,
)


@dataclass
class Branches:
    """The graph's branchings, and which of their ways inputs have taken."""

    _session: Session
    _flags: tuple[
        str, ...
    ]  # of each branching: one output that holds where its condition does, and one where it does not
    _places: tuple[str, ...]
    _parties: Comparison
    _seconds: float = 0.0

    def __post_init__(self) -> None:
        self._taken: set[Way] = set()

    @classmethod
    def of(cls, parties: Comparison) -> Branches | None:
        """Those of the graph that was converted to; None where it has none, or is too large."""
        graph, runner = parties.graph, parties.converted
        if graph is None or not isinstance(runner, OnnxRunner) or parties.source.graph is not None:
            return None
        marks = {
            key for node in graph.graph.all_nodes() if node.op_type == "If" for key in node.metadata_props.values()
        }
        if not marks & _BRANCHING or weight_bytes(graph) > _WEIGHTS:
            return None
        proto = to_proto(graph)
        numbers, places = count(), dict[int, str]()
        flags = sorted(_flagged(proto.graph, numbers, places))
        proto.graph.output.extend(onnx.ValueInfoProto(name=name) for _, _, name in flags)
        try:
            session = Session(proto, optimize=False)
        except OnnxportError:
            return None
        return cls(session, tuple(name for *_, name in flags), tuple(places[i] for i in sorted(places)), parties)

    def note(self, item: InputSet) -> None:
        """Notes which ways a set of inputs takes."""
        self._taken |= self._ways(item.leaves)

    def others(self, leaves: Sequence[Any]) -> Iterator[InputSet]:
        """Sets of inputs like these that take ways which none has taken."""
        end = time.perf_counter() + max(_SECONDS, _TIMES * self._seconds)
        for changed in _changed(leaves):
            if len(self._taken) == len(self._flags) or time.perf_counter() > end:
                return
            new = self._ways(changed) - self._taken
            if new:
                yield InputSet(f"the other way at {self._places[min(new)[0]]}", tuple(changed))

    def notes(self) -> Iterator[str]:
        """What no inputs have shown."""
        for number, place in enumerate(self._places):
            missing = [answer for answer in (True, False) if (number, answer) not in self._taken]
            if missing:
                words = "at all" if len(missing) == 2 else f"where its condition {'holds' if missing[0] else 'fails'}"
                yield f"{place}: no inputs of the proof take the branch {words}: it was not compared"

    def _ways(self, leaves: Sequence[Any]) -> set[Way]:
        names = self._parties.converted.example.names if self._parties.converted.example else self._session.input_names
        started = time.perf_counter()
        try:
            values = self._session.run(dict(zip(names, leaves, strict=True)), self._flags)
        except Exception:  # inputs that the model does not take: the proof itself tells
            return set()
        self._seconds = time.perf_counter() - started
        return {(i // 2, not i % 2) for i, value in enumerate(values) if bool(np.all(value))}


def _changed(leaves: Sequence[Any]) -> Iterator[list[Any]]:
    """The leaves with all of them changed in one way, then each alone."""
    arrays = [i for i, leaf in enumerate(leaves) if isinstance(leaf, np.ndarray) and leaf.dtype.kind in "fiub"]
    groups = [arrays, *([i] for i in arrays if len(arrays) > 1)]
    for group in groups:
        for place in range(max(len(_FLOATS), len(_OTHERS))):
            changed = list(leaves)
            for i in group:
                changes = _FLOATS if leaves[i].dtype.kind == "f" else _OTHERS
                change = changes[place % len(changes)]
                changed[i] = _as_bool(change, leaves[i]) if leaves[i].dtype == bool else _cast(change, leaves[i])
            yield changed


def _cast(change: Callable[[np.ndarray], Any], leaf: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.asarray(change(leaf)).astype(leaf.dtype)


def _as_bool(change: Callable[[np.ndarray], Any], leaf: np.ndarray) -> np.ndarray:
    return np.asarray(change(leaf.astype(np.int8))) % 2 == 1


def _flagged(graph: onnx.GraphProto, numbers: Iterator[int], places: dict[int, str]) -> list[tuple[int, bool, str]]:
    """Adds values to a graph that tell which ways it takes: number, False for a condition that holds, name.

    A branching within a branch gives its own out of that branch, and the other branch gives that neither is taken.
    """
    flags: list[tuple[int, bool, str]] = []
    nodes = list(graph.node)
    del graph.node[:]
    for node in nodes:
        bodies = {item.name: item.g for item in node.attribute if item.type == onnx.AttributeProto.GRAPH}
        about = {item.key: item.value for item in node.metadata_props}
        if node.op_type == "If" and about.get(f"{PREFIX}op") in _BRANCHING:
            number = next(numbers)
            places[number] = about.get(f"{PREFIX}source") or source_name(about) or node.name
            names = [f"{PREFIX}branch_{number}_{word}" for word in ("holds", "fails")]
            graph.node.append(helper.make_node("Identity", node.input[:1], names[:1]))
            graph.node.append(helper.make_node("Not", node.input[:1], names[1:]))
            flags += [(number, False, names[0]), (number, True, names[1])]
            for name, body in bodies.items():
                inner = _flagged(body, numbers, places)
                other = bodies["else_branch" if name == "then_branch" else "then_branch"]
                flags += [_given_out(node, name, body, other, flag) for flag in inner]
        graph.node.append(node)
    return flags


def _given_out(
    node: onnx.NodeProto, name: str, body: onnx.GraphProto, other: onnx.GraphProto, flag: tuple[int, bool, str]
) -> tuple[int, bool, str]:
    """Makes a value of a branch an output of its If, which is false where the other branch runs."""
    number, fails, inside = flag
    never = f"{inside}_not_in_{name}"
    no = helper.make_tensor("", onnx.TensorProto.BOOL, [], [False])
    other.node.append(helper.make_node("Constant", [], [never], value=no))
    for graph, value in ((body, inside), (other, never)):
        graph.output.append(helper.make_tensor_value_info(value, onnx.TensorProto.BOOL, None))
    outside = f"{inside}_of_{name}"
    node.output.append(outside)
    return number, fails, outside
