"""Recognition of layer normalization that a framework has spelled out in arithmetic."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
from onnx_ir.passes import PassResult

from onnxport.graph.names import CONSTANT
from onnxport.graph.passes.matching import (
    arithmetic_nodes,
    factors_of,
    producer,
    scalar,
    small_numbers,
    without_reshape,
)
from onnxport.graph.passes.rewriting import NamingPass, add_weight, node_from, replace_value

_SINCE = 17  # the opset that LayerNormalization comes with
_RMS_SINCE = 23  # and RMSNormalization


class RecogniseLayerNormPass(NamingPass):
    """Writes ``x m + (shift - mean m)``, with ``m = scale / sqrt(variance + epsilon)`` and mean and variance those of x over its
    last axes, as LayerNormalization, from opset 17 on. Scale and shift may each be missing.
    """

    def call(self, model: ir.Model) -> PassResult:
        """The model with those sums replaced."""
        if model.graph.opset_imports.get("", 0) < _SINCE:
            return PassResult(model, modified=False)
        return PassResult(
            model, modified=sum(self._rewrite(model.graph, node) for node in arithmetic_nodes(model, "Add")) > 0
        )

    def _rewrite(self, main: ir.Graph, node: ir.Node) -> bool:
        for product, rest in factors_of(node):
            for x, m in factors_of(producer(product, "Mul")):
                moved = _shift(rest, m)
                if moved is None:
                    continue
                mean, shift = moved
                for root, scale in ((m, None), *factors_of(producer(m, "Mul"))):
                    epsilon = _epsilon(root, x, mean)
                    if epsilon is not None and self._replace(main, node, x, mean, epsilon, scale, shift):
                        return True
        return False

    def _replace(
        self,
        main: ir.Graph,
        node: ir.Node,
        x: ir.Value,
        mean: ir.Value,
        epsilon: float,
        scale: ir.Value | None,
        shift: ir.Value | None,
    ) -> bool:
        graph, axes = node.graph, _reduced_axes(mean, x)
        if graph is None or axes is None or x.shape is None or x.dtype is None:
            return False
        axis = axes[0]
        sizes = [size for size in list(x.shape)[axis:] if isinstance(size, int)]
        if len(sizes) < len(axes):
            return False
        vectors = []
        for value in (scale, shift):
            vector = None if value is None else _of_shape(value, sizes)
            if value is not None and vector is None:
                return False
            vectors.append(vector)
        if vectors[0] is None:
            name = self._names.unique("ones")
            vectors[0] = add_weight(main, name, np.ones(sizes, x.dtype.numpy()))
        name = self._names.unique(f"{node.name}/LayerNormalization")
        attributes = [ir.AttrInt64("axis", axis - x.shape.rank()), ir.AttrFloat32("epsilon", epsilon)]
        inputs = [x, *vectors] if vectors[1] is not None else [x, vectors[0]]
        norm = node_from(node, "LayerNormalization", inputs, attributes, name=name, type=x.type, shape=x.shape)
        _put_for(node, norm)
        return True


class RecogniseRmsNormPass(NamingPass):
    """Writes ``x / sqrt(mean(x x) + epsilon)``, which frameworks spell as a product with a reciprocal, with Pow and Div: in that
    form runtimes take it for one operator, with the scale behind it. From opset 23 on, with a scale, it is RMSNormalization.
    """

    def call(self, model: ir.Model) -> PassResult:
        """The model with those products replaced."""
        newest = model.graph.opset_imports.get("", 0) >= _RMS_SINCE
        done = sum(self._rewrite(model.graph, node, newest) for node in arithmetic_nodes(model, "Mul"))
        return PassResult(model, modified=done > 0)

    def _rewrite(self, main: ir.Graph, node: ir.Node, newest: bool) -> bool:
        for x, root in factors_of(node):
            reciprocal = producer(root, "Reciprocal")
            deviation = producer(reciprocal.inputs[0], "Sqrt") if reciprocal is not None else None
            total = producer(deviation.inputs[0], "Add") if deviation is not None else None
            for mean, number in factors_of(total):
                epsilon, square = scalar(number), producer(_operand(mean), "Mul")
                axes = _reduced_axes(mean, None)
                if (
                    epsilon is None
                    or square is None
                    or list(square.inputs) != [x, x]
                    or axes is None
                    or x.dtype is None
                ):
                    continue
                if deviation is None or node.graph is None or square.graph is not node.graph:
                    continue
                if not (newest and self._whole(node, x, axes, epsilon)):
                    self._divided(main, node, x, square, deviation)
                return True
        return False

    def _divided(self, main: ir.Graph, node: ir.Node, x: ir.Value, square: ir.Node, deviation: ir.Node) -> None:
        result = node.outputs[0]
        quotient = node_from(
            node,
            "Div",
            [x, deviation.outputs[0]],
            name=self._names.unique(f"{node.name}/Div"),
            type=result.type,
            shape=result.shape,
        )
        _put_for(node, quotient)
        if x.dtype is not None:
            two = add_weight(main, self._names.unique(CONSTANT), np.asarray(2, x.dtype.numpy()))
            name = self._names.unique(f"{square.name}/Pow")
            _put_for(square, node_from(square, "Pow", [x, two], name=name, type=x.type, shape=x.shape))

    def _whole(self, node: ir.Node, x: ir.Value, axes: list[int], epsilon: float) -> bool:
        """RMSNormalization, which computes in float32, where the product is only scaled by a vector."""
        consumers, result = node.outputs[0].consumers(), node.outputs[0]
        if len(consumers) != 1 or result.is_graph_output() or x.dtype != ir.DataType.FLOAT or x.shape is None:
            return False
        scaled, sizes = consumers[0], [size for size in list(x.shape)[axes[0] :] if isinstance(size, int)]
        if scaled.op_type != "Mul" or scaled.domain or scaled.graph is None or len(sizes) < len(axes):
            return False
        scale = next((_of_shape(b, sizes) for a, b in factors_of(scaled) if a is result), None)
        if scale is None:
            return False
        attributes = [ir.AttrInt64("axis", axes[0] - x.shape.rank()), ir.AttrFloat32("epsilon", epsilon)]
        name = self._names.unique(f"{scaled.name}/RMSNormalization")
        norm = node_from(scaled, "RMSNormalization", [x, scale], attributes, name=name, type=x.type, shape=x.shape)
        _put_for(scaled, norm)
        return True


def _put_for(old: ir.Node, new: ir.Node) -> None:
    """One node in the place of another."""
    if old.graph is not None:
        old.graph.insert_after(old, [new])
        replace_value(old.outputs[0], new.outputs[0])
        old.graph.remove(old, safe=True)


def _shift(rest: ir.Value, m: ir.Value) -> tuple[ir.Value, ir.Value | None] | None:
    """``shift - mean m``, ``(-mean) m + shift`` or ``(-mean) m`` as mean and shift."""
    difference = producer(rest, "Sub")
    if difference is not None:
        mean = _other_factor(difference.inputs[1], m)
        return None if mean is None else (mean, difference.inputs[0])
    candidates: list[tuple[ir.Value | None, ir.Value | None]] = [(rest, None), *factors_of(producer(rest, "Add"))]
    for product, shift in candidates:
        negated = producer(_other_factor(product, m), "Neg")
        if negated is not None and negated.inputs[0] is not None:
            return negated.inputs[0], shift
    return None


def _other_factor(product: ir.Value | None, m: ir.Value) -> ir.Value | None:
    return next((a for a, b in factors_of(producer(product, "Mul")) if b is m), None)


def _epsilon(root: ir.Value | None, x: ir.Value, mean: ir.Value) -> float | None:
    """The epsilon of ``1 / sqrt(variance(x) + epsilon)``; None where it is something else."""
    reciprocal = producer(root, "Reciprocal")
    square_root = producer(reciprocal.inputs[0], "Sqrt") if reciprocal is not None else None
    total = producer(square_root.inputs[0], "Add") if square_root is not None else None
    for variance, number in factors_of(total):
        epsilon = scalar(number)
        if epsilon is None or epsilon < 0 or not _is_variance(variance, x, mean):
            continue
        # The attribute of LayerNormalization has float32's digits: a norm in double precision would move by the difference.
        return None if x.dtype == ir.DataType.DOUBLE and float(np.float32(epsilon)) != epsilon else epsilon
    return None


def _is_variance(value: ir.Value, x: ir.Value, mean: ir.Value) -> bool:
    axes = _reduced_axes(value, None)
    square = producer(_operand(value), "Mul")
    if axes is None or square is None or square.inputs[0] is not square.inputs[1] or axes != _reduced_axes(mean, x):
        return False
    gap = producer(square.inputs[0], "Sub")
    return gap is not None and gap.inputs[0] is x and gap.inputs[1] is mean


def _operand(value: ir.Value) -> ir.Value | None:
    node = value.producer()
    return node.inputs[0] if node is not None else None


def _reduced_axes(value: ir.Value, of: ir.Value | None) -> list[int] | None:
    """The last axes, ascending, whose mean a value is, kept as axes of size 1; `of` what, None for anything."""
    node = producer(value, "ReduceMean")
    source = node.inputs[0] if node is not None else None
    if node is None or source is None or source.shape is None or (of is not None and source is not of):
        return None
    attribute = node.attributes.get("axes")
    given = small_numbers(node.inputs[1]) if attribute is None and len(node.inputs) > 1 else None
    axes = list(attribute.as_ints()) if attribute is not None else given
    if not axes or not node.attributes.get_int("keepdims", 1):
        return None
    rank = source.shape.rank()
    ordered = sorted(axis % rank for axis in axes)
    return ordered if ordered == list(range(rank - len(ordered), rank)) else None


def _of_shape(value: ir.Value, sizes: list[int]) -> ir.Value | None:
    """The vector of these sizes that a value is, or is a reshape of that broadcasts along the last axes."""
    if value.shape is None:
        return None
    shape = list(value.shape)
    if shape == sizes:
        return value
    before = without_reshape(value)
    fits = shape[-len(sizes) :] == sizes and all(size == 1 for size in shape[: -len(sizes)])
    return before if fits and before is not None and before.shape is not None and list(before.shape) == sizes else None
