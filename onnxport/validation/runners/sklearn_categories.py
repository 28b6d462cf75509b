"""Which categories the encoders of an estimator know, by the columns of its table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def categories_by_leaf(estimator: Any, names: Sequence[str]) -> dict[tuple[int, int], np.ndarray]:
    """The categories by leaf and column in it; `names` are those of the leaves, one a column, or one for all columns."""
    labels = [str(name) for name in getattr(estimator, "feature_names_in_", names)]
    known = categories_by_column(estimator, len(labels) if len(names) > 1 else _width(estimator))
    if len(names) == 1:
        return {(0, column): values for column, values in known.items()}
    named = {labels[column]: values for column, values in known.items() if column < len(labels)}
    return {(place, 0): named[name] for place, name in enumerate(names) if name in named}


def categories_by_column(estimator: Any, width: int) -> dict[int, np.ndarray]:
    """The categories by column of an encoder, or of the encoders that a pipeline or a column transformer begins with."""
    if hasattr(estimator, "categories_") and isinstance(estimator.categories_, Sequence):
        return {column: np.asarray(values) for column, values in enumerate(estimator.categories_)}
    if hasattr(estimator, "n_categories_"):
        return {column: np.arange(count) for column, count in enumerate(estimator.n_categories_)}
    if steps := getattr(estimator, "steps", None):
        first = next((step for _, step in steps if step is not None and not isinstance(step, str)), None)
        return categories_by_column(first, width)
    known: dict[int, np.ndarray] = {}
    for _, part in getattr(estimator, "transformer_list", ()):
        known |= categories_by_column(part, width)
    for _, part, columns in getattr(estimator, "transformers_", ()):
        places = _places(estimator, columns, width)
        own = categories_by_column(part, len(places))
        known |= {places[column]: values for column, values in own.items() if column < len(places)}
    return known


def _places(estimator: Any, columns: Any, width: int) -> list[int]:
    """The numbers of the columns that a column transformer names: by name, number, slice or mask."""
    labels = [str(name) for name in getattr(estimator, "feature_names_in_", ())]
    single = [columns] if isinstance(columns, (str, int, np.integer)) else columns
    if isinstance(single, slice) and (isinstance(single.start, str) or isinstance(single.stop, str)):
        ends = [labels.index(end) if isinstance(end, str) else end for end in (single.start, single.stop)]
        single = slice(ends[0], None if ends[1] is None else ends[1] + 1)
    if not isinstance(single, slice) and any(isinstance(name, str) for name in single):
        return [labels.index(str(name)) for name in single]
    return [int(place) for place in np.arange(width)[single if isinstance(single, slice) else np.asarray(single)]]


def _width(estimator: Any) -> int:
    return int(getattr(estimator, "n_features_in_", 0))
