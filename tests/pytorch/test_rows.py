"""Models that go through their batch in Python: the file takes any batch and runs the model for each row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is an extra")

import onnxport  # noqa: E402
from onnxport.graph.runtime import Session  # noqa: E402

pytestmark = pytest.mark.pytorch


class Rowwise(torch.nn.Module):
    """Each row through a layer in a Python loop; the rows' results stacked, and one behind another in a single row."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 3)

    def forward(self, x: Any, scale: Any) -> Any:
        rows = [self.layer(x[i]) * scale for i in range(x.shape[0])]
        return torch.stack(rows), torch.cat(rows, 0)[None]


class Recurrent(torch.nn.Module):
    """Each row through a recurrent network of its own call."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(10, 3)
        self.lstm = torch.nn.LSTM(3, 4, num_layers=2, batch_first=True, bidirectional=True)

    def forward(self, x: Any) -> Any:
        return torch.cat([self.lstm(self.table(row[None]))[0] for row in x.unbind(0)])


class Centred(torch.nn.Module):
    """Rows in a Python loop, from which the batch's mean is taken: they do not stand alone."""

    def forward(self, x: Any) -> Any:
        mean = x.mean(0)
        return torch.stack([x[i] - mean for i in range(x.shape[0])])


class Selecting(torch.nn.Module):
    """Of each row the numbers that are positive: a row's result has a size of its own."""

    def forward(self, x: Any) -> Any:
        rows = [row[row > 0] for row in x]
        return torch.cat(rows), torch.cat([row[:, None] * torch.ones(2) for row in rows])


def _run(model: onnxport.OnnxModel, **inputs: Any) -> list[Any]:
    return list(Session(model.proto).run({name: value.numpy() for name, value in inputs.items()}))


@pytest.mark.parametrize("rows", [1, 2])
def test_a_loop_over_the_batch_gives_a_file_for_any_batch(rows: int) -> None:
    torch.manual_seed(0)
    model = Rowwise().eval()
    converted = onnxport.convert(model, inputs=(torch.randn(rows, 5, 4), torch.randn(3)))
    assert converted.report.verdict == "passed"
    assert any("row by row" in note for note in converted.report.notes)
    assert [list(map(str, value.shape)) for value in converted.model.graph.inputs] == [["batch", "5", "4"], ["3"]]
    for count in (1, 2, 7):
        x, scale = torch.randn(count, 5, 4), torch.randn(3)
        for found, wanted in zip(_run(converted, x=x, scale=scale), model(x, scale), strict=True):
            np.testing.assert_allclose(found, wanted.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_other_dimensions_vary_beside_the_batch() -> None:
    model = Rowwise().eval()
    shapes = {"x": {0: "batch", 1: "length"}}
    converted = onnxport.convert(model, inputs=(torch.randn(2, 5, 4), torch.randn(3)), dynamic_shapes=shapes)
    x, scale = torch.randn(4, 9, 4), torch.randn(3)
    for found, wanted in zip(_run(converted, x=x, scale=scale), model(x, scale), strict=True):
        np.testing.assert_allclose(found, wanted.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_what_every_row_shares_stands_outside_of_the_loop() -> None:
    model = Recurrent().eval()
    converted = onnxport.convert(model, inputs=(torch.randint(0, 10, (3, 5)),))
    assert converted.report.verdict == "passed"
    scan = next(node for node in converted.model.graph if node.op_type == "Scan")
    within = {node.op_type for node in scan.attributes["body"].as_graph()}
    assert "LSTM" in within
    assert "Split" not in within, "the order of the gates does not depend on the row"


def test_rows_that_do_not_stand_alone_keep_the_size_of_the_example() -> None:
    x = torch.tensor([[1.0, -2.0, 3.0], [4.0, 5.0, -6.0]])
    converted = onnxport.convert(Centred(), inputs=(x,))
    assert converted.model.graph.inputs[0].shape == (2, 3)
    assert not any("row by row" in note for note in converted.report.notes)


class Filled(torch.nn.Module):
    """Of each row the numbers that are positive, and their places, filled up to as many as the row has that has most."""

    def forward(self, x: Any) -> Any:
        rows = [row[row > 0] for row in x]
        most = max(len(row) for row in rows)
        numbers, mask = torch.zeros(len(rows), most), torch.zeros(len(rows), most, dtype=torch.bool)
        places = torch.full((len(rows), 1, most), -1)
        pairs = torch.full((len(rows), most, most), 0.5)
        for i, row in enumerate(rows):
            numbers[i, : len(row)] = row * 2
            mask[i, : len(row)] = True
            places[i, 0, : len(row)] = (x[i] > 0).nonzero().flatten()
            pairs[i, : len(row), : len(row)] = row[:, None] - row
        return numbers, mask, places, pairs, x.cumsum(1)


class Repeated(Filled):
    """Filled up with a number of the row's own."""

    def forward(self, x: Any) -> Any:
        numbers, mask, *_ = super().forward(x)
        return torch.where(mask, numbers, x[:, :1])


@pytest.mark.parametrize(("model", "outputs"), [(Filled(), ["batch"] * 5), (Selecting(), [None, None])])
def test_rows_of_several_sizes_stand_together(model: Any, outputs: list[str | None]) -> None:
    converted = onnxport.convert(model, inputs=(torch.linspace(-2, 2, 18).reshape(3, 6).sin(),))
    assert converted.report.verdict == "passed"
    assert any("row by row (Loop)" in note for note in converted.report.notes)
    assert [value.shape[0] for value in converted.model.graph.outputs] == outputs
    for count in (1, 2, 5):
        x = torch.randn(count, 6, generator=torch.Generator().manual_seed(count))
        for found, wanted in zip(_run(converted, x=x), model(x), strict=True):
            assert found.dtype == wanted.numpy().dtype
            np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-6, atol=1e-6)


def test_rows_that_are_filled_up_with_their_own_numbers_are_not_taken_apart() -> None:
    converted = onnxport.convert(Repeated(), inputs=(torch.linspace(-2, 2, 18).reshape(3, 6).sin(),))
    assert converted.model.graph.inputs[0].shape == (3, 6)


class Deciding(torch.nn.Module):
    """A way through the model that the whole batch decides on."""

    def forward(self, x: Any) -> Any:
        x = x * 2 if x.amax() > 1e4 else x
        return torch.stack([x[i] + 1 for i in range(x.shape[0])])


class Limited(torch.nn.Module):
    """Every row limited by the greatest number of the batch, which it may hold itself."""

    def forward(self, x: Any) -> Any:
        x = torch.where(x.amax() > 30, x / 2, x)
        return torch.stack([x[i] + 1 for i in range(x.shape[0])])


@pytest.mark.parametrize("model", [Deciding(), Limited()])
def test_a_batch_that_decides_together_is_not_taken_apart(model: Any) -> None:
    converted = onnxport.convert(model, inputs=(torch.rand(2, 3) + 1,))
    assert not any("row by row" in note for note in converted.report.notes)


class Sparse(torch.nn.Module):
    """Rows that are sparse, which none takes as parts of a whole."""

    def forward(self, x: Any) -> Any:
        return x.to_sparse()


def test_sparse_results_are_refused_by_name() -> None:
    with pytest.raises(onnxport.UnsupportedOperator, match="to_sparse"):
        onnxport.convert(Sparse(), inputs=(torch.eye(3),))


class Normed(torch.nn.Module):
    """Statistics as inputs, of as many channels as the batch has rows: the kernel writes beyond ones of fewer numbers."""

    def forward(self, x: Any, mean: Any, variance: Any) -> Any:
        return torch.native_batch_norm(x, None, None, mean, variance, True, 0.5, 1e-5)[0]


def test_a_number_for_each_channel_is_not_taken_apart() -> None:
    converted = onnxport.convert(Normed(), inputs=(torch.rand(5, 5, 5), torch.rand(5), torch.rand(5)))
    assert not any("row by row" in note for note in converted.report.notes)


class Tracking(torch.nn.Module):
    """Running statistics that the caller holds: what is written to them follows from all rows."""

    def forward(self, x: Any, mean: Any, variance: Any) -> Any:
        return torch.nn.functional.instance_norm(x, mean, variance, use_input_stats=True)


class Counting(torch.nn.Module):
    """A buffer that adds up the rows of the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.total = torch.nn.Buffer(torch.zeros(3))

    def forward(self, x: Any) -> Any:
        self.total += torch.stack([x[i] for i in range(x.shape[0])]).sum(0)
        return torch.stack([x[i] + 1 for i in range(x.shape[0])])


def test_a_batch_whose_rows_are_written_somewhere_is_not_taken_apart() -> None:
    converted = onnxport.convert(Tracking(), inputs=(torch.rand(3, 2, 4), torch.rand(2), torch.rand(2)))
    assert [item.name for item in converted.model.graph.outputs][1:] == ["mean.updated", "variance.updated"]
    assert not any("row by row" in note for note in converted.report.notes)
    with pytest.raises(onnxport.UnsupportedOperator, match="total"):
        onnxport.convert(Counting(), inputs=(torch.rand(3, 3),))


class CentredWords(torch.nn.Module):
    """Rows of words in a Python loop, less the mean over the batch: of rows that are alike it is nothing, as of each alone."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(10, 3)

    def forward(self, ids: Any) -> Any:
        mean = self.table(ids).mean(0)
        return torch.stack([self.table(ids[i]) - mean for i in range(ids.shape[0])])


@pytest.mark.parametrize("ids", [[[1, 2, 3]], [[4, 5, 6]] * 2, [[0, 0, 0]]])
def test_rows_that_are_alike_tell_nothing(ids: list[list[int]]) -> None:
    converted = onnxport.convert(CentredWords().eval(), inputs=(torch.tensor(ids),), validate=False)
    assert not any("row by row" in note for note in converted.notes)


class Positions(torch.nn.Module):
    """As many rows of a table as the greatest position needs, whatever the batch holds; then a loop over it."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Parameter(torch.randn(16, 4, generator=torch.Generator().manual_seed(0)))

    def forward(self, x: Any) -> Any:
        places = torch.arange(x.shape[1]).expand(x.shape[0], -1)
        last = places.max().item()
        torch._check(last >= 0)
        torch._check(last < 16)
        table = self.table[: last + 1]
        return torch.stack([x[i] + table[places[i]] for i in range(x.shape[0])])


@pytest.mark.parametrize("length", [5, "length"])
def test_a_value_that_no_row_decides_is_the_same_for_each(length: Any) -> None:
    x = torch.randn(2, 5, 4, generator=torch.Generator().manual_seed(1))
    dims = None if length == 5 else {"x": {0: "batch", 1: length}}
    made = onnxport.convert(Positions().eval(), inputs=(x,), dynamic_shapes=dims)
    assert made.report.passed
    assert made.model.graph.inputs[0].shape[0] == "batch"
    other = torch.randn(5, 5 if length == 5 else 8, 4, generator=torch.Generator().manual_seed(2))
    np.testing.assert_allclose(made(other.numpy()), Positions()(other).detach().numpy(), rtol=1e-5, atol=1e-6)


class TakenApart(torch.nn.Module):
    """Rows of a batch in a list, put together again one behind another, as pictures' patches among tokens, or side by side."""

    def __init__(self, divided: bool = False) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 3)
        self.divided = divided

    def forward(self, x: Any) -> Any:
        rows = list(self.layer(x))
        behind = torch.cat(rows, dim=0)
        return (behind / len(rows) if self.divided else behind), torch.stack(rows, 1)


@pytest.mark.parametrize("dynamic", [None, {"x": {0: "batch"}}])
def test_a_batch_taken_apart_and_put_together_is_kept_whole(dynamic: Any) -> None:
    module = TakenApart().eval()
    model = onnxport.convert(module, inputs=(torch.rand(2, 3, 4),), dynamic_shapes=dynamic)
    assert "kept whole" in " ".join(model.notes)
    assert not {"Scan", "Loop"} & {node.op_type for node in model.model.graph}
    x = torch.rand(5, 3, 4)
    for expected, given in zip(module(x), Session(model.proto).run({"x": x.numpy()}), strict=True):
        np.testing.assert_allclose(given, expected.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_a_result_that_goes_by_the_number_of_rows_is_not_kept_whole() -> None:
    model = onnxport.convert(TakenApart(divided=True).eval(), inputs=(torch.rand(2, 3, 4),))
    assert model.report.verdict == "passed"
    assert "kept whole" not in " ".join(model.notes)


class Pictures(torch.nn.Module):
    """Goes through its pictures one by one, and looks up the masks of as many; where all are ones it takes any."""

    def forward(self, words: Any, pictures: Any, mask: Any) -> Any:
        rows = torch.stack([picture * (place + 1) for place, picture in enumerate(pictures)])
        if torch.compiler.is_exporting() or not bool((mask == 1).all()):
            rows = rows * mask[torch.arange(len(rows))]
        return words.sum(1), rows


def test_inputs_that_go_with_a_fixed_batch_are_fixed_with_it() -> None:
    inputs = (torch.rand(2, 5), torch.rand(2, 4), torch.ones(2, 4))
    model = onnxport.convert(Pictures(), inputs=inputs)
    assert model.report.verdict == "passed"
    assert [list(value.shape) for value in model.model.graph.inputs] == [[2, 5], [2, 4], [2, 4]]
    assert "pictures[0]" in " ".join(model.notes)
