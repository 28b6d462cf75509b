"""Compositions of a file that become one call of PyTorch each."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import onnxport

pytestmark = pytest.mark.pytorch


def imported(source, x):
    return onnxport.convert(onnxport.convert(source, inputs=(x,), validate=False), to="pytorch", validate=False)


def calls(module):
    return [node.target for node in module.graph.nodes if node.op == "call_function"]


class TimesSigmoid(nn.Module):
    """A value times its sigmoid, and sigmoids that are something else."""

    def forward(self, x):
        gate = torch.sigmoid(-x)
        return x * torch.sigmoid(x), x * gate, gate + x, torch.sigmoid(x + 1) * x


def test_a_value_times_its_sigmoid_is_one_call():
    source, x = TimesSigmoid(), torch.linspace(-90, 90, 12).reshape(3, 4)
    module = imported(source, x)
    assert (calls(module).count(F.silu), calls(module).count(torch.sigmoid)) == (1, 2)
    for got, expected in zip(module(x), source(x), strict=True):
        torch.testing.assert_close(got, expected)


POOLS = [
    (nn.MaxPool1d(3, 2, ceil_mode=True), (8,)),
    (nn.MaxPool2d(3, 2, ceil_mode=True), (8, 12)),
    (nn.MaxPool2d(3, 2, padding=1, ceil_mode=True), (8, 10)),
    (nn.MaxPool2d(3, 1, padding=1, dilation=2), (9, 7)),
    (nn.MaxPool3d(3, 2, ceil_mode=True), (5, 6, 8)),
]


@pytest.mark.parametrize("before", [nn.Identity(), nn.ReLU()], ids=["any", "not negative"])
@pytest.mark.parametrize(("pool", "size"), POOLS, ids=[str(pool) for pool, _ in POOLS])
def test_a_pool_that_keeps_nan_is_one_call(pool, size, before):
    x = torch.randn(2, 3, *size)
    x[0, 0], x[0, 1] = -math.inf, torch.finfo(torch.float32).min
    x.view(-1)[torch.randperm(x.numel())[:4]] = math.nan
    source = nn.Sequential(before, pool).eval()
    module = imported(source, x)
    assert len(calls(module)) == 1 + isinstance(before, nn.ReLU), "the pool alone"
    torch.testing.assert_close(module(x), source(x), rtol=0, atol=0, equal_nan=True)


class OtherWindows(nn.Module):
    """NaN where a wider window holds one."""

    def forward(self, x):
        wide = F.max_pool2d(torch.isnan(x).float(), 5, 1, 2, ceil_mode=True)
        return torch.where(wide != 0, math.nan, F.max_pool2d(x, 3, 1, 1, ceil_mode=True))


def test_nan_of_other_windows_stays_a_choice():
    x = torch.randn(2, 3, 9, 9)
    x[0, 0, 4, 4] = math.nan
    module = imported(OtherWindows(), x)
    assert calls(module).count(torch.where) == 1
    torch.testing.assert_close(module(x), OtherWindows()(x), rtol=0, atol=0, equal_nan=True)


def test_a_gelu_without_gradient_takes_the_memory_of_two_results_and_is_the_one_with():
    x = torch.linspace(-12, 12, 4001)
    module = imported(nn.GELU(), x)
    free = x.clone().requires_grad_()
    with torch.no_grad(), torch.profiler.profile(profile_memory=True) as profile:
        alone = module(x)
    taken = sum(max(event.self_cpu_memory_usage, 0) for event in profile.events())
    assert taken < 3 * x.nbytes
    assert torch.equal(alone, module(free).detach()), "the same bits"
    assert torch.equal(x, torch.linspace(-12, 12, 4001)), "the input stays"
    torch.testing.assert_close(alone, nn.GELU()(x.double()).float(), rtol=1e-5, atol=1e-6)
