"""Calls whose weights are parameters become layers under the parameters' own names."""

from __future__ import annotations

from onnxport.opset_maps.from_onnx.pytorch.tracing import Recorder


def recognise(recorder: Recorder) -> None:
    """Rewrites a finished graph."""
