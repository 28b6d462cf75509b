"""A graph at another opset, one version at a time.

Where an operator's definition only took more types or options, its nodes stay as they are. Any other goes through ONNX's
version converter by itself: alone, a node takes no weights with it, and what the converter does not keep (names, functions,
custom domains, metadata, data files) stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import onnx
import onnx_ir as ir
from onnx_ir.passes.common import InlinePass

from onnxport.errors import Unsupported, UnsupportedOperator
from onnxport.graph.bodies import bodies
from onnxport.graph.names import numbered
from onnxport.graph.passes.opset_forms import foreign_attribute, same_form, unlike
from onnxport.graph.passes.rename import every_value
from onnxport.graph.protos import to_proto
from onnxport.graph.schema import any_schema
from onnxport.graph.version_converter import convert_versions

_CONSTANT_ELEMENTS = 1024  # operands that an older form holds as attributes (axes, pads, scales) are this small


@dataclass(frozen=True)
class _Lone:
    """A node as a model of its own: its inputs are called i0, i1 ..., its outputs o0, o1 ..."""

    model: onnx.ModelProto
    inputs: dict[str, ir.Value]
    outputs: dict[str, ir.Value]

    @property
    def key(self) -> bytes:
        """The same for nodes that differ in their names only."""
        return self.model.SerializeToString(deterministic=True)


def convert_opset(model: ir.Model, opset: int) -> None:
    """The model at version `opset` of ai.onnx, in place; other domains stay at theirs.

    Its values have types, as far as ONNX's inference finds them. Functions with a node that has to be rewritten are inlined,
    since their values have no types.

    Raises:
        UnsupportedOperator: operators without a form there, all of them at once.
    """
    before = model.graph.opset_imports.get("", 1)
    steps = list(pairwise([*range(before, opset, 1 if opset > before else -1), opset]))
    InlinePass(lambda function: any(_rewritten(node, *step) for node in function.all_nodes() for step in steps))(model)
    names = {value.name for value in every_value(model.graph)}
    refused: dict[ir.Node, Unsupported] = {}
    for old, new in steps:
        _step(model, old, new, names, refused)
    if refused:
        raise UnsupportedOperator.of(
            list(refused.values()),
            way_out=f"target_opset={opset}: the model is at opset {before}; ask for one nearer to it",
        )
    model.graph.opset_imports[""] = opset
    for function in model.functions.values():
        if "" in function.opset_imports:
            function.opset_imports[""] = opset


def _rewritten(node: ir.Node, old: int, new: int) -> bool:
    """Whether a node changes from one opset to the next."""
    if node.domain not in ("", "ai.onnx"):
        return False
    first, second = any_schema("", node.op_type, old), any_schema("", node.op_type, new)
    return first is None or second is None or not same_form(node, first, second)


def _step(model: ir.Model, old: int, new: int, names: set[str | None], refused: dict[ir.Node, Unsupported]) -> None:
    """Rewrites the nodes that change from an opset to the one before or after it; adds to `refused` what can't be."""
    lone: dict[ir.Node, _Lone] = {}
    for node in model.graph.all_nodes():
        if node in refused or not _rewritten(node, old, new):
            continue
        reason = _refusal(node, old, new)
        if reason:
            refused[node] = _unsupported(node, reason)
        else:
            lone[node] = _alone(node, old)
    distinct = {item.key: item.model for item in lone.values()}
    results = dict(zip(distinct, convert_versions(list(distinct.values()), new), strict=True))
    for node, item in lone.items():
        result = results[item.key]
        if isinstance(result, str):
            refused[node] = _unsupported(node, _reason(result))
            continue
        graph = ir.from_proto(onnx.shape_inference.infer_shapes(result)).graph
        # The converter takes an attribute along that came with the newer form.
        left = next((name for inner in graph if (name := foreign_attribute(inner, new))), "")
        if left:
            refused[node] = _unsupported(node, f"at opset {new} it has no attribute {left!r}")
        else:
            _replace(node, item, graph, names)


def _refusal(node: ir.Node, old: int, new: int) -> str:
    """Why a node has no form at the next opset, as far as its operator's definition shows."""
    first, second = any_schema("", node.op_type, old), any_schema("", node.op_type, new)
    if first is None:
        return f"there is no such operator at opset {old}"
    if second is None and new < old:
        return f"it exists from opset {first.since_version} on"
    reason = unlike(node, first, second)
    if reason:
        return reason
    if bodies(node):
        return f"loops and branches are not brought from opset {old} to {new}"
    if any(item.is_ref() for item in node.attributes.values()):
        return "it takes an attribute of the function that it stands in"
    untyped = next((value for value in node.inputs if value is not None and value.type is None), None)
    return "" if untyped is None else f"the type of its input {untyped.name!r} is not known"


def _unsupported(node: ir.Node, reason: str) -> Unsupported:
    return Unsupported("onnx", node.op_type, reason, where=node.name or next(iter(node.outputs)).name or "")


def _reason(message: str) -> str:
    """The reason in the converter's error, without its place in C++."""
    return message.rpartition("failed: ")[2].strip().partition("\n")[0] or "the version converter refuses it"


def _alone(node: ir.Node, opset: int) -> _Lone:
    inputs: dict[ir.Value, ir.Value] = {}
    constants: list[ir.Value] = []
    for value in node.inputs:
        if value is None or value in inputs:
            continue
        copy = ir.Value(name=f"i{len(inputs)}", type=value.type, shape=value.shape)
        tensor = ir.convenience.get_const_tensor(value)
        if tensor is not None and tensor.size <= _CONSTANT_ELEMENTS:
            copy = ir.Value(name=copy.name, const_value=ir.tensor(tensor.numpy(), tensor.dtype, name=copy.name))
            constants.append(copy)
        inputs[value] = copy
    operands = [None if value is None else inputs[value] for value in node.inputs]
    attributes = list(node.attributes.values())
    single = ir.Node("", node.op_type, operands, attributes, num_outputs=len(node.outputs))
    outputs: dict[str, ir.Value] = {}
    for index, (copy, value) in enumerate(zip(single.outputs, node.outputs, strict=True)):
        copy.name = f"o{index}" if value.name else ""
        copy.type, copy.shape = value.type, value.shape
        if value.name:
            outputs[f"o{index}"] = value
    given = [copy for copy in inputs.values() if copy not in constants]
    results = [copy for copy in single.outputs if copy.name]
    imports = {"": opset}
    graph = ir.Graph(given, results, nodes=[single], initializers=constants, opset_imports=imports, name="lone")
    named = {copy.name or "": value for value, copy in inputs.items()}
    return _Lone(to_proto(ir.Model(graph, ir_version=10)), named, outputs)


def _replace(node: ir.Node, lone: _Lone, result: ir.Graph, names: set[str | None]) -> None:
    """Puts what a node became in its place; its results keep their names."""
    values: dict[ir.Value | None, ir.Value | None] = {None: None}
    values.update((value, lone.inputs[value.name or ""]) for value in result.inputs)
    nodes: list[ir.Node] = []
    for value in result.initializers.values():
        if value.name in lone.inputs:
            values[value] = lone.inputs[value.name]
        elif value not in values and value.const_value is not None:
            nodes.append(ir.node("Constant", [], {"value": value.const_value}))
            values[value] = _typed(nodes[-1].outputs[0], value)
    for inner in result:
        operands, attributes = [values[value] for value in inner.inputs], list(inner.attributes.values())
        copy = ir.Node(inner.domain, inner.op_type, operands, attributes, num_outputs=len(inner.outputs))
        nodes.append(copy)
        for value, mine in zip(inner.outputs, copy.outputs, strict=True):
            values[value] = _typed(mine, value)
    finals: list[ir.Value] = []
    for value in result.outputs:
        final = values[value]
        if final is None or final.producer() not in nodes or final in finals:
            nodes.append(ir.node("Identity", [final]))
            final = nodes[-1].outputs[0]
        finals.append(final)
    for index, copy in enumerate(nodes):
        copy.name = node.name if copy.op_type == node.op_type else f"{node.name or node.op_type}_at_opset_{index}"
        copy.metadata_props.update(node.metadata_props)
        for value in copy.outputs:
            if value not in finals:
                value.name = numbered(f"{node.outputs[0].name}_{copy.op_type}", names, first=0)
    kept = [lone.outputs[value.name or ""] for value in result.outputs]
    for final, old in zip(finals, kept, strict=True):
        _typed(final, old)
    assert node.graph is not None
    ir.convenience.replace_nodes_and_values(node.graph, node, [node], nodes, kept, finals)


def _typed(value: ir.Value, other: ir.Value) -> ir.Value:
    value.type, value.shape = other.type, other.shape
    if other.const_value is not None and value.type is None:
        value.type, value.shape = ir.TensorType(other.const_value.dtype), ir.Shape(other.const_value.shape.numpy())
    return value
