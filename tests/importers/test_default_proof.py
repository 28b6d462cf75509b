"""A seeded sample of ONNX's own node tests, converted with the default proof and without inputs: what is right is proved."""

import random
import warnings

import numpy as np
import pytest

from scripts.conformance import onnx_backend

SAMPLE, SEED = 60, 20261122
# Tests that end otherwise in the whole suite stand by name and reason in docs/conformance/onnx_backend.md.
OTHERWISE = ("bernoulli", "training_dropout", "image_decoder", "range_", "qk_matmul_bias", "convinteger", "empty_set")


@pytest.mark.pytorch
def test_a_sample_of_the_node_tests_is_proved_on_drawn_inputs():
    tests = [case for case in onnx_backend.node_tests() if not any(name in case.name for name in OTHERWISE)]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        outcomes = [onnx_backend.proved(case, "pytorch") for case in random.Random(SEED).sample(tests, SAMPLE)]
    assert [item for item in outcomes if item.verdict != "passed"] == []
