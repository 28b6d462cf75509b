"""Removal of the transposes around operators that want channels first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import onnx_ir as ir
from onnx_ir.passes import PassResult

from onnxport.graph.bodies import every_node
from onnxport.graph.names import NameAuthority
from onnxport.graph.passes.rewriting import NamingPass, add_weight, node_from, replace_value
from onnxport.graph.provenance import PREFIX, source_name
from onnxport.graph.result_types import Dim

_UNARY = frozenset(
    "Abs Acos Acosh Asin Asinh Atan Atanh BitwiseNot Cast Ceil Celu Clip Cos Cosh Elu Erf Exp Floor Gelu HardSigmoid HardSwish "
    "IsInf IsNaN LeakyRelu Log Mish Neg Not Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt "
    "Swish Tan Tanh ThresholdedRelu Identity".split()
)
_BROADCAST = frozenset(
    "Add And BitwiseAnd BitwiseOr BitwiseXor Div Equal Greater GreaterOrEqual Less LessOrEqual Max Mean Min Mod Mul Or PRelu "
    "Pow Sub Sum Where Xor".split()
)
_REDUCTIONS = {f"Reduce{name}" for name in "L1 L2 LogSum LogSumExp Max Mean Min Prod Sum SumSquare".split()}


class PushTransposesPass(NamingPass):
    """Moves transposes toward the outputs until they meet their inverse, in one walk over the graph:

    1. ``Transpose(Transpose(x))`` becomes one transpose, or none where they cancel;
    2. an elementwise, reducing, padding, slicing, splitting, joining or axis-inserting node that reads a transposed value
       reads the original instead, with its axes renumbered, and its result is transposed; the other operands of a
       broadcast must be constants, transposed alike, or of size 1 along all but one axis;
    3. a vector added to the transposed result of a convolution becomes the convolution's bias.

    A transpose that nothing reads any more is left to the removal of unused nodes. Weights are not changed: where one has to be
    seen in another order, a Reshape of it stands in the graph, which runtimes evaluate when they load the model.
    """

    def call(self, model: ir.Model) -> PassResult:
        """The model with fewer transposes."""
        graphs = [model.graph, *(graph for graph in model.graph.subgraphs())]
        if not any(node.op_type == "Transpose" for node in every_node(model.graph)):
            return PassResult(model, modified=False)
        modified = [_Walk(graph, model.graph, self._names).run() for graph in graphs]
        return PassResult(model, modified=any(modified))


class _Walk:
    """One graph's nodes in order. A rewrite gets a node whose first operand is transposed, the original and the order of axes."""

    def __init__(self, graph: ir.Graph, main: ir.Graph, names: NameAuthority) -> None:
        self.graph = graph
        self.main = main
        self.names = names

    def run(self) -> bool:
        modified = False
        for node in list(self.graph):
            if node.domain == "" and self.graph is node.graph:
                modified |= self._visit(node)
        return modified

    def _visit(self, node: ir.Node) -> bool:
        if not any(_transposed(value) is not None for value in node.inputs):
            return False
        if node.op_type == "Add" and self._is_bias(node):
            return True
        if node.op_type in _BROADCAST:
            return self._broadcast(node)
        rewrite, transposed = _REWRITES.get(node.op_type), _transposed(node.inputs[0])
        return rewrite is not None and transposed is not None and rewrite(self, node, *transposed)

    def _compose(self, node: ir.Node, source: ir.Value, inner: list[int]) -> bool:
        perm = [inner[i] for i in _perm(node)]
        if perm == list(range(len(perm))):
            if node.outputs[0].is_graph_output() and (source.producer() is None or source.is_graph_output()):
                return False
            replace_value(node.outputs[0], source)
            self.graph.remove(node, safe=True)
            return True
        node.replace_input_with(0, source)
        node.attributes["perm"] = ir.AttrInt64s("perm", perm)
        return True

    def _push(self, node: ir.Node, inputs: Sequence[ir.Value | None], perm: Sequence[int], *changed: ir.Attr) -> bool:
        """The node on `inputs`, its attributes `changed`, and each of its results transposed by `perm`."""
        outputs = []
        for result in node.outputs:
            shape = ir.Shape(result.shape[i] for i in _inverse(perm)) if result.shape is not None else None
            name = self.names.unique(f"{result.name}/pushed")
            outputs.append(ir.Value(name=name, type=result.type, shape=shape))
        attrs = list({**node.attributes, **{item.name: item for item in changed}}.values())
        props = dict(node.metadata_props)
        moved = ir.Node("", node.op_type, inputs, attrs, outputs=outputs, name=node.name, metadata_props=props)
        nodes, finals = [moved], outputs
        if list(perm) != list(range(len(perm))):
            for value, result in zip(outputs, node.outputs, strict=True):
                name, order = self.names.unique(f"{result.name}/Transpose"), ir.AttrInt64s("perm", list(perm))
                kind, shape = result.type, result.shape
                nodes.append(node_from(node, "Transpose", [value], [order], name=name, type=kind, shape=shape))
            finals = [item.outputs[0] for item in nodes[1:]]
        self.graph.insert_after(node, nodes)
        for result, final in zip(node.outputs, finals, strict=True):
            replace_value(result, final)
        self.graph.remove(node, safe=True)
        return True

    def _unary(self, node: ir.Node, source: ir.Value, perm: list[int]) -> bool:
        return self._push(node, [source, *node.inputs[1:]], perm)

    def _quantise(self, node: ir.Node, source: ir.Value, perm: list[int]) -> bool:
        """Of one scale for all."""
        scale = node.inputs[1]
        return (
            scale is not None and scale.shape is not None and not scale.shape.rank() and self._unary(node, source, perm)
        )

    def _is_bias(self, node: ir.Node) -> bool:
        """An Add of a vector to a transposed convolution that has no bias: the vector becomes the bias."""
        for value, vector in ((node.inputs[0], node.inputs[1]), (node.inputs[1], node.inputs[0])):
            transposed = _transposed(value)
            if transposed is None or vector is None or value is None or vector.shape is None or len(vector.shape) != 1:
                continue
            result, perm = transposed
            conv = result.producer()
            if conv is None or conv.op_type not in ("Conv", "ConvTranspose") or len(conv.inputs) != 2 or perm[-1] != 1:
                continue
            channels = result.shape[1] if result.shape is not None else None
            alone = len(value.uses()) == 1 and len(result.uses()) == 1
            if not alone or value.is_graph_output() or vector.shape[0] != channels or not of_weight(vector):
                continue
            stored = vector.producer()
            if stored is not None and stored.graph is not None:  # where the convolution can read it
                stored.graph.remove(stored)
                self.graph.insert_before(conv, [stored])
            conv.resize_inputs(3)
            conv.replace_input_with(2, vector)
            name = source_name(node.metadata_props) or source_name(conv.metadata_props)
            for key, item in node.metadata_props.items():
                conv.metadata_props.setdefault(key, item)
            for changed in filter(None, (conv, value.producer())):
                changed.metadata_props[f"{PREFIX}name"] = name  # what both give now is the sum
            replace_value(node.outputs[0], value)
            self.graph.remove(node, safe=True)
            return True
        return False

    def _broadcast(self, node: ir.Node) -> bool:
        perm = next(transposed[1] for value in node.inputs if (transposed := _transposed(value)) is not None)
        inputs: list[ir.Value | None] = []
        for value in node.inputs:
            transposed = _transposed(value)
            if transposed is not None and transposed[1] == perm:
                inputs.append(transposed[0])
            elif value is None or (aligned := self._aligned(node, value, perm)) is None:
                return False
            else:
                inputs.append(aligned)
        if node.op_type == "PRelu" and _transposed(node.inputs[0]) is None:
            return False
        return self._push(node, inputs, perm)

    def _aligned(self, node: ir.Node, value: ir.Value, perm: Sequence[int]) -> ir.Value | None:
        """An operand of a broadcast with its axes in the originals' order, provided that this moves no data to speak of."""
        if value.shape is None or not all(isinstance(dim, int) or i == 0 for i, dim in enumerate(value.shape)):
            return None
        n, sizes = len(perm), list(value.shape)
        if len(sizes) > n:
            return None
        if all(size == 1 for size in sizes):
            return value if len(sizes) < 2 else self._reshaped(node, value, [1] * n)
        full = [1] * (n - len(sizes)) + sizes
        order = _inverse(perm)
        new = [full[i] for i in order]
        wide = [i for i, size in enumerate(full) if size != 1]
        unknown = sum(not isinstance(size, int) for size in full)
        if unknown <= 1 and 0 not in full and [i for i in order if i in wide] == wide:  # only axes of size 1 move
            return self._reshaped(node, value, new)
        if len(sizes) < n or (not value.is_initializer() and len([i for i in wide if i]) > 1):
            return None
        return self._before(node, "Transpose", [value], new, ir.AttrInt64s("perm", order))

    def _reshaped(self, node: ir.Node, value: ir.Value, shape: Sequence[Dim]) -> ir.Value:
        sizes = self._constant([size if isinstance(size, int) else -1 for size in shape])
        return self._before(node, "Reshape", [value, sizes], shape)

    def _before(
        self, node: ir.Node, op_type: str, inputs: Sequence[ir.Value], shape: Iterable[Dim], *attributes: ir.Attr
    ) -> ir.Value:
        """The result of another node, written before `node`."""
        name = self.names.unique(f"{node.name}/aligned")
        other = node_from(node, op_type, inputs, attributes, name=name, type=inputs[0].type, shape=shape)
        self.graph.insert_before(node, [other])
        return other.outputs[0]

    def _constant(self, numbers: Sequence[int]) -> ir.Value:
        """An INT64 vector among the main graph's initializers."""
        return add_weight(self.main, self.names.unique("axes"), np.asarray(numbers, np.int64))

    def _reduce(self, node: ir.Node, source: ir.Value, perm: list[int]) -> bool:
        attribute = node.attributes.get("axes")
        operand = _numbers(node.inputs[1]) if len(node.inputs) > 1 else []
        given = operand if attribute is None else attribute.as_ints()
        if given is None or not given:
            return False  # all axes: the order does not matter to the numbers but to nothing else either
        moved, left = _without(perm, given)
        result = perm if node.attributes.get_int("keepdims", 1) else left
        if attribute is not None:
            return self._push(node, [source], result, ir.AttrInt64s("axes", moved))
        return self._push(node, [source, self._constant(moved)], result)

    def _squeeze(self, node: ir.Node, source: ir.Value, perm: list[int]) -> bool:
        axes = _numbers(node.inputs[1]) if len(node.inputs) > 1 else None
        if axes is None:
            return False
        moved, left = _without(perm, axes)
        return self._push(node, [source, self._constant(moved)], left)

    def _concat(self, node: ir.Node, source: ir.Value, perm: list[int]) -> bool:
        others = [_transposed(value) for value in node.inputs[1:]]
        if any(other is None or other[1] != perm for other in others):
            return False
        return self._along(node, [source, *(other[0] for other in others if other is not None)], perm)

    def _split(self, node: ir.Node, source: ir.Value, perm: list[int]) -> bool:
        return self._along(node, [source, *node.inputs[1:]], perm)

    def _gather(self, node: ir.Node, source: ir.Value, perm: list[int]) -> bool:
        index = node.inputs[1]
        if index is None or _transposed(index) is not None or index.shape is None or len(index.shape) != 1:
            return False
        return self._along(node, [source, index], perm)

    def _along(self, node: ir.Node, inputs: Sequence[ir.Value | None], perm: list[int]) -> bool:
        axis = perm[node.attributes.get_int("axis", 0) % len(perm)]
        return self._push(node, inputs, perm, ir.AttrInt64("axis", axis))

    def _pad(self, node: ir.Node, source: ir.Value, perm: list[int]) -> bool:
        pads, n = _numbers(node.inputs[1]), len(perm)
        if pads is None or len(node.inputs) > 3:
            return False
        order = _inverse(perm)
        moved = [*(pads[i] for i in order), *(pads[n + i] for i in order)]
        return self._push(node, [source, self._constant(moved), *node.inputs[2:]], perm)

    def _slice(self, node: ir.Node, source: ir.Value, perm: list[int]) -> bool:
        axes = _numbers(node.inputs[3]) if len(node.inputs) > 3 else None
        if axes is None:
            return False
        moved = self._constant([perm[axis % len(perm)] for axis in axes])
        return self._push(node, [source, *node.inputs[1:3], moved, *node.inputs[4:]], perm)

    def _unsqueeze(self, node: ir.Node, source: ir.Value, perm: list[int]) -> bool:
        axes, n = _numbers(node.inputs[1]), len(perm) + 1
        if axes is None or len(axes) != 1:
            return False
        at = axes[0] % n
        # at either end it stays there, else it comes before the axis that follows it in the transposed order
        new = at if at in (0, n - 1) else perm[at]
        result = [p + (p >= new) for p in perm]
        result.insert(at, new)
        return self._push(node, [source, self._constant([new])], result)

    def _shape(self, node: ir.Node, source: ir.Value, perm: list[int]) -> bool:
        """The shape of a transposed value from that of the original, so that nothing else keeps the transpose."""
        wanted = perm[node.attributes.get_int("start", 0) : node.attributes.get_int("end", len(perm))]
        if source.shape is None or not wanted:
            return False
        old = node.outputs[0]
        name, final = (self.names.unique(f"{node.name}/{what}") for what in ("original", "Gather"))
        whole = node_from(node, "Shape", [source], name=name, type=old.type, shape=[len(perm)])
        inputs, axis = [whole.outputs[0], self._constant(wanted)], ir.AttrInt64("axis", 0)
        part = node_from(node, "Gather", inputs, [axis], name=final, type=old.type, shape=old.shape)
        self.graph.insert_after(node, [whole, part])
        replace_value(old, part.outputs[0])
        self.graph.remove(node, safe=True)
        return True


_REWRITES: dict[str, Callable[[_Walk, ir.Node, ir.Value, list[int]], bool]] = {
    **dict.fromkeys(_UNARY, _Walk._unary),
    **dict.fromkeys(_REDUCTIONS, _Walk._reduce),
    **dict.fromkeys(("DequantizeLinear", "QuantizeLinear"), _Walk._quantise),
    "Concat": _Walk._concat,
    "Gather": _Walk._gather,
    "Pad": _Walk._pad,
    "Shape": _Walk._shape,
    "Slice": _Walk._slice,
    "Split": _Walk._split,
    "Squeeze": _Walk._squeeze,
    "Transpose": _Walk._compose,
    "Unsqueeze": _Walk._unsqueeze,
}


def _perm(node: ir.Node) -> list[int]:
    attribute = node.attributes.get("perm")
    if attribute is not None:
        return [int(item) for item in attribute.as_ints()]
    shape = node.inputs[0].shape if node.inputs[0] is not None else None
    return list(range(len(shape) if shape is not None else 0))[::-1]


def _transposed(value: ir.Value | None) -> tuple[ir.Value, list[int]] | None:
    """The original of a transposed value and the order of its axes; weights that are transposed stay as they are."""
    node = value.producer() if value is not None else None
    if node is None or node.op_type != "Transpose" or node.domain or node.inputs[0] is None:
        return None
    return None if node.inputs[0].is_initializer() else (node.inputs[0], _perm(node))


def of_weight(value: ir.Value) -> bool:
    """Whether a value is a weight, or the real numbers that a weight stands for, which nothing else reads."""
    node = value.producer()
    if node is None or node.op_type not in ("Cast", "DequantizeLinear") or node.domain:
        return value.is_initializer()
    return len(value.uses()) == 1 and all(item is not None and item.is_initializer() for item in node.inputs)


def _numbers(value: ir.Value | None) -> list[int] | None:
    """The numbers of a small constant."""
    tensor = value.const_value if value is not None else None
    if value is None or tensor is None or not value.is_initializer() or tensor.size > 64:
        return None
    return [int(item) for item in tensor.numpy().ravel()]


def _inverse(perm: Sequence[int]) -> list[int]:
    return sorted(range(len(perm)), key=perm.__getitem__)


def _without(perm: Sequence[int], axes: Sequence[int]) -> tuple[list[int], list[int]]:
    """The originals of some axes, ascending, and the order of those that are left, numbered anew."""
    dropped = {int(axis) % len(perm) for axis in axes}
    left = [axis for i, axis in enumerate(perm) if i not in dropped]
    ranks = {axis: i for i, axis in enumerate(sorted(left))}
    return sorted(perm[axis] for axis in dropped), [ranks[axis] for axis in left]
