"""Removal of the transposes around operators that want channels first."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir
from onnx_ir.passes import InPlacePass, PassResult

from onnxport.graph.names import NameAuthority
from onnxport.graph.passes.batch_norm import replace_value

_UNARY = frozenset(
    "Abs Acos Acosh Asin Asinh Atan Atanh BitwiseNot Cast Ceil Celu Clip Cos Cosh Elu Erf Exp Floor Gelu HardSigmoid HardSwish "
    "IsInf IsNaN LeakyRelu Log Mish Neg Not Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt "
    "Swish Tan Tanh ThresholdedRelu Identity".split()
)
_BROADCAST = frozenset(
    "Add And BitwiseAnd BitwiseOr BitwiseXor Div Equal Greater GreaterOrEqual Less LessOrEqual Max Mean Min Mod Mul Or PRelu "
    "Pow Sub Sum Where Xor".split()
)
_REDUCTIONS = frozenset(
    "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare".split()
)


class PushTransposesPass(InPlacePass):
    """Moves transposes toward the outputs until they meet their inverse, in one walk over the graph:

    1. ``Transpose(Transpose(x))`` becomes one transpose, or none where they cancel;
    2. an elementwise, reducing, padding, slicing, splitting, joining or axis-inserting node that reads a transposed value
       reads the original instead, with its axes renumbered, and its result is transposed; the other operands of a
       broadcast must be constants, transposed alike, or of size 1 along all but one axis;
    3. a vector added to the transposed result of a convolution becomes the convolution's bias.

    A transpose that nothing reads any more is left to the removal of unused nodes. Weights are not changed: where one has to be
    seen in another order, a Reshape of it stands in the graph, which runtimes evaluate when they load the model.

    Args:
        names: the model's naming authority.
    """

    def __init__(self, names: NameAuthority) -> None:
        super().__init__()
        self._names = names

    def call(self, model: ir.Model) -> PassResult:
        """The model with fewer transposes."""
        graphs = [model.graph, *(graph for graph in model.graph.subgraphs())]
        if not any(node.op_type == "Transpose" for node in model.graph.all_nodes()):
            return PassResult(model, modified=False)
        modified = [_Walk(graph, model.graph, self._names).run() for graph in graphs]
        return PassResult(model, modified=any(modified))


class _Walk:
    """One graph's nodes in order. `self.node` is the node being moved below the transpose of its operands."""

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
        if node.op_type == "Transpose":
            return self._compose(node)
        if not any(_transposed(value) is not None for value in node.inputs):
            return False
        if node.op_type == "Add" and self._is_bias(node):
            return True
        if node.op_type in _UNARY:
            return self._push(node, node.inputs[:1])
        if node.op_type in _BROADCAST:
            return self._broadcast(node)
        if node.op_type in _REDUCTIONS:
            return self._reduce(node)
        rewrite = _REWRITES.get(node.op_type)
        return rewrite(self, node) if rewrite is not None else False

    # -- nodes ---------------------------------------------------------------------------------------------------------

    def _compose(self, node: ir.Node) -> bool:
        transposed = _transposed(node.inputs[0])
        if transposed is None:
            return False
        source, inner = transposed
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

    def _push(
        self,
        node: ir.Node,
        operands: Sequence[ir.Value | None],
        *,
        perms: Sequence[Sequence[int]] | None = None,
        inputs: Sequence[ir.Value | None] | None = None,
        attributes: dict[str, ir.Attr] | None = None,
    ) -> bool:
        """The node on the originals of its transposed operands, each of its results transposed.

        Args:
            node: the node.
            operands: those of its inputs that decide the order of axes, the first of them transposed.
            perms: the order of each result, by default that of the first operand.
            inputs: all inputs of the new node; by default the originals of transposed operands, the rest as it is.
            attributes: changed attributes.
        """
        transposed = _transposed(operands[0])
        if transposed is None:
            return False
        perms = perms or [transposed[1]] * len(node.outputs)
        if inputs is None:
            inputs = [source[0] if (source := _transposed(value)) is not None else value for value in node.inputs]
        outputs = []
        for result, perm in zip(node.outputs, perms, strict=True):
            name = self.names.unique(f"{result.name}/pushed")
            shape = (
                ir.Shape([result.shape[perm.index(i)] for i in range(len(perm))]) if result.shape is not None else None
            )
            outputs.append(ir.Value(name=name, type=result.type, shape=shape))
        changed = {**node.attributes, **(attributes or {})}
        moved = ir.Node(
            "",
            node.op_type,
            inputs,
            list(changed.values()),
            outputs=outputs,
            name=node.name,
            metadata_props=dict(node.metadata_props),
        )
        nodes = [moved]
        finals = []
        for value, perm, result in zip(outputs, perms, node.outputs, strict=True):
            if list(perm) == list(range(len(perm))):
                finals.append(value)
                continue
            name = self.names.unique(f"{result.name}/Transpose")
            final = ir.Value(name=name, type=result.type, shape=result.shape)
            attrs = [ir.AttrInt64s("perm", list(perm))]
            nodes.append(
                ir.Node(
                    "",
                    "Transpose",
                    [value],
                    attrs,
                    outputs=[final],
                    name=name,
                    metadata_props=dict(node.metadata_props),
                )
            )
            finals.append(final)
        self.graph.insert_after(node, nodes)
        for result, final in zip(node.outputs, finals, strict=True):
            replace_value(result, final)
        self.graph.remove(node, safe=True)
        return True

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
            if not alone or value.is_graph_output() or vector.shape[0] != channels or not vector.is_initializer():
                continue
            conv.resize_inputs(3)
            conv.replace_input_with(2, vector)
            for key, item in node.metadata_props.items():
                conv.metadata_props.setdefault(key, item)
            replace_value(node.outputs[0], value)
            self.graph.remove(node, safe=True)
            return True
        return False

    def _broadcast(self, node: ir.Node) -> bool:
        perm = next(transposed[1] for value in node.inputs if (transposed := _transposed(value)) is not None)
        inputs: list[ir.Value | None] = []
        first: ir.Value | None = None
        for value in node.inputs:
            transposed = _transposed(value)
            if transposed is not None and transposed[1] == perm:
                first = first or value
                inputs.append(transposed[0])
            elif value is None or (aligned := self._aligned(node, value, perm)) is None:
                return False
            else:
                inputs.append(aligned)
        if node.op_type == "PRelu" and _transposed(node.inputs[0]) is None:
            return False
        return self._push(node, [first], inputs=inputs)

    def _aligned(self, node: ir.Node, value: ir.Value, perm: Sequence[int]) -> ir.Value | None:
        """An operand of a broadcast with its axes in the originals' order, provided that this moves no data to speak of."""
        if value.shape is None or not all(isinstance(dim, int) or i == 0 for i, dim in enumerate(value.shape)):
            return None
        n, sizes = len(perm), list(value.shape)
        if len(sizes) > n:
            return None
        if all(size == 1 for size in sizes):
            return value if len(sizes) < 2 else self._made(node, "Reshape", value, self._constant([1] * n), [1] * n)
        full = [1] * (n - len(sizes)) + sizes
        order = [list(perm).index(i) for i in range(n)]
        new = [full[i] for i in order]
        wide = [i for i, size in enumerate(full) if size != 1]
        unknown = sum(not isinstance(size, int) for size in full)
        if unknown <= 1 and 0 not in full and [i for i in order if i in wide] == wide:  # only axes of size 1 move
            sizes_then = [int(size) if isinstance(size, int) else -1 for size in new]
            return self._made(node, "Reshape", value, self._constant(sizes_then), new)
        if len(sizes) < n or (not value.is_initializer() and len([i for i in wide if i]) > 1):
            return None
        name = self.names.unique(f"{node.name}/aligned")
        final = ir.Value(name=name, type=value.type, shape=ir.Shape(new))
        attrs = [ir.AttrInt64s("perm", order)]
        self._insert(
            node,
            ir.Node(
                "", "Transpose", [value], attrs, outputs=[final], name=name, metadata_props=dict(node.metadata_props)
            ),
        )
        return final

    def _made(
        self, node: ir.Node, op_type: str, value: ir.Value, other: ir.Value, shape: Sequence[int | ir.SymbolicDim]
    ) -> ir.Value:
        name = self.names.unique(f"{node.name}/aligned")
        final = ir.Value(name=name, type=value.type, shape=ir.Shape(shape))
        self._insert(
            node,
            ir.Node("", op_type, [value, other], outputs=[final], name=name, metadata_props=dict(node.metadata_props)),
        )
        return final

    def _insert(self, before: ir.Node, node: ir.Node) -> None:
        self.graph.insert_before(before, [node])

    def _constant(self, numbers: Sequence[int]) -> ir.Value:
        """An INT64 vector among the main graph's initializers."""
        name = self.names.unique("axes")
        tensor = ir.Tensor(np.asarray(numbers, np.int64), name=name)
        value = ir.Value(
            name=name, type=ir.TensorType(ir.DataType.INT64), shape=ir.Shape([len(numbers)]), const_value=tensor
        )
        self.main.register_initializer(value)
        return value

    def _reduce(self, node: ir.Node) -> bool:
        transposed = _transposed(node.inputs[0])
        if transposed is None:
            return False
        perm = transposed[1]
        attribute = node.attributes.get("axes")
        given = (
            attribute.as_ints() if attribute is not None else _numbers(node.inputs[1]) if len(node.inputs) > 1 else []
        )
        keep = node.attributes["keepdims"].as_int() if "keepdims" in node.attributes else 1
        if given is None or not given:
            return False  # all axes: the order does not matter to the numbers but to nothing else either
        axes = [int(axis) % len(perm) for axis in given]
        moved = sorted(perm[axis] for axis in axes)
        inputs: list[ir.Value | None] = [transposed[0]]
        attributes = {}
        if attribute is not None:
            attributes["axes"] = ir.AttrInt64s("axes", moved)
        else:
            inputs.append(self._constant(moved))
        result = list(perm) if keep else _squeezed([p for i, p in enumerate(perm) if i not in axes])
        return self._push(node, node.inputs[:1], perms=[result], inputs=inputs, attributes=attributes)

    def _concat(self, node: ir.Node) -> bool:
        transposed = _transposed(node.inputs[0])
        if transposed is None:
            return False
        perm = transposed[1]
        if any((other := _transposed(value)) is None or other[1] != perm for value in node.inputs):
            return False
        axis = perm[node.attributes["axis"].as_int() % len(perm)]
        return self._push(node, node.inputs[:1], attributes={"axis": ir.AttrInt64("axis", axis)})

    def _split(self, node: ir.Node) -> bool:
        transposed = _transposed(node.inputs[0])
        if transposed is None:
            return False
        axis = node.attributes["axis"].as_int() if "axis" in node.attributes else 0
        return self._push(
            node, node.inputs[:1], attributes={"axis": ir.AttrInt64("axis", transposed[1][axis % len(transposed[1])])}
        )

    def _pad(self, node: ir.Node) -> bool:
        transposed, pads = _transposed(node.inputs[0]), _numbers(node.inputs[1])
        if transposed is None or pads is None or len(node.inputs) > 3:
            return False
        perm, n = transposed[1], len(transposed[1])
        order = [perm.index(i) for i in range(n)]
        moved = [*(pads[i] for i in order), *(pads[n + i] for i in order)]
        return self._push(node, node.inputs[:1], inputs=[transposed[0], self._constant(moved), *node.inputs[2:]])

    def _slice(self, node: ir.Node) -> bool:
        transposed = _transposed(node.inputs[0])
        if transposed is None or len(node.inputs) < 4:
            return False
        axes = _numbers(node.inputs[3])
        if axes is None:
            return False
        moved = self._constant([transposed[1][axis % len(transposed[1])] for axis in axes])
        return self._push(node, node.inputs[:1], inputs=[transposed[0], *node.inputs[1:3], moved, *node.inputs[4:]])

    def _squeeze(self, node: ir.Node) -> bool:
        transposed = _transposed(node.inputs[0])
        axes = _numbers(node.inputs[1]) if len(node.inputs) > 1 else None
        if transposed is None or axes is None:
            return False
        perm = transposed[1]
        dropped = {axis % len(perm) for axis in axes}
        result = _squeezed([p for i, p in enumerate(perm) if i not in dropped])
        moved = self._constant(sorted(perm[axis] for axis in dropped))
        return self._push(node, node.inputs[:1], perms=[result], inputs=[transposed[0], moved])

    def _unsqueeze(self, node: ir.Node) -> bool:
        transposed, axes = _transposed(node.inputs[0]), _numbers(node.inputs[1])
        if transposed is None or axes is None or len(axes) != 1:
            return False
        perm = transposed[1]
        n = len(perm) + 1
        at = axes[0] % n
        if at == 0:
            new = 0
        elif at == n - 1:
            new = n - 1
        else:  # before the axis that follows it in the transposed order
            new = perm[at]
        result = [p + (p >= new) for p in perm]
        result.insert(at, new)
        return self._push(node, node.inputs[:1], perms=[result], inputs=[transposed[0], self._constant([new])])

    def _gather(self, node: ir.Node) -> bool:
        transposed, index = _transposed(node.inputs[0]), node.inputs[1]
        if (
            transposed is None
            or index is None
            or _transposed(index) is not None
            or index.shape is None
            or len(index.shape) != 1
        ):
            return False
        axis = node.attributes["axis"].as_int() if "axis" in node.attributes else 0
        moved = ir.AttrInt64("axis", transposed[1][axis % len(transposed[1])])
        return self._push(node, node.inputs[:1], inputs=[transposed[0], index], attributes={"axis": moved})

    def _shape(self, node: ir.Node) -> bool:
        """The shape of a transposed value from that of the original, so that nothing else keeps the transpose."""
        transposed = _transposed(node.inputs[0])
        if transposed is None or transposed[0].shape is None:
            return False
        perm, n = transposed[1], len(transposed[1])
        start = node.attributes["start"].as_int() if "start" in node.attributes else 0
        end = node.attributes["end"].as_int() if "end" in node.attributes else n
        wanted = list(perm)[slice(start, end)]
        if not wanted:
            return False
        name = self.names.unique(f"{node.name}/original")
        whole = ir.Value(name=name, type=node.outputs[0].type, shape=ir.Shape([n]))
        final = ir.Value(
            name=self.names.unique(f"{node.name}/Gather"), type=node.outputs[0].type, shape=node.outputs[0].shape
        )
        props = dict(node.metadata_props)
        inner = ir.Node("", "Shape", [transposed[0]], outputs=[whole], name=name, metadata_props=props)
        outer = ir.Node(
            "",
            "Gather",
            [whole, self._constant(wanted)],
            [ir.AttrInt64("axis", 0)],
            outputs=[final],
            name=final.name,
            metadata_props=props,
        )
        self.graph.insert_after(node, [inner, outer])
        replace_value(node.outputs[0], final)
        self.graph.remove(node, safe=True)
        return True


_REWRITES: dict[str, Callable[[_Walk, ir.Node], bool]] = {
    "Concat": _Walk._concat,
    "Gather": _Walk._gather,
    "Pad": _Walk._pad,
    "Shape": _Walk._shape,
    "Slice": _Walk._slice,
    "Split": _Walk._split,
    "Squeeze": _Walk._squeeze,
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


def _numbers(value: ir.Value | None) -> list[int] | None:
    """The numbers of a small constant."""
    tensor = value.const_value if value is not None else None
    if value is None or tensor is None or not value.is_initializer() or tensor.size > 64:
        return None
    return [int(item) for item in tensor.numpy().ravel()]


def _squeezed(perm: Sequence[int]) -> list[int]:
    """The order of the axes that are left, numbered anew."""
    ranks = {axis: i for i, axis in enumerate(sorted(perm))}
    return [ranks[axis] for axis in perm]
