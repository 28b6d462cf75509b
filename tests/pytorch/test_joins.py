"""Branches in Python on values whose ways come together: the graph computes both and selects, right whichever way is taken."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is an extra")
pytestmark = pytest.mark.pytorch

import onnxport  # noqa: E402
from onnxport.errors import TracingError  # noqa: E402

_SAID = "asks for a tensor's value: the graph computes both ways and selects"


class Clamped(torch.nn.Module):
    """Layers that keep float16 finite, as those of BART do: a value between the bound and the greatest number stays as it is."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(4))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
            if not torch.isfinite(x).all():
                bound = torch.finfo(x.dtype).max / 2
                x = torch.clamp(x, min=-bound, max=bound)
        return x


class TwoSided(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x):
        y = self.layer(x) * 2 if x.sum() > 0 else x.exp()
        return y - 1, x


class Crossed(torch.nn.Module):
    """The second question comes before the first one's value is used."""

    def forward(self, x):
        a = x * 2 if x.max() > 1 else x * 3
        b = x.sin() if x.min() < 0 else x.cos()
        return a + b


class Item(torch.nn.Module):
    def forward(self, x):
        if (x > 2).any().item():
            x = x / x.abs().max()
        return x + 1


class Loop(torch.nn.Module):
    def forward(self, x):
        while x.sum() > 0:
            x = x - 1
        return x


_X = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
_OTHERS = (_X, _X.abs(), -_X.abs(), -5 - _X.abs(), 1e5 * _X, 1e20 * _X, _X * 0)


@pytest.mark.parametrize("kind", [TwoSided, Crossed, Item])
def test_both_ways_are_right(kind):
    torch.manual_seed(0)
    model = kind().eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(3)
    made = onnxport.convert(model, inputs=(_X,))
    assert made.report.passed
    assert any(_SAID in note for note in made.report.notes)
    assert "holds only where" not in str(made.report.notes)  # any number of rows
    for x in _OTHERS:
        wanted, got = model(x), made(x.numpy())
        pairs = zip(wanted, got, strict=True) if isinstance(wanted, tuple) else [(wanted, got)]
        for one, other in pairs:
            torch.testing.assert_close(torch.as_tensor(other), one, rtol=1e-5, atol=1e-5, equal_nan=True)


def test_float16_beyond_the_bound():
    """Where all is finite nothing is clamped, also what lies above the bound."""
    model = Clamped().half().eval()
    with torch.no_grad():
        for layer in model.layers:
            layer.weight.copy_(torch.eye(4))
            layer.bias.zero_()
    made = onnxport.convert(model, inputs=(_X.half(),))
    for value in (60000.0, 40000.0, float("inf")):
        x = torch.tensor([[value, 1.0, -2.0, 3.0]], dtype=torch.float16)
        torch.testing.assert_close(torch.as_tensor(made(x.numpy())), model(x), rtol=0, atol=0, equal_nan=True)


def test_a_loop_that_ends_by_a_value_is_refused():
    with pytest.raises(TracingError):
        onnxport.convert(Loop().eval(), inputs=(_X,))
