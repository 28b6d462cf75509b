"""Masks of padding: arrays of ones and zeros that tell real tokens from those that fill a row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from onnxport.validation.input_sets.base import InputSet
from onnxport.validation.input_sets.given import is_mask, shorter_mask
from onnxport.validation.parties import Comparison

_MOVED = 1e-3  # of the row's scale: far more than any order of additions moves it


def unmasked(leaves: Sequence[Any]) -> Iterator[InputSet]:
    """The leaves with ones alone in masks of padding; none where no mask has a zero.

    Models of transformers leave out a mask of ones, by its values and not while they are traced.
    """
    changed = tuple(np.ones_like(leaf) if _pads(leaf) else leaf for leaf in leaves)
    if any(a is not b for a, b in zip(changed, leaves, strict=True)):
        yield InputSet("masks of ones alone", changed)


def _pads(leaf: object) -> bool:
    """Whether an array is a mask [batch, length] whose rows have their zeros at one end, and has zeros."""
    if not isinstance(leaf, np.ndarray) or leaf.ndim != 2 or leaf.dtype.kind not in "iu" or not is_mask(leaf):
        return False
    steps = np.diff(leaf.astype(np.int8), axis=1)
    return bool(np.any(leaf == 0)) and bool(np.all((steps >= 0).all(1) | (steps <= 0).all(1)))


def choice_by_masks(parties: Comparison, item: InputSet) -> str:
    """Words on a source that gives the first row other numbers where only the last row's mask changes; empty where none is."""
    for place, leaf in enumerate(item.leaves):
        if not isinstance(leaf, np.ndarray) or not is_mask(leaf) or leaf.shape[0] < 2:
            continue
        masked = shorter_mask(leaf)
        if masked is leaf:
            continue
        other = replace(item, leaves=(*item.leaves[:place], masked, *item.leaves[place + 1 :]))
        try:
            results = [parties.source.run(parties.source_leaves(one.leaves)) for one in (item, other)]
        except Exception:  # the source is the user's: a hint must not hide the verdict
            continue
        pairs = zip(*results, strict=False)
        if any(_first_row_moves(before, after, leaf.shape[0]) for (_, before), (_, after) in pairs):
            name = parties.specs[place].name if parties.specs is not None else f"input {place}"
            return (
                f"the source gives the first row other numbers where only the last row of {name!r} gets zeros: it takes another "
                "way for a mask of ones alone, by its values, and the file always applies its mask (transformers: "
                "model.set_attn_implementation('eager') takes one way)"
            )
    return ""


def _first_row_moves(before: object, after: object, rows: int) -> bool:
    if not (isinstance(before, np.ndarray) and isinstance(after, np.ndarray)) or before.dtype.kind != "f":
        return False
    if before.shape != after.shape or not before.size or before.shape[:1] != (rows,):
        return False
    first = before[0].astype(np.float64)
    return bool(np.max(np.abs(first - after[0])) > _MOVED * np.max(np.abs(first)))
