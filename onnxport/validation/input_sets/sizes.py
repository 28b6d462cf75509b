"""Sizes of symbolic dimensions, and arrays of other sizes from given ones."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from onnxport.validation.runners.base import InputSpec

ARITHMETIC = r"[-+*/() ]"  # a dimension that is an expression of others, not a name


def sizes_of(leaves: Sequence[Any], specs: Sequence[InputSpec]) -> dict[str, int]:
    """The size of each symbolic dimension in the given leaves."""
    sizes: dict[str, int] = {}
    for leaf, spec in zip(leaves, specs, strict=True):
        if spec.dims is None or not isinstance(leaf, np.ndarray) or leaf.ndim != len(spec.dims):
            continue
        for dim, size in zip(spec.dims, leaf.shape, strict=True):
            if isinstance(dim, str) and not re.search(ARITHMETIC, dim) and size > 0:
                sizes.setdefault(dim, size)
    return sizes


def labelled(words: str, sizes: Mapping[str, int]) -> str:
    """The name of a set of inputs, with its sizes."""
    label = ", ".join(f"{name}={size}" for name, size in sizes.items())
    return f"{words} ({label})" if label else words


def resized(leaf: Any, spec: InputSpec, plan: Mapping[str, int], sizes: Mapping[str, int]) -> Any:
    """The leaf at the sizes of a plan, its elements repeated in order; as it is where its shape is not the declared one."""
    if spec.dims is None or not isinstance(leaf, np.ndarray) or leaf.ndim != len(spec.dims):
        return leaf
    for axis, dim in enumerate(spec.dims):
        size = dimension(dim, plan)
        if size is None or dimension(dim, sizes) != leaf.shape[axis] or size < 0 or leaf.shape[axis] == 0:
            continue
        leaf = np.take(leaf, np.arange(size) % leaf.shape[axis], axis=axis)
    return leaf


def dimension(dim: int | str | None, sizes: Mapping[str, int]) -> int | None:
    """The size of a dimension: a number, a name, or an expression of names in + - * // and parentheses.

    >>> dimension("2*N + 1", {"N": 3}), dimension("M", {"N": 3})
    (7, None)

    None as well where it comes out below 0: "-1" is a name that some exporters give.
    """
    if not isinstance(dim, str):
        return dim
    if dim in sizes:
        return sizes[dim]
    try:
        size = _evaluated(ast.parse(dim.replace("floor", ""), mode="eval").body, sizes)
    except (SyntaxError, KeyError, ValueError, ZeroDivisionError):
        return None
    return size if size >= 0 else None


def _evaluated(node: ast.expr, sizes: Mapping[str, int]) -> int:
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.Name(id=name):
            return sizes[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_evaluated(operand, sizes)
        case ast.BinOp(left=left, op=op, right=right):
            a, b = _evaluated(left, sizes), _evaluated(right, sizes)
            match op:
                case ast.Add():
                    return a + b
                case ast.Sub():
                    return a - b
                case ast.Mult():
                    return a * b
                case ast.FloorDiv() | ast.Div():
                    return a // b
    raise ValueError(f"not arithmetic of dimensions: {ast.dump(node)}")


# More rows than a test usually has, and more than any width of vector instructions that hides what is done a row at a time.
MANY_ROWS = 11


@dataclass(frozen=True)
class Plan:
    """Other sizes for the free dimensions: candidates of which the first counts that the source can run at."""

    words: str
    candidates: tuple[dict[str, int], ...]

    @property
    def empty(self) -> bool:
        """Whether a dimension is 0."""
        return any(0 in sizes.values() for sizes in self.candidates)


def plans(sizes: Mapping[str, int], batch: Collection[str], steps: Collection[int] = ()) -> Iterator[Plan]:
    """Sizes beside those of a first set: many rows and shorter, one row and longer, two rows of length 1, no rows.

    What is tied stays tied: a dimension that is the sum of two others follows them (the positions of a decoder: those in the
    cache and the new ones), or of another and one of the fixed `steps` (a decoder that takes one token at a time). Dimensions
    of equal size, which may be tied or not, differ in the first candidate and are equal in the next.
    """
    lengths = [name for name in sizes if name not in batch]
    rows = next((sizes[name] for name in sizes if name in batch), None)
    many = MANY_ROWS if rows != MANY_ROWS else MANY_ROWS - 1
    steps = sorted(set(steps))
    shorter = [_scaled(sizes, lengths, _shorter, parted, steps) for parted in (True, False)]
    longer = [
        _scaled(sizes, lengths, _times(factor), parted, steps) for factor, parted in ((3, True), (3, False), (2, False))
    ]
    unit = [alone(sizes, lengths, steps)]
    given = [{name: sizes[name] for name in lengths}]
    for words, count, choices in (
        ("many rows, shorter", many, [*shorter, *given]),
        ("one row, longer", 1, [*longer, *given]),
        ("two rows, length 1", 2, unit),
        ("no rows", 0, given if rows else []),
    ):
        distinct: list[dict[str, int]] = []
        for choice in choices:
            plan = {name: count if name in batch else choice[name] for name in sizes}
            if plan != sizes and plan not in distinct:
                distinct.append(plan)
        if distinct:
            yield Plan(words, tuple(distinct))


def alone(sizes: Mapping[str, int], lengths: Sequence[str], steps: Sequence[int] = ()) -> dict[str, int]:
    """The lengths at 1, but for one that is the sum of two others, or of another and a step.

    >>> alone({"new": 3, "past": 5, "total": 8}, ["new", "past", "total"])
    {'new': 1, 'past': 1, 'total': 2}
    >>> alone({"past": 5, "total": 6}, ["past", "total"], [1])
    {'past': 1, 'total': 2}
    """
    return _scaled(sizes, lengths, lambda size, place: 1, parted=False, steps=steps)


def _shorter(size: int, place: int) -> int:
    return max(size // 2 - place, 1) if size > 1 else 2


def _times(factor: int) -> Callable[[int, int], int]:
    return lambda size, place: size * (factor + place)


def _scaled(
    sizes: Mapping[str, int],
    lengths: Sequence[str],
    change: Callable[[int, int], int],
    parted: bool,
    steps: Sequence[int],
) -> dict[str, int]:
    """The lengths changed by ``change(size, place)``; where `parted`, of equal ones each has a place of its own."""
    changed: dict[str, int] = {}
    sums = {name: _sum_of(name, sizes, lengths, steps) for name in lengths}
    for name in lengths:
        if sums[name] is None:
            equal = [other for other in changed if sizes[other] == sizes[name]]
            changed[name] = change(sizes[name], len(equal) if parted else 0)
    for name, parts in sums.items():
        if parts is not None:
            changed[name] = sum(changed[part] if isinstance(part, str) else part for part in parts)
    return {name: changed[name] for name in lengths}


def _sum_of(
    name: str, sizes: Mapping[str, int], lengths: Sequence[str], steps: Sequence[int]
) -> tuple[str | int, ...] | None:
    """Two other lengths, or one and a step, that add up to a length and are no sums themselves."""
    smaller = [other for other in lengths if 0 < sizes[other] < sizes[name]]
    whole = [other for other in smaller if _sum_of(other, sizes, smaller, steps) is None]
    for first, second in combinations(whole, 2):
        if sizes[first] + sizes[second] == sizes[name]:
            return first, second
    return next(((other, step) for other in whole for step in steps if sizes[other] + step == sizes[name]), None)
