"""Answers to what a model asks of its tensors' values: kept from a run on the examples, given again while it is traced.

That is the strategy ``"trace"``: branches of Python are frozen as the examples take them, and named.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch._subclasses import FakeTensor
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from onnxport.errors import TracingError
from onnxport.graph.provenance import relative_path
from onnxport.tracing.pytorch_inputs import Call
from onnxport.tracing.pytorch_reasons import OWN

_ASKS = frozenset("__bool__ __int__ __float__ __index__ item tolist is_nonzero".split())
_LOOPS = frozenset("__iter__ unbind".split())
_QUESTIONS = 5_000  # of one run with answers that are given


@dataclass(frozen=True)
class Place:
    """Where a model asks for a value."""

    file: str
    line: int
    ask: str

    def __str__(self) -> str:
        return f"{relative_path(self.file)}:{self.line}"


Answers = dict[Place, list[Any]]


def place_of_ask(ask: str) -> Place:
    """The line of the user's, or of a library's, that asks: the innermost that is neither torch's nor ours."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(OWN):
        frame = frame.f_back
    return Place(frame.f_code.co_filename, frame.f_lineno, ask)


class _Recorded(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.answers: Answers = {}

    def __torch_function__(self, func: Any, types: object, args: Any = (), kwargs: dict[str, Any] | None = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", "")
        if name in _ASKS:
            self.answers.setdefault(place_of_ask(name), []).append(result)
        elif name in _LOOPS and args and isinstance(args[0], Tensor):
            self.answers.setdefault(place_of_ask(name), []).append(len(args[0]) if args[0].dim() else 0)
        return result


def recorded(call: Call) -> Answers:
    """What the model asks for on copies of its inputs, and gets.

    Raises:
        Exception: what the model raises on them.
    """
    return recorded_with_result(call)[0]


def recorded_with_result(call: Call) -> tuple[Answers, Any]:
    """What the model asks for, and what it gives.

    Raises:
        Exception: what the model raises.
    """
    mode = _Recorded()
    result = run_under(mode, call)
    return mode.answers, result


def run_under(mode: AbstractContextManager[object], call: Call) -> Any:
    """What the model gives on copies of its inputs, while the mode is active.

    Raises:
        Exception: what the model raises.
    """
    args, kwargs = pytree.tree_map(_copied, (call.args, call.kwargs))
    with torch.no_grad(), _with_buffers_kept(call.module), mode:
        return call.module(*args, **kwargs)


def writes(call: Call) -> bool:
    """Whether the model writes to its inputs or to its buffers.

    Raises:
        Exception: what the model raises.
    """
    args, kwargs = pytree.tree_map(_copied, (call.args, call.kwargs))
    held = [*(leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)), *call.module.buffers()]
    before = [tensor.clone() for tensor in held]
    with torch.no_grad(), _with_buffers_kept(call.module):
        call.module(*args, **kwargs)
        return not all(map(_alike, held, before))


def _alike(one: Tensor, other: Tensor) -> bool:
    if not one.is_floating_point():
        return torch.equal(one, other)
    return bool(((one == other) | (one.isnan() & other.isnan())).all())


@contextmanager
def _with_buffers_kept(module: torch.nn.Module) -> Iterator[None]:
    """Gives the module's buffers their numbers back at the end."""
    buffers = [(buffer, buffer.clone()) for buffer in module.buffers()]
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, before in buffers:
                buffer.copy_(before)


def _copied(leaf: object) -> Any:
    return leaf.clone() if isinstance(leaf, Tensor) else leaf


class replayed(TorchFunctionMode):
    """While it is active, tensors of a trace, or of another `kind`, give these answers, each place its own in order."""

    def __init__(self, answers: Answers, kind: type[Tensor] = FakeTensor) -> None:
        super().__init__()
        self._kind = kind
        self._next: dict[Place, Iterator[Any]] = {place: itertools.cycle(items) for place, items in answers.items()}
        self.used: set[Place] = set()
        self._count = 0

    def __torch_function__(self, func: Any, types: object, args: Any = (), kwargs: dict[str, Any] | None = None) -> Any:
        """Gives an answer from the run; passes every other call on."""
        name = getattr(func, "__name__", "")
        asks, loops = name in _ASKS, name in _LOOPS
        if (asks or loops) and args and isinstance(args[0], self._kind):
            place = place_of_ask(name)
            answer = next(self._next.get(place, iter(())), None)
            if asks and answer is not None:
                self._count += 1
                if self._count > _QUESTIONS:  # a loop that ends by the answer
                    raise RecursionError(f"{place} asks without end")
                self.used.add(place)
                return answer
            if loops and answer and args[0].dim() and isinstance(args[0].shape[0], torch.SymInt):
                self.used.add(place)
                torch._check(args[0].shape[0] == answer)
        return func(*args, **(kwargs or {}))


def frozen_notes(used: set[Place], runs: Sequence[Answers]) -> list[str]:
    """A note for each place whose answer the trace holds for good; `runs` are those of the examples.

    Raises:
        TracingError: two examples get different answers there.
    """
    notes = []
    for place in sorted(used, key=str):
        given = [run.get(place, []) for run in runs]
        for number, others in enumerate(given[1:], start=1):
            if others != given[0]:
                raise TracingError(
                    f"{place}: a branch or size in Python depends on a tensor's value, and the examples differ there: "
                    f"{_shown(given[0])} for inputs[0], {_shown(others)} for inputs[{number}].\n"
                    'strategy="trace" freezes what the examples take: give those that take the same way.'
                )
        notes.append(f"frozen as on the examples: {place} asks for a tensor's value and got {_shown(given[0])}")
    return notes


def _shown(answers: Sequence[Any]) -> str:
    shown = list(dict.fromkeys(map(repr, answers)))
    return ", ".join(shown[:4]) + (", ..." if len(shown) > 4 else "") if shown else "nothing"
