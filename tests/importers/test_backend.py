"""Of ONNX's own backend tests one for each operator, and a seeded sample without the shapes that the models give."""

import importlib.util
import random
import sys
import warnings
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from onnxport.opset_maps import maps

SAMPLE, SEED = 80, 20261121
REFUSED = ("image_decoder", "test_gradient_of")


@cache
def backend():
    place = Path(__file__).resolve().parents[2] / "scripts" / "conformance" / "backend.py"
    spec = importlib.util.spec_from_file_location("conformance_backend", place)
    module = importlib.util.module_from_spec(spec)
    sys.modules["conformance_backend"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@cache
def all_cases():
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # the tests of the onnx package overflow on purpose
        return list(backend().cases())


def cases():
    return [case for case in all_cases() if not any(name in case.name for name in REFUSED)]


def one_for_each_operator():
    """The tests of fewest nodes, in a seeded order, that have an operator which none before has."""
    shuffled = random.Random(SEED).sample(cases(), len(cases()))
    seen = set()
    for case in sorted(shuffled, key=lambda case: len(case.model.graph.node)):
        operators = set(backend().operators([case.model]))
        if not operators <= seen:
            seen |= operators
            yield case


def without_shapes(case):
    return replace(case, model=backend().without_shapes(case.model, True))


def judged(framework, chosen):
    importer = backend().IMPORTERS[framework]()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        outcomes = [backend().run(case, importer) for case in chosen]
    assert [item for item in outcomes if item.verdict not in ("passed", "unsupported")] == []
    return sum(item.verdict == "unsupported" for item in outcomes)


@pytest.mark.parametrize(
    ("framework", "refusals"),
    [
        pytest.param("pytorch", 0, marks=pytest.mark.pytorch),
        pytest.param("tensorflow", 2, marks=pytest.mark.tensorflow),
        pytest.param("keras", 34, marks=[pytest.mark.keras, pytest.mark.tensorflow]),
    ],
)
def test_no_operator_has_a_wrong_number(framework, refusals, request):
    """To PyTorch all go, to the others, which share the meaning of each with it, every second; all with --every-row."""
    whole = framework == "pytorch" or request.config.getoption("--every-row")
    assert judged(framework, list(one_for_each_operator())[:: 1 if whole else 2]) <= refusals


@pytest.mark.pytorch
def test_a_sample_without_shapes_has_no_wrong_number():
    assert judged("pytorch", map(without_shapes, random.Random(SEED).sample(cases(), SAMPLE))) <= 4


def covered(entry, table, operators):
    """Whether a backend test has a version of the operator that this entry stands for."""
    versions = operators.get((entry.domain, entry.op_type), ())
    return any(table.find(entry.domain, entry.op_type, version) is entry for version in versions)


@pytest.mark.parametrize(
    "table",
    [
        maps.onnx,
        pytest.param(maps.pytorch_native, marks=pytest.mark.pytorch),
        pytest.param(maps.tensorflow_native, marks=pytest.mark.tensorflow),
        pytest.param(maps.keras_native, marks=[pytest.mark.keras, pytest.mark.tensorflow]),
    ],
)
def test_every_entry_has_a_case_or_a_backend_test(table):
    operators = backend().operators(case.model for case in all_cases())
    assert [entry.op_type for entry in table if not entry.cases and not covered(entry, table, operators)] == []


def test_the_comparison_sees_a_wrong_number():
    case = backend().Case("x", "node", None)
    assert backend().compare(np.float32([1, 2]), np.float32([1, 2.1]), case)
    assert backend().compare(np.float32([1]), np.float32([[1]]), case)
    assert backend().compare(np.int64([1]), np.int32([1]), case)
    assert not backend().compare(np.float32([1, np.nan]), np.float32([1, np.nan]), case)
