"""`onnxport.convert` for programs that ask for an opset from before 13, as the documentation of other converters does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onnxport.compat.arguments import RefusedArgumentError
from onnxport.converters.convert import convert
from onnxport.converters.workbench import Proof, proved, with_types
from onnxport.errors import UnsupportedOperator
from onnxport.graph.passes.cleanup import clean
from onnxport.graph.passes.older_forms import write_older_forms
from onnxport.graph.passes.opset import convert_opset
from onnxport.model import OnnxModel
from onnxport.request import OPSETS

_OLDEST = 7  # what onnxruntime loads


class OlderOpsetError(UnsupportedOperator, RuntimeError):
    """Operators have no form at an opset before 13; other converters raise a RuntimeError then, for which programs wait."""


def convert_at(model: Any, *, target_opset: int | Mapping[str, int] | None, **options: Any) -> OnnxModel:
    """`onnxport.convert` to ONNX; at an opset from 7 to 12 what opset 13 has, brought there and run against it.

    Raises:
        RefusedArgumentError: the opset is older.
        OlderOpsetError: operators have no form at the older opset.
        OnnxportError: see `onnxport.convert`.
    """
    given: Mapping[str, int | None] = target_opset if isinstance(target_opset, Mapping) else {"": target_opset}
    opset = given.get("", given.get("ai.onnx"))
    if isinstance(opset, bool) or not isinstance(opset, int) or opset >= OPSETS.start:
        result: OnnxModel = convert(model, target_opset=target_opset, **options)
        return result
    if opset < _OLDEST:
        raise RefusedArgumentError(f"target_opset={opset}: a version of ai.onnx from {_OLDEST} to {OPSETS.stop - 1}")
    others = {name: version for name, version in given.items() if name not in ("", "ai.onnx") and version is not None}
    newer: OnnxModel = convert(model, target_opset={"": OPSETS.start, **others}, **options)
    graph = with_types(newer)
    write_older_forms(graph, opset)
    try:
        convert_opset(graph, opset)
    except UnsupportedOperator as error:
        raise OlderOpsetError(str(error), error.operators) from None
    clean(graph)
    older = proved(newer, OnnxModel(graph, runtime=newer.runtime), Proof())
    older.report, older.notes = newer.report, (*newer.notes, f"brought from opset {OPSETS.start} to {opset}")
    return older
