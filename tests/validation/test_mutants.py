"""A seeded sample of `scripts.conformance.mutants`: planted wrong conversions are caught, right ones pass."""

import itertools

import pytest

from scripts.conformance.mutants import hard, planted, pools, quiet
from scripts.conformance.mutants_outcomes import Cell, right_one
from scripts.conformance.mutants_rights import rights
from scripts.conformance.mutants_subjects import small

# The source's framework, the models of it that are taken, and what they are rebuilt in.
SAMPLE = {
    "pytorch": (1, ("onnx", "pytorch")),
    "keras": (1, ("onnx",)),
    "tensorflow": (1, ("onnx", "tensorflow")),
    "sklearn": (1, ("onnx",)),
}
# Kinds of changes that only a tight budget shows; the others are in test_pairs.
SUBTLE = ("float16", "weight", "tree")
HARD = frozenset({"a sum that cancels", "half precision", "a small column", "ties among neighbours"})


@pytest.mark.parametrize(
    "framework",
    [pytest.param(name, marks=getattr(pytest.mark, name)) if name != "sklearn" else name for name in SAMPLE],
)
def test_wrong_conversions_are_caught_and_right_ones_pass(framework):
    count, targets = SAMPLE[framework]
    with quiet():
        for subject in itertools.islice(small(framework), count):
            pool = (change for change in pools(subject) if change.kind in SUBTLE)
            for target in targets:
                cell = Cell(subject, target)
                assert right_one(cell, 0).result == "passed"
                for outcome in planted(cell, pool, 2):
                    assert outcome.result in ("caught", "equivalent"), outcome


@pytest.mark.pytorch
def test_right_conversions_that_are_hard_to_compare_pass():
    with quiet():
        for outcome in hard(rights(1, HARD)):
            assert outcome.result == "passed", outcome
