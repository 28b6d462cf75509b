"""Rows of the types that ``initial_types`` names, for the proof: numbers, and the words that the estimator knows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from onnxport.compat.skl2onnx.common.data_types import KNOWN, StringTensorType
from onnxport.errors import InvalidInputError

_ROWS = 8


def drawn(model: Any, types: Sequence[tuple[str, Any]]) -> Any:
    """A few rows of the types: one matrix, else a table with a column for each.

    Raises:
        InvalidInputError: a type is not known, or several are not columns.
    """
    rng = np.random.default_rng(0)
    if len(types) == 1:
        ((name, kind),) = types
        array = _array(kind, name, rng, getattr(model, "n_features_in_", 1))
        if array.dtype == object and array.size == _ROWS and _reads_text(model):
            return list(array.ravel())
        for column, values in _categories(model, range(array.shape[-1])).items():
            array[..., column] = rng.choice(values, _ROWS)
        return array
    arrays = {name: _array(kind, name, rng, 1) for name, kind in types}
    if any(array.ndim != 2 or array.shape[1] != 1 for array in arrays.values()):
        raise InvalidInputError(
            "skl2onnx: several inputs are columns of a table, each [None, 1]: give rows to to_onnx(model, X)"
        )
    for name, values in _categories(model, list(arrays)).items():
        arrays[name][:, 0] = rng.choice(values, _ROWS)
    import pandas

    return pandas.DataFrame({name: array[:, 0] for name, array in arrays.items()})


def in_columns(proto: onnx.ModelProto, types: Sequence[tuple[str, Any]]) -> onnx.ModelProto:
    """The message with its documents in a column, in place, where their type is ``[None, 1]`` and the graph takes a list."""
    graph = proto.graph
    for value, (name, kind) in zip(graph.input, types, strict=False):
        dims = value.type.tensor_type.shape.dim
        if isinstance(kind, StringTensorType) and list(kind.shape)[1:] == [1] and len(dims) == 1:
            inner, shape = f"{name}/list", f"{name}/shape"
            _reads(graph, name, inner)
            graph.initializer.append(numpy_helper.from_array(np.array([-1], np.int64), shape))
            graph.node.insert(0, helper.make_node("Reshape", [name, shape], [inner], inner))
            dims.add().dim_value = 1
    return proto


def _reads(graph: onnx.GraphProto, name: str, other: str) -> None:
    """Has every node of a graph, and of those within, read `other` for `name`."""
    for node in graph.node:
        node.input[:] = [other if item == name else item for item in node.input]
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                _reads(inner, name, other)


def sizes_of(types: Sequence[tuple[str, Any]]) -> dict[str, object]:
    """The number of rows where a type fixes or names it, as `OnnxModel.set_shapes` takes it."""
    leading = {name: next(iter(kind.shape)) for name, kind in types if getattr(kind, "shape", None)}
    return {f"{name}:0": size for name, size in leading.items() if size is not None}


def _categories(model: Any, names: Sequence[Any]) -> dict[Any, np.ndarray]:
    """By column the values that an encoder has seen, which may refuse all others; `names` are the columns that come."""
    known = getattr(model, "categories_", None)
    if known is not None and len(known) == len(names):
        return {name: values[~_missing(values)] for name, values in zip(names, known, strict=True)}
    result: dict[Any, np.ndarray] = {}
    for _, part, columns in getattr(model, "transformers_", ()):
        taken = _taken(columns, names)
        result |= {} if taken is None or isinstance(part, str) else _categories(part, taken)
    for _, part in getattr(model, "transformer_list", ()):
        result |= _categories(part, names)
    for _, part in getattr(model, "steps", ()):
        if part is None or isinstance(part, str):  # passthrough
            continue
        if getattr(part, "n_features_in_", len(names)) != len(names):
            break  # the columns are others from here on
        result |= {name: values for name, values in _categories(part, names).items() if name not in result}
    best = getattr(model, "best_estimator_", None)
    return result if best is None else _categories(best, names)


def _taken(columns: Any, names: Sequence[Any]) -> list[Any] | None:
    """The names of the columns that a step of a ColumnTransformer takes; None where that is not known."""
    if isinstance(columns, str):
        columns = [columns]
    if isinstance(columns, slice):
        return list(names[columns]) if not isinstance(columns.start or columns.stop, str) else None
    if callable(columns):
        return None
    array = np.atleast_1d(columns)
    if array.dtype == bool:
        array = np.flatnonzero(array)
    items = [names[item] if isinstance(item, int) and item < len(names) else item for item in array.tolist()]
    return items if set(items) <= set(names) else None


def _missing(values: np.ndarray) -> np.ndarray:
    """Where values are missing: NaN or None."""
    return np.array([item is None or item != item for item in values.tolist()], bool)


def _reads_text(model: Any) -> bool:
    """Whether the first step takes documents, not a table of words."""
    while getattr(model, "steps", None):
        model = model.steps[0][1]
    return hasattr(model, "build_analyzer")


def _array(kind: Any, name: str, rng: np.random.Generator, columns: int) -> np.ndarray:
    """Rows of a type; a width that it leaves open is `columns`."""
    known = KNOWN.get(type(kind).__name__)
    if known is None:
        given = f"the class {kind.__name__}" if isinstance(kind, type) else type(kind).__name__
        raise InvalidInputError(
            f"skl2onnx: initial_types: {name!r} is {given}; it can be FloatTensorType([None, 4]) or another of {', '.join(KNOWN)}"
        )
    shape = [_ROWS, *(size if isinstance(size, int) else columns for size in (list(kind.shape) or [None, None])[1:])]
    draw: Callable[..., Any] = {"b": rng.integers, "i": rng.integers, "u": rng.integers, "O": rng.integers}.get(
        np.dtype(known.numpy).kind, rng.standard_normal
    )
    values = draw(0, 2, shape) if draw == rng.integers else draw(shape)
    return (
        np.asarray(np.char.add("word", values.astype(str)), object)
        if known is StringTensorType
        else values.astype(known.numpy)
    )
