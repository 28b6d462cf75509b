"""Which tokens a vectorizer's regular expression finds, as far as a graph that cuts at single characters can express it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from onnxport.errors import UnsupportedOperator

_ATOM = r"(?:\[\^?\]?(?:\\.|[^\]\\])*\]|\\[^bBAZ\d]|[^\\\[\](){}.*+?|^$])"
_REPEAT = r"(?:\{\d+(?:,\d*)?\}|[*+?])"
_OPEN = r"(?:\((?:\?:)?)?"
_PATTERN = re.compile(
    rf"(?:\(\?u\))?{_OPEN}(?P<first>\\b)?{_OPEN}(?P<body>(?:{_ATOM}{_REPEAT}?)+?)\)?(?P<last>\\b)?\)?"
)
_ITEM = re.compile(rf"({_ATOM})({_REPEAT}?)")


@dataclass(frozen=True)
class TokenRule:
    r"""Tokens are runs of some characters, as long as they go, that match an expression in full.

    Attributes:
        inside: a Python class of the characters of runs, such as ``\w``.
        whole: the expression that a run must match, for Python.
        plain: every run of so many characters matches, if the expression asks for nothing else.
    """

    inside: str
    whole: str
    plain: int | None

    def is_inside(self, character: str) -> bool:
        """Whether a character is part of runs."""
        return re.match(self.inside, character) is not None

    @property
    def class_of_runs(self) -> str:
        """The inside of a class of RE2 that holds the characters of runs."""
        return _class(self.inside)

    @property
    def re2(self) -> str:
        """`whole` for RE2."""
        if self.plain is not None:
            return f"(?s).{{{self.plain},}}"
        return "".join(f"[{_class(atom)}]{repeat}" for atom, repeat in _ITEM.findall(self.whole))


@cache
def token_rule(pattern: str) -> TokenRule:
    r"""The rule of a `token_pattern`.

    Two kinds of expressions have a form in the graph: words between ``\b``, of any classes of word characters, and
    without ``\b`` one class repeated.

    >>> token_rule(r"(?u)\b\w\w+\b").plain, token_rule("[a-z]{3,}").inside
    (2, '[a-z]')
    >>> token_rule(r"\b[a-z]\w+\b").whole
    '[a-z]\\w+'

    Raises:
        UnsupportedOperator: the expression is of neither kind.
    """
    result = _PATTERN.fullmatch(pattern)
    refused = UnsupportedOperator(
        f"token_pattern={pattern!r} has no ONNX form; what has one are words between \\b, such as '\\b[a-z]\\w+\\b', and one "
        "class repeated, such as '[a-z]{2,}'"
    )
    if result is None or pattern.count("(") - pattern.count("(?u)") != pattern.count(")") - pattern.count("(?u)"):
        raise refused
    items = _ITEM.findall(result["body"])
    ends = [_bounds(repeat) for _, repeat in items]
    least = sum(low for low, _ in ends)
    if least and ends[-1][1] is None and {atom for atom, _ in items} == {r"\w"}:
        return TokenRule(r"\w", result["body"], least)  # as below, without looking through all characters
    try:
        classes = {atom: _members(atom) for atom, _ in items}
    except re.error:
        raise refused from None
    uniform = len(set(classes.values())) == 1 and ends[-1][1] is None
    if not least or any(re.match(atom, " ") for atom in classes):
        raise refused
    if uniform and _members(items[0][0]) == _members(r"\w"):
        return TokenRule(r"\w", result["body"], least)  # which \b bounds anyway
    if result["first"] and result["last"] and all(_is_of_words(atom) for atom in classes):
        return TokenRule(r"\w", result["body"], None)
    if result["first"] or result["last"] or not uniform:
        raise refused
    return TokenRule(items[0][0], result["body"], least)


def _bounds(repeat: str) -> tuple[int, int | None]:
    """Least and greatest number of repetitions."""
    if not repeat:
        return 1, 1
    if repeat in "*+?":
        return int(repeat == "+"), 1 if repeat == "?" else None
    low, comma, high = repeat[1:-1].partition(",")
    return int(low), int(high) if high else (None if comma else int(low))


@cache
def all_characters() -> str:
    """Every character of Unicode, in order."""
    codes = np.delete(np.arange(0x110000, dtype="<u4"), np.s_[0xD800:0xE000])
    return codes.tobytes().decode("utf-32-le")


@cache
def _members(atom: str) -> tuple[tuple[str, str], ...]:
    """The ranges of characters that a class holds."""
    return tuple((run[0][0], run[0][-1]) for run in re.finditer(f"{atom}+", all_characters(), re.DOTALL))


def _is_of_words(atom: str) -> bool:
    runs = ("".join(map(chr, range(ord(low), ord(high) + 1))) for low, high in _members(atom))
    return all(re.fullmatch(r"\w+", run) for run in runs)


def _class(atom: str) -> str:
    """The inside of RE2's class of the same characters."""
    return r"\p{L}\p{N}_" if atom == r"\w" else class_of(_members(atom))


def class_of(ranges: Sequence[tuple[str, str]]) -> str:
    """The inside of RE2's class for ranges of characters."""
    return "".join(f"\\x{{{ord(low):x}}}-\\x{{{ord(high):x}}}" for low, high in ranges)
