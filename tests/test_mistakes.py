"""Common mistakes: the error holds the thing, its value and the way out."""

import numpy as np
import pytest

import onnxport
from onnxport.errors import InvalidInputError

torch = pytest.importorskip("torch", reason="PyTorch is an extra")
X = np.ones((3, 4), np.float32)


@pytest.mark.pytorch
@pytest.mark.parametrize(
    ("args", "kwargs", "words"),
    [
        ((), {"onnx_file_path": "m.onnx"}, ["onnx_file_path", 'output="model.onnx"']),
        (((X,), "m.onnx"), {}, ["by position", "tuple", "inputs=(x,), output='m.onnx'"]),
        (((X,),), {}, ["by position", "tuple", "inputs=(x,)"]),
        ((), {"inputs": (X.astype(np.float64),)}, ["'input' is float64[3, 4]", "weights are float32", "same dtype"]),
        ((), {"inputs": (X.astype(np.int64),)}, ["'input' is int64[3, 4]", "weights are float32", "same dtype"]),
        ((), {"inputs": (X,), "target_opset": {"": 17, "ai.onnx.ml": 3}}, ["'ai.onnx.ml': 3", "target_opset=17"]),
    ],
)
def test_a_mistake_is_named_with_the_way_out(args, kwargs, words):
    with pytest.raises((TypeError, InvalidInputError)) as caught:
        onnxport.convert(torch.nn.Linear(4, 2), *args, **kwargs)
    assert [word for word in words if word not in str(caught.value)] == []
