"""Recognition of matrix products that a framework has cut down to two axes."""

from __future__ import annotations

import onnx_ir as ir
from onnx_ir.passes import PassResult

from onnxport.graph.passes.matching import arithmetic_nodes, equal_sizes, producer, small_numbers
from onnxport.graph.passes.rewriting import NamingPass, node_from, replace_value

# A size: a number, or an axis of a value that has it when the model runs.
_Size = int | tuple[ir.Value, int]


class RecogniseProductsPass(NamingPass):
    """Writes ``reshape(reshape(x, [-1, K]) W, [..., N])``, as a product over the last axis alone is spelled, as ``x W``.

    The sizes before the last axis must be those of x: by its type, or because the graph takes them from its shape.
    """

    def call(self, model: ir.Model) -> PassResult:
        """The model with fewer reshapes."""
        return PassResult(model, modified=sum(self._rewrite(node) for node in arithmetic_nodes(model, "Reshape")) > 0)

    def _rewrite(self, node: ir.Node) -> bool:
        product = producer(node.inputs[0], "MatMul")
        before = producer(product.inputs[0], "Reshape") if product is not None else None
        if (
            product is None
            or before is None
            or len(product.outputs[0].uses()) != 1
            or product.outputs[0].is_graph_output()
        ):
            return False
        x, flat, matrix, result = before.inputs[0], product.inputs[0], product.inputs[1], node.outputs[0]
        shapes = [None if value is None else value.shape for value in (x, flat, matrix, result)]
        if x is None or any(shape is None for shape in shapes):
            return False
        ours, rows, columns, after = ([*shape] if shape is not None else [] for shape in shapes)
        width = ours[-1] if ours else None
        if len(ours) < 3 or len(rows) != 2 or len(columns) != 2 or width != columns[0]:
            return False
        if len(after) != len(ours) or after[-1] != columns[1] or not all(isinstance(size, int) for size in columns):
            return False
        if not equal_sizes(ours[:-1], after[:-1]) and not _taken_from(node.inputs[1], x, len(ours) - 1):
            return False
        graph = node.graph
        if graph is None or product.graph is not graph:
            return False
        name = self._names.unique(f"{product.name}/MatMul")
        whole = node_from(product, "MatMul", [x, matrix], name=name, type=result.type, shape=[*ours[:-1], columns[1]])
        graph.insert_after(node, [whole])
        replace_value(result, whole.outputs[0])
        graph.remove(node, safe=True)
        return True


def _taken_from(shape: ir.Value | None, x: ir.Value, count: int) -> bool:
    """Whether a shape begins with the first `count` sizes of x, read from it."""
    sizes = _sizes(shape)
    return sizes is not None and sizes[:count] == [_size(x, axis) for axis in range(count)]


def _size(x: ir.Value, axis: int) -> _Size:
    size = x.shape[axis] if x.shape is not None else None
    return size if isinstance(size, int) else (x, axis)


def _sizes(value: ir.Value | None) -> list[_Size] | None:
    """The elements of a vector of sizes, as far as they are numbers or sizes of values."""
    numbers = small_numbers(value)
    if numbers is not None:
        return list(numbers)
    node = value.producer() if value is not None else None
    if node is None or node.domain or node.inputs[0] is None:
        return None
    source = node.inputs[0]
    match node.op_type:
        case "Shape" if source.shape is not None:
            whole = range(source.shape.rank())
            start, end = node.attributes.get_int("start", 0), node.attributes.get_int("end", len(whole))
            return [_size(source, axis) for axis in whole[start:end]]
        case "Cast" | "Unsqueeze" | "Squeeze":
            return _sizes(source)
        case "Gather" if node.attributes.get_int("axis", 0) == 0:
            items, places = _sizes(source), small_numbers(node.inputs[1])
            return None if items is None or places is None else [items[place] for place in places if place < len(items)]
        case "Concat":
            parts = [_sizes(item) for item in node.inputs]
            return None if any(part is None for part in parts) else [size for part in parts for size in part or ()]
        case _:
            return None
