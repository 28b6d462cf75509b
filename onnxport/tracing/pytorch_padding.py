"""torch.nn.TransformerEncoder while tracing: padded positions are zeros, as without gradients torch runs it.

Without gradients torch takes the padding out (a nested tensor) and puts zeros in its place behind the last layer. It
decides on the mask's values and never does so in a trace, so that a hook on the last layer writes the same there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn


@contextmanager
def padding_as_zeros(root: nn.Module) -> Iterator[None]:
    """While it is active, the encoders within `root` give what they give without gradients."""
    with ExitStack() as stack:
        for encoder in root.modules():
            if isinstance(encoder, nn.TransformerEncoder) and _takes_padding_out(encoder):
                for handle in _Padding(encoder).hooks():
                    stack.callback(handle.remove)
        yield


def _takes_padding_out(encoder: nn.TransformerEncoder) -> bool:
    layers = list(encoder.layers)
    return bool(layers and getattr(encoder, "use_nested_tensor", False) and not layers[0].training)


class _Padding:
    """What one encoder's hooks know: whether it is running."""

    def __init__(self, encoder: nn.TransformerEncoder) -> None:
        self.encoder = encoder
        self.running = False

    def hooks(self) -> list[Any]:
        """The handles of the hooks that it sets."""
        return [
            self.encoder.register_forward_pre_hook(self._enter),
            list(self.encoder.layers)[-1].register_forward_hook(self._after_layers, with_kwargs=True),
            self.encoder.register_forward_hook(self._leave),
        ]

    def _enter(self, module: nn.Module, args: object) -> None:
        self.running = True

    def _leave(self, module: nn.Module, args: object, output: object) -> None:
        self.running = False

    def _after_layers(self, module: nn.Module, args: tuple[Tensor, ...], kwargs: dict[str, Any], output: Tensor) -> Any:
        padding = kwargs.get("src_key_padding_mask")
        if padding is None or kwargs.get("src_mask") is not None or output.dim() != 3:
            return output
        if not self.running or torch.is_autocast_enabled():
            return output
        taken = padding.logical_not()
        padded = taken.logical_not()
        if getattr(self.encoder, "mask_check", True):  # only where all padding comes last
            padded = padded & (taken[:, 1:] & padded[:, :-1]).any().logical_not()
        return output.masked_fill(padded.unsqueeze(-1), 0.0)
