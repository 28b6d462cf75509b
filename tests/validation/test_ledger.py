"""Which sets of inputs have time: what a run takes is told by the sets that run, and asked for only where none of them tells."""

import time
from collections import Counter

import numpy as np
import onnx_ir as ir
import pytest

import onnxport
from onnxport.validation.runners.onnx import OnnxRunner
from tests.validation.graphs import graph

X = ("x", ir.DataType.FLOAT, ["N", 4])
ROWS = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)


def spin(seconds):
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass


@pytest.fixture
def slow(monkeypatch):
    """Makes each run of either side take some seconds, by a function of its rows and of how often it has run; counts runs."""

    def by(seconds):
        run, counts = OnnxRunner.run, Counter()

        def slowly(self, leaves):
            spin(seconds(len(leaves[0]), counts[id(self)]))
            counts[id(self)] += 1
            return run(self, leaves)

        monkeypatch.setattr(OnnxRunner, "run", slowly)
        return counts

    return by


def proved(wrong=None):
    right = graph(lambda op, x: op.Neg(x), X)
    return onnxport.validate(right, graph(wrong or (lambda op, x: op.Neg(x)), X), (ROWS,))


def test_no_run_is_spent_on_what_the_sets_tell(slow):
    """Ten rows and more are too dear, as the three of the edges, which are as many as are given, tell too."""
    counts = slow(lambda rows, before: 0.2 * rows)
    report = proved()
    assert report.passed
    assert any("many rows, shorter (N=11)" in note for note in report.notes)
    assert set(counts.values()) == {len(report.sets)}


def test_what_waits_gets_a_second_turn_once_a_set_tells_that_it_is_quick(slow):
    counts = slow(lambda rows, before: 0.4 if not before else 0.0)
    report = proved()
    names = [item.name for item in report.sets]
    assert not any("left out for time" in note for note in report.notes)
    assert any(name.startswith("many rows") for name in names)
    assert len(set(names)) == len(names)
    assert set(counts.values()) <= {len(names), len(names) + 1}


def test_a_defect_of_many_rows_is_seen_behind_a_first_run_that_takes_long(slow):
    slow(lambda rows, before: 0.4 if not before else 0.0)
    assert not proved(
        lambda op, x: op.Mul(op.Neg(x), op.Cast(op.Less(op.Shape(x, end=1), 9), to=ir.DataType.FLOAT))
    ).passed
