"""Operators on strings and n-grams in the importers, against onnxruntime."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tests.evidence import require_import
from tests.importers.onnx_cases import BOOL, FLOAT, INT64, STRING, Node, imported_to_tensorflow


def strings(*items: str) -> np.ndarray:
    return np.asarray(items, object)


WORDS = strings("The", "quick", "BROWN", "fox", "the")
LINES = strings("a,b,,c", "", "x", ",", "a b  c ", "  ")
# spaces alone separate
SPACED = strings("a\u00a0b\u2003c\x1cd\x85e", " \v f\fg \r\nh  \ti  j k ", "\u00a0j\x1d", "l m ", "\n")
# byte for byte: astral characters come last, a beginning before the whole, a NUL before any other; long ones too
REPEATED = strings("b", "a", "\uffee", "b", "", "\U0001f600", "a", "a\0", "é", "a" * 20, "a" * 20 + "b", "a")


def normalizer(x: np.ndarray, **attributes: Any) -> Node:
    # The locale C is the only one that every machine has; case beyond ASCII is not compared for that.
    return Node("StringNormalizer", [x], (STRING,), {"locale": "C", **attributes}, dynamic=False)


def tfidf(x: np.ndarray, mode: str, low: int, high: int, skips: int, weights: bool = False) -> Node:
    pool: list[Any] = [2, 3, 5, 4, 5, 6, 7, 8, 6, 7]
    attributes: dict[str, Any] = {
        "mode": mode,
        "min_gram_length": low,
        "max_gram_length": high,
        "max_skip_count": skips,
        "ngram_counts": [0, 4],
        "ngram_indexes": [0, 1, 2, 3, 4, 5, 6],
    }
    if weights:
        attributes["weights"] = [0.5, 2.0, 3.0, 0.25, 1.5, 0.75, 4.0]
    if x.dtype == object:
        attributes["pool_strings"] = [f"w{token}" for token in pool]
    else:
        attributes["pool_int64s"] = pool
    return Node("TfIdfVectorizer", [x], (FLOAT,), attributes)


TOKENS = np.array([[1, 1, 3, 3, 3, 7, 8, 5, 6], [8, 6, 7, 5, 6, 8, 6, 7, 2], [5, 7, 6, 8, 5, 4, 6, 5, 6]])
NAMED = np.array([[f"w{token}" for token in line] for line in TOKENS], object)

ROWS = [
    *(
        normalizer(WORDS, case_change_action=case, is_case_sensitive=sensitive, **stops)
        for case, sensitive, stops in itertools.product(
            ("NONE", "LOWER", "UPPER"), (0, 1), ({}, {"stopwords": ["the", "fox"]})
        )
    ),
    normalizer(WORDS.reshape(1, -1), case_change_action="UPPER", stopwords=["fox"], is_case_sensitive=1),
    normalizer(strings("a", "A"), stopwords=["a"], case_change_action="LOWER"),
    normalizer(strings("a", "A").reshape(1, -1), stopwords=["a"], case_change_action="LOWER"),
    Node("StringConcat", [strings("a", "b"), strings("c")], (STRING,), opset=20, dynamic=False),
    Node("StringConcat", [strings("a", "b").reshape(2, 1), strings("c", "", "ü")], (STRING,), opset=20, dynamic=False),
    *(
        Node("StringSplit", [x], (STRING, INT64), attributes, opset=20)
        for x in (LINES, LINES.reshape(3, 2))
        for attributes in (
            {},
            {"delimiter": ","},
            {"delimiter": ",", "maxsplit": 1},
            {"maxsplit": 1},
            {"delimiter": "b,"},
        )
    ),
    *(
        Node("StringSplit", [SPACED], (STRING, INT64), attributes, opset=20)
        for attributes in ({}, {"maxsplit": 0}, {"maxsplit": 1}, {"maxsplit": 2}, {"maxsplit": 9})
    ),
    Node("RegexFullMatch", [strings("www.a.de", "b", "x@y.z")], (BOOL,), {"pattern": r"www\.[\w.]+\.\bde\b"}, opset=20),
    Node("RegexFullMatch", [strings("aab", "b", "ab")], (BOOL,), {"pattern": "a*b"}, opset=20),
    *(
        Node("Unique", [x], (STRING, INT64, INT64, INT64), {"sorted": ordered, **axis})
        for x in (REPEATED, REPEATED.reshape(4, 3), REPEATED.reshape(2, 3, 2), strings("one"), strings("", ""))
        for ordered in (0, 1)
        for axis in ({}, *({"axis": i} for i in range(x.ndim)))
    ),
    Node("Equal", [strings("a", "b", "ü"), strings("a", "c", "ü")], (BOOL,), opset=19),
    *(
        tfidf(x, mode, low, high, skips, weights)
        for x in (TOKENS, TOKENS[0], NAMED, TOKENS.astype(np.int32))
        for mode, (low, high), skips, weights in itertools.product(
            ("TF", "IDF", "TFIDF"), ((1, 1), (2, 2), (1, 2)), (0, 2), (True, False)
        )
    ),
    tfidf(TOKENS[:, :1], "TF", 1, 2, 1),
]
IDS = [f"{i}-{item.op}" for i, item in enumerate(ROWS)]


test_tensorflow = imported_to_tensorflow(ROWS, IDS, share=0.15)


@pytest.mark.pytorch
@pytest.mark.parametrize("item", ROWS, ids=IDS)
def test_pytorch(item: Node) -> None:
    require_import(item.ir(), "pytorch", tuple(item.arrays()))
