"""What torch.export needs and torch lacks: shapes of the fake-quantisation operators' results."""

from __future__ import annotations

from functools import cache

import torch

_FAKE_QUANTIZE = (
    "fake_quantize_per_tensor_affine_cachemask",
    "fake_quantize_per_channel_affine_cachemask",
    "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
)


@cache
def register() -> None:
    """Tells torch what the operators give, once a process, where it does not know."""
    for name in _FAKE_QUANTIZE:
        operator = getattr(torch.ops.aten, name, None)
        if operator is None or torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", "Meta"):
            continue
        try:
            torch.library.register_fake(f"aten::{name}", _like_first)
        except RuntimeError:  # another library has registered it
            continue


def _like_first(x: torch.Tensor, *_: object, **__: object) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(x), torch.empty_like(x, dtype=torch.bool)
