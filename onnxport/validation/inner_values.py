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
from onnxport.validation import divergence
from onnxport.validation.inner_layers import agreeing_layers
from onnxport.validation.input_sets.base import InputSet
from onnxport.validation.parties import Comparison
from onnxport.validation.records import Divergence
from onnxport.validation.runners.onnx import OnnxRunner

# Beyond this size of the weights the search for the divergent node takes more memory than it is worth.
_SEARCH_LIMIT = 1 << 30
_MOST = 64  # nodes that are run by themselves


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
        return divergence.first_divergence(graph, feeds, _reference(parties, item, graph, feeds))
    except OnnxportError:  # the search is a service; its failure must not hide the verdict
        return None


def compared_inside(parties: Comparison, item: InputSet) -> Inside | None:
    """Compares what the source's operators give with what the converted ONNX graph has there, on one set of inputs.

    None where the source has no inner values that the graph surely has too, the graph can't be run in slices, or the user allows
    more than rounding.
    """
    graph, feeds = _searched(parties, item)
    if graph is None or parties.specs is None or parties.tolerance.given or not parties.source.names_are_steady:
        return None
    if count := agreeing_layers(parties, item, graph, parties.specs):
        return Inside(count, None)
    varies = parties.source.graph is None and parties.source.inner_forms_vary
    try:
        inner, names = _inner_of_source(parties, item, graph)
        arrays = {name: value for name, value in feeds.items() if isinstance(value, np.ndarray)}
        arrays |= {name: inner[own] for name, own in names.items() if isinstance(inner[own], np.ndarray)}
        near, far = 0, list[str]()
        for name, own in values_in_slices(graph, feeds):
            if name in arrays:
                arrays[name] = divergence.in_form_of(own, arrays[name]) if varies else arrays[name]
                if divergence.is_far(arrays[name], own):
                    far.append(name)
                else:
                    near += 1
        values = {value.name or "": value for node in graph.graph for value in node.outputs}
        rough = parties.source.inner_means_lie_a_step_apart
        for name in far[:_MOST]:
            run = divergence.local_run(graph, values[name], arrays[name], arrays)
            if run is not None and run.report.verdict == "fail" and not divergence.is_rounding(run, rough_means=rough):
                return Inside(near, divergence.divergence_of(run))
            near += run is not None
    except OnnxportError:
        return None
    return Inside(near, None) if near else None


def _searched(parties: Comparison, item: InputSet) -> tuple[ir.Model | None, dict[str, Any]]:
    """The converted ONNX graph, where it is one that is searched, and what feeds it."""
    graph, specs = parties.graph, parties.specs
    if graph is None or specs is None or not isinstance(parties.converted, OnnxRunner):
        return None, {}
    if weight_bytes(graph) > _SEARCH_LIMIT:
        return None, {}
    return graph, {spec.name: leaf for spec, leaf in zip(specs, item.leaves, strict=True)}


def _reference(parties: Comparison, item: InputSet, graph: ir.Model, feeds: Mapping[str, Any]) -> dict[str, Any]:
    """The source's inner values under the names of the converted graph's."""
    inner, names = _inner_of_source(parties, item, graph)
    if parties.source.graph is None and parties.source.inner_forms_vary:
        run = values_in_slices(graph, feeds) if names else ()
        return {name: divergence.in_form_of(value, inner[names[name]]) for name, value in run if name in names}
    return {name: inner[own] for name, own in names.items()}


def _inner_of_source(parties: Comparison, item: InputSet, graph: ir.Model) -> tuple[dict[str, Any], dict[str, str]]:
    """The source's inner values, and by the names of the converted graph's which of them each is.

    Two ONNX graphs share the names of their values; another source's are matched by where the nodes came from.
    """
    source = parties.source
    inner = source.intermediates(parties.source_leaves(item.leaves))
    if source.graph is not None:
        return inner, {name: name for name in inner}
    return inner, divergence.source_names(
        graph, inner, forms_vary=source.inner_forms_vary, operators=source.inner_operators
    )
