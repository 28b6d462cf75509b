"""Sizes that only the running model has, and tensors of such sizes, in operations of Keras.

`keras.ops.shape` is no operation of a functional model, and the operations that take a shape take numbers. So a size is the sum
of as many ones as its axis is long, and a tensor gets it by broadcasting against a line of that length. Each function takes
what is known of the sizes and a primitive's arguments, and gives None where that is not possible.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import onnx_ir as ir

from onnxport.opset_maps.from_onnx.values import TYPE_NAMES, Array, Int, all_known, known

# Element types that both backends move and compare as they are.
MOVED = frozenset("float16 bfloat16 float32 float64 int8 uint8 int16 int32 int64 bool".split())
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
        self._multiples: dict[int, tuple[Any, int]] = {}
        self._sources: dict[int, tuple[Any, Any, int, int]] = {}
        self._ones: dict[tuple[int, int], tuple[Any, Any]] = {}
        self._nothing: Any = None
        self._flat: dict[int, tuple[Any, Any]] = {}
        self._starts: dict[tuple[int, int], tuple[Any, Any]] = {}

    def mark_batch(self, x: object, multiple: int = 1) -> None:
        """Axis 0 of a tensor has so many rows for each element of the batch from now on."""
        self._multiples[id(x)] = x, multiple

    def multiple(self, x: object) -> int | None:
        """How many rows for each element of the batch axis 0 of a tensor has; None where that is not certain."""
        return 1 if x is self.first else self._multiples.get(id(x), (None, None))[1]

    def has_batch(self, x: object) -> bool:
        """Whether axis 0 of `x` is the batch's for certain."""
        return self.multiple(x) == 1

    def note(self, size: object, x: object, axis: int, factor: int = 1) -> None:
        """`size` is so many times that of an axis of `x`."""
        self._sources[id(size)] = size, x, axis, factor

    def source(self, n: object) -> tuple[Any, int, int] | None:
        """The tensor, its axis and how many times that axis' size it is; None for a number that the model computes."""
        noted = self._sources.get(id(n))
        return None if noted is None else noted[1:]

    def batches(self, n: object) -> int | None:
        """How many times the batch's size it is; None where that is not certain."""
        source = self.source(n)
        multiple = self.multiple(source[0]) if source is not None and source[1] == 0 else None
        return None if source is None or multiple is None else multiple * source[2]

    def same(self, a: object, b: object) -> bool:
        """Whether two sizes are surely one."""
        one, other = self.source(a), self.source(b)
        if one is None or other is None:
            return False
        alike = one[0] is other[0] and one[1:] == other[1:]
        return alike or (self.batches(a) is not None and self.batches(a) == self.batches(b))

    def is_of(self, n: object, x: Any, axis: int) -> bool:
        """Whether a size is that of an axis of `x`, or the batch's as that axis is."""
        source = self.source(n)
        if source is None or axis < 0:
            return False
        if source[0] is x and source[1:] == (axis, 1):
            return True
        return axis == 0 and self.batches(n) is not None and self.batches(n) == self.multiple(x)

    def nothing(self) -> Any:
        """A scalar that is false whatever the inputs are; None where no input is of numbers."""
        if self._nothing is None and self.anchor is not None:
            none = self.anchor[(slice(0, 0),)] if self.anchor.shape else keras.ops.zeros_like(self.anchor)
            self._nothing = keras.ops.any(none)
        return self._nothing

    def line(self, n: object) -> Any:
        """A vector of as many ones (INT64) as the size; None where it is not that of an axis."""
        source = self.source(n)
        if source is None or source[0].dtype not in MOVED:
            return None
        x, axis, factor = source
        if (id(x), axis) not in self._ones:
            self._ones[id(x), axis] = x, _ones_along(x, axis)
            if axis == 0 and (multiple := self.multiple(x)) is not None:
                self.mark_batch(self._ones[id(x), axis][1], multiple)
        ones = self._ones[id(x), axis][1]
        return ones if factor == 1 else keras.ops.repeat(ones, factor, axis=0)

    def flat(self, x: Any) -> Any:
        """The elements of a matrix in one row."""
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
            ends = _as_int64(keras.ops.multiply(keras.ops.cumsum(line, axis=0), np.asarray(-columns)))
            self._starts[key] = x, keras.ops.reshape(keras.ops.subtract(ends, np.asarray(-columns)), (-1, 1))
        return self._starts[key][1]


def _corner(x: Any, axis: int | None) -> Any:
    """`x` cut to at most one element along all axes but `axis`."""
    key = tuple(slice(None) if i == axis or n == 1 else slice(0, 1) for i, n in enumerate(x.shape))
    return x if all(part == slice(None) for part in key) else x[key]


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


def _as_int64(x: Any) -> Any:
    # Keras holds a product with a constant to be sparse (3.15).
    return x if x.dtype == "int64" and not x.sparse else keras.ops.cast(x, "int64")


def _axis_size(sizes: Sizes, x: Any, axis: int) -> Any:
    if not isinstance(x, keras.KerasTensor) or x.shape is None or x.dtype not in MOVED:
        return None
    token = object()
    sizes.note(token, x, axis)
    return _as_int64(keras.ops.sum(sizes.line(token)))


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


def _int_op(sizes: Sizes, name: str, *operands: Int) -> Any:
    items: list[Any] = [
        item if isinstance(item, keras.KerasTensor) else np.asarray(item, bool if isinstance(item, bool) else np.int64)
        for item in operands
    ]
    if any(item.dtype not in ("int64", "bool") or item.shape != () for item in items):
        return None
    if name == "ceil_div":  # -(-a // b)
        items = [keras.ops.negative(items[0]), items[1]]
        return keras.ops.negative(_as_int64(keras.ops.floor_divide(*items)))
    if name == "div":  # toward zero
        a, b = items
        size = keras.ops.floor_divide(keras.ops.absolute(a), keras.ops.absolute(b))
        opposite = keras.ops.not_equal(keras.ops.less(a, np.asarray(0)), keras.ops.less(b, np.asarray(0)))
        return _as_int64(keras.ops.where(opposite, keras.ops.negative(size), size))
    result = _ARITHMETIC[name](*items)
    return result if result.dtype == "bool" else _as_int64(result)


def _whole(sizes: Sizes, x: Any) -> Any:
    return keras.ops.cast(x, "int64") if isinstance(x, keras.KerasTensor) and x.dtype in MOVED else None


def _element(sizes: Sizes, x: Any, index: int) -> Any:
    if not isinstance(x, keras.KerasTensor) or x.dtype not in ("int32", "int64") or len(x.shape) != 1:
        return None
    return _as_int64(x[index])


def _vector(sizes: Sizes, items: Sequence[Any], shape: Sequence[int], dtype: ir.DataType) -> Any:
    held = TYPE_NAMES.get(dtype)
    parts = [item if isinstance(item, keras.KerasTensor) else np.asarray(item) for item in items]
    whole = all(part.dtype in ("int64", "int32") and part.shape == () for part in parts)
    if not parts or not whole or held not in ("int32", "int64", "float32", "float64"):
        return None
    if len(parts) == 1:
        x = keras.ops.reshape(parts[0], tuple(shape)) if len(shape) else parts[0]
    else:
        rows = [keras.ops.reshape(part, (1,)) if _symbolic(part) else part.astype("int64").reshape(1) for part in parts]
        x = keras.ops.concatenate([row if not _symbolic(row) else _as_int64(row) for row in rows])
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
    if not isinstance(x, (keras.KerasTensor, np.ndarray)) or x.shape is None or _name(x) not in MOVED:
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
        held, x = _name(x), keras.ops.where(condition, x, x)
        x = x if x.dtype == held else keras.ops.cast(x, held)
    if len(x.shape) < rank:
        x = keras.ops.expand_dims(x, tuple(range(rank - len(x.shape))))
    x = x if all(n == 1 for n in repeats) else keras.ops.tile(x, repeats)
    multiple = sizes.batches(wanted[0])
    if multiple is not None and (own[0] == 1 or sizes.is_of(wanted[0], x, 0)):
        sizes.mark_batch(x, multiple)
    return x


def _flag(line: Any, shape: Sequence[int]) -> Any:
    return keras.ops.cast(line if len(shape) == 1 else keras.ops.reshape(line, shape), "bool")


def _symbolic(x: object) -> bool:
    return isinstance(x, keras.KerasTensor)


def _name(x: Any) -> str:
    return x.dtype if isinstance(x, keras.KerasTensor) else x.dtype.name


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


def _take_along_axis(sizes: Sizes, x: Any, indices: Any, axis: int) -> Any:
    """Of as many rows as there are of indices; of a matrix from its elements in one row, which is one look-up."""
    if _name(x) not in MOVED or _name(indices) not in ("int32", "int64") or x.shape is None:
        return None
    rows = [(i, n, m) for i, (n, m) in enumerate(zip(x.shape, indices.shape, strict=True)) if i != axis]
    multiple = sizes.multiple(x) if sizes.multiple(x) == sizes.multiple(indices) else None
    if not all(n == m if known(n) and known(m) else i == 0 and multiple is not None and n is m for i, n, m in rows):
        return None
    if len(x.shape) != 2 or axis != 1 or not x.shape[1] or not isinstance(x, keras.KerasTensor):
        return keras.ops.take_along_axis(x, indices, axis=int(axis))
    first = sizes.starts(x)
    if first is None:
        return keras.ops.take_along_axis(x, indices, axis=int(axis))
    # Keras' sum takes indices of no rows for a bias; it would be the same number.
    places = keras.ops.subtract(indices if _name(indices) == "int64" else keras.ops.cast(indices, "int64"), first)
    result = keras.ops.take(sizes.flat(x), _as_int64(places), axis=0)
    if multiple is not None:
        sizes.mark_batch(result, multiple)
    return result


def _gather_nd(sizes: Sizes, x: Any, indices: Any, batch_dims: int = 0) -> Any:
    """At index tuples of all axes but the last ones: a look-up by their places in row-major order."""
    depth = indices.shape[-1] if indices.shape else None
    if batch_dims or not known(depth) or not depth or _name(x) not in MOVED or not isinstance(x, keras.KerasTensor):
        return None
    inner, rest = x.shape[1:depth], x.shape[depth:]
    if not all(known(n) and n for n in (*inner, *rest)) or not _symbolic(indices):
        return None
    if indices.dtype not in ("int32", "int64"):
        return None
    indices = _as_int64(indices)
    place = indices[..., 0]
    for i, n in enumerate(inner, 1):
        place = keras.ops.subtract(indices[..., i], _as_int64(keras.ops.multiply(place, np.asarray(-n))))
    flat = keras.ops.reshape(x, (-1, *rest)) if depth > 1 else x
    return keras.ops.take(flat, place, axis=0)


# Whole numbers as Keras' tables hold them on both backends: PyTorch takes no variable of integers for trainable.
_TABLE_TYPES = {"int8": "float16", "uint8": "float16", "int16": "float32", "int32": "float64", "int64": "float64"}
# Reading a longer table takes longer than what a model without onnxport is worth.
_TABLE_BYTES = 1 << 22


class _OneRow(keras.layers.Embedding):
    """An Embedding of one row, which is read without a look-up.

    Keras writes a layer by the module and name of its class: in a file this one is the Embedding that gives the same.
    """

    __module__ = keras.layers.Embedding.__module__
    __qualname__ = keras.layers.Embedding.__qualname__

    def call(self, inputs: object) -> Any:
        """The row, for an index without axes."""
        return keras.ops.reshape(self.embeddings, (self.output_dim,))


_OneRow.__name__ = keras.layers.Embedding.__name__


def carried(sizes: Sizes, array: Array, name: str, trainable: bool) -> Any:
    """A weight that no other layer holds: the only row of an Embedding's table, from which it is read exactly.

    Args:
        sizes: of the model.
        array: the weight's content.
        name: of the layer.
        trainable: whether it is trained.
    """
    kind = array.dtype.name
    held = _TABLE_TYPES.get(kind, kind)
    table = array.astype(held).reshape(1, -1)
    nothing = sizes.nothing()
    if kind not in MOVED - {"bool"} or not 0 < table.nbytes <= _TABLE_BYTES or nothing is None:
        return None
    if held != kind and not np.array_equal(table.astype(kind).reshape(array.shape), array):
        return None
    layer = _OneRow(1, table.size, embeddings_initializer="zeros", trainable=trainable, dtype=held, name=name)
    layer.build()
    layer.set_weights([table])
    row = layer(nothing)
    row = row if held == kind else keras.ops.cast(row, kind)
    return row if len(array.shape) == 1 else keras.ops.reshape(row, array.shape)


SIZED: dict[str, Callable[..., Any]] = {
    "axis_size": _axis_size,
    "int_op": _int_op,
    "int": _whole,
    "element": _element,
    "vector": _vector,
    "given": _given,
    "expand": _expand,
    "broadcast_to": _expand,
    "full": _full,
    "arange": _arange,
    "take_along_axis": _take_along_axis,
    "gather_nd": _gather_nd,
}
