"""A program of one row in a graph that takes a batch: a Scan over its rows, or a Loop where their results differ in size."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
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

    fills = [rows.fills[place] for place in kept]

    def results_of(b: OpBuilder, row_of: dict[int, ir.Value]) -> list[ir.Value]:
        arguments = [row_of.get(id(item), item) for item in lowering.boundary.arguments]
        results = lowering.run(b, traced.program.graph_module, arguments)
        return [lowering.value_of(b, results[place]) for place in kept]

    if any(rows.uneven[place] for place in kept):
        return _filled_up(op, batches, results_of, axes, fills, rows.name)

    def write(b: OpBuilder) -> list[ir.Value]:
        row_of: dict[int, ir.Value] = {}
        for value in batches:
            shape = list(value.shape)[1:] if value.shape is not None else None
            row = b.input(f"{value.name}.row", value.dtype or ir.DataType.FLOAT, shape)
            row_of[id(value)] = b.Unsqueeze(row, b.axes(0))
        values = results_of(b, row_of)
        _lift_what_stays(op, b)
        return values

    body = op.body(write)
    scanned = op.Scan(*batches, body=body, num_scan_inputs=len(batches), scan_output_axes=axes, outputs=len(kept))
    results = scanned if isinstance(scanned, tuple) else (scanned,)
    return [
        _joined(op, value, row.shape, axis, rows.name)
        for value, row, axis in zip(results, body.outputs, axes, strict=True)
    ]


def _filled_up(
    op: OpBuilder,
    batches: Sequence[ir.Value],
    results_of: Callable[[OpBuilder, dict[int, ir.Value]], list[ir.Value]],
    axes: Sequence[int],
    fills: Sequence[bool | int | float | None],
    name: str,
) -> list[ir.Value]:
    """The results of rows one behind another, each filled up to the sizes of the largest."""
    forms: list[tuple[ir.DataType, ir.Shape]] = []

    def write(b: OpBuilder) -> list[ir.Value]:
        place = b.input("row", ir.DataType.INT64, [])
        go_on = b.input("go_on", ir.DataType.BOOL, [])
        row_of = {id(value): b.Gather(value, b.Reshape(place, [1]), axis=0) for value in batches}
        for value in batches:
            row_of[id(value)].shape = ir.Shape([1, *list(value.shape or ())[1:]])
        values = results_of(b, row_of)
        joined: list[ir.Value] = []
        for value, axis, fill in zip(values, axes, fills, strict=True):
            if value.shape is None or value.dtype is None:
                raise UnsupportedOperator(f"a result of unknown rank for each row of {name!r}")
            forms.append((value.dtype, value.shape))
            before = b.input("rows_before", value.dtype, [None] * value.shape.rank())
            joined.append(_behind(b, before, value, axis, op.const(np.array(fill or 0, value.dtype.numpy()))))
        _lift_what_stays(op, b)
        return [go_on, *joined]

    body = op.body(write)
    start = [op.const(np.zeros([0] * shape.rank(), dtype.numpy())) for dtype, shape in forms]
    count = op.Reshape(op.dim(batches[0], 0), [])
    looped = op.Loop(count, True, *start, body=body, outputs=len(start))
    results = looped if isinstance(looped, tuple) else (looped,)
    for value, (dtype, shape), axis in zip(results, forms, axes, strict=True):
        sizes: list[int | str | None] = [size if isinstance(size, int) else None for size in shape]
        sizes[axis] = name if shape[axis] == 1 else None
        value.dtype, value.shape = dtype, ir.Shape(sizes)
    return list(results)


def _behind(b: OpBuilder, before: ir.Value, value: ir.Value, axis: int, fill: ir.Value) -> ir.Value:
    """A row's result behind those of the rows before it, all of the sizes of the largest."""
    rank = value.shape.rank() if value.shape is not None else 0
    others = np.array([place != axis for place in range(rank)], np.int64)
    most = b.Max(b.Shape(before), b.Shape(value))

    def padded(part: ir.Value) -> ir.Value:
        more = b.Mul(b.Sub(most, b.Shape(part)), b.const(others))
        result: ir.Value = b.Pad(part, b.Concat(b.const(np.zeros(rank, np.int64)), more, axis=0), fill)
        return result

    joined: ir.Value = b.Concat(padded(before), padded(value), axis=axis)
    return joined


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
