"""The judgement on a random graph: an importer's model beside ONNX's reference evaluator, by the judge of the proofs."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import onnx
import onnx_ir as ir

import onnxport
from onnxport.errors import OnnxportError, UnsupportedOperator
from onnxport.graph.runtime import Session
from onnxport.validation.comparison import ALL_NAN, NO_ELEMENTS
from onnxport.validation.input_sets.base import InputSet, specs_of
from onnxport.validation.parties import Comparison, Tolerance
from onnxport.validation.proof import run_converted
from onnxport.validation.runners import Binding, bind
from onnxport.validation.runners.base import Outputs
from onnxport.validation.runners.onnx import OnnxRunner
from onnxport.validation.runners.onnx_noise import with_noise
from scripts.conformance.random_graph_drawing import DrawnGraph

# By operator where ONNX's reference evaluator (onnx 1.23) does not do what the specification says, and what that says.
# A graph that holds one of them counts as right where it agrees with onnxruntime.
DEFECTS: dict[str, str] = {
    **dict.fromkeys(
        ("RNN", "GRU", "LSTM"),
        "`activations`, `clip`, `input_forget`, `sequence_lens` and the direction count; the evaluator ignores them",
    ),
    "MaxPool": "the evaluator misplaces the windows of three dimensions that are padded on one side",
    "LpPool": "the sum of a window that overhangs is that of its elements; the evaluator scales their mean by the whole window",
    "ConvTranspose": "`auto_pad` cuts a result, also by the shape inference of ONNX; the evaluator lengthens it",
    "RoiAlign": "before opset 16 boxes are not moved by half a pixel; the evaluator moves them",
    "HannWindow": "the two ends of a symmetric window are 0; the evaluator's are the rounding of a sine",
    "Unique": "`sorted=0` keeps the order in which values come; the evaluator sorts them where it gives them alone",
    "StringNormalizer": "words that are no stop words stay, the empty one too, which the evaluator drops",
    "BatchNormalization": "before opset 14 one output means inference; the evaluator trains where `momentum` is given",
    "Resize": "`pytorch_half_pixel` takes the one element of an axis from 0, the evaluator from -0.5",
    **dict.fromkeys(
        ("Softmax", "LogSoftmax", "Hardmax"),
        "before opset 13 the input is a matrix of what lies before and behind the axis; the evaluator has one axis alone",
    ),
}


@dataclass(frozen=True)
class GraphOutcome:
    """How a draw ended: ``right``, ``by onnxruntime`` (see `DEFECTS`), ``refused``, ``wrong`` or ``crashed``, and why."""

    verdict: str
    reason: str = ""

    BAD: ClassVar[tuple[str, ...]] = ("wrong", "crashed")

    @property
    def is_bad(self) -> bool:
        """Whether it is a defect."""
        return self.verdict in self.BAD


class ReferenceRunner(OnnxRunner):
    """A graph in ONNX's reference evaluator, which also shows what rounding of its inner results does."""

    def run_moved(self, leaves: Sequence[Any], units: int, seed: int) -> Outputs | None:
        """Outputs with weights and inner results off by one unit in the last place."""
        if self.graph is not None and self.runtime == "onnx.reference" and self._noisy is None:
            with suppress(OnnxportError):
                self._noisy = Session(with_noise(self.graph, None), runtime="reference")
        return super().run_moved(leaves, units, seed)


def judged_graph(drawn: DrawnGraph, framework: str) -> GraphOutcome:
    """Converts, runs and compares."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            model = onnxport.convert(
                onnx.ModelProto.FromString(drawn.model.SerializeToString()), framework, validate=False
            )
        except UnsupportedOperator as error:
            return GraphOutcome("refused", _line(error))
        except Exception as error:
            return GraphOutcome("crashed", f"importing: {type(error).__name__}: {_line(error)}")
        verdict = _against(drawn, model, framework, "reference")
        if not verdict.is_bad or verdict.verdict == "crashed":
            return verdict
        return _by_specification(drawn, model, framework, verdict)


def _by_specification(drawn: DrawnGraph, model: Any, framework: str, verdict: GraphOutcome) -> GraphOutcome:
    """The verdict where a graph with an operator of `DEFECTS` agrees with onnxruntime, whole or node by node."""
    known = [name for name in drawn.operators if name in DEFECTS]
    try:
        other = _against(drawn, model, framework, "onnxruntime")
    except OnnxportError as error:
        other = GraphOutcome("wrong", f"onnxruntime does not run it: {_line(error)[:80]}")
    if other.verdict == "right":
        note = f"[right by onnxruntime] {verdict.reason}"
        return GraphOutcome("by onnxruntime", known[0]) if known else replace(verdict, reason=note)
    if known and len(drawn.operators) > 1:
        single = [piece for piece in pieces_of(drawn) if len(piece.operators) == 1 and piece.operators != ["Constant"]]
        if all(judged_graph(piece, framework).verdict in ("right", "by onnxruntime") for piece in single):
            return GraphOutcome("by onnxruntime", known[0])
    return replace(verdict, reason=f"{verdict.reason} [{other.reason[:120]}]")


def _against(drawn: DrawnGraph, model: Any, framework: str, runtime: Any) -> GraphOutcome:
    graph = ir.from_proto(onnx.shape_inference.infer_shapes(drawn.model))
    session = Session(drawn.model, runtime=runtime)
    if runtime == "onnxruntime" and session.backend != runtime:
        return GraphOutcome("wrong", f"onnxruntime does not load it: {session.fallback_reason[:80]}")
    names = tuple(value.name or "" for value in graph.graph.outputs)
    binding = Binding(specs=specs_of(graph), output_names=names, structured=True)
    right = bind(model, framework, binding)
    parties = Comparison(ReferenceRunner(session, "", None, graph), right, None, binding.specs, graph, Tolerance())
    inputs = InputSet("drawn", drawn.inputs, optional=False)
    expected = parties.source.run(drawn.inputs)
    notes: list[str] = []
    report = run_converted(parties, inputs, expected, 0.0, notes)
    if report is None:
        return GraphOutcome("crashed", "; ".join(notes))
    if report.error:
        verdict = "refused" if "UnsupportedOperator" in report.error else "crashed"
        return GraphOutcome(verdict, f"running: {report.error}")
    bad = [
        item for item in report.outputs if item.verdict != "pass" and not item.reason.endswith((ALL_NAN, NO_ELEMENTS))
    ]
    return GraphOutcome("wrong", "; ".join(map(str, bad))) if bad else GraphOutcome("right")


def _line(error: Exception) -> str:
    if isinstance(error, UnsupportedOperator) and error.operators:
        return "; ".join(
            f"{item.op}: {re.sub(r'[0-9]+', 'N', item.reason or 'no mapping')}" for item in error.operators
        )
    return (str(error).splitlines() or [""])[0]


def pieces_of(drawn: DrawnGraph) -> Iterator[DrawnGraph]:
    """The graphs of some successive nodes, the shortest first, on the values that reach them."""
    from onnxport.graph.evaluator import reference_evaluator
    from scripts.conformance.random_graph_drawing import Drawing

    graph = drawn.model.graph
    shown = onnx.ModelProto.FromString(drawn.model.SerializeToString())
    del shown.graph.output[:]
    names = [name for node in graph.node for name in node.output if name]
    shown.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    feeds = {info.name: value for info, value in zip(graph.input, drawn.inputs, strict=True)}
    with np.errstate(all="ignore"):
        values = dict(zip(names, reference_evaluator(shown).run(None, feeds), strict=True))
    import random

    again = Drawing(random.Random(0), drawn.model.opset_import[0].version)
    again.values = {**feeds, **{item.name: onnx.numpy_helper.to_array(item) for item in graph.initializer}, **values}
    again.given = {**dict.fromkeys(again.values, False), **{item.name: True for item in graph.initializer}}
    for length in range(1, len(graph.node) + 1):
        for start in range(len(graph.node) - length + 1):
            nodes = list(graph.node)[start : start + length]
            outputs = [name for node in nodes for name in node.output if name]
            model = again.model(nodes, outputs)
            leaves = tuple(again.values[item.name] for item in model.graph.input)
            yield DrawnGraph(model, leaves, drawn.number)
