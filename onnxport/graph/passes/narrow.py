"""A float32 model in a 16-bit type, by a plan."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import onnx_ir as ir

from onnxport.graph.names import NameAuthority
from onnxport.graph.passes.blocks import nested_nodes
from onnxport.graph.passes.narrow_plan import FLOAT, NarrowPlan, is_float, narrows
from onnxport.graph.passes.rename import every_value


def narrow(model: ir.Model, plan: NarrowPlan, *, keep_io_types: bool) -> None:
    """Computes the nodes of a plan in its type, in place; a cast stands where a value is read in another type than it has.

    With `keep_io_types` the model takes and gives float32. Weights that only narrow nodes read are narrow in the file, and
    keep their names.
    """
    _Narrowing(model, plan, keep_io_types).run()


class NarrowTensor(ir.LazyTensor):
    """A tensor in a narrower type, cast when it is read."""

    @classmethod
    def of(cls, tensor: ir.TensorProtocol, dtype: ir.DataType) -> NarrowTensor:
        """The tensor in `dtype`; its name and metadata stay."""

        def cast() -> ir.TensorProtocol:
            with np.errstate(over="ignore"):
                return ir.tensor(tensor.numpy().astype(dtype.numpy()), dtype=dtype, name=tensor.name)

        shape, props = ir.Shape(tensor.shape.numpy()), dict(tensor.metadata_props)
        return cls(cast, dtype, shape, name=tensor.name, metadata_props=props)


class _Narrowing:
    def __init__(self, model: ir.Model, plan: NarrowPlan, keep_io_types: bool) -> None:
        self._graph = model.graph
        self._dtype = plan.dtype
        self._opset = model.graph.opset_imports.get("", 1)
        self._nodes = list(model.graph)
        self._chosen = {node for place, node in enumerate(self._nodes) if place in plan.places}
        self._keep_io = keep_io_types
        values = list(every_value(model.graph))
        self._floats = {value for value in values if is_float(value)}
        self._names, self._node_names = NameAuthority(), NameAuthority()
        for name in {value.name for value in values if value.name}:
            self._names.reserve(name)
        for name in {node.name for node in model.graph.all_nodes() if node.name}:
            self._node_names.reserve(name)

    def run(self) -> None:
        outputs = [value for value in self._graph.outputs if value in self._floats]
        if not self._keep_io:
            self._retype(value for value in self._graph.inputs if not value.is_initializer())
        self._retype(value for node in self._chosen for value in node.outputs)
        self._narrow_weights()
        for node in self._nodes:
            for inner in nested_nodes(node):
                for place, value in enumerate(inner.inputs):
                    if value is not None and value in self._floats:
                        inner.replace_input_with(place, self._read(value, self._wanted(inner, place), node))
        for value in outputs:
            self._give(value, FLOAT if self._keep_io else self._dtype)

    def _wanted(self, node: ir.Node, place: int) -> ir.DataType:
        taken = node in self._chosen and narrows(node, place, self._dtype, self._opset)
        return self._dtype if taken else FLOAT

    def _retype(self, values: Iterable[ir.Value]) -> None:
        for value in values:
            if value in self._floats:
                value.type = ir.TensorType(self._dtype)

    def _narrow_weights(self) -> None:
        for value in self._graph.initializers.values():
            tensor = value.const_value
            if value not in self._floats or tensor is None or value in self._graph.inputs or value.is_graph_output():
                continue
            if all(self._wanted(node, place) == self._dtype for node, place in value.uses()) and value.uses():
                value.const_value = NarrowTensor.of(tensor, self._dtype)
                value.type = ir.TensorType(self._dtype)

    def _read(self, value: ir.Value, dtype: ir.DataType, reader: ir.Node) -> ir.Value:
        """The value in a type as a node reads it: itself, or its cast, which belongs to the reader."""
        if value.dtype == dtype:
            return value
        node = self._cast(value, dtype, self._names.unique(f"{value.name}/{dtype.name.lower()}"), reader)
        self._graph.insert_before(reader, node)
        return node.outputs[0]

    def _cast(self, value: ir.Value, dtype: ir.DataType, name: str, origin: ir.Node | None) -> ir.Node:
        props = {} if origin is None else dict(origin.metadata_props)
        result = ir.Value(name=name, type=ir.TensorType(dtype), shape=value.shape)
        attributes = [ir.AttrInt64("to", dtype.value)]
        label = self._node_names.unique(f"{name}/Cast")
        return ir.Node("", "Cast", [value], attributes, outputs=[result], name=label, metadata_props=props)

    def _give(self, value: ir.Value, dtype: ir.DataType) -> None:
        """Makes a value an output in a type, under the name that it has."""
        if value.dtype == dtype:
            return
        name = value.name or ""
        places = [place for place, item in enumerate(self._graph.outputs) if item is value]
        if value.producer() is not None:
            value.name = self._names.unique(f"{name}/{value.dtype.name.lower() if value.dtype else 'inner'}")
        node = self._cast(value, dtype, name, value.producer())
        self._graph.append(node)
        for place in places:
            self._graph.outputs[place] = node.outputs[0]
