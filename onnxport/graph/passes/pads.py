"""Padding with zeros before a convolution as the convolution's own."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir
from onnx_ir.passes import InPlacePass, PassResult

from onnxport.graph.passes.matching import arithmetic_nodes, producer, scalar, small_numbers


class MergePadsPass(InPlacePass):
    """Adds the zeros that a Pad puts around the spatial axes of an image to the `pads` of the Conv that alone reads it.

    A Transpose may stand between the two: an image that comes with its channels last.
    """

    def call(self, model: ir.Model) -> PassResult:
        """The model with fewer Pad nodes."""
        return PassResult(model, modified=sum(_merge(node) for node in arithmetic_nodes(model, "Conv")) > 0)


def _merge(conv: ir.Node) -> bool:
    moved = producer(conv.inputs[0], "Transpose")
    pad = producer(conv.inputs[0] if moved is None else moved.inputs[0], "Pad")
    if pad is None or not all(_is_read_once(node, conv.graph) for node in (pad, moved) if node is not None):
        return False
    amounts = small_numbers(pad.inputs[1]) if len(pad.inputs) in (2, 3) else None
    given = pad.inputs[2] if len(pad.inputs) == 3 else None
    if amounts is None or pad.attributes.get_string("mode", "constant") != "constant":
        return False
    if conv.attributes.get_string("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        return False
    rank = len(amounts) // 2
    perm = range(rank) if moved is None else moved.attributes.get_ints("perm", [*reversed(range(rank))])
    begins, ends = [amounts[axis] for axis in perm], [amounts[rank + axis] for axis in perm]
    if any((*begins[:2], *ends[:2])) or min(amounts) < 0 or (given is not None and scalar(given) != 0):
        return False
    more = [*begins[2:], *ends[2:]]
    own = list(conv.attributes.get_ints("pads", [0] * len(more)))
    if conv.attributes.get_string("auto_pad", "NOTSET") == "VALID":
        own = [0] * len(more)
        conv.attributes.pop("auto_pad")
    conv.attributes["pads"] = ir.AttrInt64s("pads", [a + b for a, b in zip(own, more, strict=True)])
    _leave_out(pad, conv if moved is None else moved, perm)
    return True


def _is_read_once(node: ir.Node, graph: ir.Graph | ir.Function | None) -> bool:
    """Whether one node of the same graph alone reads a node's result."""
    result = node.outputs[0]
    return node.graph is graph and len(result.uses()) == 1 and not result.is_graph_output()


def _leave_out(pad: ir.Node, reader: ir.Node, perm: Sequence[int]) -> None:
    """Makes the Conv, or the Transpose before it, read what was padded."""
    image = pad.inputs[0]
    reader.replace_input_with(0, image)
    if reader.op_type == "Transpose":
        sizes = image.shape if image is not None else None
        reader.outputs[0].shape = None if sizes is None else ir.Shape([sizes[axis] for axis in perm])
    if pad.graph is not None:
        pad.graph.remove(pad, safe=True)
