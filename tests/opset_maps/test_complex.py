"""Complex numbers with infinite parts: each framework's own result, part by part."""

import numpy as np
import pytest

import onnxport

INFINITE = np.array([np.inf, -np.inf, 1.0, 0.0], np.float32)
TORCH = {
    "complex of broadcast parts": lambda torch, x: torch.complex(torch.ones(2, 4), x),
    "complex64 of a real tensor": lambda torch, x: x.to(torch.complex64),
}
TENSORFLOW = {
    "complex64 of a real tensor": lambda tf, x: tf.cast(x, tf.complex64),
    "complex of broadcast parts": lambda tf, x: tf.complex(tf.ones((2, 4)), x),
}


@pytest.mark.pytorch
@pytest.mark.parametrize("name", TORCH)
@pytest.mark.parametrize("dynamic", [True, False])
def test_infinite_parts_of_pytorch(name, dynamic):
    torch = pytest.importorskip("torch", reason="PyTorch is an extra")

    class Model(torch.nn.Module):
        def forward(self, x):
            return torch.view_as_real(TORCH[name](torch, x))

    x = torch.from_numpy(INFINITE)
    shapes = {"x": {0: torch.export.Dim.AUTO}} if dynamic and "real" in name else {"x": {}}
    model = onnxport.convert(Model(), inputs=(x,), dynamic_shapes=shapes, validate=False)
    np.testing.assert_array_equal(model(INFINITE), Model()(x).numpy())


@pytest.mark.tensorflow
@pytest.mark.parametrize("name", TENSORFLOW)
def test_infinite_parts_of_tensorflow(name):
    tf = pytest.importorskip("tensorflow", reason="TensorFlow is an extra")

    @tf.function(input_signature=[tf.TensorSpec([4], tf.float32)])
    def function(x):
        z = TENSORFLOW[name](tf, x)
        return tf.math.real(z), tf.math.imag(z)

    for have, want in zip(onnxport.convert(function, validate=False)(INFINITE), function(INFINITE), strict=True):
        np.testing.assert_array_equal(have, want.numpy())
