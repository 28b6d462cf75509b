"""``from onnxport.compat import torch`` stands for ``import torch``: PyTorch itself, but for `torch.onnx`, which is ours."""

from typing import Any

from onnxport.compat import pytorch
from onnxport.compat.torch import onnx as onnx  # before __getattr__, which would give PyTorch's own

__all__ = ["onnx"]


def __getattr__(name: str) -> Any:
    return getattr(pytorch, name)


def __dir__() -> list[str]:
    return dir(pytorch)
