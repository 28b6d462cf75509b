"""Models that go through their batch in Python, which no trace follows: what they do to a batch, they do to each of its rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.utils import _pytree as pytree

from onnxport.tracing.pytorch_answers import run_under, writes
from onnxport.tracing.pytorch_inputs import Call
from onnxport.tracing.pytorch_nodes import recorded

_ASKS = frozenset("aten._local_scalar_dense.default aten.item.default cond while_loop".split())
# Factors of the numbers of two rows: what a row gives may not follow from the other, whatever that holds; nor may what it is
# filled up with follow from its own.
_SCALES = ((0.75, 40.0), (-2.5, 1e3))
# Differences that are rounding: a kernel adds up a batch in another order than a row. The proof judges the numbers.
_RELATIVE, _ABSOLUTE = 1e-3, 1e-4


@dataclass(frozen=True)
class Rows:
    """How a graph that holds the model for one row takes a batch."""

    name: str  # of the dimension
    inputs: frozenset[str]  # paths of the inputs that have it as dimension 0
    # For each leaf of the result the axis along which those of the rows follow each other; None for what is no tensor.
    axes: tuple[int | None, ...]
    uneven: tuple[bool, ...]  # for each whether the rows' results have differed in size
    # For each what fills up the results of rows that are smaller than others; None where none was filled up.
    fills: tuple[bool | int | float | None, ...]

    def stands(self, place: int, shape: Sequence[int | torch.SymInt]) -> bool:
        """Whether rows have shown how results of this shape stand together."""
        free = [axis for axis, size in enumerate(shape) if free_unbacked_symbols(size)]
        if not free:
            return True
        along = all(axis == self.axes[place] for axis in free)
        return self.uneven[place] and (along or self.fills[place] is not None)


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
    others = {size for leaf in call.tensors.values() for size in leaf.shape[1:]}
    vectors = [leaf for path in inputs if (leaf := call.tensors[path]).dim() == 1 and leaf.is_floating_point()]
    if len(vectors) < len(inputs) and any(len(leaf) in others for leaf in vectors):
        return None  # perhaps a number for each channel: kernels of batch norms read and write beyond shorter ones
    with suppress(Exception):  # what the model raises on the call shows again
        if writes(call):
            return None  # what it writes may follow from all rows
    pairs = [_cut(call, inputs, (0, -1))]
    pairs += [_varied(pairs[0], inputs, near, far) for near, far in _SCALES]
    if not any(_differ(pair, inputs) for pair in pairs):
        return None  # alike rows give the same, whatever each follows from
    every = [_joints(pair, inputs) for pair in pairs]
    known = [joints for joints in every if joints is not None]
    axes = {tuple(None if joint is None else joint.axis for joint in joints) for joints in known}
    if len(known) < len(every) or len(axes) > 1:
        return None
    fills = [
        list(dict.fromkeys(joint.fill for joint in leaf if joint and joint.fill is not None))
        for leaf in zip(*known, strict=True)
    ]
    if any(len(values) > 1 for values in fills):
        return None
    uneven = tuple(any(joint and joint.uneven for joint in leaf) for leaf in zip(*known, strict=True))
    return Rows(first, inputs, axes.pop(), uneven, tuple(values[0] if values else None for values in fills))


def _varied(call: Call, inputs: frozenset[str], near: float, far: float) -> Call:
    """Two rows, the first one's numbers times `near`, the second one's times `far`; their whole numbers in another order."""

    def varied(path: str, leaf: Any) -> Any:
        if path not in inputs:
            return leaf
        if leaf.is_floating_point():
            factors = torch.tensor([near, far], dtype=leaf.dtype).reshape(2, *(1,) * (leaf.dim() - 1))
            return leaf * factors.to(leaf.device)
        first = leaf[0].roll(2, -1) if near < 0 and leaf.dim() > 1 else leaf[0]
        return torch.stack([first, leaf[1].roll(1, -1)]) if leaf.dim() > 1 else leaf

    return call.mapped(varied)


def _differ(call: Call, inputs: frozenset[str]) -> bool:
    return any(not torch.equal(leaf[0], leaf[1]) for path, leaf in call.tensors.items() if path in inputs)


@dataclass(frozen=True)
class _Joint:
    """How the results of two rows stand in that of both."""

    axis: int
    uneven: bool = False  # they differ in size
    fill: bool | int | float | None = None


def _joints(call: Call, inputs: frozenset[str]) -> list[_Joint | None] | None:
    """How each leaf of the result of two rows consists of what each alone gives; None where one does not."""
    try:
        both, *each = [_leaves(_cut(call, inputs, chosen)) for chosen in ((0, 1), (0,), (1,))]
    except Exception:  # whatever the model raises on a row
        return None
    if any(len(leaves) != len(both) for leaves in each):
        return None
    joints: list[_Joint | None] = []
    for whole, *parts in zip(both, *each, strict=True):
        joint = _joint(whole, parts) if isinstance(whole, torch.Tensor) else None
        if joint is None and isinstance(whole, (torch.Tensor, bool, int, float)):
            return None
        joints.append(joint)
    return joints


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


def _joint(whole: torch.Tensor, parts: Sequence[Any]) -> _Joint | None:
    """How the parts follow each other in the whole, smaller ones filled up with one number; None where they do not."""
    if any(not isinstance(part, torch.Tensor) or part.dim() != whole.dim() for part in parts) or whole.is_complex():
        return None
    if any(tensor.layout != torch.strided for tensor in (whole, *parts)):  # sparse results are not put together
        return None
    if not whole.numel():  # which shows nothing: rows that meet may give something from three on
        return None
    most = [max(sizes) for sizes in zip(*(part.shape for part in parts), strict=True)]
    axes = [axis for axis in range(whole.dim()) if whole.shape[axis] == sum(part.shape[axis] for part in parts)]
    axes = [axis for axis in axes if all(whole.shape[i] == size for i, size in enumerate(most) if i != axis)]
    if len(axes) != 1:
        return None
    axis = axes[0]
    real = torch.cat([_padded(torch.ones_like(part, dtype=torch.bool), most, axis) for part in parts], axis)
    joined = torch.cat([_padded(part, most, axis) for part in parts], axis)
    filled = whole[~real]
    if filled.numel() and not bool((filled == filled[0]).all()):
        return None
    if not close(joined[real], whole[real]):
        return None
    uneven = any(part.shape != parts[0].shape for part in parts)
    return _Joint(axis, uneven, filled[0].item() if filled.numel() else None)


def _padded(part: torch.Tensor, sizes: Sequence[int], axis: int) -> torch.Tensor:
    """A part with zeros behind it up to these sizes, but for `axis`."""
    shape = [part.shape[i] if i == axis else size for i, size in enumerate(sizes)]
    result = part.new_zeros(shape)
    result[tuple(slice(size) for size in part.shape)] = part
    return result


def close(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two results of the same shape differ by rounding alone."""
    if not other.is_floating_point():
        return torch.equal(one, other)
    finite = other[other.isfinite()].abs().double()
    allowed = _ABSOLUTE * float(finite.max()) if finite.numel() else 0.0
    return torch.allclose(one.double(), other.double(), rtol=_RELATIVE, atol=allowed, equal_nan=True)
