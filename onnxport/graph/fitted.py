"""The constants of a graph, and what of an estimator's fitted numbers stands in them: written into the file for the way back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import onnx_ir as ir

ESTIMATOR = "onnxport.estimator"  # the metadata key of the file: the estimator's class, parameters and fitted attributes as JSON
LOST = "lost"  # the key of a record whose estimator can't be rebuilt, as the graph lacks its numbers
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
_OTHER_VIEWS = tuple(VIEWS)[1:]  # but the constant itself
_SMALL = 256  # elements of an array whose place is kept
_REAL = frozenset(dtype for dtype in ir.DataType if dtype.is_floating_point())  # the method builds a set at each call
_ROUNDING = {"d": 2e-15, "f": 4e-7}  # by the character of the element type


def constants_of(model: ir.Model) -> dict[str, np.ndarray]:
    """Every constant of the main graph by its name; lists among a node's attributes as ``output@attribute``.

    Strings are objects.
    """
    return {source.name: source.load() for source in _sources(model.graph)}


class _Source(NamedTuple):
    """A constant that may not be an array yet.

    Attributes:
        name: its own, or ``output@attribute``.
        size: number of elements.
        is_real: it holds real numbers.
        load: makes the array.
    """

    name: str
    size: int
    is_real: bool
    load: Callable[[], np.ndarray]


def _sources(graph: ir.Graph) -> Iterator[_Source]:
    for name, value in graph.initializers.items():
        if value.const_value is not None and value.const_value.dtype != ir.DataType.UNDEFINED:
            yield _of_tensor(name, value.const_value)
    for node in graph:
        for name, attribute in node.attributes.items():
            if not isinstance(attribute, ir.Attr):
                continue
            place, held = f"{node.outputs[0].name}@{name}", attribute.value
            if attribute.type == ir.AttributeType.TENSOR:
                yield _of_tensor(place, held)
            elif attribute.type in (ir.AttributeType.FLOATS, ir.AttributeType.INTS, ir.AttributeType.STRINGS):
                dtype = object if attribute.type == ir.AttributeType.STRINGS else None
                load = partial(_listed, held, dtype)
                yield _Source(place, len(held), attribute.type == ir.AttributeType.FLOATS, load)


def _of_tensor(name: str, tensor: ir.TensorProtocol) -> _Source:
    return _Source(name, int(tensor.size), tensor.dtype in _REAL, lambda: _plain(tensor.numpy()))


def _listed(items: Sequence[Any], dtype: type | None) -> np.ndarray:
    return _plain(np.array(items, dtype))


def _plain(array: np.ndarray) -> np.ndarray:
    if array.dtype.kind in "SO":
        texts = [item.decode() if isinstance(item, bytes) else item for item in array.ravel().tolist()]
        return np.array(texts, object).reshape(array.shape)
    return array


class _Held:
    """One constant, with what the views of it are."""

    def __init__(self, name: str, load: Callable[[], np.ndarray]) -> None:
        self.name, self._load = name, load
        # No cached properties, which lock: there are many, and each is read often.
        self._array: np.ndarray | None = None
        self._flat: np.ndarray | None = None
        self._first: float | None = None
        self._seen: dict[str, np.ndarray] = {}

    @property
    def array(self) -> np.ndarray:
        """Its elements."""
        if self._array is None:
            self._array = self._load()
        return self._array

    @property
    def flat(self) -> np.ndarray:
        """Its elements in one row."""
        if self._flat is None:
            self._flat = self.array.ravel()
        return self._flat

    @property
    def first(self) -> float:
        """Its first element, of real numbers."""
        if self._first is None:
            self._first = float(self.flat[0])
        return self._first

    def seen(self, view: str) -> np.ndarray:
        """The constant by a view, float64."""
        if view not in self._seen:
            self._seen[view] = VIEWS[view](self.flat.astype(np.float64))
        return self._seen[view]

    @property
    def _rounding(self) -> float:
        return _ROUNDING.get(self.flat.dtype.char, 0.0)

    @property
    def apart(self) -> float:
        """How far, relatively, an element by a view may lie from the number that it stands for."""
        return max(2 * self._rounding, 1e-14)

    def may_be(self, given: np.ndarray) -> bool:
        """Whether the types of an array's elements and of the constant's go together."""
        text, held = given.dtype.kind in "OUS", self.flat.dtype.kind
        return text == (held == "O") and (given.dtype.kind != "f" or held == "f")

    def may_begin(self, given: np.ndarray) -> bool:
        """Whether the first elements are the same; their types go together. Most constants differ there."""
        if self.flat.dtype.kind != "f" or given.dtype.kind != "f" or not given.size:
            return True
        number = given.flat[0] if given.dtype == self.flat.dtype else given.flat[0].astype(self.flat.dtype)
        return bool(number == self.flat[0] or number != number)

    def is_same(self, given: np.ndarray, view: str) -> bool:
        """Whether an array of as many elements, flat, is the constant by a view; their types go together."""
        if view:
            near = np.abs(self.seen(view) - given) <= self._rounding * np.abs(given)
            return bool(near.all() and np.isfinite(given).all())
        if self.flat.dtype.kind == "O":
            return [str(item) for item in given] == self.flat.tolist()
        if given.dtype != self.flat.dtype:
            given = given.astype(self.flat.dtype)
        if given.dtype.kind != "f":
            return bool((given == self.flat).all())
        same = given == self.flat
        return bool(same.all() or (np.isnan(given).any() and (same | (np.isnan(given) & np.isnan(self.flat))).all()))


class Constants:
    """A graph's constants by size, to look for arrays among them, where NumPy's warnings of what is not finite are off."""

    def __init__(self, model: ir.Model) -> None:
        self._sources = list(_sources(model.graph))
        self._by_size: dict[int, list[_Held]] = {}
        self._by_name: dict[str, _Held] = {}
        self._halves: dict[int, list[tuple[_Held, int]]] = {}
        self._firsts_known: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self._known: dict[tuple[str, tuple[int, ...], bytes], dict[str, Any] | None] = {}
        for source in self._sources:
            held = self._by_name[source.name] = _Held(source.name, source.load)
            self._by_size.setdefault(source.size, []).append(held)

    def named(self, name: str) -> np.ndarray:
        """A constant."""
        return self._by_name[name].array

    @cached_property
    def tables(self) -> list[tuple[str, np.ndarray]]:
        """Constants of two dimensions, float64."""
        arrays = ((source.name, self.named(source.name)) for source in self._sources if source.is_real)
        return [(name, array) for name, array in arrays if array.ndim == 2 and array.dtype == np.float64]

    def _repeating(self, number: np.ndarray) -> str | None:
        """A constant that holds a number many times, as one that was written for each column."""
        if number.dtype.kind != "f":
            return None
        for source in self._sources:
            if source.is_real and source.size > 1:
                held = self._by_name[source.name]
                if held.may_begin(number) and (held.flat == held.flat[0]).all():
                    return source.name
        return None

    def find(self, array: np.ndarray) -> dict[str, Any] | None:
        """Which constant holds an array, in which order and by which view; None where none does."""
        if array.dtype.kind == "O" or array.size > _SMALL:
            return self._find(array)
        key = (array.dtype.str, array.shape, array.tobytes())  # the trees of a forest have the same classes
        if key not in self._known:
            self._known[key] = self._find(array)
        return self._known[key]

    def _find(self, array: np.ndarray) -> dict[str, Any] | None:
        likely = [held for held in self._by_size.get(array.size, ()) if held.may_be(array)]
        for held in likely:
            if held.may_begin(array):
                for order, given in _orders(array):
                    if held.is_same(given, ""):
                        return {"of": held.name, **order}
        if array.dtype.kind != "f" or not array.size:
            return None
        number = float(array.flat[0])
        if likely:
            firsts, apart = self._firsts(array.size, likely)
            for row, column in np.argwhere(np.abs(firsts - number) <= apart * abs(number)).tolist():
                held, view = likely[column], _OTHER_VIEWS[row]
                for order, given in _orders(array):
                    if held.is_same(given, view):
                        return {"of": held.name, **order, "view": view}
        same = self._repeating(array) if array.size == 1 else None
        return {"of": same, "first": True} if same is not None else self._half(array, number)

    def _firsts(self, size: int, alike: list[_Held]) -> tuple[np.ndarray, np.ndarray]:
        """The first elements, by each view, of the real constants of a size, all there are; they tell most constants apart.

        Returns:
            [views, constants], and [constants]: how far relatively roundings move the elements of each.
        """
        if size not in self._firsts_known:
            firsts = np.array([item.first for item in alike])
            self._firsts_known[size] = (
                np.stack([VIEWS[view](firsts) for view in _OTHER_VIEWS]),
                np.array([item.apart for item in alike]),
            )
        return self._firsts_known[size]

    def _half(self, array: np.ndarray, number: float) -> dict[str, Any] | None:
        """One of two columns of a real constant, as what tells two classes apart stands beside zeros or its negative."""
        if array.size not in self._halves:
            wide = [held for held in self._by_size.get(2 * array.size, ()) if held.may_be(array)]
            halves = [(held, place) for held in wide for place in (0, 1)]
            self._halves[array.size] = [(_Held(held.name, partial(_half_of, held, at)), at) for held, at in halves]
        for sign, view in ((1.0, ""), (-1.0, "negative")):
            for half, place in self._halves[array.size]:
                near = abs(sign * half.first - number) <= half.apart * abs(number)
                if near and half.is_same(array.ravel(), view):
                    return {"of": half.name, "half": place} | ({"view": view} if view else {})
        return None


def _orders(array: np.ndarray) -> Iterator[tuple[dict[str, str], np.ndarray]]:
    """The elements in one row by how the record names their order."""
    yield {}, array.ravel()
    if array.ndim > 1:
        yield {"order": "F"}, array.T.ravel()


def shortened(value: Any) -> Any:
    """A constant that holds an attribute as it is as ``[name]``, and by columns as ``[name, "F"]``; other values as they are.

    >>> shortened({"of": "const", "order": "F"}), shortened({"of": "const", "view": "exp"})
    (['const', 'F'], {'of': 'const', 'view': 'exp'})
    """
    return list(value.values()) if isinstance(value, dict) and list(value) in (["of"], ["of", "order"]) else value


def lengthened(value: Any) -> Any:
    """What `shortened` was given.

    >>> lengthened(["const", "F"]), lengthened(["const"]), lengthened(1)
    ({'of': 'const', 'order': 'F'}, {'of': 'const'}, 1)
    """
    return dict(zip(("of", "order"), value, strict=False)) if isinstance(value, list) else value


def _half_of(held: _Held, place: int) -> np.ndarray:
    return held.flat.reshape(-1, 2)[:, place]
