"""Writing in place: what a model writes is seen by the base and by every view on it, as in torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is an extra")

from torch import Tensor, nn  # noqa: E402

from onnxport.errors import UnsupportedOperator  # noqa: E402
from tests.evidence import require_equal  # noqa: E402
from tests.pytorch.exporting import exported  # noqa: E402

pytestmark = pytest.mark.pytorch


def through(view: Callable[[Tensor], Tensor]) -> Callable[[Tensor], tuple[Tensor, ...]]:
    """Writes through a view, reads the base, the view and a sibling made before."""

    def model(x: Tensor) -> tuple[Tensor, ...]:
        base = x * 2
        sibling = base.transpose(0, 1)
        seen = view(base)
        seen.mul_(3).add_(1)
        return base, seen, sibling, base.sum()

    return model


VIEWS: dict[str, Callable[[Tensor], Tensor]] = {
    "itself": lambda x: x,
    "slice": lambda x: x[1:3],
    "slice with a step": lambda x: x[:, ::2],
    "slice to the end": lambda x: x[:, -2:],
    "select": lambda x: x[:, 1],
    "select the last": lambda x: x[-1],
    "transpose": lambda x: x.transpose(0, 2),
    "permute": lambda x: x.permute(2, 0, 1),
    "movedim": lambda x: x.movedim(0, 2),
    "view": lambda x: x.view(-1),
    "reshape": lambda x: x.reshape(4, -1),
    "flatten": lambda x: x.flatten(1),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "squeeze": lambda x: x[:, :1].squeeze(1),
    "narrow": lambda x: x.narrow(1, 1, 2),
    "diagonal": lambda x: x.diagonal(0, 0, 2),
    "view of a view": lambda x: x.view(-1)[3:40:2],
    "select of a transpose": lambda x: x.transpose(0, 1)[2],
    "chunk": lambda x: x.chunk(2, 1)[1],
    "split": lambda x: x.split([1, 4], 2)[1],
    "unbind": lambda x: x.unbind(1)[2],
    "tensor_split": lambda x: x.tensor_split(3, 2)[1],
    "detach": lambda x: x.detach()[0],
    "view_as": lambda x: x.view_as(torch.empty(4, 15)),
    "unfold": lambda x: x.unfold(1, 2, 2),
}


@pytest.mark.parametrize("name", VIEWS)
def test_writing_through_a_view(name: str) -> None:
    model = through(VIEWS[name])
    x = torch.randn(4, 3, 5)
    require_equal(model, exported(model, x, dynamic_shapes={"x": None}), (x,))


def assigned(x: Tensor) -> Tensor:
    x = x.clone()
    x[:, 0] = 7
    x[1:, 1:] += 2 * x[:-1, :-1]
    x[x > 1] = 0
    return x


def assigned_by_index(x: Tensor) -> Tensor:
    x = x.clone()
    x[torch.tensor([0, 2]), torch.tensor([1, 0])] = torch.tensor([5.0, 6.0])
    return x


def late_read(x: Tensor) -> tuple[Tensor, Tensor]:
    base = x + 1
    flat = base.flatten()
    copy = base.clone()
    base.zero_()
    return flat, copy


def earlier_value(x: Tensor) -> tuple[Tensor, Tensor]:
    base = x + 1
    squared = base * base
    base.add_(1)
    return squared, base


def two_views(x: Tensor) -> tuple[Tensor, ...]:
    base = x * 1
    left, right = base[:, :2], base[:, 1:]
    left.fill_(2)
    right.mul_(3)
    left.add_(1)
    return base, left, right


def reshaped_in_place(x: Tensor) -> tuple[Tensor, ...]:
    base = x * 2
    row, turned = base[1], base.transpose(0, 1)
    base.unsqueeze_(0).transpose_(1, 2)
    base.add_(1)
    row.mul_(3)
    base.squeeze_(0)[1] = 5
    return base, row, turned


def typed(x: Tensor) -> Tensor:
    whole = torch.zeros(4, 3, dtype=torch.int64)
    whole.copy_(x)
    whole.add_(1)
    return whole


def inserted(x: Tensor) -> Tensor:
    out = x.new_zeros(x.shape[0], 6)
    out[:, :3] = x
    out[:, 3:].copy_(x.flip(1))
    return out


MODELS = (assigned, assigned_by_index, late_read, earlier_value, two_views, reshaped_in_place, typed, inserted)


@pytest.mark.parametrize("model", MODELS, ids=lambda item: item.__name__)
def test_model_that_writes(model: Callable[[Tensor], Any]) -> None:
    x = torch.randn(4, 3)
    made = exported(model, x)
    require_equal(model, made, (x,))
    if model is not typed:  # its size stands in the code
        require_equal(model, made, (torch.randn(5, 3),))


def test_what_views_can_not_express_is_functionalised() -> None:
    def model(x: Tensor) -> Tensor:
        base = x * 2
        base.chunk(2, 0)[1].mul_(3)  # where the second half begins depends on the batch
        return base

    made = exported(model, torch.randn(4, 3))
    assert any("functionalised by torch" in note for note in made.notes)
    require_equal(model, made, (torch.randn(4, 3),))


def test_written_input_comes_out_as_output() -> None:
    def model(x: Tensor, cache: Tensor) -> Tensor:
        cache[:, 0] = x
        return cache.sum(1)

    x, cache = torch.randn(3), torch.randn(3, 4)
    made = exported(model, x, cache)
    assert made.output_names == ["output", "cache.updated"]
    total, updated = made(x.numpy(), cache.numpy().copy())
    expected = cache.clone()
    wanted = model(x, expected)
    torch.testing.assert_close(torch.from_numpy(total), wanted)
    torch.testing.assert_close(torch.from_numpy(updated), expected)


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.count += 1
        return x * self.count


STATEFUL = [
    (Counter(), "buffer 'count'", "an ONNX graph has no state"),
    (nn.Sequential(nn.Conv2d(2, 3, 1), nn.BatchNorm2d(3)).train(), "buffer '1.running_mean'", "model.eval()"),
]


@pytest.mark.parametrize("model, name, way_out", STATEFUL, ids=["counter", "batch norm"])
def test_written_buffer_is_refused_by_name(model: Any, name: str, way_out: str) -> None:
    with pytest.raises(UnsupportedOperator) as caught:
        exported(model, torch.randn(2, 2, 4, 4))
    assert name in str(caught.value)
    assert way_out in str(caught.value)


def test_an_embedding_that_cuts_its_rows_needs_no_state() -> None:
    """Cutting a row once more changes nothing: the table in the file may stay as it was."""
    model = torch.nn.Embedding(7, 4, max_norm=0.5).eval()
    indices = torch.tensor([1, 5, 1])
    made = exported(model, indices)
    require_equal(model, made, (indices,))
    require_equal(model, made, (torch.tensor([0, 2, 5]),))
