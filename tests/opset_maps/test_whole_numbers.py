"""Whole numbers of more than 32 bits, of which runtimes' own kernels say wrong things: each function against its framework."""

import numpy as np
import pytest

import onnxport
from tests.evidence import require_equal

TORCH = {
    "maximum": lambda torch, x, y: torch.maximum(x, y),
    "minimum": lambda torch, x, y: torch.minimum(x, y),
    "fmax": lambda torch, x, y: torch.fmax(x, y),
    "clamp": lambda torch, x, y: x.clamp(-(2**31) - 5, 2**32 - 7),
    "clamp by a tensor": lambda torch, x, y: torch.clamp(x, min=y),
    "hardtanh": lambda torch, x, y: torch.nn.functional.hardtanh(x, -5, 7),
    "relu": lambda torch, x, y: torch.relu(x),
    "sign": lambda torch, x, y: x.sign(),
    "amax": lambda torch, x, y: x.amax(1),
    "amin of two axes": lambda torch, x, y: x.amin((0, 1), keepdim=True),
    "max of all": lambda torch, x, y: x.max(),
    "min with places": lambda torch, x, y: x.min(1),
    "aminmax": lambda torch, x, y: tuple(torch.aminmax(x, dim=1)),
    "sum": lambda torch, x, y: x.sum(1),
    "prod": lambda torch, x, y: (x % 50 + 1).prod(1),
    "product of 32 bits": lambda torch, x, y: x.int().prod(1),
    "sum of products": lambda torch, x, y: (x.int().long() * y.int().long()).sum(1),
    "extremes of sums of 32 bits": lambda torch, x, y: torch.aminmax(x.int().long() + y.int().long(), dim=1),
    "extremes of unsigned 32 bits": lambda torch, x, y: torch.aminmax(x.to(torch.uint32).long(), dim=1),
    "power": lambda torch, x, y: (x % 13) ** 17,
    "floor division": lambda torch, x, y: torch.floor_divide(x, y * 2 + 1),
    "remainder": lambda torch, x, y: x % (y * 2 + 1),
    "fmod": lambda torch, x, y: torch.fmod(x, y * 2 + 1),
}
TENSORFLOW = {
    "maximum": lambda tf, x, y: tf.maximum(x, y),
    "minimum": lambda tf, x, y: tf.minimum(x, y),
    "clip": lambda tf, x, y: tf.clip_by_value(x, -5, 2**32 - 5),
    "relu": lambda tf, x, y: tf.nn.relu(x),
    "sign": lambda tf, x, y: tf.sign(x),
    "reduce_max": lambda tf, x, y: tf.reduce_max(x, 1),
    "reduce_max of a computed axis": lambda tf, x, y: tf.reduce_max(x, tf.cast(tf.shape(x)[1] * 0, tf.int32)),
    "reduce_min of all": lambda tf, x, y: tf.reduce_min(x),
    "reduce_sum": lambda tf, x, y: tf.reduce_sum(x, 1, keepdims=True),
    "reduce_prod": lambda tf, x, y: tf.reduce_prod(x % 60 + 1, 1),
    "pow": lambda tf, x, y: tf.pow(x % 13, tf.constant(17, tf.int64)),
    "truncatemod": lambda tf, x, y: tf.raw_ops.TruncateMod(x=x, y=y * 2 + 1),
}
BITS = (8, 32, 33, 40, 58)


def numbers(bits: int) -> tuple[np.ndarray, np.ndarray]:
    """Two arrays of so many bits and a sign."""
    return tuple(np.random.default_rng(bits).integers(-(2**bits), 2**bits, (2, 6, 7)))


@pytest.mark.pytorch
@pytest.mark.parametrize("name", TORCH)
def test_numbers_of_pytorch(name):
    torch = pytest.importorskip("torch", reason="PyTorch is an extra")

    class Model(torch.nn.Module):
        def forward(self, x, y):
            return TORCH[name](torch, x, y)

    model = onnxport.convert(Model(), inputs=tuple(map(torch.tensor, numbers(8))), validate=False)
    for bits in BITS:
        require_equal(Model(), model, tuple(map(torch.tensor, numbers(bits))))


@pytest.mark.tensorflow
@pytest.mark.parametrize("name", TENSORFLOW)
def test_numbers_of_tensorflow(name):
    tf = pytest.importorskip("tensorflow", reason="TensorFlow is an extra")
    function = tf.function(
        lambda x, y: TENSORFLOW[name](tf, x, y), input_signature=[tf.TensorSpec([None, 7], tf.int64)] * 2
    )
    model = onnxport.convert(function, validate=False)
    for bits in BITS:
        require_equal(function, model, numbers(bits))
