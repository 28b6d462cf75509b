"""Which values an input may take, as the operators that read it tell."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from onnxport.validation.numerics import CARRIERS


def consumers(value: ir.Value) -> Iterator[tuple[ir.Node, int]]:
    """Nodes that use the value or an unchanged carrier of it, with the index of that input."""
    stack, seen = [value], {value}
    while stack:
        for node, index in stack.pop().uses():
            yield node, index
            if node.op_type in CARRIERS and index == 0:
                fresh = [output for output in node.outputs if output not in seen]
                seen.update(fresh)
                stack.extend(fresh)


def index_limit(value: ir.Value) -> int | None:
    """The size of the smallest weight axis that the value indexes; None where it indexes none."""
    limits = []
    for node, index in consumers(value):
        if node.op_type in ("Gather", "GatherElements") and index == 1 and node.inputs[0] is not None:
            shape = node.inputs[0].shape
            axis = node.attributes["axis"].as_int() if "axis" in node.attributes else 0
            if shape is not None and shape.rank() and isinstance(shape[axis % shape.rank()], int):
                limits.append(int(shape[axis % shape.rank()]))  # type: ignore[arg-type]
        if (
            node.op_type == "OneHot"
            and index == 0
            and node.inputs[1] is not None
            and node.inputs[1].const_value is not None
        ):
            limits.append(int(node.inputs[1].const_value.numpy().reshape(-1)[0]))
    return max(min(limits), 1) if limits else None


_VOCABULARIES = ("keys_strings", "cats_strings", "pool_strings", "classlabels_strings", "stopwords")


def vocabulary(value: ir.Value) -> list[str]:
    """Strings that the graph knows, and one that it does not."""
    words: list[str] = []
    nodes = [node for node, _ in consumers(value)]
    if value.graph is not None:
        nodes += [
            node
            for node in value.graph.all_nodes()
            if node.domain == "ai.onnx.ml" or node.op_type in ("TfIdfVectorizer", "StringNormalizer")
        ]
    for node in nodes:
        for name in _VOCABULARIES:
            if name in node.attributes:
                words += [item if isinstance(item, str) else item.decode() for item in node.attributes[name].value]
        for item in node.inputs:
            if item is not None and item.const_value is not None and item.dtype == ir.DataType.STRING:
                words += [str(text) for text in item.const_value.numpy().ravel()]
        if words:
            break
    return [*dict.fromkeys(words), "not in the vocabulary"]
