"""What stands in for layers of torch.nn while they are traced: hooks, which are gone afterwards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import torch
from torch.overrides import TorchFunctionMode

from onnxport.tracing.pytorch_padding import padding_as_zeros
from onnxport.tracing.pytorch_recurrent import kept_whole


@contextmanager
def hooked(root: torch.nn.Module, modes: Sequence[TorchFunctionMode]) -> Iterator[None]:
    """While it is active, the layers within `root` have the hooks that their kind and the active `modes` need."""
    with ExitStack() as stack:
        stack.enter_context(padding_as_zeros(root))
        for mode in modes:
            if isinstance(mode, kept_whole):
                stack.enter_context(mode.packing.around(root))
        yield
