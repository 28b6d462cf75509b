"""Models that ask whether they are being traced: converted where the numbers stay the same, else refused without a proof too."""

from __future__ import annotations

import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is an extra")
pytestmark = pytest.mark.pytorch

import onnxport  # noqa: E402
from onnxport.errors import TracingError, ValidationError  # noqa: E402


def _told() -> bool:
    return torch.compiler.is_exporting() or torch.compiler.is_compiling()


def is_told() -> bool:
    return _told()


class Attention(torch.nn.Module):
    """Sees all tokens when it is called and only those before where it is exported, or the same by another kernel."""

    def __init__(self, causal_in_trace: bool) -> None:
        super().__init__()
        self.causal_in_trace = causal_in_trace

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not is_told():
            return torch.nn.functional.scaled_dot_product_attention(x, x, x)
        mask = torch.ones(x.shape[-2], x.shape[-2], dtype=torch.bool)
        return torch.nn.functional.scaled_dot_product_attention(x, x, x, mask.tril() if self.causal_in_trace else mask)


class Halved(torch.nn.Module):
    """Makes a mask where it is exported, in the length that the tokens have before they are halved."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = torch.ones(x.shape[-2], x.shape[-2], dtype=torch.bool) if is_told() else None
        x = x[:, ::2] * 2
        if mask is not None and mask.shape[-1] != x.shape[-2]:
            raise ValueError(f"a mask of {mask.shape[-1]} for {x.shape[-2]} tokens")
        return torch.nn.functional.scaled_dot_product_attention(x, x, x, mask)


class Random(torch.nn.Module):
    """Gives other numbers each time, whatever it is told."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rand(2 if is_told() else 3)[-1]


X = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(0))


def test_other_numbers_in_the_trace_are_refused() -> None:
    with pytest.raises(ValidationError):
        onnxport.convert(Attention(True).eval(), inputs=(X,))
    before = torch.compiler.is_exporting, torch.compiler.is_compiling
    with pytest.raises(TracingError, match=r"test_awareness\.py:\d+: Attention asks whether it is being traced"):
        onnxport.convert(Attention(True).eval(), inputs=(X,), validate=False)
    assert before == (torch.compiler.is_exporting, torch.compiler.is_compiling)


def test_the_same_numbers_by_another_way_convert() -> None:
    assert onnxport.convert(Attention(False).eval(), inputs=(X,), validate=False).report is None
    made = onnxport.convert(Attention(False).eval(), inputs=(X,))
    assert made.report.passed
    wanted = Attention(False)(X).numpy()
    assert abs(made(X.numpy()) - wanted).max() < 1e-5


def test_what_fails_in_a_trace_alone_is_traced_as_it_is_called() -> None:
    made = onnxport.convert(Halved().eval(), inputs=(X,))
    assert made.report.passed
    assert any("traced as it is called" in note for note in made.report.notes)
    other = torch.cat([X, 3 * X])
    assert abs(made(other.numpy()) - Halved()(other).numpy()).max() < 1e-5


def test_a_random_model_is_not_taken_for_one_that_differs() -> None:
    assert onnxport.convert(Random().eval(), inputs=(X,), validate=False).report is None


class Branches(torch.nn.Module):
    """Asks within a branch that Dynamo reads."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x * 2 if _told() else x * 2.0, lambda x: x - 1.0, (x,))


ASKS_AFTERWARDS = """
import torch
import onnxport
from tests.pytorch.test_awareness import Branches

made = onnxport.convert(Branches().eval(), inputs=(torch.ones(2, 3),))
assert made.report.passed
assert not any("Dynamo" in note for note in made.report.notes), made.report.notes
whole = torch.compile(lambda x: x + 1 if torch.compiler.is_compiling() else x, fullgraph=True, backend="eager")
assert whole(torch.zeros(2)).tolist() == [1, 1]
"""


def test_dynamo_knows_torchs_questions_after_a_conversion() -> None:
    """It learns them at its first use in a process, here while a model is traced."""
    done = subprocess.run([sys.executable, "-c", ASKS_AFTERWARDS], capture_output=True, text=True)
    assert not done.returncode, done.stderr
