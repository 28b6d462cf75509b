"""Models that seed a generator themselves: their numbers are the same each time, and so are the graph's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is an extra")

import onnxport  # noqa: E402
from tests.evidence import require_equal  # noqa: E402

pytestmark = pytest.mark.pytorch

X = torch.linspace(-2, 2, 24).reshape(4, 6)


def seeded() -> Any:
    return torch.Generator().manual_seed(3)


def several(x: Any) -> Any:
    generator = seeded()
    order = torch.randperm(6, generator=generator)
    noise = torch.randn(6, generator=generator)
    noise[0] = 1.0
    return x[:, order] * noise + torch.normal(0.0, 2.0, (6,), generator=generator)


def of_torch(x: Any) -> Any:
    torch.manual_seed(0)
    return x + torch.rand(6) * torch.randint(0, 9, (1,))


def filled(x: Any) -> Any:
    return x * torch.empty(6).uniform_(-1, 1, generator=seeded()) + torch.randn(6) * 0.0


def by_a_tensor(x: Any) -> Any:
    """As Keras seeds on PyTorch."""
    generator = torch.Generator().manual_seed(int(torch.tensor([3, 4]).sum()) & 0xFFFFFFFF)
    return x + torch.normal(0.0, 1.0, size=(6,), generator=generator)


@pytest.mark.parametrize("function", [several, of_torch, filled, by_a_tensor], ids=lambda item: item.__name__)
def test_seeded_draws_are_constants_for_any_batch(function: Callable[..., Any]) -> None:
    written = onnxport.convert(function, inputs=(X,))
    assert written.report.verdict == "passed"
    require_equal(function, written, (torch.cat([X, X + 1.0]),))


def for_each_row(x: Any) -> Any:
    return x + torch.randn(x.shape, generator=seeded())


def masked_rows(x: Any) -> Any:
    return torch.where(torch.rand(x.shape[0], generator=seeded())[:, None] < 0.5, x, 0.0)


@pytest.mark.parametrize("function", [for_each_row, masked_rows], ids=lambda item: item.__name__)
def test_draws_as_many_as_rows_fix_the_batch(function: Callable[..., Any]) -> None:
    written = onnxport.convert(function, inputs=(X,))
    assert written.report.verdict == "passed"
    assert written.model.graph.inputs[0].shape[0] == 4


def test_a_generator_that_goes_on_is_drawn_from_when_the_graph_runs() -> None:
    generator = seeded()
    with pytest.warns(onnxport.errors.UnprovedWarning):
        written = onnxport.convert(lambda x: x + torch.randn(6, generator=generator), inputs=(X,))
    assert "RandomNormal" in {node.op_type for node in written.model.graph}


def test_attention_draws_nothing() -> None:
    """PyTorch marks its attention as random, for its dropout's sake; a model that has it is not run to look for draws."""
    kinds: set[type] = set()

    class Attends(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            kinds.add(type(x))
            return torch.nn.functional.scaled_dot_product_attention(x, x, x)

    onnxport.convert(Attends().eval(), inputs=(torch.randn(2, 4, 3, 8),), validate=False)
    assert kinds
    assert torch.Tensor not in kinds
