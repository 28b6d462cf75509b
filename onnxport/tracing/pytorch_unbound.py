"""A batch that Python takes apart and puts together again while torch.export traces: ``torch.cat(list(x))``.

A list has a number of elements, so that the trace would hold for one size of the batch. Here one tensor stands for all its rows,
in a list of one, and only what puts the list together again takes it. Whether anything went by the list's length is tried.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils.weak import WeakIdKeyDictionary

from onnxport.tracing.pytorch_answers import run_under
from onnxport.tracing.pytorch_inputs import Call
from onnxport.tracing.pytorch_rows import close

NOTE = "a batch that the model takes apart and puts together again is kept whole"
_JOINS = frozenset("cat concat concatenate".split())


class RowsMatter(Exception):
    """What is done to the rows of a batch is done to each by itself, or goes by how many there are."""


class rows_as_one(TorchFunctionMode):
    """While it is active, a tensor whose first size varies gives one tensor for all its rows."""

    def __init__(self) -> None:
        super().__init__()
        self._whole = WeakIdKeyDictionary()  # the tensor of which one stands for the rows
        self.used = False

    def __torch_function__(self, func: Any, types: object, args: Any = (), kwargs: dict[str, Any] | None = None) -> Any:
        """Passes on every call without such a tensor; one with it has to put the rows together."""
        kwargs, name = kwargs or {}, getattr(func, "__name__", "")
        if name == "unbind" and not kwargs and args[1:] in ((), (0,)) and isinstance(args[0].shape[0], torch.SymInt):
            row = args[0].select(0, 0).clone()
            self._whole[row] = args[0]
            self.used = True
            return (row,)
        if name == "__len__" and isinstance(args[0].shape[0], torch.SymInt):
            raise TypeError("the length varies")  # which `list` takes for a length that nobody knows, and goes on
        rows = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, Tensor) and leaf in self._whole]
        if not rows:
            return func(*args, **kwargs)
        listed, axis = _joined(args, kwargs)
        if len(rows) == 1 and len(listed) == 1:
            whole = self._whole[rows[0]]
            if name in _JOINS and axis == 0 and whole.dim() > 1:
                return whole.flatten(0, 1)
            if name == "stack":
                return whole.movedim(0, axis)
        raise RowsMatter(f"{name} of a row")


def _joined(args: Any, kwargs: dict[str, Any]) -> tuple[list[Any], Any]:
    """What is put together, and along which axis."""
    tensors = args[0] if args else kwargs.get("tensors", ())
    listed = list(tensors) if isinstance(tensors, (list, tuple)) else []
    return listed, args[1] if len(args) > 1 else kwargs.get("dim", kwargs.get("axis", 0))


def check_rows(rows: rows_as_one, program: ExportedProgram, call: Call) -> None:
    """Refuses a trace in which nothing was taken apart, or which gives something else than the model does on several rows.

    Raises:
        RowsMatter: it does.
    """
    if not rows.used:
        raise RowsMatter("no batch is taken apart")
    expected = pytree.tree_leaves(run_under(torch.no_grad(), call))
    with torch.no_grad():
        given = pytree.tree_leaves(program.module()(*call.args, **call.kwargs))
    pairs = [(one, other) for one, other in zip(expected, given, strict=True) if isinstance(one, Tensor)]
    if not all(one.shape == other.shape and close(one, other) for one, other in pairs):
        raise RowsMatter("something goes by the number of rows")
