"""Calls of an `OnnxModel` with what it does not take: the input's name, what was given and what it takes."""

import numpy as np
import onnx
import pytest

from onnxport.errors import InvalidInputError
from onnxport.model import as_onnx_model

TEXT = """<ir_version: 8, opset_import: ["": 17]>
net (float[batch,4] x, int64[2] n) => (float[batch,4] y) { s = Cast<to = 1>(n) t = ReduceSum(s) y = Add(x, t) }"""
X, N = np.ones((2, 4), np.float32), np.array([1, 2])


@pytest.mark.parametrize(
    "inputs, named, text",
    [
        ((X[:, :3], N), {}, "input 'x' has the shape [2, 3], and the model takes float32[batch, 4]"),
        ((X[0], N), {}, "input 'x' has the shape [4], and the model takes float32[batch, 4]"),
        ((X, N[:1]), {}, "input 'n' has the shape [1], and the model takes int64[2]"),
        ((X.astype(np.float64), N), {}, "input 'x' is float64, the model takes float32"),
        ((X,), {}, "the model takes 2 inputs (x, n); n was not given"),
        ((), {"x": X, "m": N}, "the model has no input 'm': it takes x, n"),
        ((X, N, N), {}, "the model takes 2 inputs (x, n), 3 were given"),
        ((None, N), {}, "input 'x' is None: the model takes an array of float32[batch, 4]"),
        (("cat.png", N), {}, "input 'x' is 'cat.png', the model takes float32"),
    ],
)
def test_a_wrong_call_names_the_input(inputs, named, text):
    with pytest.raises(InvalidInputError) as caught:
        as_onnx_model(onnx.parser.parse_model(TEXT))(*inputs, **named)
    assert str(caught.value) == text


def test_a_right_call_runs():
    model = as_onnx_model(onnx.parser.parse_model(TEXT))
    np.testing.assert_array_equal(model(X.tolist(), n=N), X + 3)
