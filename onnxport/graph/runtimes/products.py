"""Products of matrices, written so that no optimisation of onnxruntime changes their numbers."""

from __future__ import annotations

from functools import partial

import numpy as np
import onnx_ir as ir
from onnx_ir.passes import InPlacePass, PassResult

from onnxport.graph.bodies import every_node
from onnxport.graph.builder import OpBuilder
from onnxport.graph.passes.rewriting import add_weight, node_from, replace_value
from onnxport.graph.runtimes.defect import Defect, dims, operand

_HALF = ir.DataType.FLOAT16
# What no transposition is moved through.
_BARRIERS = frozenset({"MatMul", "Gemm", "Conv", "Reshape", "Flatten", "Gather", "GatherND", "If", "Loop", "Scan"})
_MOVED_PAST = 32  # operators that are looked at above an operand
_ELEMENT_BY_ELEMENT = frozenset(
    "Abs Add Cast Clip Div Exp Identity Max Min Mul Neg Pow Reciprocal Sqrt Sub Where".split()
)


class SettleProductsPass(InPlacePass):
    """Gives an operand of ``MatMul`` an axis more where onnxruntime (1.31) else goes wrong.

    1. A vector on the right becomes a column. By a vector onnxruntime drops the transposition of the matrix, which it merges
       into the product, through casts and scales too; it fails on no rows, and gives what stands in memory where there is
       nothing to sum.
    2. An operand that a transposition of its first axis comes before, and a cast behind that (of half precision the runtime's
       own), beside one of fewer axes: merging these three ends the process.
    """

    def call(self, model: ir.Model) -> PassResult:
        """The model with such operands."""
        turned: dict[ir.Value, int] = {}
        products: list[ir.Node] = []
        for node in every_node(model.graph):
            if node.op_type == "MatMul" and not node.domain:
                products.append(node)
            elif stage := _stage(node, turned):
                turned.update(dict.fromkeys(node.outputs, stage))
        settled = [_settle(node, turned, model.graph) for node in products]
        return PassResult(model, modified=any(settled))


def _stage(node: ir.Node, turned: dict[ir.Value, int]) -> int:
    """Whether a result is transposed at its first axis (1), and then cast (2)."""
    if node.domain or node.op_type in _BARRIERS:
        return 0
    stage = max((turned.get(value, 0) for value in node.inputs if value is not None), default=0)
    if node.op_type == "Transpose":
        return max(stage, int(node.attributes.get_ints("perm", (1,))[0] != 0))
    return 2 if stage and node.op_type == "Cast" else stage


def _settle(node: ir.Node, turned: dict[ir.Value, int], main: ir.Graph) -> bool:
    a, b = node.inputs
    if a is None or b is None or a.shape is None or b.shape is None:
        return False
    ranks = [a.shape.rank(), b.shape.rank()]
    by_vector = ranks[1] == 1 < ranks[0]
    if by_vector:
        _widen(node, 1, 1, -1, main)
        ranks[1] = 2
    for index, value in enumerate((a, b)):
        stage = turned.get(value, 0)
        if ranks[index] > max(ranks[1 - index], 2) and (stage == 2 or (stage and value.dtype == _HALF)):
            _widen(node, index, 0, 0, main)
            return True
    return by_vector


def _widen(node: ir.Node, index: int, axis: int, result_axis: int, main: ir.Graph) -> None:
    """Gives an operand an axis of size 1, which the result then loses."""
    value, product, graph = node.inputs[index], node.outputs[0], node.graph
    if value is None or value.shape is None or graph is None:
        return
    dims = list(value.shape)
    wide = _node(node, "Unsqueeze", index, value, axis, main, ir.Shape([*dims[:axis], 1, *dims[axis:]]))
    graph.insert_before(node, wide)
    node.replace_input_with(index, wide.outputs[0])
    narrow = _node(node, "Squeeze", index, product, result_axis, main, product.shape)
    graph.insert_after(node, narrow)
    replace_value(product, narrow.outputs[0])
    narrow.replace_input_with(0, product)
    product.name, product.shape = f"{narrow.name}/wide", None


def _node(
    node: ir.Node, op_type: str, index: int, value: ir.Value, axis: int, main: ir.Graph, shape: ir.Shape | None
) -> ir.Node:
    place = f"{op_type}/axis.{axis}"
    axes = main.initializers[place] if place in main.initializers else add_weight(main, place, np.array([axis]))
    return node_from(node, op_type, [value, axes], name=f"{node.name}/{op_type}.{index}", type=value.type, shape=shape)


def _transposition(value: ir.Value | None) -> ir.Node | None:
    """The transposition that a value is, or whose elements it becomes: onnxruntime moves it behind these."""
    values, seen = [value], 0
    while values and seen < _MOVED_PAST:
        seen += 1
        current = values.pop()
        node = None if current is None else current.producer()
        if node is None or node.domain:
            continue
        if node.op_type == "Transpose":
            return node
        if node.op_type in _ELEMENT_BY_ELEMENT:
            values.extend(node.inputs)
    return None


def _is_transposed(value: ir.Value | None) -> bool:
    return _transposition(value) is not None


def _merges_empty_rows(node: ir.Node) -> bool:
    """Whether an operand's first axis becomes one of a matrix of each product, and may have no elements.

    By a single matrix onnxruntime merges no such transposition.
    """
    if any(len(sizes) < 3 for sizes in map(dims, node.inputs) if sizes is not None):
        return False
    for value in node.inputs:
        turned = _transposition(value)
        perm = () if turned is None else turned.attributes.get_ints("perm", ())
        if turned is not None and len(perm) > 2 and 0 in perm[-2:]:
            sizes = dims(turned.inputs[0])
            if not sizes or not isinstance(sizes[0], int) or sizes[0] == 0:
                return True
    return False


def unmerged_product(op: OpBuilder, node: ir.Node) -> ir.Value:
    """MatMul whose transposed operands pass through a Sum of one, which no version merges or removes."""
    operands = [operand(node, index) for index in range(2)]
    return op.MatMul(*(op.Sum(value) if _is_transposed(value) else value for value in operands))


def _sums_nothing(node: ir.Node) -> bool:
    """Whether operands to be merged have no elements along the axis that is summed."""
    return any(map(_is_transposed, node.inputs)) and (dims(node.inputs[0]) or [None])[-1] == 0


def sum_of_products(op: OpBuilder, node: ir.Node) -> ir.Value:
    """Add as Sum, which onnxruntime merges with no product."""
    return op.Sum(operand(node, 0), operand(node, 1))


def _adds_turned_products(node: ir.Node) -> bool:
    products = [operand(node, index).producer() for index in range(2)]
    both = all(item is not None and not item.domain and item.op_type == "MatMul" for item in products)
    return both and any(_is_transposed(value) for item in products if item is not None for value in item.inputs)


_unmerged = partial(Defect, ("MatMul",), unmerged_product, "MatMul of a Sum of the transposed operand alone")

PRODUCTS = (
    _unmerged(
        reason="onnxruntime before 1.25 merges them into a FusedMatMul, for which it has no kernel of float64",
        dtypes=frozenset({ir.DataType.DOUBLE}),
        applies=lambda node: any(map(_is_transposed, node.inputs)),
        opsets=range(13, 25),
    ),
    _unmerged(
        reason="onnxruntime before 1.32 merges them into a FusedMatMul, which ends the process on a batch of no rows",
        applies=_merges_empty_rows,
    ),
    _unmerged(
        reason="onnxruntime's merged product gives what stands in memory where there is nothing to sum",
        applies=_sums_nothing,
    ),
    Defect(
        ("Add",),
        sum_of_products,
        "Sum",
        reason="onnxruntime before 1.25 merges them into a Gemm of transposed operands whose bias it does not turn",
        dtypes=frozenset({ir.DataType.FLOAT}),
        applies=_adds_turned_products,
        opsets=range(13, 20),
    ),
)
