"""RE2's expressions as Python's, against onnxruntime's RegexFullMatch."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnxport.errors import UnsupportedOperator
from tests.importers.onnx_cases import BOOL, Node

pytest.importorskip("torch", reason="PyTorch is an extra")
pytestmark = pytest.mark.pytorch

from onnxport.opset_maps.from_onnx.pytorch.expressions import compiled  # noqa: E402

SINGLE = [*map(chr, range(1, 128)), *"éÉßẞſK\u212aıİσςΣǅǆ٣Ⅷ²\u00a0\u2003\x85\u2028\ufeff\u0345中😀\U00010400\U00010428"]
LONGER = [
    "",
    "aa",
    "ab",
    "ba",
    "AB",
    "a\n",
    "\na",
    "a b",
    "a-b",
    "é é",
    "a{2}",
    "a{,2}",
    "{",
    "x+",
    "12",
    "1a",
    "a.b",
    "a\\b",
]
STRINGS = np.array([*SINGLE, *LONGER], object)

PATTERNS = [
    *(
        rf"{sign}"
        for sign in r"\w \W \d \D \s \S \a \f \t \n \r \v \101 \0 \012 \x41 \x{41} \x{1F600} \. \- \{ \/ \"".split()
    ),
    *(
        f"[{sign}]"
        for sign in r"\w \W \w\W \d-z ^\s ^\S\n a-c-e - a- -a ] ^]a [: [:a \x{41}-\x{43} .*+ \t- a-\x{7a}".split()
    ),
    *(rf"\p{name}" for name in ["L", "{L}", "{Lu}", "{Lt}", "N", "{Nd}", "{Zs}", "P", "{^L}", "{Any}", "S", "{Mn}"]),
    *(rf"\P{name}" for name in ["L", "{^Lu}", "{Any}"]),
    *(
        f"[[:{name}:]]"
        for name in "alnum alpha ascii blank cntrl digit graph lower print punct space upper word xdigit".split()
    ),
    *("[[:^alpha:]]", "[^[:alpha:]]", r"[\p{L}\p{N}_]+", r"[^\p{L}\n]+", r"[\P{L}a]", "[[:digit:]a-]+"),
    *(
        f"(?i){sign}"
        for sign in ["k", "S", "ß", "ſ", "i", "ı", "İ", "σ", "ǆ", "\u0345", "[a-z]", "[^a-z]", r"\w", r"\W"]
    ),
    *(
        "(?i)[[:upper:]]",
        r"(?i)\p{Lu}",
        r"(?i)\P{Lu}",
        r"(?i)[^\p{Lu}]",
        "(?i:a)b",
        "(?i)a(?-i)b",
        "(?i-s:a)b",
        r"(?i)\Qab\E",
    ),
    *(
        ".",
        "(?s).",
        "a.",
        "(?s)a.",
        "(?s:a.)",
        "(?s)(?-s)a.",
        "a$",
        "(?m)a$",
        "(?m)a$.*",
        "(?ms)^a$.*",
        r"(?s).*^a",
        "(?ms).*^a",
    ),
    *(
        r"\Aa\z",
        r"a\z",
        r"\_",
        "(?P<n>a)(?P<n>b)",
        r"a\b.*",
        r"\b",
        r"\B",
        r"a\Bb",
        r"(?:\b)+a",
        "^*a",
        r"\b*",
        "a(|b)",
        "(|a)*",
        "(|a)+",
        "(a*)*b*",
        "(a*)+",
    ),
    *(
        "a{2}",
        "a{1,}",
        "a{1,2}",
        "a{,2}",
        "a{",
        "{",
        "a{2",
        "a{2}?",
        "a*?",
        "a+?b??",
        "(?U)a*b",
        r"\Qa.\Eb",
        r"\Q.",
        r"a\Q{2}\E",
    ),
    *(
        "(?P<n>a)b",
        "(?:a|b)+",
        "a||b",
        "",
        "()",
        "|",
        "(?i)",
        "((?i)a)b",
        "(a(?i)|b)",
        "[a\\]]",
        "a\\Q\\Eb",
        "]",
        "}",
        "a\nb|\na",
    ),
]
REFUSED = [
    *(
        "*",
        "+a",
        "a**",
        "a*+",
        "a|*",
        "(*)",
        "a{1001}",
        "a{2,1}",
        "(",
        ")",
        "(a",
        "[a",
        "[",
        "[]",
        "[^]",
        "[b-a]",
        "[[:nothing:]]",
    ),
    *(
        r"\1",
        r"\8",
        r"\Z",
        r"\c",
        "\\",
        r"\x4",
        r"\x{}",
        r"\x{110000}",
        r"\p{Foo}",
        r"\p",
        r"\p{L",
        r"[\b]",
        r"[\z]",
        r"[\Q]",
        r"\é",
    ),
    *("(?=a)", "(?!a)", "(?<=a)", "(?>a)", "(?#a)", "(?x)a", "(?P=n)", "(?P<>a)", r"\u0041", r"\N{DIGIT ONE}"),
]
# what RE2 has and Python can't say
BEYOND = [r"\C", r"\p{Greek}", r"[\p{Latin}]"]


def ours(pattern: str) -> np.ndarray:
    expression = compiled(pattern)
    return np.array([expression.fullmatch(item) is not None for item in STRINGS])


def theirs(pattern: str) -> np.ndarray:
    return Node("RegexFullMatch", [STRINGS], (BOOL,), {"pattern": pattern}, opset=20).truth()[0]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_an_expression_matches_what_it_does_in_re2(pattern: str) -> None:
    differing = STRINGS[ours(pattern) != theirs(pattern)]
    assert not len(differing), differing


@pytest.mark.parametrize("pattern", REFUSED)
def test_what_is_no_expression_of_re2_is_refused(pattern: str) -> None:
    with pytest.raises(Exception, match="(?i)regex|pattern"):
        theirs(pattern)
    with pytest.raises(UnsupportedOperator, match="RegexFullMatch: pattern="):
        compiled(pattern)


@pytest.mark.parametrize("pattern", BEYOND)
def test_what_python_can_not_say_is_refused(pattern: str) -> None:
    theirs(pattern)
    with pytest.raises(UnsupportedOperator, match="RegexFullMatch: pattern="):
        compiled(pattern)


PIECES = r"a b A - . ^ $ | ( ) (?: (?i) (?s: [ ] [^ * + ? {2} {1,} {, } \w \W \s \b \B \d \x{61} \pL \P{Lu} [:alpha:] \Q \E é ſ"


@given(st.lists(st.sampled_from(PIECES.split()), max_size=7).map("".join))
@settings(max_examples=300, deadline=None)
def test_any_expression_is_as_in_re2_or_refused(pattern: str) -> None:
    try:
        found = ours(pattern)
    except UnsupportedOperator:
        return
    np.testing.assert_array_equal(found, theirs(pattern))


def test_automata_match_what_re_matches(monkeypatch):
    import re

    from onnxport.opset_maps.from_onnx.pytorch import automata, expressions

    for pattern in PATTERNS[::3]:
        expression = expressions._Reader(pattern).translated()
        plain = re.compile(expression)
        with monkeypatch.context() as patch:
            patch.setattr(automata, "_is_simple", lambda parsed: False)
            automaton = automata.safe(expression, pattern)
        assert isinstance(automaton, automata.Automaton)
        for text in STRINGS:
            assert (plain.fullmatch(text) is None) == (automaton.fullmatch(text) is None), (pattern, text)


@pytest.mark.parametrize("pattern", ["(a|a)*b", "(a*)*b", "(x+x+)+y", "(a?){60}a{60}b", "(.*)(.*)(.*)(.*)(.*)(.*)z"])
def test_expressions_that_re_would_never_end_on_are_matched_at_once(pattern):
    assert compiled(pattern).fullmatch("a" * 60) is None


def test_expressions_of_too_many_states_are_refused():
    with pytest.raises(UnsupportedOperator, match="more than 5000 states"):
        compiled("((((a{1,30}){1,30}){1,30}){1,30}){1,30}b")
