"""Updates that meet at one place: none is lost, whatever the threads of the runtime do. Each function against its framework."""

import numpy as np
import pytest

import onnxport
from onnxport.errors import UnsupportedOperator

PLACES, WIDTH = 3, 512
TORCH = {
    "index_put": lambda torch, x, i: torch.zeros(PLACES, WIDTH, dtype=x.dtype).index_put((i,), x, accumulate=True),
    "index_put from the end": lambda torch, x, i: torch.zeros(PLACES, 2, WIDTH, dtype=x.dtype).index_put(
        (i - PLACES, i % 2 - 1), x, accumulate=True
    ),
    "index_put of numbers": lambda torch, x, i: torch.zeros(PLACES, PLACES, dtype=x.dtype).index_put(
        (i, -1 - i), x[:, 0], accumulate=True
    ),
    "index_put of a last axis": lambda torch, x, i: torch.ops.aten.index_put(
        torch.zeros(2, PLACES, dtype=x.dtype), [None, i], x[:, :2].T, True
    ),
    "index_put of nothing": lambda torch, x, i: torch.zeros(PLACES, WIDTH, dtype=x.dtype).index_put(
        (i[:0],), x[:0], accumulate=True
    ),
    "index_put beside nothing": lambda torch, x, i: torch.zeros(PLACES, 2, 0, dtype=x.dtype).index_put(
        (i, i % 2), x[:, :0], accumulate=True
    ),
    "index_add": lambda torch, x, i: torch.zeros(PLACES, WIDTH, dtype=x.dtype).index_add(0, i, x),
    "scatter_add": lambda torch, x, i: torch.zeros(PLACES, WIDTH, dtype=x.dtype).scatter_add(
        0, i[:, None].expand(-1, WIDTH), x
    ),
}
TENSORFLOW = {
    "scatter_nd": lambda tf, x, i: tf.scatter_nd(i[:, None], x, [PLACES, WIDTH]),
    "scatter_nd of pairs": lambda tf, x, i: tf.scatter_nd(tf.stack([i, i % 2], 1), x, [PLACES, 2, WIDTH]),
    "scatter_nd of numbers": lambda tf, x, i: tf.scatter_nd(tf.stack([i, i % 2], 1), x[:, 0], [PLACES, 2]),
    "tensor_scatter_nd_add": lambda tf, x, i: tf.tensor_scatter_nd_add(
        tf.ones([PLACES, WIDTH], x.dtype), i[:, None], x
    ),
    "tensor_scatter_nd_sub": lambda tf, x, i: tf.tensor_scatter_nd_sub(
        tf.ones([PLACES, WIDTH], x.dtype), i[:, None], x
    ),
    "tensor_scatter_nd_max": lambda tf, x, i: tf.tensor_scatter_nd_max(
        tf.ones([PLACES, WIDTH], x.dtype), i[:, None], x
    ),
    "unsorted_segment_sum": lambda tf, x, i: tf.math.unsorted_segment_sum(x, i, PLACES),
    "segment_sum": lambda tf, x, i: tf.math.segment_sum(x, tf.sort(i)),
}
RUNS = 4


def given(dtype) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    rows = 2000 if np.dtype(dtype).kind == "i" else 40
    return rng.integers(-4, 5, (rows, WIDTH)).astype(dtype), rng.integers(0, PLACES, rows)


def check(model: onnxport.OnnxModel, expected: np.ndarray, x: np.ndarray, i: np.ndarray) -> None:
    assert model.session.backend == "onnxruntime"
    for _ in range(RUNS):
        np.testing.assert_array_equal(model(x, i), expected, strict=True)


@pytest.mark.pytorch
@pytest.mark.parametrize("dtype", [np.int64, np.float16])
@pytest.mark.parametrize("name", TORCH)
def test_updates_of_pytorch(name, dtype):
    torch = pytest.importorskip("torch", reason="PyTorch is an extra")

    class Model(torch.nn.Module):
        def forward(self, x, i):
            return TORCH[name](torch, x, i)

    x, i = given(dtype)
    operands = torch.tensor(x), torch.tensor(i)
    check(onnxport.convert(Model(), inputs=operands, validate=False), TORCH[name](torch, *operands).numpy(), x, i)


@pytest.mark.tensorflow
@pytest.mark.parametrize("dtype", [np.int64, np.float16])
@pytest.mark.parametrize("name", TENSORFLOW)
def test_updates_of_tensorflow(name, dtype):
    tf = pytest.importorskip("tensorflow", reason="TensorFlow is an extra")
    x, i = given(dtype)
    signature = [tf.TensorSpec([None, WIDTH], x.dtype), tf.TensorSpec([None], i.dtype)]
    function = tf.function(lambda x, i: TENSORFLOW[name](tf, x, i), input_signature=signature)
    check(onnxport.convert(function, validate=False), function(x, i).numpy(), x, i)


@pytest.mark.pytorch
@pytest.mark.parametrize("name", ["index_add", "scatter_add", "index_put"])
def test_pytorchs_sums_are_refused_before_the_opset_that_has_them(name):
    torch = pytest.importorskip("torch", reason="PyTorch is an extra")

    class Model(torch.nn.Module):
        def forward(self, x, i):
            return TORCH[name](torch, x, i)

    inputs = (torch.ones(2, WIDTH), torch.tensor([0, 0]))
    with pytest.raises(UnsupportedOperator, match="needs opset 16"):
        onnxport.convert(Model(), inputs=inputs, target_opset=15, validate=False)


@pytest.mark.tensorflow
def test_tensorflows_sums_are_refused_before_the_opset_that_has_them():
    tf = pytest.importorskip("tensorflow", reason="TensorFlow is an extra")
    lowered = tf.function(
        lambda x: tf.scatter_nd([[0], [0]], x, [3, 2]), input_signature=[tf.TensorSpec([2, 2], tf.float32)]
    )
    with pytest.raises(UnsupportedOperator, match="ScatterNd: needs opset 16"):
        onnxport.convert(lowered, target_opset=15, validate=False)
