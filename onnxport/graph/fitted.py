"""The constants of a graph, and what of an estimator's fitted numbers stands in them: written into the file for the way back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx_ir as ir

ESTIMATOR = "onnxport.estimator"  # the metadata key of the file: the estimator's class, parameters and fitted attributes as JSON
# Parameters that concern the fit or the machine alone, and may name files or processes.
NOT_IN_FILES = frozenset(("n_jobs", "verbose", "memory", "warm_start", "cache_size", "copy_X", "pre_dispatch"))

# How a fitted number follows from the constant that the graph holds in its place; the first are tried for any size.
VIEWS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "": lambda x: x,
    "negative": np.negative,
    "reciprocal": lambda x: 1.0 / x,
    "square": np.square,
    "sqrt": np.sqrt,
    "exp": np.exp,
    "log": np.log,
    "half square": lambda x: np.square(x) / 2,
    "negative reciprocal": lambda x: -1.0 / x,
    "reciprocal square": lambda x: 1.0 / np.square(x),
}
_SMALL = 256  # elements of an array whose place is kept
_ROUNDING = {"float64": 2e-15, "float32": 4e-7}


def constants_of(model: ir.Model) -> dict[str, np.ndarray]:
    """Every constant of the main graph by its name; lists among a node's attributes as ``output@attribute``.

    Strings are objects.
    """
    return dict(_constants(model.graph))


def _constants(graph: ir.Graph) -> Iterator[tuple[str, np.ndarray]]:
    for name, value in graph.initializers.items():
        if value.const_value is not None and value.const_value.dtype != ir.DataType.UNDEFINED:
            yield name, _plain(value.const_value.numpy())
    for node in graph:
        for name, attribute in node.attributes.items():
            if not isinstance(attribute, ir.Attr):
                continue
            place = f"{node.outputs[0].name}@{name}"
            if attribute.type == ir.AttributeType.TENSOR:
                yield place, _plain(attribute.value.numpy())
            elif attribute.type in (ir.AttributeType.FLOATS, ir.AttributeType.INTS, ir.AttributeType.STRINGS):
                yield (
                    place,
                    _plain(np.array(attribute.value, object if attribute.type == ir.AttributeType.STRINGS else None)),
                )


def _plain(array: np.ndarray) -> np.ndarray:
    if array.dtype.kind in "SO":
        texts = [item.decode() if isinstance(item, bytes) else item for item in array.ravel().tolist()]
        return np.array(texts, object).reshape(array.shape)
    return array


class Constants:
    """A graph's constants by size, to look for arrays among them."""

    def __init__(self, model: ir.Model) -> None:
        self._by_size: dict[int, list[tuple[str, np.ndarray]]] = {}
        self._known: dict[tuple[str, tuple[int, ...], bytes], dict[str, Any] | None] = {}
        for name, array in constants_of(model).items():
            self._by_size.setdefault(array.size, []).append((name, array))
        # a number that was written once for each column
        wide = [
            item for items in self._by_size.values() for item in items if item[1].size > 1 and item[1].dtype.kind == "f"
        ]
        self._repeated = [(name, array.ravel()[:1]) for name, array in wide if (array == array.flat[0]).all()]

    def find(self, array: np.ndarray) -> dict[str, Any] | None:
        """Which constant holds an array, in which order and by which view; None where none does."""
        if array.dtype.kind == "O" or array.size > _SMALL:
            return self._find(array)
        key = (array.dtype.str, array.shape, array.tobytes())  # the trees of a forest have the same classes
        if key not in self._known:
            self._known[key] = self._find(array)
        return self._known[key]

    def _find(self, array: np.ndarray) -> dict[str, Any] | None:
        for view in VIEWS:
            if view and (array.dtype.kind != "f" or not array.size):
                break
            for name, constant in self._by_size.get(array.size, ()):
                for order, given in (("C", array), ("F", array.T)) if array.ndim > 1 else (("C", array),):
                    if _same(given, constant, view):
                        place: dict[str, Any] = {"of": name}
                        place |= {"order": order} if order != "C" else {}
                        return place | ({"view": view} if view else {})
        if array.dtype.kind != "f":
            return None
        repeated = (name for name, first in self._repeated if array.size == 1 and _same(array, first, ""))
        same = next(repeated, None)
        return {"of": same, "first": True} if same is not None else self._half(array)

    def _half(self, array: np.ndarray) -> dict[str, Any] | None:
        """One of two columns of a constant, as what tells two classes apart stands beside zeros or its negative."""
        for name, constant in self._by_size.get(2 * array.size, ()):
            for place, view in ((0, ""), (1, ""), (0, "negative"), (1, "negative")):
                if array.size and _same(array, constant.reshape(-1, 2)[:, place], view):
                    return {"of": name, "half": place} | ({"view": view} if view else {})
        return None


def _same(array: np.ndarray, constant: np.ndarray, view: str) -> bool:
    text = array.dtype.kind in "OUS"
    if text or constant.dtype.kind == "O":
        both = text and constant.dtype.kind == "O"
        return both and [str(item) for item in array.ravel()] == constant.ravel().tolist()
    if array.dtype.kind == "f" and constant.dtype.kind != "f":
        return False
    with np.errstate(all="ignore"):
        given, held = array.ravel(), constant.ravel()
        if not view:
            narrow = given.astype(held.dtype)
            return bool(np.array_equal(narrow, held, equal_nan=array.dtype.kind == "f"))
        seen = VIEWS[view](held.astype(np.float64))
        rounding = _ROUNDING.get(str(held.dtype), 0.0)
        return bool(np.all((np.abs(seen - given) <= rounding * np.abs(given)) & np.isfinite(seen)))
