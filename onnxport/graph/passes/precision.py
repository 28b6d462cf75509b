"""Scales of float64 products, kept from a runtime's float32 attributes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx_ir as ir
from onnx_ir.passes import InPlacePass, PassResult

# A row of the scale up to this length stands in the file; a longer one is expanded at run time.
_LONGEST_ROW = 1 << 12


class KeepDoubleScalesPass(InPlacePass):
    """Gives the factor of a float64 ``Mul`` or ``Div`` beside a ``MatMul`` the shape of the other operand's last axis.

    onnxruntime fuses a product with one number into FusedMatMul, whose ``alpha`` is a float32 attribute: of 0.2 only
    eight digits are left. It does not fuse a row of equal numbers. Factors that float32 holds exactly stay as they are.
    """

    def call(self, model: ir.Model) -> PassResult:
        """The model with such factors as rows."""
        found = [node for node in model.graph.all_nodes() if _is_fused(node)]
        for node in found:
            _spread(node, model.graph)
        return PassResult(model, modified=bool(found))


def _is_fused(node: ir.Node) -> bool:
    if node.domain or node.op_type not in ("Mul", "Div") or node.outputs[0].dtype != ir.DataType.DOUBLE:
        return False
    index = _factor(node)
    if index is None:
        return False
    other = node.inputs[1 - index]
    beside = [other.producer() if other is not None else None, *(use.node for use in node.outputs[0].uses())]
    return any(item is not None and item.op_type == "MatMul" for item in _through_transposes(beside))


def _through_transposes(nodes: list[ir.Node | None]) -> Iterator[ir.Node | None]:
    for node in nodes:
        yield node
        if node is not None and node.op_type == "Transpose":
            yield node.inputs[0].producer() if node.inputs[0] is not None else None
            yield from (use.node for use in node.outputs[0].uses())


def _factor(node: ir.Node) -> int | None:
    """Which operand is one constant number that float32 does not hold, or whose inverse it does not."""
    for index in (1,) if node.op_type == "Div" else (0, 1):
        value = node.inputs[index]
        if value is None or value.const_value is None or value.const_value.size != 1:
            continue
        number = float(value.const_value.numpy().reshape(()))
        with np.errstate(all="ignore"):
            factor = np.float64(1.0) / number if node.op_type == "Div" else np.float64(number)
            return index if float(np.float32(factor)) != factor else None
    return None


def _spread(node: ir.Node, graph: ir.Graph) -> None:
    index = _factor(node)
    factor, other = (node.inputs[index], node.inputs[1 - index]) if index is not None else (None, None)
    if factor is None or other is None or factor.const_value is None or index is None:
        return
    last = other.shape[-1] if other.shape is not None and other.shape.rank() else None
    if isinstance(last, int) and 1 < last <= _LONGEST_ROW:
        row = ir.tensor(np.full(last, factor.const_value.numpy().reshape(())), name=f"{node.name}/scale")
        value = ir.Value(name=row.name, type=ir.TensorType(row.dtype), shape=ir.Shape([last]), const_value=row)
        graph.register_initializer(value)
        node.replace_input_with(index, value)
        return
    shape = _before(node, "Shape", [other], ir.DataType.INT64)
    spread = _before(node, "Expand", [factor, shape], ir.DataType.DOUBLE)
    spread.shape = other.shape
    node.replace_input_with(index, spread)


def _before(node: ir.Node, op_type: str, inputs: list[ir.Value], dtype: ir.DataType) -> ir.Value:
    name = f"{node.name}/{op_type}"
    made = ir.Node("", op_type, inputs, name=name, metadata_props=dict(node.metadata_props))
    made.outputs[0].name, made.outputs[0].type = name, ir.TensorType(dtype)
    if node.graph is not None:
        node.graph.insert_before(node, made)
    return made.outputs[0]
