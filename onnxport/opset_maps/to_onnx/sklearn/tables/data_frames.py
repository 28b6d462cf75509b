"""Tables that compute as a pandas DataFrame does, as far as functions of whole columns go.

A FunctionTransformer that was fitted on a DataFrame hands one to its function; the function is traced with these instead.
What they lack raises an error, with which the function is refused: methods whose result depends on the other rows of a batch
(a column's mean) are left out on purpose, and strings can only be compared, looked up and filled.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import onnx_ir as ir
from numpy.typing import DTypeLike

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array, Axis, Function, Numbers
from onnxport.opset_maps.to_onnx.sklearn.arrays.functions import take
from onnxport.opset_maps.to_onnx.sklearn.arrays.traced import TracedArray
from onnxport.opset_maps.to_onnx.sklearn.tables import table
from onnxport.opset_maps.to_onnx.sklearn.tables.categories import codes, text_of
from onnxport.opset_maps.to_onnx.sklearn.tables.table import Frame, Table

# NumPy's functions that make plain arrays of a table or column. Others ask pandas, as np.mean, which leaves NaN out.
_OF_ARRAYS = frozenset(
    (
        *(np.where, np.clip, np.round, np.nan_to_num, np.isin, np.select, np.digitize, np.searchsorted, np.take),
        *(np.hstack, np.column_stack, np.concatenate, np.stack, np.expand_dims, np.reshape, np.ravel, np.linalg.norm),
        *(np.zeros_like, np.ones_like, np.full_like),
    )
)
# How missing values are spelled among strings.
_MISSING = ("nan", "None", "<NA>")


class _OfPandas:
    """What a column and a table have in common: those functions of NumPy that give their values alone."""

    __slots__ = ()
    _place: ClassVar[str]

    def __array_function__(
        self, function: Function, types: object, args: Sequence[object], kwargs: Mapping[str, object]
    ) -> Any:
        if function not in _OF_ARRAYS:
            raise UnsupportedOperator(f"numpy.{function.__name__} of a {self._place}: take its values")
        return function(*map(_as_arrays, args), **kwargs)


class Series(_OfPandas, TracedArray):
    """One column: a vector with a pandas Series' methods."""

    __slots__ = ()
    _place = "column"

    def of(self, value: ir.Value) -> Series:
        """Another column of the same graph."""
        return Series(self.op, value)

    def __getitem__(self, key: object) -> Any:
        raise UnsupportedOperator("rows of a column are chosen: the graph's batch stays as it is")

    def _function(self, name: str, *args: object, **kwargs: object) -> Array:
        raise UnsupportedOperator(f"{name}() over the rows of a batch")

    @property
    def values(self) -> Array:
        """The column as a NumPy vector."""
        return TracedArray(self.op, self.value)

    def to_numpy(self, dtype: DTypeLike = None, **_: object) -> Array:
        """The column as a NumPy vector."""
        return self.values if dtype is None else self.values.astype(dtype)

    def to_frame(self, name: str = "0") -> DataFrame:
        """A table of this column."""
        return DataFrame(self.op, {str(name): self})

    def isna(self) -> Series:
        """Where a value is missing."""
        if self.dtype == object:
            return self.isin(_MISSING)
        return np.isnan(self) if self.dtype.kind == "f" else self != self

    isnull = isna

    def notna(self) -> Series:
        """Where a value is there."""
        return ~self.isna()

    notnull = notna

    def isin(self, values: Sequence[Any]) -> Series:
        """Where a value is one of some."""
        return self._code(list(values)) >= 0

    def fillna(self, value: object) -> Series:
        """Something else instead of missing values."""
        if self.dtype == object:
            filled = self.op.const(np.asarray(value, object))
            return self.of(self.op.Where(self.isna().value, filled, self.value))
        return self.mask(np.isnan(self), value) if self.dtype.kind == "f" else self

    def clip(self, lower: Numbers | None = None, upper: Numbers | None = None) -> Series:
        """Values not below one number nor above another."""
        clipped = self if lower is None else np.maximum(self, lower)
        return clipped if upper is None else np.minimum(clipped, upper)

    def between(self, left: Numbers, right: Numbers, inclusive: str = "both") -> Series:
        """Where a value lies between two numbers."""
        first = self >= left if inclusive in ("both", "left") else self > left
        return first & (self <= right if inclusive in ("both", "right") else self < right)

    def abs(self) -> Series:
        """Absolute values."""
        return np.abs(self)

    def round(self, decimals: int = 0) -> Series:
        """Rounded values."""
        return _column(np.round(self, decimals))

    def where(self, condition: Numbers, other: Numbers = np.nan) -> Series:
        """The values where a condition holds, else another."""
        return _column(np.where(condition, self, other))

    def mask(self, condition: Numbers, other: Numbers = np.nan) -> Series:
        """The values where a condition does not hold, else another."""
        return _column(np.where(condition, other, self))

    def map(self, arg: object) -> Series:
        """The dictionary's item for each value; NaN for others."""
        if not isinstance(arg, Mapping):
            raise UnsupportedOperator("Series.map of something other than a dictionary")
        result = np.asarray(list(arg.values()))
        if result.dtype.kind not in "iufb":
            raise UnsupportedOperator("Series.map to something other than numbers")
        code = self._code(list(arg), unknown=len(arg))
        return _column(take(np.append(result.astype(np.float64), np.nan), code.values))

    def _code(self, known: list[Any], unknown: int = -1) -> Series:
        column = self.op.Unsqueeze(self.value, self.op.axes(1))
        keys = np.array([text_of(item) for item in known], object) if self.dtype == object else np.asarray(known)
        return _column(codes(self.op, column, keys, unknown=unknown).reshape(-1))


def _with_number(function: Function) -> Function:
    """The method of a table that computes with a number."""

    def method(frame: DataFrame, other: Numbers) -> DataFrame:
        if not isinstance(other, (bool, int, float, np.generic)):
            raise UnsupportedOperator("a table is computed with something other than a number: pandas aligns them")
        return function(frame, other)

    return method


def _of_each(name: str) -> Function:
    """The method of a table that is a method of each column."""
    return lambda frame, *args, **kwargs: frame._each(lambda _, item: getattr(item, name)(*args, **kwargs))


def _of_rows(function: Function) -> Function:
    """The method of a table that takes NumPy's function of each row's values that are there."""
    return lambda frame, axis=0: frame._across(function, axis)


class DataFrame(_OfPandas, np.lib.mixins.NDArrayOperatorsMixin):
    """Named columns."""

    _place = "table"

    def __init__(self, op: OpBuilder, columns: Mapping[str, Series]) -> None:
        self._op = op
        self._columns = dict(columns)

    @classmethod
    def of(cls, op: OpBuilder, x: Table, names: Sequence[str]) -> DataFrame:
        """A table with names for its columns."""
        vectors = [op.Squeeze(table.columns(op, x, [i]), op.axes(1)) for i in range(table.count(x))]
        return cls(op, {name: Series(op, vector) for name, vector in zip(names, vectors, strict=True)})

    def table(self) -> Frame:
        """The columns as what an estimator is given."""
        columns = (item.op.Unsqueeze(item.value, item.op.axes(1)) for item in self._columns.values())
        return Frame(tuple(self._columns), tuple(columns))

    @property
    def columns(self) -> list[str]:
        """The columns' names."""
        return list(self._columns)

    @property
    def shape(self) -> tuple[int | None, int]:
        """Rows, which are known only at run time, and columns."""
        return None, len(self._columns)

    @property
    def values(self) -> Array:
        """The table as a NumPy matrix."""
        return TracedArray(self._op, table.matrix(self._op, self.table()))

    def to_numpy(self, dtype: DTypeLike = None, **_: object) -> Array:
        """The table as a NumPy matrix."""
        return self.values if dtype is None else self.values.astype(dtype)

    def __array__(self, *_: object, **__: object) -> np.ndarray:
        raise UnsupportedOperator("the table is turned into NumPy's array: call its to_numpy() or take its columns")

    def __len__(self) -> int:
        raise UnsupportedOperator("len(), the number of rows, is known only at run time")

    def __iter__(self) -> Any:
        return iter(self._columns)

    def __contains__(self, name: object) -> bool:
        return name in self._columns

    def __getattr__(self, name: str) -> Series:
        columns = self.__dict__.get("_columns", {})
        if name not in columns:
            raise AttributeError(f"a table in the graph has no {name!r}")
        return columns[name]

    def __getitem__(self, key: str | Sequence[str]) -> Any:
        if isinstance(key, str):
            return self._columns[key]
        if isinstance(key, Array) or not all(isinstance(name, str) for name in key):
            raise UnsupportedOperator("rows of a table are chosen: the graph's batch stays as it is")
        return DataFrame(self._op, {name: self._columns[name] for name in key})

    def __setitem__(self, key: str | Sequence[str], value: object) -> None:
        names = [key] if isinstance(key, str) else list(key)
        if isinstance(value, DataFrame):
            vectors = list(value._columns.values())
        elif isinstance(value, Array) and value.ndim == 2:
            vectors = [_column(value[:, i]) for i in range(len(names))]
        else:
            vectors = [self._series(value)] * len(names)
        self._columns.update(zip(names, vectors, strict=True))

    def _series(self, value: object) -> Series:
        if isinstance(value, Array):
            return _column(value)
        like = next(iter(self._columns.values()))
        if not isinstance(value, (bool, int, float, np.generic)) or like.dtype == object:
            raise UnsupportedOperator(f"a column of {value!r}")
        return _column(np.full_like(like, value, dtype=np.asarray(value).dtype))

    def copy(self, deep: bool = True) -> DataFrame:
        """The same table, apart from what is assigned to either."""
        return DataFrame(self._op, self._columns)

    def assign(self, **columns: object) -> DataFrame:
        """With more columns, or other ones."""
        result = self.copy()
        for name, value in columns.items():
            result[name] = value(result) if callable(value) else value
        return result

    def drop(
        self,
        labels: str | Sequence[str] | None = None,
        *,
        axis: int | str = 0,
        columns: str | Sequence[str] | None = None,
    ) -> DataFrame:
        """Without some columns."""
        if columns is None and axis not in (1, "columns"):
            raise UnsupportedOperator("rows of a table are dropped: the graph's batch stays as it is")
        away = labels if columns is None else columns
        away = [away] if isinstance(away, str) else list(away)
        return DataFrame(self._op, {name: item for name, item in self._columns.items() if name not in away})

    def rename(self, *, columns: Mapping[str, str] | Callable[[str], str]) -> DataFrame:
        """With other names."""
        new: Callable[[str], str] = columns if callable(columns) else lambda name: columns.get(name, name)
        return DataFrame(self._op, {new(name): item for name, item in self._columns.items()})

    def astype(self, dtype: object, **_: object) -> DataFrame:
        """In other element types."""
        kinds: Mapping[str, Any] = dtype if isinstance(dtype, Mapping) else dict.fromkeys(self._columns, dtype)
        return self._each(lambda name, item: item.astype(kinds[name]) if name in kinds else item)

    def fillna(self, value: object) -> DataFrame:
        """Something else instead of missing values."""
        fills = value if isinstance(value, Mapping) else dict.fromkeys(self._columns, value)
        return self._each(lambda name, item: item.fillna(fills[name]) if name in fills else item)

    clip, abs, round, isna = map(_of_each, ("clip", "abs", "round", "isna"))
    add, sub, mul, div = map(_with_number, (operator.add, operator.sub, operator.mul, operator.truediv))

    @property
    def loc(self) -> Located:
        """Columns by their names: `loc[:, names]`."""
        return Located(self, by_place=False)

    @property
    def iloc(self) -> Located:
        """Columns by their places: `iloc[:, places]`."""
        return Located(self, by_place=True)

    def apply(self, function: Function) -> DataFrame:
        """A function of each column."""
        return self._each(lambda _, item: function(item))

    sum, max, min = map(_of_rows, (np.nansum, np.nanmax, np.nanmin))

    def std(self, axis: Axis = 0, *, ddof: int = 1) -> Series:
        """The standard deviation of each row's values that are there."""
        return self._across(np.nanstd, axis, ddof=ddof)

    def _across(self, function: Function, axis: int | str, **options: object) -> Series:
        if axis not in (1, "columns"):
            raise UnsupportedOperator(f"{function.__name__.removeprefix('nan')} over the rows of a batch: pass axis=1")
        return _column(function(self.values, axis=1, **options))

    def mean(self, axis: Axis = 0) -> Series:
        """The mean of each row's values that are there."""
        there = [item.notna().astype(np.float64) for item in self._columns.values()]
        return self.sum(axis) / sum(there[1:], start=there[0])

    def _each(self, function: Callable[[str, Series], Any]) -> DataFrame:
        vectors = {name: function(name, item) for name, item in self._columns.items()}
        if not all(isinstance(item, Array) and item.ndim == 1 for item in vectors.values()):
            raise UnsupportedOperator("a function of a table's columns gives something other than columns")
        return DataFrame(self._op, {name: _column(item) for name, item in vectors.items()})

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: object, **kwargs: object) -> DataFrame:
        def of(name: str, place: int) -> Any:
            item: Any = inputs[place]
            if isinstance(item, DataFrame):
                return item[name]
            ndim = item.ndim if isinstance(item, Array) else np.ndim(item)
            if ndim == 0:
                return item
            if ndim != 2:
                raise UnsupportedOperator("a column and a table are computed with: pandas aligns them by name")
            return item[:, self.columns.index(name) % item.shape[1]]

        if any(isinstance(item, DataFrame) and item.columns != self.columns for item in inputs):
            raise UnsupportedOperator("tables of different columns are computed with")
        return self._each(lambda name, _: getattr(ufunc, method)(*(of(name, i) for i in range(len(inputs))), **kwargs))


class Located:
    """Columns of a table behind `loc` and `iloc`; all rows, as the graph's batch stays as it is."""

    def __init__(self, frame: DataFrame, *, by_place: bool) -> None:
        self._frame, self._by_place = frame, by_place

    def __getitem__(self, key: object) -> Any:
        if not (isinstance(key, tuple) and len(key) == 2 and isinstance(key[0], slice) and key[0] == slice(None)):
            raise UnsupportedOperator("rows of a table are chosen: the graph's batch stays as it is")
        names, chosen = self._frame.columns, key[1]
        if self._by_place:
            selected = np.asarray(names, object)[chosen]
        elif isinstance(chosen, slice):  # whose end counts, by name
            first = None if chosen.start is None else names.index(chosen.start)
            last = None if chosen.stop is None else names.index(chosen.stop) + 1
            selected = names[first : last : chosen.step]
        else:
            selected = chosen
        return self._frame[selected if isinstance(selected, str) else list(selected)]


def _column(vector: Array) -> Series:
    """A vector of the graph as a column."""
    return Series(vector.op, vector.value)


def _as_arrays(item: object) -> Any:
    """An argument of a NumPy function, tables and columns in it as arrays."""
    if isinstance(item, (list, tuple)):
        return type(item)(map(_as_arrays, item))
    return item.values if isinstance(item, (DataFrame, Series)) else item
