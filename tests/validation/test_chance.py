"""Random outputs: proved by value where some inputs leave nothing to chance and the means agree elsewhere, else unproved."""

import itertools

import numpy as np
import onnx.parser
import pytest

import onnxport
from onnxport.validation.input_sets import ledger

HEAD = '<ir_version: 10, opset_import: ["" : 15]> g (float[N, 5] x) => (float[N, 5] y) '
DRAW = "r = RandomUniformLike(x) b = Less(r, x) y = Cast <to = 1> (b)"
WRONG = {
    "the other way round": "r = RandomUniformLike(x) b = Less(x, r) y = Cast <to = 1> (b)",
    "a wrong probability in between": "p = Mul(x, x) r = RandomUniformLike(x) b = Less(r, p) y = Cast <to = 1> (b)",
    "a probability of its own": (
        "h = Constant <value_float = 0.5> () r = RandomUniformLike(x) b = Less(r, h) y = Cast <to = 1> (b)"
    ),
    "nothing random": "h = Constant <value_float = 0.5> () b = Less(h, x) y = Cast <to = 1> (b)",
}
OTHERS = (
    "s = Sigmoid(x) r = RandomUniformLike(x) b = Less(r, s) y = Cast <to = 1> (b)",
    "r = RandomNormalLike(x) b = Less(r, x) y = Cast <to = 1> (b)",
    "r = RandomUniformLike(x) y = Add(r, x)",
)


def model(body):
    return onnx.parser.parse_model(HEAD + "{ " + body + " }")


@pytest.mark.parametrize("body", [DRAW, "r = RandomUniformLike(x) b = Greater(x, r) y = Cast <to = 1> (b)"])
def test_a_draw_by_a_probability_that_is_an_input_is_proved(body):
    report = onnxport.validate(model(DRAW), model(body))
    assert report.verdict == "passed", report
    assert [item.name for item in report.sets if item.certain]


@pytest.mark.pytorch
def test_a_draw_by_a_seed_is_proved():
    """onnxruntime goes on with a sequence from run to run, a module begins it anew in each call."""
    source = model("r = RandomUniformLike <seed = 3.0> (x) b = Less(r, x) y = Cast <to = 1> (b)")
    assert onnxport.validate(source, onnxport.convert(source, to="pytorch")).verdict == "passed"


@pytest.mark.parametrize("what", WRONG)
def test_a_draw_by_another_probability_fails(what):
    assert onnxport.validate(model(DRAW), model(WRONG[what])).verdict == "failed"


@pytest.mark.parametrize("body", OTHERS)
def test_a_draw_by_anything_else_is_unproved(body):
    assert onnxport.validate(model(body), model(body)).verdict == "unproved"


def test_a_shape_that_is_drawn_is_unproved():
    head = '<ir_version: 10, opset_import: ["" : 15]> g (float[N, 5] x) => (int64[2, M] y) '
    body = (
        "t = Constant <value_ints = [1, 80]> () w = Tile(x, t) r = RandomUniformLike(w) b = Less(r, w) y = NonZero(b)"
    )
    drawn = onnx.parser.parse_model(head + "{ " + body + " }")
    report = onnxport.validate(drawn, drawn, inputs={"x": np.full((3, 5), 0.5, np.float32)})
    assert report.verdict == "unproved", report
    fixed = onnx.parser.parse_model(head + "{ b = Less(x, x) y = NonZero(b) }")
    other = onnx.parser.parse_model(head + "{ b = Equal(x, x) y = NonZero(b) }")
    assert onnxport.validate(fixed, other).verdict == "failed"


@pytest.mark.pytorch
@pytest.mark.parametrize(("every", "verdict"), [(2, "unproved"), (1, "failed")])
def test_a_shape_that_the_converted_model_gives_at_another_time_is_unproved(every, verdict):
    """As with a probability near 1: the source draws the usual number each time, the converted model another at first."""
    torch = pytest.importorskip("torch", reason="PyTorch is an extra")
    runs = itertools.count()

    class Longer(torch.nn.Module):
        def forward(self, x):
            return x if next(runs) % every else torch.cat((x, x))

    assert onnxport.validate(model("y = Identity(x)"), Longer()).verdict == verdict


@pytest.mark.pytorch
def test_a_mask_drawn_in_pytorch_is_proved():
    torch = pytest.importorskip("torch", reason="PyTorch is an extra")

    class Mask(torch.nn.Module):
        def forward(self, p):
            return torch.bernoulli(p)

    assert onnxport.convert(Mask(), inputs=(torch.rand(3, 4),)).report.verdict == "passed"


@pytest.mark.pytorch
def test_a_draw_that_gives_the_same_a_few_times_is_proved():
    """As chance has it now and then: here the source's first sixteen runs are equal, the converted model's are not."""
    torch = pytest.importorskip("torch", reason="PyTorch is an extra")
    runs = itertools.count()

    class Mask(torch.nn.Module):
        def forward(self, p):
            return torch.bernoulli(p, generator=torch.Generator().manual_seed(max(next(runs) - 15, 0)))

    given = torch.tensor([[0.0, 1.0, 0.5, 0.1, 0.9]])
    assert onnxport.validate(Mask(), model(DRAW), inputs=(given,)).verdict == "passed"


@pytest.mark.pytorch
def test_a_source_that_draws_nothing_is_told_from_one_that_seldom_does():
    torch = pytest.importorskip("torch", reason="PyTorch is an extra")

    class Fixed(torch.nn.Module):
        def forward(self, x):
            return torch.where(x > 0.5, torch.ones_like(x), torch.zeros_like(x))

    assert onnxport.validate(Fixed(), model(DRAW), inputs=(torch.rand(3, 5),)).verdict == "failed"


@pytest.mark.pytorch
def test_bernoulli_of_a_file_is_judged_by_the_specification():
    """onnxruntime runs the body of its schema, which gives 1 with probability 1 - p (onnx 1.23, onnxruntime 1.31)."""
    torch = pytest.importorskip("torch", reason="PyTorch is an extra")
    source = model("y = Bernoulli(x)")
    net = onnxport.convert(source, to="pytorch")
    assert net(torch.full((1000, 5), 0.9)).mean() > 0.8
    report = onnxport.validate(source, net)
    assert report.verdict == "passed"
    assert "1 - p" in str(report)


@pytest.mark.pytorch
def test_a_slow_machine_proves_a_draw_too(monkeypatch):
    """The first set's price holds 128 runs of the draw: times 20 it is more than a file's runs may take."""
    pytest.importorskip("torch", reason="PyTorch is an extra")
    monkeypatch.setattr(ledger, "_QUICK", 0.0)
    monkeypatch.setattr(ledger, "_JUDGEMENT", 1e9)
    report = onnxport.convert(model("y = Bernoulli(x)"), to="pytorch").onnxport_report
    assert report.verdict == "passed", report
