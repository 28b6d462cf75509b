"""Long sums as runtimes add them, a term after the other in a few lanes; PyTorch adds in pairs, and loses next to nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from onnxport.validation import tolerance
from onnxport.validation.runners.base import DEFAULT_LENGTH

SUMS = frozenset(("mean", "sum"))
# Operators that divide by a deviation, or give it: its square is a sum.
DEVIATIONS = frozenset("native_layer_norm native_group_norm native_batch_norm var var_mean std std_mean".split())


def added(name: str, args: Any, result: torch.Tensor) -> torch.Tensor:
    """The result of a long float32 sum or mean in a runtime's order of additions; else as it is."""
    x, dims = args[0], args[1] if len(args) > 1 else None
    if result.dtype != x.dtype or not result.numel():
        return result
    axes = _axes(x, dims)
    count = _count(x, axes)
    if not count or count != x.numel() // result.numel():
        return result
    total = _sum(x, axes).reshape(result.shape)
    return total / count if name == "mean" else total


def deviating(name: str, args: Any, result: Any) -> Any:
    """What one of `DEVIATIONS` gives of float32 with the deviation in a runtime's order of additions; else as it is."""
    x, rest = args[0], args[1:]
    if name == "native_layer_norm":
        size, weight, bias, eps = rest
        y = _normalized(x, range(x.dim() - len(size), x.dim()), eps)
        return result if y is None else (_scaled(y, weight, bias), *result[1:])
    if name == "native_group_norm":
        weight, bias, _, _, _, groups, eps = rest
        y = _normalized(x.reshape(x.shape[0], groups, -1), [2], eps)
        return result if y is None else (_of_channels(y.reshape(x.shape), weight, bias), *result[1:])
    if name == "native_batch_norm":
        weight, bias, _, _, training, _, eps = rest
        y = _normalized(x, [axis for axis in range(x.dim()) if axis != 1], eps) if training else None
        return result if y is None else (_of_channels(y, weight, bias), *result[1:])
    first = result[0] if isinstance(result, tuple) else result
    moved = _moved_spread(x, rest[0] if rest else None, first, root=name.startswith("std"))
    return (moved, *result[1:]) if isinstance(result, tuple) else moved


def _axes(x: torch.Tensor, dims: Any) -> list[int]:
    return list(range(x.dim())) if dims is None or dims == [] else [dims] if isinstance(dims, int) else list(dims)


def _count(x: torch.Tensor, axes: Sequence[int]) -> int:
    """How many terms a sum has; 0 for one that is short, or of another type."""
    count = math.prod(x.shape[axis] for axis in axes)
    return count if x.dtype == torch.float32 and x.dim() and x.numel() and count > DEFAULT_LENGTH else 0


def _sum(x: torch.Tensor, axes: Sequence[int]) -> torch.Tensor:
    return torch.from_numpy(tolerance.summed_in_lanes(x.detach().numpy(), axes))


def _spread(x: torch.Tensor, axes: Sequence[int], count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The deviations from the mean, and the mean of their squares."""
    sizes = [1 if axis in [a % x.dim() for a in axes] else size for axis, size in enumerate(x.shape)]
    apart = x - (_sum(x, axes) / count).reshape(sizes)
    return apart, (_sum(apart * apart, axes) / count).reshape(sizes)


def _normalized(x: torch.Tensor, axes: Sequence[int], eps: float) -> torch.Tensor | None:
    count = _count(x, axes)
    if not count:
        return None
    apart, square = _spread(x, axes, count)
    return apart / torch.sqrt(square + eps)


def _moved_spread(x: torch.Tensor, dims: Any, result: torch.Tensor, *, root: bool) -> torch.Tensor:
    """A variance or deviation, off by as much as that in lanes is off the one of PyTorch."""
    axes = _axes(x, dims)
    count = _count(x, axes)
    if not count or count != x.numel() // max(result.numel(), 1):
        return result
    square = _spread(x, axes, count)[1].reshape(result.shape)
    factor = square / torch.var(x, axes, correction=0).reshape(result.shape)
    factor = torch.where(torch.isfinite(factor), factor, 1.0)
    return result * (torch.sqrt(factor) if root else factor)


def _scaled(y: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None) -> torch.Tensor:
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def _of_channels(y: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None) -> torch.Tensor:
    sizes = [1, -1] + [1] * (y.dim() - 2)
    return _scaled(y, *(None if item is None else item.reshape(sizes) for item in (weight, bias)))
