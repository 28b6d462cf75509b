"""Padding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import onnx_ir as ir
import torch.nn.functional as F
from torch import nn

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import boolean, built, case, f32
from onnxport.opset_maps.lowerings.axes import rank
from onnxport.opset_maps.lowerings.dtypes import to_dtype
from onnxport.opset_maps.maps import aten

Size = int | ir.Value
_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def _pads(x: ir.Value, pad: Sequence[Size]) -> list[Size]:
    """ONNX's order: all beginnings, then all ends; torch counts pairs from the last axis."""
    count = rank(x)
    before: list[Size] = [0] * count
    after: list[Size] = [0] * count
    for i in range(len(pad) // 2):
        before[count - 1 - i], after[count - 1 - i] = pad[2 * i], pad[2 * i + 1]
    return [*before, *after]


@aten.lower(
    "aten::pad",
    cases=[
        case(lambda x: F.pad(x, (1, 2)), f32(2, 3), dynamic=True),
        case(lambda x: F.pad(x, (1, -1, 0, 2), value=1.5), f32(2, 3, 4)),
        case(lambda x: F.pad(x, (1, 2, 2, 1), mode="reflect"), f32(2, 3, 4, 5), dynamic=True),
        case(lambda x: F.pad(x, (1, 2), mode="replicate"), f32(2, 3, 4)),
        case(lambda x: F.pad(x, (1, 2, 1, 0), mode="circular"), f32(2, 3, 4, 5), dynamic=True),
        case(lambda x: F.pad(x, (1, 0), value=True), boolean(2, 3)),
        case(lambda x: F.pad(x, (-3, 3, 2, -1), mode="replicate"), f32(2, 3, 4, 4)),
        case(lambda x: F.pad(x, (-1, 1, -2, 1), mode="circular"), f32(1, 3, 4, 4), min_opset=19),
        case(lambda x: F.pad(x, (-1, 2), mode="reflect"), f32(2, 3, 4)),
        case(lambda x: F.pad(x, (0, x.shape[0])), f32(2, 3), dynamic=True),
    ],
)
def pad(
    op: OpBuilder, x: ir.Value, pad: Sequence[Size], mode: str = "constant", value: float | None = None
) -> ir.Value:
    """Pad; before opset 19 wrapping is put together of slices."""
    if x.dtype is None:
        raise UnsupportedOperator("an operand of unknown type")
    if all(isinstance(item, int) and item == 0 for item in pad):
        return x
    if mode == "circular" and op.opset < 19:
        return _wrapped(op, x, pad)
    if mode == "constant":
        fill = to_dtype(op, 0 if value is None else value, x.dtype)
        return op.Pad(x, op.shape_vector(_pads(x, pad)), fill)
    if x.shape is not None and 0 in x.shape:
        expected = op.result.shape
        if expected is None or not all(isinstance(size, int) for size in expected) or 0 not in expected:
            raise UnsupportedOperator(f"padding of no elements in mode {mode!r}")
        return op.Expand(op.const(0, x.dtype), op.shape_vector([size for size in expected if isinstance(size, int)]))
    pads = _pads(x, pad)
    if mode == "circular":  # which torch takes from what negative pads leave
        x = _cropped(op, x, pads)
    result = op.Pad(
        x, op.shape_vector([item if isinstance(item, ir.Value) else max(item, 0) for item in pads]), mode=_MODES[mode]
    )
    return result if mode == "circular" else _cropped(op, result, pads)


def _cropped(op: OpBuilder, x: ir.Value, pads: Sequence[Size]) -> ir.Value:
    """`x` without what negative pads take away; torch takes it from the padded tensor, but for circular pads."""
    for axis in range(rank(x)):
        before, after = pads[axis], pads[axis + rank(x)]
        start = -before if isinstance(before, int) and before < 0 else 0
        end = after if isinstance(after, int) and after < 0 else np.iinfo(np.int64).max
        if start or end < 0:
            x = op.Slice(x, [start], [end], [axis])
    return x


def _wrapped(op: OpBuilder, x: ir.Value, pad: Sequence[Size]) -> ir.Value:
    for i in range(len(pad) // 2):
        before, after = pad[2 * i], pad[2 * i + 1]
        if not isinstance(before, int) or not isinstance(after, int) or before < 0 or after < 0:
            raise UnsupportedOperator("circular padding by negative or dynamic amounts needs opset 19")
        axis = rank(x) - 1 - i
        parts = [x]
        if before:
            parts.insert(0, op.Slice(x, [-before], [np.iinfo(np.int64).max], [axis]))
        if after:
            parts.append(op.Slice(x, [0], [after], [axis]))
        x = parts[0] if len(parts) == 1 else op.Concat(*parts, axis=axis)
    return x


@aten.lower("aten::constant_pad_nd", cases=[built(lambda: nn.ConstantPad2d((1, 2, 0, 1), 3.5), f32(2, 3, 4))])
def constant_pad_nd(op: OpBuilder, x: ir.Value, pad_: Sequence[Size], value: float = 0) -> ir.Value:
    """Pad with a number."""
    return pad(op, x, pad_, "constant", value)


def _at_the_edge(mode: str, summary: str) -> Callable[..., ir.Value]:
    def lower(op: OpBuilder, x: ir.Value, padding: Sequence[Size]) -> ir.Value:
        return pad(op, x, padding, mode)

    lower.__doc__ = summary
    return lower


for _name, _layer, _lower in (
    ("reflection", nn.ReflectionPad2d, _at_the_edge("reflect", "Pad by reflection at the edge.")),
    ("replication", nn.ReplicationPad2d, _at_the_edge("replicate", "Pad with the edge's values.")),
):
    _cases = [built(partial(_layer, 1), f32(2, 3, 4, 5))]
    aten.lower(*(f"aten::{_name}_pad{axes}d" for axes in (1, 2, 3)), cases=_cases)(_lower)
