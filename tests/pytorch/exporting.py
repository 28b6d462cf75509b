"""Exporting a PyTorch model with fewer words."""

from __future__ import annotations

from typing import Any

from onnxport.converters.to_onnx.pytorch import export
from onnxport.model import OnnxModel
from onnxport.request import Request


def exported(model: Any, *inputs: Any, **request: Any) -> OnnxModel:
    """The model as ONNX."""
    return export(model, Request(inputs=inputs, **request))
