"""The source's inner values beside those of the converted graph: which node differs, also where the outputs can't show it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxport.errors import OnnxportError
from onnxport.graph.external_data import weight_bytes
from onnxport.graph.slices import values_in_slices
from onnxport.validation import tolerance
from onnxport.validation.comparison import is_floating
from onnxport.validation.divergence import by_source_node, divergence_of, first_divergence, is_rounding, local_run
from onnxport.validation.input_sets.base import InputSet
from onnxport.validation.parties import Comparison
from onnxport.validation.records import Divergence
from onnxport.validation.runners.onnx import OnnxRunner

# Beyond this size of the weights the search for the divergent node takes more memory than it is worth.
_SEARCH_LIMIT = 1 << 30
# Rounding moves inner values by far less, a wrong operator by far more: what lies beyond it is run by itself, which decides.
_FAR = 1e-4
_MOST = 8  # nodes that are run by themselves


@dataclass(frozen=True)
class Inside:
    """What comparing inner values shows: how many were compared, and the first node that is wrong by itself, if one is."""

    count: int
    wrong: Divergence | None


def divergent_node(parties: Comparison, item: InputSet) -> Divergence | None:
    """The first divergent node of a converted ONNX model on a set of inputs that failed."""
    graph, feeds = _searched(parties, item)
    if graph is None:
        return None
    try:
        return first_divergence(graph, feeds, _reference(parties, item, graph, feeds))
    except OnnxportError:  # the search is a service; its failure must not hide the verdict
        return None


def compared_inside(parties: Comparison, item: InputSet) -> Inside | None:
    """Compares what the source's operators give with what the converted ONNX graph has there, on one set of inputs.

    None where the source has no inner values that the graph surely has too, the graph can't be run in slices, or the user allows
    more than rounding.
    """
    graph, feeds = _searched(parties, item)
    if graph is None or parties.tolerance.given or not parties.source.names_are_steady:
        return None
    try:
        reference = _reference(parties, item, graph, feeds)
        arrays = {name: value for name, value in {**reference, **feeds}.items() if isinstance(value, np.ndarray)}
        count = 0
        far: list[str] = []
        for name, own in values_in_slices(graph, feeds):
            if name in arrays:
                count += 1
                if len(far) < _MOST and is_far(arrays[name], own):
                    far.append(name)
        values = {value.name or "": value for node in graph.graph for value in node.outputs}
        for name in far:
            run = local_run(graph, values[name], arrays[name], arrays)
            if run is not None and run.report.verdict == "fail" and not is_rounding(run):
                return Inside(count, divergence_of(run))
    except OnnxportError:
        return None
    return Inside(count, None) if count else None


def is_far(expected: np.ndarray, own: Any) -> bool:
    """Whether an inner value differs from the source's by more than rounding may have brought about, as a whole.

    >>> is_far(np.ones(4), np.ones(4) + 1e-6), is_far(np.ones(4), np.ones(4) * 1.5)
    (False, True)
    """
    if not isinstance(own, np.ndarray) or own.shape != expected.shape:
        return True
    if not is_floating(expected.dtype) or not is_floating(own.dtype):
        return not np.array_equal(expected, own)
    a, b = tolerance.wide(expected), tolerance.wide(own)
    finite = np.isfinite(a) & np.isfinite(b)
    size = float(np.linalg.norm(a[finite]))
    return float(np.linalg.norm(a[finite] - b[finite])) > _FAR * size


def _searched(parties: Comparison, item: InputSet) -> tuple[ir.Model | None, dict[str, Any]]:
    """The converted ONNX graph, where it is one that is searched, and what feeds it."""
    graph, specs = parties.graph, parties.specs
    if graph is None or specs is None or not isinstance(parties.converted, OnnxRunner):
        return None, {}
    if weight_bytes(graph) > _SEARCH_LIMIT:
        return None, {}
    return graph, {spec.name: leaf for spec, leaf in zip(specs, item.leaves, strict=True)}


def _reference(parties: Comparison, item: InputSet, graph: ir.Model, feeds: Mapping[str, Any]) -> dict[str, Any]:
    """The source's inner values under the names of the converted graph's.

    Two ONNX graphs share the names of their values; another source's are matched by where the nodes came from.
    """
    source = parties.source
    inner = source.intermediates(parties.source_leaves(item.leaves))
    if source.graph is not None:
        return inner
    return by_source_node(graph, inner, feeds, forms_vary=source.inner_forms_vary, operators=source.inner_operators)
