"""ONNX models from their textual form, at opset 21."""

from __future__ import annotations

import onnx
from onnx import parser

_HEAD = '<ir_version: 10, opset_import: ["": 21, "f": 1, "ai.onnx.ml": 5]>'


def parsed(text: str) -> onnx.ModelProto:
    """The model of a graph, and of functions, as ONNX's text."""
    return parser.parse_model(f"{_HEAD}\n{text}")
