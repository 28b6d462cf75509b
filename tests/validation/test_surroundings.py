"""What a module reads besides its inputs: a trace keeps it, and a proof that agrees today is none for tomorrow."""

import datetime
import logging
import os
import random
import sys
import time

import numpy as np
import pytest

import onnxport

torch = pytest.importorskip("torch", reason="PyTorch is an extra")
pytestmark = pytest.mark.pytorch


def logged(x):
    started = time.perf_counter()
    y = x * 2
    logging.getLogger(__name__).debug("took %s", time.perf_counter() - started)
    return y


def seldom_negated(x):
    return -x if random.random() < 1e-9 else x


# What a module computes of its input; the verdict; what the report names.
ROWS = [
    (lambda x: x * time.time(), "unproved", "time.time ("),
    (lambda x: x * (1 + time.monotonic_ns() * 1e-20), "unproved", "time.monotonic_ns ("),
    (lambda x: x * (time.localtime().tm_hour + 1), "unproved", "time.localtime ("),
    (lambda x: x * datetime.date.today().day, "unproved", "date.today ("),
    (lambda x: x * datetime.datetime.now().year, "unproved", "datetime.now ("),
    (lambda x: x * (1 + 1e-12 * random.uniform(0, 1)), "unproved", "random.random ("),
    (lambda x: x * (1 + 1e-12 * np.random.rand()), "unproved", "numpy.random"),
    (lambda x: x * (1 + 1e-12 * os.urandom(1)[0]), "unproved", "os.urandom ("),
    (lambda x: x * float(os.environ["WALK_SCALE"]), "passed", "os.environ['WALK_SCALE'] ("),
    (lambda x: x * float(os.getenv("WALK_SCALE", "1")), "passed", "os.environ['WALK_SCALE'] ("),
    (seldom_negated, "passed", "random.random ("),
    (logged, "passed", ""),
    (lambda x: x * random.Random(0).random(), "passed", ""),
]


class Module(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


@pytest.mark.parametrize(("function", "verdict", "words"), ROWS)
@pytest.mark.filterwarnings("ignore::onnxport.UnprovedWarning")
def test_a_module_that_reads_more_than_its_inputs(function, verdict, words, monkeypatch):
    monkeypatch.setenv("WALK_SCALE", "2.5")
    report = onnxport.convert(Module(function).eval(), inputs=(torch.ones(2, 3),)).report
    assert report.verdict == verdict, report
    text = str(report)
    assert words in text, text
    assert bool(words) == ("the source calls" in text or "the source reads" in text), text


def test_a_mismatch_names_the_call():
    runs = iter(range(100))
    branch = Module(lambda x: x if random.random() < 2 and next(runs) < 1 else -x)
    with pytest.raises(onnxport.ValidationError, match=r"calls random\.random \(\S*test_surroundings\.py:\d+\)"):
        onnxport.convert(branch.eval(), inputs=(torch.ones(2, 3),))


def test_another_profiler_stays():
    events = []
    sys.setprofile(lambda *arguments: events.append(arguments[1]))
    try:
        mine = sys.getprofile()
        assert onnxport.convert(Module(torch.relu).eval(), inputs=(torch.ones(2, 3),)).report.passed
        assert sys.getprofile() is mine
    finally:
        sys.setprofile(None)
    assert events


@pytest.mark.sklearn
@pytest.mark.filterwarnings("ignore::onnxport.UnprovedWarning")
def test_so_does_a_function_of_an_estimator():
    preprocessing = pytest.importorskip("sklearn.preprocessing", reason="scikit-learn is an extra")
    rows = np.ones((4, 2))
    dated = preprocessing.FunctionTransformer(lambda rows: rows * datetime.date.today().day).fit(rows)
    report = onnxport.convert(dated, inputs=rows).report
    assert report.verdict == "unproved"
    assert "date.today (" in str(report)
