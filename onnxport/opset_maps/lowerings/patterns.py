"""Regular expressions of RE2 whose matches a graph can replace: a text, one character of a class, or a run of such."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from onnxport.errors import UnsupportedOperator

_LARGEST = 256  # characters of a class, which a graph names one by one
# RE2's classes of ASCII; those of Python's `re` differ in \s, which has \v there.
_DIGITS, _SPACES = "0123456789", "\t\n\f\r "
_LETTERS = "".join(map(chr, (*range(65, 91), *range(97, 123))))
_CATEGORIES = {"DIGIT": _DIGITS, "SPACE": _SPACES, "WORD": _DIGITS + _LETTERS + "_"}
_POSIX = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": r"\t ",
    "digit": "0-9",
    "lower": "a-z",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\n\x0b\f\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}


@dataclass(frozen=True)
class Pattern:
    """What an expression matches.

    Attributes:
        text: this text, of several characters; empty where it matches characters of a class.
        characters: the class, or, where `negated`, all that are not of it.
        negated: whether the class is of all other characters.
        runs: whether it matches runs of them, as long as they go.
    """

    text: str = ""
    characters: str = ""
    negated: bool = False
    runs: bool = False


def pattern_of(expression: str) -> Pattern:
    r"""The pattern of an expression.

    >>> pattern_of("<br />").text, pattern_of(r"[^a-c]+")
    ('<br />', Pattern(text='', characters='abc', negated=True, runs=True))

    Raises:
        UnsupportedOperator: the expression is of another kind.
    """
    from re import _parser as parser

    refused = UnsupportedOperator(
        f"the expression {expression!r} has no ONNX form; what has one is a text, one character of a class ('[!?]') or a run of "
        "such ('\\s+')"
    )
    spelled = re.sub(r"\[:(\w+):\]", lambda item: _POSIX.get(item[1], item[0]), expression)
    if re.search(r"\[:|\\[pPCQzZAbB\d]|\(\?", spelled):
        raise refused
    try:
        items = parser.parse(spelled, re.ASCII)
    except (re.error, OverflowError):
        raise refused from None
    items, runs = list(items), False
    while len(items) == 1 and str(items[0][0]) == "SUBPATTERN":
        items = list(items[0][1][-1])
    if len(items) == 1 and str(items[0][0]) == "MAX_REPEAT":
        low, high, inner = items[0][1]
        if low != 1 or str(high) != "MAXREPEAT":
            raise refused
        items, runs = list(inner), True
    if len(items) > 1 and not runs and all(str(kind) == "LITERAL" for kind, _ in items):
        return Pattern(text="".join(chr(code) for _, code in items))
    members = _members(items[0]) if len(items) == 1 else None
    if members is None or not 0 < len(members[0]) <= _LARGEST:
        raise refused
    return Pattern(characters="".join(sorted(members[0])), negated=members[1], runs=runs)


def _members(item: tuple[object, object]) -> tuple[set[str], bool] | None:
    """The characters of one item of an expression, and whether all others are meant; None where it is no class."""
    kind, value = str(item[0]), item[1]
    if kind == "LITERAL" and isinstance(value, int):
        return {chr(value)}, False
    if kind == "NOT_LITERAL" and isinstance(value, int):
        return {chr(value)}, True
    return _of_class(value) if kind == "IN" and isinstance(value, Iterable) else None


def _of_class(items: Iterable[tuple[object, object]]) -> tuple[set[str], bool] | None:
    found: set[str] = set()
    negated = False
    for kind, value in items:
        name = str(value).removeprefix("CATEGORY_")
        if str(kind) == "NEGATE":
            negated = True
        elif str(kind) == "LITERAL" and isinstance(value, int):
            found.add(chr(value))
        elif str(kind) == "RANGE" and isinstance(value, tuple) and value[1] - value[0] < _LARGEST:
            found.update(map(chr, range(value[0], value[1] + 1)))
        elif str(kind) == "CATEGORY" and name in _CATEGORIES:
            found.update(_CATEGORIES[name])
        elif str(kind) == "CATEGORY" and not found and not negated:  # [\W], alone
            return set(_CATEGORIES[name.removeprefix("NOT_")]), True
        else:
            return None
    return found, negated
