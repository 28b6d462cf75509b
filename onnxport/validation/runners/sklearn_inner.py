"""The results of the estimators inside an estimator, while the whole runs: by where each stands and what was called."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

_METHODS = ("transform", "predict", "predict_proba", "predict_log_proba", "decision_function", "score_samples")
_NAMED = ("steps", "transformer_list", "transformers_")  # lists of a name, an estimator and more


def watched(estimator: BaseEstimator, take: Callable[[str, Any], None]) -> BaseEstimator:
    """A copy that hands over what its parts and itself give, as ``steps.of.pipelines:Class.method``."""
    watcher = copy.deepcopy(estimator)
    seen: set[int] = set()
    for path, part in _parts(watcher, "", seen):
        for method in _METHODS:
            if hasattr(part, method):
                vars(part)[method] = _handing_over(
                    getattr(part, method), f"{path}:{type(part).__name__}.{method}", take
                )
    return watcher


def _handing_over(method: Callable[..., Any], name: str, take: Callable[[str, Any], None]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        result = method(*args, **kwargs)
        dense = result.toarray() if hasattr(result, "toarray") else result
        array = None if isinstance(dense, (tuple, list)) else np.asarray(dense)
        if array is not None and array.dtype.kind in "biuf":
            take(name, array.copy())  # predict_proba may turn the scores it is given into its own result, in place
        return result

    return call


def _parts(estimator: Any, path: str, seen: set[int]) -> Iterator[tuple[str, Any]]:
    """The estimator and those within, with their paths as the nodes of a converted graph have them."""
    from sklearn.base import BaseEstimator

    if id(estimator) in seen or not isinstance(estimator, BaseEstimator):
        return
    seen.add(id(estimator))
    yield path, estimator
    for name, part in _children(estimator):
        yield from _parts(part, f"{path}.{name}" if path else name, seen)


def _children(estimator: Any) -> Iterator[tuple[str, Any]]:
    for attribute in _NAMED:
        for item in getattr(estimator, attribute, None) or ():
            yield str(item[0]), item[1]
    parts = getattr(estimator, "estimators_", None)
    names = [item[0] for item in getattr(estimator, "estimators", None) or () if isinstance(item, tuple)]
    if isinstance(parts, (list, tuple, np.ndarray)):
        labels = names if len(names) == len(parts) else [f"estimators_.{number}" for number in range(len(parts))]
        yield from zip(labels, parts)
    yield from ((name, part) for name, part in vars(estimator).items() if name.endswith("_"))
