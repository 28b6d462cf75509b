"""What an estimator's lowering is given: a matrix, or named columns that are not one yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder


@dataclass(frozen=True)
class Frame:
    """Columns side by side, each a value of shape [N, width], of element types of their own.

    Attributes:
        names: a name for each part; of several columns where a part is a matrix.
        parts: the values.
    """

    names: tuple[str, ...]
    parts: tuple[ir.Value, ...]

    @property
    def widths(self) -> tuple[int, ...]:
        """Number of columns of each part."""
        return tuple(width(part) for part in self.parts)


Table = ir.Value | Frame


def width(x: ir.Value) -> int:
    """Number of columns of a matrix."""
    size = x.shape[1] if x.shape is not None and x.shape.rank() == 2 else None
    if not isinstance(size, int):
        raise UnsupportedOperator(f"{x.name!r} is no matrix of a known number of columns")
    return size


def matrix(op: OpBuilder, x: Table) -> ir.Value:
    """The table as one matrix, in the common element type of its columns: strings, else the widest float."""
    if isinstance(x, ir.Value):
        return x
    dtypes = {part.dtype for part in x.parts}
    if len(x.parts) == 1:
        return x.parts[0]
    if ir.DataType.STRING in dtypes:
        if len(dtypes) > 1:
            raise UnsupportedOperator(
                "columns of strings and of numbers stand in one matrix: select them by a ColumnTransformer"
            )
        common = ir.DataType.STRING
    elif len(dtypes) == 1:
        common = x.parts[0].dtype or ir.DataType.FLOAT
    elif dtypes <= {
        ir.DataType.FLOAT,
        ir.DataType.FLOAT16,
        ir.DataType.INT8,
        ir.DataType.INT16,
        ir.DataType.UINT8,
        ir.DataType.BOOL,
    }:
        common = ir.DataType.FLOAT
    else:  # NumPy's promotion of int32 or int64 with any float
        common = ir.DataType.DOUBLE
    return op.Concat(*(op.cast(part, common) for part in x.parts), axis=1)


def floating(op: OpBuilder, x: Table) -> ir.Value:
    """The table as a matrix of floats: float32 and float64 as they are, anything else as scikit-learn does, in float64."""
    value = matrix(op, x)
    if value.dtype == ir.DataType.STRING:
        raise UnsupportedOperator("numbers are needed, the input holds strings")
    return value if value.dtype in (ir.DataType.FLOAT, ir.DataType.DOUBLE) else op.cast(value, ir.DataType.DOUBLE)


def double(op: OpBuilder, x: Table) -> ir.Value:
    """The table as a matrix of float64, in which scikit-learn computes where a fitted attribute is float64."""
    return op.cast(floating(op, x), ir.DataType.DOUBLE)


def columns(op: OpBuilder, x: Table, indices: Sequence[int]) -> ir.Value:
    """Some columns of the table, as a matrix."""
    if isinstance(x, Frame):
        return matrix(op, select(op, x, indices))
    if list(indices) == list(range(width(x))):
        return x
    return op.Gather(x, list(indices), axis=1)


def select(op: OpBuilder, x: Frame, indices: Sequence[int]) -> Frame:
    """Some columns of a frame, by position, still apart."""
    flat = [(part, i) for part, size in enumerate(x.widths) for i in range(size)]
    names, parts = [], []
    for index in indices:
        part, inner = flat[index]
        names.append(x.names[part])
        value = x.parts[part]
        parts.append(value if width(value) == 1 else op.Gather(value, [inner], axis=1))
    return Frame(tuple(names), tuple(parts))
