"""Sets made of the user's own inputs: other values, other sizes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from onnxport.validation.input_sets.base import InputSet
from onnxport.validation.input_sets.sizes import resized, sizes_of
from onnxport.validation.runners.base import InputSpec


def other_sizes(leaves: Sequence[Any], specs: Sequence[InputSpec]) -> Iterator[InputSet]:
    """The given leaves at other sizes of their dynamic dimensions, boldest change first.

    Rows are repeated and changed (see `vary`), and the same symbolic name gets the same size everywhere. A dimension that is an
    expression of others (``2*N``) follows them; one that can't be told stays as it is.
    """
    sizes = sizes_of(leaves, specs)
    if not sizes:
        return
    batch = {spec.dims[0] for spec in specs if spec.dims and isinstance(spec.dims[0], str)} & set(sizes)
    plans = [
        {name: size + 1 + (size == 1) for name, size in sizes.items()},
        {name: max(size - 1, 1) if size > 1 else 2 for name, size in sizes.items()},
        {name: (size + 1 + (size == 1) if name in batch else size) for name, size in sizes.items()},
        {name: (max(size - 1, 1) if size > 1 else 2) if name in batch else size for name, size in sizes.items()},
        {name: size * 2 for name, size in sizes.items()},
    ]
    seen: list[dict[str, int]] = [sizes]
    for plan in plans:
        if plan in seen:
            continue
        seen.append(plan)
        changed = tuple(resized(leaf, spec, plan, sizes) for leaf, spec in zip(leaves, specs, strict=True))
        label = ", ".join(f"{name}={size}" for name, size in plan.items())
        rng = np.random.default_rng(sum(plan.values()))
        yield InputSet(f"other sizes ({label})", tuple(vary(leaf, rng) for leaf in changed))


def varied(leaves: Sequence[Any], seed: int) -> InputSet:
    """The given leaves at their own sizes with other values."""
    rng = np.random.default_rng(seed)
    return InputSet("other values", tuple(vary(leaf, rng) for leaf in leaves))


def vary(leaf: Any, rng: np.random.Generator) -> Any:
    """An array like `leaf` with other values that mean the same kind of thing.

    Floating-point values move by up to a tenth (a constant array gets noise); whole numbers, as ids and categories are,
    keep their values and change places along the last axis; masks, strings, sequences and scalars stay.
    """
    if isinstance(leaf, list):
        return [vary(item, rng) for item in leaf]
    if not isinstance(leaf, np.ndarray) or leaf.size < 2 or leaf.dtype.kind not in "iufc":
        return leaf
    whole = leaf.dtype.kind in "iu" or (
        leaf.dtype.kind == "f" and bool(np.all(leaf == np.round(leaf))) and np.ptp(leaf) > 0
    )
    if whole:
        if leaf.ndim < 2 or len(np.unique(leaf[:4])) <= 2:
            return leaf
        return np.concatenate([leaf[:1], np.roll(leaf[1:], 1, axis=-1)], axis=0) if leaf.dtype.kind in "iu" else leaf
    noise = rng.uniform(-0.1, 0.1, leaf.shape)
    spread = leaf.max() - leaf.min() if leaf.dtype.kind == "f" else 1.0
    moved = leaf * (1 + noise) if spread else leaf + 5 * noise * max(1.0, float(np.abs(leaf).max()))
    return np.asarray(moved).astype(leaf.dtype)
