"""A seeded sample of ONNX's own node tests, converted with the default proof and without inputs: what is right is proved."""

import random
import warnings

import numpy as np
import onnx
import pytest

import onnxport
from scripts.conformance import onnx_backend

SAMPLE, SEED = 60, 20261122
# Tests that end otherwise in the whole suite stand by name and reason in docs/conformance/onnx_backend.md.
OTHERWISE = ("image_decoder", "empty", "zero", "out_of_bounds", "start_greater_than_end", "kernel_size_one")
# onnxruntime loads none of the newest opset, has no kernel for the operands, gives a lowest number for -inf; sizes of 1 give NaN.
SPECIAL = (
    "test_range_float16_type_positive_delta_expanded",
    "test_range_int32_type_negative_delta_expanded",
    "test_convinteger_with_padding",
    "test_reduce_max_empty_set_bool",
    "test_attention_4d_diff_heads_mask4d_padded_kv",
    "test_attention_4d_with_past_and_present_qk_matmul_bias_4d_mask_causal",
    "test_affine_grid_2d_align_corners_expanded",
)


@pytest.mark.pytorch
def test_what_onnxruntime_does_not_run_or_gives_otherwise_is_proved():
    tests = [case for case in onnx_backend.node_tests() if case.name in SPECIAL]
    outcomes = [onnx_backend.proved(case, "pytorch") for case in tests]
    assert {item.name: item for item in outcomes if item.verdict != "passed"} == {}
    assert len(outcomes) == len(SPECIAL)


@pytest.mark.pytorch
def test_a_sample_of_the_node_tests_is_proved_on_drawn_inputs():
    tests = [case for case in onnx_backend.node_tests() if not any(name in case.name for name in OTHERWISE)]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        outcomes = [onnx_backend.proved(case, "pytorch") for case in random.Random(SEED).sample(tests, SAMPLE)]
    assert [item for item in outcomes if item.verdict != "passed"] == []


@pytest.mark.pytorch
def test_what_lies_at_a_place_that_is_no_number_is_left_open():
    """onnxruntime takes an offset of NaN for a place outside, with a value of 0."""
    model = onnx.parser.parse_model(
        """<ir_version: 9, opset_import: ["": 19]> deform
        (float[N, 1, 3, 3] x, float[N, 8, 2, 2] offsets) => (float[N, 1, 2, 2] y)
        {w = Constant <value = float[1, 1, 2, 2] {1.0, 2.0, 3.0, 4.0}> ()
         y = DeformConv <kernel_shape = [2, 2]> (x, w, offsets)}"""
    )
    assert onnxport.convert(model, to="pytorch").onnxport_report.passed
