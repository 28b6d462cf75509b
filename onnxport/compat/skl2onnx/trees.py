"""The leaves that rows come to, and the ways there, as outputs: ``decision_leaf`` and ``decision_path`` of skl2onnx."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from onnxport.errors import InvalidInputError


def has_leaves(model: Any) -> bool:
    """Whether its trees are scikit-learn's own and tell the leaf of a row."""
    return hasattr(model, "apply") and bool(_trees(model))


def with_leaves(proto: onnx.ModelProto, leaves: onnx.ModelProto, model: Any, *, leaf: bool, path: bool) -> None:
    """Adds what `leaves`, a graph on the same inputs with the one output ``leaves``, gives to a graph, in place.

    Args:
        model: the trees: a leaf has one path, so that the paths are a table by leaf.
        leaf: the numbers of leaves are an output, a column a tree.
        path: so are the nodes on the way, a text of 0 and 1 a tree.
    """
    trees = _trees(model)
    added = onnx.compose.add_prefix(leaves, "decision/", rename_inputs=False)
    graph, name = proto.graph, "decision/leaves"
    graph.node.extend(added.graph.node)
    graph.initializer.extend(added.graph.initializer)
    known = {item.domain for item in proto.opset_import}
    proto.opset_import.extend(item for item in added.opset_import if item.domain not in known)
    rows = added.graph.output[0].type.tensor_type.shape.dim[0]

    def node(operator: str, *inputs: str, result: str, **attributes: Any) -> str:
        graph.node.append(helper.make_node(operator, inputs, [result], result, **attributes))
        return result

    def constant(to: str, values: np.ndarray) -> str:
        graph.initializer.append(numpy_helper.from_array(values, to))
        return to

    def output(to: str, kind: int) -> None:
        graph.output.append(helper.make_tensor_value_info(to, kind, [rows.dim_param or rows.dim_value, len(trees)]))

    numbers = node("Cast", name, result="decision/numbers", to=onnx.TensorProto.INT64)  # those of boosting are real
    table = node(
        "Reshape", numbers, constant("decision/shape", np.array([-1, len(trees)], np.int64)), result="decision/table"
    )
    if path:
        columns = []
        for place, tree in enumerate(trees):
            column = node(
                "Gather",
                table,
                constant(f"decision/{place}", np.array([place], np.int64)),
                result=f"leaf/{place}",
                axis=1,
            )
            paths = constant(f"decision/paths/{place}", np.asarray(_paths(tree.tree_), object))
            columns.append(node("Gather", paths, column, result=f"path/{place}"))
        node("Concat", *columns, result="decision_path", axis=1)
        output("decision_path", onnx.TensorProto.STRING)
    if leaf:
        node("Identity", table, result="decision_leaf")
        output("decision_leaf", onnx.TensorProto.INT64)


def refuse_leaves(model: Any) -> None:
    """Refuses a model whose leaves are not to be had.

    Raises:
        InvalidInputError: always.
    """
    raise InvalidInputError(
        f"skl2onnx: option 'decision_path' or 'decision_leaf': {type(model).__name__} gives no leaves of scikit-learn's own trees"
    )


def _trees(model: Any) -> list[Any]:
    trees = [model] if hasattr(model, "tree_") else list(np.ravel(getattr(model, "estimators_", [])))
    return trees if all(hasattr(tree, "tree_") for tree in trees) else []


def _paths(tree: Any) -> list[str]:
    """By node the nodes from the root down to it, as a text with a 1 for each."""
    marks = [np.zeros(tree.node_count, bool) for _ in range(tree.node_count)]
    stack = [0]
    while stack:
        place = stack.pop()
        marks[place][place] = True
        for child in (tree.children_left[place], tree.children_right[place]):
            if child >= 0:
                marks[child] |= marks[place]
                stack.append(int(child))
    return ["".join("1" if flag else "0" for flag in row) for row in marks]
