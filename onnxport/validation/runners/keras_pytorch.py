"""The inner values of a Keras model on the PyTorch backend, whose layers are modules: torch.export traces a call of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from onnxport.validation.runners.pytorch import PytorchRunner


class _Called(torch.nn.Module):
    """A call of a model, which Keras would take for one of its own layers if it were theirs."""

    def __init__(self, model: torch.nn.Module, call: Callable[[Any, Sequence[Any]], Any]) -> None:
        super().__init__()
        self.model, self._call = model, call

    def forward(self, *tensors: torch.Tensor) -> Any:
        """What the model gives."""
        return self._call(self.model, tensors)


def each_inner(
    model: torch.nn.Module,
    call: Callable[[Any, Sequence[Any]], Any],
    leaves: Sequence[Any],
    take: Callable[[str, Any], None],
) -> None:
    """Hands over the results of torch.export's operators by node name; of none where the model can't be traced."""
    PytorchRunner(_Called(model, call), "", None, structured=True).each_intermediate(leaves, take)
