"""Whether two ONNX models that do the same arithmetic, in one piece or in several, give the same numbers to the last bit."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxport.errors import InvalidInputError, OnnxportError, first_line
from onnxport.validation import tolerance
from onnxport.validation.comparison import RANDOM, OutputReport, judge
from onnxport.validation.input_sets.base import InputSet, specs_of
from onnxport.validation.input_sets.drawn import DrawnInputs
from onnxport.validation.input_sets.sizes import plans
from onnxport.validation.numerics import of_model
from onnxport.validation.proof import versions
from onnxport.validation.records import SetReport, Side
from onnxport.validation.report import Report

Run = Callable[[Mapping[str, Any]], Mapping[str, Any]]  # outputs by name, of inputs by name

_SEED = 0
_FURTHER = 2  # other sizes of the inputs


def exact(before: Run, after: Run, graph: ir.Model, titles: tuple[str, str]) -> Report:
    """The report of `after`, whose graph is given, against `before`, on drawn inputs at several sizes, with no tolerance.

    Outputs that depend on a random operator are unproved.

    Raises:
        InvalidInputError: `before` runs on none of the inputs that are drawn.
    """
    random, specs = of_model(graph).random, specs_of(graph)
    sets: list[SetReport] = []
    reason = ""
    for candidates in _drawn(graph):
        for item in candidates:
            feeds = dict(zip((spec.name for spec in specs), item.leaves, strict=True))
            try:
                expected = before(feeds)
            except OnnxportError as error:  # values that the model does not take
                reason = reason or first_line(error)
                continue
            sets.append(_compared(item, feeds, expected, after, random))
            break
        if sets and sets[-1].error:
            break
    if not sets:
        raise InvalidInputError(f"the model runs on none of the inputs that were drawn for it: {reason}")
    left, right = (Side("onnx", title, "onnxruntime") for title in titles)
    return Report(left, right, tuple(sets), versions=versions())


def _compared(
    item: InputSet, feeds: Mapping[str, Any], expected: Mapping[str, Any], after: Run, random: Collection[str]
) -> SetReport:
    described = tuple((name, str(np.asarray(x).dtype), np.shape(x)) for name, x in feeds.items())
    try:
        results = after(feeds)
    except OnnxportError as error:
        return SetReport(item.name, described, (), 0.0, 0.0, f"it can't run: {first_line(error)}")
    outputs = [_judged(name, expected[name], results[name], name in random) for name in results]
    return SetReport(item.name, described, tuple(outputs), 0.0, 0.0)


def _judged(name: str, expected: object, result: object, random: bool) -> OutputReport:
    if random:
        return OutputReport(name, "unproved", RANDOM)
    return judge(name, expected, result, tolerance.EXACT)


def _drawn(graph: ir.Model) -> Iterator[Iterator[InputSet]]:
    """Candidates at the first sizes, and at others, of each of which the first counts that the model takes."""
    inputs = DrawnInputs(graph, _SEED)
    yield inputs.first()
    for plan in islice(plans(inputs.sizes, inputs.batch), _FURTHER):
        if not plan.empty:
            yield (item for sizes in plan.candidates for item in inputs.at(plan.words, sizes, "ordinary", _SEED))
