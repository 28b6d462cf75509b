"""Shapes: what moves elements without computing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir
import torch

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import boolean, case, f32, i64
from onnxport.opset_maps.lowerings.axes import rolled
from onnxport.opset_maps.lowerings.dtypes import Size, to_dtype
from onnxport.opset_maps.maps import aten
from onnxport.opset_maps.to_onnx.pytorch.linear import rank


def reshaped(op: OpBuilder, x: ir.Value, sizes: Sequence[Size] | None = None) -> ir.Value:
    """`x` in the shape that the source gives the result; constant where one axis at most has to be computed.

    A dynamic axis that stands where it stood in `x` is written as 0, a single other one as -1.

    Args:
        op: the builder.
        x: the operand.
        sizes: the sizes as the program computes them, for axes whose size follows from nothing else.
    """
    expected = op.result.shape
    if expected is None:
        if sizes is None:
            raise UnsupportedOperator("a reshape to an unknown shape")
        return op.Reshape(x, op.shape_vector(sizes))
    before = list(x.shape) if x.shape is not None else []
    if any(size == 0 for size in expected if isinstance(size, int)):
        return _empty(op, x, expected, sizes)
    target: list[int] = []
    unknown = 0
    for axis, size in enumerate(expected):
        if isinstance(size, int):
            target.append(size)
        elif axis < len(before) and _is(before[axis], size):
            target.append(0)
        else:
            target.append(-1)
            unknown += 1
    if unknown <= 1:
        return op.Reshape(x, op.const(target))
    if sizes is None:
        raise UnsupportedOperator("a reshape with several sizes that depend on the input")
    return op.Reshape(x, op.shape_vector(list(sizes)))


def _is(dim: object, size: object) -> bool:
    return not isinstance(dim, int) and str(getattr(dim, "value", dim)) == str(getattr(size, "value", size))


def _empty(op: OpBuilder, x: ir.Value, expected: Sequence[object], sizes: Sequence[Size] | None) -> ir.Value:
    """A shape with a 0 in it can't be abbreviated: 0 and -1 mean something else there."""
    static = [size for size in expected if isinstance(size, int)]
    if len(static) == len(expected):
        return op.const(np.zeros(static), op.result.dtype)
    if sizes is None or op.opset < 14:
        raise UnsupportedOperator("an empty tensor of dynamic size needs opset 14")
    return op.Reshape(x, op.shape_vector(sizes), allowzero=1)


@aten.lower(
    "aten::view aten::reshape aten::_unsafe_view aten::view_copy aten::_reshape_alias",
    cases=[
        case(lambda x: x.view(x.shape[0], -1), f32(2, 3, 4), dynamic=True),
        case(lambda x: x.reshape(-1), f32(2, 3, 4), dynamic=True),
        case(lambda x: x.reshape(x.shape[0], 2, 2, 3), f32(2, 4, 3), dynamic=True),
        case(lambda x: x.reshape(3, x.shape[0], 4), f32(2, 3, 4), dynamic=True),
    ],
)
def view(op: OpBuilder, x: ir.Value, size: Sequence[Size] | ir.DataType, *_: object) -> ir.Value:
    """Reshape."""
    if isinstance(size, ir.DataType):
        return _bit_view(op, x, size)
    return reshaped(op, x, size)


def _bit_view(op: OpBuilder, x: ir.Value, dtype: ir.DataType) -> ir.Value:
    if x.dtype == dtype:
        return x
    if x.dtype is None or x.dtype.bitwidth != dtype.bitwidth:
        raise UnsupportedOperator("view(dtype): a type of another size")
    return op.BitCast(x, to=dtype)


@aten.lower(
    "aten::flatten aten::unflatten aten::view_as aten::reshape_as aten::ravel aten::atleast_1d aten::atleast_2d",
    "aten::atleast_3d",
    cases=[
        case(lambda x: x.flatten(1), f32(2, 3, 4), dynamic=True),
        case(lambda x: x.flatten(), f32(2, 3, 4), dynamic=True),
        case(lambda x: x.unflatten(-1, (2, 2)), f32(2, 3, 4), dynamic=True),
        case(lambda x: x.unflatten(0, (-1, 1)), f32(2, 3, 4), dynamic=True),
        case(lambda x: x.reshape_as(x[None]), f32(2, 3)),
    ],
)
def flatten(op: OpBuilder, x: ir.Value, *_: object) -> ir.Value:
    """Reshape to the shape that the source gives."""
    if op.result.shape is not None and list(op.result.shape) == (list(x.shape) if x.shape is not None else None):
        return x
    return reshaped(op, x)


@aten.lower(
    "aten::atleast_1d.Sequence aten::atleast_2d.Sequence aten::atleast_3d.Sequence",
    cases=[
        case(lambda x, y: torch.atleast_1d(x, y), f32(), f32(3)),
        case(lambda x, y: torch.atleast_2d([x, y]), f32(), f32(3)),
        case(lambda x, y: torch.atleast_3d(x, y), f32(2, 3), f32(2, 3, 4, 5)),
    ],
)
def at_least(op: OpBuilder, tensors: Sequence[ir.Value]) -> tuple[ir.Value, ...]:
    """Reshape of each."""
    result = []
    for x, expected in zip(tensors, op.results, strict=True):
        with op.at(None, [expected]):
            result.append(flatten(op, x))
    return tuple(result)


@aten.lower(
    "aten::permute",
    "aten::permute_copy",
    cases=[case(lambda x: x.permute(2, 0, -2), f32(2, 3, 4), dynamic=True), case(lambda x: x.permute(()), f32())],
)
def permute(op: OpBuilder, x: ir.Value, dims: Sequence[int]) -> ir.Value:
    """Transpose."""
    axes = [dim % len(dims) for dim in dims]
    return x if axes == sorted(axes) else op.Transpose(x, perm=axes)


@aten.lower(
    "aten::transpose.int aten::transpose_copy.int aten::swapaxes aten::swapdims",
    cases=[case(lambda x: x.transpose(0, -1), f32(2, 3, 4), dynamic=True), case(lambda x: x.transpose(0, -1), f32())],
)
def transpose(op: OpBuilder, x: ir.Value, dim0: int, dim1: int) -> ir.Value:
    """Transpose of two axes."""
    axes = list(range(rank(x)))
    if axes:
        axes[dim0], axes[dim1] = axes[dim1], axes[dim0]
    return permute(op, x, axes)


@aten.lower(
    "aten::t aten::t_copy aten::numpy_T",
    cases=[case(torch.t, f32(2, 3)), case(torch.t, f32(3)), case(lambda x: x.T, f32(2, 3))],
)
def t(op: OpBuilder, x: ir.Value) -> ir.Value:
    """Transpose of all axes."""
    return permute(op, x, list(range(rank(x)))[::-1])


@aten.lower(
    "aten::mT aten::adjoint aten::mH",
    cases=[case(lambda x: x.mT, f32(2, 3, 4)), case(lambda x: x.mH, f32(2, 3, 4))],
)
def matrix_transpose(op: OpBuilder, x: ir.Value) -> ir.Value:
    """Transpose of the last two axes."""
    return transpose(op, x, -2, -1)


@aten.lower(
    "aten::movedim",
    "aten::moveaxis",
    cases=[case(lambda x: x.movedim(0, -1), f32(2, 3, 4)), case(lambda x: x.movedim((0, 1), (2, 0)), f32(2, 3, 4))],
)
def movedim(op: OpBuilder, x: ir.Value, source: int | Sequence[int], destination: int | Sequence[int]) -> ir.Value:
    """Transpose that moves some axes and keeps the order of the others."""
    count = rank(x)
    pairs = zip(*([item] if isinstance(item, int) else item for item in (destination, source)), strict=True)
    moved = {to % count: at % count for to, at in pairs}
    rest = iter(axis for axis in range(count) if axis not in moved.values())
    return permute(op, x, [moved[axis] if axis in moved else next(rest) for axis in range(count)])


@aten.lower("aten::unsqueeze", "aten::unsqueeze_copy", cases=[case(lambda x: x.unsqueeze(-1), f32(2, 3), dynamic=True)])
def unsqueeze(op: OpBuilder, x: ir.Value, dim: int) -> ir.Value:
    """Unsqueeze."""
    return op.Unsqueeze(x, op.axes(dim))


@aten.lower(
    "aten::squeeze",
    "aten::squeeze_copy",
    cases=[
        case(lambda x: x.squeeze(), f32(2, 1, 3, 1)),
        case(lambda x: x.squeeze(1), f32(2, 1, 3)),
        case(lambda x: x.squeeze(0), f32(2, 1, 3), dynamic=True),
        case(lambda x: x.squeeze((1, 2)), f32(2, 1, 3)),
    ],
)
def squeeze(op: OpBuilder, x: ir.Value, dim: int | Sequence[int] | None = None) -> ir.Value:
    """Squeeze of those named axes that are 1."""
    count = rank(x)
    axes = range(count) if dim is None else [dim] if isinstance(dim, int) else dim
    ones = [axis % count for axis in axes if count and x.shape is not None and x.shape[axis] == 1]
    return op.Squeeze(x, op.axes(*sorted(ones))) if ones else x


@aten.lower(
    "aten::expand aten::expand_copy aten::broadcast_to",
    cases=[
        case(lambda x: x.expand(4, -1, 3), f32(2, 1)),
        case(lambda x: x[:, None].expand(x.shape[0], 5, x.shape[1]), f32(2, 3), dynamic=True),
        case(lambda x, y: x.expand(y.shape[0], -1), f32(1, 3), f32(4, 2)),
    ],
)
def expand(op: OpBuilder, x: ir.Value, size: Sequence[Size], *, implicit: bool = False) -> ir.Value:
    """Expand; an axis that stays is expanded by 1."""
    sizes = [1 if isinstance(item, int) and item == -1 else item for item in size]
    offset = len(sizes) - rank(x)
    for axis, dim in enumerate(x.shape or ()):
        expected = op.result.shape[offset + axis] if op.result.shape is not None else None
        if dim == expected or _is(dim, expected):
            sizes[offset + axis] = 1
    if all(isinstance(item, int) and item == 1 for item in sizes):
        return x if not offset else op.Unsqueeze(x, op.axes(*range(offset)))
    return op.Expand(x, op.shape_vector(sizes))


@aten.lower("aten::expand_as", cases=[case(lambda x, y: x.expand_as(y), f32(3), f32(2, 3))])
def expand_as(op: OpBuilder, x: ir.Value, other: ir.Value) -> ir.Value:
    """Expand to another tensor's shape."""
    return op.Expand(x, op.shape(other))


@aten.lower(
    "aten::cat aten::concat aten::concatenate",
    cases=[
        case(lambda x, y: torch.cat([x, y], 1), f32(2, 3), f32(2, 4), dynamic=True),
        case(lambda x, y: torch.cat([x, y], -1), f32(2, 3), i64(2, 4)),
        case(lambda x: torch.cat([x]), f32(2, 3)),
        case(lambda x, y: torch.cat([x, y]), f32(2, 3), np.zeros(0, np.float32)),
    ],
)
def cat(op: OpBuilder, tensors: Sequence[ir.Value], dim: int = 0) -> ir.Value:
    """Concat; torch skips empty vectors among tensors of higher rank."""
    dtype = op.result.dtype
    count = len(op.result.shape) if op.result.shape is not None else 0
    parts = [op.cast(item, dtype) for item in tensors if not (rank(item) == 1 and count > 1)]
    parts = [item for item in parts if not (item.shape is not None and item.shape[dim] == 0)] or parts[:1]
    return parts[0] if len(parts) == 1 else op.Concat(*parts, axis=dim)


@aten.lower("aten::stack", cases=[case(lambda x, y: torch.stack([x, y], -1), f32(2, 3), f32(2, 3), dynamic=True)])
def stack(op: OpBuilder, tensors: Sequence[ir.Value], dim: int = 0) -> ir.Value:
    """Concat along a new axis."""
    dtype = op.result.dtype
    parts = [op.Unsqueeze(op.cast(item, dtype), op.axes(dim)) for item in tensors]
    return parts[0] if len(parts) == 1 else op.Concat(*parts, axis=dim)


def _sizes_along(op: OpBuilder, dim: int) -> list[int] | None:
    sizes = [item.shape[dim] if item is not None and item.shape is not None else None for item in op.results]
    static = [size for size in sizes if isinstance(size, int)]
    return static if len(static) == len(sizes) else None


@aten.lower(
    "aten::split aten::split_with_sizes aten::chunk aten::tensor_split aten::unsafe_chunk aten::unsafe_split",
    "aten::split_copy aten::split_with_sizes_copy",
    cases=[
        case(lambda x: x.split(2, 1), f32(2, 5), dynamic=True),
        case(lambda x: x.split([1, 4], -1), f32(2, 5)),
        case(lambda x: x.chunk(3, 1), f32(2, 7), dynamic=True),
        case(lambda x: torch.tensor_split(x, 3, 1), f32(2, 7)),
        case(lambda x: torch.tensor_split(x, (1, 3), 1), f32(2, 7)),
    ],
)
def split(op: OpBuilder, x: ir.Value, split_size: object, dim: int = 0) -> tuple[ir.Value, ...]:
    """Split into the sizes that the source gives."""
    sizes = _sizes_along(op, dim)
    if sizes is None:
        if isinstance(split_size, list) and any(isinstance(item, ir.Value) for item in split_size):
            result = op.Split(x, op.shape_vector(split_size), axis=dim, outputs=len(op.results))
            return result if isinstance(result, tuple) else (result,)
        raise UnsupportedOperator("a split of a dynamic size")
    return op.split(x, sizes, dim)


@aten.lower(
    "aten::unbind",
    "aten::unbind_copy",
    cases=[
        case(lambda x: x.unbind(1), f32(2, 3, 4), dynamic=True),
        case(lambda x: torch.stack([x.sum(), *x.unbind(0)]), f32(0)),
    ],
)
def unbind(op: OpBuilder, x: ir.Value, dim: int = 0) -> tuple[ir.Value, ...]:
    """Split into slices of 1, squeezed."""
    if not op.results:
        return ()
    pieces = op.split(x, [1] * len(op.results), dim)
    return tuple(op.Squeeze(piece, op.axes(dim)) for piece in pieces)


@aten.lower(
    "aten::contiguous aten::clone aten::detach aten::alias aten::lift_fresh aten::lift_fresh_copy",
    "aten::detach_copy aten::alias_copy aten::positive aten::resolve_conj aten::resolve_neg aten::lift aten::real",
    "aten::to_dense",
    "aten::conj aten::_conj aten::conj_physical",
    cases=[
        case(lambda x: x.clone().contiguous().detach(), f32(2, 3)),
        case(torch.real, f32(2, 3)),
        case(torch.conj_physical, f32(2, 3)),
        case(lambda x: x.to_dense(), f32(2, 3)),
    ],
)
def identity(op: OpBuilder, x: ir.Value, *_: object, **__: object) -> ir.Value:
    """The operand itself."""
    return x


@aten.lower(
    "aten::to aten::_to_copy aten::type_as aten::_cast_Float prims::convert_element_type",
    cases=[
        case(lambda x: x.to(torch.int64), f32(2, 3)),
        case(lambda x: x.half(), f32(2, 3)),
        case(lambda x: x.bool(), f32(2, 3)),
        case(lambda x, y: x.type_as(y), i64(2, 3), f32(1)),
        case(lambda x: x.float(), boolean(3)),
        case(lambda x: torch.func.vmap(torch.func.grad(lambda z: 0.5 * z.sin()))(x), f32(3)),
    ],
)
def to(op: OpBuilder, x: ir.Value | float, *_: object, **__: object) -> ir.Value:
    """Cast; a number in place of a tensor, as gradients hold them, becomes a constant."""
    return to_dtype(op, x, op.result.dtype)


@aten.lower("aten::copy", cases=[case(lambda x, y: x.clone().copy_(y), f32(2, 3), i64(3))])
def copy(op: OpBuilder, x: ir.Value, src: ir.Value | float, non_blocking: bool = False) -> ir.Value:
    """The other tensor in the shape and type of the first."""
    value = to_dtype(op, src, op.result.dtype)
    same = value.shape is not None and x.shape is not None and list(value.shape) == list(x.shape)
    return value if same else op.Expand(value, op.shape(x))


@aten.lower(
    "aten::repeat",
    "aten::tile",
    cases=[
        case(lambda x: x.repeat(2, 1, 3), f32(2, 3), dynamic=True),
        case(lambda x: x.tile((2,)), f32(2, 3)),
        case(lambda x, y: x.repeat(y.shape[0], 1), f32(2, 3), f32(4, 2)),
    ],
)
def repeat(op: OpBuilder, x: ir.Value, repeats: Sequence[Size]) -> ir.Value:
    """Tile."""
    missing = len(repeats) - rank(x)
    if missing > 0:
        x = op.Unsqueeze(x, op.axes(*range(missing)))
    return op.Tile(x, op.shape_vector([*[1] * -missing, *repeats] if missing < 0 else list(repeats)))


@aten.lower("aten::flip", cases=[case(lambda x: x.flip(0, -1), f32(2, 3, 4), dynamic=True)])
def flip(op: OpBuilder, x: ir.Value, dims: Sequence[int]) -> ir.Value:
    """Slice with steps of -1."""
    if not dims:
        return x
    count = len(dims)
    return op.Slice(x, [-1] * count, [np.iinfo(np.int64).min] * count, list(dims), [-1] * count)


@aten.lower(
    "aten::roll",
    cases=[
        case(lambda x: x.roll(1, 1), f32(2, 3), dynamic=True),
        case(lambda x: x.roll((1, -5), (0, 1)), f32(2, 3)),
        case(lambda x: x.roll(2), f32(2, 3)),
    ],
)
def roll(op: OpBuilder, x: ir.Value, shifts: Sequence[Size], dims: Sequence[int] = ()) -> ir.Value:
    """The end of an axis put before its beginning."""
    if not dims:
        return op.Reshape(roll(op, op.Reshape(x, [-1]), shifts, [0]), op.shape(x))
    for shift, dim in zip(shifts, dims, strict=True):
        x = rolled(op, x, shift, dim)
    return x
