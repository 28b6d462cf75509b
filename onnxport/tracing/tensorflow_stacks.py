"""Stacks of TensorFlow's operators: whose code wrote them, and which line of the user's."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from types import FrameType
from typing import Any, Literal

from tensorflow.python.util import tf_stack  # no public form records stacks

from onnxport.graph.provenance import relative_path

_GENERATED = "__autograph_generated_file"
_RECORDER = "recorded_for_user"  # the function that `users_stacks` has record, which is a frame itself


@contextmanager
def users_stacks(function: str) -> Iterator[None]:
    """Has TensorFlow record a stack where the user's code is part of it; elsewhere, a tenth of a trace, it would not be of use.

    Args:
        function: the name of the function that onnxport has traced; autograph gives it a file of its own.
    """
    record = tf_stack.extract_stack
    framework = record()  # what operators of the framework's own code have: its innermost frame is onnxport's

    def recorded_for_user(stacklevel: int = 1) -> Any:
        return record(stacklevel + 1) if _has_user(sys._getframe(1), f"tf__{function}") else framework

    tf_stack.extract_stack = recorded_for_user
    try:
        yield
    finally:
        tf_stack.extract_stack = record


def _has_user(innermost: FrameType, own: str) -> bool:
    """Whether a frame up to onnxport's next is the user's."""
    frame: FrameType | None = innermost
    while frame is not None:
        code = frame.f_code
        owner = _owner(code.co_filename)
        if owner == "onnxport":
            return False  # beyond it is the caller of the conversion
        if owner == "user" and not (code.co_name == own and _GENERATED in code.co_filename):
            return True
        frame = frame.f_back
    return False


def user_line(recorded: Any) -> tuple[str, int | None]:
    """The innermost line of the user's code in an operator's ``traceback``: relative file and number; "" and None without one."""
    for frame in reversed(list(recorded.get_user_frames())):
        if _GENERATED in frame.filename or (frame.name == _RECORDER and frame.filename == __file__):
            continue
        owner = _owner(frame.filename)
        if owner == "onnxport":
            break  # beyond it is the caller of the conversion, not of the node
        if owner == "user":
            return relative_path(frame.filename), frame.lineno
    return "", None


def stands_for_many(recorded: Any) -> bool:
    """Whether a ``traceback`` is that of `users_stacks`, which all operators have that no user's code is part of."""
    frames = list(recorded.get_user_frames())
    return bool(frames) and (frames[-1].filename, frames[-1].name) == (__file__, users_stacks.__name__)


@cache
def _owner(filename: str) -> Literal["onnxport", "framework", "user"]:
    """Whose code a file is."""
    for package in ("onnxport", "tensorflow", "keras", "tf_keras"):
        home = _home(package)
        if home and filename.startswith(home):
            return "onnxport" if package == "onnxport" else "framework"
    return "user"


@cache
def _home(package: str) -> str:
    """The folder of an installed package, empty where there is none."""
    spec = find_spec(package)
    return os.path.dirname(spec.origin) + os.sep if spec is not None and spec.origin else ""
