"""Shorter forms of a model's last results, which nothing else is computed from.

What scikit-learn gives in float32 has float32's rounding, and one operator of a runtime may give the same within that. A
logarithm of it, a calibration or another estimator's tree may see more: what such read is always the form that follows
scikit-learn's own steps. Of the two forms the one that is not wanted falls out of the graph.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnxport.graph.facts import Fact
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array

# The form that a value may have as an output of the graph.
_SHORTER: Fact[ir.Value] = Fact("at_output")


def with_shorter(exact: Array, shorter: Array | None) -> Array:
    """The result, marked with the form that it may have as an output of the graph, where there is one."""
    if shorter is not None and shorter.dtype == exact.dtype and shorter.ndim == exact.ndim:
        _SHORTER.set(exact.value, shorter.value)
    return exact


def at_output(results: Sequence[ir.Value]) -> list[ir.Value]:
    """The graph's results in their shorter forms if all of them have one: label and probabilities must agree."""
    shorter = [value for value in map(_SHORTER.of, results) if value is not None]
    return shorter if len(shorter) == len(results) else list(results)


def undivided(x: Array, weights: np.ndarray) -> tuple[Array, np.ndarray]:
    """Rows [N, F] before their columns were divided by fixed numbers, and weights [K, F] divided instead: as many roundings.

    Both as they are where nothing was divided, or divided weights would leave the range of normal numbers.
    """
    node = x.value.producer()
    if node is None or node.domain or node.op_type != "Div":
        return x, weights
    rows, by = node.inputs[0], x.op.constant(node.inputs[1])
    if rows is None or rows.shape != x.value.shape or by is None or by.shape != x.shape[1:]:
        return x, weights
    with np.errstate(all="ignore"):
        divided = weights / by
    normal = np.isfinite(divided) & (np.abs(divided) >= np.finfo(weights.dtype).tiny)
    return (x.of(rows), divided) if np.all(normal | (weights == 0)) else (x, weights)
