"""How the proof ends on one planted wrong conversion, or on a right one."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import onnx

import onnxport
from onnxport import frameworks
from onnxport.converters.isolation import isolated
from onnxport.errors import OnnxportError, UnsupportedOperator
from onnxport.graph.runtime import Session
from onnxport.model import OnnxModel, as_onnx_model
from onnxport.validation.input_sets.drawn import DrawnInputs
from onnxport.validation.input_sets.tree_rows import rows_at_thresholds
from onnxport.validation.parties import Party, Tolerance
from onnxport.validation.proof import compare
from onnxport.validation.runners import Binding
from onnxport.validation.runners.onnx_wide import WideGraph
from onnxport.validation.tolerance import local_max
from scripts.conformance.mutants_changes import Change
from scripts.conformance.mutants_rights import Right
from scripts.conformance.mutants_subjects import Subject

Result = Literal["caught", "missed", "unproved", "equivalent", "passed", "alarm"]
SEED = 20261122
_VERDICTS: dict[str, Result] = {"failed": "caught", "unproved": "unproved", "passed": "missed"}
_RIGHT_VERDICTS: dict[str, Result] = {"failed": "alarm", "unproved": "unproved", "passed": "passed"}
# Draws on which a mutant that was not caught is compared with the right graph.
_DRAWS, _ROWS = 100, 8
# The first of these also in float64: that takes ten times as long.
_WIDE_DRAWS = 24
_SCALES = (1.0, 0.01, 100.0, 10.0)
# Above these, relative to the element's slices, a difference of two graphs is no rounding: in float64, and as they are.
_ROUNDING_WIDE, _ROUNDING = 2.0**-20, 2.0**-17


@dataclass(frozen=True)
class Outcome:
    """How one proof ended.

    Attributes:
        pair: the frameworks.
        name: of the model.
        kind: of the change; empty for a right conversion.
        change: what was changed, or which right conversion.
        result: of a mutant ``caught``, ``missed``, ``unproved`` or ``equivalent``; of a right one ``passed``, ``alarm`` or
            ``unproved``.
        seconds: of the process, what it took.
    """

    pair: str
    name: str
    kind: str
    change: str
    result: Result
    seconds: float


@dataclass(frozen=True)
class Cell:
    """A source and what its graph is rebuilt in."""

    subject: Subject
    target: str

    @property
    def pair(self) -> str:
        """The two frameworks in words."""
        return f"{self.subject.framework} to {self.target}"

    def rebuilt(self, proto: onnx.ModelProto) -> Any:
        """A graph in the target framework.

        Raises:
            OnnxportError: it can't hold the graph.
        """
        return (
            as_onnx_model(proto) if self.target == "onnx" else onnxport.convert(proto, to=self.target, validate=False)
        )

    def proof(self, proto: onnx.ModelProto, seed: int = 0) -> onnxport.Report:
        """What `onnxport.convert` would prove of a converter that wrote this graph, on drawn inputs alone."""
        converted = self.rebuilt(proto)
        live = self.subject.framework != "onnx"
        hub = converted if self.target == "onnx" else as_onnx_model(proto if live else self.subject.graph)
        source = self.subject.model if live else as_onnx_model(self.subject.graph)
        with isolated():
            return compare(
                Party(source, self.subject.framework),
                Party(converted, frameworks.of_object(converted)),
                Binding(),
                graph=hub.model,
                tolerance=Tolerance(),
                seed=seed,
            )


def can_hold(cell: Cell) -> bool:
    """Whether the target framework can hold the right graph at all."""
    try:
        cell.rebuilt(cell.subject.graph)
    except UnsupportedOperator:
        return False
    return True


def runs(right: onnx.ModelProto, wrong: onnx.ModelProto) -> bool:
    """Whether onnxruntime runs a changed graph: one that it refuses proves nothing about the proof."""
    try:
        session = Session(wrong)
        if session.backend != "onnxruntime":
            return False
        session.run(next(_feeds(as_onnx_model(right), 1)))
    except OnnxportError:
        return False
    return True


def wrong_one(cell: Cell, change: Change) -> Outcome | None:
    """The proof of a planted wrong conversion; None where the target can't hold it."""
    started = time.process_time()
    try:
        report = cell.proof(change.proto)
    except OnnxportError:
        return None
    result = _VERDICTS[report.verdict]
    if result != "caught" and not differs(cell.subject.graph, change.proto):
        result = "equivalent"
    if result in ("missed", "unproved"):
        print(f"{result}: {cell.pair}, {cell.subject.name}: {change.words}\n{report}", file=sys.stderr, flush=True)
    seconds = time.process_time() - started
    return Outcome(cell.pair, cell.subject.name, change.kind, change.words, result, round(seconds, 2))


def right_one(cell: Cell, seed: int) -> Outcome:
    """The proof of the right conversion of a subject."""
    started = time.process_time()
    report = cell.proof(cell.subject.graph, seed)
    return _judged_right(cell.pair, cell.subject.name, seed, report, started)


def hard_one(right: Right) -> Outcome:
    """The proof of a right conversion that is hard to compare."""
    started = time.process_time()
    report = onnxport.validate(right.source, right.converted, inputs=right.inputs, seed=right.seed)
    return _judged_right(right.pair, right.name, right.seed, report, started)


def _judged_right(pair: str, name: str, seed: int, report: onnxport.Report, started: float) -> Outcome:
    result = _RIGHT_VERDICTS[report.verdict]
    if result != "passed":
        print(f"{result}: {pair}, {name}, seed {seed}\n{report}", file=sys.stderr, flush=True)
    return Outcome(pair, name, "", f"seed {seed}", result, round(time.process_time() - started, 2))


def differs(right: onnx.ModelProto, wrong: onnx.ModelProto) -> bool:
    """Whether two graphs differ on any of many draws of wide range, as they are or in float64."""
    wide: tuple[WideGraph, WideGraph] | None
    try:
        wide = WideGraph(right), WideGraph(wrong)
    except OnnxportError:
        wide = None
    plain = Session(right), Session(wrong)
    for place, feeds in enumerate(_feeds(as_onnx_model(right), _DRAWS)):
        try:
            if _apart([side.run(feeds) for side in plain], _ROUNDING):
                return True
            if wide is not None and place < _WIDE_DRAWS and _apart([side.run(feeds) for side in wide], _ROUNDING_WIDE):
                return True
        except OnnxportError:
            continue
    return False


def _feeds(model: OnnxModel, count: int) -> Iterator[dict[str, Any]]:
    """Ordinary draws, edges, larger and smaller numbers, and the thresholds of trees."""
    drawn = DrawnInputs(model.model, SEED)
    more = {name: _ROWS if name in drawn.batch else size for name, size in drawn.sizes.items()}
    for seed in range(count):
        sizes = drawn.sizes if seed % 2 == 0 else more
        leaves = next(drawn.at("", sizes, "edges" if seed % 4 == 1 else "ordinary", seed)).leaves
        yield _named(model, (_scaled(leaf, _SCALES[seed // 4 % len(_SCALES)]) for leaf in leaves))
        if seed == 0 and count > 1:
            near = next(drawn.at("", more, "ordinary", seed)).leaves
            rows = rows_at_thresholds(model.model, near, np.random.default_rng(seed))
            if rows is not None:
                yield _named(model, rows)


def _named(model: OnnxModel, leaves: Iterable[Any]) -> dict[str, Any]:
    return dict(zip(model.input_names, leaves, strict=True))


def _scaled(leaf: Any, scale: float) -> Any:
    if not isinstance(leaf, np.ndarray) or leaf.dtype.kind != "f":
        return leaf
    return (leaf * scale).astype(leaf.dtype)


def _apart(sides: list[list[Any]], share: float) -> bool:
    return any(_unlike(np.asarray(a), np.asarray(b), share) for a, b in zip(*sides, strict=True))


def _unlike(x: np.ndarray, y: np.ndarray, share: float) -> bool:
    if x.shape != y.shape or x.dtype.kind != y.dtype.kind:
        return True
    if x.dtype.kind != "f":
        return not np.array_equal(x, y)
    if not np.array_equal(np.isfinite(x), np.isfinite(y)):
        return True
    a, b = (np.where(np.isfinite(side), side, 0.0).astype(np.float64) for side in (x, y))
    return bool(np.any(np.abs(a - b) > share * local_max(np.abs(a))))
