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
       its metadata says how, and the nodes go;
    2. a Gather of rows and a Gemm read a matrix transposed as well as it stands: where all others transpose it, they do so too;
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
        """Moves the weight itself, where all readers can take it so."""
        if others and not (move == _SWAP and all(_reads_rows(node, value) for node in others)):
            return False
        for node in others:
            _read_transposed(node, value)
        if value.const_value is not None:
            value.const_value = MovedTensor.of(value.const_value, [move])
            value.shape = ir.Shape(value.const_value.shape.numpy())
        self._bypass(nodes, value)
        return True

    def _set_apart(self, value: ir.Value, groups: dict[Move, list[ir.Node]]) -> None:
        """Gives each layout of a small weight a constant of its own."""
        tensor = value.const_value
        if tensor is None or tensor.size > MAX_ELEMENTS:
            return
        self._taken = self._taken or {item.name for item in every_value(self.graph)}
        for move, nodes in groups.items():
            array = np.array(move(tensor.numpy()), order="C")
            constant = add_weight(self.graph, numbered(CONSTANT, self._taken), array)
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
    """The reverse, for readers that want the source's weights:

    1. each weight stands as in the source, and nodes move it;
    2. a Gather of columns whose result is transposed becomes a Gather of rows again.
    """

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
            if moves != [_SWAP] or not _read_rows(node, value):
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


def _reads_rows(node: ir.Node, value: ir.Value) -> bool:
    """Whether a node could as well read the matrix transposed."""
    if node.domain or [item is value for item in node.inputs].count(True) != 1:
        return False
    if node.op_type == "Gather":
        indices = node.inputs[1]
        known = node.inputs[0] is value and indices is not None and indices.shape is not None
        return known and node.attributes.get_int("axis", 0) in (0, -2)
    return node.op_type == "Gemm" and node.inputs[1] is value


def _read_transposed(node: ir.Node, value: ir.Value) -> None:
    """Changes a node so that it gives the same results for the transposed matrix."""
    if node.op_type == "Gemm":
        node.attributes["transB"] = ir.AttrInt64("transB", 1 - node.attributes.get_int("transB", 0))
        return
    graph, result, indices = node.graph, node.outputs[0], node.inputs[1]
    if graph is None or indices is None or indices.shape is None:
        raise ValueError(f"{node.name!r} does not say how many axes its indices have")
    rank = indices.shape.rank()
    shape = None if result.shape is None else [result.shape[rank], *result.shape[:rank]]
    name = f"{node.name}/transposed"
    order = ir.AttrInt64s("perm", [*range(1, rank + 1), 0])
    columns = node_from(
        node, "Gather", node.inputs, [ir.AttrInt64("axis", 1)], name=name, type=result.type, shape=shape
    )
    turned = node_from(
        node, "Transpose", columns.outputs, [order], name=f"{name}/back", type=result.type, shape=result.shape
    )
    graph.insert_after(node, [columns, turned])
    replace_value(result, turned.outputs[0])
    graph.remove(node, safe=True)


def _read_rows(node: ir.Node, value: ir.Value) -> bool:
    """Undoes `_read_transposed` of a Gather."""
    users = [user for user, _ in node.outputs[0].uses()]
    if (
        node.domain
        or node.op_type != "Gather"
        or node.attributes.get_int("axis", 0) != 1
        or node.inputs[0] is not value
    ):
        return False
    if len(users) != 1 or node.outputs[0].is_graph_output() or users[0].op_type != "Transpose" or node.graph is None:
        return False
    perm = list(users[0].attributes.get_ints("perm", ()))
    if not perm or perm != [*range(1, len(perm)), 0] or users[0].graph is not node.graph:
        return False
    result = users[0].outputs[0]
    name = f"{node.name}/rows"
    rows = node_from(
        node, "Gather", node.inputs, [ir.AttrInt64("axis", 0)], name=name, type=result.type, shape=result.shape
    )
    node.graph.insert_after(users[0], [rows])
    replace_value(result, rows.outputs[0])
    node.graph.remove([users[0], node], safe=True)
    return True
