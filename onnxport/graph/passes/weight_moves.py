"""Transposes and reshapes of weights, done in the file instead of in the graph."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir
from onnx_ir.passes import InPlacePass, PassResult

from onnxport.graph.folding import MAX_ELEMENTS
from onnxport.graph.moved import MOVES, Move, MovedTensor, restored
from onnxport.graph.names import CONSTANT, numbered
from onnxport.graph.passes.rename import every_value
from onnxport.graph.passes.rewriting import add_weight, node_from, replace_value


class MergeWeightMovesPass(InPlacePass):
    """Gives every weight the layout in which its readers take it, one walk over the uses of the weights:

    1. where all readers move it alike (Transpose, Reshape, Unsqueeze, Squeeze, Flatten), the tensor is moved while it is written,
       its metadata holds the moves, and the nodes go;
    2. a matrix that some read as it stands, as an embedding does, and others transposed in products is read by a Gemm there;
    3. where readers want a small weight in several layouts, each is a constant; of a large one the moves stay in the graph.

    The weight keeps its name, and no copy of it is held.
    """

    def call(self, model: ir.Model) -> PassResult:
        """The model with its weights in the layouts that the operators take."""
        merge = _Merge(model.graph)
        return PassResult(model, modified=merge.run())


class _Merge:
    """The weights of one model, and those that come to them."""

    def __init__(self, graph: ir.Graph) -> None:
        self.graph = graph
        self.weights = [value for value in graph.initializers.values() if _may_move(graph, value)]
        self._taken: set[str | None] = set()
        self._opset = graph.opset_imports.get("", 0)

    def run(self) -> bool:
        modified = False
        for value in self.weights:  # grows while it is walked
            groups, others = _moves_of(value)
            while groups:
                modified = True
                if len(groups) > 1 or not self._move(value, *groups.popitem(), others):
                    self._set_apart(value, _moves_of(value)[0])
                    break
                groups, others = _moves_of(value)
        return modified

    def _move(self, value: ir.Value, move: Move, nodes: list[ir.Node], others: list[ir.Node]) -> bool:
        """Moves the weight itself, or gives all that move it another form; False where neither can be."""
        if others:
            products = [user for node in nodes for user, _ in node.outputs[0].uses()]
            if move != _SWAP or not all(_is_product(user, nodes, self._opset) for user in products):
                return False
            for product in products:
                self._as_gemm(product, value)
            for node in nodes:
                if node.graph is not None:
                    node.graph.remove(node, safe=True)
            return True
        if value.const_value is not None:
            value.const_value = MovedTensor.of(value.const_value, [move])
            value.shape = ir.Shape(value.const_value.shape.numpy())
        self._bypass(nodes, value)
        return True

    def _as_gemm(self, product: ir.Node, matrix: ir.Value) -> None:
        """Writes ``x matrix^T`` as a Gemm of the rows of x."""
        x, result, graph = product.inputs[0], product.outputs[0], product.graph
        if x is None or x.shape is None or matrix.shape is None or graph is None:
            return
        rank, rows = x.shape.rank(), [x.shape[-1], matrix.shape[0]]
        nodes: list[ir.Node] = []

        def append(
            op_type: str, inputs: Sequence[ir.Value], *attributes: ir.Attr, shape: Sequence[int | ir.SymbolicDim | None]
        ) -> ir.Value:
            kind = ir.TensorType(ir.DataType.INT64) if op_type in ("Shape", "Concat") else x.type
            name = self._name(f"{product.name}/{op_type}")
            nodes.append(node_from(product, op_type, inputs, attributes, name=name, type=kind, shape=shape))
            return nodes[-1].outputs[0]

        flat = x if rank == 2 else append("Reshape", [x, self._numbers(-1, rows[0])], shape=[None, rows[0]])
        y = append(
            "Gemm", [flat, matrix], ir.AttrInt64("transB", 1), shape=[x.shape[0] if rank == 2 else None, rows[1]]
        )
        if rank != 2:
            sizes = [*list(x.shape)[:-1], rows[1]]
            if sum(not isinstance(size, int) for size in sizes) <= 1:
                back = self._numbers(*(size if isinstance(size, int) else -1 for size in sizes))
            else:
                limits = ir.AttrInt64("start", 0), ir.AttrInt64("end", rank - 1)
                leading = append("Shape", [x], *limits, shape=[rank - 1])
                back = append("Concat", [leading, self._numbers(rows[1])], ir.AttrInt64("axis", 0), shape=[rank])
            y = append("Reshape", [y, back], shape=sizes)
        graph.insert_after(product, nodes)
        replace_value(result, y)
        graph.remove(product, safe=True)

    def _name(self, base: str) -> str:
        self._taken = self._taken or {item.name for item in every_value(self.graph)}
        return numbered(base, self._taken)

    def _numbers(self, *numbers: int | ir.SymbolicDim) -> ir.Value:
        return add_weight(self.graph, self._name(CONSTANT), np.asarray(numbers, np.int64))

    def _set_apart(self, value: ir.Value, groups: dict[Move, list[ir.Node]]) -> None:
        """Gives each layout of a small weight a constant of its own."""
        tensor = value.const_value
        if tensor is None or tensor.size > MAX_ELEMENTS:
            return
        for move, nodes in groups.items():
            array = np.array(move(tensor.numpy()), order="C")
            constant = add_weight(self.graph, self._name(CONSTANT), array)
            self._bypass(nodes, constant)
            self.weights.append(constant)

    def _bypass(self, nodes: Sequence[ir.Node], value: ir.Value) -> None:
        """Makes the readers of the nodes' results read `value`; what nothing reads any more goes."""
        for node in nodes:
            operands = node.inputs[1:]
            replace_value(node.outputs[0], value)
            if node.graph is not None:
                node.graph.remove(node, safe=True)
            for item in operands:
                if item is not None and not item.uses() and item.is_initializer() and _may_move(self.graph, item):
                    self.graph.initializers.pop(item.name or "", None)


class SplitWeightMovesPass(InPlacePass):
    """The reverse, for readers that want the source's weights: each stands as in the source, and nodes move it."""

    def call(self, model: ir.Model) -> PassResult:
        """The model with every weight in its source's layout."""
        graph = model.graph
        moved = [value for value in graph.initializers.values() if _is_marked(value) and _may_move(graph, value)]
        taken = {value.name for value in every_value(graph)} if moved else set()
        for value in moved:
            self._split(graph, value, taken)
        return PassResult(model, modified=bool(moved))

    def _split(self, graph: ir.Graph, value: ir.Value, taken: set[str | None]) -> None:
        if value.const_value is None:
            return
        tensor, moves = restored(value.const_value)
        uses = list(value.uses())
        value.const_value, value.shape = tensor, ir.Shape(tensor.shape.numpy())
        nodes: list[ir.Node] = []
        for move in moves:
            source = nodes[-1].outputs[0] if nodes else value
            shape = move.shape(source.shape.numpy() if source.shape is not None else ())
            inputs: list[ir.Value | None] = [source]
            attributes = []
            if move.kind == "Transpose":
                attributes.append(ir.AttrInt64s("perm", list(move.numbers)))
            else:
                name = numbered(f"{value.name}/shape", taken)
                inputs.append(add_weight(graph, name, np.asarray(move.numbers, np.int64)))
            name = numbered(f"{value.name}/{move.kind}", taken)
            node = ir.Node("", move.kind, inputs, attributes, num_outputs=1, name=name)
            result = node.outputs[0]
            result.name, result.type, result.shape = name, value.type, ir.Shape(shape or ())
            nodes.append(node)
        for node, index in uses:
            node.replace_input_with(index, nodes[-1].outputs[0])
        graph.insert_before(graph[0], nodes)


def with_source_weights(model: ir.Model) -> ir.Model:
    """A copy of the model with every weight in its source's layout; the model itself where all are so."""
    if not any(_is_marked(value) for value in model.graph.initializers.values()):
        return model
    copy = model.clone()
    SplitWeightMovesPass()(copy)
    return copy


_SWAP = Move("Transpose", (1, 0))
_SHAPERS = frozenset(("Reshape", "Unsqueeze", "Squeeze", "Flatten"))


def _is_marked(value: ir.Value) -> bool:
    tensor = value.const_value
    return tensor is not None and MOVES in tensor.metadata_props and bool(restored(tensor)[1])


def _may_move(graph: ir.Graph, value: ir.Value) -> bool:
    tensor = value.const_value
    outside = value in graph.inputs or value.is_graph_output()
    return not outside and tensor is not None and tensor.dtype != ir.DataType.STRING and tensor.dtype.bitwidth >= 8


def _moves_of(value: ir.Value) -> tuple[dict[Move, list[ir.Node]], list[ir.Node]]:
    """The nodes that only move a weight, by move, and its other readers."""
    groups: dict[Move, list[ir.Node]] = defaultdict(list)
    others: list[ir.Node] = []
    for node, index in value.uses():
        move = _move(node, value) if index == 0 else None
        if move is None:
            others.append(node)
        else:
            groups[move].append(node)
    return groups, others


def _move(node: ir.Node, value: ir.Value) -> Move | None:
    """What a node does to a weight, where it only moves elements to places that are known."""
    if node.domain or value.shape is None or any(result.is_graph_output() for result in node.outputs):
        return None
    rank = value.shape.rank()
    if node.op_type == "Transpose":
        return Move("Transpose", tuple(node.attributes.get_ints("perm", list(range(rank))[::-1])))
    shape = node.outputs[0].shape
    if node.op_type not in _SHAPERS or shape is None or not shape.is_static():
        return None
    if any(item is not None and item.const_value is None for item in node.inputs[1:]):
        return None
    move = Move("Reshape", tuple(int(size) for size in shape.numpy()))
    return move if move.shape(value.shape.numpy()) is not None else None


def _is_product(node: ir.Node, moves: Sequence[ir.Node], opset: int) -> bool:
    """Whether a node is a product in single precision whose second factor alone is one of the moved matrices.

    Of more than one unknown size the shape is read in parts, which opset 15 brings.
    """
    x = node.inputs[0]
    if node.domain or node.op_type != "MatMul" or x is None or x.shape is None or x.dtype != ir.DataType.FLOAT:
        return False
    sizes = list(x.shape)
    known = opset >= 15 or sum(not isinstance(size, int) for size in sizes) <= 1
    return known and len(sizes) >= 2 and isinstance(sizes[-1], int) and 0 not in sizes and x.producer() not in moves
