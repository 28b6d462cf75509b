"""Windows in single precision: means, which onnxruntime's kernel for the newer opsets computes several times slower, greatest
elements of padded images, which it takes without the padding, and greatest elements beside NaN, for which Where takes long.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from onnxport.graph.builder import OpBuilder
from onnxport.graph.passes.rewriting import replace_value
from onnxport.graph.runtimes.casts import again
from onnxport.graph.runtimes.defect import ALL_OPSETS, Defect, Written, dims, operand, optional, wholes
from onnxport.graph.runtimes.windows import pooled_axes

_END = np.iinfo(np.int64).max
_BLOCK = 16  # channels in whole blocks of so many are pooled by another kernel, as fast as ever
_LONG = 1 << 16  # elements of an image for which Where takes longer than asking for NaN
_IN_BLOCKS = frozenset(
    {"Conv", "MaxPool", "AveragePool"}
)  # computed in blocks of channels whatever the operand's layout


def average_pool(op: OpBuilder, node: ir.Node) -> Written:
    """A convolution of each channel on its own; a window of one element is a step over the axes."""
    x, axes = operand(node, 0), pooled_axes(node)
    sizes = dims(x)
    assert axes is not None
    assert sizes is not None
    kernel, strides = [axis.kernel for axis in axes], [axis.stride for axis in axes]
    pads = [*(axis.before for axis in axes), *(axis.after for axis in axes)]
    if prod(kernel) == 1 and not any(pads):
        return op.Slice(x, [0] * len(axes), [_END] * len(axes), list(range(2, 2 + len(axes))), strides)
    even = not any(pads) or bool(node.attributes.get_int("count_include_pad", 0))
    weight = np.full((sizes[1] or 0, 1, *kernel), 1 / prod(kernel) if even else 1, np.float32)
    sums = op.Conv(x, op.const(weight), kernel_shape=kernel, strides=strides, pads=pads, group=sizes[1])
    if even:
        return sums
    shares = np.ones((1, 1, *[1] * len(axes)))
    for i, axis in enumerate(axes):
        size = axis.size or 0
        starts = np.arange(0, size + axis.before + axis.after - axis.span + 1, axis.stride) - axis.before
        inside = np.minimum(starts + axis.kernel, size) - np.maximum(starts, 0)
        shares = shares / inside.reshape([-1 if place == 2 + i else 1 for place in range(2 + len(axes))])
    return op.Mul(sums, op.const(shares.astype(np.float32)))


def _is_slow(node: ir.Node) -> bool:
    sizes, axes = dims(node.inputs[0]), pooled_axes(node)
    if sizes is None or axes is None or len(sizes) != 4 or None in sizes[1:] or sizes[1] % _BLOCK == 0:  # type: ignore[operator]
        return False
    return not any(axis.ceil for axis in axes) and set(wholes(node, "dilations", [1])) == {1}


def apart_from_padding(op: OpBuilder, node: ir.Node) -> Written:
    """MaxPool of what is not the result of a Pad itself; Max with the least number leaves NaN."""
    x = operand(node, 0)
    assert x.dtype is not None
    return again(op, node, [op.Max(x, op.const(np.finfo(np.float32).min, x.dtype))])


def _reads_padding(node: ir.Node) -> bool:
    """Whether zeros stand around the image; around numbers of which none is negative they change nothing."""
    pad = operand(node, 0).producer()
    if pad is None or pad.op_type != "Pad" or pad.attributes.get_string("mode", "constant") != "constant":
        return False
    return _reads_padding_of(node, pad)


def _reads_padding_of(node: ir.Node, pad: ir.Node) -> bool:
    value, before = optional(pad, 2), operand(pad, 0).producer()
    known = None if value is None or value.const_value is None else value.const_value.numpy()
    if value is not None and (known is None or known.any()):
        return False
    whole = not any(wholes(node, "pads", [])) and all(size > 1 for size in wholes(node, "kernel_shape", []))
    return not (whole and before is not None and _is_not_negative(before))


def _is_not_negative(node: ir.Node) -> bool:
    """Whether none of a node's results is below zero."""
    if node.op_type == "Clip":
        least = optional(node, 1)
        return least is not None and least.const_value is not None and bool((least.const_value.numpy() >= 0).all())
    return node.op_type in ("Relu", "Sigmoid", "HardSigmoid", "Abs")


def beside_nan(op: OpBuilder, node: ir.Node) -> Written:
    """MaxPool of the image as it is where all of it is at least the least number, else of what Where gives.

    The sum of the channels' means is at least the least number only if no element is NaN or minus infinity: either one goes
    through every sum (IEEE 754-2019, 6.1 and 6.2). A sum that overflows below, or of both infinities, takes the longer way,
    which is right for all images.
    """
    x, least = _passed_over(operand(node, 0))
    pad, image = _padded(x)
    frame = _frame(node, pad) if pad is not None and _reads_padding_of(node, pad) else None
    if frame is None:
        pooled = _one(again(op, node, [x]))
    else:
        pooled = op.Max(_one(again(op, node, [image], pads=frame[0])), frame[1])
    seen, direct = _captured(op, image), _captured(op, pooled)

    def longer(inner: OpBuilder) -> ir.Value:
        numbers = seen(inner)
        if pad is not None:
            numbers = _one(again(inner, pad, [numbers, *pad.inputs[1:]]))
        return _one(again(inner, node, [_numbers(inner, numbers, least)]))

    return _if_numbers(op, node, image, least, direct, longer)


def single_beside_nan(op: OpBuilder, node: ir.Node) -> Written:
    """The pooled elements as they are where all of them are at least the least number."""
    x, least = _passed_over(node.outputs[0])
    seen = _captured(op, x)
    return _if_numbers(op, node, x, least, seen, lambda inner: _numbers(inner, seen(inner), least))


_Body = Callable[[OpBuilder], ir.Value]


def _captured(op: OpBuilder, x: ir.Value) -> _Body:
    """What gives `x` in a branch.

    onnxruntime's quantiser brings a value back to float32 for the readers in its own graph alone; Shape is one.
    """
    shape = op.shape(x)
    return lambda inner: inner.Reshape(x, shape)


def without_questions(model: ir.Model) -> ir.Model:
    """A copy in which what `beside_nan` writes is the longer way, right for all images; the model itself where nothing is."""
    if not any(_asks_for_numbers(node) for node in model.graph):
        return model
    copy = model.clone()
    for node in [node for node in copy.graph if _asks_for_numbers(node)]:
        body = node.attributes["else_branch"].as_graph()
        moved = list(body)
        result = body.outputs[0]
        body.outputs.clear()
        body.remove(moved)
        copy.graph.insert_before(node, moved)
        replace_value(node.outputs[0], result)
        copy.graph.remove(node, safe=True)
        for item in moved:
            if item.op_type == "Reshape":  # in its own shape
                replace_value(item.outputs[0], operand(item, 0))
    RemoveUnusedNodesPass()(copy)
    return copy


def _asks_for_numbers(node: ir.Node) -> bool:
    """Whether a node is the If of `_if_numbers`."""
    if node.domain or node.op_type != "If" or len(node.outputs) != 1:
        return False
    direct, longer = (node.attributes[name].as_graph() for name in ("then_branch", "else_branch"))
    if longer.initializers or len(longer.outputs) != 1 or longer.outputs[0].producer() not in list(longer):
        return False
    kinds = [item.op_type for item in longer]
    if [kind for kind in kinds if kind not in ("Reshape", "Pad", "MaxPool")] != ["GreaterOrEqual", "Where"]:
        return False
    reshapes = [item for item in (*direct, *longer) if item.op_type == "Reshape"]
    if len(list(direct)) != 1 or direct[0].op_type != "Reshape" or not all(map(_keeps_shape, reshapes)):
        return False
    asked = [operand(node, 0)]
    for kind in ("GreaterOrEqual", "ReduceSum", "GlobalAveragePool"):
        before = asked[-1].producer()
        if before is None or before.op_type != kind:
            return False
        asked.append(operand(before, 0))
    return any(asked[-1] in item.inputs for item in longer)


def _keeps_shape(node: ir.Node) -> bool:
    """Whether a Reshape gives its operand's own shape, as `_captured` writes it."""
    x, wanted = operand(node, 0), operand(node, 1)
    asked = wanted.producer()
    if asked is not None and asked.op_type == "Shape":
        return operand(asked, 0) is x and not asked.attributes
    known = wanted.const_value
    return known is not None and dims(x) == list(known.numpy())


def _if_numbers(op: OpBuilder, node: ir.Node, x: ir.Value, least: ir.Value, direct: _Body, longer: _Body) -> ir.Value:
    total = op.reduce("ReduceSum", op.GlobalAveragePool(x), None, keepdims=False)
    bodies = [op.body(lambda inner, build=build: [build(inner)]) for build in (direct, longer)]  # type: ignore[misc]
    result: ir.Value = op.If(op.GreaterOrEqual(total, least), then_branch=bodies[0], else_branch=bodies[1])
    op.typed(
        result, node.outputs[0].dtype, list(node.outputs[0].shape or ()) or None
    )  # of Reshape the size is not known
    sizes = dims(x) or [None, None]
    if (sizes[1] or 1) % _BLOCK or all(use.node.op_type in _IN_BLOCKS for use in node.outputs[0].uses()):
        return result
    # What follows is computed in blocks of channels if its operands are, as a pool's result is.
    single: ir.Value = op.MaxPool(result, kernel_shape=[1] * (len(sizes) - 2), outputs=1)
    return single


def _frame(node: ir.Node, pad: ir.Node) -> tuple[list[int], np.ndarray] | None:
    """The padding of a pool that reads the image before a Pad, and the number of the Pad in each window, or the least number.

    None where a window may lie beyond the image.
    """
    axes, amounts, sizes = pooled_axes(node), operand(pad, 1).const_value, dims(operand(pad, 0))
    if axes is None or amounts is None or sizes is None or len(pad.inputs) > 3:
        return None
    before, after = np.split(amounts.numpy(), 2)
    count, value = len(axes), optional(pad, 2)
    if before[:2].any() or after[:2].any() or any(axis.before or axis.after or axis.ceil for axis in axes):
        return None
    inside = np.ones([1] * (2 + count), bool)
    for i, (axis, first, last) in enumerate(zip(axes, before[2:], after[2:], strict=True)):
        size = sizes[2 + i]
        if size is None or axis.dilation != 1 or min(first, last) < 0 or max(first, last) >= axis.kernel:
            return None
        starts = np.arange(0, size + first + last - axis.kernel + 1, axis.stride) - first
        whole = (starts >= 0) & (starts + axis.kernel <= size)
        inside = inside & whole.reshape([-1 if place == 2 + i else 1 for place in range(2 + count)])
    number = 0.0 if value is None or value.const_value is None else value.const_value.numpy().item()
    edges = np.where(inside, np.finfo(np.float32).min, np.float32(number))
    return [int(amount) for amount in (*before[2:], *after[2:])], edges.astype(np.float32)


def _one(written: Written) -> ir.Value:
    return written[0] if isinstance(written, tuple) else written


def _numbers(op: OpBuilder, x: ir.Value, least: ir.Value) -> ir.Value:
    return op.Where(op.GreaterOrEqual(x, least), x, least)


def _passed_over(value: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The image and the number of Where(image >= number, image, number)."""
    where = value.producer()
    assert where is not None
    return operand(where, 1), operand(where, 2)


def _is_passed_over(value: ir.Value | None) -> bool:
    """Whether a value is that Where, of an image for which it takes long."""
    where = value.producer() if value is not None else None
    if where is None or where.op_type != "Where":
        return False
    compared, (_, x, least) = operand(where, 0).producer(), where.inputs
    if compared is None or compared.op_type != "GreaterOrEqual" or tuple(compared.inputs) != (x, least):
        return False
    sizes = (dims(x) or [None])[1:]
    known = least is not None and least.const_value is not None and least.const_value.size == 1
    return known and None not in sizes and len(sizes) > 1 and prod(size or 0 for size in sizes) >= _LONG


def _padded(x: ir.Value) -> tuple[ir.Node | None, ir.Value]:
    """The Pad with a constant number that gives `x`, and the image before it."""
    pad = x.producer()
    if pad is None or pad.op_type != "Pad" or pad.attributes.get_string("mode", "constant") != "constant":
        return None, x
    value = optional(pad, 2)
    known = value is None or (value.const_value is not None and bool(np.isfinite(value.const_value.numpy()).all()))
    return (pad, operand(pad, 0)) if known else (None, x)


def _is_single(node: ir.Node) -> bool:
    pool = operand(node, 1).producer()
    return pool is not None and pool.op_type == "MaxPool" and _is_passed_over(node.outputs[0])


_SLOW_WHERE = "onnxruntime's Where takes ten times as long as its MaxPool, and is apart from the layout of convolutions"
_row = partial(Defect, dtypes=frozenset({ir.DataType.FLOAT}))

POOLS = (
    _row(
        ("MaxPool",),
        beside_nan,
        "MaxPool of the image as it is, where that holds numbers",
        _SLOW_WHERE,
        applies=lambda node: len(node.outputs) == 1 and _is_passed_over(node.inputs[0]),
    ),
    _row(
        ("Where",),
        single_beside_nan,
        "the pooled elements as they are, where they are numbers",
        _SLOW_WHERE,
        applies=_is_single,
    ),
    _row(
        ("MaxPool",),
        apart_from_padding,
        "MaxPool apart from the Pad before it",
        reason="onnxruntime makes the zeros of a Pad the padding of the MaxPool behind it, which stands for no number",
        applies=_reads_padding,
        misread=True,
    ),
    _row(
        ("AveragePool",),
        average_pool,
        "a convolution of each channel",
        reason="onnxruntime's kernel from opset 19 on takes up to ten times as long",
        opsets=range(19, ALL_OPSETS.stop),
        applies=_is_slow,
    ),
)
