"""Recognition of Gelu that a framework or a model has spelled out."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir
from onnx_ir.passes import PassResult

from onnxport.graph.facts import Fact
from onnxport.graph.names import CONSTANT
from onnxport.graph.passes.matching import arithmetic_nodes, factors_of, producer, scalar
from onnxport.graph.passes.rewriting import NamingPass, add_weight, node_from, replace_value

# Set on a value that is computed as the complementary error function of another: that one.
ERFC_OF: Fact[ir.Value] = Fact("erfc of")
_SINCE = 20  # the opset that Gelu comes with
_ROOT = math.sqrt(0.5)


class RecogniseGeluPass(NamingPass):
    """Writes ``(0.5 x) erfc(-x / sqrt(2))`` of float32 as Gelu, before opset 20 as ``(0.5 x) (1 + erf(x / sqrt(2)))``; and from
    opset 20 on ``(0.5 x) (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))`` as its approximation.

    What is written for the complementary error function alone keeps its digits where it is near 0; beside x, which it is
    multiplied by, they are below a rounding.
    """

    def call(self, model: ir.Model) -> PassResult:
        """The model with those products replaced."""
        opset = model.graph.opset_imports.get("", 0)
        return PassResult(
            model, modified=sum(self._rewrite(model.graph, node, opset) for node in arithmetic_nodes(model, "Mul")) > 0
        )

    def _rewrite(self, main: ir.Graph, node: ir.Node, opset: int) -> bool:
        for half, tail in factors_of(node):
            x = _times(half, 0.5)
            if x is None or x.dtype != ir.DataType.FLOAT:
                continue
            argument = ERFC_OF.of(tail)
            if argument is not None and _is_scaled(argument, x):
                self._replace(main, node, x, half, opset)
                return True
            if opset >= _SINCE and _is_tanh(tail, x):
                self._write(node, [self._node(node, "Gelu", [x], ir.AttrString("approximate", "tanh"))])
                return True
        return False

    def _node(self, node: ir.Node, op_type: str, inputs: Sequence[ir.Value], *attributes: ir.Attr) -> ir.Node:
        name, result = self._names.unique(f"{node.name}/{op_type}"), node.outputs[0]
        return node_from(node, op_type, inputs, attributes, name=name, type=result.type, shape=result.shape)

    def _write(self, node: ir.Node, nodes: Sequence[ir.Node]) -> None:
        """Other nodes in the place of one."""
        graph = node.graph
        if graph is not None:
            graph.insert_after(node, nodes)
            replace_value(node.outputs[0], nodes[-1].outputs[0])
            graph.remove(node, safe=True)

    def _replace(self, main: ir.Graph, node: ir.Node, x: ir.Value, half: ir.Value, opset: int) -> None:
        if opset >= _SINCE:
            self._write(node, [self._node(node, "Gelu", [x])])
            return
        root, one = (
            add_weight(main, self._names.unique(CONSTANT), np.asarray(number, np.float32)) for number in (_ROOT, 1.0)
        )
        scaled = self._node(node, "Mul", [x, root])
        error = self._node(node, "Erf", scaled.outputs)
        total = self._node(node, "Add", [error.outputs[0], one])
        self._write(node, [scaled, error, total, self._node(node, "Mul", [half, total.outputs[0]])])


def _is_tanh(value: ir.Value, x: ir.Value) -> bool:
    """Whether a value is 1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))."""
    for one, rest in factors_of(producer(value, "Add")):
        curve = producer(rest, "Tanh")
        if scalar(one) != 1 or curve is None or curve.inputs[0] is None:
            continue
        total = _times(curve.inputs[0], math.sqrt(2 / math.pi))
        if any(a is x and _is_cube(_times(b, 0.044715), x) for a, b in factors_of(producer(total, "Add"))):
            return True
    return False


def _is_cube(value: ir.Value | None, x: ir.Value) -> bool:
    power = producer(value, "Pow")
    if power is not None:
        return power.inputs[0] is x and scalar(power.inputs[1]) == 3
    return any(
        a is x and list(square.inputs) == [x, x]
        for a, b in factors_of(producer(value, "Mul"))
        if (square := producer(b, "Mul")) is not None
    )


def _times(value: ir.Value, number: float) -> ir.Value | None:
    """What is multiplied by about `number`."""
    product = producer(value, "Mul")
    for factor, x in factors_of(product):
        constant = scalar(factor)
        if constant is not None and math.isclose(constant, number, rel_tol=1e-6):
            return x
    return None


def _is_scaled(argument: ir.Value, x: ir.Value) -> bool:
    """Whether a value is -x / sqrt(2)."""
    negated = _times(argument, _ROOT)
    inner = producer(negated, "Neg")
    if inner is not None:
        return inner.inputs[0] is x
    if _times(argument, -_ROOT) is x:
        return True
    outer = producer(argument, "Neg")
    return outer is not None and outer.inputs[0] is not None and _times(outer.inputs[0], _ROOT) is x
