"""Outputs that hardly change with the inputs: of what computes them, comparing them shows little.

A network of random weights may multiply every image by so little that its result is the last layer's bias, in each digit.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onnxport.validation.comparison import is_floating
from onnxport.validation.records import Divergence
from onnxport.validation.runners import Outputs
from onnxport.validation.tolerance import epsilon, wide

_ULPS = 4  # of the output's greatest element: a change below it is within what any two runs may differ by
_UNMOVED = "{} hardly changed with the inputs that were tried: agreement there shows little of the operators before"


class Movement:
    """Which outputs of the source change from one set of inputs to another.

    Attributes:
        moved: for each output whether it does; None where no two results can be compared.
    """

    def __init__(self) -> None:
        self._first: Outputs = []
        self.moved: list[bool | None] = []

    def add(self, outputs: Outputs) -> None:
        """What the source gives on a set of inputs."""
        if not self._first:
            self._first, self.moved = outputs, [None] * len(outputs)
            return
        for place, ((_, a), (_, b)) in enumerate(zip(self._first, outputs, strict=False)):
            if not self.moved[place]:
                moved = _moves(a, b)
                self.moved[place] = self.moved[place] if moved is None else moved

    @property
    def unmoved(self) -> list[int]:
        """The places of the outputs that stay; those of whole numbers only where there are no others."""
        floats = [isinstance(value, np.ndarray) and is_floating(value.dtype) for _, value in self._first]
        return [i for i, moved in enumerate(self.moved) if moved is False and (floats[i] or not any(floats))]

    def named(self, names: Sequence[str]) -> str:
        """Which outputs stay, as a sentence begins; empty where none does."""
        stay = [names[place] for place in self.unmoved] if len(names) == len(self._first) else []
        if not stay:
            return ""
        listed = ", ".join(map(repr, stay[:3])) + (f" and {len(stay) - 3} more" if len(stay) > 3 else "")
        return f"output{'s' if len(stay) > 1 else ''} {listed}"


def little_shown(outputs: str, count: int) -> str:
    """The remark on outputs that stay, with how many inner values were compared and agree."""
    if count:
        return f"{_UNMOVED.format(outputs)}, so {count} inner values were compared too, and agree"
    return f"{_UNMOVED.format(outputs)}. Trained weights or other inputs show more, `onnxport debug` each operator"


def wrong_inside(outputs: str, node: Divergence) -> str:
    """Why agreement of outputs that stay proves nothing."""
    return f"{_UNMOVED.format(outputs)}, of which {node.op} {node.node!r} is wrong by itself"


def _moves(a: object, b: object) -> bool | None:
    """Whether two results differ where both have elements; None where nothing can be compared."""
    if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray) or a.ndim != b.ndim or a.dtype != b.dtype:
        return None
    common = tuple(slice(0, min(sizes)) for sizes in zip(a.shape, b.shape, strict=True))
    a, b = np.asarray(a[common], a.dtype), np.asarray(b[common], b.dtype)  # of what has no axes an element
    if not a.size:
        return None
    if not is_floating(a.dtype):
        return not np.array_equal(a, b)
    x, y = wide(a), wide(b)
    finite = np.isfinite(x) & np.isfinite(y)
    if not finite.any():
        return None
    top = float(np.max(np.abs(x), where=finite, initial=0.0))
    return bool(np.max(np.abs(x - y), where=finite, initial=0.0) > _ULPS * epsilon(a.dtype) * top)
