r"""RE2's regular expressions, which ONNX uses, as Python's: https://github.com/google/re2/wiki/Syntax.

Only whether a string as a whole matches is kept, so that groups are not numbered and laziness plays no part. Characters are
put out as what they are and classes as ranges, since the two languages differ in what most abbreviations mean: RE2's are of
ASCII, its \s has no vertical tab, its $ is the very end, its (?i) is Unicode's simple folding. General categories are those of
Python's own Unicode tables.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import groupby
from typing import NoReturn, TypeAlias

from onnxport.errors import UnsupportedOperator
from onnxport.opset_maps.from_onnx.pytorch.automata import Automaton, safe

Ranges: TypeAlias = tuple[tuple[int, int], ...]

_LAST = sys.maxunicode
_MOST = 1000  # RE2 repeats nothing more often
_DIGITS: Ranges = ((0x30, 0x39),)
_UPPER, _LOWER = ((0x41, 0x5A),), ((0x61, 0x7A),)
_WORD: Ranges = (*_DIGITS, *_UPPER, (0x5F, 0x5F), *_LOWER)
_PERL = {"d": _DIGITS, "w": _WORD, "s": ((0x09, 0x0A), (0x0C, 0x0D), (0x20, 0x20))}
_POSIX: dict[str, Ranges] = {
    "alnum": (*_DIGITS, *_UPPER, *_LOWER),
    "alpha": (*_UPPER, *_LOWER),
    "ascii": ((0, 0x7F),),
    "blank": ((0x09, 0x09), (0x20, 0x20)),
    "cntrl": ((0, 0x1F), (0x7F, 0x7F)),
    "digit": _DIGITS,
    "graph": ((0x21, 0x7E),),
    "lower": _LOWER,
    "print": ((0x20, 0x7E),),
    "punct": ((0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E)),
    "space": ((0x09, 0x0D), (0x20, 0x20)),
    "upper": _UPPER,
    "word": _WORD,
    "xdigit": (*_DIGITS, (0x41, 0x46), (0x61, 0x66)),
}
_CONTROL = {"a": 7, "f": 12, "t": 9, "n": 10, "r": 13, "v": 11}
_REPEAT = re.compile(r"\{([0-9]+)(,([0-9]*))?\}")
_GROUP = re.compile(r"\(\?P?<([0-9A-Za-z_]+)>")
_FLAGS = re.compile(r"\(\?([imsU]*)(-([imsU]+))?([:)])")
_POSIX_NAME = re.compile(r"\[:(\^?)(.*?):\]", re.DOTALL)
_CATEGORY = re.compile(r"\\([pP])(?:\{(\^?)([^}]*)\}|([^{]))", re.DOTALL)
_HEX = re.compile(r"x(?:\{([0-9A-Fa-f]+)\}|([0-9A-Fa-f]{2}))")
_OCTAL = re.compile("0[0-7]{0,2}|[1-7][0-7]{1,2}")


@lru_cache(maxsize=256)
def compiled(pattern: str) -> re.Pattern[str] | Automaton:
    """RE2's expression as Python's, for ``fullmatch``, or as an automaton where Python's would go back too often.

    Raises:
        UnsupportedOperator: it is none of RE2's, or has no like in Python: a single byte, classes of scripts.
    """
    return safe(_Reader(pattern).translated(), pattern)


@dataclass(frozen=True)
class _Flags:
    i: bool = False
    m: bool = False
    s: bool = False
    U: bool = False


class _Reader:
    """One expression, read from left to right."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self.flags = _Flags()
        self.outer: list[_Flags] = []
        self.parts: list[str] = []
        self.repeatable = False

    def refuse(self, why: str) -> NoReturn:
        """The error, which names the pattern and where it was being read."""
        raise UnsupportedOperator(
            f"RegexFullMatch: pattern={self.pattern!r}: {why} at {self.at} can't be said in Python"
        )

    def taken(self, expression: re.Pattern[str]) -> re.Match[str] | None:
        """What matches here, passed over."""
        match = expression.match(self.pattern, self.at)
        self.at = match.end() if match else self.at
        return match

    def starts(self, text: str) -> bool:
        """Whether a text stands here."""
        return self.pattern.startswith(text, self.at)

    def translated(self) -> str:
        """The whole expression in Python's syntax."""
        while self.at < len(self.pattern):
            self.item()
        if self.outer:
            self.refuse("a group without an end")
        return "".join(self.parts)

    def atom(self, text: str) -> None:
        """Write what can be repeated."""
        self.parts.append(text)
        self.repeatable = True

    def item(self) -> None:
        """What stands here: an operator, or something that can be repeated."""
        sign = self.pattern[self.at]
        if sign == "(":
            self.group()
        elif sign in ")|":
            self.border(sign)
        elif sign in "*+?" or (sign == "{" and _REPEAT.match(self.pattern, self.at)):
            self.repetition()
        elif sign == "[":
            self.atom(_written(self.set_of_characters()))
        elif sign == "\\":
            self.escape()
        else:
            self.at += 1
            self.atom(self.plain(sign))

    def plain(self, sign: str) -> str:
        """A sign that may be an abbreviation by itself."""
        if sign == ".":
            return "(?s:.)" if self.flags.s else "[^\\n]"
        if sign == "^":
            return "(?m:^)" if self.flags.m else "(?:\\A)"
        if sign == "$":
            return "(?m:$)" if self.flags.m else "(?:\\Z)"
        return self.literal(ord(sign))

    def literal(self, code: int) -> str:
        """One character."""
        return _written(_folded(((code, code),)) if self.flags.i else ((code, code),))

    def group(self) -> None:
        """The beginning of a group, or flags up to the end of one."""
        before = self.flags
        if not self.starts("(?"):
            self.at += 1
        elif flags := self.taken(_FLAGS):
            values = dict.fromkeys(flags[1], True) | dict.fromkeys(flags[3] or "", False)
            self.flags = replace(self.flags, **values)
            if flags[4] == ")":
                self.repeatable = False
                return
        elif not self.taken(_GROUP):
            self.refuse("this group")
        self.outer.append(before)
        self.parts.append("(?:")
        self.repeatable = False

    def border(self, sign: str) -> None:
        """The end of a group or of an alternative."""
        self.at += 1
        if sign == "|":
            self.parts.append("|")
            self.repeatable = False
            return
        if not self.outer:
            self.refuse("an end without a group")
        self.flags = self.outer.pop()
        self.atom(")")

    def repetition(self) -> None:
        """How often what stands before is repeated."""
        if not self.repeatable:
            self.refuse("a repetition of nothing or of a repetition")
        times = self.taken(_REPEAT)
        if times is None:
            self.parts.append(self.pattern[self.at])
            self.at += 1
        else:
            if int(times[1]) > int(times[3] or _MOST) or int(times[3] or times[1]) > _MOST:
                self.refuse("this number of repetitions")
            self.parts.append(times[0])
        if self.starts("?"):
            self.at += 1
        self.repeatable = False

    def escape(self) -> None:
        """A backslash and what it stands for, outside classes."""
        self.at += 1
        following = self.pattern[self.at : self.at + 1]
        if following == "Q":
            end = self.pattern.find("\\E", self.at)
            quoted = self.pattern[self.at + 1 : end if end >= 0 else None]
            self.at = end + 2 if end >= 0 else len(self.pattern)
            for sign in quoted:
                self.atom(self.literal(ord(sign)))
            return
        # Python's \B does not match in an empty string; the lookahead does, as RE2's \B
        empty = {"A": "(?:\\A)", "z": "(?:\\Z)", "b": "(?:(?a:\\b))", "B": "(?!(?a:\\b))"}.get(following)
        if empty is not None:
            self.at += 1
            self.atom(f"(?:{empty})")
            return
        self.at -= 1
        several = self.abbreviation()
        self.atom(_written(several) if several is not None else self.literal(self.character()))

    def abbreviation(self) -> Ranges | None:
        """Characters that an escape stands for; None where it is one character's."""
        category = self.taken(_CATEGORY)
        if category is not None:
            name = category[4] or category[3]
            known = ((0, _LAST),) if name == "Any" else _categories().get(name)
            if known is None:
                self.refuse(f"the class \\p{{{name}}}")
            return self.signed(known, (category[1] == "P") != (category[2] == "^"))
        name = self.pattern[self.at + 1 : self.at + 2]
        if not self.starts("\\") or name.lower() not in _PERL:
            return None
        self.at += 2
        return self.signed(_PERL[name.lower()], name.isupper())

    def signed(self, ranges: Ranges, negative: bool) -> Ranges:
        """A named set or what is not in it, whatever the case."""
        ranges = _folded(ranges) if self.flags.i else ranges
        return _others(ranges) if negative else ranges

    def character(self) -> int:
        """The one character that is written here, escaped or not."""
        if self.at >= len(self.pattern):
            self.refuse("a class without an end")
        self.at += 1
        sign = self.pattern[self.at - 1]
        if sign != "\\":
            return ord(sign)
        if number := self.taken(_HEX):
            code = int(number[1] or number[2], 16)
            return code if code <= _LAST else self.refuse("this character")
        if number := self.taken(_OCTAL):
            return int(number[0], 8)
        sign = self.pattern[self.at : self.at + 1]
        if not sign or not sign.isascii() or (sign not in _CONTROL and sign.isalnum()):
            self.refuse(f"the escape \\{sign}")
        self.at += 1
        return _CONTROL.get(sign, ord(sign))

    def set_of_characters(self) -> Ranges:
        """[...]."""
        self.at += 1
        negative = self.starts("^")
        self.at += negative
        result: list[tuple[int, int]] = []
        first = True
        while first or not self.starts("]"):
            result += self.part_of_set()
            first = False
        self.at += 1
        ranges = _united(result)
        return _others(ranges) if negative else ranges

    def part_of_set(self) -> Ranges:
        """A named set, a character or a range of them."""
        named = self.taken(_POSIX_NAME)
        if named is not None:
            if named[2] not in _POSIX:
                self.refuse(f"the class [:{named[2]}:]")
            return self.signed(_POSIX[named[2]], bool(named[1]))
        several = self.abbreviation()
        if several is not None:
            return several
        low = high = self.character()
        if self.starts("-") and not self.starts("-]") and self.at + 1 < len(self.pattern):
            self.at += 1
            high = self.character()
            if high < low:
                self.refuse("a range that ends before it begins")
        return self.signed(((low, high),), negative=False)


def _written(ranges: Ranges) -> str:
    """A set as Python writes it."""
    if not ranges:
        return "(?!)"
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return re.escape(chr(ranges[0][0]))
    return "[" + "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in ranges) + "]"


def _united(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Sorted, none touching another."""
    results: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if results and low <= results[-1][1] + 1:
            results[-1] = (results[-1][0], max(high, results[-1][1]))
        else:
            results.append((low, high))
    return tuple(results)


def _others(ranges: Ranges) -> Ranges:
    """What is in none of the ranges, which are united."""
    starts = [0, *(high + 1 for _, high in ranges)]
    ends = [*(low - 1 for low, _ in ranges), _LAST]
    return tuple((low, high) for low, high in zip(starts, ends, strict=True) if low <= high)


def _folded(ranges: Ranges) -> Ranges:
    """With every character that differs from one of them in case only."""
    more = [
        (other, other)
        for code, others in _orbits().items()
        if any(low <= code <= high for low, high in ranges)
        for other in others
    ]
    return _united([*ranges, *more])


@cache
def _categories() -> dict[str, Ranges]:
    """Ranges of Unicode's general categories by name, and of their groups by initial; RE2 has none of what is not assigned."""
    result: dict[str, list[tuple[int, int]]] = {}
    for name, run in groupby(range(_LAST + 1), lambda code: unicodedata.category(chr(code))):
        codes = list(run)
        result.setdefault(name, []).append((codes[0], codes[-1]))
    del result["Cn"]
    groups: dict[str, list[tuple[int, int]]] = {}
    for name, ranges in result.items():
        groups.setdefault(name[0], []).extend(ranges)
    return {name: _united(ranges) for name, ranges in (result | groups).items()}


@cache
def _orbits() -> dict[int, frozenset[int]]:
    """For each character that has one the characters that are the same but for case: Unicode's simple folding."""
    groups: dict[int, set[int]] = {}
    for a, b in _pairs():
        joined = groups.get(a, {a}) | groups.get(b, {b})
        groups.update(dict.fromkeys(joined, joined))
    return {code: frozenset(group) for code, group in groups.items()}


def _pairs() -> Iterator[tuple[int, int]]:
    for code in range(_LAST + 1):
        if code == 0x131:  # the dotless i has a capital but is folded to itself
            continue
        sign = chr(code)
        for other in (sign.lower(), sign.upper(), sign.title()):
            if len(other) == 1 and other != sign:
                yield code, ord(other)
