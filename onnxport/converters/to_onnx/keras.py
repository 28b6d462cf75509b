"""Keras 3 -> ONNX, through the backend that the model runs on."""

from __future__ import annotations

from typing import Any

from onnxport.model import OnnxModel
from onnxport.request import Request
from onnxport.tracing.keras import backend, trace


def export(model: Any, request: Request) -> OnnxModel:
    """The ONNX model of a Keras model or layer in inference mode.

    Raises:
        UnsupportedOperator: operators without an ONNX form, all of them at once.
        TracingError: the model can't be traced, or Keras runs on a backend that can't.
        InvalidInputError: inputs or names do not fit.
    """
    if backend() == "torch":
        from onnxport.converters.to_onnx import pytorch

        return pytorch.export(model, request)
    from onnxport.converters.to_onnx.tensorflow import export_traced

    return export_traced(model, request, trace)
