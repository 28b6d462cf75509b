"""Models that decide on sizes which the file lets vary: the proof runs them where they decide otherwise than they were traced."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is an extra")
pytestmark = pytest.mark.pytorch

import numpy as np  # noqa: E402
import onnx  # noqa: E402
import sympy  # noqa: E402
from torch.utils._sympy.functions import Mod  # noqa: E402

import onnxport  # noqa: E402
from onnxport.errors import ValidationError  # noqa: E402
from onnxport.graph import decisions  # noqa: E402
from onnxport.tracing import pytorch_guards  # noqa: E402


class Halves(torch.nn.Module):
    def forward(self, x):
        return x * 2 if x.shape[0] % 2 else x


class Windows(torch.nn.Module):
    """Decides at every eighth length, which no usual set of sizes has."""

    def forward(self, x):
        return x.flip(1) if x.shape[1] % 8 == 0 else x


class Long(torch.nn.Module):
    def forward(self, x):
        return x.mean(1) if x.shape[1] > 10 else x.sum(1)


class Large(torch.nn.Module):
    def forward(self, x):
        return x * 2 if x.shape[0] >= 50 else x


class One(torch.nn.Module):
    def forward(self, x):
        return x * 2 if x.shape[0] == 13 else x


class Bounded(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.places = torch.nn.Parameter(torch.rand(20, 4))

    def forward(self, x):
        if x.shape[1] > 20:
            raise ValueError("at most 20")
        return x + self.places[: x.shape[1]]


class Step(torch.nn.Module):
    """A mask as long as what was read and what is new, or filled with zeros, or cut to that."""

    def forward(self, x, mask):
        every = torch.cat([x, x[:, -1:] + 1], 1)
        missing = every.shape[1] - mask.shape[1]
        if missing > 0:
            mask = torch.nn.functional.pad(mask, (0, missing))
        if mask.shape[1] > every.shape[1]:
            mask = mask[:, : every.shape[1]]
        return every.mean(1) * mask.sum(1)


LENGTH = {"x": {1: "t"}}


@pytest.mark.parametrize(
    ("net", "shape", "dynamic", "condition"),
    [
        (Halves(), (3, 2), None, "batch % 2 != 0"),
        (Halves(), (4, 2), None, "batch % 2 == 0"),
        (Windows(), (2, 6, 4), LENGTH, "t % 8 != 0"),
        (Long(), (2, 6, 4), LENGTH, "t <= 10"),
        (Large(), (2, 4), None, "batch < 50"),
        (One(), (2, 4), None, "batch != 13"),
    ],
)
def test_another_way_at_other_sizes_is_no_silent_pass(net, shape, dynamic, condition):
    x = torch.rand(shape) + 0.5
    with pytest.raises(ValidationError) as caught:
        onnxport.convert(net.eval(), inputs=(x,), dynamic_shapes=dynamic)
    assert f"holds only where {condition}" in str(caught.value)
    assert "where the source decides otherwise" in str(caught.value)


def test_a_remainder_of_no_size_of_a_run_breaks_no_condition():
    size = sympy.Symbol("t", integer=True, positive=True)
    condition = sympy.Eq(Mod(size - 6, 4), 3)  # torch's own remainder raises an AssertionError for negative numbers
    assert [pytorch_guards._holds(condition, {size: number}) for number in (3, 13, 14)] == [True, True, False]


class Table(torch.nn.Module):
    """Makes a longer table of places where its own is too short, as transformers' models with sines do."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Buffer(torch.rand(9, 4))

    def forward(self, x):
        table = self.table if x.shape[1] <= 9 else self.table.repeat(9, 1)
        return x + table[: x.shape[1]]


def test_a_file_that_does_not_run_at_other_sizes_is_no_wrong_one():
    report = onnxport.convert(Table().eval(), inputs=(torch.rand(2, 6, 4),), dynamic_shapes=LENGTH).report
    assert report.verdict == "passed", report
    assert any("holds only where t <= 9" in note for note in report.notes)
    assert any("decides otherwise" in note and "can't run" in note for note in report.notes)


class Even(torch.nn.Module):
    """Computes the same at all sizes, another way at odd ones."""

    def forward(self, x):
        return x * 2 if x.shape[0] % 2 == 0 else x + x


@pytest.mark.parametrize(("rows", "verdict"), [(-1, "passed"), (1, "failed")])
def test_a_file_that_does_not_run_at_sizes_which_its_conditions_allow_is_a_wrong_one(rows, verdict):
    net, x = Even().eval(), torch.rand(2, 4)
    model = onnxport.convert(net, inputs=(x,))
    assert model.report.verdict == "passed"
    proto = model.proto
    reshaped = [
        onnx.helper.make_node("Reshape", ["x", "two_rows"], ["side_by_side"]),  # of an even number of rows, or of two
        onnx.helper.make_node("Reshape", ["side_by_side", "four"], ["restored"]),
    ]
    for node in proto.graph.node:
        node.input[:] = ["restored" if name == "x" else name for name in node.input]
    nodes = [*reshaped, *proto.graph.node]
    del proto.graph.node[:]
    proto.graph.node.extend(nodes)
    shapes = {"two_rows": [rows, 8], "four": [-1, 4]}
    proto.graph.initializer.extend(
        onnx.numpy_helper.from_array(np.array(shape), name) for name, shape in shapes.items()
    )
    assert onnxport.validate(net, proto, inputs=(x,)).verdict == verdict


def test_the_file_keeps_the_sizes_for_a_later_proof(tmp_path):
    net, x = Large().eval(), torch.rand(2, 4) + 0.5
    model = onnxport.convert(net, inputs=(x,), validate=False)
    assert decisions.read(model.model.metadata_props) == ({"batch": 50},)
    model.save(tmp_path / "model.onnx")
    assert onnxport.validate(net, tmp_path / "model.onnx", inputs=(x,)).verdict == "failed"


STEP = {"x": {1: "past"}, "mask": {1: "total"}}


def test_two_bounds_that_leave_one_size_make_it_a_sum_of_others():
    inputs = (torch.rand(2, 5), torch.ones(2, 6))
    model = onnxport.convert(Step().eval(), inputs=inputs, dynamic_shapes=STEP)
    shapes = {value.name: [str(dim) for dim in value.shape] for value in model.model.graph.inputs}
    assert shapes == {"x": ["2", "past"], "mask": ["2", "past + 1"]}
    assert model.report.passed
    lengths = {shape[1] for item in model.report.sets for name, _, shape in item.inputs if name == "mask"}
    assert len(lengths) > 1


def test_sizes_that_the_source_refuses_itself_are_none_of_the_file():
    assert onnxport.convert(Bounded().eval(), inputs=(torch.rand(2, 6, 4),), dynamic_shapes=LENGTH).report.passed


@pytest.mark.parametrize("text", ["[", "3", '[{"t": -1}]', '[{"t": 100000000000}]', '[{"t": "9"}]', '["t"]'])
def test_sizes_that_somebody_else_wrote_are_left_alone(text):
    assert decisions.read({decisions.OTHER_SIZES: text}) == ()


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('false')",
        "d0.real < 0",
        "d0 ** 9 < 0",
        "d0 ** 4 ** 4 ** 4 < 0",
        "(" * 300 + "d0" + ")" * 300,
        "((((d0**4)**4)**4)**4)**4 < 0",
        "d0 % 0 == 1",
        "d1 < 0",
        "d0 <",
        "d0 < 0 or d0",
        "[d0 for d0 in d0]",
        "lambda: d0",
    ],
)
def test_conditions_that_somebody_else_wrote_break_nowhere(text):
    assert not decisions.Condition(text, ("batch",)).broken({"batch": 9})
    assert decisions.Condition("d0 < 9", ("batch",)).broken({"batch": 9})


class Alone(torch.nn.Module):
    def forward(self, x):
        return x * 2 if x.shape[0] == 1 else x


class AtLeastOne(torch.nn.Module):
    def forward(self, x):
        assert x.shape[0] >= 1
        return x.softmax(1)


def test_what_a_single_row_alone_takes_is_noted():
    """torch keeps no condition of it, and without a proof nothing else would show it."""
    x = torch.randn(4, 3)
    with pytest.raises(ValidationError):
        onnxport.convert(Alone(), inputs=(x,))
    (note,) = onnxport.convert(Alone(), inputs=(x,), validate=False).notes
    assert "test_branches_on_sizes.py" in note
    assert "decides otherwise where a size is 1" in note
    assert onnxport.convert(AtLeastOne(), inputs=(x,), validate=False).notes == ()


class Alike(torch.nn.Module):
    """Decides on whether two inputs are as long, which they are wherever their dimensions have one name."""

    def forward(self, x, y):
        return x + y if x.shape[0] <= y.shape[0] else x


def test_what_holds_for_dimensions_of_one_name_is_no_condition():
    inputs = (torch.rand(3, 4), torch.rand(3, 4))
    model = onnxport.convert(Alike(), inputs=inputs, dynamic_shapes={"x": {0: "rows"}, "y": {0: "rows"}})
    assert model.report.verdict == "passed"
    assert not any("holds only" in note for note in model.notes)
