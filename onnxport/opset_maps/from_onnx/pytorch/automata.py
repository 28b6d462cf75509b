"""Regular expressions that Python's `re` could take for ever on, matched in time linear in the text.

RE2, which ONNX names, never goes back; `re` does, and takes 2^n steps for ``(a|a)*b`` on n letters. An expression with
repetitions in each other, or with more than two of them, becomes an automaton here (Thompson, "Regular expression search
algorithm", 1968), whose states are all followed at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from re import _constants as codes
from re import _parser as parser
from typing import Any, TypeAlias

from onnxport.errors import UnsupportedOperator

# States of an automaton; RE2 bounds its programs likewise.
_MOST_STATES = 5000
_MOST_PLAIN_REPETITIONS = 2


@dataclass(frozen=True)
class _Part:
    """One step: a class of characters, or an assertion about the place."""

    ranges: tuple[tuple[int, int], ...] | None  # None for an assertion
    negative: bool = False  # characters outside of the class
    at: str = ""  # which assertion

    def takes(self, code: int) -> bool:
        """Whether a character is of the class."""
        assert self.ranges is not None
        return any(low <= code <= high for low, high in self.ranges) != self.negative

    def holds(self, text: str, place: int) -> bool:
        """Whether the assertion holds at a place of the text."""
        match self.at:
            case "start":
                return place == 0
            case "end":
                return place == len(text)
            case "line start":
                return place == 0 or text[place - 1] == "\n"
            case "line end":
                return place == len(text) or text[place] == "\n"
            case "nowhere":
                return False
        before = place > 0 and _is_word(text[place - 1])
        after = place < len(text) and _is_word(text[place])
        return (before != after) == (self.at == "boundary")


def _is_word(letter: str) -> bool:
    return letter == "_" or (letter.isascii() and letter.isalnum())


@dataclass
class Automaton:
    """An expression as states; `fullmatch` as of `re.Pattern`.

    Attributes:
        pattern: the expression, for whoever reads.
        parts: for each state its step, None where it only leads on.
        nexts: for each state those that follow it.
    """

    pattern: str
    parts: list[_Part | None] = field(default_factory=list)
    nexts: list[list[int]] = field(default_factory=list)

    def fullmatch(self, text: str) -> bool | None:
        """True where the whole text matches, None where not."""
        current = self._closure([0], text, 0)
        for place, letter in enumerate(text):
            code = ord(letter)
            taken = [
                state
                for state in current
                if (part := self.parts[state]) and part.ranges is not None and part.takes(code)
            ]
            if not taken:
                return None
            current = self._closure((after for state in taken for after in self.nexts[state]), text, place + 1)
        return True if 1 in current else None

    def _closure(self, states: Iterable[int], text: str, place: int) -> list[int]:
        seen: dict[int, None] = {}
        stack = list(states)
        while stack:
            state = stack.pop()
            if state in seen:
                continue
            seen[state] = None
            part = self.parts[state]
            if part is None or (part.ranges is None and part.holds(text, place)):
                stack.extend(self.nexts[state])
        return list(seen)

    def state(self, part: _Part | None, *nexts: int) -> int:
        """A new state."""
        if len(self.parts) >= _MOST_STATES:
            raise UnsupportedOperator(
                f"RegexFullMatch: pattern={self.pattern[:80]!r} comes to more than {_MOST_STATES} states"
            )
        self.parts.append(part)
        self.nexts.append(list(nexts))
        return len(self.parts) - 1


def safe(expression: str, pattern: str) -> re.Pattern[str] | Automaton:
    """What matches a Python expression: `re`'s own where it can't go back much, else an automaton.

    Args:
        expression: in Python's syntax.
        pattern: as the model gives it, for errors.

    Raises:
        UnsupportedOperator: it is too large.
    """
    parsed = parser.parse(expression)
    if _is_simple(parsed):
        return re.compile(expression)
    result = Automaton(pattern)
    result.state(None)
    result.state(None)
    result.nexts[0] = [_build(result, parsed, 1)]
    return result


# What `re` reads of an expression: an operation and its argument, whose kind follows from the operation.
_Parsed: TypeAlias = Iterable[tuple[object, Any]]


def _is_simple(parsed: _Parsed) -> bool:
    """At most two repetitions, none in another, and no alternatives in one."""
    count, stack = 0, [(parsed, False)]
    while stack:
        items, inside = stack.pop()
        for code, argument in items:
            if code in (codes.MAX_REPEAT, codes.MIN_REPEAT):
                least, most, part = argument
                count += least != most
                if inside or count > _MOST_PLAIN_REPETITIONS:
                    return False
                stack.append((part, True))
            elif code is codes.BRANCH:
                if inside:
                    return False
                stack.extend((part, inside) for part in argument[1])
            elif code is codes.SUBPATTERN:
                stack.append((argument[3], inside))
    return True


def _build(automaton: Automaton, items: _Parsed, after: int) -> int:
    """The first state of items in a row, the last of which leads to `after`."""
    for code, argument in reversed(list(items)):
        after = _build_one(automaton, code, argument, after)
    return after


def _build_one(automaton: Automaton, code: object, argument: Any, after: int) -> int:
    if code is codes.SUBPATTERN:
        return _build(automaton, argument[3], after)
    if code is codes.BRANCH:
        return automaton.state(None, *(_build(automaton, part, after) for part in argument[1]))
    if code in (codes.MAX_REPEAT, codes.MIN_REPEAT):
        least, most, part = argument
        if most is codes.MAXREPEAT:
            loop = automaton.state(None, after)
            automaton.nexts[loop].append(_build(automaton, part, loop))
            after = loop
        else:
            end = after
            for _ in range(most - least):
                after = automaton.state(None, end, _build(automaton, part, after))
        for _ in range(least):
            after = _build(automaton, part, after)
        return after
    return automaton.state(_step(code, argument, automaton.pattern), after)


# `expressions` writes . and ^ and $ only where their flags let them be any character, and the border of a line.
_PLACES = {
    codes.AT_BEGINNING_STRING: "start",
    codes.AT_END_STRING: "end",
    codes.AT_BEGINNING: "line start",
    codes.AT_END: "line end",
    codes.AT_BOUNDARY: "boundary",
    codes.AT_NON_BOUNDARY: "no boundary",
}


def _step(code: object, argument: Any, pattern: str) -> _Part:
    if code in (codes.LITERAL, codes.NOT_LITERAL):
        return _Part(((argument, argument),), negative=code is codes.NOT_LITERAL)
    if code is codes.ANY:
        return _Part((), negative=True)
    if code is codes.IN:
        negative = argument[0][0] is codes.NEGATE
        parts = argument[negative:]
        if all(kind in (codes.LITERAL, codes.RANGE) for kind, _ in parts):
            ranges = tuple((item, item) if kind is codes.LITERAL else item for kind, item in parts)
            return _Part(ranges, negative)
    if code is codes.AT and argument in _PLACES:
        return _Part(None, at=_PLACES[argument])
    if code is codes.FAILURE or (code is codes.ASSERT_NOT and not len(argument[1])):
        return _Part(None, at="nowhere")
    if code is codes.ASSERT_NOT:  # \B, as `expressions` writes it
        return _Part(None, at="no boundary")
    raise UnsupportedOperator(f"RegexFullMatch: pattern={pattern[:80]!r} has a part that can't be said")
