"""Arithmetic of symbolic sizes during one trace, of which each expression is worked out once.

A result of symbolic size costs about twenty products, sums and comparisons (`torch.empty_strided` alone computes its bytes and
whether it is contiguous), which go through sympy each time although a few hundred of them are different: a tenth of a trace.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager

from torch.fx.experimental.proxy_tensor import get_proxy_mode
from torch.fx.experimental.sym_node import SymNode

# What follows from the operands' expressions and hints alone; the rest also asks for the range of values.
_METHODS = ("_add", "_sub", "_mul", "_eq", "_ne", "_ge", "_gt", "_le", "_lt")
_HINTS = frozenset((int, float, bool, type(None)))  # to compare others is a guard

_Method = Callable[[SymNode, SymNode], SymNode]


@contextmanager
def arithmetic_remembered() -> Iterator[None]:
    """Has nodes of symbolic sizes give what the same operands gave before, as nodes of their own."""
    originals: dict[str, _Method] = {name: vars(SymNode)[name] for name in _METHODS if name in vars(SymNode)}
    known: dict[Hashable, SymNode] = {}
    for name, method in originals.items():
        setattr(SymNode, name, _remembering(method, known))
    try:
        yield
    finally:
        for name, method in originals.items():
            setattr(SymNode, name, method)


def _remembering(method: _Method, known: dict[Hashable, SymNode]) -> _Method:
    def result(self: SymNode, other: SymNode) -> SymNode:
        operands = _operands(self, other)
        if operands is None or get_proxy_mode() is not None:  # a proxy records each operation
            return method(self, other)
        key = method, operands
        node = known.get(key)
        if node is None:
            node = known[key] = method(self, other)
        own = SymNode.__new__(SymNode)
        vars(own).update(vars(node))
        return own

    return result


def _operands(a: SymNode, b: SymNode) -> Hashable:
    """All that a result depends on; None where it depends on more."""
    env = a.shape_env
    version = getattr(env, "_replacements_version_counter", None)  # of what has become known of symbols since
    hints = a._hint, b._hint
    if version is None or env._translation_validation_enabled or not {type(hint) for hint in hints} <= _HINTS:
        return None
    kinds = a.pytype, b.pytype, a._optimized_summation, b._optimized_summation
    return env, version, a._expr, b._expr, *hints, *kinds
