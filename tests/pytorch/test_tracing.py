"""What tracing has to bring through: layers that fix sizes, branches, regions, wrappers, side effects."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from contextlib import redirect_stderr
from typing import Any

import onnx_ir as ir
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is an extra")

from torch import Tensor, nn  # noqa: E402

import onnxport  # noqa: E402
from onnxport.errors import InvalidInputError, TracingError  # noqa: E402
from onnxport.tracing import pytorch_export  # noqa: E402
from tests.evidence import require_equal  # noqa: E402
from tests.pytorch.exporting import exported  # noqa: E402

pytestmark = pytest.mark.pytorch


class Cells(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gru, self.lstm, self.rnn = nn.GRUCell(3, 4), nn.LSTMCell(4, 4), nn.RNNCell(4, 4, nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        hidden = x.new_zeros(x.shape[0], 4)
        cell = hidden
        for step in x.unbind(1):
            hidden = self.gru(step, hidden)
            hidden, cell = self.lstm(hidden, (hidden, cell))
            hidden = self.rnn(cell, hidden)
        return hidden


class Translator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.transformer = nn.Transformer(8, 2, 1, 1, 16, batch_first=True)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        return self.transformer(source, target, tgt_mask=mask)


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        def inner(x: Tensor) -> Tensor:
            y = torch.cond(x.max() > 1, lambda x: self.a(x), lambda x: x * 3, (x,)).clone()
            y[:, 0] = 0
            return y

        return torch.cond(x.sum() > 0, inner, lambda x: self.b(x), (x,))


class Modes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            x = x * 2
        with torch.enable_grad():
            x = x + 1
        with torch.autocast("cpu", enabled=False):
            x = self.fc(x)
        return x.add_(1)


class Autocast(Modes):
    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.fc(x)
        return y.float()


class Cached(nn.Module):
    def forward(self, x: Tensor, past: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        keys = torch.cat([past["k"], x], 1)
        return torch.softmax(x @ keys.mT, -1) @ keys, {"k": keys}


CONSTANT = torch.randn(64, 64)
BATCHED = [
    ("recurrent cells", Cells(), (torch.randn(2, 3, 3),), (torch.randn(5, 3, 3),)),
    ("recurrent layer", nn.GRU(3, 4, batch_first=True), (torch.randn(2, 5, 3),), (torch.randn(4, 5, 3),)),
    (
        "transformer",
        Translator(),
        (torch.randn(2, 4, 8), torch.randn(2, 5, 8)),
        (torch.randn(3, 4, 8), torch.randn(3, 5, 8)),
    ),
    ("branches", Branches(), (torch.rand(2, 3),), (torch.randn(5, 3),)),
    ("modes", Modes(), (torch.randn(2, 3),), (torch.randn(5, 3),)),
    ("autocast", Autocast(), (torch.randn(2, 3),), (torch.randn(5, 3),)),
    ("data parallel", nn.DataParallel(nn.Linear(3, 3)), (torch.randn(2, 3),), (torch.randn(5, 3),)),
    ("closed-over tensor", lambda x: x @ CONSTANT, (torch.randn(2, 64),), (torch.randn(5, 64),)),
    (
        "parametrisation",
        nn.utils.parametrizations.weight_norm(nn.Linear(3, 4)),
        (torch.randn(2, 3),),
        (torch.randn(5, 3),),
    ),
    ("sizes that depend on data", lambda x: x[x > 0] * 2, (torch.randn(2, 3),), (torch.randn(5, 3),)),
]


@pytest.mark.parametrize("model, inputs, others", [row[1:] for row in BATCHED], ids=[row[0] for row in BATCHED])
def test_traced_with_a_dynamic_batch(model: Any, inputs: tuple[Tensor, ...], others: tuple[Tensor, ...]) -> None:
    model = model.eval() if isinstance(model, nn.Module) else model
    made = exported(model, *inputs)
    require_equal(model, made, inputs)
    require_equal(model, made, others)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # torch's compiler uses what torch deprecates
def test_compiled_module_is_the_module_inside() -> None:
    model = torch.compile(nn.Linear(3, 3))
    made = exported(model, torch.randn(2, 3))
    assert list(made.model.graph.initializers) == ["weight", "bias"]


def interpolated(x: Tensor, like: Tensor) -> Tensor:
    return nn.functional.interpolate(x, size=like.shape[2:], mode="bilinear")


NAMED = [
    (nn.LSTM(3, 4, batch_first=True), (torch.randn(1, 5, 3),), {"input": {0: "b", 1: "t"}}, (torch.randn(3, 9, 3),)),
    (
        nn.Conv2d(3, 4, 3, padding="same"),
        (torch.randn(1, 3, 4, 4),),
        {"input": {0: "b", 2: "h", 3: "w"}},
        (torch.randn(2, 3, 7, 6),),
    ),
    (
        interpolated,
        (torch.randn(1, 3, 4, 4), torch.randn(1, 3, 8, 8)),
        {"x": {0: "b", 2: "h", 3: "w"}, "like": {0: "b", 2: "rows", 3: "columns"}},
        (torch.randn(2, 3, 5, 6), torch.randn(2, 3, 9, 7)),
    ),
    (
        Cached(),
        (torch.randn(1, 1, 4), {"k": torch.randn(1, 3, 4)}),
        {"x": {0: "b", 1: "new"}, "past": {"k": {0: "b", 1: "past"}}},
        (torch.randn(2, 3, 4), {"k": torch.randn(2, 6, 4)}),
    ),
]


@pytest.mark.parametrize("model, inputs, dims, others", NAMED)
def test_traced_with_named_dimensions(model: Any, inputs: tuple[Any, ...], dims: Any, others: tuple[Any, ...]) -> None:
    made = exported(model, *inputs, dynamic_shapes=dims)
    require_equal(model, made, inputs)
    require_equal(model, made, others)


class Remembering(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.last: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        self.last = x * 2
        return x + 1


def test_what_a_model_sets_on_itself_is_said() -> None:
    made = exported(Remembering(), torch.randn(2, 3))
    assert any("sets self.last" in note for note in made.notes)


def test_training_mode_is_said() -> None:
    made = exported(nn.Sequential(nn.Linear(3, 3)).train(), torch.randn(2, 3))
    assert any(note.startswith("the model is traced in training mode; model.eval()") for note in made.notes)


def test_refused_quietly_with_a_reason() -> None:
    printed = io.StringIO()
    with redirect_stderr(printed), pytest.raises(TracingError, match=r"torch\.cond"):
        exported(lambda x: x if float(x.sum()) > 0 else x[:, :1], torch.randn(2, 3))
    assert printed.getvalue() == ""


def test_a_batch_that_python_counts_stays_dynamic() -> None:
    def queries(x: Tensor) -> Tensor:
        return torch.arange(3.0).repeat(len(x), 1) + x

    x = torch.ones(2, 3)
    made = exported(queries, x)
    assert isinstance(made.model.graph.inputs[0].shape[0], ir.SymbolicDim)
    require_equal(queries, made, (torch.ones(5, 3),))


class Counting(nn.Module):
    """Has sizes as numbers of Python, in code that Dynamo does not follow."""

    def forward(self, x: Tensor) -> Tensor:
        torch._dynamo.graph_break()
        half = int(x.shape[1] / 2)
        assert isinstance(half, int)
        assert int("2") == 2
        return x[:, :half] * len(x) + int(half + 1.5)


@pytest.mark.parametrize("dims", [None, {"x": {0: "batch", 1: "length"}}])
def test_sizes_that_python_makes_numbers_stay_dynamic(dims: Any) -> None:
    model, x = Counting().eval(), torch.ones(4, 6)
    converted = exported(model, x, dynamic_shapes=dims)
    require_equal(model, converted, (x,))
    require_equal(model, converted, (torch.ones(7, 6 if dims is None else 11),))


def by_value(x: Tensor) -> Tensor:
    """Of another shape on each way, which no graph selects."""
    y = x * 2
    if float(y.sum()) > 0:
        return torch.cat([y, y], 1)
    return x - 1


def test_an_error_names_the_users_line_and_a_way_out() -> None:
    with pytest.raises(TracingError) as caught:
        exported(by_value, torch.ones(2, 3))
    place, why, out = str(caught.value).splitlines()
    assert place.endswith("if float(y.sum()) > 0:")
    assert "test_tracing.py" in place
    assert "by_value" in why
    assert 'strategy="trace"' in out


def test_branches_are_frozen_where_the_user_allows_it() -> None:
    x, other = torch.ones(2, 3), torch.rand(5, 3)
    with pytest.raises(TracingError):
        onnxport.convert(by_value, inputs=(x,))
    made = onnxport.convert(by_value, inputs=(x,), strategy="trace", validate=False)
    assert any("test_tracing.py" in note and "12.0" in note for note in made.notes), made.notes
    require_equal(by_value, made, (other,))  # the batch varies all the same


def test_examples_that_take_different_branches_are_refused() -> None:
    examples = [(torch.ones(2, 3),), (-torch.ones(4, 3),)]
    with pytest.raises(TracingError, match=r"test_tracing.py:\d+: .* the examples differ there: 12.0 .*, -24.0"):
        onnxport.convert(by_value, inputs=examples, strategy="trace")
    with pytest.raises(InvalidInputError, match="strategy='forget'"):
        onnxport.convert(by_value, inputs=examples[0], strategy="forget")  # type: ignore[arg-type]


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.tensor([1.0, 2.0, 3.0]), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale


def test_a_buffer_that_is_not_saved_takes_one_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    traces: list[int] = []
    export = torch.export.export
    monkeypatch.setattr(torch.export, "export", lambda *args, **kwargs: traces.append(1) or export(*args, **kwargs))
    exported(nn.Sequential(Scaled()), torch.ones(2, 3))
    assert len(traces) == 1


@pytest.mark.parametrize(
    ("function", "condition"),
    [
        (lambda x: x[:3] if x.shape[0] % 2 == 0 else x, "batch % 2 == 0, batch >= 3"),
        (lambda x: x * 2 if x.shape[0] > 4 else x, "batch > 4"),
        (lambda x: x.reshape(-1, x.shape[1] // 2) + 1, ""),
    ],
)
def test_a_branch_on_a_size_is_noted(function: Callable[[Tensor], Tensor], condition: str) -> None:
    """torch keeps the condition as a guard, and a file holds none: without a proof nothing else tells."""
    notes = onnxport.convert(function, inputs=(torch.ones(6, 4),), validate=False).notes
    assert [item for item in notes if "decides on sizes" in item] == (
        [f"the trace holds only where {condition}: the model decides on sizes"] if condition else []
    )


@pytest.mark.parametrize("module", [Cells(), Branches()], ids=lambda item: type(item).__name__)
def test_nodes_know_their_lines_as_torch_writes_them(module):
    """Frames are read without torch's own class, which writes out each of them."""
    batch = {0: torch.export.Dim("batch", min=2)}
    x = torch.ones(2, 3) if isinstance(module, Branches) else torch.ones(2, 5, 3)

    def lines() -> list[str]:
        program = torch.export.export(module, (x,), dynamic_shapes=(batch,), strict=False)
        stacks = (node.stack_trace or "" for node in program.graph.nodes)
        return [re.sub(r"<eval_with_key>\.\d+", "generated", stack) for stack in stacks]  # numbered in a process

    with torch.no_grad():
        expected = lines()
        with pytorch_export._unwritten():
            result = lines()
    assert result == expected
    assert any("test_tracing.py" in line for line in result)


class Sized(nn.Module):
    """Sizes added, multiplied, divided, compared and asked for, of two symbols."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        both = torch.cat([x, y], 1)
        rows = both.reshape(x.shape[0] * both.shape[1], -1)
        if both.shape[1] > 5 and x.shape[0] + y.shape[1] != 1000:
            rows = rows[: (rows.shape[0] + 1) // 2 + x.shape[0] - 1]
        spread = rows.unflatten(1, (2, -1)).transpose(0, 1).contiguous().flatten(0, 1)
        return nn.functional.interpolate(spread[None], scale_factor=2.0).sum(-1) + spread.shape[0] * x.shape[1]


@pytest.mark.parametrize("module, args, dims", [
    (Sized(), (torch.zeros(3, 4, 8), torch.zeros(3, 5, 8)), ({0: "n", 1: "a"}, {0: "n", 1: "b"})),
    (nn.TransformerEncoderLayer(8, 2, batch_first=True).eval(), (torch.zeros(3, 4, 8),), ({0: "n", 1: "t"},)),
    (nn.Sequential(nn.Conv2d(3, 4, 3, 2), nn.AdaptiveAvgPool2d(2), nn.Flatten()), (torch.zeros(2, 3, 9, 9),), ({0: "n"},)),
])  # fmt: skip
def test_remembered_arithmetic_gives_the_program_that_torch_gives(module, args, dims):
    shapes = tuple(dict.fromkeys(item, torch.export.Dim.DYNAMIC) for item in dims)

    def results() -> tuple[str, ...]:
        program = torch.export.export(module, args, dynamic_shapes=shapes, strict=False)
        sizes = [node.meta["val"].shape for node in program.graph.nodes if isinstance(node.meta.get("val"), Tensor)]
        return str(program.graph), str(sizes), str(program.range_constraints)

    with pytorch_export.arithmetic_remembered():
        some = results()
    assert some == results()


class DuckTyped(torch.nn.Module):
    """Calls each layer with what some of them do not take."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2)])

    def forward(self, x):
        for layer in self.layers:
            try:
                x = layer(x, lengths=None)
            except TypeError:
                x = layer(x)
        return x


def test_a_model_may_catch_the_errors_of_its_layers():
    torch.manual_seed(0)
    converted = onnxport.convert(DuckTyped().eval(), inputs=(torch.randn(2, 4),))
    assert converted.report.passed
    assert [node.name.split("/")[0] for node in converted.proto.graph.node] == ["layers.0", "layers.1", "layers.2"]
