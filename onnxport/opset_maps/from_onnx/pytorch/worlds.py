"""What recorded calls give in the two example worlds of `traced.py`."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import onnx_ir as ir
import torch
import torch.nn.functional as F

from onnxport.opset_maps.from_onnx.pytorch.results import form_of
from onnxport.opset_maps.from_onnx.pytorch.traced import TensorWorlds, Traced, Worlds, leaves, mapped

META = torch.device("meta")
# Example sizes of dynamic dimensions in the two worlds: primes, so that no product of sizes is another size by chance. No two
# pairs differ by the same, and the greater of two is mostly not so in the other world: then no difference or quotient of two
# sizes is a fixed number by chance.
_SEEDS = ((2, 3, 5), (97, 89, 83, 79, 73, 67, 61))


class Sizes:
    """Example sizes of dynamic dimensions: a pair that differs, the same for the same name."""

    def __init__(self) -> None:
        self._named: dict[str, tuple[int, int]] = {}
        self._fresh = count()

    def pair(self, name: str | None) -> tuple[int, int]:
        """Sizes in the two worlds of the dimension `name`."""
        if name is not None and name in self._named:
            return self._named[name]
        index = next(self._fresh)
        small, large = _SEEDS
        result = (small[index % len(small)], large[index % len(large)] + 100 * (index // len(large)))
        if name is not None:
            self._named[name] = result
        return result


_RULES: dict[Callable[..., Any], Callable[..., Any]] = {}
_BROADCASTING: set[Callable[..., Any]] = set()


def rule(function: Callable[..., Any], result: Callable[..., Any]) -> None:
    """Registers what `function` gives on meta tensors: ``result(sizes, world, *args)`` with world 0 or 1."""
    _RULES[function] = result


# On floating-point operands of one type and shape these give another such: most nodes of a graph. Running one on a meta tensor
# can take milliseconds.
_LIKE_OPERANDS: frozenset[Callable[..., Any]] = frozenset(
    getattr(module, name)
    for module, names in (
        (operator, "add sub mul truediv neg"),
        (
            torch,
            "maximum minimum relu sigmoid tanh exp log sqrt erf sin cos abs floor ceil round sign reciprocal neg square clamp",
        ),
        (F, "relu gelu silu elu leaky_relu hardsigmoid hardswish softplus softsign mish"),
    )
    for name in names.split()
)


_CONVOLUTIONS = frozenset((F.conv1d, F.conv2d, F.conv3d))


def _like_operands(args: Sequence[Any], kwargs: dict[str, Any]) -> Worlds | None:
    """The worlds of the first operand, where the others are like it or Python numbers; else None."""
    first = args[0] if args else None
    if not isinstance(first, Traced) or first.worlds is None or not isinstance(first.worlds[0], torch.Tensor):
        return None
    if not first.worlds[0].is_floating_point() or not all(isinstance(item, _SCALARS) for item in kwargs.values()):
        return None
    for item in args[1:]:
        if isinstance(item, Traced):
            if item.worlds is None or not all(_alike(a, b) for a, b in zip(item.worlds, first.worlds, strict=True)):
                return None
        elif not isinstance(item, _SCALARS):
            return None
    return first.worlds


_SCALARS = (int, float, str, type(None))


def _alike(a: torch.Tensor, b: torch.Tensor) -> bool:
    return isinstance(a, torch.Tensor) and a.dtype == b.dtype and a.shape == b.shape


def broadcasting(*functions: Callable[..., Any]) -> None:
    """Declares functions whose operands are broadcast against each other.

    Where example sizes of dynamic dimensions contradict each other though the model's do not, the greater rank and the
    sizes other than 1 decide.
    """
    _BROADCASTING.update(functions)


def propagate(function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], sizes: Sizes) -> Worlds | None:
    """The result in both worlds; None where it is unknown."""
    operands = [item for item in leaves((list(args), kwargs)) if isinstance(item, Traced)]
    if any(item.worlds is None for item in operands):
        return None
    if function in _LIKE_OPERANDS and (alike := _like_operands(args, kwargs)) is not None:
        return alike
    same = function not in _RULES and all(item.worlds and item.worlds[0] is item.worlds[1] for item in operands)
    results = []
    fresh = sizes.pair(None)
    for world in (0,) if same else (0, 1):
        try:
            results.append(_evaluate(function, in_world(args, world), in_world(kwargs, world), world, fresh))
        except Exception:  # example sizes contradict each other, or the function can't run without data
            return _fallback(function, args, kwargs, sizes)
    if function is operator.getitem and any(isinstance(item, Traced) for item in leaves(args[1])):
        return _cut((results[0], results[-1]), args, sizes)
    return (results[0], results[0]) if same else (results[0], results[1])


def _cut(results: Worlds, args: Sequence[Any], sizes: Sizes) -> Worlds:
    """A slice with traced bounds: where an axis ends before a bound, its size is not fixed though both worlds give the same."""
    small, large = results
    bounds = args[1] if isinstance(args[1], tuple) else (args[1],)
    if not isinstance(small, torch.Tensor) or not all(isinstance(item, slice) for item in bounds):
        return results
    pairs = list(zip(small.shape, large.shape, strict=True))  # type: ignore[union-attr]
    for axis, bound in enumerate(bounds):
        ends = [in_world((bound.start, bound.stop), world) for world in (0, 1)]
        whole = [in_world(args[0], world).shape[axis] for world in (0, 1)]
        if pairs[axis][0] == pairs[axis][1] and not all(map(_inside, ends, whole)):
            pairs[axis] = sizes.pair(None)
    return _tensors(pairs, small.dtype)


def _inside(ends: tuple[int | None, int | None], size: int) -> bool:
    """Whether the bounds of a slice lie on an axis of a size, the first before the second."""
    start, stop = (n if n is None or n >= 0 else n + size for n in ends)
    return 0 <= (start or 0) <= (size if stop is None else stop) <= size


def _evaluate(
    function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], world: int, fresh: tuple[int, int]
) -> Any:
    special = _RULES.get(function)
    if special is None and (form := form_of(function, args, kwargs)) is not None:
        return torch.empty(form[0], dtype=form[1], device=META)
    with torch.no_grad():
        return function(*args, **kwargs) if special is None else special(fresh[world], *args, **kwargs)


def in_world(item: object, world: int) -> Any:
    """An argument as it is in one of the two worlds, its tensors without content."""

    def seen(part: object) -> object:
        if isinstance(part, Traced):
            return part.worlds[world]  # type: ignore[index]
        return part.detach().to(META) if isinstance(part, torch.Tensor) else part

    return mapped(item, seen)


def _fallback(function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], sizes: Sizes) -> Worlds | None:
    if function in _CONVOLUTIONS:  # the kernel is larger than the example image
        shapes = [[in_world(item, world).shape for item in args[:2]] for world in (0, 1)]
        dtype = in_world(args[0], 0).dtype
        batch, channels = ((shapes[0][place][0], shapes[1][place][0]) for place in (0, 1))
        return _tensors([batch, channels, *(sizes.pair(None) for _ in shapes[0][0][2:])], dtype)
    if function not in _BROADCASTING:
        return None
    tensors = [item for item in args if isinstance(item, (Traced, torch.Tensor))]
    shapes = [[in_world(item, world).shape for item in tensors] for world in (0, 1)]
    rank = max(len(shape) for shape in shapes[0])
    merged = []
    for axis in range(-rank, 0):
        pairs = [(shapes[0][i][axis], shapes[1][i][axis]) for i in range(len(tensors)) if len(shapes[0][i]) >= -axis]
        wide = [pair for pair in pairs if pair != (1, 1)]
        fixed = [pair for pair in wide if pair[0] == pair[1]]
        merged.append(fixed[0] if fixed else wide[0] if wide else (1, 1))
    try:
        single = [in_world(i, 0).new_empty((1,)) if isinstance(i, (Traced, torch.Tensor)) else i for i in args]
        dtype = function(*single, **kwargs).dtype
    except Exception:  # nothing more to try: the type stays unknown
        return None
    return _tensors(merged, dtype)


def _tensors(pairs: Sequence[tuple[int, int]], dtype: torch.dtype) -> TensorWorlds:
    """A tensor in both worlds, the same one where they don't differ."""
    small = torch.empty([a for a, _ in pairs], dtype=dtype, device=META)
    return small, small if all(a == b for a, b in pairs) else torch.empty(
        [b for _, b in pairs], dtype=dtype, device=META
    )


def example(dtype: torch.dtype, dims: Sequence[int | str | None], sizes: Sizes) -> TensorWorlds:
    """A tensor in both worlds: sizes that are fixed, named, or unknown (None)."""
    return _tensors([(dim, dim) if isinstance(dim, int) else sizes.pair(dim) for dim in dims], dtype)


def merged(x: TensorWorlds | None, y: TensorWorlds | None, sizes: Sizes) -> TensorWorlds | None:
    """What is known of a value that is `x` or `y`: sizes that differ become dynamic; None where type or rank differ."""
    if x is None or y is None or not all(isinstance(item, torch.Tensor) for item in (x[0], y[0])):
        return None
    if x[0].dtype != y[0].dtype or x[0].dim() != y[0].dim():
        return None
    pairs = []
    for axis in range(x[0].dim()):
        ours, theirs = (x[0].shape[axis], x[1].shape[axis]), (y[0].shape[axis], y[1].shape[axis])
        pairs.append(ours if ours == theirs else sizes.pair(None))
    return _tensors(pairs, x[0].dtype)


def dims_of(value: ir.Value) -> list[int | str | None] | None:
    """Sizes that the model declares for a value; None where it declares no rank."""
    if value.shape is None:
        return None
    return [dim if isinstance(dim, int) else dim.value for dim in value.shape]
