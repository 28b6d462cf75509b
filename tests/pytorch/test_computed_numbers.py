"""Numbers that a model computes from its sizes where ONNX's operator has a constant."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is an extra")
pytestmark = pytest.mark.pytorch

import numpy as np  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import onnxport  # noqa: E402
from onnxport.errors import UnsupportedOperator  # noqa: E402
from onnxport.validation.runners.pytorch import to_numpy  # noqa: E402
from tests.pytorch.exporting import exported  # noqa: E402


class Of(nn.Module):
    """A function of a tensor and of its number of rows."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x, x.shape[0])


@pytest.mark.parametrize(
    "function",
    [
        lambda x, n: F.leaky_relu(x, 1 / n),
        lambda x, n: F.hardtanh(x, -n / 5, n / 5),
        lambda x, n: F.softplus(x, n, 20 * n),
        lambda x, n: torch.bincount(torch.arange(n), minlength=2 * n),
        lambda x, n: x.tril(n - 3),
    ],
    ids=["leaky_relu", "hardtanh", "softplus", "bincount", "tril"],
)
def test_a_computed_number_is_computed_in_the_graph(function):
    x = torch.randn(5, 9, generator=torch.Generator().manual_seed(0))
    assert onnxport.convert(Of(function), inputs=(x,)).report.passed


def test_a_computed_number_without_a_form_is_refused_by_its_name():
    with pytest.raises(UnsupportedOperator, match="correction: computed when the model runs"):
        exported(Of(lambda x, n: x.var(1, correction=n // 4)), torch.ones(5, 9), dynamic_shapes=({0: "n"},))


class Modulated(nn.Module):
    """StyleGAN's convolution: each image has its own kernel, and the batch is one image of as many groups."""

    def __init__(self):
        super().__init__()
        self.kernel = nn.Parameter(torch.randn(6, 4, 3, 3, generator=torch.Generator().manual_seed(0)))
        self.style = nn.Linear(5, 4)

    def forward(self, x, style):
        batch, channels, height, width = x.shape
        kernel = self.kernel * self.style(style)[:, None, :, None, None]
        kernel = kernel * torch.rsqrt(kernel.square().sum((2, 3, 4), keepdim=True) + 1e-8)
        image = x.reshape(1, batch * channels, height, width)
        y = F.conv2d(image, kernel.flatten(0, 1), padding=1, groups=batch)
        return y.reshape(batch, 6, height, width)


@pytest.mark.parametrize("to", ["onnx", "pytorch", "keras"])
def test_a_kernel_for_each_image(to):
    if to == "keras":
        pytest.importorskip("keras", reason="Keras is an extra")
    source, draws = Modulated(), torch.Generator().manual_seed(1)
    converted = onnxport.convert(source, to=to, inputs=(torch.ones(2, 4, 8, 8), torch.ones(2, 5)))
    others = torch.randn(3, 4, 8, 8, generator=draws), torch.randn(3, 5, generator=draws)
    result = converted(*(others if to == "pytorch" else (item.numpy() for item in others)))
    np.testing.assert_allclose(np.asarray(to_numpy(result)), to_numpy(source(*others)), atol=1e-5)
