"""The preparation of documents before a vectorizer looks for tokens: lower case, and no accents."""

from __future__ import annotations

import copy
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.feature_extraction.text import strip_accents_ascii, strip_accents_unicode

from onnxport.errors import UnsupportedOperator
from onnxport.opset_maps.to_onnx.sklearn.text.token_patterns import all_characters, class_of

# Where letters with accents stand, and the accents themselves: Latin of Europe and Vietnam, Greek, Cyrillic, letterlike; and
# what "ascii" takes out of ordinary text: punctuation, signs of currencies.
_ACCENTED = (
    *((0x80, 0x100), (0x100, 0x180), (0x1A0, 0x1B1), (0x300, 0x30D), (0x323, 0x324), (0x327, 0x329), (0x386, 0x3CF)),
    *((0x400, 0x482), (0x1EA0, 0x1EFA), (0x2000, 0x2070), (0x2070, 0x208A), (0x20A0, 0x20C1)),
    *((0x2116, 0x2127), (0xFB00, 0xFB05)),
)
# So many characters are asked at once whether one of them changes.
_BLOCK = 256
_LAST_ACCENT = 0x345  # the only character of the greatest combining class


@dataclass(frozen=True)
class Preparation:
    """What a vectorizer does to a document before it looks for tokens.

    Attributes:
        lowercase: whether it is brought to lower case.
        strip: "ascii", "unicode" or None: which accents are taken away then.
    """

    lowercase: bool
    strip: str | None

    def of(self, character: str) -> str:
        """What becomes of a character."""
        text = character.lower() if self.lowercase else character
        if self.strip is None or text.isascii():
            return text
        text = unicodedata.normalize("NFKD", text)
        if self.strip == "ascii":
            return text.encode("ASCII", "ignore").decode("ASCII")
        return "".join(c for c in text if not unicodedata.combining(c))


# Functions that say what other arguments say too.
_SPLIT = {"tokenizer": None, "token_pattern": r"\S+"}
_PREPROCESSORS: dict[Any, dict[str, Any]] = {
    str.lower: {"lowercase": True, "strip_accents": None},
    strip_accents_unicode: {"lowercase": False, "strip_accents": "unicode"},
    strip_accents_ascii: {"lowercase": False, "strip_accents": "ascii"},
}


def in_words(model: BaseEstimator) -> Any:
    """The vectorizer with arguments by name instead of the functions `str.split`, `str.lower` and those that strip accents."""
    changed: dict[str, Any] = {}
    if model.analyzer is str.split:  # nothing else is done to a document then
        changed = dict(_SPLIT, analyzer="word", lowercase=False, strip_accents=None, preprocessor=None)
        changed |= {"stop_words": None, "ngram_range": (1, 1)}
    else:
        if model.tokenizer is str.split:
            changed |= _SPLIT
        if callable(model.strip_accents) and model.strip_accents in _PREPROCESSORS:
            changed["strip_accents"] = _PREPROCESSORS[model.strip_accents]["strip_accents"]
        if callable(model.preprocessor) and model.preprocessor in _PREPROCESSORS:
            changed |= dict(_PREPROCESSORS[model.preprocessor], preprocessor=None)
    if not changed:
        return model
    prepared_model = copy.copy(model)
    for name, value in changed.items():
        setattr(prepared_model, name, value)
    return prepared_model


def preparation(model: BaseEstimator) -> Preparation:
    """What the arguments of a vectorizer say.

    Raises:
        UnsupportedOperator: a function does it.
    """
    for argument in ("preprocessor", "tokenizer"):
        if getattr(model, argument, None) is not None:
            function = getattr(model, argument)
            shown = getattr(function, "__qualname__", type(function).__qualname__)
            raise UnsupportedOperator(
                f"{argument}= is the function {shown!r}, which has no ONNX form; do that step before the model"
            )
    if callable(model.strip_accents):
        raise UnsupportedOperator(f"strip_accents={model.strip_accents!r} has no ONNX form; 'ascii' and 'unicode' have")
    return Preparation(bool(model.lowercase), model.strip_accents)


# Characters to replace and what by, in groups that are looked for together.
Changes = Sequence[Sequence[tuple[str, str]]]


@cache
def _capitals() -> dict[str, str]:
    """For each character those outside ASCII whose lower case it is."""
    entries: dict[str, str] = {}
    every = all_characters()[0x80:]
    for start in range(0, len(every), _BLOCK):
        block = every[start : start + _BLOCK]
        if block.lower() != block:
            for character in block:
                lower = character.lower()
                if lower != character and len(lower) == 1:
                    entries[lower] = entries.get(lower, "") + character
    return entries


@cache
def _restless() -> str:
    """The characters beyond ASCII that lower case or decomposition changes, or that are accents themselves."""
    every = all_characters()[0x80:]
    # an accent comes before U+0345 in normal forms: between such, one is seen without asking each character
    codes = np.full((len(every), 2), _LAST_ACCENT, "<u4")
    codes[:, 1] = np.frombuffer(every.encode("utf-32-le"), "<u4")
    parts: list[str] = []
    for start in range(0, len(every), _BLOCK):
        apart = codes[start : start + _BLOCK].tobytes().decode("utf-32-le")
        if apart.lower() != apart or not unicodedata.is_normalized("NFKD", apart):
            block = every[start : start + _BLOCK]
            parts += (
                c for c in block if c.lower() != c or unicodedata.normalize("NFKD", c) != c or unicodedata.combining(c)
            )
    return "".join(parts)


@cache
def _strippable(preparing: Preparation) -> tuple[tuple[str, str], ...]:
    """Every restless character that becomes another one, and what it becomes."""
    pairs = ((c, preparing.of(c)) for c in _restless())
    return tuple((c, new) for c, new in pairs if c != new)


def _matters(character: str, becomes: str, known: frozenset[str], kind: Callable[[str], bool]) -> bool:
    """Whether a document's tokens can change where `character` is not replaced by what it `becomes`."""
    if becomes == character:
        return False
    if len(becomes) != 1 or kind(becomes) != kind(character):
        return True
    return becomes in known


def changes(preparing: Preparation, known: frozenset[str], kind: Callable[[str], bool]) -> Changes:
    """What is to be replaced in documents in lower case of ASCII, as far as terms of the `known` characters need.

    Args:
        preparing: what is done to documents.
        known: the characters of the vocabulary.
        kind: which characters belong to tokens, and which stand between them.
    """
    if preparing.strip is None:
        if not preparing.lowercase:
            return []
        letters = [(u, c) for c in sorted(known) for u in _capitals().get(c, "")]
        return [[*letters, ("\u0130", "i\u0307")]]  # whose lower case is an i and a dot apart
    groups = []
    for block in _ACCENTED:
        pairs = [(chr(code), preparing.of(chr(code))) for code in range(*block)]
        groups.append([(c, new) for c, new in pairs if _matters(c, new, known, kind)])
    return groups


def refused(preparing: Preparation, known: frozenset[str], kind: Callable[[str], bool]) -> str:
    """The inside of RE2's class of the characters that would have to be replaced and are not; arguments as of `changes`."""
    is_left = np.zeros(0x110000, bool)
    if preparing.strip is not None:
        if preparing.strip == "ascii":  # which leaves nothing of most characters
            is_left[0x80:] = True
            is_left[0xD800:0xE000] = False
            is_left[[ord(c) for c in _restless()]] = False
        is_left[[ord(c) for c, new in _strippable(preparing) if _matters(c, new, known, kind)]] = True
        is_left[[ord(c) for group in changes(preparing, known, kind) for c, _ in group]] = False
    if preparing.lowercase and known & {"\u03c3", "\u03c2"}:
        is_left[0x3A3] = True  # at a word's end the lower case of a sigma is another one
    edges = np.flatnonzero(np.diff(is_left, prepend=False, append=False))
    return class_of([(chr(low), chr(high - 1)) for low, high in edges.reshape(-1, 2)])
