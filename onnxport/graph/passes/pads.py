"""Padding with zeros before a convolution as the convolution's own."""

from __future__ import annotations

import onnx_ir as ir
from onnx_ir.passes import InPlacePass, PassResult

from onnxport.graph.passes.matching import arithmetic_nodes, producer, scalar, small_numbers


class MergePadsPass(InPlacePass):
    """Adds the zeros that a Pad puts around the spatial axes of an image to the `pads` of the Conv that alone reads it."""

    def call(self, model: ir.Model) -> PassResult:
        """The model with fewer Pad nodes."""
        return PassResult(model, modified=sum(_merge(node) for node in arithmetic_nodes(model, "Conv")) > 0)


def _merge(conv: ir.Node) -> bool:
    padded = conv.inputs[0]
    pad = producer(padded, "Pad")
    if (
        padded is None
        or pad is None
        or len(padded.uses()) != 1
        or padded.is_graph_output()
        or pad.graph is not conv.graph
    ):
        return False
    amounts = small_numbers(pad.inputs[1]) if len(pad.inputs) in (2, 3) else None
    given = pad.inputs[2] if len(pad.inputs) == 3 else None
    if amounts is None or pad.attributes.get_string("mode", "constant") != "constant":
        return False
    if conv.attributes.get_string("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        return False
    rank = len(amounts) // 2
    begins, ends = amounts[:rank], amounts[rank:]
    if any((*begins[:2], *ends[:2])) or min(amounts) < 0 or (given is not None and scalar(given) != 0):
        return False
    more = [*begins[2:], *ends[2:]]
    own = list(conv.attributes.get_ints("pads", [0] * len(more)))
    if conv.attributes.get_string("auto_pad", "NOTSET") == "VALID":
        own = [0] * len(more)
        conv.attributes.pop("auto_pad")
    conv.attributes["pads"] = ir.AttrInt64s("pads", [a + b for a, b in zip(own, more, strict=True)])
    conv.replace_input_with(0, pad.inputs[0])
    if pad.graph is not None:
        pad.graph.remove(pad, safe=True)
    return True
