"""What torch.export needs and torch lacks: shapes of the results of fake quantisation and least squares."""

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
    fakes = {**dict.fromkeys(_FAKE_QUANTIZE, _like_first), "linalg_lstsq": _least_squares}
    for name, fake in fakes.items():
        operator = getattr(torch.ops.aten, name, None)
        if operator is None or torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", "Meta"):
            continue
        try:
            torch.library.register_fake(f"aten::{name}", fake)
        except RuntimeError:  # another library has registered it
            continue


def _like_first(x: torch.Tensor, *_: object, **__: object) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(x), torch.empty_like(x, dtype=torch.bool)


def _least_squares(
    a: torch.Tensor, b: torch.Tensor, rcond: float | None = None, *, driver: str | None = None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """torch.linalg.lstsq: the solution, the residuals, the rank, the singular values; empty where the driver gives none."""
    *batch, rows, columns = a.shape
    right = b.shape[len(batch) + 1 :]
    has_rank, has_values = driver != "gels", driver in ("gelss", "gelsd")
    residuals = b.new_empty(0)
    if rows > columns and driver not in (None, "gelsy"):
        sizes = [*batch, *(right or [1])]
        if has_rank and len(sizes) == 1:  # there are none where a column depends on the others
            sizes = [torch.library.get_ctx().new_dynamic_size()]
        residuals = b.new_empty(sizes)
    return (
        b.new_empty((*batch, columns, *right)),
        residuals,
        a.new_empty(batch if has_rank else [0], dtype=torch.int64),
        a.new_empty([*batch, min(rows, columns)] if has_values else [0]),
    )
