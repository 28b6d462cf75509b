"""Windows over the spatial axes.

ONNX does not say what MaxPool and GlobalMaxPool give for NaN, nor for windows of nothing but minus infinity; kernels differ
(docs/conformance/special_values.md). The graph says what the source's framework gives.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.lowerings.axes import size
from onnxport.opset_maps.lowerings.reductions import cut_to_zero, is_floating, reduced

# Operators whose results are not negative, and so no minus infinity.
_NOT_NEGATIVE = frozenset(("Relu", "Sigmoid", "HardSigmoid", "Softmax", "Abs", "Exp", "Sqrt", "Softplus"))


def max_pool(op: OpBuilder, x: ir.Value, **attributes: Any) -> ir.Value:
    """MaxPool; NaN for a window that holds one.

    AveragePool keeps NaN: the mean of a window, cut to 0, is NaN or 0. Relu keeps infinities of both signs from being averaged
    to NaN. Windows that end beyond the padding, or are wider than their elements, are pooled once more for whether one is NaN.
    A ResNet-18 takes 1% longer for it.
    """
    attributes = _without_late_windows(x, attributes)
    return _with_nan(op, x, _greatest(op, x, lambda item: op.MaxPool(item, outputs=1, **attributes)), attributes)


def _without_late_windows(x: ir.Value, attributes: dict[str, Any]) -> dict[str, Any]:
    """A pool's attributes with `ceil_mode` as padding where a last window would begin behind the image, and is left out.

    Runtimes and frameworks leave it out, but ONNX's shape inference counts it (onnx 1.23).
    """
    sizes = list(x.shape)[2:] if attributes.get("ceil_mode") and x.shape is not None else []
    if not sizes or not all(isinstance(length, int) for length in sizes):
        return attributes
    behind, late = [], False
    count = len(sizes)
    pads, dilations = attributes["pads"], attributes.get("dilations", [1] * count)
    for axis, length in enumerate(sizes):
        step, before, after = attributes["strides"][axis], pads[axis], pads[axis + count]
        width = (attributes["kernel_shape"][axis] - 1) * dilations[axis] + 1
        rest = length + before + after - width
        begins = -(-rest // step) * step
        late |= begins >= length + before
        behind.append(after if begins >= length + before else max(begins + width - length - before, after))
    return {**attributes, "pads": [*pads[:count], *behind], "ceil_mode": 0} if late else attributes


def _greatest(op: OpBuilder, x: ir.Value, pool: Callable[[ir.Value], ir.Value]) -> ir.Value:
    """`pool` of `x`: of half of what may be minus infinity, since twice the least number is minus infinity again."""
    if x.dtype != ir.DataType.FLOAT or _is_not_negative(x):
        return pool(x)
    return op.Mul(pool(op.Mul(x, 0.5)), 2.0)


def _with_nan(op: OpBuilder, x: ir.Value, result: ir.Value, attributes: dict[str, Any]) -> ir.Value:
    if not is_floating(x):
        return result
    whole = not attributes.get("ceil_mode", 0) and all(step == 1 for step in attributes.get("dilations", ()))
    if x.dtype != ir.DataType.DOUBLE and whole:
        padding = {"count_include_pad": 1} if any(attributes.get("pads", ())) else {}
        mean = op.AveragePool(_not_negative(op, x), **{**attributes, "dilations": None, "ceil_mode": None}, **padding)
        return op.Add(result, _nan_of_mean(op, mean))
    is_nan = op.cast(op.IsNaN(x), ir.DataType.FLOAT)
    any_nan = op.cast(op.MaxPool(is_nan, outputs=1, **attributes), ir.DataType.BOOL)
    return op.Where(any_nan, op.const(math.nan, x.dtype), result)


def _nan_of_mean(op: OpBuilder, mean: ir.Value) -> ir.Value:
    """0 for each number and infinity that is not negative, NaN for NaN.

    Runtimes compute a product with one number a channel, and Relu, in the layout of the convolutions around them, but not Clip.
    """
    channels = mean.shape[1] if mean.shape is not None and mean.shape.rank() == 4 else None
    if not isinstance(channels, int) or mean.dtype != ir.DataType.FLOAT:
        return cut_to_zero(op, mean)
    return op.Relu(op.Mul(mean, op.const(np.full((channels, 1, 1), -1.0), mean.dtype)))


def max_pool_with_places(op: OpBuilder, x: ir.Value, **attributes: Any) -> tuple[ir.Value, ir.Value]:
    """MaxPool, and where in the flattened image each maximum stands: the last NaN, else the first maximum, as in PyTorch."""
    attributes = _without_late_windows(x, attributes)
    rank = x.shape.rank() if x.shape is not None else 2 + len(attributes["kernel_shape"])
    sizes = op.Concat(*(op.dim(x, axis) for axis in range(2, rank)), axis=0)
    count = op.ReduceProd(sizes, keepdims=0)
    image = op.Reshape(op.Range(0, count, 1), op.Concat([1, 1], sizes, axis=0))
    image = op.cast(image, ir.DataType.DOUBLE)

    def greatest(numbers: ir.Value) -> ir.Value:
        return op.MaxPool(numbers, outputs=1, **attributes)

    _, index = op.MaxPool(x, outputs=2, **attributes)
    first = op.Neg(greatest(op.Neg(image)))  # of a window of nothing but minus infinity
    place = op.Where(op.Less(index, 0), op.cast(first, ir.DataType.INT64), op.Mod(index, count))
    if is_floating(x):
        last_nan = greatest(op.Where(op.IsNaN(x), image, op.const(-1.0, ir.DataType.DOUBLE)))
        place = op.Where(op.GreaterOrEqual(last_nan, 0.0), op.cast(last_nan, ir.DataType.INT64), place)
    return max_pool(op, x, **attributes), place


def average_pool(
    op: OpBuilder,
    x: ir.Value,
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    *,
    ceil: bool,
    counts_padding: bool,
    divisor: int | None = None,
) -> ir.Value:
    """The mean of each window; integers are divided as in C.

    Args:
        op: the builder.
        x: images [batch, channels, ...].
        kernel: the windows' sizes.
        strides: the steps between them.
        pads: how many zeros stand before, and how many behind, each axis.
        ceil: a last window may reach beyond the padding, if it begins before it; that part of it counts for nothing.
        counts_padding: zeros of the padding count as elements.
        divisor: what sums are divided by, where it is not the number of elements.
    """
    padded = any(pads)
    window = {"kernel_shape": kernel, "strides": strides}
    unequal = (ceil and padded and counts_padding) or (
        divisor is not None and (ceil or (padded and not counts_padding))
    )
    if is_floating(x) and not unequal:
        counted = int(counts_padding and padded)
        attributes = _without_late_windows(x, {**window, "pads": [*pads, *pads], "ceil_mode": int(ceil)})
        mean = op.AveragePool(x, **attributes, count_include_pad=counted)
        return mean if divisor is None else op.Mul(mean, math.prod(kernel) / divisor)
    numbers = x if is_floating(x) else op.cast(x, ir.DataType.DOUBLE)
    # One step more for a window that reaches beyond the padding, and none for one that would begin there.
    behind = [min(p + s - 1, k - 1) if ceil else p for p, s, k in zip(pads, strides, kernel, strict=True)]
    numbers = op.Pad(numbers, op.const([0, 0, *pads, 0, 0, *behind]), op.const(0, numbers.dtype))
    sums = op.Mul(op.AveragePool(numbers, **window), float(math.prod(kernel)))
    counts = []
    for axis, (width, step, pad) in enumerate(zip(kernel, strides, pads, strict=True), 2):
        starts = op.Sub(op.Mul(op.Range(0, size(op, sums, axis), 1), step), pad)
        ends = op.Min(op.Add(starts, width), op.Add(op.dim(x, axis), pad if counts_padding else 0))
        count = op.Sub(ends, starts if counts_padding else op.Max(starts, op.const(0)))
        counts.append(op.Reshape(count, [-1] + [1] * (len(kernel) + 1 - axis)))
    divisors = functools.reduce(op.Mul, counts) if divisor is None else op.const(divisor)
    if is_floating(x):
        return op.Div(sums, op.cast_like(divisors, sums))
    return op.cast_like(op.Div(op.cast(op.Round(sums), ir.DataType.INT64), divisors), x)


def global_max_pool(op: OpBuilder, x: ir.Value) -> ir.Value:
    """GlobalMaxPool; NaN for an image that holds one."""
    if not is_floating(x):
        return op.GlobalMaxPool(x)
    if x.dtype == ir.DataType.DOUBLE:  # no kernel
        axes = list(range(2, x.shape.rank() if x.shape is not None else 4))
        return reduced(op, "ReduceMax", x, axes, keepdims=True)
    result = _greatest(op, x, lambda item: op.GlobalMaxPool(item))
    return op.Add(result, cut_to_zero(op, op.GlobalAveragePool(_not_negative(op, x))))


def _not_negative(op: OpBuilder, x: ir.Value) -> ir.Value:
    return x if _is_not_negative(x) else op.Relu(x)


def _is_not_negative(x: ir.Value) -> bool:
    node = x.producer()
    return node is not None and node.op_type in _NOT_NEGATIVE


def greatest_of_windows(
    op: OpBuilder, x: ir.Value, kernel: Sequence[int], strides: Sequence[int], attributes: Mapping[str, Any]
) -> ir.Value:
    """The maximum of each window of whole numbers, channels first, for types that MaxPool does not take: of shifted slices.

    Raises:
        UnsupportedOperator: the windows are dilated, or the padding depends on a dynamic size.
    """
    parts = _places_of_windows(op, x, kernel, strides, attributes, _least(op, x))
    return functools.reduce(lambda first, second: op.Max(first, second), parts)


def greatest_and_place(
    op: OpBuilder, x: ir.Value, kernel: Sequence[int], strides: Sequence[int], attributes: Mapping[str, Any]
) -> tuple[ir.Value, ir.Value]:
    """That maximum, and where it stands first, counted through batch, channels and space.

    Raises:
        UnsupportedOperator: as there.
    """
    count = op.Squeeze(op.Reshape(op.Size(x), [1]), op.axes(0))
    numbers = op.Reshape(op.Range(0, count, 1), op.shape(x))
    parts = _places_of_windows(op, x, kernel, strides, attributes, _least(op, x))
    places = _places_of_windows(op, numbers, kernel, strides, attributes, op.const(-1))
    greatest = functools.reduce(lambda first, second: op.Max(first, second), parts)
    first = places[-1]
    for part, number in zip(parts[::-1], places[::-1], strict=True):
        first = op.Where(op.And(op.Equal(part, greatest), op.GreaterOrEqual(number, 0)), number, first)
    return greatest, first


def _least(op: OpBuilder, x: ir.Value) -> ir.Value:
    return op.const(int(x.dtype.min) if x.dtype is not None else 0, x.dtype)


def _places_of_windows(
    op: OpBuilder,
    x: ir.Value,
    kernel: Sequence[int],
    strides: Sequence[int],
    attributes: Mapping[str, Any],
    padding: ir.Value,
) -> list[ir.Value]:
    """For each place in a window, what stands there in all of them."""
    count = len(kernel)
    pads = attributes.get("pads")
    if any(step != 1 for step in attributes.get("dilations", ()) or ()) or attributes.get("auto_pad", "NOTSET") not in (
        "NOTSET",
        "VALID",
    ):
        raise UnsupportedOperator("the maximum of dilated windows, or padded ones of a dynamic size, of whole numbers")
    if pads is not None and any(pads):
        x = op.Pad(x, op.const([0, 0, *pads[:count], 0, 0, *pads[count:]]), padding)
    axes = op.const(list(range(2, count + 2)))
    parts: list[ir.Value] = []
    sizes = op.Slice(op.shape(x), [2], [count + 2], [0])
    for start in itertools.product(*(range(length) for length in kernel)):
        behind = op.const([length - 1 - begin for length, begin in zip(kernel, start, strict=True)])
        parts.append(op.Slice(x, op.const(list(start)), op.Sub(sizes, behind), axes, op.const(list(strides))))
    return parts
