"""Branches in Python that a size of 1 alone takes: ``if x.shape[0] == 1: ...``.

torch.export traces for sizes from 2 on and keeps no condition of that, since its own operators ask for 1 all the time. What the
user's code asks is noted here.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import sympy
import torch

from onnxport.graph.provenance import relative_path
from onnxport.tracing.pytorch_reasons import OWN

_OTHER = 3  # the size of the dimensions beside the one that is 1


@contextmanager
def single_sizes_noticed() -> Iterator[dict[str, None]]:
    """Gives the places, filled while the block runs, where code outside of torch decides otherwise for a size of 1."""
    places: dict[str, None] = {}
    decide = torch.SymBool.__bool__

    def deciding(condition: torch.SymBool) -> bool:
        answer = decide(condition)
        frame = sys._getframe(1)
        while frame.f_back is not None and frame.f_code.co_filename.startswith(OWN[1]):  # what asks again in its place
            frame = frame.f_back
        name = frame.f_code.co_filename
        if not name.startswith((*OWN, "<")) and _is_otherwise(condition.node.expr, answer):
            places[f"{relative_path(name)}:{frame.f_lineno}"] = None
        return answer

    torch.SymBool.__bool__ = deciding
    try:
        yield places
    finally:
        torch.SymBool.__bool__ = decide


def single_notes(places: dict[str, None]) -> list[str]:
    """A note for each place."""
    return [f"{place} decides otherwise where a size is 1: the trace holds from 2 on" for place in places]


def _is_otherwise(expression: sympy.Basic, answer: bool) -> bool:
    """Whether a condition has another answer where one of its sizes is 1."""
    free = list(getattr(expression, "free_symbols", ()))
    return any(
        expression.subs({item: 1 if item is single else _OTHER for item in free}) == sympy.S(not answer)
        for single in free
    )
