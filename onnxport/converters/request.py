"""Moved to `onnxport.request`."""

from onnxport.request import DEFAULT_OPSET, OPSETS, Optimize, Request

__all__ = ["DEFAULT_OPSET", "OPSETS", "Optimize", "Request"]
