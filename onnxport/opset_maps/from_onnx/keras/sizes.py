"""Sizes that only the running model has, and tensors of such sizes, in operations of Keras.

`keras.ops.shape` is no operation of a functional model, and the operations that take a shape take numbers. So a size is the sum
of as many ones as its axis is long, and a tensor gets it by broadcasting against a line of that length. Each function takes
what is known of the sizes and a primitive's arguments, and gives None where that is not possible.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import keras
import numpy as np
import onnx_ir as ir

from onnxport.opset_maps.from_onnx.values import TYPE_NAMES, Int, all_known, known

# Element types that both backends move and compare as they are.
MOVED = frozenset("float16 bfloat16 float32 float64 int8 uint8 int16 int32 int64 bool".split())
# So many rows for each row of a tensor: its id, and how many.
Rows: TypeAlias = tuple[int, int]
# Numbers up to this size stand in the model's description.
_WRITTEN_BYTES = 2048


class Sizes:
    """The sizes of a model that is being built: of which tensor's axis each one is.

    Attributes:
        first: the first input, whose axis 0 is the batch's.
        anchor: an input of numbers, on which what has no operand of its own is computed; None where there is none.
    """

    def __init__(self) -> None:
        self.first: Any = None
        self.anchor: Any = None
        self._rows: dict[int, tuple[Any, Rows]] = {}
        self._sources: dict[int, tuple[Any, Any, int, int]] = {}
        self._ones: dict[tuple[int, int], tuple[Any, Any]] = {}
        self._nothing: Any = None
        self._counts: dict[int, tuple[Any, Any]] = {}
        self._flat: dict[int, tuple[Any, Any]] = {}
        self._starts: dict[tuple[int, int], tuple[Any, Any]] = {}

    @property
    def batch(self) -> Rows:
        """The rows of the first input."""
        return id(self.first), 1

    def mark(self, x: object, rows: Rows) -> None:
        """Axis 0 of a tensor has so many rows from now on."""
        self._rows[id(x)] = x, rows

    def rows(self, x: Any) -> Rows | None:
        """How many rows axis 0 of a tensor has, where that is not known: so many for each row of the tensor of an id."""
        if x is self.first:
            return self.batch
        if id(x) not in self._rows:
            if not getattr(x, "shape", ()) or x.shape[0] is not None:
                return None
            self.mark(x, (id(x), 1))
        return self._rows[id(x)][1]

    def has_batch(self, x: object) -> bool:
        """Whether axis 0 of `x` is the batch's for certain."""
        return self.rows(x) == self.batch

    def note(self, size: object, x: object, axis: int, factor: int = 1) -> None:
        """`size` is so many times that of an axis of `x`."""
        self._sources[id(size)] = size, x, axis, factor

    def source(self, n: object) -> tuple[Any, int, int] | None:
        """The tensor, its axis and how many times that axis' size it is; None for a number that the model computes."""
        noted = self._sources.get(id(n))
        return None if noted is None else noted[1:]

    def rows_of(self, n: object) -> Rows | None:
        """The rows that a size is the number of; None for that of another axis, or a number that the model computes."""
        source = self.source(n)
        rows = self.rows(source[0]) if source is not None and source[1] == 0 else None
        return None if source is None or rows is None else (rows[0], rows[1] * source[2])

    def same(self, a: object, b: object) -> bool:
        """Whether two sizes are surely one."""
        one, other = self.source(a), self.source(b)
        if one is None or other is None:
            return False
        alike = one[0] is other[0] and one[1:] == other[1:]
        return alike or (self.rows_of(a) is not None and self.rows_of(a) == self.rows_of(b))

    def is_of(self, n: object, x: Any, axis: int) -> bool:
        """Whether a size is that of an axis of `x`, or the batch's as that axis is."""
        source = self.source(n)
        if source is None or axis < 0:
            return False
        if source[0] is x and source[1:] == (axis, 1):
            return True
        return axis == 0 and self.rows_of(n) is not None and self.rows_of(n) == self.rows(x)

    def nothing(self) -> Any:
        """A scalar that is false whatever the inputs are; None where no input is of numbers."""
        if self._nothing is None and self.anchor is not None:
            none = self.anchor[(slice(0, 0),)] if self.anchor.shape else keras.ops.zeros_like(self.anchor)
            self._nothing = keras.ops.any(none)
        return self._nothing

    def line(self, n: object) -> Any:
        """A vector of as many ones (INT64) as the size; None where its number can't be had."""
        source = self.source(n)
        if source is None and isinstance(n, keras.KerasTensor) and n.dtype == "int64" and n.shape == ():
            return self._counted(n)
        if source is None or source[0].dtype not in MOVED:
            return None
        x, axis, factor = source
        if (id(x), axis) not in self._ones:
            self._ones[id(x), axis] = x, _ones_along(x, axis)
            if axis == 0 and (rows := self.rows(x)) is not None:
                self.mark(self._ones[id(x), axis][1], rows)
        ones = self._ones[id(x), axis][1]
        return ones if factor == 1 else keras.ops.repeat(ones, factor, axis=0)

    def _counted(self, n: Any) -> Any:
        """As many ones as a number that the model computes: there is one count for each number up to the greatest."""
        if id(n) not in self._counts:
            counts = keras.ops.bincount(keras.ops.reshape(keras.ops.maximum(n, np.asarray(0)), (1,)))
            self._counts[id(n)] = n, keras.ops.ones_like(counts[(slice(1, None),)], dtype="int64")
        return self._counts[id(n)][1]

    def length(self, x: Any, axis: int) -> Any:
        """The size of an axis as an operand of arithmetic of INT64; None where it can't be had."""
        if known(x.shape[axis]):
            return np.asarray(x.shape[axis])
        token = object()
        self.note(token, x, axis)
        line = self.line(token)
        return None if line is None else as_int64(keras.ops.sum(line))

    def flat(self, x: Any) -> Any:
        """The elements of a tensor in one row."""
        if id(x) not in self._flat:
            self._flat[id(x)] = x, keras.ops.reshape(x, (-1,))
        return self._flat[id(x)][1]

    def starts(self, x: Any) -> Any:
        """Where the rows of a matrix start in it, negated, [rows, 1]; None where the number of its columns is not known."""
        columns, token = x.shape[1], object()
        key = id(self.first if self.has_batch(x) else x), columns
        if columns is None:
            return None
        if key not in self._starts:
            self.note(token, x, 0)
            line = self.line(token)
            if line is None:
                return None
            ends = as_int64(keras.ops.multiply(keras.ops.cumsum(line, axis=0), np.asarray(-columns)))
            self._starts[key] = x, keras.ops.reshape(keras.ops.subtract(ends, np.asarray(-columns)), (-1, 1))
        return self._starts[key][1]


def _corner(x: Any, axis: int) -> Any:
    """`x` cut to at most one element along all axes but `axis`."""
    # Also where a size is held to be 1: on PyTorch Keras takes one that only the running model has for that.
    return x if len(x.shape) == 1 else x[tuple(slice(None) if i == axis else slice(0, 1) for i in range(len(x.shape)))]


def _ones_along(x: Any, axis: int) -> Any:
    ones = keras.ops.ones_like(_corner(x, axis), dtype="int64")
    others = [n for i, n in enumerate(ones.shape) if i != axis]
    if not others:
        return ones
    if all(known(n) and x.shape[i] not in (None, 0) for i, n in enumerate(ones.shape) if i != axis):
        return keras.ops.reshape(ones, (-1,))
    # An axis of no elements beside it does not shorten this one: the sum of nothing is there too.
    along = keras.ops.sum(ones, axis=[i for i in range(len(ones.shape)) if i != axis])
    return keras.ops.ones_like(along, dtype="int64")


def as_int64(x: Any) -> Any:
    """A tensor of whole numbers as one of INT64."""
    # Keras holds a product with a constant to be sparse (3.15).
    return x if x.dtype == "int64" and not x.sparse else keras.ops.cast(x, "int64")


def _axis_size(sizes: Sizes, x: Any, axis: int) -> Any:
    fits = isinstance(x, keras.KerasTensor) and x.shape is not None and x.dtype in MOVED
    return sizes.length(x, axis) if fits else None


_ARITHMETIC: dict[str, Callable[..., Any]] = {
    "add": keras.ops.add,
    "sub": keras.ops.subtract,
    "mul": keras.ops.multiply,
    "floor_div": keras.ops.floor_divide,
    "mod": keras.ops.mod,
    "min": keras.ops.minimum,
    "max": keras.ops.maximum,
    "neg": keras.ops.negative,
    "abs": keras.ops.absolute,
    "eq": keras.ops.equal,
    "lt": keras.ops.less,
    "le": keras.ops.less_equal,
    "and": keras.ops.logical_and,
    "or": keras.ops.logical_or,
    "not": keras.ops.logical_not,
    "where": keras.ops.where,
}


def int_arithmetic(sizes: Sizes, name: str, *operands: Int) -> Any:
    """A step of `Namespace.int_op` on scalars of INT64."""
    items: list[Any] = [
        item if isinstance(item, keras.KerasTensor) else np.asarray(item, bool if isinstance(item, bool) else np.int64)
        for item in operands
    ]
    if any(item.dtype not in ("int64", "bool") or item.shape != () for item in items):
        return None
    if name == "ceil_div":  # -(-a // b)
        items = [keras.ops.negative(items[0]), items[1]]
        return keras.ops.negative(as_int64(keras.ops.floor_divide(*items)))
    if name == "div":  # toward zero
        a, b = items
        return as_int64(quotient(a, b, "int64"))
    result = _ARITHMETIC[name](*items)
    return result if result.dtype == "bool" else as_int64(result)


def quotient(a: Any, b: Any, dtype: str) -> Any:
    """The integers a / b toward zero, in which no step leaves the type: the least integer has no magnitude in it.

    One of the two is a tensor of Keras.
    """
    least, zero, one = (np.asarray(item, dtype) for item in (np.iinfo(dtype).min, 0, 1))
    if not np.issubdtype(dtype, np.signedinteger):
        return keras.ops.floor_divide(a, b)
    of_a, of_b = (keras.ops if isinstance(item, keras.KerasTensor) else np for item in (a, b))
    negative, is_least = of_a.less(a, zero), of_b.equal(b, least)
    size = of_b.where(is_least, one, of_b.absolute(b))
    counted = of_a.where(negative, of_a.subtract(of_a.negative(a), one), a)  # of -n it is n - 1
    steps = keras.ops.floor_divide(counted, size)
    reached = keras.ops.equal(keras.ops.subtract(counted, keras.ops.multiply(steps, size)), of_b.subtract(size, one))
    one_more = keras.ops.cast(keras.ops.logical_and(negative, reached), dtype)
    steps = keras.ops.subtract(steps, keras.ops.negative(one_more))  # Keras (3.15) adds some shapes as a bias
    result = keras.ops.where(keras.ops.not_equal(negative, of_b.less(b, zero)), keras.ops.negative(steps), steps)
    if of_b is np and not np.any(is_least):
        return result
    return keras.ops.where(is_least, keras.ops.cast(keras.ops.equal(a, least), dtype), result)


def _whole(sizes: Sizes, x: Any) -> Any:
    return keras.ops.cast(x, "int64") if isinstance(x, keras.KerasTensor) and x.dtype in MOVED else None


def _element(sizes: Sizes, x: Any, index: int) -> Any:
    if not isinstance(x, keras.KerasTensor) or x.dtype not in ("int32", "int64") or len(x.shape) != 1:
        return None
    return as_int64(x[index])


def _vector(sizes: Sizes, items: Sequence[Any], shape: Sequence[int], dtype: ir.DataType) -> Any:
    held = TYPE_NAMES.get(dtype)
    parts = [item if isinstance(item, keras.KerasTensor) else np.asarray(item) for item in items]
    whole = all(part.dtype in ("int64", "int32") and part.shape == () for part in parts)
    if not parts or not whole or held not in ("int32", "int64", "float32", "float64"):
        return None
    if len(parts) == 1:
        x = keras.ops.reshape(parts[0], tuple(shape)) if len(shape) else parts[0]
    else:
        rows = [
            keras.ops.reshape(part, (1,)) if is_recorded_tensor(part) else part.astype("int64").reshape(1)
            for part in parts
        ]
        x = keras.ops.concatenate([row if not is_recorded_tensor(row) else as_int64(row) for row in rows])
        x = x if len(shape) == 1 else keras.ops.reshape(x, tuple(shape))
    return x if x.dtype == held else keras.ops.cast(x, held)


def _given(sizes: Sizes, anchor: Any, constant: Any) -> Any:
    if isinstance(constant, keras.KerasTensor):
        return constant
    nothing = sizes.nothing()
    if not isinstance(constant, np.ndarray) or constant.dtype.name not in MOVED or nothing is None:
        return None
    row = constant.reshape(-1)  # of an array without axes Keras' files keep the number alone
    x = keras.ops.where(nothing, row, row)
    x = x if x.dtype == constant.dtype.name else keras.ops.cast(x, constant.dtype.name)
    return x if constant.ndim == 1 else keras.ops.reshape(x, constant.shape)


def _expand(sizes: Sizes, x: Any, shape: Sequence[Int]) -> Any:
    """x against a tensor of that shape: repeated by numbers that are known, broadcast to lines of the others."""
    if not isinstance(x, (keras.KerasTensor, np.ndarray)) or x.shape is None or type_name(x) not in MOVED:
        return None
    if not x.shape and isinstance(x, np.ndarray):
        x = x.reshape((1,) * len(shape))  # of an array without axes Keras' files keep the number alone
    rank = max(len(x.shape), len(shape))
    own: list[int | None] = [1] * (rank - len(x.shape)) + list(x.shape)
    wanted: list[Int] = [*[1] * (rank - len(shape)), *shape]
    repeats, flags = [1] * rank, []
    for axis, (n, m) in enumerate(zip(own, wanted, strict=True)):
        if (known(m) and m == 1) or sizes.is_of(m, x, axis - rank + len(x.shape)):
            continue
        if known(m) and (n == m or n == 1):
            repeats[axis] = 1 if n == m else int(m)
            continue
        line = np.ones(int(m), bool) if known(m) else sizes.line(m)
        if line is None or (isinstance(line, np.ndarray) and line.nbytes > _WRITTEN_BYTES):
            return None
        shaped = [-1 if i == axis else 1 for i in range(rank)]
        flags.append(line.reshape(shaped) if isinstance(line, np.ndarray) else _flag(line, shaped))
    if not isinstance(x, keras.KerasTensor) and all(isinstance(flag, np.ndarray) for flag in flags):
        return None
    if flags:
        condition = flags[0]
        for flag in flags[1:]:
            condition = keras.ops.logical_and(condition, flag)
        held, x = type_name(x), keras.ops.where(condition, x, x)
        x = x if x.dtype == held else keras.ops.cast(x, held)
    if len(x.shape) < rank:
        x = keras.ops.expand_dims(x, tuple(range(rank - len(x.shape))))
    x = x if all(n == 1 for n in repeats) else keras.ops.tile(x, repeats)
    rows = sizes.rows_of(wanted[0]) if wanted else None
    if rows is not None and (own[0] == 1 or sizes.is_of(wanted[0], x, 0)):
        sizes.mark(x, rows)
    return x


def _flag(line: Any, shape: Sequence[int]) -> Any:
    return keras.ops.cast(line if len(shape) == 1 else keras.ops.reshape(line, shape), "bool")


def is_recorded_tensor(x: object) -> bool:
    """Whether it is a symbolic tensor."""
    return isinstance(x, keras.KerasTensor)


def type_name(x: Any) -> str:
    """The element type of a symbolic tensor or an array."""
    return x.dtype if isinstance(x, keras.KerasTensor) else x.dtype.name


def _tile(sizes: Sizes, x: Any, repeats: Sequence[Int]) -> Any:
    """Repeated by numbers that only the running model has along axes of size 1 alone."""
    if type_name(x) not in MOVED or x.shape is None or len(repeats) != len(x.shape):
        return None
    if any(not known(n) and size != 1 for n, size in zip(repeats, x.shape, strict=True)) or 0 in repeats:
        return None
    wide = _expand(sizes, x, [1 if known(n) else n for n in repeats])
    if wide is None or all(n == 1 for n in repeats if known(n)):
        return wide
    return keras.ops.tile(wide, [int(n) if known(n) else 1 for n in repeats])


def _full(sizes: Sizes, shape: Sequence[Int], fill: object, dtype: ir.DataType) -> Any:
    held = TYPE_NAMES.get(dtype)
    if all_known(shape) or held not in MOVED or not isinstance(fill, (bool, int, float, np.ndarray)):
        return None
    if math.prod(n for n in shape if known(n)) * 8 > _WRITTEN_BYTES:
        return None
    array = np.full([int(n) if known(n) else 1 for n in shape], np.reshape(fill, ()), held)
    return _expand(sizes, array, shape)


def _arange(sizes: Sizes, start: Int, stop: Int, step: Int = 1, dtype: ir.DataType = ir.DataType.INT64) -> Any:
    held = TYPE_NAMES.get(dtype)
    if not known(start) or start != 0 or not known(step) or step != 1 or held not in ("int32", "int64"):
        return None
    line = sizes.line(stop)
    if line is None:
        return None
    places = keras.ops.subtract(keras.ops.cumsum(line, axis=0), np.asarray(1))
    return places if places.dtype == held else keras.ops.cast(places, held)


SIZED: dict[str, Callable[..., Any]] = {
    "axis_size": _axis_size,
    "int_op": int_arithmetic,
    "int": _whole,
    "element": _element,
    "vector": _vector,
    "given": _given,
    "expand": _expand,
    "broadcast_to": _expand,
    "full": _full,
    "tile": _tile,
    "arange": _arange,
}
