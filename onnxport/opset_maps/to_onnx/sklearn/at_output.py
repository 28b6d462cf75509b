"""Shorter forms of a model's last results, which nothing else is computed from.

What scikit-learn gives in float32 has float32's rounding, and one operator of a runtime may give the same within that. A
logarithm of it, a calibration or another estimator's tree may see more: what such read is always the form that follows
scikit-learn's own steps. Of the two forms the one that is not wanted falls out of the graph.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from onnxport.opset_maps.to_onnx.sklearn.arrays import Array

_MARK = "onnxport.at_output"


def with_shorter(exact: Array, shorter: Array | None) -> Array:
    """The result, marked with the form that it may have as an output of the graph, where there is one."""
    if shorter is not None and shorter.dtype == exact.dtype and shorter.ndim == exact.ndim:
        exact.value.meta[_MARK] = shorter.value
    return exact


def at_output(results: Sequence[ir.Value]) -> list[ir.Value]:
    """The graph's results in their shorter forms if all of them have one: label and probabilities must agree."""
    if all(_MARK in item.meta for item in results):
        return [item.meta[_MARK] for item in results]
    return list(results)
