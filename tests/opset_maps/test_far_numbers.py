"""Numbers at the ends of their types, of which runtimes' own kernels say wrong things: each function against its framework."""

import numpy as np
import pytest

import onnxport

NAN, INF = np.nan, np.inf
FAR = [[NAN, 1, 2, 3, 4], [5, 2, NAN, 4, 9], [1, 2, 3, 4, NAN], [INF, -INF, 1, 2, 3], [-INF, -INF, 1, 0, -7]]
SMALL = [list(range(-120, 60, 5))]
TORCH = {
    "clamp from above": (lambda torch, x: x.clamp(max=2), FAR, ("float16", "float32", "float64")),
    "clamp from below": (lambda torch, x: x.clamp(min=2), FAR, ("float16", "float32", "float64")),
    "clamp_min": (lambda torch, x: x.clamp_min(2.5), FAR, ("float32",)),
    "clamp of relu": (lambda torch, x: torch.relu(x).clamp(0, 3), FAR, ("float32", "float64")),
    "relu6 of relu": (lambda torch, x: torch.nn.functional.relu6(torch.relu(x)), FAR, ("float32", "float64")),
    "log_softmax": (lambda torch, x: x.log_softmax(1), FAR, ("float32", "float64")),
    "log_softmax of columns": (lambda torch, x: x.log_softmax(0), FAR, ("float64",)),
    "log of sigmoid": (lambda torch, x: torch.log(torch.sigmoid(x)), SMALL, ("float32", "float64")),
    "power that wraps around": (lambda torch, x: x**5, SMALL, ("int32", "int64")),
}
TENSORFLOW = {
    "log_softmax": (lambda tf, x: tf.nn.log_softmax(x), FAR, ("float32", "float64")),
    "log of sigmoid": (lambda tf, x: tf.math.log(tf.sigmoid(x)), [list(range(-85, 60, 5))], ("float32", "float64")),
    "relu6 of relu": (lambda tf, x: tf.nn.relu6(tf.nn.relu(x)), FAR, ("float32", "float64")),
    "power that wraps around": (lambda tf, x: tf.pow(x, 5), SMALL, ("int32", "int64")),
}


def cases(table):
    return [pytest.param(*row[:2], dtype, id=f"{name}-{dtype}") for name, row in table.items() for dtype in row[2]]


def check(model: onnxport.OnnxModel, expected: np.ndarray, x: np.ndarray) -> None:
    """The framework's numbers, computed by onnxruntime: infinities and NaN at the same places, else up to rounding."""
    assert model.session.backend == "onnxruntime"
    found = model(x)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    rounding = 8 * np.finfo(x.dtype).eps if x.dtype.kind == "f" else 0
    np.testing.assert_allclose(found, expected, rtol=rounding, atol=rounding)


@pytest.mark.pytorch
@pytest.mark.parametrize(("function", "numbers", "dtype"), cases(TORCH))
def test_numbers_of_pytorch(function, numbers, dtype):
    torch = pytest.importorskip("torch", reason="PyTorch is an extra")

    class Model(torch.nn.Module):
        def forward(self, x):
            return function(torch, x)

    x = np.array(numbers, dtype)
    model = onnxport.convert(Model(), inputs=(torch.tensor(x),), validate=False)
    check(model, function(torch, torch.tensor(x)).numpy(), x)


@pytest.mark.tensorflow
@pytest.mark.parametrize(("function", "numbers", "dtype"), cases(TENSORFLOW))
def test_numbers_of_tensorflow(function, numbers, dtype):
    tf = pytest.importorskip("tensorflow", reason="TensorFlow is an extra")
    x = np.array(numbers, dtype)
    lowered = tf.function(lambda x: function(tf, x), input_signature=[tf.TensorSpec([None, x.shape[1]], x.dtype)])
    check(onnxport.convert(lowered, validate=False), lowered(x).numpy(), x)
