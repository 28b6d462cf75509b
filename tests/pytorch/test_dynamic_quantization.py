"""Dynamically quantised PyTorch modules: the files round activations to the steps that PyTorch's kernels round them to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.ao.nn.intrinsic.quantized.dynamic import LinearReLU
from torch.ao.quantization import float_qparams_weight_only_qconfig, per_channel_dynamic_qconfig, quantize_dynamic

import onnxport
from onnxport.errors import TracingError, ValidationError

pytestmark = [
    pytest.mark.pytorch,
    pytest.mark.filterwarnings("ignore:torch.ao.quantization is deprecated", "ignore:torch.quantize_per_tensor"),
    pytest.mark.filterwarnings("ignore:Currently, qnnpack incorrectly ignores reduce_range"),
]


class Cells(nn.Module):
    """The three cells, one behind the other."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.gru, self.rnn = nn.LSTMCell(8, 4), nn.GRUCell(4, 4), nn.RNNCell(4, 5, nonlinearity="relu")

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h, c = self.lstm(x)
        return self.rnn(self.gru(h, c)), c


class Sequences(nn.Module):
    """A recurrent layer over rows of a table, and a product of its last step."""

    def __init__(self, kind: type[nn.RNNBase], **options: Any) -> None:
        super().__init__()
        self.table, self.layer = nn.Embedding(30, 8), kind(8, 6, batch_first=True, **options)
        self.head = nn.Linear(12 if options.get("bidirectional") else 6, 3)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.layer(self.table(ids))[0][:, -1])


def _layers() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 3, bias=False))


EVERY = {nn.Linear, nn.LSTM, nn.GRU, nn.LSTMCell, nn.GRUCell, nn.RNNCell}
HALF = {"dtype": torch.float16}
DEEP = {"num_layers": 2, "bidirectional": True}
MODELS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "linear": (_layers, EVERY, {}),
    "linear, a scale a channel": (_layers, {nn.Linear: per_channel_dynamic_qconfig}, {}),
    "linear, float16": (_layers, {nn.Linear}, HALF),
    "cells": (Cells, EVERY, {}),
    "LSTM": (lambda: Sequences(nn.LSTM), EVERY, {}),
    "LSTM, deep": (lambda: Sequences(nn.LSTM, **DEEP), EVERY, {}),
    "LSTM, float16": (lambda: Sequences(nn.LSTM, **DEEP), {nn.LSTM, nn.Linear}, HALF),
    "GRU": (lambda: Sequences(nn.GRU), EVERY, {}),
    "GRU, deep": (lambda: Sequences(nn.GRU, **DEEP), EVERY, {}),
    "embedding": (lambda: Sequences(nn.GRU), {nn.Embedding: float_qparams_weight_only_qconfig}, {}),
}


@pytest.fixture(params=["x86", "qnnpack"])
def engine(request: pytest.FixtureRequest) -> Iterator[str]:
    """PyTorch's engine of quantised kernels."""
    before = torch.backends.quantized.engine
    if request.param not in torch.backends.quantized.supported_engines:
        pytest.skip(f"this build of PyTorch has no {request.param}")
    torch.backends.quantized.engine = request.param
    yield request.param
    torch.backends.quantized.engine = before


def _inputs(rng: np.random.Generator, model: nn.Module, batch: int) -> Tensor:
    if isinstance(model, Sequences):
        return torch.from_numpy(rng.integers(0, 30, (batch, 7)))
    x = rng.normal(size=(batch, 8)) * 10.0 ** rng.uniform(-6, 3)
    return torch.from_numpy((np.abs(x) if batch % 3 == 0 else x).astype(np.float32))


def _tensors(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


@pytest.mark.parametrize("name", MODELS)
def test_steps(name: str, engine: str) -> None:
    make, which, options = MODELS[name]
    if options is HALF and engine == "qnnpack":
        pytest.skip("QNNPACK has no float16 weights")
    torch.manual_seed(0)
    model = quantize_dynamic(make().eval(), which, **options)
    rng = np.random.default_rng(0)
    file = onnxport.convert(model, inputs=(_inputs(rng, model, 2),))
    assert file.report.passed, str(file.report)
    for batch in range(1, 25):
        x = _inputs(rng, model, batch)
        with torch.no_grad():
            expected = _tensors(model(x))
        for a, b in zip(expected, _tensors(file(x.numpy())), strict=True):
            # A step taken otherwise would show as about a hundredth of the scale.
            np.testing.assert_allclose(b, a.numpy(), rtol=0, atol=2e-6 * float(a.abs().max()))


def test_names_and_types() -> None:
    model = quantize_dynamic(_layers().eval(), {nn.Linear})
    held = onnxport.convert(model, inputs=(torch.randn(2, 8),)).model.graph.initializers
    assert held["0.weight"].dtype.name == "INT8"
    assert {"0.weight", "0.bias", "2.weight"} <= set(held)


def test_relu_of_the_layer() -> None:
    torch.manual_seed(0)
    layer, x = LinearReLU(4, 5), torch.randn(3, 4)
    file = onnxport.convert(layer, inputs=(x,))
    np.testing.assert_allclose(file(x.numpy()), layer(x).numpy(), rtol=1e-6)


class Static(nn.Module):
    """A dynamically quantised layer before one of fixed scales."""

    def __init__(self) -> None:
        super().__init__()
        self.first = quantize_dynamic(nn.Sequential(nn.Linear(4, 3)), {nn.Linear})[0]  # type: ignore[index]
        self.second = torch.ao.nn.quantized.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(torch.quantize_per_tensor(self.first(x), 0.1, 0, torch.quint8)).dequantize()


def test_what_is_refused() -> None:
    with pytest.raises(TracingError, match=r"second: torch.ao.nn.quantized.modules.linear.Linear"):
        onnxport.convert(Static().eval(), inputs=(torch.randn(2, 4),))


@pytest.mark.parametrize("name", ["linear", "cells", "LSTM, deep", "GRU"])
def test_other_steps_fail_the_proof(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, which, options = MODELS[name]
    torch.manual_seed(0)
    model = quantize_dynamic(make().eval(), which, **options)
    monkeypatch.setattr("onnxport.tracing.pytorch_quantized._steps", lambda reduced: 255)
    with pytest.raises(ValidationError):
        onnxport.convert(model, inputs=(_inputs(np.random.default_rng(0), model, 2),))
