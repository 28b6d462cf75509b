"""Recognition of batch normalization that a framework has spelled out in arithmetic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from onnx_ir.passes import PassResult

from onnxport.graph.passes.matching import arithmetic_nodes, factors_of, producer
from onnxport.graph.passes.rewriting import NamingPass, add_weight, node_from, replace_value

_FLOATS = frozenset({ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.DOUBLE, ir.DataType.BFLOAT16})


@dataclass(frozen=True)
class _Parts:
    """The operands of a normalization ``x m + (shift - mean m)`` with ``m = scale / sqrt(variance + epsilon)``."""

    x: ir.Value
    mean: ir.Value
    variance: ir.Value
    epsilon: float
    scale: ir.Value | None
    shift: ir.Value | None


class RecogniseBatchNormPass(NamingPass):
    """Writes ``x * m + (shift - mean * m)``, with ``m = scale / sqrt(variance + epsilon)``, as BatchNormalization:

    1. over axis 1 as it stands;
    2. over the last axis of images and volumes between two transposes, which the layout pass then cancels.

    Runtimes merge BatchNormalization into the convolution before it, and importers make a layer of it; scale and shift may
    each be missing. The arithmetic must be over vectors with one number a channel.
    """

    def call(self, model: ir.Model) -> PassResult:
        """The model with those sums replaced."""
        additions = arithmetic_nodes(model, "Add")
        return PassResult(model, modified=sum(self._rewrite(model.graph, node) for node in additions) > 0)

    def _rewrite(self, main: ir.Graph, node: ir.Node) -> bool:
        parts = next(_parts(node), None)
        if parts is None or parts.x.shape is None or parts.x.dtype not in _FLOATS:
            return False
        n, channels = parts.x.shape.rank(), _length(parts.variance)
        for axis in dict.fromkeys((1, n - 1)):
            if channels is None or axis >= n or parts.x.shape[axis] != channels or (axis != 1 and n not in (4, 5)):
                continue
            vectors = self._vectors(main, parts, axis, channels)
            if vectors is not None:
                self._replace(node, parts, vectors, axis)
                return True
        return False

    def _vectors(self, main: ir.Graph, parts: _Parts, axis: int, channels: int) -> list[ir.Value | None] | None:
        """Scale, shift, mean and variance as vectors along an axis; None where they are not."""
        n = parts.x.shape.rank() if parts.x.shape is not None else 0
        vectors: list[ir.Value | None] = []
        for value, missing in ((parts.scale, 1.0), (parts.shift, 0.0), (parts.mean, None), (parts.variance, None)):
            vector = _vector(value, n, axis, channels)
            if vector is None and (value is not None or missing is None):
                return None
            vectors.append(vector)
        filled = zip(vectors, (1.0, 0.0, 0.0, 0.0), strict=True)
        dtype = parts.x.dtype or ir.DataType.FLOAT
        return [item or self._filled(main, channels, number, dtype) for item, number in filled]

    def _replace(self, node: ir.Node, parts: _Parts, vectors: list[ir.Value | None], axis: int) -> None:
        graph, x = node.graph, parts.x
        if graph is None or x.shape is None:
            return
        n = x.shape.rank()
        nodes: list[ir.Node] = []

        def append(op_type: str, inputs: list[ir.Value | None], attribute: ir.Attr, axes: Sequence[int]) -> ir.Value:
            name = self._names.unique(f"{node.name}/{op_type}")
            source = inputs[0].shape if inputs[0] is not None else None
            shape = [source[i] for i in axes] if source is not None else None
            nodes.append(node_from(node, op_type, inputs, [attribute], name=name, type=x.type, shape=shape))
            return nodes[-1].outputs[0]

        def transposed(value: ir.Value, perm: list[int]) -> ir.Value:
            return value if axis == 1 else append("Transpose", [value], ir.AttrInt64s("perm", perm), perm)

        y = transposed(x, [0, n - 1, *range(1, n - 1)])
        y = append("BatchNormalization", [y, *vectors], ir.AttrFloat32("epsilon", parts.epsilon), range(n))
        y = transposed(y, [0, *range(2, n), 1])
        graph.insert_after(node, nodes)
        replace_value(node.outputs[0], y)
        graph.remove(node, safe=True)

    def _filled(self, main: ir.Graph, count: int, number: float, dtype: ir.DataType) -> ir.Value:
        """A vector of equal numbers, one for each use of it."""
        name = self._names.unique("ones" if number else "zeros")
        return add_weight(main, name, np.full(count, number, dtype.numpy()))


def _parts(node: ir.Node) -> Iterator[_Parts]:
    """The ways in which an Add is a normalization: at most one."""
    for product, rest in factors_of(node):
        scaled = producer(product, "Mul")
        moved = _shift(rest)
        if scaled is None or moved is None:
            continue
        shift, mean, factor = moved
        for x, m in factors_of(scaled):
            if m is factor and (factor_parts := _factor(m)) is not None:
                variance, epsilon, scale = factor_parts
                yield _Parts(x, mean, variance, epsilon, scale, shift)


def _shift(value: ir.Value) -> tuple[ir.Value | None, ir.Value, ir.Value] | None:
    """``shift - mean m`` or ``(-mean) m`` as shift, mean and m."""
    difference = producer(value, "Sub")
    if difference is not None:
        product = producer(difference.inputs[1], "Mul")
        for mean, m in factors_of(product):
            if _factor(m) is not None:
                return difference.inputs[0], mean, m
        return None
    product = producer(value, "Mul")
    for negated, m in factors_of(product):
        negation = producer(negated, "Neg")
        if negation is not None and negation.inputs[0] is not None and _factor(m) is not None:
            return None, negation.inputs[0], m
    return None


def _factor(m: ir.Value) -> tuple[ir.Value, float, ir.Value | None] | None:
    """``scale / sqrt(variance + epsilon)`` as variance, epsilon and scale."""
    product = producer(m, "Mul")
    choices = factors_of(product) if product is not None else iter([(m, None)])
    for root, scale in choices:
        reciprocal = producer(root, "Reciprocal")
        square_root = producer(reciprocal.inputs[0], "Sqrt") if reciprocal is not None else None
        total = producer(square_root.inputs[0], "Add") if square_root is not None else None
        for variance, epsilon in factors_of(total):
            tensor = epsilon.const_value
            if tensor is not None and tensor.size == 1 and variance.const_value is not epsilon.const_value:
                return variance, float(tensor.numpy().reshape(())), scale
    return None


def _length(value: ir.Value) -> int | None:
    """The number of elements of a value with a static shape."""
    return int(np.prod(value.shape.numpy())) if value.shape is not None and value.shape.is_static() else None


def _vector(value: ir.Value | None, n: int, axis: int, channels: int) -> ir.Value | None:
    """The vector of one number a channel that `value` is, or is a reshape of that broadcasts along `axis`."""
    if value is None or value.shape is None or not value.shape.is_static():
        return None
    sizes = [int(dim) for dim in value.shape.numpy()]
    wanted = [channels if a == axis else 1 for a in range(n)]
    if sizes == [channels]:
        return value if axis == n - 1 else None
    if sizes != wanted[n - len(sizes) :] or any(size != 1 for size in wanted[: n - len(sizes)]):
        return None
    reshaped = producer(value, "Reshape", "Unsqueeze")
    before = reshaped.inputs[0] if reshaped is not None else None
    return before if before is not None and before.shape is not None and list(before.shape) == [channels] else None
