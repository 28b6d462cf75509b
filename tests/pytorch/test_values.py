"""Functions that ask a tensor for its value: traced in their form that asks none, equal to torch's own."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is an extra")

import torch.nn.functional as F  # noqa: E402

from onnxport.errors import TracingError, UnsupportedOperator  # noqa: E402
from onnxport.tracing.pytorch_hits import TurnsMatter, check_idle, hits_of_all  # noqa: E402
from onnxport.tracing.pytorch_inputs import Call  # noqa: E402
from onnxport.validation.runners.pytorch import to_numpy  # noqa: E402
from tests.evidence import require_equal  # noqa: E402
from tests.pytorch.exporting import exported  # noqa: E402

pytestmark = pytest.mark.pytorch


def numbers(*shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=generator)


X, WEIGHTS, COUNTS = numbers(4, 6), numbers(6).abs(), torch.tensor([1, 2, 0, 1, 3, 1])

ROWS: list[tuple[str, Callable[..., Any], tuple[torch.Tensor, ...]]] = [
    ("equal", torch.equal, (X, X.clone())),
    ("equal of another shape", lambda x, y: (torch.equal(x, y), x + 1), (X, X[:2].clone())),
    ("equal with NaN", lambda x, y: x.equal(y), (X / 0 * 0, X / 0 * 0)),
    ("allclose", lambda x, y: torch.allclose(x, y, rtol=0.1), (X, X * 1.05)),
    ("allclose with NaN", lambda x, y: x.allclose(y, equal_nan=True), (X / 0 * 0, X / 0 * 0)),
    ("cov", torch.cov, (X,)),
    ("cov of a vector", torch.cov, (X[0].clone(),)),
    ("cov, weighted", lambda x, w, c: torch.cov(x, correction=2, fweights=c, aweights=w), (X, WEIGHTS, COUNTS)),
    ("corrcoef", torch.corrcoef, (X,)),
    ("combinations", lambda x: torch.combinations(x, 3), (X[0].clone(),)),
    ("combinations, none", lambda x: torch.combinations(x, 4), (X[0, :2].clone(),)),
    ("combinations, repeated", lambda x: torch.combinations(x, with_replacement=True), (X[0].clone(),)),
    ("gaussian_nll_loss", lambda x, y, v: F.gaussian_nll_loss(x, y, v, full=True), (X, X + 1, X.abs())),
    ("its class", torch.nn.GaussianNLLLoss(reduction="none"), (X, X + 1, X[:, 0].abs())),
    ("one_hot", lambda x: F.one_hot(x), (COUNTS,)),
    ("narrow", lambda x, k: x.narrow(1, k, 2), (X, torch.tensor(-5))),
    ("narrow to a length", lambda x, k: x.narrow(1, 1, k) * 2, (X, torch.tensor(3))),
    (
        "narrow to what is left",
        lambda x, k: x.narrow(1, k, x.shape[1] - k) + x.narrow(1, 0, 6 - k),
        (X, torch.tensor(2)),
    ),
    ("narrow, compared", lambda x, k: x.narrow(1, 0, 2 * k + 1) if 3 + k - k == 3 else x, (X, torch.tensor(2))),
    ("narrow, written to", lambda x, k: (x.clone().narrow(0, k, 2).zero_() + 1, x), (X, torch.tensor(1))),
    ("tensor_split", lambda x, k: x.tensor_split(k, 1), (X, torch.tensor([1, 1, 4]))),
    ("tensor_split, beyond", lambda x, k: torch.tensor_split(x, k, dim=1), (X, torch.tensor([4, 2, 9, -1]))),
    ("item", lambda x: x * x.max().item(), (X,)),
]


class Switch(torch.nn.Module):
    """Branches on a buffer, as models do that were trained in stages."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("stages", torch.tensor([1.0, 0.0]))
        self.register_buffer("width", torch.tensor(3), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.stages[1] > 0:
            return x
        return x.reshape(x.shape[0], -1, self.width).sum(1) if self.stages[0] > 0 else x + 1


def written_sizes(x: torch.Tensor) -> torch.Tensor:
    sizes = torch.zeros(2, dtype=torch.int64)
    sizes[0] = 2
    sizes[1:] += 3
    return x.reshape(-1, *sizes.tolist())


# What asks for values that no input has a part in.
CONSTANT: list[tuple[str, Callable[..., Any]]] = [
    ("sizes in a tensor", lambda x: x.reshape(-1, int(torch.tensor([2, 3]).prod()))),
    ("a length in a tensor", lambda x: x[:, :3] + torch.arange(torch.tensor([3, 9])[0])),
    ("levels one after the other", lambda x: x.split([int(h * w) for h, w in torch.tensor([[1, 2], [2, 2]])], dim=1)),
    ("written to", written_sizes),
    ("a branch on a buffer", Switch()),
]
ROWS += [(name, function, (X,)) for name, function in CONSTANT]


@pytest.mark.parametrize("function, inputs", [pytest.param(*row[1:], id=row[0]) for row in ROWS])
def test_is_torchs_own(function: Callable[..., Any], inputs: tuple[torch.Tensor, ...]) -> None:
    model = exported(function, *inputs)
    require_equal(function, model, inputs)


# Their numbers in torch are not those of its own decomposition, which must not be taken instead.
REFUSED: list[tuple[Callable[..., Any], torch.Tensor, str]] = [
    (lambda x: F.interpolate(x, size=(5, 4), mode="bilinear"), torch.zeros(1, 3, 8, 8, dtype=torch.uint8), "processor"),
    (torch.matrix_exp, torch.eye(3, dtype=torch.float16), "float32"),
    (torch.linalg.eigvals, torch.eye(3), "eigvalsh"),
    (lambda x: torch.nextafter(x, x + 1), torch.ones(3, dtype=torch.bfloat16), "BFLOAT16"),
    (lambda x: F.multilabel_margin_loss(x, x.long(), reduction="none"), torch.ones(3), "batch of one"),
]


@pytest.mark.parametrize("function, x, reason", REFUSED)
def test_what_has_no_other_form_is_refused(function: Callable[..., Any], x: torch.Tensor, reason: str) -> None:
    with pytest.raises(UnsupportedOperator, match=reason):
        exported(function, x)


def test_bfloat16_goes_in_and_comes_out() -> None:
    """Scalars stay scalars, and what ONNX resizes in no bfloat16 is computed in float32."""

    def function(x: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x, scale_factor=2, mode="bilinear") * factor

    x, factor = numbers(1, 2, 3, 3).bfloat16(), torch.tensor(2.0, dtype=torch.bfloat16)
    found = exported(function, x, factor)(to_numpy(x), to_numpy(factor))
    wanted = to_numpy(function(x, factor))
    assert found.dtype == wanted.dtype
    np.testing.assert_allclose(found.astype(np.float32), wanted.astype(np.float32), rtol=2**-7)


def test_an_error_on_a_value_names_the_line() -> None:
    with pytest.raises(TracingError, match=r"(?s)test_values.py:\d+: .*float\(x.sum\(\)\) > 0.*torch.where"):
        exported(lambda x: x[:1] if float(x.sum()) > 0 else x - 1, X)


def test_an_error_on_quantised_modules_names_the_module() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch deprecates them
        model = torch.nn.Sequential(
            torch.ao.nn.quantized.Quantize(0.1, 0, torch.quint8), torch.ao.nn.quantized.Linear(6, 2)
        )
    with pytest.raises(TracingError, match=r"(?s)0: torch.ao.nn.quantized.*PT2E"):
        exported(model, X)


def test_distributions_are_not_checked() -> None:
    def log_density(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.distributions.Normal(x, F.softplus(x)).log_prob(y)

    before = torch.distributions.Distribution._validate_args
    require_equal(log_density, exported(log_density, X, X + 1), (X, X + 1))
    assert torch.distributions.Distribution._validate_args == before


def test_the_forms_follow_the_values() -> None:
    """The graph computes the answer: other inputs give another."""
    model = exported(lambda x, y: torch.allclose(x, y), X, X.clone())
    assert model(X.numpy(), X.numpy())
    assert not model(X.numpy(), X.numpy() + 1)
    split = exported(lambda x, k: x.tensor_split(k, 1), X, torch.tensor([1, 4]))
    parts = split(X.numpy(), np.array([2, 3]))
    assert [part.shape[1] for part in parts] == [2, 1, 3]


def mixed(x: torch.Tensor) -> torch.Tensor:
    known = torch.zeros(3)
    view = known[:2]
    known += x[0, :3]
    return x + 1 if view[0] > 0 else x


def test_a_constant_that_gets_an_inputs_values_is_none() -> None:
    """The question is asked of each input anew."""
    model = exported(mixed, X)
    for x in (X, -X, X.abs(), -X.abs()):
        require_equal(mixed, model, (x,))


def test_the_users_buffers_are_not_written_to() -> None:
    model = Switch()
    model.forward = lambda x: x + 1 if model.stages.clone().add_(1)[0] > 0 else x  # type: ignore[method-assign]
    exported(model, X)
    assert model.stages.tolist() == [1.0, 0.0]


def test_a_covariance_without_degrees_of_freedom() -> None:
    with pytest.warns(UserWarning, match="degrees of freedom"):
        require_equal(lambda x: x.cov(correction=7), exported(lambda x: x.cov(correction=7), X), (X,))


def test_a_condition_on_the_answer_is_a_branch() -> None:
    def branches(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x if torch.allclose(x, y) else y

    made = exported(branches, X, X + 1)
    for given in ((X, X + 1), (X, X + 1e-9)):
        require_equal(branches, made, given)


@pytest.mark.skipif(not hasattr(F, "linear_cross_entropy"), reason="torch before 2.12 lacks it")
def test_chunks_of_the_linear_cross_entropy_do_not_matter() -> None:
    weight, target = numbers(5, 6), torch.tensor([0, 4, 2, 1])
    options = torch.nn.LinearCrossEntropyOptions(batch_chunk_size=2)
    model = exported(lambda x, y: F.linear_cross_entropy(x, weight, y, options=options), X, target)
    require_equal(lambda x, y: F.linear_cross_entropy(x, weight, y), model, (X, target))


class Experts(torch.nn.Module):
    """Rows of the input by the experts that they choose, as mixtures of experts are written; `idle` is added in every turn."""

    def __init__(self, idle: float = 0.0) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(numbers(6, 4, 4))
        self.idle = idle

    def forward(self, x: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
        result = torch.zeros_like(x)
        mask = F.one_hot(chosen, num_classes=6).permute(1, 0)
        for expert in (mask.sum(-1) > 0).nonzero():
            if expert == 5:
                continue
            (rows,) = torch.where(mask[expert].squeeze(0))
            result += self.idle
            if rows.numel() == 0:
                continue
            result.index_add_(0, rows, x[rows] @ self.weight[expert[0]])
        return result


def test_a_loop_over_what_is_hit_runs_for_all() -> None:
    """An expert that no row of the example chooses is there for other inputs."""
    experts, x = Experts().eval(), numbers(5, 4)
    chosen = torch.tensor([0, 0, 2, 5, 2])
    model = exported(experts, x, chosen)
    for other in (chosen, torch.tensor([4, 3, 1, 1, 5]), torch.tensor([5, 5, 5, 5, 5])):
        require_equal(experts, model, (x, other))


class PaddedExperts(torch.nn.Module):
    """The mask has a place more than there are experts, for tokens that none takes, as DBRX's mixture is written."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(numbers(3, 4, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        chosen = (x @ self.weight[0][:, :3]).topk(2).indices
        mask = F.one_hot(chosen, num_classes=4).permute(2, 1, 0)
        result = torch.zeros_like(x)
        for expert in mask.sum(dim=(-1, -2)).greater(0).nonzero():
            expert = expert[0]
            place, rows = torch.where(mask[expert])
            result.index_add_(0, rows, x[rows] @ self.weight[expert] * (1.0 + place[:, None]))
        return result


def test_a_place_of_no_expert_is_no_turn() -> None:
    experts = PaddedExperts().eval()
    model = exported(experts, numbers(5, 4))
    for seed in range(3):
        require_equal(experts, model, (torch.randn(7, 4, generator=torch.Generator().manual_seed(seed)),))


class Segments(torch.nn.Module):
    """Cuts its input where a grid of its own tells: by numbers whose count the grid's values decide."""

    def __init__(self) -> None:
        super().__init__()
        self.grid = torch.nn.Buffer(torch.tensor([[2, 3, 1], [1, 2, 2]]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        sizes = torch.repeat_interleave(self.grid[:, 1] * self.grid[:, 2], self.grid[:, 0])
        ends = F.pad(sizes.cumsum(0), (1, 0))
        kept = ends[ends > 0]
        parts = torch.split(x, (ends[1:] - ends[:-1]).tolist(), dim=1)
        return torch.cat([part.flip(1) for part in parts], 1) * kept.nonzero().sum().item()


def test_constants_whose_number_their_values_decide_are_known() -> None:
    model = exported(Segments(), numbers(3, 10))
    require_equal(Segments(), model, (numbers(3, 10) + 1,))


class NamedExperts(torch.nn.ModuleDict):
    """Experts by name, and a router that takes the type that it has, as NLLB's mixture is written."""

    def __init__(self):
        super().__init__({f"expert_{i}": torch.nn.Linear(4, 4) for i in range(3)})
        self["router"] = torch.nn.Linear(4, 3)

    def forward(self, x):
        router = self["router"].to(x.dtype)
        mask = torch.nn.functional.one_hot(router(x).argmax(-1), 3).T
        result = torch.zeros_like(x)
        for expert in (mask.sum(-1) > 0).nonzero():
            (rows,) = torch.where(mask[expert].squeeze(0))
            result.index_add_(0, rows, self[f"expert_{expert[0]}"](x[rows]))
        return result


def test_experts_by_their_names():
    experts, x = NamedExperts().eval(), numbers(5, 4)
    model = exported(experts, x)
    for seed in range(3):
        require_equal(experts, model, (torch.randn(7, 4, generator=torch.Generator().manual_seed(seed)),))


def test_a_loop_whose_idle_turns_count_is_refused() -> None:
    hits, inputs = hits_of_all(), (numbers(5, 4), torch.tensor([0, 0, 2, 5, 2]))
    hits.loops = 1
    check_idle(hits, Call(Experts().eval(), inputs, {}))
    with pytest.raises(TurnsMatter):
        check_idle(hits, Call(Experts(idle=1.0).eval(), inputs, {}))


class Padded(torch.nn.Module):
    """Pads by a number that it works out in tensors of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("stride", torch.tensor(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        more = torch.ceil(x.shape[-1] / self.stride).to(torch.int64) * self.stride - x.shape[-1]
        padded = F.pad(x, (self.stride, more))
        return padded.unflatten(-1, (-1, 4)).sum(-1) if padded.shape[-1] % 4 == 0 else x


def test_sizes_from_constant_tensors_are_numbers() -> None:
    padded, x = Padded().eval(), numbers(2, 7)
    assert exported(padded, x).model.graph.outputs[0].shape[1] == 3
    require_equal(padded, exported(padded, x), (x,))
