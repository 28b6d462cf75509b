"""What can be checked of an edited ONNX model beside its numbers: parts belong to their whole, named dimensions vary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from onnxport.converters.to_onnx.onnx import Edited
from onnxport.errors import InvalidInputError, InvalidModelError, OnnxportError
from onnxport.graph.runtime import Session
from onnxport.model import OnnxModel
from onnxport.validation.input_sets.base import InputSet, specs_of
from onnxport.validation.input_sets.drawn import DrawnInputs
from onnxport.validation.input_sets.given import GivenInputs
from onnxport.validation.input_sets.sizes import plans
from onnxport.validation.runners.onnx import values_of

_SEED = 0


def check(edited: Edited) -> None:
    """Refuses an edit that changed more than was asked for.

    Raises:
        InvalidModelError: the part gives other values than the whole graph where it was cut.
        InvalidInputError: the graph can't run at another size of a dimension that is to vary.
    """
    if edited.part is not None:
        _check_part(edited.whole, edited.part)
    if edited.request.dynamic_shapes is not None:
        _check_sizes(edited)


def _check_part(whole: OnnxModel, part: OnnxModel) -> None:
    """Runs the whole graph as it is written, feeds the part with its inner values and compares at the part's outputs."""
    for feeds in _drawn(whole):
        try:
            inner = {**feeds, **values_of(whole.model, feeds)}
        except OnnxportError:  # values that the whole model does not take: another set may do
            continue
        if not all(name in inner for name in (*part.input_names, *part.output_names)):
            return
        session = Session(part.model, optimize=False)
        results = session.run({name: inner[name] for name in part.input_names})
        for name, value in zip(part.output_names, results, strict=True):
            own, other = np.asarray(value), np.asarray(inner[name])
            if not np.array_equal(own, other, equal_nan=own.dtype.kind in "fc"):
                raise InvalidModelError(f"cut at {name!r}: the part gives other values there than the whole graph")
        return


def _drawn(model: OnnxModel) -> Iterator[dict[str, Any]]:
    for item in _sets(DrawnInputs(model.model, _SEED)):
        yield dict(zip(model.input_names, item.leaves, strict=True))


def _sets(inputs: DrawnInputs | GivenInputs) -> Iterator[InputSet]:
    """Inputs at their first sizes and at others."""
    yield from inputs.first()
    for plan in plans(inputs.sizes, inputs.batch):
        # no empty tensors: a runtime need not take them
        for sizes in () if plan.empty else plan.candidates:
            yield from inputs.at(plan.words, sizes, "ordinary", _SEED)


def _check_sizes(edited: Edited) -> None:
    """A graph with a size written into it (the shape of a Reshape) runs on its own sizes and on no others."""
    own = _sizes(edited.whole)
    named = _sizes(edited.source)
    if named == own or len(named) != len(own):
        return
    reasons: list[str] = []
    for leaves in _leaves(edited):
        sizes = tuple(np.shape(leaf) for leaf in leaves)
        if all(size == dims for size, dims in zip(sizes, own, strict=True)):
            continue
        try:
            edited.source(*leaves)
        except OnnxportError as error:
            reasons.append(str(error))
        else:
            return
    if reasons and _runs(edited.whole):
        raise InvalidInputError(
            f"dynamic_shapes: the graph has sizes of its own written into it and runs on no others: {reasons[0]}"
        )


def _leaves(edited: Edited) -> Iterator[Sequence[Any]]:
    given = edited.request.inputs
    if isinstance(given, tuple) and not edited.request.kwargs:
        sets = _sets(GivenInputs(given, specs_of(edited.source.model), edited.source.model))
        yield from (item.leaves for item in sets)
    else:
        yield from (tuple(feeds.values()) for feeds in _drawn(edited.source))


def _sizes(model: OnnxModel) -> list[tuple[int | str | None, ...] | None]:
    return [spec.dims for spec in specs_of(model.model)]


def _runs(model: OnnxModel) -> bool:
    for feeds in _drawn(model):
        try:
            model(**feeds)
        except OnnxportError:
            continue
        return True
    return False
