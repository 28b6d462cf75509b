"""Eigenvectors and singular vectors, whose signs are LAPACK's choice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is an extra")

import onnxport  # noqa: E402
from onnxport.errors import UnsupportedOperator  # noqa: E402
from tests.pytorch.exporting import exported  # noqa: E402

pytestmark = pytest.mark.pytorch

X = torch.randn(6, 4, generator=torch.Generator().manual_seed(3))


def whitened(x: Any) -> Any:
    x = x - x.mean(0)
    values, vectors = torch.linalg.eigh(x.T @ x / (x.shape[0] - 1))
    return x @ (vectors * (values + 1e-3).rsqrt()) @ vectors.T


def reconstructed(x: Any) -> Any:
    u, s, v = torch.linalg.svd(x, full_matrices=False)
    return (u[:, :2] * s[:2]) @ v[:2]


def polar(x: Any) -> Any:
    u, _, v = torch.linalg.svd(x[:4])
    return u @ v


def wide(x: Any) -> Any:
    u, s, v = torch.linalg.svd(x[:3])
    return (u * s.tanh()) @ v[:3]


@pytest.mark.parametrize("function", [whitened, reconstructed, polar, wide])
def test_what_no_sign_changes_converts(function: Callable[..., Any]) -> None:
    report = onnxport.convert(function, inputs=(X,)).report
    assert report.passed
    assert any("signs of their own" in note for note in report.notes)


ROWS: list[tuple[str, Callable[..., Any]]] = [
    ("vectors", lambda x: torch.linalg.eigh(x.T @ x)[1]),
    ("one vector", lambda x: torch.linalg.eigh(x.T @ x)[1][:, 2]),
    ("projection", lambda x: x @ torch.linalg.svd(x, full_matrices=False)[2].T),
    ("two of a pair", lambda x: (lambda u, s, v: u[:, 0] * v[1, 0])(*torch.linalg.svd(x, full_matrices=False))),
    ("the null space", lambda x: torch.linalg.svd(x)[0][:, 4:] ** 2),
    ("a count of positive numbers", lambda x: (torch.linalg.eigh(x.T @ x)[1] > 0).sum(0)),
]


@pytest.mark.parametrize("function", [pytest.param(row[1], id=row[0]) for row in ROWS])
def test_what_a_sign_changes_is_refused(function: Callable[..., Any]) -> None:
    with pytest.raises(UnsupportedOperator, match="depend on the signs"):
        exported(function, X)
