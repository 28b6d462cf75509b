"""Functions of torch that ask a tensor for its value, in a form that asks none, so that torch.export can trace them.

Each is the function's own definition, in torch's documentation or source, written with tensors where torch takes the value as a
Python number or condition.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from itertools import combinations, combinations_with_replacement
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.export import ExportedProgram
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.overrides import TorchFunctionMode

from onnxport.tracing.pytorch_numbers import Whole, WholeNumbers


def _equal(input: Tensor, other: Tensor) -> Tensor | bool:
    return input.shape == other.shape and (input == other).all()


def _allclose(input: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    return torch.isclose(input, other, rtol=rtol, atol=atol, equal_nan=equal_nan).all()


def _cov(
    input: Tensor, *, correction: int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None
) -> Tensor:
    """The covariance of the rows, with frequencies `fweights` and importances `aweights` of the columns."""
    rows = input if input.dim() == 2 else input.reshape(1, -1)
    weights = fweights if aweights is None else aweights if fweights is None else fweights * aweights
    weighted = rows if weights is None else rows * weights
    count = torch.scalar_tensor(rows.shape[1], dtype=torch.int64) if weights is None else weights.sum()
    freedom = count - correction
    if aweights is not None and weights is not None and correction != 0:
        freedom = count - correction * (weights * aweights).sum() / count
    deviations = rows - (weighted.sum(1) / count).unsqueeze(1)
    right = deviations if weights is None else deviations * weights
    covariance = deviations @ right.transpose(0, 1).conj()
    return (covariance / torch.where(freedom <= 0, torch.zeros_like(freedom), freedom)).squeeze()


def _corrcoef(input: Tensor) -> Tensor:
    """The covariance over the deviations of both rows, cut to [-1, 1] (in both parts of a complex number)."""
    covariance = _cov(input)
    if covariance.dim() == 0:
        return covariance / covariance
    variances = covariance.diagonal()
    deviations = (variances.real if variances.is_complex() else variances).sqrt()
    result = covariance / deviations[:, None] / deviations[None]
    if not result.is_complex():
        return result.clip(-1, 1)
    return torch.complex(result.real.clip(-1, 1), result.imag.clip(-1, 1))


def _gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Tensor | float, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    """torch's, but for its error where a variance is negative: here that one counts as `eps`."""
    if not isinstance(var, Tensor):
        var = var * torch.ones_like(input)
    elif var.shape != input.shape and var.shape == input.shape[:-1]:
        var = var.unsqueeze(-1)
    var = var.clamp(min=eps)
    loss = 0.5 * (var.log() + (input - target) ** 2 / var)
    loss = loss + 0.5 * math.log(2 * math.pi) if full else loss
    return {"none": lambda: loss, "mean": loss.mean, "sum": loss.sum}[reduction]()


def _combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """The rows of `r` elements; which these are depends on the number of elements alone."""
    choose = combinations_with_replacement if with_replacement else combinations
    chosen = list(choose(range(input.shape[0]), r))
    return input[torch.tensor(chosen, dtype=torch.int64).reshape(-1, r)]


def _one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """Where no number of classes is given, as many as the largest needs."""
    if num_classes != -1:
        return F.one_hot(tensor, num_classes)
    count = (tensor.max() + 1).item()
    torch._check(count >= 1)
    classes: Tensor = torch.arange(count, dtype=tensor.dtype)
    return (tensor.unsqueeze(-1) == classes).to(torch.int64)


def _within(index: Tensor, size: int) -> Tensor:
    """An index from 0 to `size`; below 0 it counts from the end."""
    return torch.where(index < 0, index + size, index).clamp(0, size)


def _narrow(numbers: WholeNumbers, input: Tensor, dim: int, start: Whole | Tensor, length: Whole | Tensor) -> Tensor:
    """Either may be a tensor without a dimension."""
    size = input.shape[dim]
    first, count = numbers.number(start), numbers.number(length)
    if isinstance(start, Tensor) and not statically_known_true(first >= 0):
        first = _within(start, size).item()
        torch._check(first >= 0)
    torch._check(count >= 0)
    torch._check(first + count <= size)
    return input.narrow(dim, first, count)


def _tensor_split(input: Tensor, tensor_indices_or_sections: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    size = input.shape[dim]
    bounds = [_within(item, size) for item in tensor_indices_or_sections]
    parts = []
    for start, end in zip([torch.tensor(0), *bounds], [*bounds, torch.tensor(size)], strict=True):
        first, length = start.item(), (end - start).clamp(min=0).item()
        torch._check(first >= 0)
        torch._check(length >= 0)
        torch._check(first + length <= size)
        parts.append(input.narrow(dim, first, length))
    return tuple(parts)


def _losses(log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, blank: int) -> Tensor:
    """A fake of the CTC loss of each sequence [batch]; `targets` are [batch, length]."""
    return log_probs.new_empty(log_probs.shape[1])


def _run_losses(
    log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, blank: int
) -> Tensor:
    return torch.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, 0)


@cache
def _ctc_losses() -> Callable[..., Tensor]:
    """The operator of the losses, defined when one is traced: a definition takes torch some milliseconds."""
    operator = torch.library.custom_op(
        "onnxport::ctc_losses",
        _run_losses,
        mutates_args=(),
        schema="(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, int blank) -> Tensor",
    )
    operator.register_fake(_losses)
    return operator


def _ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor | tuple[int, ...],
    target_lengths: Tensor | tuple[int, ...],
    blank: int = 0,
    reduction: str | int = 1,
    zero_infinity: bool = False,
) -> Tensor:
    """The losses by one operator, then their sum or the mean over the targets' lengths."""
    inputs, lengths = (torch.as_tensor(item, dtype=torch.int64) for item in (input_lengths, target_lengths))
    batched = log_probs.dim() == 3
    if not batched:
        log_probs, inputs, lengths = log_probs.unsqueeze(1), inputs.reshape(1), lengths.reshape(1)
        targets = targets.reshape(1, -1)
    if targets.dim() == 1:  # the targets of all sequences one after the other
        index = (lengths.cumsum(0) - lengths)[:, None] + torch.arange(targets.shape[0])
        targets = targets[index.clamp(max=targets.shape[0] - 1)]
    losses = _ctc_losses()(log_probs, targets, inputs, lengths, blank)
    if zero_infinity:
        losses = torch.where(losses.isinf(), torch.zeros_like(losses), losses)
    if reduction in (1, "mean"):
        return (losses / lengths.clamp(min=1).to(losses.dtype)).mean()
    return losses.sum() if reduction in (2, "sum") else losses if batched else losses.squeeze(0)


def _linear_cross_entropy(*args: Any, options: object = None, **kwargs: Any) -> Tensor:
    """In one piece: `options` only say how it is cut in chunks, with gradients computed ahead, to save memory."""
    result: Tensor = F.linear_cross_entropy(*args, **kwargs)
    return result


def _of(name: str) -> tuple[Any, ...]:
    """The function of torch and the method of Tensor, as far as they exist."""
    return tuple(getattr(owner, name) for owner in (torch, Tensor) if hasattr(owner, name))


_FORMS: dict[Any, Callable[..., Any]] = {
    function: form
    for name, form in (
        ("equal", _equal),
        ("allclose", _allclose),
        ("cov", _cov),
        ("corrcoef", _corrcoef),
        ("combinations", _combinations),
        ("ctc_loss", _ctc_loss),
    )
    for function in _of(name)
} | {
    F.ctc_loss: _ctc_loss,
    F.one_hot: _one_hot,
    F.gaussian_nll_loss: _gaussian_nll_loss,
    getattr(F, "linear_cross_entropy", None): _linear_cross_entropy,  # torch has it from 2.12 on
}
# These ask only where one of these arguments, from the first of their places on, is a tensor of the given rank.
_BY_ARGUMENT: dict[Any, tuple[tuple[str, ...], int, int]] = {
    **dict.fromkeys(_of("narrow"), (("start", "length"), 2, 0)),
    **dict.fromkeys(_of("tensor_split"), (("tensor_indices_or_sections",), 1, 1)),
}


# What torch traces, but as an operator that depends on a value.
_OPERATORS = frozenset(
    "aten.narrow.Tensor aten.tensor_split.tensor_indices_or_sections torch_nn._linear_cross_entropy_batch_chunked.default "
    "torch_nn._linear_cross_entropy_batch_chunked_no_reduction.default".split()
)


def asks_values(program: ExportedProgram) -> bool:
    """Whether a traced program holds one of the functions that have a form without values."""
    return any(str(node.target) in _OPERATORS for node in program.graph.nodes if node.op == "call_function")


def failed_on_values(error: Exception) -> bool:
    """Whether tracing failed since something depends on a tensor's value."""
    kinds = ("DataDependent", "DynamicOutputShape", "PendingUnbacked")
    return any(kind in type(error).__name__ for kind in kinds) or "data-dependent" in str(error)


def failed_on_sizes(error: Exception) -> bool:
    """Whether tracing failed since Python decides on how many elements were selected."""
    return "Could not guard on data-dependent" in str(error) and "Size-like symbols: u" in str(error)


@contextmanager
def unchecked() -> Iterator[None]:
    """Distributions that do not look at the values of their parameters: these checks have no place in a graph."""
    before = torch.distributions.Distribution._validate_args
    torch.distributions.Distribution.set_default_validate_args(False)
    try:
        yield
    finally:
        torch.distributions.Distribution.set_default_validate_args(before)


class without_values(TorchFunctionMode):
    """While it is active, the functions that ask a tensor for its value are traced in their form that asks none."""

    def __init__(self) -> None:
        super().__init__()
        self._numbers = WholeNumbers()

    def __torch_function__(self, func: Any, types: object, args: Any = (), kwargs: dict[str, Any] | None = None) -> Any:
        """Passes every call on; those of the table to their form."""
        kwargs = kwargs or {}
        form = _FORMS.get(func)
        if form is None and func in _BY_ARGUMENT:
            names, position, rank = _BY_ARGUMENT[func]
            given = [*args[position : position + len(names)], *(kwargs[name] for name in names if name in kwargs)]
            if any(isinstance(item, Tensor) and item.dim() == rank for item in given):
                form = partial(_narrow, self._numbers) if rank == 0 else _tensor_split
        if func is Tensor.__bool__:
            truth = self._numbers.truth(args[0])
            if truth is not None:
                return truth
        result = (form or func)(*args, **kwargs)
        if not kwargs:
            self._numbers.note(func, args, result)
        return result
