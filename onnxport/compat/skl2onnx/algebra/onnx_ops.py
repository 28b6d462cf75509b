"""A class for each operator of ONNX: ``OnnxAdd``, ``OnnxAdd_7``."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from onnx import TensorProto, defs

from onnxport.compat.absent import absent
from onnxport.compat.skl2onnx.algebra.onnx_operator import OnnxOperator
from onnxport.compat.skl2onnx.writing import Container, Written

_NAME = re.compile(r"Onnx([A-Z][A-Za-z0-9]*?)(?:_(\d+)|Api(\d+))?")
_CLASSES: dict[str, type[OnnxOperator]] = {}


def __getattr__(name: str) -> Any:
    match = _NAME.fullmatch(name)
    domain = next((item for item in ("", "ai.onnx.ml") if match and defs.has(match[1], item)), None)
    if match is None or domain is None:
        absent(__name__, name)
    if name not in _CLASSES:
        members = {"operator": match[1], "operator_domain": domain, "__doc__": f"{match[1]} of {domain or 'ai.onnx'}."}
        _CLASSES[name] = type(name, (_OfAnyVersion if match[3] else OnnxOperator,), members)
    return _CLASSES[name]


class _OfAnyVersion(OnnxOperator):
    """``OnnxReduceSumApi11(x, axes=[1])``: an operator whose attributes became operands, written as its version has them."""

    _OPERANDS = ("axes", "split")

    def _count(self) -> int:
        split = self.attributes.get("split")
        return max(super()._count(), self.attributes.get("num_outputs") or 0, 0 if split is None else len(split))

    def _written(self, inputs: list[str], outputs: list[str], container: Container) -> Written:
        node = super()._written(inputs, outputs, container)
        known = defs.get_schema(self.operator, container.target_opset, self.domain)
        for name in self._OPERANDS:
            value = node.attributes.get(name)
            if value is None or name in known.attributes:
                continue
            constant = container.add_initializer(f"{outputs[0]}_{name}", TensorProto.INT64, None, np.ravel(value))
            node.inputs.append(constant)
            del node.attributes[name]
        if self.operator == "Split":  # from opset 18 on it takes the number of parts, before it is that of its outputs
            node.attributes.pop("num_outputs", None)
            if "num_outputs" in known.attributes and len(node.inputs) == 1:
                node.attributes["num_outputs"] = len(outputs)
        if not node.attributes.get("allowzero") and "allowzero" not in known.attributes:
            node.attributes.pop("allowzero", None)
        return node
