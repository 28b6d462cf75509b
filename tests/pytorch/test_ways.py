"""Branches in Python on values whose ways do not come together: each is a branch of the graph, right where it is taken."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is an extra")
pytestmark = pytest.mark.pytorch

import onnxport  # noqa: E402
from onnxport.errors import TracingError  # noqa: E402


class Reset(torch.nn.Module):
    """The second branch takes back what the first one did, without an operator of its own."""

    def forward(self, x):
        x = x + 1
        y = x
        if x.max() > 1:
            y = x.clamp(-1, 1)
        if x.min() < 0:
            y = x
        return y * 2


class OneWay(torch.nn.Module):
    """The way that is not taken reads what only the other way of the question before makes."""

    def forward(self, x):
        x = x + 1
        y = x.clamp(-1, 1) if x.max() > 1 else x
        return (x * 0.5 if x.min() < 0 else y + 1) * 2


class Shapes(torch.nn.Module):
    def forward(self, x):
        return x[:1] if x.sum() > 0 else x


class Division(torch.nn.Module):
    """Whole numbers that are divided only where the divisor is not 0."""

    def forward(self, x, n):
        if (n != 0).all():
            x = x // n
        return x + 1


class Lookup(torch.nn.Embedding):
    """One way takes rows by an index that only the condition keeps within the table."""

    def __init__(self):
        super().__init__(4, 4)

    def forward(self, index):
        return super().forward(index) if index.max() < 4 else torch.zeros(*index.shape, 4)


class Written(torch.nn.Module):
    """Writes to what one way made anew and the other left as it was."""

    def forward(self, x):
        y = x * 1
        z = y.clamp(-1, 1) if y.max() > 1 else y
        z.add_(1)
        return y + z


class Layers(torch.nn.Module):
    """Each layer asks the same question and has tokens of its own for it, as many as a mask names."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(5))

    def forward(self, x, mask):
        for layer in self.layers:
            x = layer(x)
            if (mask > 1).any():
                count = (mask > 1).long().sum(1).max()
                places = (mask > 1).nonzero(as_tuple=True)
                x = x.clone()
                x[places] = x[places] + x.narrow(1, 0, count).mean()
        return x


class Chosen(torch.nn.Module):
    """Computes with the most chosen tokens of a row as a number, and asserts what follows of its sizes."""

    def forward(self, x, mask):
        chosen = mask > 1
        if not chosen.any():
            return x + 1
        counts = chosen.long().sum(1)
        most = counts.max()
        held = torch.arange(most) < counts.unsqueeze(-1)
        scores = torch.cat([x.new_zeros(x.shape[0], most), x[..., 0]], 1)
        first, rest = scores.narrow(1, 0, most) + 1, scores.narrow(1, most, scores.size(1) - most)
        assert list(first.size()) == [x.shape[0], most]
        assert rest.size(1) == x.size(1)
        x = x * rest[..., None]
        places = held.nonzero(as_tuple=True)
        x[chosen.nonzero(as_tuple=True)] = first[places].view(len(places[0]), -1)
        return x


class Checked(torch.nn.Module):
    """Raises an error of its own for some values, and asks again behind it."""

    def forward(self, x):
        assert (x.abs() < 1e30).all(), "too large"
        if x.max() > 1e29:
            raise ValueError("nearly too large")
        return x[:1] if x.sum() > 0 else x


class Guarded(torch.nn.Module):
    """Asks for nothing but whether to raise an error."""

    def forward(self, x):
        if not torch.isfinite(x).all():
            raise ValueError(f"not finite: {x}")
        return x * 2


class Asserted(torch.nn.Module):
    """Asserts by torch's own function."""

    def forward(self, x):
        torch._assert(x.shape[-1] == 4, "columns")
        torch._assert((x.abs() < 1e9).all(), "too large")
        return x * 2


class Padded(torch.nn.Module):
    """Asserts what its own padding has kept, in a call of its own, each time."""

    def pad(self, x):
        wide = torch.nn.functional.pad(x, (1, 1))
        assert (wide[..., 1:-1] == x).all()
        return wide

    def forward(self, x):
        return self.pad(self.pad(x) * 2)


class Ranks(torch.nn.Module):
    def forward(self, x):
        return x.sum(1) if x.sum() > 0 else x


class Many(torch.nn.Module):
    """More ways than are worth a graph."""

    def forward(self, x):
        for i in range(6):
            x = torch.cat([x, x[:, :1]], 1)[:, : 4 + i] if x[:, i % 4].sum() > 0 else x.flip(0)
        return x


class Seen(torch.nn.Module):
    """Asks the same of a tensor that a view of it has changed in between, and keeps what it gives."""

    def forward(self, x):
        y = x * 1
        row = y[0]
        first = y[:1] if y.sum() > 0 else y
        row.add_(4)
        self.kept = y[:1] if y.sum() > 0 else y
        return first * 2, self.kept * 3


class Numbers(torch.nn.Module):
    """Asks by Python numbers, with constants of each way's own."""

    def forward(self, x):
        count = (x > 0).sum().item()
        if count > 6:
            return x[:1] * torch.tensor([1.0, 2.0, 3.0, 4.0])
        if -1 < x.max().item() <= 2 and count != 5:
            return x[1:] * torch.tensor([4.0, 3.0, 2.0, 1.0])
        return x * count


class Sizes(torch.nn.Module):
    """Asks for a size that depends on values."""

    def forward(self, x):
        rows = (x[:, 0] > 0).nonzero().flatten()
        if rows.numel() == 0:
            return x * 2
        return x[rows]


class Steps(torch.nn.Module):
    """A loop of few steps that may end before; a submodule that is called twice."""

    class Halved(torch.nn.Module):
        def forward(self, x):
            return torch.cat([x, x[:1]]) if x.sum() > 0 else x - 1

    def __init__(self):
        super().__init__()
        self.halved = self.Halved()

    def forward(self, x):
        for _ in range(2):
            if x.abs().max().item() <= 1:
                break
            x = self.halved(x) / 2
        return x


class Unused(torch.nn.Module):
    """One way computes what nothing reads."""

    def forward(self, x):
        y = x * 2
        if x.sum() > 0:
            x.nonzero()
        return y


class Drawn(torch.nn.Module):
    """Asks twice for numbers that are drawn each time."""

    def forward(self, x):
        first = x[:1] if torch.rand(()) > 0.5 else x
        second = x[:1] if torch.rand(()) > 0.5 else x
        return first + 1, second + 1


class Counted(torch.nn.Module):
    """Counts its calls where no trace sees it, which shows on one way."""

    def __init__(self):
        super().__init__()
        self.calls = iter(range(1, 1000))

    def forward(self, x):
        count = next(self.calls)
        return x[:1] * count if x.sum() > 0 else x


class Unexportable(torch.nn.Module):
    """One way raises an error in a trace alone."""

    def forward(self, x):
        if x.sum() > 0:
            y = x * 2
            if torch.compiler.is_exporting():
                raise RuntimeError("not while it is exported")
            return y[:1]
        return x


class Stateful(torch.nn.Module):
    """One way writes to a buffer."""

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x):
        if x.sum() > 0:
            self.total.add_(1)
        return x[:1] + self.total


class Rare(torch.nn.Module):
    """Asks for what ordinary inputs do not have, and within that for what none has."""

    def forward(self, x):
        if x.max() > 1e5:
            return x[:1] if x.min() > x.max() else x[1:]
        return torch.nan_to_num(x)[:, :2] if x.isnan().any() else x


_OF_ONE = (Reset, OneWay, Shapes, Written, Seen, Numbers, Sizes, Steps)
_X = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
_WORDS = torch.tensor([[1, 2, 3], [3, 2, 0]])
_TOKENS = torch.randn(2, 6, 4, generator=torch.Generator().manual_seed(1))


def _mask(*places):
    mask = torch.ones(2, 6, dtype=torch.int64)
    for place in places:
        mask[place] = 2
    return mask


@pytest.mark.parametrize(
    ("kind", "inputs", "others"),
    [
        *(
            (kind, (_X,), [(_X,), (_X.abs(),), (-_X.abs(),), (_X * 0,)])
            for kind in (Reset, OneWay, Shapes, Written, Seen, Numbers, Sizes, Steps)
        ),
        (Checked, (_X,), [(_X.abs(),), (-_X.abs(),), (torch.cat([_X, _X]),)]),
        (Lookup, (_WORDS,), [(_WORDS + 3,), (_WORDS[:1],)]),
        (
            Division,
            (torch.arange(12).reshape(3, 4), torch.arange(2, 14).reshape(3, 4)),
            [(torch.arange(12).reshape(3, 4), torch.arange(12).reshape(3, 4))],
        ),
        *(
            (kind, (_TOKENS, _mask()), [(_TOKENS, _mask((0, 0), (1, 2), (1, 3))), (_TOKENS, _mask((1, 5)))])
            for kind in (Layers, Chosen)
        ),
    ],
    ids=lambda item: getattr(item, "__name__", ""),
)
def test_the_way_that_is_taken_is_right(kind, inputs, others):
    torch.manual_seed(0)
    model = kind().eval()
    made = onnxport.convert(model, inputs=inputs)
    assert made.report.passed
    assert any("the graph holds both ways (If)" in note for note in made.report.notes)
    for given in (inputs, *others):
        with torch.no_grad():
            wanted = model(*given)
        got = made(*(item.numpy() for item in given))
        wanted, got = ((item if isinstance(item, tuple) else (item,)) for item in (wanted, got))
        for one, other in zip(got, wanted, strict=True):
            torch.testing.assert_close(torch.as_tensor(one), other, rtol=1e-5, atol=1e-5)


def test_what_is_drawn_anew_is_another_question():
    made = onnxport.convert(Drawn().eval(), inputs=(_X,), validate=False)
    shapes = {tuple(item.shape[0] for item in made(_X.numpy())) for _ in range(64)}
    assert shapes == {(1, 1), (1, 3), (3, 1), (3, 3)}


def test_a_branch_without_an_effect_leaves_no_if():
    made = onnxport.convert(Unused().eval(), inputs=(_X,))
    assert made.report.passed
    assert {node.op_type for node in made.model.graph} == {"Mul"}


def test_inputs_are_searched_that_take_the_other_way():
    report = onnxport.convert(Rare().eval(), inputs=(_X,)).report
    tried = [item.name for item in report.sets if item.name.startswith("the other way at ")]
    assert tried
    assert report.passed
    missing = [note for note in report.notes if "no inputs of the proof take the branch" in note]
    assert len(missing) == 1
    assert "where its condition holds" in missing[0]


@pytest.mark.parametrize("kind", [Ranks, Many, Counted, Unexportable, Stateful])
def test_ways_that_end_otherwise_are_refused(kind):
    with pytest.raises(TracingError):
        onnxport.convert(kind().eval(), inputs=(_X,))


@pytest.mark.parametrize("kind", [Guarded, Asserted, Padded])
def test_a_model_that_asks_for_an_error_alone_converts(kind):
    made = onnxport.convert(kind().eval(), inputs=(_X,))
    assert made.report.passed
    torch.testing.assert_close(torch.as_tensor(made(_X.numpy())), kind()(_X))
    asked = [note for note in made.report.notes if "asks for a tensor's value" in note]
    assert kind is Padded or ["leads to an error" in note for note in asked] == [True]


def test_the_report_tells_errors_from_branches():
    notes = onnxport.convert(Checked().eval(), inputs=(_X,)).report.notes
    asked = [note for note in notes if "asks for a tensor's value" in note]
    assert ["leads to an error" in note for note in asked] == [True, True, False]
