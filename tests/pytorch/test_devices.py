"""Models on another device than the processor, for which PyTorch's lazy device stands here: every build has it."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch._lazy.ts_backend
from torch import Tensor, nn

import onnxport
from onnxport.errors import InvalidInputError

torch._lazy.ts_backend.init()
PLACE = "lazy"


class Steps(nn.Module):
    """A buffer and tensors that are none, a device of its own, tied weights, recurrence."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(10, 8)
        self.body = nn.LSTM(8, 8, batch_first=True)
        self.head = nn.Linear(8, 10)
        self.head.weight = self.words.weight
        self.register_buffer("scale", torch.rand(8))
        self.place, self.shift = torch.device("cpu"), torch.rand(8)

    def on(self, place: str) -> "Steps":
        self.place, self.shift = torch.device(place), self.shift.to(place)
        return self.to(place)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids) * self.scale + self.shift + torch.arange(8, device=self.place) / 8
        return self.head(self.body(x)[0])

    def encode(self, ids: Tensor) -> Tensor:
        return self(ids).softmax(-1)


IDS = torch.randint(0, 10, (2, 5), generator=torch.Generator().manual_seed(0))
WAYS: dict[str, Callable[[Steps], tuple[Any, Any]]] = {
    "module": lambda net: (net, (IDS.to(PLACE),)),
    "inputs on the processor": lambda net: (net, (IDS,)),
    "arrays": lambda net: (net, (IDS.numpy(),)),
    "by name": lambda net: (net, {"ids": IDS.to(PLACE)}),
    "several examples": lambda net: (net, [(IDS.to(PLACE),), (IDS[:, :3].to(PLACE),)]),
    "method": lambda net: (net.encode, (IDS.to(PLACE),)),
    "partial": lambda net: (functools.partial(net.encode), (IDS.to(PLACE),)),
    "in parallel": lambda net: (nn.DataParallel(net), (IDS.to(PLACE),)),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_copy_on_the_processor_is_converted_and_proved(way: str) -> None:
    torch.manual_seed(0)
    net = Steps().eval()
    with torch.no_grad():  # before it moves: the lazy device has no LSTM
        expected = net.encode(IDS) if way in ("method", "partial") else net(IDS)
    model, inputs = WAYS[way](net.on(PLACE))
    converted = onnxport.convert(model, inputs=inputs)
    assert converted.report.verdict == "passed"
    assert [note for note in converted.report.notes if "lazy:0: a copy on the processor" in note]
    # Ids beyond the table were tried, which end a GPU's process.
    assert [item for item in converted.report.sets if item.name != "given"]
    everything = {*net.parameters(), *net.buffers(), net.shift}
    assert {tensor.device.type for tensor in everything} == {PLACE}
    assert net.place.type == PLACE
    np.testing.assert_allclose(converted(IDS.numpy()), expected.numpy(), rtol=1e-4, atol=1e-6)


def test_a_report_says_where_the_source_ran() -> None:
    net = nn.Sequential(nn.Linear(4, 3), nn.Tanh()).eval().to(PLACE)
    x = torch.rand(2, 4).to(PLACE)
    report = onnxport.validate(net, onnxport.convert(net, inputs=(x,)), inputs=(x,))
    assert report.passed
    assert sum("a copy on the processor" in note for note in report.notes) == 1


def test_a_device_that_the_code_names_is_told() -> None:
    class Named(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) + torch.ones(3, device=PLACE)

    net = Named(4, 3).eval().to(PLACE)
    with pytest.raises(InvalidInputError, match=r"test_devices.py:\d+(.|\n)*device=x.device"):
        onnxport.convert(net, inputs=(torch.rand(2, 4).to(PLACE),))
