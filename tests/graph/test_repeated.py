"""Lists that are mostly alike: written with a pattern, read as they were."""

import json

import pytest

from onnxport.graph.repeated import folded, unfolded

ALIKE = [{"class": "Tree", "fitted": {"n": number, "of": {"a": ["x", None, number * 2]}}} for number in range(5)]
ROWS = {
    "alike": ALIKE,
    "the same": [{"class": "Tree"}] * 3,
    "one": ALIKE[:1],
    "none": [],
    "no objects": [1, 2, 2],
    "numbers and booleans": [{"a": 1, "b": 0}, {"a": True, "b": 0}, {"a": "1", "b": 0}],
    "signs of zero": [{"a": 0.0}, {"a": -0.0}],
    "other keys": [{"a": 1, "b": {"c": 1}}, {"a": 1, "b": {"d": 1}}],
    "other lengths": [{"a": [1], "b": 2}, {"a": [1, 1], "b": 2}],
    "an object or a number": [{"a": {"b": 1}, "c": 1}, {"a": 3, "c": 1}],
    "patterns inside": [{"l": folded(ALIKE), "n": number} for number in range(3)],
}


@pytest.mark.parametrize("items", ROWS.values(), ids=ROWS)
def test_what_is_folded_unfolds_to_itself(items):
    text = json.dumps(folded(items))
    assert json.dumps(list(unfolded(json.loads(text), 1000))) == json.dumps(items)


def test_a_pattern_is_shorter_than_what_it_stands_for():
    assert len(json.dumps(folded(ALIKE * 20))) < len(json.dumps(ALIKE * 20)) / 3


def test_more_values_than_are_allowed_are_refused_before_they_are_there():
    given = {"pattern": {"a": [0] * 100}, "count": 100, "columns": []}
    with pytest.raises(ValueError, match="too many values"):
        next(unfolded(given, 9999))


def test_a_column_that_counts_up_is_one_number():
    items = [{"class": "Tree", "place": number, "seed": number % 2} for number in range(3, 40)]
    assert folded(items)["columns"][0] == 3
    assert list(unfolded(folded(items), 1000)) == items
