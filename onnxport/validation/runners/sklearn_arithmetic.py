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
        exact = added_up_exactly(estimator)
        twin = copy.deepcopy(estimator) if exact is None else exact
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


def added_up_exactly(estimator: BaseEstimator) -> Any:
    """A copy whose kernel densities add up their points one by one; None where there are none."""
    if not any(_is_density(part) for part in _parts(estimator)):
        return None
    twin = copy.deepcopy(estimator)
    for part in _parts(twin):
        if _is_density(part):
            part.tree_ = _in_one_leaf(part)
    return twin


def _is_density(part: Any) -> bool:
    if not type(getattr(part, "tree_", None)).__module__.startswith("sklearn.neighbors."):
        return False
    from sklearn.neighbors import KernelDensity

    return isinstance(part, KernelDensity)


def _in_one_leaf(density: Any) -> Any:
    """The tree of a kernel density's points with one leaf, which adds up the points one by one.

    With several, scikit-learn adds and takes away bounds on whole branches: far from all points next to no digit is left.
    """
    tree = density.tree_
    points = np.asarray(tree.data)
    options = {"metric": density.metric, **(density.metric_params or {})}
    return type(tree)(points, leaf_size=len(points), sample_weight=tree.sample_weight, **options)


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
    decides = hasattr(item, "tree_") and not _is_density(item)  # a density has a tree of points
    return decides or hasattr(item, "_predictors") or package in _TREES


def _passes(part: BaseEstimator) -> bool:
    """Whether a transformer hands its columns on, or holds others that are asked themselves."""
    holds = any(hasattr(part, name) for name in ("steps", "transformers", "transformer_list", "estimators_"))
    return holds or getattr(part, "func", part) is None


def _sizes(part: BaseEstimator) -> Iterator[int]:
    for value in vars(part).values():
        if isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.ndim:
            yield max(value.shape)
