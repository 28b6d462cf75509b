"""Sizes of symbolic dimensions, and arrays of other sizes made of given ones."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from onnxport.validation.runners.base import InputSpec

# A dimension that is an expression of others, not a name.
ARITHMETIC = r"[-+*/() ]"


def sizes_of(leaves: Sequence[Any], specs: Sequence[InputSpec]) -> dict[str, int]:
    """The size of each symbolic dimension in the given leaves."""
    found: dict[str, int] = {}
    for leaf, spec in zip(leaves, specs, strict=True):
        if spec.dims is None or not isinstance(leaf, np.ndarray) or leaf.ndim != len(spec.dims):
            continue
        for dim, size in zip(spec.dims, leaf.shape, strict=True):
            if isinstance(dim, str) and not re.search(ARITHMETIC, dim) and size > 0:
                found.setdefault(dim, size)
    return found


def resized(leaf: Any, spec: InputSpec, plan: Mapping[str, int], sizes: Mapping[str, int]) -> Any:
    """The leaf at the sizes of a plan, its elements repeated in order; as it is where its shape is not the declared one."""
    if spec.dims is None or not isinstance(leaf, np.ndarray) or leaf.ndim != len(spec.dims) or 0 in leaf.shape:
        return leaf
    for axis, dim in enumerate(spec.dims):
        size = dimension(dim, plan)
        if size is None or dimension(dim, sizes) != leaf.shape[axis] or size < 1:
            continue
        leaf = np.take(leaf, np.arange(size) % leaf.shape[axis], axis=axis)
    return leaf


def dimension(dim: int | str | None, sizes: Mapping[str, int]) -> int | None:
    """The size of a dimension: a number, a name, or an expression of names in + - * // and parentheses.

    >>> dimension("2*N + 1", {"N": 3}), dimension("M", {"N": 3})
    (7, None)
    """
    if not isinstance(dim, str):
        return dim
    if dim in sizes:
        return sizes[dim]
    try:
        return _evaluated(ast.parse(dim.replace("floor", ""), mode="eval").body, sizes)
    except (SyntaxError, KeyError, ValueError, ZeroDivisionError):
        return None


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
