"""Rows that an estimator knows: of each column its own categories, where it has such."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from onnxport.converters.from_onnx.sklearn_rows import width_of
from onnxport.validation.runners.base import InputSpec

Domains = dict[int, np.ndarray]  # by column its categories


def known_rows(
    estimator: Any, specs: Sequence[InputSpec], rng: np.random.Generator, count: int
) -> dict[str, np.ndarray] | None:
    """Rows of an estimator's own categories, and of normal numbers elsewhere; None where it has no categories."""
    names = [str(name) for name in getattr(estimator, "feature_names_in_", ())]
    widths = [width_of(spec) for spec in specs]
    domains = domains_of(estimator, names)
    if not domains or not all(widths) or any(spec.dtype is None for spec in specs):
        return None
    rows, start = {}, 0
    for spec, width in zip(specs, widths, strict=True):
        columns = [_column(domains.get(place), spec, rng, count) for place in range(start, start + (width or 0))]
        table = np.stack(columns, axis=1).astype(spec.dtype)
        rows[spec.name] = table if spec.dims is not None and len(spec.dims) == 2 else table[:, 0]
        start += width or 0
    return rows


def _column(domain: np.ndarray | None, spec: InputSpec, rng: np.random.Generator, count: int) -> np.ndarray:
    if domain is not None:
        return rng.choice(np.asarray(domain, object), count)
    text = spec.dtype is not None and spec.dtype.kind == "O"
    return np.full(count, "a", object) if text else np.abs(rng.normal(size=count))


def domains_of(estimator: Any, names: Sequence[str] = ()) -> Domains:
    """The categories of the columns that an estimator takes, behind what leaves columns in their places."""
    categories = getattr(estimator, "categories_", None)
    if isinstance(categories, list):
        return dict(enumerate(categories))
    if hasattr(estimator, "transformers_"):
        return _of_columns(estimator, names)
    if hasattr(estimator, "transformer_list"):
        return {place: items for _, part in estimator.transformer_list for place, items in domains_of(part).items()}
    for _, step in getattr(estimator, "steps", ()):
        domains = domains_of(step, names)
        if domains or not hasattr(step, "statistics_"):
            return domains
    return {}


def _of_columns(estimator: Any, names: Sequence[str]) -> Domains:
    known = [str(name) for name in getattr(estimator, "feature_names_in_", names)]
    domains: Domains = {}
    for _, part, columns in estimator.transformers_:
        for place, items in domains_of(part).items() if not isinstance(part, str) else ():
            column = columns[place]
            domains[known.index(column) if isinstance(column, str) else int(column)] = items
    return domains


def agree(expected: Any, given: Any) -> bool:
    """Whether two results are the same: labels and texts exactly, numbers up to float32's rounding."""
    if isinstance(expected, list):  # a map from label to number for each row
        pairs = zip(expected, given, strict=True)
        return all([*a] == [*b] and agree(np.array([*a.values()]), np.array([*b.values()])) for a, b in pairs)
    a, b = np.asarray(expected), np.asarray(given)
    if a.size != b.size:
        return False
    b = b.reshape(a.shape)
    if a.dtype.kind not in "fiub" or b.dtype.kind not in "fiub":
        return bool((a.astype(str) == b.astype(str)).all())
    scale = float(np.max(np.abs(a.astype(np.float64)), initial=1.0))
    return bool(np.allclose(a, b, rtol=1e-4, atol=1e-5 * scale, equal_nan=True))
