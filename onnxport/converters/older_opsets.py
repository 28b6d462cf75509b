"""`onnxport.convert` for those who ask for an opset from before 13, as the documentation of other converters does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onnxport.converters.convert import convert
from onnxport.converters.workbench import Proof, proved, with_types
from onnxport.errors import InvalidInputError, UnsupportedOperator
from onnxport.graph.passes.cleanup import clean
from onnxport.graph.passes.older_forms import write_older_forms
from onnxport.graph.passes.opset import convert_opset
from onnxport.model import OnnxModel
from onnxport.request import OPSETS

OLDEST = 7  # what onnxruntime loads


class OlderOpsetError(UnsupportedOperator, RuntimeError):
    """Operators have no form at an opset before 13; other converters raise a RuntimeError then, for which programs wait."""


def asked(target_opset: object) -> int | None:
    """The version of ai.onnx that is asked for, where it is one from before 13."""
    given: Mapping[str, Any] = target_opset if isinstance(target_opset, Mapping) else {"": target_opset}
    opset = given.get("", given.get("ai.onnx"))
    older = isinstance(opset, int) and not isinstance(opset, bool) and opset < OPSETS.start
    return opset if older else None


def convert_at(
    model: Any,
    to: str = "onnx",
    *,
    target_opset: int | Mapping[str, int] | None = None,
    output: Any = None,
    **options: Any,
) -> Any:
    """`onnxport.convert`; to ONNX at an opset from 7 to 12 what opset 13 has, brought there and run against it.

    Raises:
        InvalidInputError: the opset is older still.
        OlderOpsetError: operators have no form at the older opset.
        OnnxportError: see `onnxport.convert`.
    """
    opset = asked(target_opset)
    if opset is None:
        return convert(model, to, target_opset=target_opset, output=output, **options)
    if opset < OLDEST:
        raise InvalidInputError(f"target_opset={opset}: a version of ai.onnx from {OLDEST} to {OPSETS.stop - 1}")
    given: Mapping[str, int | None] = target_opset if isinstance(target_opset, Mapping) else {}
    others = {name: version for name, version in given.items() if name not in ("", "ai.onnx") and version is not None}
    newer: OnnxModel = convert(model, to, target_opset={"": OPSETS.start, **others}, **options)
    graph = with_types(newer)
    write_older_forms(graph, opset)
    try:
        convert_opset(graph, opset)
    except UnsupportedOperator as error:
        raise OlderOpsetError(str(error), error.operators) from None
    clean(graph)
    older = OnnxModel(graph, runtime=newer.runtime)
    older = proved(newer, older, Proof()) if options.get("validate", True) else older
    older.report, older.notes = newer.report, (*newer.notes, f"brought from opset {OPSETS.start} to {opset}")
    if output is not None:
        older.save(output)
    return older
