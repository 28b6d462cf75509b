"""What engines restrict of operators that they take: each limit gives the reason why a node is beyond it, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx_ir as ir

Limit = Callable[[ir.Node], str]


def constant_inputs(*places: int) -> Limit:
    """Inputs at these places must be initializers or constants."""

    def limit(node: ir.Node) -> str:
        for place in places:
            value = node.inputs[place] if place < len(node.inputs) else None
            if value is not None and ir.convenience.get_const_tensor(value) is None:
                return f"its input {value.name!r} must be constant"
        return ""

    return limit


axes_constant = constant_inputs(1)


def only_modes(attribute: str, modes: Sequence[str]) -> Limit:
    """An attribute must be one of some words; the first is ONNX's default."""

    def limit(node: ir.Node) -> str:
        mode = node.attributes.get_string(attribute, modes[0])
        return "" if mode in modes else f"{attribute}={mode!r}; it takes {', '.join(modes)}"

    return limit


def single_input_rank(*ranks: int) -> Limit:
    """The first input must have one of these numbers of dimensions, as far as it is known."""

    def limit(node: ir.Node) -> str:
        value = node.inputs[0]
        if value is None or value.shape is None or value.shape.rank() in ranks:
            return ""
        return f"its input has {value.shape.rank()} dimensions; it takes {' or '.join(map(str, ranks))}"

    return limit


on_images = single_input_rank(4)


def first_output_only(node: ir.Node) -> str:
    """Further outputs must not be used."""
    used = [value.name for value in node.outputs[1:] if value.name and (value.uses() or value.is_graph_output())]
    return f"its output {used[0]!r} is used; only the first one is there" if used else ""


def no_dilations(node: ir.Node) -> str:
    """Windows must not be dilated."""
    dilations = node.attributes.get_ints("dilations", ())
    return f"dilations={list(dilations)}" if any(size != 1 for size in dilations or ()) else ""


def no_reduction(node: ir.Node) -> str:
    """What is scattered must replace what was there."""
    reduction = node.attributes.get_string("reduction", "none")
    return f"reduction={reduction!r}" if reduction != "none" else ""


def no_antialias(node: ir.Node) -> str:
    """Images must be resized without smoothing."""
    return "antialias=1" if node.attributes.get_int("antialias", 0) else ""


def without_training(node: ir.Node) -> str:
    """Dropout must be that of inference."""
    flag = node.inputs[2] if len(node.inputs) > 2 else None
    if flag is None:
        return ""
    known = ir.convenience.get_const_tensor(flag)
    return "" if known is not None and not known.numpy().any() else "training_mode must be constant and false"
