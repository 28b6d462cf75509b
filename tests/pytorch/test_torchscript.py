"""Scripted and traced modules: their own names, weights, defaults and dimensions, proved against TorchScript itself."""

import pytest

import onnxport
from onnxport.errors import InvalidModelError, TracingError

torch = pytest.importorskip("torch", reason="PyTorch is an extra")
pytestmark = [pytest.mark.pytorch, pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")]


class Head(torch.nn.Module):
    """A default, a branch on it, a branch on a value, and results by name."""

    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 3)
        self.register_buffer("scale", torch.tensor([0.5, 2.0, 3.0]))

    def forward(self, steps, scaled: bool = True):
        y = self.fc(steps)
        if scaled:
            y = y * self.scale
        if bool(steps.sum() > 0):
            y = y + 1
        return y, {"total": y.sum(-1)}


class Pooled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(1, 4, 3)
        self.norm = torch.nn.BatchNorm2d(4)

    def forward(self, image):
        return torch.relu(self.norm(self.conv(image))).mean((2, 3))


def script(model, inputs):
    return torch.jit.script(model)


def trace(model, inputs):
    return torch.jit.trace(model, inputs)


def loaded(model, inputs):
    torch.jit.script(model).save("net.pt")
    return torch.jit.load("net.pt")


@pytest.mark.parametrize("made", [script, trace, loaded])
def test_a_module_keeps_its_names_and_weights(made, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    model, image = Pooled().eval(), torch.randn(2, 1, 9, 9)
    shapes = {"image": {0: "n", 2: "h", 3: "w"}}
    result = onnxport.convert(made(model, image), inputs=(image,), dynamic_shapes=shapes)
    assert result.report.passed
    assert "pytorch Pooled" in str(result.report).splitlines()[0]
    assert result.input_names == ["image"]
    assert [str(size) for size in result.model.graph.inputs[0].shape] == ["n", "1", "h", "w"]
    assert {"conv.weight", "norm.running_mean"} <= set(result.model.graph.initializers)
    other = torch.randn(3, 1, 6, 7)
    torch.testing.assert_close(torch.from_numpy(result(other.numpy())), model(other))


def test_defaults_and_branches_are_the_program_s():
    torch.manual_seed(0)
    model, steps = Head().eval(), torch.randn(2, 4)
    scripted = torch.jit.script(model)
    result = onnxport.convert(scripted, inputs={"steps": steps})
    assert result.output_names == ["output_0", "output_1.total"]
    for other in (torch.ones(5, 4), -torch.ones(5, 4)):  # each way
        y, totals = model(other)
        for value, expected in zip(result(other.numpy()), (y, totals["total"]), strict=True):
            torch.testing.assert_close(torch.from_numpy(value), expected)


def test_a_module_is_left_as_it_was():
    scripted = torch.jit.script(Head().eval())
    before = str(scripted.graph)
    onnxport.convert(scripted, inputs=(torch.randn(2, 4),))
    assert str(scripted.graph) == before


class Running(torch.nn.Module):
    def forward(self, x, count):
        for i in range(int(count)):
            x = x + i
        return x


REFUSED = [
    (Running, (torch.ones(2), torch.tensor(3)), "the TorchScript module Running as plain operators"),
    (lambda: torch.nn.LSTM(3, 3), (torch.randn(2, 1, 3),), "the TorchScript module LSTM has no forward of one form"),
]


@pytest.mark.parametrize(("made", "inputs", "message"), REFUSED, ids=["loop", "overloads"])
def test_what_has_no_plain_form_is_refused_with_the_way_out(made, inputs, message):
    with pytest.raises(TracingError, match=message) as error:
        onnxport.convert(torch.jit.script(made().eval()), inputs=inputs)
    assert str(error.value).endswith("Pass the module that it was scripted from.")


def test_inputs_that_do_not_fit_are_answered_by_name():
    with pytest.raises(onnxport.OnnxportError, match="missing a required argument: 'image'; given: 'picture'"):
        onnxport.convert(torch.jit.script(Pooled().eval()), inputs={"picture": torch.ones(1, 1, 5, 5)})


def test_a_file_is_answered_with_how_it_converts(tmp_path):
    torch.jit.script(Pooled().eval()).save(tmp_path / "net.pt")
    with pytest.raises(InvalidModelError, match=r"is a TorchScript program.*torch\.jit\.load\('net\.pt'\), inputs="):
        onnxport.convert(tmp_path / "net.pt")
    torch.save(Pooled().state_dict(), tmp_path / "weights.pt")
    with pytest.raises(InvalidModelError, match="holds weights or a pickled module"):
        onnxport.convert(tmp_path / "weights.pt")
