"""Operators on axes without elements: each function against its framework, with the axis static and dynamic."""

import numpy as np
import pytest

import onnxport

OPSETS = (13, 21, 26)
TORCH = {
    "sums": lambda torch, x: (x.sum(1), x.prod(1), x.logsumexp(1), x.norm(dim=1), x.norm(p=1, dim=1), x.nansum(1)),
    "means": lambda torch, x: (x.mean(1), x.mean(), x.mean((0, 1)), *torch.var_mean(x, 1), x.std(1, correction=0)),
    "truth": lambda torch, x: (x.any(1), x.all(1), x.any(), x.all(), x.to(torch.uint8).any(1), x.count_nonzero(1)),
    "sums of whole numbers": lambda torch, x: (x.long().sum(1), x.long().prod(1)),
    "softmax": lambda torch, x: (x.softmax(1), x.log_softmax(1)),
}
TENSORFLOW = {
    "sums": lambda tf, x: (tf.reduce_sum(x, 1), tf.reduce_prod(x, 1), tf.reduce_logsumexp(x, 1), tf.norm(x, axis=1)),
    "means": lambda tf, x: (tf.reduce_mean(x, 1), tf.reduce_mean(x), tf.math.reduce_std(x, 1), *tf.nn.moments(x, 1)),
    "extremes": lambda tf, x: (tf.reduce_max(x, 1), tf.reduce_min(x, 1), tf.reduce_max(x)),
    "truth": lambda tf, x: (tf.reduce_any(x > 0, 1), tf.reduce_all(x > 0, 1), tf.reduce_any(x > 0)),
    "whole numbers": lambda tf, x: [
        reduce(tf.cast(x, dtype), 1)
        for dtype in (tf.int32, tf.int64, tf.int8)
        for reduce in (tf.reduce_sum, tf.reduce_max, tf.reduce_min, tf.reduce_mean)
    ],
}


def check(model: onnxport.OnnxModel, expected, x: np.ndarray) -> None:
    """Equal shapes, types and values, computed by onnxruntime."""
    assert model.session.backend == "onnxruntime"
    found = model(x)
    for have, want in zip(found if isinstance(found, tuple) else (found,), expected, strict=True):
        assert (have.dtype, have.shape) == (want.numpy().dtype, want.shape)
        np.testing.assert_array_equal(have, want.numpy())


@pytest.mark.pytorch
@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("name", TORCH)
def test_reductions_of_pytorch(name, opset):
    torch = pytest.importorskip("torch", reason="PyTorch is an extra")

    class Model(torch.nn.Module):
        def forward(self, x):
            return TORCH[name](torch, x)

    x = torch.zeros(2, 0)
    options = {"target_opset": opset, "validate": False}
    check(onnxport.convert(Model(), inputs=(x,), **options), Model()(x), x.numpy())
    dynamic = onnxport.convert(Model(), inputs=(torch.ones(2, 3),), dynamic_shapes={"x": {1: "n"}}, **options)
    check(dynamic, Model()(x), x.numpy())


@pytest.mark.tensorflow
@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("name", TENSORFLOW)
def test_reductions_of_tensorflow(name, opset):
    tf = pytest.importorskip("tensorflow", reason="TensorFlow is an extra")
    x = np.zeros((2, 0), np.float32)
    for size in (0, None):
        function = tf.function(
            lambda x: TENSORFLOW[name](tf, x), input_signature=[tf.TensorSpec([2, size], tf.float32)]
        )
        check(onnxport.convert(function, target_opset=opset, validate=False), function(x), x)
