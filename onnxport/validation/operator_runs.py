"""The runs of single operators while the source and the converted model compute: a value is let go after its last reader."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxport.errors import OnnxportError
from onnxport.graph.slices import values_in_slices
from onnxport.validation.divergence import LocalRun, Segment, run_segment, segment_of

# Called with the place of an operator in the graph's order, its run, and its value in the model's own run.
Take = Callable[[int, LocalRun, Any], None]


@dataclass
class _Task:
    """A value to be computed by its segment from known values, once they and the expected one have come."""

    place: int
    value: ir.Value
    part: Segment
    awaited: set[str]


class OperatorRuns:
    """What is to be run for each value that the source knows.

    `known` are the names of all values that the source hands over, of which `feeds`, the inputs, are there from the start.
    `form` brings such a value into the order of axes and the type that the model's own has, where they may differ.
    """

    def __init__(
        self,
        model: ir.Model,
        known: Collection[str],
        feeds: Mapping[str, np.ndarray],
        take: Take,
        form: Callable[[Any, np.ndarray], np.ndarray] | None = None,
    ) -> None:
        self._model, self._take, self._form = model, take, form
        self._values = dict(feeds)
        self._waiting: dict[str, list[_Task]] = {}
        self._readers: Counter[str] = Counter(list(feeds))  # inputs stay
        at_hand = {*known, *feeds}
        outputs = [value for node in model.graph for value in node.outputs if value.name in known]
        for place, value in enumerate(outputs):
            part = segment_of(value, at_hand)
            if part is None:
                continue
            needed = {item.name or "" for item in part[1] if item.name in at_hand} | {value.name or ""}
            task = _Task(place, value, part, needed - set(feeds))
            self._readers.update(needed)
            for name in task.awaited:
                self._waiting.setdefault(name, []).append(task)
        self._own = _OwnValues(model, feeds, {value.name or "" for value in outputs})

    def arrived(self, name: str, value: np.ndarray) -> None:
        """A value of the source: what waits for nothing else runs."""
        tasks = self._waiting.pop(name, [])
        if tasks:
            self._values[name] = value if self._form is None else self._form(self._own.peek(name), value)
        for task in tasks:
            task.awaited.discard(name)
            if not task.awaited:
                self._run(task)

    def _run(self, task: _Task) -> None:
        name = task.value.name or ""
        own = self._own.pop(name)
        run = run_segment(self._model, task.value, task.part, self._values[name], self._values)
        if run is not None:
            self._take(task.place, run, own)
        for read in {name, *(item.name or "" for item in task.part[1])}:
            self._readers[read] -= 1
            if self._readers[read] <= 0:
                self._values.pop(read, None)


class _OwnValues:
    """Values of the converted model's own run, which goes on as they are asked for."""

    def __init__(self, model: ir.Model, feeds: Mapping[str, Any], wanted: Collection[str]) -> None:
        self._stream: Iterator[tuple[str, Any]] = values_in_slices(model, feeds)
        self._wanted = set(wanted)
        self._kept: dict[str, Any] = {}

    def peek(self, name: str) -> Any:
        """A value, which stays."""
        value = self.pop(name)
        if value is not None:
            self._kept[name] = value
        return value

    def pop(self, name: str) -> Any:
        """A value, which is let go; None where the model's own run does not come to it."""
        self._wanted.discard(name)
        if name in self._kept:
            return self._kept.pop(name)
        try:
            for other, value in self._stream:
                if other == name:
                    return value
                if other in self._wanted:
                    self._kept[other] = value
        except OnnxportError:  # a graph that can't run as a whole: its parts may
            pass
        return None
