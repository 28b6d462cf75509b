"""PyTorch itself, which `onnxport.compat.torch` gives all names of but ``onnx``."""

from typing import Any

import torch as _torch


def __getattr__(name: str) -> Any:
    return getattr(_torch, name)


def __dir__() -> list[str]:
    return dir(_torch)
