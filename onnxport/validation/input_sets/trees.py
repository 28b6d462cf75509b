"""Thresholds at which trees split the columns of a table."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxport.validation.input_sets.domains import consumers


def thresholds(value: ir.Value) -> dict[int, np.ndarray] | None:
    """The thresholds at which trees split each column of the value; None where no tree reads it."""
    found: dict[int, list[float]] = {}
    for node, _ in consumers(value):
        names = ("nodes_featureids", "nodes_values")
        if not node.op_type.startswith("TreeEnsemble") or names[0] not in node.attributes:
            continue
        levels = (
            node.attributes.get("nodes_values")
            or node.attributes.get("nodes_values_as_tensor")
            or node.attributes.get("nodes_splits")
        )
        if levels is None:
            continue
        array = levels.value.numpy() if hasattr(levels.value, "numpy") else levels.value
        for feature, level in zip(node.attributes["nodes_featureids"].value, array, strict=False):
            if np.isfinite(level):
                found.setdefault(int(feature), []).append(float(level))
    return {feature: np.asarray(levels) for feature, levels in found.items()} if found else None
