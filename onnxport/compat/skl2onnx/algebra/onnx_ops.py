"""A class for each operator of ONNX: ``OnnxAdd``, ``OnnxAdd_7``."""

from __future__ import annotations

import re
from typing import Any

from onnx import defs

from onnxport.compat.skl2onnx.algebra.onnx_operator import OnnxOperator

_NAME = re.compile(r"Onnx([A-Z][A-Za-z0-9]*)(?:_(\d+))?")
_CLASSES: dict[str, type[OnnxOperator]] = {}


def __getattr__(name: str) -> Any:
    match = _NAME.fullmatch(name)
    domain = next((item for item in ("", "ai.onnx.ml") if match and defs.has(match[1], item)), None)
    if match is None or domain is None:
        raise AttributeError(f"skl2onnx.algebra.onnx_ops has no {name}: ONNX has no such operator")
    if name not in _CLASSES:
        members = {"operator": match[1], "operator_domain": domain, "__doc__": f"{match[1]} of {domain or 'ai.onnx'}."}
        _CLASSES[name] = type(name, (OnnxOperator,), members)
    return _CLASSES[name]
