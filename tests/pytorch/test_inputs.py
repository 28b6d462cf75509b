"""Example inputs of PyTorch models: one tensor in several places, several examples, dimensions that vary."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.pytorch

import onnxport  # noqa: E402

X = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))


@dataclass
class Pair:
    left: torch.Tensor
    right: torch.Tensor


class Doubled(torch.nn.Module):
    """Takes what is its own weight too."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(X.clone())

    def forward(self, a: torch.Tensor) -> torch.Tensor:
        return a - 2 * self.weight


class OfPair(torch.nn.Module):
    def forward(self, p: Pair) -> torch.Tensor:
        return p.left - 2 * p.right


def apart(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a - 2 * b


def written(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    a = a.clone()
    return a.add_(1) - 2 * b


DOUBLED = Doubled()
ATTENTION = torch.nn.MultiheadAttention(4, 2, batch_first=True).eval()
STEPS = torch.randn(2, 5, 4, generator=torch.Generator().manual_seed(1))
ROWS: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = [
    (apart, (X, X), {}),
    (apart, (X, X[:]), {}),
    (apart, (X,), {"kwargs": {"b": X}}),
    (apart, (X, X), {"dynamic_shapes": {"a": {0: "n", 1: "m"}, "b": {0: "n", 1: "m"}}}),
    (lambda d, e: d["a"] - 2 * d["b"] + 3 * e[0], ({"a": X, "b": X}, [X]), {}),
    (OfPair(), (Pair(X, X),), {}),
    (lambda a, b: (a, b, a - b), (X, X), {}),
    (lambda a: a - 2 * X, (X,), {}),
    (written, (X, X), {}),
    (DOUBLED, (DOUBLED.weight,), {}),
    (ATTENTION, (STEPS, STEPS, STEPS), {}),
]


@pytest.mark.parametrize(("model", "inputs", "options"), ROWS, ids=range(len(ROWS)))
def test_one_tensor_in_several_places_is_several_inputs(
    model: Callable[..., Any], inputs: tuple[Any, ...], options: dict[str, Any]
) -> None:
    before = X.clone()
    made = onnxport.convert(model, inputs=inputs, **options)
    assert torch.equal(X, before)
    leaves = torch.utils._pytree.tree_leaves((inputs, options.get("kwargs", {})))
    leaves = [leaf for item in leaves for leaf in (vars(item).values() if isinstance(item, Pair) else [item])]
    assert len(made.input_names) == len(leaves)
    assert onnxport.validate(model, made, inputs=inputs, kwargs=options.get("kwargs")).passed


def test_each_of_two_inputs_from_one_tensor_is_its_own() -> None:
    made = onnxport.convert(apart, inputs=(X, X))
    a, b = np.ones((5, 3), np.float32), np.full((5, 3), 7, np.float32)
    np.testing.assert_array_equal(made(a, b), a - 2 * b)
