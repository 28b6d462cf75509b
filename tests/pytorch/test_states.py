"""Models that keep a state between calls: refused by name, or with the state as inputs and outputs."""

import warnings

import numpy as np
import onnxruntime
import pytest

import onnxport
from onnxport.errors import InvalidInputError, UnsupportedOperator

torch = pytest.importorskip("torch", reason="PyTorch is an extra")
pytestmark = pytest.mark.pytorch


class Encoder(torch.nn.Module):
    """A streaming encoder: one buffer is replaced, one written to, one counts, one is only read."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv1d(4, 8, 3)
        self.gru = torch.nn.GRU(8, 8, batch_first=True)
        self.register_buffer("context", torch.zeros(1, 4, 2))
        self.register_buffer("scale", torch.full((8,), 0.5))
        self.register_buffer("hidden", torch.zeros(1, 1, 8))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64), persistent=False)

    def forward(self, x):
        joined = torch.cat([self.context, x], -1)
        self.context = joined[..., -2:]
        features, hidden = self.gru(torch.relu(self.conv(joined)).transpose(1, 2), self.hidden)
        self.hidden.copy_(hidden)
        self.steps += 1
        return features * self.scale, self.steps * 2


class Attention(torch.nn.Module):
    """A cache of fixed length in a child, written to at the positions given."""

    def __init__(self):
        super().__init__()
        self.query, self.both = torch.nn.Linear(8, 8), torch.nn.Linear(8, 16)
        self.cache = torch.nn.Module()
        self.cache.register_buffer("key", torch.zeros(2, 16, 8))
        self.cache.register_buffer("value", torch.zeros(2, 16, 8))

    def forward(self, x, positions):
        self.cache.key[:, positions], self.cache.value[:, positions] = self.both(x).chunk(2, -1)
        return {"y": torch.nn.functional.scaled_dot_product_attention(self.query(x), self.cache.key, self.cache.value)}


def positions():
    return torch.randn(2, 3, 8), torch.randperm(16)[:3]


CASES = {
    "encoder": (Encoder, lambda: (torch.randn(1, 4, 10),), ["context", "hidden", "steps"], ["output_0", "output_1"]),
    "attention": (Attention, positions, ["cache.key", "cache.value"], ["y"]),
}


@pytest.mark.parametrize("name", CASES)
def test_the_state_goes_round(name, tmp_path):
    """Four calls of the file, the state passed on, against four calls of the user's own module."""
    kind, draw, states, outputs = CASES[name]
    torch.manual_seed(0)
    model = kind().eval()
    before = {key: tensor.clone() for key, tensor in model.named_buffers()}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        onnxport.convert(model, inputs=draw(), states="io", output=tmp_path / "m.onnx")
    assert type(model) is kind
    assert list(dict(model.named_buffers())) == list(before)
    assert all(torch.equal(tensor, before[key]) for key, tensor in model.named_buffers())

    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    inputs = [item.name for item in session.get_inputs()]
    assert [item for item in inputs if item.startswith("past.")] == [f"past.{state}" for state in states]
    names = [item.name for item in session.get_outputs()]
    assert names == [*outputs, *(f"present.{state}" for state in states)]
    held = {f"past.{state}": before[state].numpy() for state in states}
    for _ in range(4):
        args = draw()
        with torch.no_grad():
            expected = model(*args)
        free = [item for item in inputs if item not in held]
        fed = dict(zip(free, (item.numpy() for item in args), strict=True))
        results = dict(zip(names, session.run(None, {**fed, **held}), strict=True))
        held = {f"past.{state}": results[f"present.{state}"] for state in states}
        for output, value in zip(outputs, expected.values() if isinstance(expected, dict) else expected, strict=True):
            np.testing.assert_allclose(results[output], value.numpy(), rtol=1e-5, atol=1e-6)


def test_without_the_option_the_buffers_are_named():
    with pytest.raises(UnsupportedOperator, match=r"buffer 'hidden'.*states=\"io\""):
        onnxport.convert(Encoder().eval(), inputs=(torch.randn(1, 4, 10),))


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (torch.nn.Linear(4, 2), "updates none of its buffers"),
        (torch.relu, "is for a torch.nn.Module"),
    ],
)
def test_where_there_is_no_state_the_option_is_refused(model, words):
    with pytest.raises(InvalidInputError, match=words):
        onnxport.convert(model, inputs=(torch.randn(2, 4),), states="io")


def test_an_output_of_the_states_name_is_refused_and_not_lost():
    class Named(Attention):
        def forward(self, x, positions):
            return {**super().forward(x, positions), "past": x}

    with pytest.raises(InvalidInputError, match="'past', an output of the model already"):
        onnxport.convert(Named().eval(), inputs=positions(), states="io")


def test_another_value_of_the_option_is_refused():
    with pytest.raises(InvalidInputError, match="'io', which makes"):
        onnxport.convert(Encoder().eval(), inputs=(torch.randn(1, 4, 10),), states="keep")


class Scratch(torch.nn.Module):
    """A buffer that is written to as a whole before it is read, in part of it, or after it is read."""

    def __init__(self, order):
        super().__init__()
        self.order = order
        self.register_buffer("scratch", torch.zeros(3))

    def forward(self, x):
        before = self.scratch.sum() if self.order == "read" else 0.0
        if self.order == "part":
            self.scratch[:2].copy_(x.mean(0)[:2])
        else:
            self.scratch.copy_(x.mean(0))
        return x * self.scratch + before


@pytest.mark.parametrize("order", ["whole", "part", "read"])
def test_a_buffer_that_is_written_before_it_is_read_is_no_state(order):
    x = torch.randn(2, 3)
    if order == "whole":
        assert onnxport.convert(Scratch(order).eval(), inputs=(x,)).report.verdict == "passed"
        return
    with pytest.raises(UnsupportedOperator, match="buffer 'scratch'"):
        onnxport.convert(Scratch(order).eval(), inputs=(x,))
