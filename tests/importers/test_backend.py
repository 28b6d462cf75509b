"""A seeded sample of ONNX's own backend tests, with the shapes that the models say and without."""

import importlib.util
import random
import sys
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from onnxport.opset_maps import maps

# Tests of each framework's importer: how many, and the most that it refuses by name.
SAMPLES = {"pytorch": 160, "tensorflow": 120, "keras": 120}
SEED = 20261121
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


@pytest.mark.parametrize(
    ("framework", "shapes", "refusals"),
    [
        pytest.param("pytorch", "static", 0, marks=pytest.mark.pytorch),
        pytest.param("pytorch", "dynamic", 8, marks=pytest.mark.pytorch),
        pytest.param("tensorflow", "static", 2, marks=pytest.mark.tensorflow),
        pytest.param("keras", "static", 25, marks=[pytest.mark.keras, pytest.mark.tensorflow]),
    ],
)
def test_a_sample_of_the_backend_tests_has_no_wrong_number(framework, shapes, refusals):
    importer = backend().IMPORTERS[framework]()
    outcomes = []
    for case in random.Random(SEED).sample(cases(), SAMPLES[framework]):
        if shapes == "dynamic":
            model = backend().without_shapes(case.model, True)
            case = backend().Case(case.name, case.kind, model, case.data, case.rtol, case.atol)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            outcomes.append(backend().run(case, importer))
    wrong = [item for item in outcomes if item.verdict not in ("passed", "unsupported")]
    assert not wrong
    assert sum(item.verdict == "unsupported" for item in outcomes) <= refusals


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
