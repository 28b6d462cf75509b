"""The input of an estimator's lowering: a matrix, or named columns that are not one yet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import onnx_ir as ir
from numpy.typing import DTypeLike
from sklearn.base import BaseEstimator

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.to_onnx.sklearn.arrays import sparse_rows
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array


@dataclass(frozen=True)
class Frame:
    """Columns side by side, each a value of shape [N, width], of element types of their own.

    Attributes:
        names: a name for each part; of several columns where a part is a matrix.
        parts: the values.
    """

    names: tuple[str, ...]
    parts: tuple[ir.Value, ...]

    def as_operand(self, op: OpBuilder) -> ir.Value:
        """One matrix, for an operator that a table is given to."""
        return matrix(op, self)

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


def count(x: Table) -> int:
    """Number of columns of a table."""
    return sum(x.widths) if isinstance(x, Frame) else width(x)


def matrix(op: OpBuilder, x: Table) -> ir.Value:
    """The table as one matrix, in NumPy's common type of its columns."""
    if isinstance(x, ir.Value):
        return x
    if len(x.parts) == 1:
        return x.parts[0]
    kinds = [Array(op, part).dtype for part in x.parts]
    if any(kind == object for kind in kinds) and not all(kind == object for kind in kinds):
        raise UnsupportedOperator(
            "columns of strings and of numbers stand in one matrix: select them by a ColumnTransformer"
        )
    return _joined(op, x.parts, np.result_type(*kinds))


def _joined(op: OpBuilder, parts: Sequence[ir.Value], common: np.dtype) -> ir.Value:
    if common != object:
        parts = [Array(op, part).astype(common).value for part in parts]
    return sparse_rows.mark_joined(op.Concat(*parts, axis=1), parts) if len(parts) > 1 else parts[0]


def numbers(op: OpBuilder, x: Table, *dtypes: DTypeLike) -> Array:
    """The table as a matrix of numbers, as scikit-learn's check_array makes it.

    Args:
        op: the builder.
        x: the table.
        dtypes: the element types that are kept, the first for all others; none keeps every number type.
    """
    array = Array(op, matrix(op, x))
    if array.dtype == object:
        raise UnsupportedOperator(
            "numbers are needed, the input holds strings: give numbers, and columns of several types as a DataFrame"
        )
    wanted = [np.dtype(item) for item in dtypes]
    return array if not wanted or array.dtype in wanted else array.astype(wanted[0])


def floats(op: OpBuilder, x: Table) -> Array:
    """The table as float64, or float32 where it is that."""
    return numbers(op, x, np.float64, np.float32)


def any_floats(op: OpBuilder, x: Table) -> Array:
    """The table in its own floating-point type, or float64: scikit-learn's FLOAT_DTYPES."""
    return numbers(op, x, np.float64, np.float32, np.float16)


def doubles(op: OpBuilder, x: Table) -> Array:
    """The table as float64."""
    return numbers(op, x, np.float64)


def called(op: OpBuilder, estimator: BaseEstimator, method: str, x: Table, *, step: str = "") -> Array:
    """What a method of an estimator gives on the table."""
    return Array(op, matrix(op, op.call(estimator, method, x, step=step)))


def each_called(op: OpBuilder, estimators: Sequence[BaseEstimator], method: str, x: Table) -> Iterator[Array]:
    """What a method of each of an ensemble's estimators gives on the table."""
    for number, estimator in enumerate(estimators):
        yield called(op, estimator, method, x, step=f"estimators_.{number}")


def results(op: OpBuilder, estimator: BaseEstimator, method: str, x: Table, *, step: str = "") -> list[Array]:
    """The results of a method that has several, such as the distances and numbers of neighbours."""
    return [Array(op, item) for item in op.call(estimator, method, x, step=step)]


def columns(op: OpBuilder, x: Table, indices: Sequence[int]) -> ir.Value:
    """Some columns of the table, as a matrix."""
    if isinstance(x, Frame):
        return matrix(op, select(op, x, indices))
    if list(indices) == list(range(width(x))):
        return x
    return op.Gather(x, np.asarray(indices, np.int64), axis=1)


def select(op: OpBuilder, x: Frame, indices: Sequence[int]) -> Frame:
    """Some columns of a frame, by position, still apart."""
    flat = [(name, part, i) for name, part in zip(x.names, x.parts, strict=True) for i in range(width(part))]
    names, parts = [], []
    for name, part, inner in (flat[index] for index in indices):
        names.append(name)
        parts.append(part if width(part) == 1 else op.Gather(part, np.asarray([inner], np.int64), axis=1))
    return Frame(tuple(names), tuple(parts))


def side_by_side(op: OpBuilder, parts: Sequence[Table]) -> Table:
    """Tables of the same rows as one: a matrix, or a frame where strings stand beside numbers."""
    frames = [part if isinstance(part, Frame) else Frame(("matrix",), (part,)) for part in parts]
    whole = Frame(tuple(chain(*(item.names for item in frames))), tuple(chain(*(item.parts for item in frames))))
    if not whole.parts:
        raise UnsupportedOperator("a transformer without any column")
    if len({value.dtype == ir.DataType.STRING for value in whole.parts}) > 1:
        return whole
    blocks = [_stacked(op, item) for item in frames if item.parts]
    return _joined(op, blocks, np.result_type(*(Array(op, block).dtype for block in blocks)))


def _stacked(op: OpBuilder, x: Frame) -> ir.Value:
    """A frame as np.hstack takes it: pandas makes objects of booleans beside numbers, which count as float64 afterwards."""
    kinds = {Array(op, part).dtype for part in x.parts}
    if np.dtype(bool) not in kinds or len(kinds) == 1:
        return matrix(op, x)
    return _joined(op, x.parts, np.dtype(np.float64 if any(kind.kind == "f" for kind in kinds) else np.int64))
