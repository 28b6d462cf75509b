"""Small named functions that an imported model calls where torch has no single one.

Each takes tensors and computes what ONNX defines; they run in eager mode and under torch.export alike.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F

from onnxport.opset_maps.from_onnx.pytorch.worlds import META, rule
from onnxport.opset_maps.from_onnx.values import Ints, Law

Tensor: TypeAlias = torch.Tensor


rule(torch.Tensor.item, lambda fresh, x: 1.5 if x.dtype.is_floating_point else fresh)


def numbers(x: torch.Tensor) -> list[Any]:
    """The elements of a vector; one by one for `torch.export`, whose tensors hold none yet."""
    return [x[i].item() for i in range(x.shape[0])] if torch.compiler.is_compiling() else x.tolist()


# Numbers of which no two differ by the same in both worlds.
rule(
    numbers,
    lambda fresh, x: [1.5 if x.dtype.is_floating_point else fresh * (i + 1) for i in range(x.shape[0])],
)


def from_the_end(indices: Tensor, size: int) -> Tensor:
    """Indices of an axis of `size`, negative ones counted from its end, which torch's embedding does not do itself."""
    return torch.where(indices < 0, indices + size, indices)


rule(from_the_end, lambda fresh, indices, size: indices)


def gelu(x: Tensor) -> Tensor:
    """x times the normal distribution function of x.

    On some processors torch's own kernel of float32 is off by 1e-6 and gives NaN of infinity (PyTorch 2.13).
    """
    if x.dtype != torch.float32:
        return F.gelu(x)
    inner = x / math.sqrt(2)
    if torch.compiler.is_compiling() or (torch.is_grad_enabled() and x.requires_grad):
        return x * 0.5 * (torch.erf(inner) + 1)
    return inner.erf_().add_(1).mul_(x * 0.5)  # in its own memory: quicker; compilers do so themselves


def settled_softmax(x: Tensor, axis: int) -> Tensor:
    """The softmax, and zeros instead of NaN: of a row that is all -infinity, or has an infinity or a NaN in it.

    Such rows are set before the softmax and not behind it: the gradient of a NaN is NaN even where its value is not taken.
    """
    settled = torch.isfinite(x.amax(axis, keepdim=True))
    return torch.where(settled, F.softmax(torch.where(settled, x, 0.0), axis), 0.0)


def to_float8(x: Tensor, dtype: torch.dtype, saturate: bool) -> Tensor:
    """Rounded to nearest; out of range the greatest value with `saturate`, else infinity or NaN."""
    wide = x if x.dtype.is_floating_point and x.dtype.itemsize > 1 else x.float()
    if saturate:
        greatest_value = torch.finfo(dtype).max
        wide = torch.where(wide.isnan(), wide, wide.clamp(-greatest_value, greatest_value))
    elif dtype == torch.float8_e4m3fn:
        # torch saturates this type; beyond the midpoint to the next power it has no value.
        wide = torch.where(wide.abs() > 464.0, torch.full_like(wide, math.nan), wide)
    return wide.to(dtype)


def to_minifloat(x: Tensor, mantissa_bits: int, least_exponent: int, greatest_value: float) -> Tensor:
    """x rounded to nearest even among the values of a small float type without infinities, held in float32."""
    wide = x.float()
    _, exponent = torch.frexp(wide)
    step = torch.ldexp(torch.ones_like(wide), (exponent - 1).clamp(min=least_exponent) - mantissa_bits)
    rounded = torch.round(wide / step) * step
    rounded = rounded.clamp(-greatest_value, greatest_value)
    return torch.where(wide.isnan(), torch.full_like(wide, -0.0), rounded)


def wrap(x: Tensor, bits: int, signed: bool, held: torch.dtype) -> Tensor:
    """The low `bits` of an integer, read as signed or not, held in a wider type."""
    wide = x.to(torch.int64)
    low = wide & ((1 << bits) - 1)
    if signed:
        low = torch.where(low >= 1 << (bits - 1), low - (1 << bits), low)
    return low.to(held)


def truncate(x: Tensor, dtype: torch.dtype) -> Tensor:
    """A floating-point tensor as integers, through the widest so that small types wrap as C does."""
    return x.to(torch.int64).to(dtype)


def with_slope(whole: Tensor, smooth: Tensor, offset: Tensor | None, low: float, high: float) -> Tensor:
    """`whole` with the gradient of `smooth` + `offset`, none outside of the limits: as if nothing had been rounded.

    Source: the straight-through estimator; see `slopes.py`.
    """
    if not (torch.is_grad_enabled() and smooth.requires_grad):
        return whole
    moved = smooth if offset is None else smooth + offset
    bounded = torch.nan_to_num(moved.clamp(low, high)).to(whole.dtype)
    return whole + (bounded - bounded.detach())


def power(a: Tensor, b: Tensor) -> Tensor:
    """a to the b, in the type of a."""
    return torch.pow(a, b).to(a.dtype)


def _shifted(shift: Callable[..., Tensor], a: Tensor, b: Tensor, bits: int) -> Tensor:
    return torch.where(b >= bits, torch.zeros_like(a), shift(a, torch.where(b >= bits, torch.zeros_like(b), b)))


def shift_left(a: Tensor, b: Tensor, bits: int) -> Tensor:
    """a << b, 0 from `bits` on."""
    return _shifted(operator.lshift, a, b, bits)


def shift_right(a: Tensor, b: Tensor, bits: int) -> Tensor:
    """a >> b, 0 (signed: the sign) from `bits` on."""
    return a >> b.clamp(max=bits - 1) if a.dtype != torch.uint8 else shift_right_unsigned(a, b, bits)


def shift_right_unsigned(a: Tensor, b: Tensor, bits: int) -> Tensor:
    """a >> b of non-negative numbers, 0 from `bits` on."""
    return _shifted(operator.rshift, a, b, bits)


def _least(dtype: torch.dtype) -> Any:
    return False if dtype == torch.bool else -math.inf if dtype.is_floating_point else torch.iinfo(dtype).min


def _greatest(dtype: torch.dtype) -> Any:
    return True if dtype == torch.bool else math.inf if dtype.is_floating_point else torch.iinfo(dtype).max


def _extreme(reduce: Callable[..., Tensor], empty: Any, x: Tensor, axes: Ints, keepdims: bool) -> Tensor:
    if all(x.shape[i] for i in axes):
        return reduce(x, tuple(axes), keepdims)
    shape = [1 if i in axes else n for i, n in enumerate(x.shape) if keepdims or i not in axes]
    return torch.full(shape, empty, dtype=x.dtype, device=x.device)


def reduce_max(x: Tensor, axes: Ints, keepdims: bool) -> Tensor:
    """Greatest element along axes; over no elements the least value of the type."""
    return _extreme(torch.amax, _least(x.dtype), x, axes, keepdims)


def reduce_min(x: Tensor, axes: Ints, keepdims: bool) -> Tensor:
    """Least element along axes; over no elements the greatest value of the type."""
    return _extreme(torch.amin, _greatest(x.dtype), x, axes, keepdims)


def reduce_prod(x: Tensor, axes: Ints, keepdims: bool) -> Tensor:
    """Product along axes, in the type of x."""
    for axis in sorted(axes, reverse=True):
        x = torch.prod(x, axis, keepdim=keepdims, dtype=x.dtype)
    return x


def reduce_mean(x: Tensor, axes: Ints, keepdims: bool) -> Tensor:
    """Mean of integers along axes, rounded toward zero."""
    total = torch.sum(x, tuple(axes), keepdims, dtype=x.dtype)
    return torch.div(total, math.prod(x.shape[i] for i in axes), rounding_mode="trunc")


def same(a: int | torch.SymInt, b: int | torch.SymInt) -> bool:
    """Whether two sizes are surely equal, without a condition on symbolic ones."""
    if not torch.compiler.is_compiling():
        return bool(a == b)
    from torch.fx.experimental.symbolic_shapes import statically_known_true  # loads sympy, which a call does not need

    return statically_known_true(a == b)


def expand(x: Tensor, shape: Ints) -> Tensor:
    """x and a tensor of `shape` broadcast against each other."""
    rank = max(x.dim(), len(shape))
    ours = [1] * (rank - x.dim()) + list(x.shape)
    theirs = [1] * (rank - len(shape)) + list(shape)
    # A size that the values decide is compared with no number: it is asked first whether it surely is the other one.
    return x.expand([a if same(a, b) else b if a == 1 else a for a, b in zip(ours, theirs, strict=True)])


def reverse_slice(x: Tensor, axis: int, start: int | None, stop: int | None, step: int) -> Tensor:
    """A slice with a negative step."""
    positions = range(*slice(start, stop, step).indices(x.shape[axis]))
    return torch.index_select(x, axis, torch.tensor(positions, dtype=torch.int64, device=x.device))


def pad_by_index(x: Tensor, pads: Sequence[tuple[int, int]], mode: str) -> Tensor:
    """Padding whose elements come from x: of any number of axes and any width."""
    for axis, (before, after) in enumerate(pads):
        if isinstance(before, int) and isinstance(after, int) and before == after == 0:
            continue
        size = x.shape[axis]
        index = torch.arange(-before, size + after, device=x.device)
        if mode == "edge":
            index = index.clamp(0, size - 1)
        elif mode == "wrap":
            index = torch.remainder(index, size)
        else:
            period = max(2 * (size - 1), 1)
            index = torch.remainder(index, period)
            index = torch.where(index >= size, period - index, index)
        x = torch.index_select(x, axis, index)
    return x


def pad_with(x: Tensor, pads: Sequence[tuple[int, int]], value: Tensor) -> Tensor:
    """Padding with the element of a tensor."""
    flat = [n for pair in reversed(pads) for n in pair]
    inside = F.pad(torch.ones_like(x, dtype=torch.bool), flat)
    return torch.where(inside, F.pad(x, flat), value.reshape(()))


def gather_elements(x: Tensor, indices: Tensor, axis: int) -> Tensor:
    """One element an index; indices may be negative."""
    indices = indices.to(torch.int64)
    return torch.gather(x, axis, torch.where(indices < 0, indices + x.shape[axis], indices))


def gather_nd(x: Tensor, indices: Tensor, batch_dims: int = 0) -> Tensor:
    """Slices at index tuples; indices may be negative."""
    depth = indices.shape[-1]
    if batch_dims == 0:
        return x[tuple(indices[..., i] for i in range(depth))] if depth else x.expand(*indices.shape[:-1], *x.shape)
    batch = x.shape[:batch_dims]
    flat = math.prod(batch)
    rows = indices.reshape(flat, -1, depth)
    data = x.reshape(flat, *x.shape[batch_dims:])
    number = torch.arange(flat, device=x.device).reshape(-1, 1).expand(flat, rows.shape[1])
    result = data[(number, *(rows[..., i] for i in range(depth)))]
    return result.reshape(*indices.shape[:-1], *x.shape[batch_dims + depth :])


_REDUCE = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


def scatter_elements(x: Tensor, indices: Tensor, updates: Tensor, axis: int, reduction: str = "none") -> Tensor:
    """x with one element an index replaced or combined; indices may be negative."""
    indices = indices.to(torch.int64)
    indices = torch.where(indices < 0, indices + x.shape[axis], indices)
    if reduction == "none":
        return torch.scatter(x, axis, indices, updates)
    return _reduced(x, lambda wide, new: wide.scatter_reduce(axis, indices, new, _REDUCE[reduction]), updates)


def _reduced(x: Tensor, combine: Callable[[Tensor, Tensor], Tensor], updates: Tensor) -> Tensor:
    if x.dtype == torch.bool:
        return combine(x.to(torch.uint8), updates.to(torch.uint8)).to(torch.bool)
    return combine(x, updates)


def scatter_nd(x: Tensor, indices: Tensor, updates: Tensor, reduction: str = "none") -> Tensor:
    """x with slices at index tuples replaced or combined; indices may be negative."""
    depth = indices.shape[-1]
    inner = x.shape[depth:]
    flat = x.reshape(-1, *inner)
    position = torch.zeros(indices.shape[:-1], dtype=torch.int64, device=x.device)
    for i in range(depth):
        size = x.shape[i]
        index = indices[..., i].to(torch.int64)
        position = position * size + torch.where(index < 0, index + size, index)
    position = position.reshape(-1)
    rows = updates.reshape(-1, *inner)
    if reduction == "none":
        return flat.index_copy(0, position, rows).reshape(x.shape)
    shaped = position.reshape(-1, *[1] * len(inner)).expand_as(rows)
    combined = _reduced(flat, lambda wide, new: wide.scatter_reduce(0, shaped, new, _REDUCE[reduction]), rows)
    return combined.reshape(x.shape)


def items_to(items: list[Tensor], dtype: torch.dtype) -> list[Tensor]:
    """A sequence with its tensors in another element type."""
    return [item.to(dtype) for item in items]


def nonzero(x: Tensor) -> Tensor:
    """[rank, n]: indices of what is not zero; no row for a scalar."""
    return torch.nonzero(x).transpose(0, 1)


rule(nonzero, lambda fresh, x: torch.empty((x.dim(), fresh), dtype=torch.int64, device=META))


def compress(x: Tensor, condition: Tensor, axis: int) -> Tensor:
    """Slices along an axis where the condition, perhaps shorter than the axis, holds."""
    return torch.index_select(x, axis, torch.nonzero(condition.reshape(-1)).reshape(-1))


def _compressed(fresh: int, x: Tensor, condition: Tensor, axis: int) -> Tensor:
    return torch.empty((*x.shape[:axis], fresh, *x.shape[axis + 1 :]), dtype=x.dtype, device=META)


rule(compress, _compressed)


def unique(x: Tensor, axis: int | None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Sorted distinct elements or slices, first index, inverse, counts."""
    if axis is None:
        values, inverse, counts = torch.unique(x.reshape(-1), sorted=True, return_inverse=True, return_counts=True)
    else:
        values, inverse, counts = torch.unique(x, sorted=True, return_inverse=True, return_counts=True, dim=axis)
    inverse = inverse.reshape(-1)
    number = torch.arange(inverse.shape[0], device=x.device)
    first = torch.full((counts.shape[0],), inverse.shape[0], dtype=torch.int64, device=x.device)
    return values, first.scatter_reduce(0, inverse, number, "amin"), inverse, counts


def _distinct(fresh: int, x: Tensor, axis: int | None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    shape = [fresh] if axis is None else [*x.shape[:axis], fresh, *x.shape[axis + 1 :]]
    total = x.numel() if axis is None else x.shape[axis]
    index = [torch.empty(n, dtype=torch.int64, device=META) for n in (fresh, total, fresh)]
    return torch.empty(shape, dtype=x.dtype, device=META), index[0], index[1], index[2]


rule(unique, _distinct)


def _sortable(x: Tensor) -> Tensor:
    return x.to(torch.uint8) if x.dtype == torch.bool else x


def top_k(x: Tensor, k: int, axis: int, largest: bool) -> tuple[Tensor, Tensor]:
    """The k greatest or least in order; of equal ones the lower index first."""
    index = torch.sort(_sortable(x), dim=axis, descending=largest, stable=True).indices.narrow(axis, 0, k)
    return torch.gather(x, axis, index), index


def argsort(x: Tensor, axis: int, descending: bool = False) -> Tensor:
    """Stable order."""
    return torch.sort(_sortable(x), dim=axis, descending=descending, stable=True).indices


def sum_pool(x: Tensor, kernel: Ints, strides: Ints, dilations: Ints) -> Tensor:
    """Sum of each window."""
    spatial = list(x.shape[2:])
    flat = x.reshape(-1, 1, *spatial)
    ones = torch.ones((1, 1, *kernel), dtype=x.dtype, device=x.device)
    conv = (F.conv1d, F.conv2d, F.conv3d)[len(kernel) - 1]
    result = conv(flat, ones, stride=list(strides), dilation=list(dilations))
    return result.reshape(*x.shape[:2], *result.shape[2:])


def random(
    law: Law, shape: Ints, a: float, b: float, dtype: torch.dtype, seed: float | None, device: torch.device | None
) -> Tensor:
    """Drawn from [a, b), or normally around a with deviation b."""
    options: dict[str, Any] = {"dtype": dtype, "device": device}
    if seed is not None:  # torch's form with a generator takes no sizes that are symbols of a trace
        options["generator"] = torch.Generator(device or "cpu").manual_seed(int(seed))
    if law == "uniform":
        return torch.rand(shape, **options) * (b - a) + a
    return torch.randn(shape, **options) * b + a


rule(random, lambda fresh, law, shape, a, b, dtype, *_: torch.empty(shape, dtype=dtype, device=META))
