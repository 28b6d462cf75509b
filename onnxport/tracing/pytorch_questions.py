"""Questions that a model asks of its tensors' values while it is traced, ``if x.sum() > 0`` or ``if x.max().item() > 3``.

Each gets a given answer, and leaves a mark in the graph behind what it asks for.
"""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any

import torch
from torch._subclasses import FakeTensor
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.overrides import TorchFunctionMode

from onnxport.graph.provenance import relative_path
from onnxport.tracing.pytorch_answers import place_of_ask
from onnxport.tracing.pytorch_reasons import OWN

_ASKS = frozenset("__bool__ is_nonzero item _assert".split())
_MARK = "onnxport asks at "
_MOST = 512  # questions of one trace
_SIZES = 1 << 12  # that depend on values, between two questions
_ASSERTS = torch._assert.__code__  # asks and raises for the function that calls it
_MARKER = torch.ops.aten._assert_async.msg


class EndlessQuestions(Exception):
    """A loop goes on for as long as a value asks."""


class answered(TorchFunctionMode):
    """While it is active, questions for the truth of traced values get these answers in turn, and leave marks in the graph.

    With `apart`, sizes that depend on values have other names behind each yes, so that no two ways mean different sizes by one.
    """

    def __init__(self, answers: Sequence[bool], *, apart: bool = False) -> None:
        super().__init__()
        self._given = tuple(answers)
        self._answers: Iterator[bool] = iter(())
        self.asked = 0  # questions of the last trace
        self._apart = apart
        self._frame: FrameType | None = None  # of the call that asked last
        self._since: set[int] = set()  # the lines of it that have called torch's functions since
        self._decide: Any = None

    def __enter__(self) -> answered:
        """Begins a trace."""
        self._answers, self.asked = itertools.cycle(self._given), 0
        self.forget()
        self._decide = decide = torch.SymBool.__bool__
        thread = threading.get_ident()  # another one may trace a model of its own

        def deciding(condition: torch.SymBool) -> bool:
            try:
                return bool(decide(condition))
            except GuardOnDataDependentSymNode:
                frame = sys._getframe(1)
                name = frame.f_code.co_filename
                if name.startswith((*OWN, "<eval_with_key>")) or threading.get_ident() != thread:
                    raise
                place = f"{relative_path(name)}:{frame.f_lineno}"
                return self._answer(torch.scalar_tensor(condition, dtype=torch.bool), place)

        torch.SymBool.__bool__ = deciding
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        torch.SymBool.__bool__ = self._decide
        super().__exit__(*error)

    def __torch_function__(self, func: Any, types: object, args: Any = (), kwargs: dict[str, Any] | None = None) -> Any:
        """Answers; passes every other call on."""
        name = getattr(func, "__name__", "")
        asked = args[0] if name in _ASKS and args else None
        if not isinstance(asked, FakeTensor) or (name == "item" and asked.dtype is not torch.bool):
            if self._frame is not None and name != "__get__":  # of a property, such as the shape
                self._note()
            return func(*args, **(kwargs or {}))
        truth = asked.reshape(()) if asked.dtype is torch.bool else asked.reshape(()) != 0
        answer = self._answer(truth, str(place_of_ask(name)))
        if func is torch._assert and not answer:
            raise AssertionError(*args[1:])
        return answer

    def _answer(self, truth: torch.Tensor, place: str) -> bool:
        _MARKER(truth, f"{_MARK}{place}")
        self.asked += 1
        if self.asked == _MOST:  # while the answer is yes
            raise EndlessQuestions("too many questions: a loop goes on for as long as a value asks")
        self._frame = _asker()
        self._since.clear()
        answer = next(self._answers)
        if answer and self._apart:
            truth.fake_mode.shape_env.unbacked_symint_counter += _SIZES << self.asked
        return answer

    def led_to(self, error: BaseException) -> bool:
        """Whether the last answer alone led to an error: the function that asked raises it, and computes nothing in between.

        What is raised further on may be for a reason that holds in a trace alone. What the message computes does not count.
        """
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None and trace.tb_next.tb_frame.f_code is not _ASSERTS:
            trace = trace.tb_next
        if trace is None or trace.tb_frame is not self._frame:
            return False
        return all(line >= trace.tb_lineno for line in self._since)

    def forget(self) -> None:
        """Lets go of what the last question's call holds."""
        self._frame = None
        self._since.clear()

    def _note(self) -> None:
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame is not self._frame:
            frame = frame.f_back
        if frame is not None:  # else the call has ended
            self._since.add(frame.f_lineno)


def _asker() -> FrameType:
    """The innermost call of a function that is neither torch's nor ours."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(OWN):
        frame = frame.f_back
    return frame


def is_mark(node: Node) -> bool:
    """Whether a node stands where a question was answered."""
    return node.target is _MARKER and str(node.args[1]).startswith(_MARK)


def place_of_mark(mark: Node) -> str:
    """The line that asked."""
    return str(mark.args[1]).removeprefix(_MARK)
