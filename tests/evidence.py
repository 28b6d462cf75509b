"""The one runner of cases, for every map in every direction: both sides on the case's inputs, judged as a proof judges them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from onnxport import frameworks
from onnxport.model import OnnxModel
from onnxport.opset_maps.cases import Case
from onnxport.request import Request
from onnxport.validation.comparison import ALL_NAN, NO_ELEMENTS, OutputReport
from onnxport.validation.input_sets.plan import source_runs
from onnxport.validation.parties import Party, Tolerance
from onnxport.validation.proof import bound, run_converted
from onnxport.validation.runners import Binding
from onnxport.validation.runners.onnx import OnnxRunner
from onnxport.validation.values import leaves_of
from tests.graph.written import moved_constants

# An output without elements, or without a number, has the source's type and shape, and NaN where the source has it.
NOTHING_TO_COMPARE = (NO_ELEMENTS, ALL_NAN)


def require_equal(
    source: Any,
    converted: Any,
    inputs: Any = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    methods: Sequence[str] | None = None,
    graph: OnnxModel | None = None,
    framework: str | None = None,
) -> tuple[OutputReport, ...]:
    """Runs both sides on `inputs` alone and asserts that the judge of the proofs finds no difference.

    `graph` is the ONNX model between the two, where neither is one; `framework` the source's, where its class and inputs do not
    tell it. A converted ONNX model must run in the runtime that it was
    written for.
    """
    hub = next(item for item in (converted, source, graph) if isinstance(item, OnnxModel))
    left = Party(source, framework or frameworks.of_object(source, leaves_of(inputs, kwargs)))
    right = Party(converted, frameworks.of_object(converted))
    binding = Binding(inputs, kwargs, methods=methods)
    parties = bound(left, right, binding, graph=hub.model, tolerance=Tolerance())
    if isinstance(parties.converted, OnnxRunner):
        assert not parties.converted.session.fallback_reason
    notes: list[str] = []
    with np.errstate(all="ignore"):
        run = next(source_runs(parties, 0, notes))
        report = run_converted(parties, run.inputs, run.outputs, run.seconds, notes)
    assert report is not None, notes
    assert not report.error, report.error
    assert report.outputs, "the source gives no outputs"
    wrong = [item for item in report.outputs if item.verdict != "pass" and item.reason not in NOTHING_TO_COMPARE]
    assert not wrong, "\n".join(map(str, wrong))
    return report.outputs


def require_case(
    case: Case, framework: str, opset: int, *, native: Callable[[Any], Any] = np.copy, **request: Any
) -> OnnxModel:
    """Converts a case, checks the file and compares it with the source; also at another batch size where that is dynamic.

    `native` turns the case's arrays into the framework's own; `request` are further options of the conversion.
    """
    model, drawn = case.call() if case.factory else case.call, case.draw()
    export = frameworks.get(framework).export
    assert export is not None
    given = [tuple(map(native, drawn))]
    hub: OnnxModel = export(model, Request(inputs=given[0], target_opset=opset, **request))
    onnx.checker.check_model(hub.proto, full_check=True)
    assert moved_constants(hub.model) == []
    missing = set(case.holds) - {node.op_type for node in hub.model.graph.all_nodes()}
    assert not missing, f"the graph has no {missing}"
    if case.dynamic:
        given.append(tuple(map(native, grown(drawn))))
    for inputs in given:
        require_equal(model, hub, inputs, framework=framework)
    return hub


def require_import(file: Any, framework: str, inputs: tuple[Any, ...], *, by: onnx.ModelProto | None = None) -> Any:
    """Builds the module of an ONNX model and compares it with the file as its runtime runs it.

    `by` computes the same; it counts as right where the runtime does not run `file` by its definition.
    """
    source = OnnxModel(file if isinstance(file, ir.Model) else ir.from_proto(file))
    build = frameworks.get(framework).build
    assert build is not None
    module = build(source.model)
    require_equal(source if by is None else OnnxModel(ir.from_proto(by)), module, inputs)
    return module


def grows(inputs: Sequence[Any]) -> list[bool]:
    """Which inputs have the batch of the first array as their first dimension."""
    batch = next((item.shape[0] for item in inputs if isinstance(item, np.ndarray) and item.ndim), None)
    return [isinstance(item, np.ndarray) and item.ndim > 0 and item.shape[0] == batch for item in inputs]


def grown(inputs: Sequence[Any]) -> list[Any]:
    """The inputs with the batch one larger."""
    pairs = zip(inputs, grows(inputs), strict=True)
    return [np.concatenate([item, item[:1]]) if in_batch else item for item, in_batch in pairs]
