"""What passes that rewrite nodes of a finished graph share: new nodes and weights, and values in the place of others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import onnx_ir as ir
from onnx_ir.passes import InPlacePass

from onnxport.graph.names import NameAuthority
from onnxport.graph.result_types import merged_shape


class NamingPass(InPlacePass):
    """A pass that writes values, whose names come from the model's naming authority."""

    def __init__(self, names: NameAuthority) -> None:
        super().__init__()
        self._names = names


def node_from(
    origin: ir.Node,
    op_type: str,
    inputs: Sequence[ir.Value | None],
    attributes: Sequence[ir.Attr] = (),
    *,
    name: str,
    type: ir.TypeProtocol | None,  # as `ir.Value` calls it
    shape: Iterable[int | ir.SymbolicDim | None] | None = None,
) -> ir.Node:
    """A node that comes from where `origin` came from; its one result has the node's name."""
    result = ir.Value(name=name, type=type, shape=None if shape is None else ir.Shape(shape))
    props = dict(origin.metadata_props)
    return ir.Node("", op_type, inputs, attributes, outputs=[result], name=name, metadata_props=props)


def add_weight(graph: ir.Graph, name: str, array: np.ndarray) -> ir.Value:
    """A new initializer of the main graph."""
    tensor = ir.tensor(np.asarray(array, order="C"), name=name)
    value = ir.Value(name=name, type=ir.TensorType(tensor.dtype), shape=ir.Shape(array.shape), const_value=tensor)
    graph.register_initializer(value)
    return value


def replace_value(old: ir.Value, new: ir.Value) -> None:
    """Makes everything that reads `old` read `new`, which takes over its sizes; a graph output keeps its name."""
    name, is_output = old.name, old.is_graph_output()
    if old.shape is not None:
        new.shape = old.shape if new.shape is None else merged_shape(new.shape, old.shape)
    ir.convenience.replace_all_uses_with(old, new, replace_graph_outputs=True)
    if is_output:
        old.name = None
        new.name = name


def put_first(graph: ir.Graph, names: Iterable[str]) -> None:
    """Puts the initializers of these names before all others, in the order of the names."""
    initializers = graph.initializers
    first = dict.fromkeys(name for name in names if name in initializers)
    order = [*first, *(name for name in initializers if name not in first)]
    for value in [initializers.pop(name) for name in order]:
        graph.register_initializer(value)
