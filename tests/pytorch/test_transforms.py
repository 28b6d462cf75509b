"""Models that differentiate, vectorise or attend with functions of their own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is an extra")

from torch import nn  # noqa: E402
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vmap  # noqa: E402

import onnxport  # noqa: E402
from onnxport.errors import OnnxportError  # noqa: E402
from tests.evidence import require_equal  # noqa: E402
from tests.pytorch.exporting import exported  # noqa: E402

pytestmark = pytest.mark.pytorch


def energy(q: Any) -> Any:
    return (0.5 * (q**2).sum(-1) + torch.cos(q).prod(-1)).sum()


def force(q: Any) -> Any:
    return -torch.autograd.grad(energy(q.requires_grad_()), q)[0]


X = torch.linspace(-2, 2, 12).reshape(4, 3)
ROWS: list[tuple[str, Callable[..., Any], Any]] = [
    ("grad", lambda q: grad(energy)(q), X),
    ("grad of what no operator before it holds", lambda q: grad(lambda z: z.sin().sum())(q), X),
    ("jvp", lambda q: jvp(lambda z: torch.logsumexp(z, 1), (q,), (q.cos(),)), X),
    ("vmap of grad", lambda q: vmap(grad(energy))(q), X),
    ("vmap of hessian", lambda q: vmap(hessian(energy))(q), X),
    ("jacrev", lambda q: jacrev(lambda z: z.sin() * z.sum())(q), X[0].clone()),
    ("jacfwd", lambda q: jacfwd(lambda z: z.sin() * z.sum())(q), X[0].clone()),
    ("vmap", lambda q: vmap(torch.dot)(q, q + 1), X),
]


@pytest.mark.parametrize("function, x", [pytest.param(*row[1:], id=row[0]) for row in ROWS])
def test_transforms_are_written_out(function: Callable[..., Any], x: Any) -> None:
    require_equal(function, exported(function, x), (x,))


class SavesWork(nn.Module):
    """Looks at values to save work, but not while it is traced."""

    def forward(self, x: Any) -> Any:
        total = vmap(torch.sum)(x)
        if not torch.compiler.is_compiling() and bool((x == 0).all()):
            return total * 0
        return total * x[:, 0]


def test_a_model_that_asks_no_values_while_it_is_traced() -> None:
    model = SavesWork().eval()
    for x in (X, X * 0):
        require_equal(model, exported(model, X), (x,))


class BesideVmap(nn.Module):
    """A recurrent layer in a model that vectorises elsewhere: the trace behind `vmap` holds the layer's kernel."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.layer = nn.LSTM(3, 4, batch_first=True, **options)

    def forward(self, x: Any) -> Any:
        return self.layer(x)[0] + vmap(torch.sum)(x)[:, None, None]


@pytest.mark.parametrize("options", [{"num_layers": 2, "bidirectional": True}, {"bias": False}])
def test_lstm_beside_vmap(options: dict[str, Any]) -> None:
    written = onnxport.convert(BesideVmap(**options).eval(), inputs=(torch.randn(2, 5, 3),))
    assert written.report.passed
    assert "LSTM" in {node.op_type for node in written.model.graph}


def test_gradients_inside_a_model_are_proved() -> None:
    """The source asks for gradients, which a run without them can't give."""
    assert onnxport.convert(force, inputs=(X.clone(),)).report.passed


def test_forces_of_a_learnt_energy() -> None:
    layer = nn.Sequential(nn.Linear(1, 8), nn.SiLU(), nn.Linear(8, 1)).eval()

    def forces(positions: Any) -> Any:
        with torch.enable_grad():
            positions = positions.detach().requires_grad_(True)
            energy = layer(torch.pdist(positions).unsqueeze(1)).sum()
            return -torch.autograd.grad(energy, positions)[0]

    assert onnxport.convert(forces, inputs=(X.clone(),)).report.passed


class Hamiltonian(nn.Module):
    """A learnt energy's symplectic gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.energy = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))

    def forward(self, x: Any) -> Any:
        q, p = vmap(grad(lambda z: self.energy(z).squeeze(-1)))(x).chunk(2, -1)
        return torch.cat([p, -q], -1)


def test_weights_keep_their_names_and_the_batch_is_free() -> None:
    model = Hamiltonian().eval()
    made = exported(model, torch.randn(3, 4))
    assert set(dict(model.named_parameters())) - {"energy.2.bias"} <= set(made.model.graph.initializers)
    x = torch.randn(5, 4)
    require_equal(model, made, (x,))


def test_a_transform_that_fails_leaves_nothing_open() -> None:
    """torch keeps a level for each transform that an error ends: all later traces would stand inside of it."""
    with pytest.raises(OnnxportError):
        exported(lambda q: grad(lambda z: z.sum() if z.sum() > 0 else z.prod())(q), X)
    assert torch._C._functorch.maybe_current_level() is None
    require_equal(torch.sin, exported(torch.sin, X), (X,))
    require_equal(jacfwd(torch.sin), exported(lambda q: jacfwd(torch.sin)(q), X[0].clone()), (X[0].clone(),))


def test_flex_attention_is_written_out() -> None:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    query, key, value = torch.randn(3, 2, 2, 8, 4)
    slopes = torch.tensor([0.5, -0.25])
    window = create_block_mask(lambda b, h, i, j: (i >= j) & (i - j < 5), None, None, 8, 8, device="cpu")

    def attend(q: Any, k: Any, v: Any, slopes: Any) -> Any:
        return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + slopes[h] * (j - i), block_mask=window)

    inputs = query, key, value, slopes
    require_equal(attend, exported(attend, *inputs), inputs)


_COMPILED_MASK = """
import torch, onnxport
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

class Attend(torch.nn.Module):
    def forward(self, q, padding):
        seen = compiled(lambda b, h, i, j: (i >= j) & padding[b, j], 2, None, 8, 8, device="cpu")
        return flex_attention(q, q, q, block_mask=seen)

torch.manual_seed(0)
compiled = torch.compile(create_block_mask, backend="eager")
inputs = torch.randn(2, 2, 8, 4), torch.tensor([[True] * 8, [True] * 6 + [False] * 2])
assert onnxport.convert(Attend().eval(), inputs=inputs).report.passed
"""


def test_a_mask_of_flex_attention_that_the_model_compiles() -> None:
    """In a process of its own: what Dynamo has compiled before, in another test, changes how it traces this."""
    command = [sys.executable, "-W", "ignore", "-c", _COMPILED_MASK]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


class LeavesOneOpen(torch.nn.Module):
    """Fails inside of a transform that nobody ends."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        torch._C._functorch._vmap_increment_nesting(2, "error")
        raise ValueError("not today")


def test_a_model_that_fails_when_it_is_run_leaves_nothing_open() -> None:
    with pytest.raises(OnnxportError, match="not today"):
        onnxport.convert(LeavesOneOpen(), inputs=(X,))
    assert torch._C._functorch.maybe_current_level() is None
