"""For which sizes a trace holds: torch keeps the conditions under which Python went the way that it went."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sympy
from torch.export import ExportedProgram

from onnxport.graph.decisions import Condition
from onnxport.tracing.pytorch_nodes import recorded_inputs

_TRIED = (2, 3, 4, 5, 7, 8, 16, 27, 64, 1000, 4095)  # sizes; every trace excludes 0 and 1
_GREATEST, _BESIDE = 1 << 12, 24  # of sizes beside a condition's numbers: the greatest, and how many
_MOST = 3  # symbols in a condition that is looked at, and conditions that are named
_LOOKED_AT = 256  # conditions: a substitution takes sympy some 0.1 ms
_REMAINDER = re.compile(r"\b(?:Python)?Mod\(([^(),]+), (\d+)\)")


@dataclass(frozen=True)
class Conditions:
    """What must be true of the sizes that vary, in the names that they have."""

    texts: tuple[str, ...]
    other_sizes: tuple[dict[str, int], ...]  # that break a condition: the model decides otherwise there
    all_of: tuple[Condition, ...]  # the same as a file keeps them, without those of which it can't
    # torch's symbols of sizes that are sums of others, as the length of a step's mask is
    sums: dict[sympy.Symbol, sympy.Expr]


def conditions(program: ExportedProgram, names: Mapping[str, str]) -> Conditions:
    """For which sizes the trace holds; `names` are those of the dimensions by torch's symbols.

    Left out are what holds for all sizes that are tried, what says that a part of a size is not 0 or 1, as every trace does, and
    what says the same of them as a shorter one. Two bounds that leave one size, ``a <= b + 1`` and ``a >= b + 1``, make it a sum.
    """
    modes = (getattr(value, "fake_mode", None) for value in recorded_inputs(program).values())
    env = next((mode.shape_env for mode in modes if mode is not None and mode.shape_env is not None), None)
    every = dict.fromkeys(guard.expr for guard in (() if env is None else env.guards))
    looked_at = [item for item in every if _says_of(item, names)][:_LOOKED_AT]
    sums = _sums(looked_at)
    looked_at = list(dict.fromkeys(item.xreplace(sums) for item in looked_at))
    tried = _tried(looked_at)
    shortest: dict[Any, tuple[str, dict[str, int], Condition]] = {}
    for condition in looked_at:
        free = sorted(condition.free_symbols, key=str)
        broken = [sizes for sizes in _sizes(free, tried) if not _holds(condition, sizes)] if free else []
        named = condition.xreplace({item: sympy.Symbol(names[str(item)], integer=True, positive=True) for item in free})
        if named == sympy.true:  # of two sizes that have one name
            continue
        text = _text(named)
        key = (tuple(free), tuple(tuple(sizes.values()) for sizes in broken))
        if broken and (key not in shortest or len(text) < len(shortest[key][0])):
            least = min(broken, key=lambda sizes: max(sizes.values()))
            sizes = {names[str(symbol)]: size for symbol, size in least.items()}
            shortest[key] = text, sizes, _kept(condition, free, names)
    texts, other_sizes, kept = zip(*shortest.values(), strict=True) if shortest else ((), (), ())
    return Conditions(
        texts, other_sizes, tuple(item for item, sizes in zip(kept, other_sizes) if item.broken(sizes)), sums
    )


def _kept(condition: sympy.Basic, free: Sequence[sympy.Basic], names: Mapping[str, str]) -> Condition:
    places = {symbol: sympy.Symbol(f"d{place}", integer=True, positive=True) for place, symbol in enumerate(free)}
    return Condition(str(condition.xreplace(places)), tuple(names[str(symbol)] for symbol in free))


def _sums(looked_at: Sequence[sympy.Basic]) -> dict[sympy.Symbol, sympy.Expr]:
    """Sizes that are sums of others by two conditions together; torch sees those that one condition equates."""
    sums: dict[sympy.Symbol, sympy.Expr] = {}
    bounds: set[sympy.Expr] = set()
    for condition in looked_at:
        if not isinstance(condition, (sympy.Le, sympy.Lt, sympy.Ge, sympy.Gt)):
            continue
        strict = isinstance(condition, (sympy.Lt, sympy.Gt))
        at_most_0 = sympy.expand(condition.lts - condition.gts + int(strict))  # of whole numbers
        if sympy.expand(-at_most_0) in bounds:
            for symbol, value in _solved(at_most_0):
                if symbol in sums or value.free_symbols & sums.keys():
                    continue
                sums = {key: other.xreplace({symbol: value}) for key, other in sums.items()} | {symbol: value}
        bounds.add(at_most_0)
    return sums


def _solved(difference: sympy.Expr) -> list[tuple[sympy.Symbol, sympy.Expr]]:
    """The size that is a sum of others, and possibly a number, where a difference is 0; empty where there is none."""
    free = sorted(difference.free_symbols, key=str)
    if len(free) < 2 or not all(difference.is_polynomial(item) for item in free):
        return []
    for symbol in free:
        factor = difference.coeff(symbol)
        if factor not in (1, -1):
            continue
        value = sympy.expand(symbol - factor * difference)
        parts = value.as_coefficients_dict()
        if symbol not in value.free_symbols and all(part.is_Integer and part > 0 for part in parts.values()):
            return [(symbol, value)]
    return []


def _tried(looked_at: Sequence[sympy.Basic]) -> tuple[int, ...]:
    """The sizes that are tried: the usual ones, and those beside numbers of the conditions."""
    numbers = dict.fromkeys(int(item) for condition in looked_at for item in condition.atoms(sympy.Integer))
    beside = dict.fromkeys(size for number in numbers for size in (number - 1, number, number + 1))
    return tuple(sorted({*_TRIED, *[size for size in beside if 2 <= size <= _GREATEST][:_BESIDE]}))


def _sizes(symbols: Sequence[sympy.Basic], tried: Sequence[int]) -> Iterator[dict[sympy.Basic, int]]:
    """Sizes for symbols: one alone takes all that are tried, several take the usual ones shifted against each other."""
    if len(symbols) == 1:
        yield from ({symbols[0]: size} for size in tried)
        return
    count = len(_TRIED)
    for shift in range(count):
        for i in range(0, count, 3):
            yield {symbol: _TRIED[(i + place * shift) % count] for place, symbol in enumerate(symbols)}


def _says_of(condition: sympy.Basic, names: Mapping[str, str]) -> bool:
    """Whether it is about the sizes of these names, and not what every trace needs."""
    free = {str(item) for item in condition.free_symbols}
    of_every_trace = isinstance(condition, sympy.Ne) and condition.args[1] in (0, 1) and "Mod(" not in str(condition)
    return not of_every_trace and 0 < len(free) <= _MOST and free <= names.keys()


def _holds(condition: sympy.Basic, sizes: Mapping[sympy.Basic, int]) -> bool:
    try:
        return bool(condition.subs(sizes) == sympy.true)
    except ArithmeticError:  # a division by zero
        return False
    except AssertionError:  # torch's remainders take no negative numbers: no model has such sizes inside
        return True


def _text(condition: sympy.Basic) -> str:
    """The condition as Python writes it."""
    if isinstance(condition, sympy.core.relational.Relational):
        left, right = (_REMAINDER.sub(r"\1 % \2", str(item)) for item in condition.args)
        return f"{left} {condition.rel_op} {right}"
    return str(condition)


def only_where(texts: Sequence[str]) -> str:
    """What a report says of conditions."""
    texts = list(dict.fromkeys(texts))
    more = f" and {len(texts) - _MOST} more" if len(texts) > _MOST else ""
    return f"the trace holds only where {', '.join(texts[:_MOST])}{more}: the model decides on sizes"
