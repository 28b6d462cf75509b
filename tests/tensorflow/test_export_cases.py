"""Every TensorFlow entry's cases: converted, checked, run in onnxruntime and compared with TensorFlow."""

import pytest

from onnxport.opset_maps.maps import tensorflow as table
from tests.evidence import grows, require_case

pytestmark = pytest.mark.tensorflow

ENTRIES = [entry for entry in table if entry.function.__module__.startswith("onnxport.")]
CASES = [
    # The first case of each entry always runs, of the others some.
    pytest.param(
        case,
        id=f"{entry.name}{'-complex' if entry.accepts_complex else ''}-{case.name or i}",
        marks=[pytest.mark.sampled(0.12)] if i else [],
    )
    for entry in {entry.function: entry for entry in ENTRIES}.values()
    for i, case in enumerate(entry.cases)
]


def run(case, opset):
    """Converts and compares a case, its batch varying where it is dynamic."""
    dims = tuple({0: "batch"} if case.dynamic and in_batch else {} for in_batch in grows(case.draw()))
    hub = require_case(case, "tensorflow", opset, dynamic_shapes=dims)
    assert not case.dynamic or not isinstance(hub.model.graph.inputs[0].shape[0], int)


@pytest.mark.parametrize("case", CASES)
def test_case(case):
    run(case, max(case.min_opset, 21))


@pytest.mark.sampled(0.08)
@pytest.mark.parametrize(
    "case", [pytest.param(*row.values, id=row.id) for row in CASES if row.values[0].min_opset <= 18]
)
def test_case_at_its_oldest_opset(case):
    run(case, case.min_opset)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_entry_has_a_docstring_and_cases(entry):
    assert entry.summary
    assert entry.cases
