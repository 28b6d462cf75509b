"""PyTorch's runs with noise: what their operators lose in a runtime shows in them, and nothing else."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is an extra")

import onnxport  # noqa: E402
from onnxport.validation.runners import pytorch as runners  # noqa: E402
from onnxport.validation.runners.base import Binding  # noqa: E402

pytestmark = pytest.mark.pytorch
FAR = torch.linspace(-16, -12, 64)


def moved(call, x):
    runner = runners.bind(call, Binding((x,), None))
    plain = runner.run([x.numpy()])[0][1]
    return plain, [runner.run_moved([x.numpy()], 1, seed)[0][1] for seed in range(4)]


@pytest.mark.parametrize("call", [torch.sigmoid, torch.nn.functional.softplus, torch.nn.functional.silu])
def test_a_small_value_beside_1_moves_by_a_unit_of_1(call):
    plain, runs = moved(call, FAR)
    unit = np.finfo(np.float32).eps * (1 if call is not torch.nn.functional.silu else 16)
    assert all(0.1 * unit < np.abs(run - plain).max() < 1.1 * unit for run in runs)


@pytest.mark.parametrize("call", [lambda x: torch.fft.rfft(x).abs(), lambda x: torch.fft.irfft(torch.fft.rfft(x) / 8)])
def test_a_transform_moves_by_a_unit_of_all_its_results(call):
    plain, runs = moved(call, FAR)
    unit = np.finfo(np.float32).eps * np.sqrt(np.mean(plain**2))
    assert all(0.2 * unit < np.sqrt(np.mean((run - plain) ** 2)) < 4 * unit for run in runs)


def test_what_a_sigmoid_leaves_of_a_product_far_from_0_passes():
    x = torch.tensor([-30.0, -46.0, -50.0, -80.0])
    assert onnxport.convert(lambda x: torch.nn.functional.silu(x), inputs=(x,)).report.passed


@pytest.mark.parametrize("size", [64, 256])
def test_an_inverse_short_time_transform_passes(size):
    def model(x):
        spectrum = torch.stft(x, size, size // 4, window=torch.hann_window(size), return_complex=True)
        return torch.istft(spectrum * 2, size, size // 4, window=torch.hann_window(size))

    torch.manual_seed(0)
    assert onnxport.convert(model, inputs=(torch.randn(2, 2000),)).report.passed


@pytest.mark.parametrize(
    "call", [lambda x: torch.sqrt(torch.nn.functional.softplus(x - 4)), lambda x: torch.log(torch.sigmoid(x - 4))]
)
def test_no_probability_moves_below_0(call):
    _, runs = moved(call, FAR)
    assert all(np.isfinite(run).all() for run in runs)


def test_probabilities_move_by_a_unit_of_their_own():
    plain, runs = moved(lambda x: torch.softmax(x * 0, -1), torch.ones(3, 7))
    unit = np.finfo(np.float32).eps / 7
    assert all(0.4 * unit < np.abs(run - plain).max() < 1.1 * unit for run in runs)


@pytest.mark.parametrize("axes", [(2, 3), (3, 2), (-1, -2)])
def test_a_long_sum_moves_as_runtimes_add_it(axes):
    plain, runs = moved(lambda x: x.mean(axes), torch.full((2, 3, 224, 224), 0.7431))
    off = [np.abs(run - plain).max() / plain.max() / np.finfo(np.float32).eps for run in runs]
    assert all(100 < units < 1000 for units in off)


@pytest.mark.parametrize("factor, verdict", [(1.0, "passed"), (1.0001, "failed")])
def test_a_mean_of_many_pixels_passes_and_a_wrong_one_fails(factor, verdict):
    class Mean(torch.nn.Module):
        def __init__(self, factor):
            super().__init__()
            torch.manual_seed(0)
            self.conv, self.factor = torch.nn.Conv2d(3, 2, 1), factor

        def forward(self, x):
            return self.conv(x).mean((2, 3)) * self.factor

    x = torch.randn(1, 3, 224, 224, generator=torch.Generator().manual_seed(0))
    converted = onnxport.convert(Mean(factor).eval(), inputs=(x,), validate=False)
    assert onnxport.validate(Mean(1.0).eval(), converted, inputs=(x,)).verdict == verdict


def _gap(function):
    class Gap(torch.nn.Module):
        def forward(self, x):
            return function(x)

    return Gap()


CANCELLING = {"tanh": lambda x: x - torch.tanh(x), "sin": lambda x: x - torch.sin(x)}
WRONG = {
    "float32 inside": lambda x: x - torch.tanh(x.float()).double(),
    "off": lambda x: (x - torch.tanh(x)) * (1 + 1e-11),
    "more beside 0": lambda x: x - torch.tanh(x) + x**3 * 1e-9,
}


@pytest.mark.parametrize("name", CANCELLING)
def test_what_cancels_in_float64_passes(name):
    x = 2 * torch.randn(3, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert onnxport.convert(_gap(CANCELLING[name]), inputs=(x,)).report.verdict == "passed"


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_beside_what_cancels_in_float64_fails(name):
    x = 2 * torch.randn(3, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    wrong = onnxport.convert(_gap(WRONG[name]), inputs=(x,), validate=False)
    assert onnxport.validate(_gap(CANCELLING["tanh"]), wrong, inputs=(x,)).verdict == "failed"


NORMS = {
    "layer": (lambda: torch.nn.LayerNorm(8192), (2, 3, 8192)),
    "instance": (lambda: torch.nn.InstanceNorm2d(4, affine=True), (2, 4, 128, 128)),
    "group": (lambda: torch.nn.GroupNorm(4, 16), (2, 16, 64, 64)),
}


@pytest.mark.parametrize("name", NORMS)
def test_a_norm_of_many_elements_passes_and_a_wrong_one_fails(name):
    """Runtimes add the squares of the deviations one by one, which whole numbers show most."""
    build, shape = NORMS[name]
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    assert onnxport.convert(build(), inputs=(x,)).report.passed
    other = build()
    other.eps = 3e-4
    wrong = onnxport.convert(other, inputs=(x,), validate=False)
    assert onnxport.validate(build(), wrong, inputs=(x,)).verdict == "failed"


@pytest.mark.parametrize("call", [lambda x: x.var(-1), lambda x: torch.std_mean(x, -1), lambda x: x.std((0, 1))])
def test_a_deviation_of_many_elements_passes(call):
    x = torch.randn(3, 8192, generator=torch.Generator().manual_seed(0))
    assert onnxport.convert(call, inputs=(x,)).report.passed
