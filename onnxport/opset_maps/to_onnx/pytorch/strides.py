"""Views by strides: which element of the flattened operand stands at each place.

The driver brings the operand's axes in the order in which they lie in memory, or refuses a view of other memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir
import torch

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import case, f32
from onnxport.opset_maps.lowerings.dtypes import Size
from onnxport.opset_maps.lowerings.scatter import scatter_elements
from onnxport.opset_maps.maps import aten


def _places(op: OpBuilder, sizes: Sequence[Size], strides: Sequence[Size], offset: Size | None) -> ir.Value:
    """The place in memory of each element."""
    numbers = [item for item in (*sizes, *strides, offset or 0) if isinstance(item, int)]
    if len(numbers) != len(sizes) + len(strides) + 1:
        return _dynamic_places(op, sizes, strides, offset)
    result = np.asarray(numbers[-1], np.int64)
    for size, stride in zip(numbers[: len(sizes)], numbers[len(sizes) : -1], strict=True):
        result = result[..., None] + np.arange(size) * stride
    return op.const(result)


def _dynamic_places(op: OpBuilder, sizes: Sequence[Size], strides: Sequence[Size], offset: Size | None) -> ir.Value:
    result = op.shape_vector([offset or 0])
    for size, stride in zip(sizes, strides, strict=True):
        count = op.Squeeze(op.shape_vector([size]), op.axes(0))
        steps = op.Mul(op.Range(0, count, 1), op.shape_vector([stride]))
        result = op.Add(op.Unsqueeze(result, op.axes(-1)), steps)
    return op.Squeeze(result, op.axes(0))


@aten.lower(
    "aten::as_strided",
    "aten::as_strided_copy",
    cases=[
        case(lambda x: torch.as_strided(x, (2, 3), (4, 1), 1), f32(3, 4), dynamic=False),
        case(lambda x: torch.as_strided(x, (3, 2, 2), (1, 0, 3)), f32(12), dynamic=False),
        case(lambda x: torch.as_strided_copy(x, (), ()), f32(2, 3), dynamic=False),
        case(lambda x: x.as_strided((x.shape[0], 2, 2), (4, 1, 2), 0), f32(2, 4), dynamic=True),
    ],
)
def as_strided(
    op: OpBuilder, x: ir.Value, size: Sequence[Size], stride: Sequence[Size], storage_offset: Size | None = None
) -> ir.Value:
    """Gather from the flattened operand."""
    return op.Gather(op.Reshape(x, [-1]), _places(op, size, stride, storage_offset), axis=0)


@aten.lower(
    "aten::as_strided_scatter",
    cases=[case(lambda x, s: torch.as_strided_scatter(x, s, (2, 3), (4, 1), 1), f32(3, 4), f32(2, 3), dynamic=False)],
)
def as_strided_scatter(
    op: OpBuilder,
    x: ir.Value,
    src: ir.Value,
    size: Sequence[Size],
    stride: Sequence[Size],
    storage_offset: Size | None = None,
) -> ir.Value:
    """ScatterElements into the flattened operand; of elements that go to one place the last stays."""
    places = op.Reshape(_places(op, size, stride, storage_offset), [-1])
    flat = op.cast_like(op.Reshape(src, [-1]), x)
    return op.Reshape(scatter_elements(op, op.Reshape(x, [-1]), places, flat, 0), op.shape(x))


@aten.lower("aten::resize", "aten::resize_", cases=[case(lambda x: x.clone().resize_(2, 3), f32(4, 5), dynamic=False)])
def resize(op: OpBuilder, x: ir.Value, size: Sequence[Size], **_: object) -> ir.Value:
    """The first elements, in another shape."""
    wanted = [item for item in size if isinstance(item, int)]
    given = [item for item in x.shape or () if isinstance(item, int)]
    if x.shape is None or len(given) != len(x.shape) or len(wanted) != len(size):
        raise UnsupportedOperator("sizes that are known at run time alone")
    if math.prod(wanted) > math.prod(given):
        raise UnsupportedOperator("more elements than there are: what the others hold is not defined")
    return op.Reshape(op.Slice(op.Reshape(x, [-1]), [0], [math.prod(wanted)], [0]), wanted)


@aten.lower(
    "aten::resize_as",
    "aten::resize_as_",
    cases=[case(lambda x, y: x.clone().resize_as_(y), f32(4, 5), f32(2, 3), dynamic=False)],
)
def resize_as(op: OpBuilder, x: ir.Value, the_template: ir.Value, **_: object) -> ir.Value:
    """The first elements, in the shape of another operand."""
    shape = list(the_template.shape) if the_template.shape is not None else [None]
    sizes = [item for item in shape if isinstance(item, int)]
    if len(sizes) != len(shape):
        raise UnsupportedOperator("sizes that are known at run time alone")
    return resize(op, x, sizes)
