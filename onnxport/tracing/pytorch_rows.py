"""Models that go through their batch in Python, which no trace follows: what they do to a batch, they do to each of its rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.utils import _pytree as pytree

from onnxport.tracing.pytorch_answers import run_under
from onnxport.tracing.pytorch_inputs import Call
from onnxport.tracing.pytorch_nodes import recorded

_ASKS = frozenset("aten._local_scalar_dense.default aten.item.default cond while_loop".split())
# Factors of the numbers of two rows: what a row gives may not follow from the other, whatever that holds.
_SCALES = ((1.0, 40.0), (-2.5, 1e3))
# Differences that are rounding: a kernel adds up a batch in another order than a row. The proof judges the numbers.
_RELATIVE, _ABSOLUTE = 1e-3, 1e-4


@dataclass(frozen=True)
class Rows:
    """How a graph that holds the model for one row takes a batch."""

    name: str  # of the dimension
    inputs: frozenset[str]  # paths of the inputs that have it as dimension 0
    # For each leaf of the result the axis along which those of the rows follow each other; None for what is no tensor.
    axes: tuple[int | None, ...]


def rows_of(call: Call, names: Mapping[tuple[str, int], str]) -> Rows | None:
    """The rows of the batch, the first of the `names` (by path and axis) on a dimension 0, as two of them run.

    None where there is no such dimension, where the two together give another result than each alone, or where a result does not
    consist of theirs.
    """
    first = next((name for (_, axis), name in names.items() if axis == 0), None)
    places = [place for place, name in names.items() if name == first]
    if first is None or any(axis for _, axis in places):
        return None
    inputs = frozenset(path for path, _ in places)
    if any(call.tensors[path].layout != torch.strided for path in inputs):
        return None  # sparse rows are not taken apart
    pairs = [_cut(call, inputs, (0, -1))]
    pairs += [_varied(pairs[0], inputs, near, far) for near, far in _SCALES]
    if not any(_differ(pair, inputs) for pair in pairs):
        return None  # alike rows give the same, whatever each follows from
    every = [_axes(pair, inputs) for pair in pairs]
    if every[0] is None or any(axes != every[0] for axes in every):
        return None
    return Rows(first, inputs, tuple(every[0]))


def _varied(call: Call, inputs: frozenset[str], near: float, far: float) -> Call:
    """Two rows, the first one's numbers times `near`, the second one's times `far`; its whole numbers in another order."""

    def varied(path: str, leaf: Any) -> Any:
        if path not in inputs:
            return leaf
        if leaf.is_floating_point():
            factors = torch.tensor([near, far], dtype=leaf.dtype).reshape(2, *(1,) * (leaf.dim() - 1))
            return leaf * factors.to(leaf.device)
        return torch.stack([leaf[0], leaf[1].roll(1, -1)]) if leaf.dim() > 1 else leaf

    return call.mapped(varied)


def _differ(call: Call, inputs: frozenset[str]) -> bool:
    return any(not torch.equal(leaf[0], leaf[1]) for path, leaf in call.tensors.items() if path in inputs)


def _axes(call: Call, inputs: frozenset[str]) -> list[int | None] | None:
    """For each leaf of the result of two rows the axis along which each alone gives it in turn; None where one is otherwise."""
    try:
        both, *each = [_leaves(_cut(call, inputs, chosen)) for chosen in ((0, 1), (0,), (1,))]
    except Exception:  # whatever the model raises on a row
        return None
    if any(len(leaves) != len(both) for leaves in each):
        return None
    axes: list[int | None] = []
    for whole, *parts in zip(both, *each, strict=True):
        axis = _axis(whole, parts) if isinstance(whole, torch.Tensor) else None
        if axis is None and isinstance(whole, (torch.Tensor, bool, int, float)):
            return None
        axes.append(axis)
    return axes


def decides_on_values(program: ExportedProgram, notes: Sequence[str], rows: Collection[str]) -> bool:
    """Whether a trace asks for values that depend on the placeholders `rows`: of a batch it asks once, of its rows for each.

    What depends on sizes, weights and other inputs alone is the same for every row.
    """
    own: set[torch.fx.Node] = set()
    for node in program.graph.nodes:
        size = recorded(node)
        if isinstance(size, torch.SymInt) and not free_unbacked_symbols(size):  # of an input: no value decides on it
            continue
        if (node.op == "placeholder" and node.name in rows) or any(item in own for item in node.all_input_nodes):
            own.add(node)
    asks = any(str(node.target) in _ASKS for node in own if node.op == "call_function")
    return asks or any("computes both ways" in note for note in notes)


def first_row(call: Call, rows: Rows) -> Call:
    """The call with the first row of the batch alone."""
    return _cut(call, rows.inputs, (0,))


def _cut(call: Call, inputs: frozenset[str], chosen: Sequence[int]) -> Call:
    return call.mapped(lambda path, leaf: leaf[list(chosen)] if path in inputs else leaf)


def _leaves(call: Call) -> list[Any]:
    return pytree.tree_leaves(run_under(nullcontext(), call))


def _axis(whole: torch.Tensor, parts: Sequence[Any]) -> int | None:
    """The axis along which the parts follow each other in the whole; None where they do not."""
    if any(not isinstance(part, torch.Tensor) or part.shape != parts[0].shape for part in parts):
        return None
    if whole.dim() != parts[0].dim() or whole.is_complex():
        return None
    longer = [axis for axis in range(whole.dim()) if whole.shape[axis] != parts[0].shape[axis]]
    if len(longer) != 1 or whole.shape[longer[0]] != sum(part.shape[longer[0]] for part in parts):
        return None
    joined = torch.cat(list(parts), longer[0])
    if not whole.is_floating_point():
        return longer[0] if torch.equal(whole, joined) else None
    finite = whole[whole.isfinite()].abs().double()
    allowed = _ABSOLUTE * float(finite.max()) if finite.numel() else 0.0
    close = torch.allclose(joined.double(), whole.double(), rtol=_RELATIVE, atol=allowed, equal_nan=True)
    return longer[0] if close else None
