"""Every TensorFlow entry's cases: converted, checked, run in onnxruntime and compared with TensorFlow."""

import numpy as np
import onnx
import pytest
import tensorflow as tf

from onnxport.converters.to_onnx.tensorflow import export
from onnxport.opset_maps.maps import tensorflow as table
from onnxport.request import Request
from tests.graph.written import moved_constants

pytestmark = pytest.mark.tensorflow

ENTRIES = [entry for entry in table if entry.function.__module__.startswith("onnxport.")]
CASES = [
    pytest.param(case, id=f"{entry.name}{'-complex' if entry.accepts_complex else ''}-{case.name or i}")
    for entry in {entry.function: entry for entry in ENTRIES}.values()
    for i, case in enumerate(entry.cases)
]


def compare(got, want):
    """Equal shapes and dtypes; numbers within a few roundings of the output's scale."""
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape
    if want.dtype == object:
        assert [s.decode() if isinstance(s, bytes) else s for s in want.ravel()] == list(got.ravel())
        return
    assert got.dtype == want.dtype
    if want.dtype.kind in "iub":
        np.testing.assert_array_equal(got, want)
        return
    scale = np.abs(want[np.isfinite(want)]).max(initial=1.0)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=5e-6 * scale)


def check(function, inputs, opset, dynamic_shapes=None):
    """Converts `function` and compares it on `inputs`; gives the converted model."""
    model = export(function, Request(inputs=inputs, target_opset=opset, dynamic_shapes=dynamic_shapes))
    onnx.checker.check_model(model.proto, full_check=True)
    assert moved_constants(model.model) == []
    run(model, function, inputs)
    return model


def run(model, function, inputs):
    want = tf.nest.flatten(function(*map(tf.constant, inputs)))
    got = model(*inputs)
    got = got if isinstance(got, tuple) else (got,)
    assert len(got) == len(want)
    for ours, theirs in zip(got, want, strict=True):
        compare(ours, theirs.numpy())


def built(case):
    """A case's function, its inputs, and which of these grow with the batch."""
    inputs = case.draw()
    size = inputs[0].shape[0] if case.dynamic else None
    grown = [array.ndim > 0 and case.dynamic and array.shape[0] == size for array in inputs]
    return case.call() if case.factory else case.call, inputs, grown


def dims(grown):
    return tuple({0: "batch"} if grows else {} for grows in grown)


@pytest.mark.parametrize("case", CASES)
def test_case(case):
    function, inputs, grown = built(case)
    model = check(function, inputs, max(case.min_opset, 21), dims(grown))
    if case.dynamic:
        assert not isinstance(model.model.graph.inputs[0].shape[0], int)
        more = [
            np.concatenate([array, array[:1]]) if grows else array for array, grows in zip(inputs, grown, strict=True)
        ]
        run(model, function, more)


@pytest.mark.sampled(0.15)
@pytest.mark.parametrize("case", [row for row in CASES if row.values[0].min_opset <= 18])
def test_case_at_its_oldest_opset(case):
    function, inputs, grown = built(case)
    check(function, inputs, case.min_opset, dims(grown))


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_entry_has_a_docstring_and_cases(entry):
    assert entry.summary
    assert entry.cases
