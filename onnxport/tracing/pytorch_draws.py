"""Random numbers that a model draws the same each time, since it seeds the generator itself: these are constants.

``torch.randn(8, generator=torch.Generator().manual_seed(0))`` within forward gives eight numbers that never change. Which draws
are of that kind shows on two runs, between which torch's own generator goes on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from onnxport.tracing.pytorch_answers import run_under
from onnxport.tracing.pytorch_inputs import Call

_NEW = frozenset("rand randn randint randperm normal rand_like randn_like randint_like".split())
_FILLS = frozenset("uniform_ normal_ random_ exponential_ log_normal_ cauchy_ geometric_".split())


@dataclass(frozen=True)
class _Draw:
    """One call that draws, and what it gave."""

    name: str
    sizes: tuple[int, ...]
    numbers: Tensor


class _Recorded(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.draws: list[_Draw] = []

    def __torch_function__(self, func: Any, types: object, args: Any = (), kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        sizes = tuple(_sizes(name, args, kwargs))
        result = func(*args, **kwargs)
        if _draws(name, args):
            self.draws.append(_Draw(name, sizes, result.detach().clone()))
        return result


class repeated(TorchFunctionMode):
    """While it is active, the draws of a run are given again in order; None stands for one that differs from run to run."""

    def __init__(self, draws: list[_Draw | None]) -> None:
        super().__init__()
        self._draws = draws
        self._next: Iterator[_Draw | None] = iter(draws)

    def __enter__(self) -> Any:
        self._next = iter(self._draws)
        return super().__enter__()

    def __torch_function__(self, func: Any, types: object, args: Any = (), kwargs: dict[str, Any] | None = None) -> Any:
        """Gives the numbers of a draw; passes every other call on."""
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        draw = next(self._next, None) if _draws(name, args) else None
        if draw is None:
            return func(*args, **kwargs)
        if draw.name != name:
            raise RuntimeError(f"the trace draws by {name} where the model drew by {draw.name}")
        for size, before in zip(_sizes(name, args, kwargs), draw.sizes, strict=True):
            torch._check(size == before)  # of another size there are other numbers
        return args[0].copy_(draw.numbers) if name in _FILLS else draw.numbers.clone()


def repeated_draws(program: ExportedProgram, call: Call) -> repeated | None:
    """The mode under which a traced model's draws are the numbers that it draws each time; None where none are the same."""
    graphs = [part.graph for part in program.graph_module.modules() if isinstance(part, torch.fx.GraphModule)]
    if not any(_is_random(node.target) for graph in graphs for node in graph.nodes):
        return None
    runs = [_draws_of(call), _draws_of(call)]
    if not runs[0] or len(runs[0]) != len(runs[1]):
        return None
    draws = [one if _same(one, other) else None for one, other in zip(*runs, strict=True)]
    return repeated(draws) if any(draw is not None for draw in draws) else None


def has_draws(call: Call) -> bool:
    """Whether the model draws numbers that follow from no tensor."""
    return bool(_draws_of(call))


def _draws_of(call: Call) -> list[_Draw]:
    """What the model draws; nothing where it does not run. A first number goes to nobody, so that no two calls start alike."""
    torch.rand(1)
    mode = _Recorded()
    try:
        run_under(mode, call)
    except Exception:  # the model's own
        return []
    return mode.draws


def _draws(name: str, args: Any) -> bool:
    """Whether a call draws numbers that follow from no tensor."""
    if name == "normal":  # also of means and deviations that are tensors
        return not any(isinstance(item, Tensor) for item in args)
    return name in _NEW or name in _FILLS


def _sizes(name: str, args: Any, kwargs: dict[str, Any]) -> Iterator[Any]:
    """The whole numbers of a call, traced ones among them; of the tensor that it fills or is to be like, its sizes."""
    if not _draws(name, args):
        return
    for item in pytree.tree_leaves((args, {key: item for key, item in kwargs.items() if key != "generator"})):
        if isinstance(item, Tensor):
            yield from item.shape
        elif isinstance(item, (int, torch.SymInt)) and not isinstance(item, bool):
            yield item


def _is_random(target: Any) -> bool:
    """Whether a traced operator is one of the draws; attention and dropout, which may draw too, are none."""
    if not isinstance(target, torch._ops.OpOverload):
        return False
    name = target._schema.name.partition("::")[2].removesuffix("_functional")
    return name in _NEW or f"{name.removesuffix('_')}_" in _FILLS


def _same(one: _Draw, other: _Draw) -> bool:
    return one.name == other.name and one.sizes == other.sizes and torch.equal(one.numbers, other.numbers)
