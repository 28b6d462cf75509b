"""Forms of operators from before opset 12 that ONNX's version converter does not write."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir

from onnxport.graph.names import numbered
from onnxport.graph.passes.rename import every_value

_Written = list[ir.Node]


def write_older_forms(model: ir.Model, opset: int) -> None:
    """Puts forms that exist at `opset` in the place of operators whose own came later, in place; others stay.

    The nodes keep standing for the version that the model declares.
    """
    names = {value.name for value in every_value(model.graph)}
    for node in list(model.graph.all_nodes()):
        since, write = _OLDER.get(node.op_type, (0, None)) if node.domain in ("", "ai.onnx") else (0, None)
        written = write(node) if write is not None and opset < since else []
        if not written or node.graph is None:
            continue
        for copy in written:
            copy.name = node.name if copy is written[-1] else f"{node.name or node.op_type}_{copy.op_type}"
            copy.metadata_props.update(node.metadata_props)
            for value in copy.outputs[: 0 if copy is written[-1] else None]:
                value.name = numbered(f"{node.outputs[0].name}_{copy.op_type}", names, first=0)
        final = written[-1].outputs[0]
        final.type, final.shape = node.outputs[0].type, node.outputs[0].shape
        ir.convenience.replace_nodes_and_values(node.graph, node, [node], written, node.outputs, [final])


def _clip(node: ir.Node) -> _Written:
    bounds: dict[str, float] = {}
    for name, value in zip(("min", "max"), node.inputs[1:]):
        if value is None:
            continue
        tensor = ir.convenience.get_const_tensor(value)
        if tensor is None:
            return []
        bounds[name] = float(tensor.numpy())
    return [ir.node("Clip", [node.inputs[0]], bounds)]


def _depth_to_space(node: ir.Node) -> _Written:
    """Columns before rows as they are moved: a reshape, a transpose and a reshape, where the sizes but the batch are known."""
    mode, size = node.attributes.get("mode"), node.attributes["blocksize"].as_int()
    if mode is None or mode.as_string() != "CRD":
        return []
    (data,) = node.inputs
    sizes = list(data.shape or ()) if data is not None else []
    if len(sizes) != 4 or not all(isinstance(item, int) for item in sizes[1:]):
        return []
    channels, height, width = (int(str(item)) for item in sizes[1:])
    channels //= size * size
    apart = _constant([0, channels, size, size, height, width])
    together = _constant([0, channels, height * size, width * size])
    first = ir.node("Reshape", [data, apart.outputs[0]])
    moved = ir.node("Transpose", [first.outputs[0]], {"perm": [0, 1, 4, 2, 5, 3]})
    nodes = [apart, together, first, moved, ir.node("Reshape", [moved.outputs[0], together.outputs[0]])]
    for item in (first, moved):
        item.outputs[0].type = node.outputs[0].type
    return nodes


def _constant(numbers: list[int]) -> ir.Node:
    node = ir.node("Constant", [], {"value": ir.tensor(numbers, dtype=ir.DataType.INT64)})
    node.outputs[0].type, node.outputs[0].shape = ir.TensorType(ir.DataType.INT64), ir.Shape([len(numbers)])
    return node


def _either(strict: str) -> Callable[[ir.Node], _Written]:
    """A comparison or equality: where one side is NaN neither holds."""

    def write(node: ir.Node) -> _Written:
        nodes = [ir.node(op, list(node.inputs)) for op in (strict, "Equal")]
        for item in nodes:
            item.outputs[0].type, item.outputs[0].shape = node.outputs[0].type, node.outputs[0].shape
        return [*nodes, ir.node("Or", [item.outputs[0] for item in nodes])]

    return write


# By operator: the version that its form came with, and the older one.
_OLDER: dict[str, tuple[int, Callable[[ir.Node], _Written]]] = {
    "Clip": (11, _clip),
    "DepthToSpace": (11, _depth_to_space),
    "GreaterOrEqual": (12, _either("Greater")),
    "LessOrEqual": (12, _either("Less")),
}
