"""Convolutions and pools in double precision: windows gathered along each axis, then summed."""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import prod

import numpy as np
import onnx_ir as ir

from onnxport.graph.builder import OpBuilder
from onnxport.graph.runtimes.defect import Defect, Written, dims, operand, optional, wholes


def refuses_small_images(message: str) -> bool:
    """Whether an error of onnxruntime is that an image is smaller than the window of a convolution: it gives no empty ones.

    >>> refuses_small_images("Non-zero status code returned while running Conv node. Status Message: Invalid input shape: {1,1}")
    True
    """
    return "running Conv node" in message and "Invalid input shape" in message


@dataclass(frozen=True)
class WindowAxis:
    """How windows lie along one spatial axis.

    Attributes:
        size: how many elements the axis has; None where that is known at run time only.
        kernel: elements of a window.
        stride: from one window to the next.
        dilation: from one element of a window to the next.
        before: padding before the first element.
        after: padding behind the last one.
        ceil: a last window may begin in the padding.
    """

    size: int | None
    kernel: int
    stride: int
    dilation: int
    before: int
    after: int
    ceil: bool = False

    @property
    def span(self) -> int:
        """From a window's first element to behind its last one."""
        return self.dilation * (self.kernel - 1) + 1

    def count(self, op: OpBuilder, x: ir.Value, axis: int) -> ir.Value:
        """How many windows there are, an INT64 scalar (ONNX operator specification, AveragePool)."""
        size = op.Squeeze(op.dim(x, axis), op.axes(0))
        room = op.Add(size, self.before + self.after - self.span)
        if not self.ceil:
            return op.Add(op.Div(room, self.stride), 1)
        count = op.Add(op.Div(op.Add(room, self.stride - 1), self.stride), 1)
        inside = op.Less(op.Mul(op.Sub(count, 1), self.stride), op.Add(size, self.before))
        return op.Where(inside, count, op.Sub(count, 1))

    def places(self, op: OpBuilder, x: ir.Value, axis: int) -> ir.Value:
        """Where the elements of each window stand on the padded axis: INT64 [windows, kernel]."""
        starts = op.Mul(op.Range(op.const(0), self.count(op, x, axis), op.const(1)), self.stride)
        return op.Add(op.Unsqueeze(starts, op.axes(1)), np.arange(self.kernel) * self.dilation)


def _axes(node: ir.Node, x: ir.Value, kernel: Sequence[int], *, ceil: bool = False) -> list[WindowAxis] | None:
    """The node's spatial axes; None where the padding depends on a size that is not known."""
    sizes = (dims(x) or [])[2:]
    count = len(sizes)
    strides, dilations = wholes(node, "strides", [1] * count), wholes(node, "dilations", [1] * count)
    pads, auto = wholes(node, "pads", [0] * 2 * count), node.attributes.get_string("auto_pad", "NOTSET")
    axes = []
    for i, size in enumerate(sizes):
        before, after = pads[i], pads[count + i]
        if auto == "VALID":
            before = after = 0
        elif auto != "NOTSET":
            if size is None:
                return None
            total = max((-(-size // strides[i]) - 1) * strides[i] + dilations[i] * (kernel[i] - 1) + 1 - size, 0)
            small = total // 2
            before, after = (small, total - small) if auto == "SAME_UPPER" else (total - small, small)
        axes.append(WindowAxis(size, kernel[i], strides[i], dilations[i], before, after, ceil and auto == "NOTSET"))
    return axes


def _windows(op: OpBuilder, x: ir.Value, axes: Sequence[WindowAxis]) -> ir.Value:
    """x [N, C, D...] as [N, C, windows, kernel, windows, kernel, ...], zeros where a window leaves it."""
    slack = [axis.stride - 1 if axis.ceil else 0 for axis in axes]
    pads = [0, 0, *(axis.before for axis in axes), 0, 0, *(axis.after + more for axis, more in zip(axes, slack))]
    padded = op.Pad(x, op.const(pads)) if any(pads) else x
    for i, axis in enumerate(axes):
        padded = op.Gather(padded, axis.places(op, x, 2 + i), axis=2 + 2 * i)
    return padded


def convolution(op: OpBuilder, node: ir.Node) -> Written:
    """Each window times the kernel, as one Einsum."""
    x, weight, bias = operand(node, 0), operand(node, 1), optional(node, 2)
    kernel = _kernel(node)
    axes = _axes(node, x, kernel)
    assert axes is not None
    return _product(op, _windows(op, x, axes), weight, bias, node.attributes.get_int("group", 1), len(kernel), "gm")


def transposed_convolution(op: OpBuilder, node: ir.Node) -> Written:
    """Each element of the result gathers what was sent to it: element (place + pad - dilation k) / stride, if there is one."""
    x, weight, bias = operand(node, 0), operand(node, 1), optional(node, 2)
    kernel = _kernel(node)
    count = len(kernel)
    pads, more = _transposed_pads(node, x, kernel)
    strides, dilations = wholes(node, "strides", [1] * count), wholes(node, "dilations", [1] * count)
    padded = op.Pad(x, op.const([0] * (2 + count) + [0, 0] + [1] * count))  # a zero behind each axis
    for i in range(count):
        size = op.Squeeze(op.dim(x, 2 + i), op.axes(0))
        span = dilations[i] * (kernel[i] - 1) + 1
        length = op.Add(op.Mul(op.Sub(size, 1), strides[i]), span + more[i] - pads[i] - pads[count + i])
        places = op.Unsqueeze(op.Range(op.const(0), length, op.const(1)), op.axes(1))
        sent = op.Add(places, pads[i] - np.arange(kernel[i]) * dilations[i])
        source = op.Div(sent, strides[i])
        exists = op.And(op.Equal(op.Mul(source, strides[i]), sent), op.Not(op.Less(sent, 0)))
        exists = op.And(exists, op.Less(source, size))
        padded = op.Gather(padded, op.Where(exists, source, size), axis=2 + 2 * i)
    return _product(op, padded, weight, bias, node.attributes.get_int("group", 1), count, "cg")


def _product(
    op: OpBuilder, windows: ir.Value, weight: ir.Value, bias: ir.Value | None, group: int, spatial: int, order: str
) -> ir.Value:
    """Windows [N, C, windows, kernel, ...] times a kernel [M, C / group, ...] (`order` "gm") or [C, M / group, ...] ("cg")."""
    places, taps = string.ascii_uppercase[:spatial], string.ascii_uppercase[spatial : 2 * spatial]
    pairs = "".join(place + tap for place, tap in zip(places, taps, strict=True))
    if group == 1:
        kernel = "mc" if order == "gm" else "cm"
        result = op.Einsum(windows, weight, equation=f"nc{pairs},{kernel}{taps}->nm{places}")
    else:
        shape = [size for size in dims(weight) or [] if size is not None]
        if order == "gm":
            channels, outputs = shape[1] * group, shape[0]
            split, kernel = [group, outputs // group, shape[1], *shape[2:]], "gmc"
        else:
            channels, outputs = shape[0], shape[1] * group
            split, kernel = [group, channels // group, *shape[1:]], "gcm"
        sizes = [op.dim(windows, axis) for axis in range(2 + 2 * spatial)]
        parts = op.Reshape(
            windows, op.shape_vector([sizes[0], group, channels // group, *sizes[2:]]), allowzero=_zero(op)
        )
        result = op.Einsum(parts, op.Reshape(weight, split), equation=f"ngc{pairs},{kernel}{taps}->ngm{places}")
        result = op.Reshape(result, op.shape_vector([sizes[0], outputs, *sizes[2::2]]), allowzero=_zero(op))
    return result if bias is None else op.Add(result, op.Unsqueeze(bias, op.axes(*range(1, spatial + 1))))


def _zero(op: OpBuilder) -> int | None:
    """Reshape's `allowzero`, which opset 14 brings: a size of 0 is that."""
    return 1 if op.opset >= 14 else None


def _kernel(node: ir.Node) -> list[int]:
    return [size for size in (dims(node.inputs[1]) or [])[2:] if size is not None]


def _transposed_pads(node: ir.Node, x: ir.Value, kernel: Sequence[int]) -> tuple[list[int], list[int]]:
    """Padding at both ends and what is added to the end (ONNX operator specification, ConvTranspose)."""
    count = len(kernel)
    more = wholes(node, "output_padding", [0] * count)
    shape, auto = wholes(node, "output_shape", []), node.attributes.get_string("auto_pad", "NOTSET")
    if not shape and auto in ("NOTSET", "VALID"):
        return wholes(node, "pads", [0] * 2 * count) if auto == "NOTSET" else [0] * 2 * count, more
    strides, dilations = wholes(node, "strides", [1] * count), wholes(node, "dilations", [1] * count)
    sizes = [size or 0 for size in (dims(x) or [])[2:]]
    begins, ends = [], []
    for i in range(count):
        wanted = shape[-count:][i] if shape else sizes[i] * strides[i]
        total = strides[i] * (sizes[i] - 1) + more[i] + (kernel[i] - 1) * dilations[i] + 1 - wanted
        more[i] += max(-total, 0)
        total = max(total, 0)
        half = total // 2
        begins.append(half if auto == "SAME_UPPER" else total - half)
        ends.append(total - begins[-1])
    return begins + ends, more


def average_pool(op: OpBuilder, node: ir.Node) -> Written:
    """The windows' sums over their numbers of elements, padding among them with ``count_include_pad``."""
    x = operand(node, 0)
    axes = pooled_axes(node)
    assert axes is not None
    taps = [3 + 2 * i for i in range(len(axes))]
    total = op.reduce("ReduceSum", _windows(op, x, axes), taps, keepdims=False)
    if not any(axis.before or axis.after or axis.ceil for axis in axes):
        return op.Div(total, float(prod(axis.kernel for axis in axes)))
    padding = bool(node.attributes.get_int("count_include_pad", 0))
    for i, axis in enumerate(axes):
        size = op.Squeeze(op.dim(x, 2 + i), op.axes(0))
        low = 0 if padding else axis.before
        high = op.Add(size, axis.before + (axis.after if padding else 0))
        places = axis.places(op, x, 2 + i)
        inside = op.And(op.Not(op.Less(places, low)), op.Less(places, high))
        count = op.reduce("ReduceSum", op.cast(inside, ir.DataType.DOUBLE), [1], keepdims=False)
        total = op.Div(total, op.Reshape(count, [-1] + [1] * (len(axes) - 1 - i)))
    return total


def norm_pool(op: OpBuilder, node: ir.Node) -> Written:
    """The windows' p-norms: p 1 or 2."""
    axes = pooled_axes(node)
    assert axes is not None
    taps = [3 + 2 * i for i in range(len(axes))]
    operator = "ReduceL1" if node.attributes.get_int("p", 2) == 1 else "ReduceL2"
    return op.reduce(operator, _windows(op, operand(node, 0), axes), taps, keepdims=False)


def pooled_axes(node: ir.Node) -> list[WindowAxis] | None:
    """A pool's spatial axes; None where they or their padding are not known."""
    x = node.inputs[0]
    if x is None or dims(x) is None:
        return None
    return _axes(node, x, wholes(node, "kernel_shape", []), ceil=bool(node.attributes.get_int("ceil_mode", 0)))


def max_unpool(op: OpBuilder, node: ir.Node) -> Written:
    """The size that the windows give, then zeros behind it up to the wanted size."""
    attributes = {name: item.value for name, item in node.attributes.items()}
    natural = op.MaxUnpool(operand(node, 0), operand(node, 1), **attributes)
    behind = op.Sub(operand(node, 2), op.shape(natural))
    return op.Pad(natural, op.Concat(op.Sub(behind, behind), behind, axis=0))


def _has_another_size(node: ir.Node) -> bool:
    """Whether the third operand may be another shape than the windows give."""
    wanted, pooled = optional(node, 2), dims(node.inputs[0])
    if wanted is None:
        return False
    kernel = wholes(node, "kernel_shape", [])
    rank = len(kernel)
    strides, pads = wholes(node, "strides", [1] * rank), wholes(node, "pads", [0] * 2 * rank)
    if wanted.const_value is None or pooled is None or None in pooled:
        return True
    natural = [
        (size - 1) * strides[i] + kernel[i] - pads[i] - pads[i + rank]
        for i, size in enumerate(size or 0 for size in pooled[2:])
    ]
    return list(wanted.const_value.numpy()) != [*pooled[:2], *natural]


def _is_known_convolution(node: ir.Node) -> bool:
    x, weight = node.inputs[0], dims(node.inputs[1])
    if x is None or dims(x) is None or weight is None:
        return False
    if None in weight if node.attributes.get_int("group", 1) > 1 else None in weight[2:]:
        return False
    if node.op_type == "Conv":
        return _axes(node, x, _kernel(node)) is not None
    fixed = (
        node.attributes.get_string("auto_pad", "NOTSET") in ("NOTSET", "VALID")
        and "output_shape" not in node.attributes
    )
    return fixed or None not in (dims(x) or [])[2:]


def _is_known_pool(node: ir.Node) -> bool:
    return pooled_axes(node) is not None and node.attributes.get_int("p", 2) in (1, 2)


_row = partial(Defect, dtypes=frozenset({ir.DataType.DOUBLE}))

WINDOWS = (
    _row(("Conv",), convolution, "an Einsum of its windows", applies=_is_known_convolution),
    _row(("ConvTranspose",), transposed_convolution, "an Einsum of its windows", applies=_is_known_convolution),
    _row(("AveragePool",), average_pool, "sums of its windows", applies=_is_known_pool),
    _row(("LpPool",), norm_pool, "norms of its windows", applies=_is_known_pool),
    Defect(
        ("MaxUnpool",),
        max_unpool,
        "MaxUnpool of its own size and Pad",
        reason="onnxruntime counts the places in the wanted size",
        applies=_has_another_size,
        misread=True,
    ),
)
