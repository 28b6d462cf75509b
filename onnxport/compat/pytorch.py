"""``from onnxport.compat import torch`` stands for ``import torch``: PyTorch itself, but for `torch.onnx`, which is ours."""

from typing import Any

import torch as _torch

from onnxport.compat import torch_onnx as onnx

__all__ = ["onnx"]


def __getattr__(name: str) -> Any:
    return getattr(_torch, name)


def __dir__() -> list[str]:
    return [*dir(_torch), "onnx"]
