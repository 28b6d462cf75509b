"""Values of the graph that compute as NumPy arrays do: promotion, broadcasting, ufuncs and functions.

An estimator's lowering can then be written as scikit-learn writes its method, and gets the types that scikit-learn gets:
``x @ model.coef_.T + model.intercept_`` is float64 on float32 rows where the coefficients are float64. A user's NumPy function
(FunctionTransformer) is traced by the same protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import onnx_ir as ir
from numpy.typing import ArrayLike, DTypeLike

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.to_onnx.sklearn.arrays.ufuncs import UFUNCS

_BOOL, _INT64 = ir.DataType.BOOL, ir.DataType.INT64
# Element types that every arithmetic kernel of a runtime takes; others are computed in the next wider of these.
_COMPUTED = (np.dtype(np.int32), np.dtype(np.int64), np.dtype(np.float32), np.dtype(np.float64))
# What NumPy's arithmetic does to booleans.
_OF_BOOLEANS = {"add": "Or", "multiply": "And", "maximum": "Or", "minimum": "And"}
_LOGICAL = frozenset(("logical_and", "logical_or", "logical_xor", "logical_not"))

Function = Callable[..., Any]
# What NumPy's functions take: arrays of the graph, or whatever NumPy itself makes an array of.
Numbers: TypeAlias = "Array | ArrayLike"
Axis = int | Sequence[int] | None
# Implementations of NumPy's functions for arrays of the graph, by function; `implements` fills it.
FUNCTIONS: dict[Function, Function] = {}


def implements(*functions: Function) -> Callable[[Function], Function]:
    """Registers the decorated function as the implementation of functions of NumPy's for arrays of the graph."""

    def register(function: Function) -> Function:
        FUNCTIONS.update(dict.fromkeys(functions, function))
        return function

    return register


def _method(name: str) -> Function:
    """The method of an array that is NumPy's function of the same name."""
    return lambda array, *args, **kwargs: array._function(name, *args, **kwargs)


class Array(np.lib.mixins.NDArrayOperatorsMixin):
    """A value of the graph as a NumPy array.

    Attributes:
        op: the builder that writes what is computed with it.
        value: the graph's value; an in-place operation replaces it.

    >>> op = OpBuilder(21)
    >>> x = Array(op, op.input("x", ir.DataType.FLOAT, ["batch", 3]))
    >>> (np.exp(x) @ np.ones((3, 2))).dtype, (x * 2).dtype, np.sum(x > 0, axis=1).dtype
    (dtype('float64'), dtype('float32'), dtype('int64'))
    """

    __slots__ = ("op", "value")

    def __init__(self, op: OpBuilder, value: ir.Value) -> None:
        self.op = op
        self.value = value

    @property
    def dtype(self) -> np.dtype:
        """Its element type."""
        if self.value.dtype is None:
            raise UnsupportedOperator(f"the type of {self.value.name!r} is not known")
        return np.dtype(object) if self.value.dtype == ir.DataType.STRING else np.dtype(self.value.dtype.numpy())

    @property
    def shape(self) -> tuple[int | None, ...]:
        """Its sizes, None where they are known only at run time."""
        if self.value.shape is None:
            raise UnsupportedOperator(f"the rank of {self.value.name!r} is not known")
        return tuple(size if isinstance(size, int) else None for size in self.value.shape)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def T(self) -> Array:
        """Transposed."""
        return self.of(self.op.Transpose(self.value, perm=list(range(self.ndim))[::-1]))

    def of(self, value: ir.Value) -> Array:
        """Another value of the same graph."""
        return Array(self.op, value)

    def as_operand(self, op: OpBuilder) -> ir.Value:
        """The value, for an operator that the array is given to."""
        return self.value

    def const(self, value: object, dtype: DTypeLike = None) -> Array:
        """A constant, of NumPy's own type for it unless `dtype` is given."""
        return self.of(self.op.const(np.asarray(value, dtype)))

    def __len__(self) -> int:
        raise UnsupportedOperator("len(), the number of rows, is known only at run time: use shape[0]")

    def __bool__(self) -> bool:
        raise UnsupportedOperator("a condition on the data's values has no form in the graph: use numpy.where")

    def __iter__(self) -> Any:
        raise UnsupportedOperator("a loop over the data's rows has no form in the graph")

    def __array__(self, *args: object, **kwargs: object) -> np.ndarray:
        raise UnsupportedOperator(
            "a function that is not built of NumPy's ufuncs and functions can't be traced; in place of np.c_ and np.r_ write "
            "np.column_stack and np.concatenate"
        )

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: Numbers, out: tuple[object, ...] | None = None, **kwargs: DTypeLike
    ) -> Any:
        if method != "__call__" or kwargs.keys() - {"dtype", "casting"}:
            raise UnsupportedOperator(f"numpy.{ufunc.__name__}.{method} with {sorted(kwargs)} has no mapping")
        result = self._ufunc(ufunc, inputs, kwargs.get("dtype"))
        if out is None:
            return result
        (target,) = out
        if not isinstance(target, Array):
            raise UnsupportedOperator(f"numpy.{ufunc.__name__} writes into an array that is not in the graph")
        target.value = result.astype(target.dtype).value
        return target

    def _ufunc(self, ufunc: np.ufunc, inputs: Sequence[Any], dtype: DTypeLike) -> Array:
        name = ufunc.__name__
        lower = UFUNCS.get(name)
        if lower is None:
            raise UnsupportedOperator(f"the function numpy.{name} has no mapping")
        if name in ("equal", "not_equal") and any(getattr(item, "dtype", None) == object for item in inputs):
            return self._compare_strings(name, inputs)
        kinds = [_kind(item) for item in inputs]
        signature: dict[str, Any] = {} if dtype is None else {"signature": (*[None] * len(kinds), np.dtype(dtype))}
        *loop, result_dtype = ufunc.resolve_dtypes((*kinds, None), **signature)
        if dtype is not None:
            result_dtype = np.dtype(dtype)
        if name in _LOGICAL:
            loop = [np.dtype(bool)] * len(inputs)
        operands = [self._as(item, kind) for item, kind in zip(inputs, loop, strict=True)]
        if loop[0] == bool and name in _OF_BOOLEANS:
            return self.of(self.op.node(_OF_BOOLEANS[name], *operands))
        comparing = result_dtype == bool
        if loop[0] not in _COMPUTED and loop[0] != bool:
            wide = np.result_type(loop[0], np.float32 if loop[0].kind == "f" else np.int64)
            operands = [self._as(self.of(item), wide) for item in operands]
        result = self.of(lower(self.op, *operands))
        return result if comparing else result.astype(result_dtype)

    def _compare_strings(self, name: str, inputs: Sequence[Any]) -> Array:
        values = [item.value if isinstance(item, Array) else self.op.const(np.asarray(item, object)) for item in inputs]
        if self.op.opset < 19:
            raise UnsupportedOperator("strings are compared from opset 19 on: ask for a newer target_opset")
        equal = self.op.Equal(*values)
        return self.of(equal if name == "equal" else self.op.Not(equal))

    def _as(self, item: object, dtype: np.dtype) -> ir.Value:
        if isinstance(item, Array):
            return item.astype(dtype).value
        return self.op.const(np.asarray(item).astype(dtype))

    def __array_function__(
        self, function: Function, types: object, args: Sequence[object], kwargs: Mapping[str, object]
    ) -> Any:
        lowered = self.lowering(function)
        if lowered is None:
            raise UnsupportedOperator(f"the function numpy.{function.__name__} has no mapping")
        try:
            return lowered(*args, **kwargs)
        except TypeError as error:
            raise UnsupportedOperator(f"numpy.{function.__name__}: {error}") from error

    def lowering(self, function: Function) -> Callable[..., Any] | None:
        """The implementation of a function of NumPy's, if there is one."""
        return FUNCTIONS.get(function)

    def astype(self, dtype: DTypeLike, **_: object) -> Array:
        """In another element type."""
        wanted = np.dtype(dtype)
        if wanted == self.dtype:
            return self
        if wanted.kind in "OUS":
            raise UnsupportedOperator("numbers are turned into strings: that has no exact ONNX form")
        if self.dtype == object:
            raise UnsupportedOperator("strings are turned into numbers: that has no exact ONNX form")
        return self.of(self.op.cast(self.value, ir.DataType.from_numpy(wanted)))

    def copy(self, *_: object) -> Array:
        """The same value, apart from in-place operations."""
        return self.of(self.value)

    def toarray(self) -> Array:
        """What SciPy's sparse matrices have to become dense; the graph's are, and only how scikit-learn holds it changes."""
        return self.of(self.op.Identity(self.value))

    def reshape(self, *shape: int | Sequence[int | None] | None) -> Array:
        """In another shape; -1 stands for the rest."""
        sizes = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        if None in sizes:  # an unknown size of some array, as x.shape[0]
            sizes = self._without_unknown(list(sizes))
        return self.of(self.op.Reshape(self.value, [int(size) for size in sizes]))

    def _without_unknown(self, sizes: list[Any]) -> list[int]:
        """The sizes of another shape with -1 for the one that is unknown."""
        known = [size for size in sizes if size is not None and size != -1]
        own = [size for size in self.shape if size is not None]
        if sizes.count(None) > 1 or len(own) != self.ndim - 1 or 0 in known:
            raise UnsupportedOperator("a shape that is known only at run time")
        rest = int(np.prod(own)) // int(np.prod(known))
        return [-1 if size is None else rest if size == -1 else size for size in sizes]

    def ravel(self) -> Array:
        """In one dimension."""
        return self.reshape(-1)

    flatten = ravel

    def dot(self, other: Numbers) -> Array:
        """Matrix product."""
        return self @ other

    def _function(self, name: str, *args: object, **kwargs: object) -> Any:
        return self.__array_function__(getattr(np, name), (), (self, *args), kwargs)

    sum, mean, prod, cumsum, std, var = map(_method, ("sum", "mean", "prod", "cumsum", "std", "var"))
    max, min, argmax, argmin = map(_method, ("max", "min", "argmax", "argmin"))
    any, all, round, clip = map(_method, ("any", "all", "round", "clip"))

    def __getitem__(self, key: object) -> Array:
        """Basic indexing, and one integer or boolean index array."""
        keys = list(key) if isinstance(key, tuple) else [key]
        rest = next((place for place, item in enumerate(keys) if item is Ellipsis), None)
        if rest is not None:
            others = sum(item is not None for item in keys) - 1
            keys[rest : rest + 1] = [slice(None)] * (self.ndim - others)
        value, axis = self.value, 0
        fresh: list[int] = []
        for item in keys:
            if item is None:
                fresh.append(axis + len(fresh))
            elif isinstance(item, (int, np.integer)):
                value = self.op.Gather(value, np.int64(item), axis=axis)  # the axis is gone
            else:
                is_slice = isinstance(item, slice)
                value = _sliced(self.op, value, item, axis) if is_slice else _gathered(self.op, value, item, axis)
                axis += 1
        return self.of(self.op.Unsqueeze(value, self.op.axes(*fresh)) if fresh else value)

    def __setitem__(self, key: object, item: object) -> None:
        """Writes whole columns: x[:, i] = ..., x[:, [i, j]] = ..., or where a mask of the same shape is true."""
        if isinstance(key, Array) and key.dtype == bool:
            new = self._as(item, self.dtype)
            mask = key if key.ndim == self.ndim else key[(slice(None), *[None] * (self.ndim - key.ndim))]
            self.value = self.op.Where(mask.value, new, self.value)
            return
        if key is Ellipsis or (isinstance(key, slice) and key == slice(None)):
            key = (slice(None), slice(None))
        rows, columns = key if isinstance(key, tuple) and len(key) == 2 else (None, None)
        width = self.shape[1] if self.ndim == 2 else None
        if rows != slice(None) or width is None:
            raise UnsupportedOperator("writing into some rows of the data has no mapping: use numpy.where")
        places = np.atleast_1d(np.arange(width)[columns])
        part = item if isinstance(item, Array) else self.of(self.op.const(np.asarray(item)))
        part = part.astype(self.dtype)
        if part.ndim == 1 and not isinstance(columns, slice | list | np.ndarray):
            part = part[:, None]
        written = np.zeros(width, bool)
        written[places] = True
        source = np.zeros(width, np.int64)
        source[places] = np.arange(len(places))
        spread = part[:, source] if part.shape[-1] == len(places) and len(places) > 1 else part
        self.value = self.op.Where(self.op.const(written), spread.value, self.value)


def _kind(item: object) -> Any:
    """What NumPy's promotion looks at: a dtype, or the type of a Python number (NEP 50)."""
    if isinstance(item, (Array, np.ndarray, np.generic)):
        return item.dtype
    if type(item) in (int, float):
        return type(item)
    return np.asarray(item).dtype


def _sliced(op: OpBuilder, value: ir.Value, item: slice, axis: int) -> ir.Value:
    if item == slice(None):
        return value
    step = 1 if item.step is None else int(item.step)
    far = np.iinfo(np.int64).max
    start = (0 if step > 0 else far) if item.start is None else int(item.start)
    stop = (far if step > 0 else -far) if item.stop is None else int(item.stop)
    return op.Slice(value, [start], [stop], [axis], [step])


def _gathered(op: OpBuilder, value: ir.Value, item: object, axis: int) -> ir.Value:
    if isinstance(item, Array):
        if item.dtype == bool:
            raise UnsupportedOperator("rows are chosen by their values: the number of rows would change")
        return op.Gather(value, op.cast(item.value, _INT64), axis=axis)
    array = np.asarray(item)
    return op.Gather(value, np.flatnonzero(array) if array.dtype == bool else array.astype(np.int64), axis=axis)


def one_value(x: object) -> Any:
    """The graph's value of an array."""
    return x.value if isinstance(x, Array) else x
