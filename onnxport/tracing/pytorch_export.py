"""One trace of a module by torch.export, under what its Python code needs to be traced, and what was left out of it."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from types import FrameType
from typing import NamedTuple

import torch
from torch.export import ExportedProgram
from torch.fx import proxy
from torch.fx._lazy_graph_module import _use_lazy_graph_module
from torch.fx.experimental import proxy_tensor
from torch.overrides import TorchFunctionMode

from onnxport.frameworks.pytorch_levels import levels_kept
from onnxport.frameworks.pytorch_log import quiet
from onnxport.tracing import pytorch_fakes, pytorch_inputs
from onnxport.tracing.pytorch_arithmetic import arithmetic_remembered
from onnxport.tracing.pytorch_awareness import UNASKED, askers_noticed
from onnxport.tracing.pytorch_builtins import sizes_kept
from onnxport.tracing.pytorch_constants import known_constants
from onnxport.tracing.pytorch_detection import without_counting
from onnxport.tracing.pytorch_draws import repeated_draws
from onnxport.tracing.pytorch_hits import check_idle, hits_of_all
from onnxport.tracing.pytorch_hooks import calls_may_fail, hooked, modes_for, no_fastpath
from onnxport.tracing.pytorch_inputs import Call
from onnxport.tracing.pytorch_questions import answered
from onnxport.tracing.pytorch_shells import reaches_past, shell_of
from onnxport.tracing.pytorch_single import single_notes, single_sizes_noticed
from onnxport.tracing.pytorch_transforms import check_plain
from onnxport.tracing.pytorch_values import asks_values, failed_on_values, unchecked, without_values

# Dynamo, of buffers that it writes to; export, of a part that the user compiles; torch, of how a library declares its operators
_NEEDLESS = (
    "`create_unbacked_symint` is deprecated",
    "While compiling, we found certain side effects",
    "torch.compile is ignored when called inside torch.export",
)
_ASSIGNED = r"The tensor attributes? (.*?) (?:was|were) assigned during export"


def traced_program(
    call: Call, shapes: object, strict: bool, apart_from_user: bool, answers: TorchFunctionMode | None = None
) -> tuple[ExportedProgram, tuple[str, ...]]:
    """The traced program, and notes on what tracing left out; `answers` stand for values that are asked for."""
    pytorch_fakes.register()
    call = pytorch_inputs.apart(call)
    with (
        torch.no_grad(),
        nullcontext({"Dynamo": None}) if strict else askers_noticed() as askers,  # Dynamo answers by itself
        single_sizes_noticed() as single,
        levels_kept(),
        without_counting(),
        unchecked(),
        no_fastpath(),
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always")
        modes = [] if strict else modes_for(call.module)  # Dynamo has no part in function modes
        modes += [] if answers is None else [answers]
        asks = isinstance(answers, answered)  # of a model whose trace without answers has failed on values
        try:
            if not asks:
                program = _program(call, shapes, strict, apart_from_user, modes)
                check_plain(program)
                again = None if strict else repeated_draws(program, call)
                if again is not None:
                    modes.append(again)
                    program = _program(call, shapes, strict, apart_from_user, modes)
                asks = not strict and asks_values(program)
        except Exception as error:  # whatever the user's code or torch raises while tracing
            asks = not strict and failed_on_values(error)
            if not asks:
                raise
        if asks:
            caught.clear()
            hits = hits_of_all()
            modes.append(without_values())
            program = _program(call, shapes, strict, apart_from_user, modes, hits)
            again = repeated_draws(program, call)
            if again is not None:
                program = _program(call, shapes, strict, apart_from_user, [*modes, again], hits)
            check_idle(hits, call)
    program.graph_module.meta[UNASKED] = not askers
    notes = single_notes(single)
    for item in caught:
        assigned = re.match(_ASSIGNED, str(item.message))
        if str(item.message).startswith(_NEEDLESS):
            continue
        if assigned is None:
            warnings.warn_explicit(item.message, item.category, item.filename, item.lineno)
        elif "_flat_weights" not in assigned[1]:  # a recurrent layer's list of its own weights, set to the same again
            notes.append(f"the model sets {assigned[1]} when it is called; an ONNX graph does not")
    return program, tuple(dict.fromkeys(notes))


@contextmanager
def _unwritten() -> Iterator[None]:
    """Has torch leave out what nothing reads, a fifth of a trace.

    That is Python code of graphs that do not run, text of frames that it drops, and a second record of results beside ``val``.
    """
    captured, metadata = proxy.CapturedTraceback, proxy_tensor._extract_tensor_metadata
    proxy.CapturedTraceback, proxy_tensor._extract_tensor_metadata = _Stack, _no_metadata
    try:
        with _use_lazy_graph_module(True), arithmetic_remembered():
            yield
    finally:
        proxy.CapturedTraceback, proxy_tensor._extract_tensor_metadata = captured, metadata


def _no_metadata(result: torch.Tensor) -> None:
    """What stands in a node's ``tensor_meta``."""


class _Frame(NamedTuple):
    """What `traceback.StackSummary.from_list` takes: the source line is read then."""

    filename: str
    lineno: int
    name: str
    line: str | None = None


class _Stack(NamedTuple):
    """The Python frames of a node, read as they are; torch's own class has each of them written out first."""

    frames: list[_Frame]

    @classmethod
    def extract(cls) -> _Stack:
        """The stack of the caller, the outermost frame first."""
        frames: list[_Frame] = []
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            frames.append(_Frame(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
            frame = frame.f_back
        return cls(frames[::-1])

    def summary(self) -> list[_Frame]:
        """The frames."""
        return self.frames


def _program(
    call: Call,
    shapes: object,
    strict: bool,
    apart_from_user: bool,
    modes: Sequence[TorchFunctionMode],
    hits: hits_of_all | None = None,
) -> ExportedProgram:
    # Dynamo's graph is asked for what writing its code leaves behind.
    without = nullcontext() if strict else _unwritten()
    with quiet(), without, calls_may_fail(), ExitStack() as stack:
        for mode in modes:
            stack.enter_context(mode)
        shell = shell_of(call.module) if apart_from_user else None
        for module in (call.module,) if shell is None else (shell, call.module):
            known = nullcontext() if hits is None else known_constants(call.module, module)
            sizes = nullcontext() if hits is None else sizes_kept(call.module)
            with known, sizes, hits or nullcontext(), hooked(module, modes):
                program = torch.export.export(module, call.args, call.kwargs, dynamic_shapes=shapes, strict=strict)
            if module is call.module or not reaches_past(program, call.module):
                break
        return program
