"""What an estimator's fitted attributes say of its arithmetic, and copies of it whose fitted numbers have moved."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from onnxport.validation import tolerance
from onnxport.validation.numerics import Numerics
from onnxport.validation.runners.base import DEFAULT_LENGTH

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

# Packages all of whose models are trees on the values as they are given.
_TREES = ("lightgbm", "xgboost", "catboost")
_LONGEST = 4096


def numerics_of(estimator: BaseEstimator) -> Numerics:
    """Facts about a fitted estimator; where trees alone read its inputs, nothing is rounded before a threshold."""
    parts = list(_parts(estimator))
    trees = [part for part in parts if _is_tree(part)]
    before = any(hasattr(part, "transform") and not _is_tree(part) and not _passes(part) for part in parts)
    longest = [size for part in parts if not _is_tree(part) for size in _sizes(part)]
    count = len(trees)
    length = min(max([DEFAULT_LENGTH, count, *longest]), _LONGEST)
    return Numerics(length, trees=bool(trees), direct_trees=bool(trees) and not before)


def moved(estimator: BaseEstimator, units: int, seed: int) -> Any:
    """A copy of an estimator with its fitted numbers off by `units` in the last place, up or down at random.

    Trees keep theirs: a threshold that moves makes a jump. What can't be copied or written stays as it is.
    """
    rng = np.random.default_rng(seed)
    try:
        twin = copy.deepcopy(estimator)
    except Exception:  # what a user's estimator holds need not be copied
        return estimator
    for part in _parts(twin):
        if _is_tree(part):
            continue
        for name, value in list(vars(part).items()):
            changed = _moved_value(value, units, rng)
            if changed is not value:
                try:
                    setattr(part, name, changed)
                except (AttributeError, TypeError):
                    continue
    return twin


def _moved_value(value: Any, units: int, rng: np.random.Generator) -> Any:
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        return tolerance.nudge(value, units, rng)
    if type(value) in (list, tuple) and value and all(isinstance(item, np.ndarray) for item in value):
        return type(value)(_moved_value(item, units, rng) for item in value)
    return value


def _parts(estimator: BaseEstimator) -> Iterator[Any]:
    """The estimator and all that it holds, in its attributes and in lists, tuples, dicts and arrays of them."""
    stack, seen = [estimator], set()
    while stack:
        item = stack.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, (list, tuple)):
            stack.extend(item)
        elif isinstance(item, Mapping):
            stack.extend(item.values())
        elif isinstance(item, np.ndarray):
            stack.extend(item.ravel() if item.dtype == object and item.size < _LONGEST else ())
        elif _is_part(item):
            yield item
            if not _is_tree(item):
                stack.extend(vars(item).values())


def _is_part(item: object) -> bool:
    return hasattr(item, "__dict__") and (hasattr(item, "get_params") or _is_tree(item)) and not isinstance(item, type)


def _is_tree(item: object) -> bool:
    package = type(item).__module__.partition(".")[0]
    return hasattr(item, "tree_") or hasattr(item, "_predictors") or package in _TREES


def _passes(part: BaseEstimator) -> bool:
    """Whether a transformer hands its columns on, or holds others that are asked themselves."""
    holds = any(hasattr(part, name) for name in ("steps", "transformers", "transformer_list", "estimators_"))
    return holds or getattr(part, "func", part) is None


def _sizes(part: BaseEstimator) -> Iterator[int]:
    for value in vars(part).values():
        if isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.ndim:
            yield max(value.shape)
