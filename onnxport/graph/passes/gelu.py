"""Recognition of Gelu that a framework has spelled out with the complementary error function."""

from __future__ import annotations

import math

import onnx_ir as ir
from onnx_ir.passes import InPlacePass, PassResult

from onnxport.graph.facts import Fact
from onnxport.graph.names import NameAuthority
from onnxport.graph.passes.matching import arithmetic_nodes, factors_of, producer, scalar
from onnxport.graph.passes.rewriting import add_weight, node_from, replace_value

# Set on a value that is computed as the complementary error function of another: that one.
ERFC_OF: Fact[ir.Value] = Fact("erfc of")
_SINCE = 20  # the opset that Gelu comes with
_ROOT = math.sqrt(0.5)


class RecogniseGeluPass(InPlacePass):
    """Writes ``(0.5 x) erfc(-x / sqrt(2))`` of float32 as Gelu, before opset 20 as ``(0.5 x) (1 + erf(x / sqrt(2)))``.

    What is written for the complementary error function alone keeps its digits where it is near 0; beside x, which it is
    multiplied by, they are below a rounding.
    """

    def __init__(self, names: NameAuthority) -> None:
        super().__init__()
        self._names = names

    def call(self, model: ir.Model) -> PassResult:
        """The model with those products replaced."""
        opset = model.graph.opset_imports.get("", 0)
        return PassResult(
            model, modified=sum(self._rewrite(model.graph, node, opset) for node in arithmetic_nodes(model, "Mul")) > 0
        )

    def _rewrite(self, main: ir.Graph, node: ir.Node, opset: int) -> bool:
        for half, tail in factors_of(node):
            x = _times(half, 0.5)
            argument = ERFC_OF.of(tail)
            if x is None or argument is None or x.dtype != ir.DataType.FLOAT or not _is_scaled(argument, x):
                continue
            self._replace(main, node, x, half, opset)
            return True
        return False

    def _replace(self, main: ir.Graph, node: ir.Node, x: ir.Value, half: ir.Value, opset: int) -> None:
        nodes: list[ir.Node] = []

        def append(op_type: str, *inputs: ir.Value) -> ir.Value:
            name = self._names.unique(f"{node.name}/{op_type}")
            nodes.append(node_from(node, op_type, inputs, name=name, type=x.type, shape=x.shape))
            return nodes[-1].outputs[0]

        if opset >= _SINCE:
            y = append("Gelu", x)
        else:
            root, one = (
                add_weight(main, self._names.unique("const"), ir.DataType.FLOAT.numpy().type(number))
                for number in (_ROOT, 1.0)
            )
            y = append("Mul", half, append("Add", append("Erf", append("Mul", x, root)), one))
        graph = node.graph
        if graph is not None:
            graph.insert_after(node, nodes)
            replace_value(node.outputs[0], y)
            graph.remove(node, safe=True)


def _times(value: ir.Value, number: float) -> ir.Value | None:
    """What is multiplied by about `number`."""
    product = producer(value, "Mul")
    for factor, x in factors_of(product):
        found = scalar(factor)
        if found is not None and math.isclose(found, number, rel_tol=1e-6):
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
