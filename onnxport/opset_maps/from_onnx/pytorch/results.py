"""Type and shape of what torch's most frequent functions give, without running them.

On a meta tensor many of these run as Python programs of torch's own, a millisecond a call, and the first of them imports its
compiler, which takes a second (torch 2.13).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F

# Shape and type of a result; None where the function itself has to tell, or refuses its operands.
Form: TypeAlias = tuple[Sequence[int], torch.dtype] | None
_FLOATS = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})
_COMPARED = _FLOATS | {torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool}


def form_of(function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Form:
    """Shape and type of the one tensor that the function gives, of operands on any device.

    >>> form_of(torch.mean, (torch.zeros(2, 3, 4), (1,), True), {})
    ([2, 1, 4], torch.float32)
    """
    rule = _RULES.get(function)
    return None if rule is None or kwargs else rule(*args)


def _broadcast(shapes: Iterable[Sequence[int]]) -> Sequence[int] | None:
    joined: list[int] = []
    for shape in shapes:
        joined[:0] = [1] * (len(shape) - len(joined))
        for axis in range(-len(shape), 0):
            if joined[axis] == 1:
                joined[axis] = shape[axis]
            elif shape[axis] not in (1, joined[axis]):
                return None
    return joined


def _operands(items: Sequence[Any], types: frozenset[torch.dtype]) -> tuple[Sequence[int], torch.dtype] | None:
    """Joint shape and type of tensors of one of the types, among which Python numbers may stand."""
    tensors = [item for item in items if isinstance(item, torch.Tensor)]
    numbers = (item for item in items if not isinstance(item, torch.Tensor))
    if not tensors or not all(type(item) in (int, float) for item in numbers):
        return None
    dtype = tensors[0].dtype
    if dtype not in types or any(item.dtype != dtype for item in tensors):
        return None
    shape = _broadcast(item.shape for item in tensors)
    return None if shape is None else (shape, dtype)


def _arithmetic(*operands: Any) -> Form:
    return _operands(operands, _FLOATS)


def _extreme(a: Any, b: Any) -> Form:
    # torch takes no Python number here.
    return _operands((a, b), _FLOATS) if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) else None


def _truth(*operands: Any) -> Form:
    joint = _operands(operands, _COMPARED)
    return None if joint is None else (joint[0], torch.bool)


def _where(condition: Any, *items: Any) -> Form:
    if len(items) != 2 or not isinstance(condition, torch.Tensor) or condition.dtype != torch.bool:
        return None
    if not all(isinstance(item, torch.Tensor) for item in items):
        return None
    joint = _operands(items, _COMPARED)
    shape = None if joint is None else _broadcast((condition.shape, joint[0]))
    return None if joint is None or shape is None else (shape, joint[1])


def _mean(x: Any, axes: Any = None, keepdim: Any = None) -> Form:
    if not isinstance(x, torch.Tensor) or x.dtype not in _FLOATS or not isinstance(axes, (tuple, list)):
        return None
    places = {axis % x.dim() for axis in axes if isinstance(axis, int) and -x.dim() <= axis < x.dim()}
    if len(places) < len(axes) or not places:
        return None
    return [1 if i in places else n for i, n in enumerate(x.shape) if keepdim or i not in places], x.dtype


def _cat(items: Any, axis: Any = 0) -> Form:
    if not isinstance(items, (tuple, list)) or not all(isinstance(item, torch.Tensor) for item in items):
        return None
    rank = items[0].dim() if items else 0
    if not isinstance(axis, int) or not -rank <= axis < rank:
        return None
    rest = {(item.dtype, item.dim(), *(n for i, n in enumerate(item.shape) if i != axis % rank)) for item in items}
    if len(rest) > 1:
        return None
    whole = sum(item.shape[axis] for item in items)
    return [whole if i == axis % rank else n for i, n in enumerate(items[0].shape)], items[0].dtype


def _linear(x: Any, weight: Any, bias: Any = None) -> Form:
    given = [x, weight] if bias is None else [x, weight, bias]
    if not all(isinstance(item, torch.Tensor) and item.dtype in _FLOATS and item.dtype == x.dtype for item in given):
        return None
    fits = x.dim() > 0 and weight.dim() == 2 and x.shape[-1] == weight.shape[1]
    if not fits or (bias is not None and tuple(bias.shape) != (weight.shape[0],)):
        return None
    return [*x.shape[:-1], weight.shape[0]], x.dtype


def _matmul(a: Any, b: Any) -> Form:
    if not all(isinstance(item, torch.Tensor) and item.dtype in _FLOATS and item.dim() > 1 for item in (a, b)):
        return None
    batch = _broadcast((a.shape[:-2], b.shape[:-2]))
    if a.dtype != b.dtype or a.shape[-1] != b.shape[-2] or batch is None:
        return None
    return [*batch, a.shape[-2], b.shape[-1]], a.dtype


def _like(x: Any, vectors: Iterable[Any], shape: Sequence[int]) -> Form:
    """What x is, where the vectors that are given have its type and the shape."""
    given = [item for item in vectors if item is not None]
    fits = all(isinstance(item, torch.Tensor) and item.dtype == x.dtype and item.shape == shape for item in given)
    return (x.shape, x.dtype) if fits and x.dtype in _FLOATS else None


def _layer_norm(x: Any, shape: Any, weight: Any = None, bias: Any = None, *_: float) -> Form:
    if not isinstance(x, torch.Tensor) or not shape or not all(isinstance(n, int) for n in shape):
        return None
    fits = len(shape) <= x.dim() and tuple(x.shape[x.dim() - len(shape) :]) == tuple(shape)
    return _like(x, (weight, bias), tuple(shape)) if fits else None


def _batch_norm(x: Any, mean: Any, variance: Any, weight: Any = None, bias: Any = None, *rest: Any) -> Form:
    if not isinstance(x, torch.Tensor) or x.dim() < 2 or mean is None or variance is None or rest[:1] != (False,):
        return None
    return _like(x, (mean, variance, weight, bias), x.shape[1:2])


def _instance_norm(
    x: Any, mean: Any = None, variance: Any = None, weight: Any = None, bias: Any = None, *_: Any
) -> Form:
    # torch refuses what has one element to normalise.
    if (
        not isinstance(x, torch.Tensor)
        or x.dim() < 3
        or prod(x.shape[2:]) < 2
        or mean is not None
        or variance is not None
    ):
        return None
    return _like(x, (weight, bias), x.shape[1:2])


_RULES: dict[Callable[..., Any], Callable[..., Form]] = {
    **dict.fromkeys((operator.add, operator.sub, operator.mul, operator.truediv), _arithmetic),
    torch.pow: _arithmetic,
    **dict.fromkeys((torch.maximum, torch.minimum), _extreme),
    **dict.fromkeys((torch.eq, torch.ne, torch.lt, torch.le, torch.gt, torch.ge, torch.isnan, torch.isinf), _truth),
    **dict.fromkeys((torch.logical_and, torch.logical_or, torch.logical_xor, torch.logical_not), _truth),
    torch.where: _where,
    torch.mean: _mean,
    torch.cat: _cat,
    F.linear: _linear,
    torch.matmul: _matmul,
    F.layer_norm: _layer_norm,
    F.batch_norm: _batch_norm,
    F.instance_norm: _instance_norm,
}
