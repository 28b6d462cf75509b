"""A model with fewer nodes and the same numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
from onnx_ir.passes import InPlacePass, PassResult, Sequential
from onnx_ir.passes.common import LiftConstantsToInitializersPass, RemoveUnusedFunctionsPass

from onnxport.graph.names import NameAuthority
from onnxport.graph.passes.bake import FoldWeightsPass
from onnxport.graph.passes.cleanup import clean
from onnxport.graph.passes.matching import equal_sizes, small_numbers
from onnxport.graph.passes.rename import every_value
from onnxport.graph.passes.reshapes import MergeReshapesPass
from onnxport.graph.passes.rewriting import add_weight, replace_value

_DROPOUT_OF_INFERENCE = 7
_ROUNDS = 4  # what one round simplifies may leave something to the next


def slim(model: ir.Model) -> ir.Model:
    """The model, whose values have types and shapes, without nodes that compute nothing new; in place.

    1. constants become initializers, and what depends on initializers and static shapes alone is evaluated;
    2. nodes that give what they take (Dropout, Cast to the same type, Reshape to the same shape ...) are left out;
    3. reshapes and transposes after each other become one;
    4. equal nodes become one, unused nodes, weights and functions go.

    Inputs, outputs and the weights that stay keep their names; no arithmetic is done in another order.
    """
    names = NameAuthority()
    for name in {value.name for value in every_value(model.graph) if value.name}:
        names.reserve(name)
    rounds = Sequential(FoldShapesPass(), FoldWeightsPass(), RemoveNoOpsPass(), MergeReshapesPass(names))
    LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)
    for _ in range(_ROUNDS):
        before = sum(1 for _ in model.graph.all_nodes())
        rounds(model)
        clean(model)
        if sum(1 for _ in model.graph.all_nodes()) == before:
            break
    RemoveUnusedFunctionsPass()(model)
    return model


class FoldShapesPass(InPlacePass):
    """Evaluates Shape and Size where the sizes that they give are all known."""

    def call(self, model: ir.Model) -> PassResult:
        """The model with initializers in their place."""
        modified = False
        for node in list(model.graph):
            value = node.inputs[0] if node.op_type in ("Shape", "Size") and not node.domain else None
            if value is None or value.shape is None or node.outputs[0].is_graph_output():
                continue
            first, last = node.attributes.get_int("start", 0), node.attributes.get_int("end", value.shape.rank())
            known = [size for size in list(value.shape)[first:last] if isinstance(size, int)]
            if len(known) < len(list(value.shape)[first:last]):
                continue
            sizes = np.asarray(known, np.int64)
            array = sizes if node.op_type == "Shape" else np.asarray(np.prod(sizes), np.int64)
            result = node.outputs[0]
            name, result.name = result.name or "", None
            ir.convenience.replace_all_uses_with(result, add_weight(model.graph, name, array))
            model.graph.remove(node, safe=True)
            modified = True
        return PassResult(model, modified=modified)


class RemoveNoOpsPass(InPlacePass):
    """Leaves out nodes whose one result is what they take."""

    def call(self, model: ir.Model) -> PassResult:
        """The model without them; outputs keep their names."""
        training = model.graph.opset_imports.get("", 0) < _DROPOUT_OF_INFERENCE  # Dropout trains by default there
        nodes = [node for node in model.graph.all_nodes() if not (training and node.op_type == "Dropout")]
        removed = [_remove(node) for node in nodes if _gives_its_input(node)]
        return PassResult(model, modified=any(removed))


def _remove(node: ir.Node) -> bool:
    source, result = node.inputs[0], node.outputs[0]
    if source is None or node.graph is None:
        return False
    if result.is_graph_output() and (
        source.producer() is None or source.is_graph_output() or source.graph is not result.graph
    ):
        return False
    replace_value(result, source)
    node.graph.remove(node, safe=True)
    return True


def _gives_its_input(node: ir.Node) -> bool:
    rule = _RULES.get(node.op_type) if not node.domain and node.inputs and node.inputs[0] is not None else None
    return (
        rule is not None and not any(item.uses() or item.is_graph_output() for item in node.outputs[1:]) and rule(node)
    )


def _same_type(node: ir.Node) -> bool:
    source, result = node.inputs[0], node.outputs[0]
    return source is not None and source.dtype is not None and source.dtype == result.dtype


def _same_shape(node: ir.Node) -> bool:
    """Whether the result has the sizes of the first operand, at most one of them without a name."""
    source, result = node.inputs[0], node.outputs[0]
    if source is None or source.shape is None or result.shape is None or source.shape.rank() != result.shape.rank():
        return False
    return all(
        one == other and (isinstance(one, int) or one.value)
        for one, other in zip(source.shape, result.shape, strict=True)
    )


def _same_sizes(node: ir.Node) -> bool:
    """The same of a node whose result has as many elements: at most one size need not be known."""
    source, result = node.inputs[0], node.outputs[0]
    if source is None or source.shape is None or result.shape is None or source.shape.rank() != result.shape.rank():
        return False
    return equal_sizes(list(source.shape), list(result.shape)) or _same_shape(node)


def _in_order(node: ir.Node) -> bool:
    perm = node.attributes.get_ints("perm")
    return perm is not None and list(perm) == sorted(perm)


def _without_training(node: ir.Node) -> bool:
    """Dropout of inference: before opset 12 always, later where `training_mode` is left out or false."""
    if len(node.inputs) < 3 or node.inputs[2] is None:
        return True
    flag = small_numbers(node.inputs[2])
    return flag is not None and not any(flag)


def _pads_nothing(node: ir.Node) -> bool:
    pads = small_numbers(node.inputs[1]) if len(node.inputs) > 1 and node.inputs[1] is not None else None
    return pads is not None and not any(pads)


_RULES: dict[str, Callable[[ir.Node], bool]] = {
    "Cast": _same_type,
    "CastLike": _same_type,
    "Concat": lambda node: len(node.inputs) == 1,
    "Sum": lambda node: len(node.inputs) == 1,
    "Dropout": _without_training,
    "Expand": _same_shape,
    "Flatten": _same_sizes,
    "Pad": _pads_nothing,
    "Reshape": _same_sizes,
    "Squeeze": _same_sizes,
    "Transpose": _in_order,
}
