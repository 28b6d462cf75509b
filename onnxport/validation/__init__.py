"""Proving a conversion by running both sides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from onnxport import frameworks
from onnxport.errors import ValidationError

if TYPE_CHECKING:
    import onnx_ir as ir

    from onnxport.validation.report import Report


class _Request(Protocol):
    """The part of a conversion's request that a validation needs."""

    @property
    def inputs(self) -> Any: ...
    @property
    def kwargs(self) -> Mapping[str, Any] | None: ...
    @property
    def signature(self) -> str | None: ...
    @property
    def methods(self) -> Sequence[str] | None: ...


class _Hub(Protocol):
    """The ONNX model between source and result."""

    model: ir.Model
    notes: tuple[str, ...]


def prove(
    live: Any, hub: _Hub, result: Any, request: _Request, *, rtol: float | None = None, atol: float | None = None
) -> Report:
    """The report of a conversion just done.

    Args:
        live: the source, a live model of any framework; an `OnnxModel` where it is ONNX.
        hub: the `OnnxModel` that it became.
        result: `hub`, or what was built from it.
        request: the conversion's request, for its inputs, signature and methods.
        rtol: relative tolerance instead of the derived budget.
        atol: absolute tolerance instead of the derived budget.

    Raises:
        ValidationError: the result's numbers differ; it carries the report.
        InvalidInputError: the source itself can't run on the inputs.
    """
    from onnxport.validation.parties import Party, Tolerance
    from onnxport.validation.proof import compare
    from onnxport.validation.runners import Binding
    from onnxport.validation.values import leaves_of

    source = frameworks.of_object(live, leaves_of(request.inputs, request.kwargs))
    target = frameworks.of_object(result)
    report = compare(
        Party(live, source),
        Party(result, target),
        Binding(request.inputs, request.kwargs, signature=request.signature, methods=request.methods),
        graph=hub.model,
        tolerance=Tolerance(rtol, atol),
        notes=hub.notes,
    )
    if not report.passed:
        raise ValidationError(report)
    return report
