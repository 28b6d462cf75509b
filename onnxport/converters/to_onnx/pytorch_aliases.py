"""What shares memory with what: the exported graph writes in place, an ONNX graph does not.

A tensor that owns its memory is an `AliasCell`; every tensor of the graph is a `Ref` to one, the owner directly and a view
through the operator that gave it. Writing to a view puts the new values back into the owner by the view's inverse; a view
read after its cell was written is computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from onnxport.graph.builder import OpBuilder
from onnxport.graph.provenance import Source
from onnxport.opset_maps.maps import aten
from onnxport.opset_maps.to_onnx.pytorch.scatter import scattered_along
from onnxport.tracing.pytorch_nodes import recorded

# Operators that update statistics without their schema saying so: argument 3 is the running mean, 5 `training`.
HIDDEN_STATE = frozenset(
    f"aten::{name}.default"
    for name in ("batch_norm", "instance_norm", "native_batch_norm", "cudnn_batch_norm", "_batch_norm_impl_index")
)


class Inexpressible(Exception):
    """The alias map can't follow a write; the program has to be functionalised first."""


@dataclass(eq=False, slots=True)
class AliasCell:
    """A tensor that owns its memory."""

    value: ir.Value  # its present value
    version: int = 0  # how often it was written
    writer: Source | None = None  # the operator that wrote last
    settled: bool = True  # writing all of it once more changes nothing: what was written need not be kept
    first: ir.Value = field(init=False)  # its value before anything was written

    def __post_init__(self) -> None:
        self.first = self.value


# What these write does not change when they write it again.
_SETTLING = ("aten::embedding_renorm_",)


@dataclass(eq=False, slots=True)
class Ref:
    """A tensor of the graph: a cell, or a view on one."""

    cell: AliasCell
    _parent: Ref | None = None
    _forward: Callable[[ir.Value], ir.Value] | None = None
    _write: Callable[[ir.Value, ir.Value], ir.Value] | None = None
    _value: ir.Value | None = None
    _seen: int = -1

    def view(self, forward: Callable[[ir.Value], ir.Value], write: Callable[[ir.Value, ir.Value], ir.Value]) -> Ref:
        """A view: `forward` gives its value of this tensor's, `write` this tensor's of its old value and the view's new one."""
        return Ref(self.cell, self, forward, write, forward(self.read()), self.cell.version)

    def read(self) -> ir.Value:
        """The present value."""
        if self._parent is None or self._forward is None:
            return self.cell.value
        if self._value is None or self._seen != self.cell.version:
            self._value = self._forward(self._parent.read())
            self._seen = self.cell.version
        return self._value

    def write(self, value: ir.Value, source: Source) -> None:
        """Sets the value, here and in whatever shares the memory."""
        if self._parent is None or self._write is None:
            self.cell.value = value
            self.cell.version += 1
            self.cell.writer = source
            self.cell.settled = self.cell.settled and source.op.startswith(_SETTLING)
            return
        self._parent.write(self._write(self._parent.read(), value), source)
        self._value, self._seen = value, self.cell.version


# In place they change the shape of their argument, not its elements: later uses see a view, views taken before stay.
RESHAPING = frozenset(f"aten::{name}_" for name in "squeeze unsqueeze t transpose swapaxes swapdims".split())


@lru_cache(maxsize=4096)
def written_arguments(target: Any) -> tuple[int, ...]:
    """Positions of the arguments that an operator writes to."""
    schema = target._schema
    if not schema.is_mutable:
        return ()
    infos = [item.alias_info for item in schema.arguments]
    return tuple(i for i, info in enumerate(infos) if info is not None and info.is_write)


def mutates(target: Any) -> bool:
    """Whether a call of `target` writes to one of its arguments."""
    return isinstance(target, torch._ops.OpOverload) and bool(written_arguments(target))


def writes_to_view(node: torch.fx.Node) -> bool:
    """Whether a call writes to a tensor that, by the schema of what gave it, may share the memory of another."""
    if node.op != "call_function" or not mutates(node.target):
        return False
    written = (node.args[place] for place in written_arguments(node.target) if place < len(node.args))
    return any(isinstance(item, torch.fx.Node) and _may_alias(item.target) for item in written)


def written_before_read(node: torch.fx.Node) -> bool:
    """Whether the first use of an input is a write to all of it: whatever stood in it decides nothing."""
    users = (item for item in node.graph.nodes if node in item.all_input_nodes and "_assert_" not in str(item.target))
    first = next(users, None)
    packet = getattr(None if first is None else first.target, "overloadpacket", None)
    return first is not None and packet in _WHOLE and first.args[0] is node


_WHOLE = (torch.ops.aten.copy_, torch.ops.aten.fill_, torch.ops.aten.zero_)
_PYTHONS_OWN = frozenset(f"aten::__i{name}__" for name in ("and", "or", "xor", "lshift", "rshift"))


def functional_name(name: str) -> str:
    """The operator that gives what an in-place one writes.

    >>> functional_name("aten::add_.Tensor"), functional_name("aten::__ior__.Tensor")
    ('aten::add.Tensor', 'aten::__or__.Tensor')
    """
    base, _, overload = name.partition(".")
    if base == "aten::transpose_":
        return "aten::transpose.int"
    if base in _PYTHONS_OWN:
        return f"{base.replace('__i', '__')}.{overload}"
    if not base.endswith("_"):
        raise Inexpressible(f"{name} writes to its argument")
    return f"{base.removesuffix('_')}.{overload}"


@lru_cache(maxsize=4096)
def _may_alias(target: Any) -> bool:
    if not isinstance(target, torch._ops.OpOverload):
        return False
    return any(item.alias_info is not None and not item.alias_info.is_write for item in target._schema.returns)


def is_view(node: torch.fx.Node) -> bool:
    """Whether the node's result shares memory with its first argument; operators like reshape do only sometimes."""
    if not _may_alias(node.target) or not node.args or not isinstance(node.args[0], torch.fx.Node):
        return False
    value, origin = recorded(node), recorded(node.args[0])
    if isinstance(value, (list, tuple)):
        value = value[0] if value else None
    if not isinstance(value, torch.Tensor) or not isinstance(origin, torch.Tensor):
        return False
    return value.untyped_storage()._cdata == origin.untyped_storage()._cdata


_SAME = frozenset(
    "alias detach lift_fresh contiguous to view_as_real view_as_complex positive resolve_conj resolve_neg clone".split()
)
_RESHAPED = frozenset(
    "view reshape flatten unflatten squeeze unsqueeze view_as reshape_as _unsafe_view _reshape_alias ravel atleast_1d atleast_2d "
    "atleast_3d".split()
)
# Views whose inverse is an operator of its own: the operator writes the new values into the old ones.
_SCATTERED = {
    "select.int": "aten::select_scatter.default",
    "slice.Tensor": "aten::slice_scatter.default",
    "diagonal.default": "aten::diagonal_scatter.default",
    "as_strided.default": "aten::as_strided_scatter.default",
}


def write_back(
    op: OpBuilder, name: str, base: ir.Value, new: ir.Value, args: list[Any], kwargs: dict[str, Any], index: int | None
) -> ir.Value:
    """The value of `base` after its view was set to `new`.

    `name` is the operator that gave the view, called with `args` after the first and `kwargs`; `index` is the number of the view,
    where it makes several.

    Raises:
        Inexpressible: the view has no inverse here.
    """
    operator = name.removeprefix("aten::")
    packet = operator.partition(".")[0]
    if packet in _SAME:
        if base.dtype != new.dtype:
            raise Inexpressible(f"a write through {name} changes the element type")
        return new
    if packet in _RESHAPED:
        result: ir.Value = op.Reshape(new, op.shape(base))
        return result
    permutation = _permutation(packet, base, args)
    if permutation is not None:
        inverse = sorted(range(len(permutation)), key=permutation.__getitem__)
        back: ir.Value = op.Transpose(new, perm=inverse)
        return back
    if operator in _SCATTERED:
        return _scatter(op, _SCATTERED[operator], base, new, *args, **kwargs)
    if packet == "narrow":
        dim, start, length = args
        if isinstance(start, int) and isinstance(length, int):
            return _scatter(op, "aten::slice_scatter.default", base, new, dim, start, start + length)
    if packet == "unfold" and len(args) == 3:
        return _folded(op, base, new, *args)
    if index is not None:
        part = _part(packet, base, new, args, kwargs, index)
        if part is not None:
            return _scatter(op, *part)
    raise Inexpressible(f"a write through a view of {name}")


def _scatter(op: OpBuilder, name: str, base: ir.Value, new: ir.Value, *args: Any, **kwargs: Any) -> ir.Value:
    entry = aten.find(name)
    if entry is None:
        raise Inexpressible(f"a write through a view needs {name}")
    result: ir.Value = entry.function(op, base, new, *args, **kwargs)
    return result


def _folded(op: OpBuilder, base: ir.Value, new: ir.Value, dim: int, size: int, step: int) -> ir.Value:
    """The windows of unfold written back; torch refuses to write to windows that overlap.

    torch's own functionalisation loses the elements between and behind the windows, so that it is no way out here.
    """
    rank = base.shape.rank() if base.shape is not None else 0
    if not rank:
        raise Inexpressible("a write through unfold of a scalar")
    dim %= rank
    windows = op.Transpose(new, perm=[*range(dim + 1), rank, *range(dim + 1, rank)])
    starts = op.Range(0, op.Add(op.Sub(op.Squeeze(op.dim(base, dim), op.axes(0)), size), 1), step)
    positions = op.Reshape(op.Add(op.Unsqueeze(starts, op.axes(1)), np.arange(size)), [-1])
    sizes = [op.dim(positions, 0) if axis == dim else op.dim(base, axis) for axis in range(rank)]
    return scattered_along(op, base, positions, op.Reshape(windows, op.shape_vector(sizes)), dim)


def _permutation(packet: str, base: ir.Value, args: Sequence[Any]) -> list[int] | None:
    if base.shape is None:
        return None
    rank = base.shape.rank()
    axes = list(range(rank))
    if packet == "permute":
        return [axis % rank for axis in args[0]]
    if packet in ("transpose", "swapaxes", "swapdims") and rank:
        a, b = args
        axes[a % rank], axes[b % rank] = axes[b % rank], axes[a % rank]
        return axes
    if packet in ("t", "numpy_T"):
        return axes[::-1]
    if packet in ("mT", "adjoint", "mH"):
        return [*axes[:-2], axes[-1], axes[-2]]
    if packet in ("movedim", "moveaxis"):
        source, target = ([item] if isinstance(item, int) else list(item) for item in args[:2])
        moved = dict(zip([item % rank for item in target], [item % rank for item in source], strict=True))
        rest = iter(axis for axis in axes if axis not in moved.values())
        return [moved[axis] if axis in moved else next(rest) for axis in axes]
    return None


def _part(
    packet: str, base: ir.Value, new: ir.Value, args: Sequence[Any], kwargs: dict[str, Any], index: int
) -> tuple[Any, ...] | None:
    """The scatter that writes the view number `index` of split, chunk or unbind back."""
    if base.shape is None:
        return None
    position = 0 if packet == "unbind" else 1
    dim = args[position] if len(args) > position else kwargs.get("dim", 0)
    if packet == "unbind":
        return "aten::select_scatter.default", base, new, dim, index
    total = base.shape[dim]
    length = new.shape[dim] if new.shape is not None else None
    if not isinstance(total, int) or not isinstance(length, int):
        return None
    if packet in ("split_with_sizes", "split") and isinstance(args[0], (list, tuple)):
        start = sum(args[0][:index])
    elif packet == "split":
        start = args[0] * index
    elif packet == "chunk":
        start = -(-total // args[0]) * index
    elif packet == "tensor_split" and isinstance(args[0], int):
        size, extra = divmod(total, args[0])
        start = size * index + min(index, extra)
    else:
        return None
    return "aten::slice_scatter.default", base, new, dim, start, start + length
