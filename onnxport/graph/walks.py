"""Walks over graphs of any framework."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

N = TypeVar("N")


def operands_first(targets: Iterable[N], operands: Callable[[N], Iterable[N]]) -> list[N]:
    """The nodes that `targets` are computed from, each after its operands, without recursion.

    >>> operands_first(["c"], {"a": [], "b": ["a"], "c": ["a", "b"]}.__getitem__)
    ['a', 'b', 'c']
    """
    entered: set[int] = set()
    order: list[N] = []
    stack = [(node, False) for node in reversed(list(targets))]
    while stack:
        node, ready = stack.pop()
        if ready:
            order.append(node)
        elif id(node) not in entered:
            entered.add(id(node))
            stack.append((node, True))
            stack += [(item, False) for item in reversed(list(operands(node))) if id(item) not in entered]
    return order
