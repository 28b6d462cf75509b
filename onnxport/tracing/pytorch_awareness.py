"""Models that ask whether they are being traced, and then give other numbers: refused where no proof would find it.

Attention that leaves its mask to a kernel's flag in eager but builds one where it is exported is such a case.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from types import CodeType, FunctionType

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from onnxport.errors import TracingError
from onnxport.graph.provenance import relative_path
from onnxport.request import Request
from onnxport.tracing.pytorch_answers import run_under
from onnxport.tracing.pytorch_inputs import Call, bind
from onnxport.tracing.pytorch_reasons import OWN

_QUESTIONS = ("is_exporting", "is_compiling", "is_dynamo_compiling")
# Of the largest number of an output: far above what another kernel rounds.
_OTHER = 1e-2
UNASKED = "onnxport_unasked"  # in the meta of a traced graph: nothing asked whether it was being traced


def check_unaware(model: object, request: Request) -> None:
    """Refuses a module that gives other numbers on the examples where it learns that it is being traced; runs it for that.

    Raises:
        TracingError: it does; the message names the line that asks.
    """
    if not isinstance(model, torch.nn.Module) or not _may_ask(model):
        return
    try:
        call = bind(model, request.inputs, request.kwargs)
        with asked_if_traced(False) as asked:
            results = _numbers(call)
        if not asked:
            return
        with asked_if_traced(True):
            others = _numbers(call)
        if _alike(results, others) or not _alike(results, _numbers(call, seed=1)):  # or a random model
            return
    except Exception:  # the model's own, or weights that are not in memory: the proof decides
        return
    name, place = type(model).__name__, next(iter(asked))
    raise TracingError(
        f"{place}: {name} asks whether it is being traced, and then gives other numbers than when it is called.\n"
        "A graph of it would be wrong: choose a setting that does not depend on it (of a model of transformers "
        'model.set_attn_implementation("eager")), or pass the inputs that decide instead (token_type_ids, a full mask).'
    )


def _may_ask(module: torch.nn.Module) -> bool:
    """Whether the packages of the module's layers hold functions that ask; without running any."""
    packages = {type(item).__module__.partition(".")[0] for item in module.modules()} - {"torch", "onnxport"}
    modules = [item for name, item in list(sys.modules.items()) if name.partition(".")[0] in packages]
    functions = (item for owner in modules for item in _functions(owner))
    return any(not _names(function.__code__).isdisjoint(_QUESTIONS) for function in functions)


def _functions(owner: object) -> Iterator[FunctionType]:
    """The functions of a module, and the methods of the classes that it defines."""
    for item in list(vars(owner).values()):
        if isinstance(item, FunctionType):
            yield item
        elif isinstance(item, type) and item.__module__ == getattr(owner, "__name__", None):
            yield from (method for method in vars(item).values() if isinstance(method, FunctionType))


def _names(code: CodeType) -> set[str]:
    within = (item for item in code.co_consts if isinstance(item, CodeType))
    return {*code.co_names, *(name for item in within for name in _names(item))}


@contextmanager
def asked_if_traced(answer: bool) -> Iterator[dict[str, None]]:
    """While it is active, whoever asks outside of torch whether a trace runs gets this answer; the places that asked."""
    asked: dict[str, None] = {}
    with _questions_put(_QUESTIONS, answer, asked):
        yield asked


@contextmanager
def askers_noticed() -> Iterator[dict[str, None]]:
    """The places outside of torch that ask whether a trace runs; none where `asked_if_traced` answers them already.

    `is_dynamo_compiling` is left alone: without Dynamo it says no, as it does when the model is called.
    """
    asked: dict[str, None] = {}
    with nullcontext() if _asked_for else _questions_put(_QUESTIONS[:2], None, asked):
        yield asked


@dataclass(frozen=True)
class _Asking:
    """Questions that are put to us."""

    answer: bool | None  # None for torch's own
    own: Mapping[str, Callable[[], bool]]
    places: dict[str, None]


_asked_for: list[_Asking] = []


@contextmanager
def _questions_put(names: Sequence[str], answer: bool | None, asked: dict[str, None]) -> Iterator[None]:
    """Gives torch's own functions other code: Dynamo knows the functions themselves, and keeps what it once knows of them."""
    functions = {name: getattr(torch.compiler, name) for name in names if hasattr(torch.compiler, name)}
    own = {name: FunctionType(item.__code__, item.__globals__) for name, item in functions.items()}
    _asked_for.append(_Asking(answer, own, asked))
    for name, function in functions.items():
        function.__code__ = _CODES[name].__code__
    try:
        yield
    finally:
        for name, function in functions.items():
            function.__code__ = own[name].__code__
        _asked_for.pop()


def reply(name: str) -> bool:
    """The answer to a question of torch's, for the code that stands in its place."""
    if not _asked_for:  # another thread's question, which was put before torch's code stood there again
        return bool(getattr(torch.compiler, name)())
    asking, frame = _asked_for[-1], sys._getframe(2)
    if frame.f_code.co_filename.startswith(OWN):
        return bool(asking.own[name]())
    while frame.f_back is not None and frame.f_code.co_name.startswith("is_"):  # a package's own spelling of it
        frame = frame.f_back
    asking.places[f"{relative_path(frame.f_code.co_filename)}:{frame.f_lineno}"] = None
    return asking.own[name]() if asking.answer is None else asking.answer


def _exporting() -> bool:
    import sys  # this code runs among torch's names

    return bool(sys.modules["onnxport.tracing.pytorch_awareness"].reply("is_exporting"))


def _compiling() -> bool:
    import sys

    return bool(sys.modules["onnxport.tracing.pytorch_awareness"].reply("is_compiling"))


def _dynamo_compiling() -> bool:
    import sys

    return bool(sys.modules["onnxport.tracing.pytorch_awareness"].reply("is_dynamo_compiling"))


_CODES = {"is_exporting": _exporting, "is_compiling": _compiling, "is_dynamo_compiling": _dynamo_compiling}


def _numbers(call: Call, seed: int = 0) -> list[Tensor]:
    """The real numbers that the model gives."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        result = run_under(nullcontext(), call)
    leaves = pytree.tree_leaves(result)
    return [leaf for leaf in leaves if isinstance(leaf, Tensor) and leaf.is_floating_point()]


def _alike(results: list[Tensor], others: list[Tensor]) -> bool:
    """Whether numbers are the same but for what kernels round; what is not finite in either is left aside."""
    for one, other in zip(results, others, strict=False):
        if one.shape != other.shape:
            return False
        finite = one.isfinite() & other.isfinite()
        one, other = one[finite].double(), other[finite].double()
        if one.numel() and bool((one - other).abs().max() > _OTHER * one.abs().max()):
            return False
    return True
