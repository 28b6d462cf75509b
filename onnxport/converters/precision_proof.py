"""The proof of a model in a smaller precision, and how good it is against the float32 one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from onnxport.converters.to_onnx.precision import Lowered
from onnxport.errors import OnnxportError
from onnxport.frameworks import Framework
from onnxport.request import Request
from onnxport.validation import settled
from onnxport.validation.comparison import is_floating
from onnxport.validation.input_sets.base import specs_of
from onnxport.validation.input_sets.drawn import DrawnInputs
from onnxport.validation.parties import Party, Tolerance
from onnxport.validation.proof import compare
from onnxport.validation.report import Report
from onnxport.validation.runners import bind
from onnxport.validation.runners.base import Binding, graph_order

_SEED = 0


def prove_lowered(lowered: Lowered, live: object, source: Framework, request: Request, tolerance: Tolerance) -> Report:
    """The report on the result, before that on the float32 model, which is proved already.

    The result is compared with the float32 model rounded where the plan says: what the source gives in that precision. Its
    error against float64 is the budget. A note has the quality: the distance to the float32 model itself.

    Raises:
        ValidationError: the result's numbers differ; it carries the report.
        InvalidInputError: the user's inputs lead to numbers beyond the type's range.
    """
    before, name = lowered.wide.report, request.dtype or ""
    assert before is not None
    leaves = _given(lowered, live, source, request)
    inputs = None if leaves is None else tuple(_as_taken(lowered, leaves).values())
    parties = Party(lowered.source, "onnx", f"{before.source.title} in {name}"), Party(lowered.result, "onnx")
    graph, notes = lowered.result.plain, (*lowered.result.notes, *quality(lowered, leaves, name))
    report = compare(*parties, Binding(inputs), graph=graph, tolerance=tolerance, notes=notes)
    sets = [replace(item, name=f"in float32, {item.name}") for item in before.sets]
    remarks = tuple(dict.fromkeys((*report.notes, *before.notes)))
    return settled(replace(report, source=before.source, sets=(*report.sets, *sets), notes=remarks))


def quality(lowered: Lowered, leaves: Mapping[str, Any] | None, name: str) -> list[str]:
    """How far the result lies from the float32 model on the given inputs, else on drawn ones: a sentence an output."""
    for feeds in [leaves] if leaves is not None else _drawn(lowered):
        try:
            wide = lowered.wide.new_session().run(dict(feeds))
            small = lowered.result.new_session().run(_as_taken(lowered, feeds))
        except OnnxportError:
            continue
        pairs = zip(lowered.wide.output_names, wide, small, strict=True)
        words = [f"{output!r} {words}" for output, a, b in pairs if (words := _distance(a, b))]
        return [f"{name} against float32: {'; '.join(words)}"] if words else []
    return []


def _given(lowered: Lowered, live: object, source: Framework, request: Request) -> dict[str, Any] | None:
    """The user's inputs by the names of the graph's."""
    binding = Binding(request.inputs, request.kwargs, signature=request.signature, methods=request.methods)
    if not binding.given:
        return None
    runner = bind(live, source.name, binding)
    specs = specs_of(lowered.wide.model)
    if runner.example is None:
        return None
    order = graph_order(runner.example, specs)
    return {spec.name: runner.example.leaves[place] for spec, place in zip(specs, order, strict=True)}


def _as_taken(lowered: Lowered, leaves: Mapping[str, Any]) -> dict[str, Any]:
    """Inputs in the types that the result takes."""
    types = {value.name or "": value.dtype for value in lowered.result.model.graph.inputs}
    taken: dict[str, Any] = {}
    for name, leaf in leaves.items():
        dtype = types.get(name)
        floating = isinstance(leaf, np.ndarray) and leaf.dtype == np.float32 and dtype is not None
        with np.errstate(over="ignore"):
            taken[name] = leaf.astype(dtype.numpy()) if floating and dtype is not None else leaf
    return taken


def _drawn(lowered: Lowered) -> Sequence[dict[str, Any]]:
    model = lowered.wide
    return [dict(zip(model.input_names, item.leaves, strict=True)) for item in DrawnInputs(model.model, _SEED).first()]


def _distance(wide: object, small: object) -> str:
    """The greatest error relative to the greatest number, and in how many rows the greatest is the same one."""
    if not isinstance(wide, np.ndarray) or not isinstance(small, np.ndarray) or wide.shape != small.shape:
        return ""
    if not is_floating(wide.dtype) or not wide.size:
        return ""
    a, b = wide.astype(np.float64), small.astype(np.float64)
    finite = np.isfinite(a) & np.isfinite(b)
    size = float(np.max(np.abs(a), where=finite, initial=0.0)) or 1.0
    error = float(np.max(np.abs(a - b), where=finite, initial=0.0)) / size
    words = f"is off by at most {error:.2g} of its greatest number"
    if a.ndim < 2 or a.shape[-1] < 2:
        return words
    same = np.mean(a.argmax(-1) == b.argmax(-1))
    return f"{words}, and the greatest of a row is the same in {same:.1%} of {a[..., 0].size} rows"
