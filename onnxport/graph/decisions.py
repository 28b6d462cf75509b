"""Where a model decides otherwise than where it was traced: written into the file for who validates it."""

from __future__ import annotations

import ast
import json
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

OTHER_SIZES, CONDITIONS = "onnxport.other_sizes", "onnxport.conditions"  # the metadata keys of the file
_MOST, _GREATEST = 8, 1 << 16  # sets of sizes, and the greatest size, that are read
_LENGTH, _DIGITS, _POWER = 1000, 1 << 53, 4  # of a condition: characters, and the greatest number and exponent

_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.USub: operator.neg,
}
# Functions by the names that SymPy and torch write.
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "Eq": operator.eq,
    "Ne": operator.ne,
    "Mod": operator.mod,
    "PythonMod": operator.mod,
    "FloorDiv": operator.floordiv,
    "CleanDiv": operator.floordiv,
    "Max": max,
    "Min": min,
    "floor": math.floor,
}


@dataclass(frozen=True)
class Condition:
    """What is true of sizes wherever a trace holds.

    >>> Condition("Eq(Mod(d0, 2), 0)", ("batch",)).broken({"batch": 3})
    True
    """

    text: str  # in SymPy's notation, of d0, d1, ...
    dims: tuple[str, ...]  # the dimensions which these are

    def broken(self, sizes: Mapping[str, int]) -> bool:
        """Whether it is false of these sizes; never of sizes that it does not tell of, and where its text is of no known form."""
        if not sizes.keys() >= set(self.dims) or len(self.text) > _LENGTH:
            return False
        values = {f"d{place}": sizes[name] for place, name in enumerate(self.dims)}
        try:
            return _value(ast.parse(self.text, mode="eval").body, values) is False
        except (ArithmeticError, LookupError, MemoryError, RecursionError, SyntaxError, TypeError, ValueError):
            return False


def _value(node: ast.expr, values: Mapping[str, int]) -> Any:
    """What an expression of whole numbers gives; raises LookupError for any form that no condition has."""
    match node:
        case ast.Constant(value=int() as number) if abs(number) <= _DIGITS:
            return number
        case ast.Name(id=name):
            return values[name]
        case ast.UnaryOp(op=sign, operand=operand):
            return _OPERATORS[type(sign)](_value(operand, values))
        case ast.BinOp(left=base, op=ast.Pow(), right=ast.Constant(value=int() as exponent)) if 0 <= exponent <= _POWER:
            return _small(_value(base, values)) ** exponent
        case ast.BinOp(left=left, op=sign, right=right):
            return _OPERATORS[type(sign)](_small(_value(left, values)), _small(_value(right, values)))
        case ast.Compare(left=left, ops=[sign], comparators=[right]):
            return _OPERATORS[type(sign)](_value(left, values), _value(right, values))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
            return _FUNCTIONS[name](*(_value(item, values) for item in arguments))
    raise LookupError(type(node).__name__)


def _small(number: Any) -> Any:
    """The number, where it is small enough to compute with."""
    if abs(number) > _DIGITS:
        raise ArithmeticError(f"{number} is no size")
    return number


def written(sizes: Sequence[Mapping[str, int]]) -> str:
    """Sets of sizes, by names of dimensions, as text."""
    return json.dumps([dict(item) for item in sizes[:_MOST]], sort_keys=True)


def read(metadata: Mapping[str, str]) -> tuple[dict[str, int], ...]:
    """The sets of sizes that a file's metadata tells of; none where it tells of none.

    >>> read({OTHER_SIZES: written([{"batch": 64}])})
    ({'batch': 64},)
    """
    sets = [item for item in _list(metadata.get(OTHER_SIZES, "[]")) if isinstance(item, dict)]
    return tuple(item for item in sets[:_MOST] if all(_is_size(size) for size in item.values()))


def written_conditions(conditions: Sequence[Condition]) -> str:
    """Conditions as text."""
    return json.dumps([[item.text, *item.dims] for item in conditions[:_MOST]])


def read_conditions(metadata: Mapping[str, str]) -> tuple[Condition, ...]:
    """The conditions that a file's metadata tells of; none where it tells of none.

    >>> read_conditions({CONDITIONS: written_conditions([Condition("d0 < 50", ("batch",))])})
    (Condition(text='d0 < 50', dims=('batch',)),)
    """
    items = [item for item in _list(metadata.get(CONDITIONS, "[]")) if isinstance(item, list) and len(item) > 1]
    return tuple(
        Condition(item[0], tuple(item[1:])) for item in items[:_MOST] if all(isinstance(text, str) for text in item)
    )


def _list(text: str) -> list[Any]:
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):  # written by someone else
        return []
    return given if isinstance(given, list) else []


def _is_size(value: object) -> bool:
    return isinstance(value, int) and 0 < value <= _GREATEST
