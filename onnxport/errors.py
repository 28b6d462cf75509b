"""Every exception a user of onnxport can see.

All derive from `OnnxportError`; the command line prints their message without a traceback and exits with code 2
(`ValidationError`: code 1).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

_TERMINAL_STYLE = re.compile("\\x1b\\[[0-9;]*m")
# Of onnxruntime's allocators, its Tile (which has a bound of its own), C++'s allocator and torch's.
_NO_MEMORY = (
    "Failed to allocate memory",
    "exceeds the supported maximum of",
    "bad_alloc",
    "bad allocation",
    "can't allocate memory",
)
_SHORT = 300  # characters
# What Keras and TensorFlow put before the reason; places in PyTorch's own code, and TensorFlow's names of nodes around it.
_NO_REASONS = ("Exception encountered when calling", "Graph execution error", "Detected at node", 'File "')
_NODES = re.compile(
    r"\[enforce fail at [^\]]*\] *[.:]? *|\{\{function_node [^}]*\}\}\s*|\s*\[\[\{\{node [^}]*\}\}\]\]|\s*\[Op:\w+\](?: name:.*)?"
)


def first_line(error: BaseException) -> str:
    """The first line of an error's text that gives a reason, else the error's type.

    Keras puts a line about the layer before the reason, and colours the text for a terminal.
    """
    lines = [line.strip() for line in _text(error).splitlines() if line.strip()]
    reasons = (line for line in lines if not line.startswith(_NO_REASONS))
    return next(reasons, type(error).__name__)


def reason_of(error: BaseException) -> str:
    """The whole text of an error where it is short, in one line, else its first line that gives a reason.

    >>> reason_of(ValueError("columns should match: " + chr(10) + "- a" + chr(10) + "- b"))
    'columns should match: - a - b'
    """
    text = " ".join(_text(error).split())
    return text if 0 < len(text) <= _SHORT and text.startswith(first_line(error)) else first_line(error)


def lacks_memory(error: BaseException | None) -> bool:
    """Whether an error, or one that it was raised from, is for want of memory: those of compiled code have no type for it."""
    while error is not None:
        if isinstance(error, MemoryError) or any(words in str(error) for words in _NO_MEMORY):
            return True
        error = error.__cause__
    return False


def _text(error: BaseException) -> str:
    """An error's text without a terminal's colours and the names of nodes that TensorFlow puts around it.

    Python writes a KeyError's text in quotes; a key alone is no reason.
    """
    if isinstance(error, KeyError) and len(error.args) == 1:
        key = error.args[0]
        return str(key) if isinstance(key, str) and " " in key else f"KeyError: {key!r}"
    return _NODES.sub("", _TERMINAL_STYLE.sub("", str(error)))


class OnnxportError(Exception):
    """Base of all errors raised on purpose by onnxport."""


@dataclass(frozen=True)
class Unsupported:
    """One thing a conversion can't say on the other side.

    Attributes:
        framework: the source framework (``"pytorch"``) or, for an import, ``"onnx"``.
        op: the operator in that framework's own spelling (``aten::foo.default``).
        reason: what about it has no form on the other side; empty where the map has no entry at all.
        where: module path, file and line in the user's code, as far as they are known.
        count: how many nodes share framework, op and reason.
    """

    framework: str
    op: str
    reason: str = ""
    where: str = ""
    count: int = 1


class UnsupportedOperator(OnnxportError):
    """One or more operators have no equivalent on the other side; `operators` lists all of them at once.

    A map entry raises it with a plain message; the driver collects what all entries refused and raises one error
    (`UnsupportedOperator.of`) for the whole model. With `final` no other form of the operator is tried, such as the
    framework's own decomposition, whose numbers differ.
    """

    def __init__(self, message: str, operators: Iterable[Unsupported] = (), *, final: bool = False) -> None:
        super().__init__(message)
        self.operators: tuple[Unsupported, ...] = tuple(operators)
        self.final = final

    @classmethod
    def of(cls, operators: Sequence[Unsupported], *, way_out: str = "", mapping: str = "") -> UnsupportedOperator:
        """One error for all `operators`, in the model's order, those with equal framework, op and reason counted together.

        The last line of the message is what the user can do: `way_out`, or `mapping`, how a mapping is added, where one of them
        has none; a reason of an entry's own has its way out in it.
        """
        merged: dict[tuple[str, str, str], Unsupported] = {}
        for item in operators:
            key = (item.framework, item.op, item.reason)
            seen = merged.get(key)
            count = item.count + (seen.count if seen else 0)
            merged[key] = Unsupported(*key, where=(seen or item).where, count=count)
        lines = [
            f"  {item.op}{f' x{item.count}' if item.count > 1 else ''}"
            f"{f': {item.reason}' if item.reason else ': no mapping'}{f' (at {item.where})' if item.where else ''}"
            for item in merged.values()
        ]
        head = f"{len(merged)} unsupported operator{'s' if len(merged) > 1 else ''}:"
        last = way_out or (mapping if any(not item.reason for item in merged.values()) else "")
        return cls("\n".join([head, *lines, *([last] if last else [])]), merged.values())


class MapEntryError(OnnxportError):
    """A map entry wrote a node that the ONNX schema or the source's own types contradict: a defect of the entry."""


class TracingError(OnnxportError):
    """The source framework could not trace the model; the message holds its reason and the way out."""


class InvalidModelError(OnnxportError, ValueError):
    """A file or object is not the model that it claims to be: corrupt, truncated, of another kind."""


class InvalidInputError(OnnxportError, ValueError):
    """Example inputs or options do not fit the model."""


class SavingError(OnnxportError, OSError):
    """A file or folder can't be written: what stood there is untouched, and nothing is left beside it."""

    def __init__(self, message: str, number: int | None = None, path: str = "") -> None:
        super().__init__(message)
        self.errno: int | None = number
        self.filename: str = path

    def __str__(self) -> str:
        return str(self.args[0])


class UntrustedFileError(OnnxportError):
    """Loading or running the file would run code of its own, and the caller has not allowed that.

    The message names what in the file would do so, and the consent that covers it: ``allow_pickle`` for pickles and pickled
    parts, ``allow_code`` for everything else (see SECURITY.md).
    """


class MissingDependencyError(OnnxportError, ImportError):
    """A framework that the conversion needs is not installed; the message names the extra to install."""

    @classmethod
    def for_extra(cls, package: str, extra: str) -> MissingDependencyError:
        """The error for `package` missing, which ``pip install onnxport[extra]`` brings."""
        return cls(f"this conversion needs {package}, which is not installed: pip install 'onnxport[{extra}]'")


class FallbackWarning(UserWarning):
    """onnxruntime can't load a model that is run: ONNX's reference evaluator, which is slow, runs it instead."""


class UnprovedWarning(UserWarning):
    """The conversion is neither proved nor refuted: no value of an output could be compared, or its runtime can't load it."""


class FailedProof(Protocol):
    """The part of `onnxport.Report` that an error's reader needs; the class itself stands above this file."""

    @property
    def verdict(self) -> str:
        """``"failed"``."""

    def to_dict(self) -> dict[str, Any]:
        """The report as plain dicts, lists and numbers."""

    def to_html(self, path: str | os.PathLike[str], *, command: str = "", files: Sequence[str] = ()) -> None:
        """Writes the report as one page."""


class ValidationError(OnnxportError):
    """The converted model does not give the source's numbers; `report` (`onnxport.Report`) holds where and by how much."""

    def __init__(self, report: FailedProof) -> None:
        super().__init__(f"the converted model differs from its source\n{report}")
        self.report = report
