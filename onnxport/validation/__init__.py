"""Proving a conversion by running both sides."""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING, Protocol

from onnxport import frameworks
from onnxport.errors import UnprovedWarning, ValidationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx_ir as ir

    from onnxport.validation.report import Report
    from onnxport.validation.runners.base import Binding
    from onnxport.validation.witnesses.engine import Engine


class _Hub(Protocol):
    """The ONNX model between source and result."""

    model: ir.Model
    notes: tuple[str, ...]

    @property
    def plain(self) -> ir.Model: ...


def prove(
    live: object,
    hub: _Hub,
    result: object,
    binding: Binding,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    title: str = "",
    witnesses: Sequence[Engine] = (),
) -> Report:
    """The report of a conversion just done; an `UnprovedWarning` names what is neither proved nor refuted.

    `live`, the source, an `OnnxModel` where it is ONNX, became `hub`; `result` is that or what was built from it. `binding`
    has the user's inputs, and how the source is called with them. Tolerances stand instead of the derived budget. `title` is what
    the report calls the source; by default its class. The `witnesses` run an ONNX result too.

    Raises:
        ValidationError: the result's numbers differ; it carries the report.
        InvalidInputError: the source itself can't run on the inputs.
    """
    from onnxport.validation.parties import Party, Tolerance
    from onnxport.validation.proof import compare
    from onnxport.validation.values import leaves_of

    source = frameworks.of_object(live, leaves_of(binding.inputs, binding.kwargs))
    target = frameworks.of_object(result)
    left, right, tolerance = Party(live, source, title), Party(result, target), Tolerance(rtol, atol)
    graph, notes = hub.plain, hub.notes
    return settled(compare(left, right, binding, graph=graph, tolerance=tolerance, notes=notes, witnesses=witnesses))


def settled(report: Report) -> Report:
    """The report; an `UnprovedWarning` names what of it is neither proved nor refuted.

    Raises:
        ValidationError: the result's numbers differ; it carries the report.
    """
    from onnxport.validation.text import because

    if report.verdict == "failed":
        raise ValidationError(report)
    if report.verdict == "unproved":
        reasons = "; ".join(because(item) for item in report.unproved)
        warnings.warn(f"the conversion is unproved: {reasons}", UnprovedWarning, stacklevel=_callers())
    return report


def _callers() -> int:
    """How many frames lie between the warning and the code that called onnxport."""
    depth, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "onnxport":
        depth, frame = depth + 1, frame.f_back
    return depth
