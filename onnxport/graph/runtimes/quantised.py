"""DequantizeLinear, written so that onnxruntime's optimisations leave its numbers as they are.

Three of them do not (each seen with default settings; without optimisations every version is right):

1. From 1.25 on a product by a matrix of 8, 4 or 2 bits becomes MatMulNBits with ``accuracy_level`` 4, which rounds the other
   operand to 8 bits: results are off by 1 % of the largest one. 1.24 does so for blocks of 4 bits.
2. A QuantizeLinear and DequantizeLinear are put behind a Transpose, Reshape or the like that follows a DequantizeLinear. Without
   a zero point that QuantizeLinear writes uint8: negative numbers become 0, or the file does not load.
3. From 1.25 on, at opset 21 and above, such a pair of int8 does not load.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import onnx_ir as ir

from onnxport.graph.builder import OpBuilder
from onnxport.graph.element_types import element_types
from onnxport.graph.runtimes.casts import again
from onnxport.graph.runtimes.defect import Defect, Written, dims, operand, optional

_T = ir.DataType
_TWO_BITS = element_types("INT2 UINT2")
_BELOW_BYTES = _TWO_BITS | element_types("INT4 UINT4")
_FEW_BITS = _BELOW_BYTES | {_T.INT8, _T.UINT8}
# Operators that onnxruntime moves a pair of QuantizeLinear and DequantizeLinear through.
_MOVERS = ("Reshape", "Transpose", "Slice", "Squeeze", "Unsqueeze", "MaxPool")
_DEPTH = 16  # operators that are looked at above or below a value


def by_arithmetic(op: OpBuilder, node: ir.Node) -> Written:
    """(x - zero point) scale: the same numbers, which runtimes compute once when they load a weight."""
    x, scale, zero = operand(node, 0), operand(node, 1), optional(node, 2)
    kind, result = scale.dtype or _T.FLOAT, node.outputs[0].dtype
    real = op.cast(x, kind)
    if zero is not None:
        real = op.Sub(real, _along(op, node, op.cast(zero, kind)))
    real = op.Mul(real, _along(op, node, scale))
    return real if result is None else op.cast(real, result)


def _along(op: OpBuilder, node: ir.Node, factor: ir.Value) -> ir.Value:
    """A scale or zero point in a shape that broadcasts with the matrix."""
    rank, sizes = len(dims(factor) or ()), dims(operand(node, 0)) or []
    if not rank:
        return factor
    axis = node.attributes.get_int("axis", 1) % len(sizes)
    block = node.attributes.get_int("block_size", 0)
    if block:
        return op.Gather(factor, np.arange(sizes[axis] or 0) // block, axis=axis)
    if rank == len(sizes):
        return factor
    return op.Reshape(factor, [-1 if place == axis else 1 for place in range(len(sizes))])


def _is_weight_of_product(node: ir.Node) -> bool:
    """Whether a constant matrix of few bits is the right operand of a product whose left one is no quantised value."""
    x = operand(node, 0)
    sizes = dims(x)
    known = sizes is not None and len(sizes) == 2 and None not in sizes
    return known and _is_constant(x) and _is_multiplied(node.outputs[0])


def _is_constant(value: ir.Value | None, depth: int = _DEPTH) -> bool:
    if value is None or value.const_value is not None:
        return True
    node = value.producer()
    return node is not None and depth > 0 and all(_is_constant(item, depth - 1) for item in node.inputs)


def _is_multiplied(value: ir.Value, depth: int = _DEPTH) -> bool:
    for node, place in value.uses():
        if node.domain:
            continue
        if node.op_type in ("MatMul", "Gemm") and place == 1 and not _is_quantised(operand(node, 0)):
            return True
        if node.op_type in ("Transpose", "Cast") and depth and _is_multiplied(node.outputs[0], depth - 1):
            return True
    return False


def _is_quantised(value: ir.Value) -> bool:
    """Whether a value is a DequantizeLinear's, moved perhaps: the product is then one of whole numbers, and exact."""
    for _ in range(_DEPTH):
        node = value.producer()
        if node is None or node.op_type not in _MOVERS:
            return node is not None and node.op_type == "DequantizeLinear"
        value = operand(node, 0)
    return False


def moved_before(op: OpBuilder, node: ir.Node) -> Written:
    """The movement of the whole numbers where one scale holds for all, or the axis is known; else of a Sum of one."""
    value = operand(node, 0)
    source = value.producer()
    assert source is not None
    x, scale, zero = operand(source, 0), operand(source, 1), optional(source, 2)
    perm = node.attributes.get_ints("perm", ())
    axis = source.attributes.get_int("axis", 1)
    of_one = dims(scale) == []
    direct = node.op_type != "MaxPool" and x.dtype not in _BELOW_BYTES and "block_size" not in source.attributes
    if not direct or not (of_one or perm):
        return again(op, node, [op.Sum(value), *node.inputs[1:]])
    whole = again(op, node, [x, *node.inputs[1:]])
    assert isinstance(whole, ir.Value)
    attributes = {name: item.value for name, item in source.attributes.items()}
    if not of_one:
        attributes["axis"] = list(perm).index(axis % len(perm))
    return op.DequantizeLinear(whole, scale, zero, **attributes)


def _source(node: ir.Node) -> ir.Node | None:
    """The DequantizeLinear whose result a node moves."""
    value = node.inputs[0]
    source = value.producer() if value is not None else None
    return source if source is not None and source.op_type == "DequantizeLinear" and not source.domain else None


def _lacks_zero_point(node: ir.Node) -> bool:
    source = _source(node)
    return source is not None and optional(source, 2) is None and operand(source, 0).dtype != _T.UINT8


def _is_quantised_anew(node: ir.Node) -> bool:
    source = _source(node)
    if source is None or operand(source, 0).dtype != _T.INT8 or dims(operand(source, 1)) != []:
        return False
    users = [user for user, _ in node.outputs[0].uses()]
    return not users or any(user.op_type != "QuantizeLinear" for user in users)


def _has_no_transpose(node: ir.Node) -> bool:
    source = _source(node)
    return source is not None and operand(source, 0).dtype in _TWO_BITS


_moved = partial(Defect, _MOVERS, moved_before, "the movement before DequantizeLinear, or behind a Sum of one")

QUANTISED = (
    Defect(
        ("DequantizeLinear",),
        by_arithmetic,
        "Cast, Sub and Mul",
        reason="onnxruntime from 1.25 rounds the other operand of such a product to 8 bits",
        dtypes=_FEW_BITS,
        operands=(0,),
        applies=_is_weight_of_product,
        optimised=True,
    ),
    _moved(
        reason="onnxruntime quantises the result anew, in uint8 where there is no zero point",
        applies=_lacks_zero_point,
        optimised=True,
    ),
    _moved(
        reason="onnxruntime from 1.25 quantises the result anew, and does not load what it wrote",
        applies=_is_quantised_anew,
        opsets=range(21, 27),
        optimised=True,
    ),
    _moved(
        reason="onnxruntime moves no numbers of 2 bits",
        applies=_has_no_transpose,
        opsets=range(25, 27),
        optimised=True,
    ),
)
