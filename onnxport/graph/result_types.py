"""Types of a node's results where ONNX's inference does not give them, and their types in the source framework."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from onnxport.errors import MapEntryError
from onnxport.graph.bodies import bodies

Dim = int | ir.SymbolicDim


@dataclass(frozen=True)
class Expected:
    """The type of one result in the source framework, result of the operator being lowered."""

    dtype: ir.DataType
    # Its dimensions, symbolic ones by name; None where the rank is unknown.
    shape: tuple[Dim | str | None, ...] | None = None


def refined_shape(value: ir.Value, source: ir.Shape) -> ir.Shape:
    """The shape of `value` with the dimensions that the source framework knows.

    Raises:
        MapEntryError: the two contradict each other.
    """
    inferred = value.shape
    if inferred is None or inferred == source:
        return source
    clash = inferred.rank() != source.rank() or any(
        isinstance(a, int) and isinstance(b, int) and a != b for a, b in zip(inferred, source, strict=True)
    )
    if clash:
        raise MapEntryError(f"value {value.name!r} has shape {list(inferred)}, the source gives {list(source)}")
    return merged_shape(inferred, source)


def merged_shape(known: ir.Shape, other: ir.Shape) -> ir.Shape:
    """The sizes of `known`, and where it has none the dimensions of another shape of the same rank."""
    return ir.Shape([a if isinstance(a, int) else b for a, b in zip(known, other, strict=True)])


def set_types_from_bodies(node: ir.Node) -> None:
    """Sets the output types of If, Loop and Scan from their bodies' outputs (ONNX operator specification)."""
    graphs = bodies(node)
    finals = list(graphs[0].outputs)
    if node.op_type == "Loop":
        finals = finals[1:]
        states = len(node.inputs) - 2
    elif node.op_type == "Scan":
        states = len(node.inputs) - node.attributes["num_scan_inputs"].as_int()
    else:
        states = len(finals)
    for index, (value, final) in enumerate(zip(node.outputs, finals, strict=True)):
        value.type = final.type
        if index >= states:
            value.shape = ir.Shape([None, *final.shape]) if final.shape is not None else None
        elif node.op_type == "If":
            value.shape = _common_shape([graph.outputs[index].shape for graph in graphs])
        else:
            initial = node.inputs[index + (2 if node.op_type == "Loop" else 0)]
            value.shape = _common_shape([initial.shape if initial is not None else None, final.shape])


def _common_shape(shapes: Sequence[ir.Shape | None]) -> ir.Shape | None:
    known = [shape for shape in shapes if shape is not None]
    if len(known) < len(shapes) or len({shape.rank() for shape in known}) != 1:
        return None
    return ir.Shape([dims[0] if all(dim == dims[0] for dim in dims) else None for dims in zip(*known, strict=True)])
