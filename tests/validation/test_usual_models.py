"""Models as people write them, right conversions of which a proof must not call wrong."""

import numpy as np
import pytest
import torch
from torch import nn

import onnxport

RNG = torch.Generator().manual_seed(0)
X = torch.randn(5, 4, generator=RNG)


class Model(nn.Module):
    """A linear layer of one unit, and a function of what it gives."""

    def __init__(self, function):
        super().__init__()
        self.layer = nn.Linear(4, 1)
        with torch.no_grad():
            self.layer.weight.copy_(torch.tensor([[1.0, -2.0, 0.5, 3.0]]))
            self.layer.bias.fill_(-3.0)
        self.function = function

    def forward(self, x):
        return self.function(self.layer(x), x)


MODELS = {
    "squeeze": lambda y, x: y.squeeze(),
    "squeeze of the batch": lambda y, x: (x.squeeze(), y.squeeze(-1)),
    "chunks of the batch": lambda y, x: x.chunk(2),
    "one probability": lambda y, x: torch.sigmoid(3 * y),
    "one probability of each row": lambda y, x: torch.sigmoid(y - 6).squeeze(-1),
    "places of the largest": lambda y, x: torch.topk(x, 3),
    "places of the largest of many zeros": lambda y, x: torch.topk(torch.relu(x - 1), 3),
    "the second smallest": lambda y, x: torch.kthvalue(x, 2),
    "quantiles": lambda y, x: (torch.quantile(x, 0.3), torch.quantile(x, torch.tensor([0.1, 0.9]), dim=1)),
    "a matrix of a vector": lambda y, x: torch.diag(y.squeeze(-1)),
}


@pytest.mark.parametrize("name", MODELS)
def test_its_conversion_passes(name):
    report = onnxport.convert(Model(MODELS[name]).eval(), inputs=(X,)).report
    assert report.verdict == "passed"
    assert any(item.name.startswith("many rows") for item in report.sets)  # the batch is free


def test_values_are_compared_where_an_axis_is_dropped():
    model, other = Model(MODELS["squeeze"]).eval(), Model(lambda y, x: y.squeeze() * 1.001).eval()
    report = onnxport.validate(model, onnxport.convert(other, inputs=(X,)), inputs=(X[:1],))
    assert report.verdict == "failed"


@pytest.mark.parametrize(("shift", "verdict"), [(0.0, "passed"), (2e-3, "failed")])
def test_a_small_probability_has_the_digits_of_a_part_of_1(shift, verdict):
    model = onnxport.convert(Model(lambda y, x: torch.sigmoid(y + shift)), inputs=(X,), validate=False)
    rows = torch.tensor([[-5.0, 0, 0, 0]])
    report = onnxport.validate(Model(lambda y, x: torch.sigmoid(y)), model, inputs=(rows,))
    assert report.verdict == verdict


def test_other_places_than_those_of_ties_are_wrong():
    tied = torch.tensor([[1.0, 1.0, 0.0, 0.0], [0.5, 2.0, 2.0, 2.0]])
    model = Model(lambda y, x: torch.topk(x, 2)[1])
    right = onnxport.convert(model, inputs=(X,), validate=False)
    wrong = onnxport.convert(Model(lambda y, x: torch.topk(-x, 2)[1]), inputs=(X,), validate=False)
    assert onnxport.validate(model, right, inputs=(tied,)).verdict == "passed"
    assert onnxport.validate(model, wrong, inputs=(tied,)).verdict == "failed"
    assert np.asarray(right(tied.numpy())).shape == (2, 2)


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_states_behind_closed_gates_have_the_digits_of_a_part_of_1(kind):
    torch.manual_seed(1)
    net = getattr(nn, kind)(8, 12, batch_first=True).eval()
    with torch.no_grad():
        for weight in net.parameters():
            weight *= 3
    assert onnxport.convert(net, inputs=(8 * torch.randn(3, 6, 8),)).report.verdict == "passed"
