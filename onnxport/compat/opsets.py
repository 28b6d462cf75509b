"""`onnxport.convert` for programs that ask for an opset from before 13."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onnxport.compat.arguments import RefusedArgumentError
from onnxport.converters import older_opsets
from onnxport.converters.older_opsets import OLDEST
from onnxport.model import OnnxModel
from onnxport.request import OPSETS


def convert_at(model: Any, *, target_opset: int | Mapping[str, int] | None, **options: Any) -> OnnxModel:
    """See `onnxport.converters.older_opsets`; an opset that is too old is an error for which programs wait.

    Raises:
        RefusedArgumentError: the opset is from before 7.
        OnnxportError: see there.
    """
    opset = older_opsets.asked(target_opset)
    if opset is not None and opset < OLDEST:
        raise RefusedArgumentError(f"target_opset={opset}: a version of ai.onnx from {OLDEST} to {OPSETS.stop - 1}")
    result: OnnxModel = older_opsets.convert_at(model, target_opset=target_opset, **options)
    return result
