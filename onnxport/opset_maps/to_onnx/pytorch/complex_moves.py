"""Complex numbers as pairs: every operator that treats the parts alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import onnx_ir as ir
import torch

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.graph.result_types import Expected
from onnxport.opset_maps.cases import Case
from onnxport.opset_maps.lowerings.complex_numbers import is_complex, joined, part_type
from onnxport.opset_maps.maps import aten
from onnxport.opset_maps.to_onnx.pytorch.complex import complex_case

# Where the arguments of an operator hold a number to fill with, which may be real.
_FILLS: dict[str, tuple[int, ...]] = {
    "aten::pad": (3,),
    "aten::constant_pad_nd": (2,),
    "aten::masked_fill": (2,),
    "aten::index_fill": (3,),
    "aten::where.ScalarOther": (2,),
    "aten::where.ScalarSelf": (1,),
    "aten::scatter.value": (3,),
    "aten::fill": (1,),
    "aten::_unsafe_masked_index": (3,),
}


def lifted(name: str) -> Callable[..., Any]:
    """The real entry of `name` applied to both parts: for operators that are linear or only move elements."""

    def lower(op: OpBuilder, *args: Any, **kwargs: Any) -> Any:
        entry = aten.find(name)
        if entry is None:
            raise UnsupportedOperator(f"{name} has no mapping")
        expected = [None if item is None else Expected(part_type(item.dtype), item.shape) for item in op.results]
        if kwargs.get("reduce") not in (None, "add"):
            raise UnsupportedOperator("no form for complex numbers")
        fills = _FILLS.get(name, ())
        named = [place for place, key in enumerate(kwargs) if key in ("value", "fill_value")]
        result = []
        for index in (0, 1):
            with op.at(None, expected):
                result.append(
                    entry.function(
                        op,
                        *_part_of(op, args, index, name, fills),
                        **dict(zip(kwargs, _part_of(op, list(kwargs.values()), index, name, named))),
                    )
                )
        if isinstance(result[0], (tuple, list)):
            return tuple(joined(op, first, second) for first, second in zip(result[0], result[1], strict=True))
        return joined(op, result[0], result[1])

    lower.__doc__ = "The real form, on both parts."
    return lower


def _part_of(op: OpBuilder, args: Sequence[Any], index: int, name: str, fills: Sequence[int] = ()) -> list[Any]:
    """The arguments with each operand's part; the second part of a real operand, and of a number at `fills`, is 0."""
    result: list[Any] = []
    for place, item in enumerate(args):
        if isinstance(item, ir.Value) and is_complex(item):
            result.append(op.Gather(item, index, axis=-1))
        elif isinstance(item, ir.Value) and index and _is_data(item, name):
            result.append(op.Expand(op.const(0, item.dtype), op.shape(item)))
        elif isinstance(item, (list, tuple)):
            result.append(_part_of(op, item, index, name))
        elif isinstance(item, complex):
            result.append(item.imag if index else item.real)
        else:
            result.append(0.0 if index and place in fills and isinstance(item, (int, float)) else item)
    return result


def _is_data(item: ir.Value, name: str) -> bool:
    """A real operand that joins complex ones, and is no index and no mask."""
    return name in ("aten::cat", "aten::stack") or bool(item.dtype and item.dtype.is_floating_point())


_LIFTED: dict[str, Case] = {
    "aten::view": complex_case(lambda z: z.view(z.shape[0], -1), (2, 3, 4), dynamic=True),
    "aten::reshape": complex_case(lambda z: z.reshape(-1), (2, 3)),
    "aten::flatten": complex_case(lambda z: z.flatten(1), (2, 3, 4)),
    "aten::unflatten": complex_case(lambda z: z.unflatten(1, (2, 2)), (2, 4)),
    "aten::permute": complex_case(lambda z: z.permute(2, 0, 1), (2, 3, 4)),
    "aten::transpose.int": complex_case(lambda z: z.transpose(0, -1), (2, 3, 4)),
    "aten::t": complex_case(torch.t, (2, 3)),
    "aten::unsqueeze": complex_case(lambda z: z.unsqueeze(-1), (2, 3)),
    "aten::squeeze": complex_case(lambda z: z.squeeze(1), (2, 1, 3)),
    "aten::expand": complex_case(lambda z: z.expand(4, 3), (1, 3)),
    "aten::select.int": complex_case(lambda z: z[:, -1], (2, 3)),
    "aten::slice.Tensor": complex_case(lambda z: z[:, 1:-1], (2, 4)),
    "aten::narrow": complex_case(lambda z: z.narrow(1, 1, 2), (2, 4)),
    "aten::cat": complex_case(lambda z, w: torch.cat([z, w, w.real, w.real > 0], -1), (2, 3), (2, 4)),
    "aten::stack": complex_case(lambda z, w: torch.stack([z, w], -1), (2, 3), (2, 3)),
    "aten::split": complex_case(lambda z: z.split(2, 1), (2, 4)),
    "aten::chunk": complex_case(lambda z: z.chunk(2, 1), (2, 4)),
    "aten::unbind": complex_case(lambda z: z.unbind(1), (2, 3)),
    "aten::flip": complex_case(lambda z: z.flip(0), (2, 3)),
    "aten::roll": complex_case(lambda z: z.roll(1, 1), (2, 3)),
    "aten::repeat": complex_case(lambda z: z.repeat(2, 1), (2, 3)),
    "aten::sum": complex_case(lambda z: z.sum(1), (2, 3)),
    "aten::mean": complex_case(lambda z: z.mean(1), (2, 3)),
    "aten::neg": complex_case(torch.neg, (2, 3)),
    "aten::diagonal": complex_case(torch.diagonal, (3, 3)),
    "aten::index_select": complex_case(lambda z: z.index_select(1, torch.tensor([0, 2])), (2, 3)),
    "aten::index.Tensor": complex_case(lambda z: z[:, torch.tensor([0, 2])], (2, 3)),
    "aten::where.self": complex_case(
        lambda z, w: (torch.where(z.real > 0, z, w), torch.where(z.real > 0, z, w.real)), (2, 3), (2, 3)
    ),
    "aten::pad": complex_case(lambda z: torch.nn.functional.pad(z, (1, 2)), (2, 3)),
    "aten::constant_pad_nd": complex_case(lambda z: torch.nn.functional.pad(z, (1, 0), value=1), (2, 3)),
    "aten::clone": complex_case(torch.clone, (2, 3)),
    "aten::contiguous": complex_case(lambda z: z.contiguous(), (2, 3)),
    "aten::resolve_conj": complex_case(lambda z: z.conj().resolve_conj(), (2, 3)),
    "aten::zeros_like": complex_case(torch.zeros_like, (2, 3)),
    "aten::tril": complex_case(torch.tril, (3, 3)),
    "aten::triu": complex_case(torch.triu, (3, 3)),
    "aten::cumsum": complex_case(lambda z: z.cumsum(1), (2, 3)),
    "aten::resize": complex_case(lambda z: z.clone().resize_(2, 2), (3, 3), dynamic=False),
    "aten::copy": complex_case(lambda z, w: torch.ops.aten.copy(z, w), (2, 3), (3,)),
    "aten::alias_copy": complex_case(torch.alias_copy, (2, 3)),
    "aten::detach": complex_case(lambda z: z.detach(), (2, 3)),
    "aten::lift_fresh_copy": complex_case(lambda z: z + torch.tensor(1 + 2j), (2, 3)),
    "aten::diagonal_scatter": complex_case(lambda z, w: z.diagonal_scatter(w), (3, 3), (3,)),
    "aten::gather": complex_case(lambda z: z.gather(1, torch.tensor([[2, 0], [1, 1]])), (2, 3)),
    "aten::index_add": complex_case(lambda z, w: z.index_add(1, torch.tensor([2, 0]), w), (2, 3), (2, 2), min_opset=16),
    "aten::index_copy": complex_case(lambda z, w: z.index_copy(1, torch.tensor([2, 0]), w), (2, 3), (2, 2)),
    "aten::index_fill": complex_case(lambda z: z.index_fill(1, torch.tensor([2, 0]), 3), (2, 3)),
    "aten::index_put": complex_case(lambda z, w: z.index_put((torch.tensor([2, 0]),), w), (3, 2), (2, 2)),
    "aten::masked_fill": complex_case(lambda z: (z.masked_fill(z.real > 0, 2), z.masked_fill(z.real > 0, 1j)), (2, 3)),
    "aten::masked_scatter": complex_case(lambda z, w: z.masked_scatter(z.real > 0, w), (2, 3), (6,)),
    "aten::masked_select": complex_case(lambda z: z.masked_select(z.real > 0), (2, 3)),
    "aten::put": complex_case(lambda z, w: z.put(torch.tensor([2, 0]), w), (2, 3), (2,)),
    "aten::take": complex_case(lambda z: z.take(torch.tensor([5, 0])), (2, 3)),
    "aten::scatter.src": complex_case(lambda z, w: z.scatter(1, torch.tensor([[2], [0]]), w), (2, 3), (2, 3)),
    "aten::scatter.value": complex_case(lambda z: z.scatter(1, torch.tensor([[2], [0]]), 4), (2, 3)),
    "aten::scatter_add": complex_case(
        lambda z, w: z.scatter_add(1, torch.tensor([[2, 2], [0, 1]]), w), (2, 3), (2, 2), min_opset=16
    ),
    "aten::select_scatter": complex_case(lambda z, w: z.select_scatter(w, 1, 2), (2, 3), (2,)),
    "aten::slice_scatter": complex_case(lambda z, w: z.slice_scatter(w, 1, 1), (2, 3), (2, 2)),
    "aten::split_with_sizes": complex_case(lambda z: z.split([1, 3], 1), (2, 4)),
    "aten::split_with_sizes_copy": complex_case(lambda z: torch.split_with_sizes_copy(z, [1, 3], 1), (2, 4)),
    "aten::unfold": complex_case(lambda z: z.unfold(1, 2, 1), (2, 4)),
    "aten::where.ScalarOther": complex_case(lambda z: torch.where(z.real > 0, z, 2.0), (2, 3)),
    "aten::where.ScalarSelf": complex_case(lambda z: torch.where(z.real > 0, 2.0, z), (2, 3)),
    "aten::as_strided": complex_case(lambda z: z.as_strided((2, 2), (3, 1)), (3, 3), dynamic=False),
    "aten::as_strided_copy": complex_case(lambda z: torch.as_strided_copy(z, (2, 2), (3, 1)), (3, 3), dynamic=False),
    "aten::as_strided_scatter": complex_case(
        lambda z, w: z.as_strided_scatter(w, (2, 2), (3, 1)), (3, 3), (2, 2), dynamic=False
    ),
    "aten::_unsafe_masked_index": complex_case(
        lambda z: torch.ops.aten._unsafe_masked_index(z, z[:, 0].real > 0, [torch.tensor([2, 9, 0]), None], 7),
        (3, 3),
    ),
    "aten::_unsafe_masked_index_put_accumulate": complex_case(
        lambda z, w: torch.ops.aten._unsafe_masked_index_put_accumulate(
            z, w.real > 0, [torch.tensor([[2], [1], [0]]), torch.tensor([0, 1, 2])], w
        ),
        (3, 3),
        (3, 3),
        min_opset=16,
    ),
}
for _name, _case in _LIFTED.items():
    aten.lower(_name, accepts_complex=True, cases=[_case])(lifted(_name))
