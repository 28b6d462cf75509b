"""How entries of estimators are registered: the methods by their classes, and cases of fitted estimators."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from onnxport.opset_maps.cases import Array, Case, built, f32, f64
from onnxport.opset_maps.maps import sklearn
from onnxport.opset_maps.registry import Function


def cases(maker: Callable[..., object], names: str, *variants: dict[str, Any], rows: Array | None = None) -> list[Case]:
    """Cases of each of some classes in several configurations, on float64 rows and the first also on float32."""
    examples = []
    for name in names.split():
        for index, options in enumerate(variants or ({},)):
            make = partial(maker, name, **options)
            examples.append(built(make, rows or f64(7, 4), name=str(options)))
            if index == 0:
                examples.append(built(make, replace(rows, dtype="float32") if rows else f32(7, 4)))
    return examples


def given(maker: Callable[..., object], *variants: dict[str, Any], rows: Any = None) -> list[Case]:
    """Cases of a maker's estimators in several configurations, on the same rows, float64 unless they are given."""
    rows = f64(7, 4) if rows is None else rows
    return [built(partial(maker, **options), rows, name=str(options)) for options in variants or ({},)]


def lower(names: str, *evidence: Case | Iterable[Case], min_opset: int = 13) -> Callable[[Function], Function]:
    """Registers the decorated function for methods of classes of scikit-learn.

    Args:
        names: the classes, then a dot and the methods: ``"PCA IncrementalPCA.transform"``.
        evidence: the cases, also several together (`cases`).
        min_opset: least target opset at which the function has a form.
    """
    classes, _, methods = names.rpartition(".")
    own = [case for item in evidence for case in ([item] if isinstance(item, Case) else item)]
    every = [f"{kind}.{method}" for kind in classes.split() for method in methods.split()]
    return sklearn.lower(*every, cases=own, min_opset=min_opset)


def lower_fitted(
    names: str, maker: Callable[..., object], *variants: dict[str, Any], rows: Array | None = None
) -> Callable[[Function], Function]:
    """`lower` with `cases` of the classes themselves."""
    return lower(names, cases(maker, names.rpartition(".")[0], *variants, rows=rows))
