"""The verdict of an inquiry on each node of a graph, in words that stand in the file that a viewer shows."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from onnxport.graph.segments import segment
from onnxport.validation.details import OperatorError
from onnxport.validation.operators import Inquiry

AGREES, DIFFERS, UNKNOWN = "agrees", "differs", "not compared"


@dataclass(frozen=True)
class NodeVerdict:
    """A word, what stands behind it in some lines, and its numbers by name, each short enough for a narrow column."""

    word: str
    text: str
    numbers: tuple[tuple[str, str], ...] = ()


def node_verdicts(graph: ir.Model, inquiry: Inquiry) -> dict[str, NodeVerdict]:
    """The verdict on each node of the main graph, by the name of its first output.

    A node whose result the source does not know has the verdict on the next value that it does, which its own result went into.
    """
    compared = {item.output: item for item in inquiry.operators}
    verdicts: dict[str, NodeVerdict] = {}
    for value in (value for node in graph.graph for value in node.outputs if value.name in compared):
        item = compared[value.name or ""]
        for node in segment(value, compared)[0]:
            own = any(output is value for output in node.outputs)
            if own or key_of(node) not in verdicts or item.differs:
                verdicts[key_of(node)] = _verdict(item, own=own)
    unknown = NodeVerdict(UNKNOWN, f"{UNKNOWN}: the source knows neither its result nor one that depends on it alone")
    return {key_of(node): verdicts.get(key_of(node), unknown) for node in graph.graph}


def key_of(node: ir.Node) -> str:
    """What tells a node from others, in files that name none."""
    return next((value.name for value in node.outputs if value.name), "")


def summary(verdicts: dict[str, NodeVerdict], inquiry: Inquiry) -> str:
    """The whole in a line, and a line for each node that differs."""
    words = [item.word for item in verdicts.values()]
    counts = ", ".join(f"{words.count(word)} {word}" for word in (AGREES, DIFFERS, UNKNOWN) if word in words)
    state = "differ" if inquiry.failed else "agree"
    wrong = [f"{item.op} {item.node or item.output!r} {_in_a_line(item)}" for item in inquiry.operators if item.differs]
    return "\n".join([f"onnxport: the outputs {state} on the inputs {inquiry.inputs!r}; nodes: {counts}", *wrong])


def _in_a_line(item: OperatorError) -> str:
    return _verdict(item, own=True).text.replace("\n", ", ")


def _verdict(item: OperatorError, *, own: bool) -> NodeVerdict:
    word = DIFFERS if item.differs else AGREES
    named = {"own error": item.local, "allowed": item.allowed, "in the whole": item.propagated}
    pairs = tuple((name, f"{value:.2g}") for name, value in named.items())
    numbers = ", ".join(f"{name} {value}" for name, value in pairs)
    place = "".join(f"\n{name} {text}" for name, text in (("from", item.source_op), ("at", item.where)) if text)
    through = "" if own else f" with the nodes up to {item.output!r}"
    return NodeVerdict(word, f"{word}{through}: {numbers}{place}", pairs)
