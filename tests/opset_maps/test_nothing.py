"""Operators on axes without elements: each function against its framework, with the axis static and dynamic."""

import numpy as np
import pytest

import onnxport
from tests.evidence import require_equal

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

# Run on a batch of 0 that was 3 when it was converted: the rows' shape, and the function.
TORCH_BATCH = {
    "convolution": ((2, 6, 6), lambda torch, x: torch.conv2d(x, torch.ones(3, 2, 3, 3), padding=1)),
    "linear": ((4,), lambda torch, x: torch.nn.functional.linear(x, torch.ones(3, 4), torch.ones(3))),
    "group_norm": ((4, 3, 3), lambda torch, x: torch.group_norm(x, 2)),
    "layer_norm": ((5, 4), lambda torch, x: torch.layer_norm(x, (4,))),
    "pools": ((2, 6, 6), lambda torch, x: (torch.max_pool2d(x, 2), torch.nn.functional.adaptive_avg_pool2d(x, 2))),
    "attention": ((2, 5, 4), lambda torch, x: torch.nn.functional.scaled_dot_product_attention(x, x, x)),
    "order": ((4,), lambda torch, x: (*x.sort(1), *x.topk(2), x.argmax(1), x.amax(1), x.median(1)[0])),
    "along the batch": ((4,), lambda torch, x: (x.mean(0), x.sum(0), x.roll(1, 0), x.cumsum(0), x.logsumexp(0))),
    "shapes": ((2, 3), lambda torch, x: (x.flatten(1), x.transpose(1, 2), x.flip(0))),
}
TENSORFLOW_BATCH = {
    "shapes": ((2, 3), lambda tf, x: (tf.reshape(x, [tf.shape(x)[0], -1]), tf.reshape(x, [tf.shape(x)[0], 3, -1]))),
    "edges": ((4,), lambda tf, x: (tf.raw_ops.Bucketize(input=x, boundaries=[0.0, 1.0]),)),
    "pools": ((6, 6, 2), lambda tf, x: (tf.nn.max_pool2d(x, 2, 2, "SAME"), tf.reduce_mean(x, [1, 2]))),
    "along the batch": (
        (4,),
        lambda tf, x: (tf.reduce_mean(x, 0), tf.reduce_max(x, 0), tf.cumsum(x, 0), tf.roll(x, 1, 0)),
    ),
    "order": ((4,), lambda tf, x: (*tf.math.top_k(x, 2), tf.argmax(x, -1), tf.nn.softmax(x), tf.reduce_max(x, -1))),
}


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
    require_equal(Model(), onnxport.convert(Model(), inputs=(x,), **options), (x,))
    dynamic = onnxport.convert(Model(), inputs=(torch.ones(2, 3),), dynamic_shapes={"x": {1: "n"}}, **options)
    require_equal(Model(), dynamic, (x,))


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
        require_equal(function, onnxport.convert(function, target_opset=opset, validate=False), (x,))


@pytest.mark.pytorch
@pytest.mark.parametrize("name", TORCH_BATCH)
def test_an_empty_batch_of_pytorch(name):
    torch = pytest.importorskip("torch", reason="PyTorch is an extra")
    shape, function = TORCH_BATCH[name]

    class Model(torch.nn.Module):
        def forward(self, x):
            outputs = function(torch, x)
            return outputs if isinstance(outputs, tuple) else (outputs,)

    x = torch.zeros(0, *shape)
    require_equal(Model(), onnxport.convert(Model(), inputs=(torch.rand(3, *shape),), validate=False), (x,))


@pytest.mark.tensorflow
@pytest.mark.parametrize("name", TENSORFLOW_BATCH)
def test_an_empty_batch_of_tensorflow(name):
    tf = pytest.importorskip("tensorflow", reason="TensorFlow is an extra")
    shape, body = TENSORFLOW_BATCH[name]
    function = tf.function(lambda x: body(tf, x), input_signature=[tf.TensorSpec([None, *shape], tf.float32)])
    x = np.zeros((0, *shape), np.float32)
    require_equal(function, onnxport.convert(function, validate=False), (x,))
