"""Sets from the user's own inputs: at other sizes, with other values of the same meaning, and with values at edges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any, Literal

import numpy as np
import onnx_ir as ir

from onnxport.validation.input_sets import edges
from onnxport.validation.input_sets.base import InputSet, Kind
from onnxport.validation.input_sets.domains import Range, becomes_half, index_limit, number_range
from onnxport.validation.input_sets.drawn import InputSignature, is_whole
from onnxport.validation.input_sets.sizes import resized, sizes_of
from onnxport.validation.runners.base import InputSpec

# How far values at edges go beyond the given ones, the boldest first: floating-point numbers of any kind, of the sign that the
# given ones have, or between these; whole numbers of any kind, such as index what the graph looks up, or as given.
Floats = Literal["any", "sign", "between"]
Whole = Literal["any", "indices", "given"]
_BOLDNESS: list[tuple[Floats, Whole]] = [("any", "any"), ("any", "indices"), ("sign", "given"), ("between", "given")]


Specs = Sequence[InputSpec]


class GivenInputs:
    """The user's inputs in the order of the graph's, and sets from them."""

    def __init__(
        self, leaves: Sequence[Any], specs: Specs | None, graph: ir.Model | None, *, resizable: bool = True
    ) -> None:
        self.leaves = tuple(leaves)
        self._specs = specs if resizable else None
        self._signature = InputSignature(graph) if graph is not None else None
        self.sizes = sizes_of(leaves, self._specs) if self._specs is not None else {}
        dims = [spec.dims[0] for spec in self._specs or () if spec.dims]
        self.batch = {dim for dim in dims if isinstance(dim, str)} & set(self.sizes)
        # How many ids a decoder takes at a time, where that is fixed: its mask is as much longer than its cache.
        ids = [spec for spec in self._specs or () if spec.dims and len(spec.dims) == 2 and _is_ids(spec)]
        self.steps = tuple(spec.dims[1] for spec in ids if spec.dims and isinstance(spec.dims[1], int))

    def first(self) -> Iterator[InputSet]:
        """What the user gave."""
        yield InputSet("given", self.leaves, optional=False)

    def at(self, words: str, sizes: Mapping[str, int], kind: Kind, seed: int) -> Iterator[InputSet]:
        """The given leaves at other sizes, with other values: candidates, the boldest first."""
        rng = np.random.default_rng([seed, sum(sizes.values())])
        leaves = self.leaves
        if self._specs is not None:
            pairs = zip(leaves, self._specs, strict=True)
            leaves = tuple(_ordered(leaf, resized(leaf, spec, sizes, self.sizes)) for leaf, spec in pairs)
        if kind == "ordinary":
            yield InputSet(words, tuple(_ordered(leaf, vary(leaf, rng)) for leaf in leaves))
            # What the columns of whole numbers mean may differ, as the fields of a table do: each keeps its own.
            if any(isinstance(leaf, np.ndarray) and is_whole(leaf.dtype) and leaf.ndim > 1 for leaf in leaves):
                yield InputSet(words, tuple(_ordered(leaf, _dealt(leaf, rng)) for leaf in leaves))
        elif kind == "not finite":
            changed = tuple(
                edges.with_not_finite(vary(leaf, rng), rng) if _is_numbers(leaf) else leaf for leaf in leaves
            )
            if any(a is not b for a, b in zip(changed, leaves, strict=True)):
                yield InputSet(words, changed)
        else:
            yield from self._at_edges(words, leaves, rng)

    def bytes_at(self, sizes: Mapping[str, int]) -> int:
        """About how many bytes the leaves take at other sizes."""
        total = 0.0
        for leaf, spec in zip(self.leaves, self._specs or (), strict=False):
            symbols = [dim for dim in spec.dims or () if isinstance(dim, str) and self.sizes.get(dim)]
            total += getattr(leaf, "nbytes", 0) * prod(sizes.get(dim, 0) / self.sizes[dim] for dim in symbols)
        return int(total)

    def settle(self, chosen: InputSet) -> None:
        """Nothing to remember: the user's inputs are what they are."""

    def _at_edges(self, words: str, leaves: Sequence[Any], rng: np.random.Generator) -> Iterator[InputSet]:
        seen: list[tuple[Any, ...]] = []
        for floats, whole in _BOLDNESS:
            changed = tuple(self._edge(place, leaf, floats, whole, rng) for place, leaf in enumerate(leaves))
            if all(a is b for a, b in zip(changed, leaves, strict=True)):
                return
            if not any(all(map(_same, changed, other)) for other in seen):
                seen.append(changed)
                yield InputSet(words, changed)

    def _edge(self, place: int, leaf: object, floats: Floats, whole: Whole, rng: np.random.Generator) -> Any:
        if isinstance(leaf, list):
            return [self._edge(place, item, floats, whole, rng) for item in leaf]
        if not isinstance(leaf, np.ndarray) or not leaf.size:
            return leaf
        value = self._signature.values[place] if self._signature is not None else None
        if is_mask(leaf):
            return shorter_mask(leaf)
        if is_whole(leaf.dtype):
            return self._whole_edge(value, leaf, whole, rng)
        if not _is_numbers(leaf):
            return leaf
        allowed = number_range(value, leaf.dtype) if value is not None else None
        low, high = _ends(self.leaves[place])
        if floats == "between":
            allowed = Range(low, high)
        elif floats == "sign" and low >= 0:
            allowed = Range(low if low > 0 else 0, 1e3)
        left_out = self._signature.open_patterns if self._signature is not None else frozenset()
        narrow = value is not None and becomes_half(value)
        return in_order_of(leaf, edges.numbers(leaf.shape, leaf.dtype, rng, allowed, left_out=left_out, narrow=narrow))

    def _whole_edge(
        self, value: ir.Value | None, leaf: np.ndarray, whole: Whole, rng: np.random.Generator
    ) -> np.ndarray:
        if value is None or self._signature is None or whole == "given":
            return leaf
        meaning = self._signature.reach(value)
        if meaning.sizes or meaning.divides:
            return leaf
        low, high = int(leaf.min()), int(leaf.max())
        allowed, limit = number_range(value, leaf.dtype), index_limit(value)
        if limit is not None:
            low, high = -limit if whole == "any" else 0, limit - 1
        elif allowed is not None:
            low, high = max(low, int(allowed.low)), min(high, int(allowed.high))
        elif whole == "any":
            bound = edges.COMPUTED if meaning.floats else edges.WIDE
            low, high = -bound, bound
        return in_order_of(leaf, edges.whole_numbers(leaf.shape, leaf.dtype, rng, low, high)) if low <= high else leaf


def _is_ids(spec: InputSpec) -> bool:
    return spec.dtype is not None and spec.dtype.kind == "i"


def _ordered(leaf: object, other: object) -> Any:
    return in_order_of(leaf, other) if isinstance(leaf, np.ndarray) and isinstance(other, np.ndarray) else other


def _dealt(leaf: object, rng: np.random.Generator) -> Any:
    """An array like `leaf` as `vary` gives it, but for whole numbers, which change places along the first axis."""
    if isinstance(leaf, np.ndarray) and is_whole(leaf.dtype) and leaf.ndim > 1 and not is_mask(leaf):
        return rng.permuted(leaf, axis=0)
    return vary(leaf, rng)


def _same(a: object, b: object) -> bool:
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a is b or (a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes())
    return a is b


def _ends(leaf: object) -> tuple[float, float]:
    """The least and the greatest of the finite numbers."""
    if not isinstance(leaf, np.ndarray) or not leaf.size:
        return 0.0, 1.0
    low, high = float(leaf.min()), float(leaf.max())
    if np.isfinite(low) and np.isfinite(high):  # NaN would be both
        return low, high
    finite = leaf[np.isfinite(leaf.astype(np.float64))]
    return (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)


def _is_numbers(leaf: object) -> bool:
    """Whether a leaf holds real floating-point numbers that mean quantities, not a mask."""
    if not isinstance(leaf, np.ndarray) or is_mask(leaf):
        return False
    return leaf.dtype.kind == "f" or (leaf.dtype.kind == "V" and "float" in leaf.dtype.name)


def in_order_of(leaf: np.ndarray, other: np.ndarray) -> np.ndarray:
    """`other` with its last axis sorted where that of `leaf` is, as offsets and the bounds of bins are."""
    if leaf.ndim == 0 or leaf.shape[-1] < 3 or other.dtype.kind not in "iuf":
        return other
    steps = leaf[..., 1:] >= leaf[..., :-1]
    return np.sort(other, axis=-1) if bool(np.all(steps)) and bool(np.any(leaf[..., 1:] > leaf[..., :-1])) else other


def is_mask(leaf: np.ndarray) -> bool:
    """Whether an array holds ones and zeros only, ones among them, and is no constant of one row."""
    if leaf.dtype.kind not in "biuf" or leaf.ndim < 2:
        return False
    return bool(np.all((leaf == 0) | (leaf == 1)) and np.any(leaf == 1))


def shorter_mask(leaf: np.ndarray) -> np.ndarray:
    """A mask of ones alone with zeros at the end of its last row, as padding gives; any other as it is."""
    if not np.all(leaf == 1) or leaf.shape[-1] < 2 or leaf.dtype.kind == "f":
        return leaf
    changed = leaf.copy()
    changed[-1, ..., leaf.shape[-1] - max(leaf.shape[-1] // 3, 1) :] = 0
    return changed


def vary(leaf: object, rng: np.random.Generator) -> Any:
    """An array like `leaf` with other values that mean the same kind of thing.

    Floating-point values move by up to a tenth (a constant array gets noise); whole numbers, as ids and categories are,
    keep their values and change places along the last axis; masks, strings, sequences and scalars stay.
    """
    if isinstance(leaf, list):
        return [vary(item, rng) for item in leaf]
    if not isinstance(leaf, np.ndarray) or leaf.size < 2 or leaf.dtype.kind not in "iufc":
        return leaf
    rounded = leaf.dtype.kind == "f" and bool(np.all(leaf == np.round(leaf))) and np.ptp(leaf) > 0
    whole = leaf.dtype.kind in "iu" or rounded
    if whole:
        if leaf.ndim < 2 or len(np.unique(leaf[:4])) <= 2:
            return leaf
        return np.concatenate([leaf[:1], np.roll(leaf[1:], 1, axis=-1)], axis=0) if leaf.dtype.kind in "iu" else leaf
    noise = rng.uniform(-0.1, 0.1, leaf.shape)
    spread = leaf.max() - leaf.min() if leaf.dtype.kind == "f" else 1.0
    moved = leaf * (1 + noise) if spread else leaf + 5 * noise * max(1.0, float(np.abs(leaf).max()))
    return np.asarray(moved).astype(leaf.dtype)
