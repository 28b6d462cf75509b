"""What calls of a recorded graph are made of: parameters, constants, numbers."""

from __future__ import annotations

import torch
from torch import fx

from onnxport.opset_maps.from_onnx.pytorch.paths import is_constant
from onnxport.opset_maps.from_onnx.pytorch.tracing import Recorder


def is_parameter(item: object) -> bool:
    """Whether a value is a parameter or another attribute of the module."""
    return isinstance(item, fx.Node) and item.op == "get_attr"


def called(item: object, function: object) -> bool:
    """Whether a value is the result of a function."""
    return isinstance(item, fx.Node) and item.op == "call_function" and item.target is function


def constant(recorder: Recorder, item: object) -> torch.Tensor | None:
    """The content of a constant of the program."""
    if not isinstance(item, fx.Node) or item.op != "get_attr" or not is_constant(str(item.target)):
        return None
    content = recorder.attributes[str(item.target)]
    return content if isinstance(content, torch.Tensor) else None


def scalar(recorder: Recorder, item: object, rank: int = 4) -> float | None:
    """A number, as it is or as a constant of the program, that leaves a tensor of `rank` axes as many."""
    if isinstance(item, (int, float)):
        return float(item)
    content = constant(recorder, item)
    return float(content) if content is not None and content.numel() == 1 and content.dim() <= rank else None
