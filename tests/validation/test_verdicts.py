"""Three verdicts: passed is said only where every output was compared by value; what was not is unproved, and says why."""

import warnings

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import onnxport
from onnxport.errors import InvalidInputError
from onnxport.graph.guard.bounds import current
from onnxport.validation.comparison import RANDOM, OutputReport
from onnxport.validation.records import SetReport, Side
from onnxport.validation.report import Report
from onnxport.validation.runners.onnx import OnnxRunner
from onnxport.validation.ties import choice_among_equals
from tests.validation.graphs import graph

FLOAT = ir.DataType.FLOAT


X = ("x", FLOAT, ["N", 3])
NOTHING = {
    "random": (lambda op, x: op.RandomNormalLike(x), X, "random"),
    "NaN": (lambda op, x: op.Sqrt(op.Sub(op.Neg(op.Abs(x)), np.float32(1))), X, "NaN"),
    "no elements": (lambda op, x: op.Slice(x, [0], [0], [1]), X, "no elements"),
    "cannot run": (lambda op, x: op.Reshape(x, [7]), ("x", FLOAT, [2, 3]), "can't run"),
}


@pytest.mark.parametrize("what", NOTHING)
def test_what_was_not_compared_is_unproved(what, tmp_path):
    write, x, words = NOTHING[what]
    model = graph(write, x)
    report = onnxport.validate(model, model)
    assert report.verdict == "unproved"
    assert not report.passed
    assert words in str(report)
    assert str(report).startswith("UNPROVED")
    assert report.to_dict()["verdict"] == "unproved"
    assert report.to_dict()["passed"] is False
    report.to_html(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert '<span class="chip unproved">unproved</span>' in page
    assert 'class="chip pass"' not in page


def test_one_output_that_was_not_compared_makes_the_whole_unproved():
    write = lambda op, x: (op.RandomNormalLike(x), op.Neg(x))  # noqa: E731
    model = graph(write, X, names=("noise", "plain"))
    report = onnxport.validate(model, model)
    assert report.verdict == "unproved"
    assert [name for name, _ in report.unproved] == ["noise"]


def test_chance_proves_no_random_output():
    """A set of one row, on which two draws of a mask agree, stands beside one on which they do not."""
    agreed, drawn = OutputReport("noise", "pass"), OutputReport("noise", "unproved", RANDOM)
    sets = tuple(SetReport(name, (), (output,), 0.0, 0.0) for name, output in (("given", drawn), ("one row", agreed)))
    report = Report(Side("pytorch", "Net"), Side("onnx", "net"), sets)
    assert report.verdict == "unproved"
    assert report.unproved == (("noise", RANDOM),)


def test_an_output_is_proved_by_the_set_that_exercises_it():
    """All NaN on the given inputs, numbers on others."""
    model = graph(lambda op, x: op.Sqrt(x), X)
    report = onnxport.validate(model, model, inputs=(np.full((2, 3), -1.0, np.float32),))
    assert report.sets[0].outputs[0].verdict == "unproved"
    mixed = onnxport.validate(model, model, inputs=(np.asarray([[-1.0, 4, 9]], np.float32),))
    assert mixed.passed


def test_drawn_inputs_are_those_on_which_an_output_has_numbers():
    """0 / 0 where a size is 1, as steps between aligned corners are: other sizes are drawn."""

    def write(op, size):
        last = op.Cast(op.Sub(size, np.int64(1)), to=FLOAT)
        return op.Mul(op.Div(op.Sub(last, last), last), op.Cast(op.Shape(op.ConstantOfShape(size)), to=FLOAT))

    model = graph(write, ("size", ir.DataType.INT64, [1]))
    for seed in range(5):
        report = onnxport.validate(model, model, seed=seed)
        assert report.passed, report


@pytest.mark.pytorch
def test_complex_numbers_are_not_compared_where_they_are_not_finite():
    """PyTorch makes a real number's imaginary part NaN beside NaN or not as its kernels have it."""
    import torch

    class Turned(torch.nn.Module):
        def forward(self, x):
            return torch.view_as_real(torch.view_as_complex(x) * 2j + 1)

    report = onnxport.convert(Turned(), inputs=(torch.randn(3, 4, 2),), to="onnx").report
    assert report.passed
    assert not any(item.name.startswith("not finite") for item in report.sets)


@pytest.mark.pytorch
def test_dropout_in_training_mode_is_unproved():
    import torch

    net = torch.nn.Dropout(0.5).train()
    converted = graph(lambda op, x: op.Dropout(x, np.float32(0.5), op.const(np.asarray(True))), X)
    report = onnxport.validate(net, converted, inputs=(torch.randn(4, 3),))
    assert report.verdict == "unproved"
    assert "random" in str(report)
    # a converted model that draws where its source does not is wrong
    assert onnxport.validate(net.eval(), converted, inputs=(torch.randn(4, 3),)).verdict == "failed"


def softplus(body):
    """Softplus has no kernel for float64 in onnxruntime."""
    return onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["": 21]> g (double[N, 3] x) => (double[N, 3] output) {{ {body} }}'
    )


DIRECT = "output = Softplus(x)"
COMPOSED = "one = Constant<value = double {1.0}>() e = Exp(x) s = Add(e, one) output = Log(s)"


def test_a_result_that_its_runtime_can_not_load_is_unproved():
    report = onnxport.validate(softplus(COMPOSED), softplus(DIRECT))
    assert report.verdict == "unproved"
    assert "onnxruntime can't load the model" in str(report)


def test_a_source_that_only_the_reference_runs_is_told_of():
    report = onnxport.validate(softplus(DIRECT), softplus(COMPOSED))
    assert report.passed, report
    assert "the source ran in onnx.reference, not in onnxruntime" in str(report)


@pytest.mark.pytorch
def test_a_conversion_that_is_unproved_warns_and_returns():
    import torch

    class Nothing(torch.nn.Module):
        def forward(self, x):
            return torch.sqrt(-x * x - 1)

    with pytest.warns(onnxport.UnprovedWarning, match="output: NaN on both sides") as caught:
        result = onnxport.convert(Nothing(), inputs=(torch.randn(2, 3),))
    assert caught[0].filename == __file__
    assert result.report.verdict == "unproved"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert onnxport.convert(torch.nn.ReLU(), inputs=(torch.randn(2, 3),)).report.verdict == "passed"


@pytest.mark.pytorch
def test_a_random_output_beside_a_proved_one_is_unproved():
    import torch

    class Sampled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body = torch.nn.Linear(8, 4)

        def forward(self, x):
            mean = self.body(x)
            return mean, mean + torch.randn_like(mean)

    with pytest.warns(onnxport.UnprovedWarning, match="output_1: random"):
        report = onnxport.convert(Sampled().eval(), inputs=(torch.randn(3, 8),)).report
    # NaN and infinities among the inputs make the random output equal by value.
    assert any(item.name.startswith("not finite") for item in report.sets)
    assert [name for name, _ in report.unproved] == ["output_1"]


def cancelling(write, folder, name):
    """A file of y = write(op, x): what a large number loses shows beside a graph without it."""
    path = folder / name
    graph(write, X).save(path)
    return path


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, "unproved"), (1.01, "failed")])
def test_what_only_stopped_runs_could_tell_is_neither_passed_nor_failed(factor, verdict, tmp_path, monkeypatch):
    source = cancelling(lambda op, x: op.Sub(op.Add(x, np.float32(100)), np.float32(100)), tmp_path, "source.onnx")
    result = cancelling(lambda op, x: op.Mul(x, np.float32(factor)), tmp_path, "result.onnx")
    if factor == 1.0:
        assert onnxport.validate(source, result).verdict == "passed"

    def stopped(self, *args):
        current().stopped = "running the model takes too much"
        raise InvalidInputError(current().stopped)

    monkeypatch.setattr(OnnxRunner, "run_float64", lambda self, leaves: None)
    monkeypatch.setattr(OnnxRunner, "run_moved", stopped)
    report = onnxport.validate(source, result)
    assert report.verdict == verdict, str(report)
    assert ("not decided" in str(report)) == (verdict == "unproved")


@pytest.mark.parametrize(("scores", "tied"), [([3, 1, 2, 2, 0], True), ([1, 5, 4, 3, 1], False)])
def test_a_choice_among_equal_elements_is_noted(scores, tied):
    def write(op, x):
        return op.Unsqueeze(op.TopK(x, op.const([2]), outputs=2)[1], op.axes(-1))

    model = graph(write, ("x", FLOAT, [5])).model
    (reader,) = [node for node in model.graph if node.op_type == "Unsqueeze"]
    remark = choice_among_equals(model, reader.name, [np.array(scores, np.float32)])
    assert ("chooses among equal elements" in remark) == tied


@pytest.mark.pytorch
@pytest.mark.parametrize("classes", [1, 2])
def test_a_set_of_equal_scores_is_left_out_by_name(classes):
    """The numbers at edges come to 5 or -5 here, and PyTorch's topk gives any of these first."""
    import torch

    class Best(torch.nn.Module):
        def __init__(self, factor=1.0):
            super().__init__()
            self.factor = factor

        def forward(self, x):
            return self.factor * x.gather(1, x.clamp(-5, 5).topk(3, 1).indices // classes)

    x = torch.randn(2, 40, generator=torch.Generator().manual_seed(0))
    report = onnxport.convert(Best(), inputs=(x,)).report
    assert report.passed
    assert any("left out, TopK" in note for note in report.notes), report
    other = onnxport.convert(Best(1.01), inputs=(x,), validate=False)
    assert onnxport.validate(Best(), other, inputs=(x,)).verdict == "failed"


@pytest.mark.pytorch
def test_the_likeliest_class_of_scores_that_are_all_zero_is_open():
    """PyTorch's products of sigmoids are 1e-30 at numbers far away, onnxruntime's are 0; a place of a NaN comes before."""
    import torch

    class Scores(torch.nn.Module):
        def forward(self, x):
            return (x[..., 1:].sigmoid() * x[..., :1].sigmoid()).max(-1)

    x = torch.randn(2, 60, 5, generator=torch.Generator().manual_seed(0))
    assert onnxport.convert(Scores(), inputs=(x,)).report.passed
