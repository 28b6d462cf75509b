"""Whether what is computed from eigenvectors or singular vectors depends on their signs, which are the library's choice.

The sign of a column j of U and of V is turned in both together. It stays one of column j through products with numbers that know
no signs, and is gone where both meet in a product over j: U f(S) V', as in a pseudo-inverse, is the same for every choice.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

_EIGEN = frozenset(("SelfAdjointEigV2", "BatchSelfAdjointEigV2"))
_SINGULAR = frozenset(("Svd", "BatchSvd"))
_KEPT = frozenset(("Identity", "Cast", "Neg", "StopGradient"))
_SCALED = frozenset(("Mul", "RealDiv"))
_TURNED = frozenset(("Transpose", "ConjugateTranspose"))
_DIAGONAL = frozenset(("MatrixDiag", "BatchMatrixDiag"))
_PRODUCTS = {"MatMul": ("transpose_a", "transpose_b")}
_PRODUCTS |= dict.fromkeys(("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"), ("adj_x", "adj_y"))
# The axis that signs belong to, counted from the last; free of signs; or unlike either of them.
_LAST, _BEFORE, _FREE, _LOST = -1, -2, 0, 1


def free_form(node: Any) -> str | None:
    """The map's entry for a node of which no signs reach an output, with vectors in signs of our own; else None."""
    if node.type in _SINGULAR:
        sizes = node.inputs[0].shape.as_list()[-2:] if node.inputs[0].shape.rank else [None]
        full = node.get_attr("full_matrices") and sizes[0] != sizes[-1]  # further columns are turned in any way
        if not node.get_attr("compute_uv") or full or None in sizes:
            return None
        return "onnxport::singular_vectors" if _signs_end(node, node.outputs[1:]) else None
    if node.type in _EIGEN and node.get_attr("compute_v"):
        return "onnxport::eigenvectors" if _signs_end(node, node.outputs[1:]) else None
    return None


def _signs_end(node: Any, vectors: list[Any]) -> bool:
    """Whether no output of the node's graph depends on the signs of the columns of `vectors`, and something is made of them."""
    outputs = getattr(node.graph, "outputs", None)
    if outputs is None or not any(tensor.consumers() for tensor in vectors):
        return False
    signed = {tensor.name: _LAST for tensor in vectors}
    operations = node.graph.get_operations()  # each after its inputs
    for operation in operations[operations.index(node) + 1 :]:
        axes = [signed.get(tensor.name, _FREE) for tensor in operation.inputs]
        if not any(axes):
            continue
        axis = _axis_of(operation, axes)
        if axis == _LOST:
            return False
        if axis != _FREE:
            signed[operation.outputs[0].name] = axis
    return not any(tensor.name in signed for tensor in outputs)


def _axis_of(operation: Any, axes: list[int]) -> int:
    """Where the signs are in an operation's result; `axes` are where they are in its operands."""
    if operation.type in _KEPT:
        return axes[0]
    if operation.type in _SCALED:
        return _scaled(operation, axes)
    if operation.type in _TURNED:
        return _transposed(operation, axes[0])
    if operation.type in _PRODUCTS:
        return _product(operation, axes)
    return _LOST


def _scaled(operation: Any, axes: list[int]) -> int:
    """Of a product with numbers that have no signs of their own, column by column."""
    place = 0 if axes[0] else 1
    same = operation.inputs[place].shape.as_list()[-2:] == operation.outputs[0].shape.as_list()[-2:]
    if all(axes) or not same or (operation.type == "RealDiv" and place):
        return _LOST
    return axes[place]


def _transposed(operation: Any, axis: int) -> int:
    order = tf.get_static_value(operation.inputs[1])
    if order is None or not axis:
        return _LOST
    rank = len(order)
    last = [int(item) - rank for item in order[-2:]]
    if sorted(last) != [_BEFORE, _LAST]:
        return _LOST
    return axis if last == [_BEFORE, _LAST] else _other(axis)


def _product(operation: Any, axes: list[int]) -> int:
    """Of a matrix product: gone where both sides have them on the axis that is summed over."""
    flags = [operation.get_attr(name) for name in _PRODUCTS[operation.type]]
    left, right = (_other(axis) if flag and axis else axis for axis, flag in zip(axes, flags, strict=True))
    if (left, right) == (_LAST, _BEFORE):
        return _FREE
    if left and right:
        return _LOST
    summed = _LAST if left else _BEFORE
    if (left or right) != summed:
        return left or right
    return summed if _is_diagonal(operation.inputs[1 if left else 0].op) else _LOST


def _is_diagonal(operation: Any) -> bool:
    """Whether its matrices have a main diagonal and zeros beside it."""
    if operation.type not in ("MatrixDiagV2", "MatrixDiagV3"):
        return operation.type in _DIAGONAL
    given = [tf.get_static_value(tensor) for tensor in operation.inputs[1:]]
    return all(item is not None and item.ndim == 0 and item == usual for item, usual in zip(given, (0, -1, -1, 0)))


def _other(axis: int) -> int:
    return _BEFORE if axis == _LAST else _LAST
