"""What is computed only for a page: samples of the outputs, every layer by itself, the neighbours of the first that differs.

A proof computes it inside `with_details` alone, and loads this file there, so that a plain conversion pays nothing for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median

import numpy as np
import onnx_ir as ir

from onnxport.errors import first_line
from onnxport.graph.external_data import weight_bytes
from onnxport.graph.guard.deadline import timed
from onnxport.progress import stage
from onnxport.validation import tolerance
from onnxport.validation.comparison import is_floating
from onnxport.validation.details import Details, Neighbour, Neighbourhood, OperatorError, Sample
from onnxport.validation.evidence import Pair, shaped_like
from onnxport.validation.input_sets.base import InputSet
from onnxport.validation.operators import inquiry_on
from onnxport.validation.parties import Comparison
from onnxport.validation.records import Divergence
from onnxport.validation.runners.onnx import OnnxRunner

_POINTS = 300  # elements of a sample
_NEIGHBOURS = 4  # on either side of a node
_RUNS, _SECONDS = 7, 1.0  # how often a side runs for its latency, and how long at most
# Beyond this size of the weights running every layer once more takes more time than a page is worth.
_LAYERS_LIMIT = 1 << 30


def samples_of(name: str, pairs: Sequence[Pair]) -> list[Sample]:
    """Samples of the outputs on the set of inputs `name`: of tensors of numbers whose shapes agree."""
    samples = []
    for pair in pairs:
        if not isinstance(pair.expected, np.ndarray) or not isinstance(pair.result, np.ndarray):
            continue
        ours, theirs = shaped_like(pair.expected, pair.result), pair.result
        if ours.shape == theirs.shape and ours.size and all(_is_numeric(side.dtype) for side in (ours, theirs)):
            samples.append(_sample(name, pair.name, _real(ours), _real(theirs)))
    return samples


def _is_numeric(dtype: np.dtype) -> bool:
    return dtype.kind in "iub" or is_floating(dtype)


def _real(values: np.ndarray) -> np.ndarray:
    """All numbers in a row, as float64; real and imaginary parts one by one."""
    return np.ascontiguousarray(tolerance.wide(values)).reshape(-1).view(np.float64)


def _sample(inputs: str, output: str, ours: np.ndarray, theirs: np.ndarray) -> Sample:
    with np.errstate(all="ignore"):
        finite = np.isfinite(ours) & np.isfinite(theirs)
        equal = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
        gaps = np.abs(ours - theirs)[finite & ~equal]
    bins, counts = np.unique(np.floor(2 * np.log10(gaps)).astype(int), return_counts=True)
    places = np.flatnonzero(finite)
    # The element that differs most is one of them.
    even = places[np.linspace(0, places.size - 1, min(places.size, _POINTS)).astype(int)] if places.size else places
    worst = [places[int(np.argmax(np.abs(ours - theirs)[places]))]] if gaps.size else []
    points = tuple((float(ours[i]), float(theirs[i])) for i in [*even, *worst])
    return Sample(
        inputs,
        output,
        points,
        tuple((int(k), int(count)) for k, count in zip(bins, counts, strict=True)),
        int(equal.sum()),
        int((~finite & ~equal).sum()),
    )


def gathered(
    parties: Comparison, item: InputSet, samples: Sequence[Sample], divergence: Divergence | None, *, failed: bool
) -> Details:
    """The details of a proof that is done; `item` is the set of inputs on which the layers run."""
    stage("running each layer by itself, for the page")
    graph = parties.graph
    layers, no_layers = _layers(parties, item, failed=failed)
    return Details(
        samples=tuple(samples),
        inputs=item.name,
        layers=layers,
        nodes=0 if graph is None else sum(1 for _ in graph.graph),
        weights=0 if graph is None else weight_bytes(graph),
        no_layers=no_layers,
        around=None if graph is None or divergence is None else neighbourhood(graph, divergence.output),
        latency=_latency(parties, item),
    )


def _layers(parties: Comparison, item: InputSet, *, failed: bool) -> tuple[tuple[OperatorError, ...], str]:
    if parties.graph is None or parties.specs is None or not isinstance(parties.converted, OnnxRunner):
        return (), "only those of a converted ONNX model run one by one"
    if weight_bytes(parties.graph) > _LAYERS_LIMIT:
        return (), "its weights are beyond 1 GiB; onnxport debug runs them one by one"
    try:
        with timed():
            inquiry = inquiry_on(parties, item, failed=failed)
    except Exception as error:  # the source is the user's: any error at all; the verdict stands without the layers
        return (), first_line(error)
    reason = "" if inquiry.operators else "none could be run by itself on values that the source knows"
    return inquiry.operators, reason


def _latency(parties: Comparison, item: InputSet) -> tuple[float, float] | None:
    own = parties.source_leaves(item.leaves)
    try:
        with timed():
            return _median_of(lambda: parties.source.run(own)), _median_of(lambda: parties.converted.run(item.leaves))
    except Exception:  # a side that fails on the set: the verdict has it
        return None


def _median_of(run: Callable[[], object]) -> float:
    times: list[float] = []
    while len(times) < _RUNS and sum(times) < _SECONDS:
        started = time.perf_counter()
        run()
        times.append(time.perf_counter() - started)
    return median(times)


def neighbourhood(graph: ir.Model, value: str) -> Neighbourhood | None:
    """What the node that gives `value` reads and what reads it, in the graph's order; None where no node gives it."""
    node = next((node for node in graph.graph for item in node.outputs if item.name == value), None)
    if node is None:
        return None
    before = [_neighbour(item) for item in dict.fromkeys(node.inputs) if item is not None and item.const_value is None]
    readers = dict.fromkeys(use.node for item in node.outputs for use in item.uses())
    after = [Neighbour(user.op_type, user.name or "", _first(user)) for user in readers]
    after += [Neighbour("", "output", item.name or "") for item in node.outputs if item in graph.graph.outputs]
    itself = Neighbour(node.op_type, node.name or "", value)
    return Neighbourhood(tuple(before[:_NEIGHBOURS]), itself, tuple(after[:_NEIGHBOURS]))


def _neighbour(value: ir.Value) -> Neighbour:
    """The node that gives a value, or the value itself where it is an input."""
    producer = value.producer()
    if producer is None:
        return Neighbour("", "input", value.name or "")
    return Neighbour(producer.op_type, producer.name or "", value.name or "")


def _first(node: ir.Node) -> str:
    return next((item.name for item in node.outputs if item.name), "")
