"""A program of one row in a graph that takes a batch: a Scan over its rows."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from onnxport.converters.to_onnx.pytorch_lowering import Lowering
from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.tracing.pytorch_programs import Traced
from onnxport.tracing.pytorch_rows import Rows

# Operators that draw numbers, for each row others.
_DRAWN = frozenset(
    "RandomNormal RandomNormalLike RandomUniform RandomUniformLike Bernoulli Multinomial Dropout".split()
)


def run_by_rows(op: OpBuilder, lowering: Lowering, traced: Traced, rows: Rows, kept: Sequence[int]) -> list[ir.Value]:
    """The results at the places `kept` among the program's, for all rows of the inputs that `rows` names."""
    names = {lowering.boundary.input_names[placeholder] for placeholder, path in traced.inputs if path in rows.inputs}
    batches = [value for value in op.inputs if value.name in names]
    axes = [rows.axes[place] or 0 for place in kept]

    def write(b: OpBuilder) -> list[ir.Value]:
        row_of: dict[int, ir.Value] = {}
        for value in batches:
            shape = list(value.shape)[1:] if value.shape is not None else None
            row = b.input(f"{value.name}.row", value.dtype or ir.DataType.FLOAT, shape)
            row_of[id(value)] = b.Unsqueeze(row, b.axes(0))
        arguments = [row_of.get(id(item), item) for item in lowering.boundary.arguments]
        results = lowering.run(b, traced.program.graph_module, arguments)
        values = [lowering.value_of(b, results[place]) for place in kept]
        _lift_what_stays(op, b)
        return values

    body = op.body(write)
    scanned = op.Scan(*batches, body=body, num_scan_inputs=len(batches), scan_output_axes=axes, outputs=len(kept))
    results = scanned if isinstance(scanned, tuple) else (scanned,)
    return [
        _joined(op, value, row.shape, axis, rows.name)
        for value, row, axis in zip(results, body.outputs, axes, strict=True)
    ]


def _lift_what_stays(op: OpBuilder, b: OpBuilder) -> None:
    """Moves the nodes of the body that give every row the same into the graph around it: they run once."""
    varying = set(b.inputs)
    within: list[ir.Node] = []
    for node in b.nodes:
        bodies = any(isinstance(item.value, ir.Graph) for item in node.attributes.values())
        if bodies or node.op_type in _DRAWN or any(value in varying for value in node.inputs):
            varying.update(node.outputs)
            within.append(node)
        else:
            op.nodes.append(node)
    b.nodes[:] = within


def _joined(op: OpBuilder, value: ir.Value, row: ir.Shape | None, axis: int, name: str) -> ir.Value:
    """The results of all rows along `axis`, of those that stand one in each of its places."""
    if row is None:
        raise UnsupportedOperator(f"a result of unknown rank for each row of {name!r}")
    value.shape = ir.Shape([*row[:axis], name, *row[axis:]])
    sizes = [op.dim(value, place) for place in range(len(row) + 1) if place not in (axis, axis + 1)]
    result = op.Reshape(value, op.shape_vector([*sizes[:axis], -1, *sizes[axis:]]))
    result.shape = ir.Shape([*row[:axis], name if row[axis] == 1 else None, *row[axis + 1 :]])
    return result
