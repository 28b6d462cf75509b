"""What a float32 graph gives in a 16-bit precision: its results rounded where a plan computes in the type."""

from __future__ import annotations

import onnx_ir as ir

from onnxport.graph.names import NameAuthority
from onnxport.graph.passes.cleanup import clean
from onnxport.graph.passes.narrow_plan import FLOAT, NarrowPlan, is_float, narrows
from onnxport.graph.passes.rename import every_value
from onnxport.graph.provenance import PREFIX

ROUNDING = f"{PREFIX}rounding"  # the metadata key of the nodes that round
_IS_INF = 10  # the opset that IsInf came with


def rounded(model: ir.Model, plan: NarrowPlan, *, keep_io_types: bool) -> tuple[ir.Model, ir.Model, dict[str, str]]:
    """A copy whose nodes stay float32 while what a node of the plan reads and gives is rounded to its type.

    The boundary is float32 with `keep_io_types`, else the type. The second copy has an output more for each rounding: the count
    of finite numbers that are infinite in the type. The names of these outputs come last, with the places in the model.
    """
    watched = model.clone()
    rounding = _Rounding(watched, plan)
    rounding.run(keep_io_types)
    outputs = len(watched.graph.outputs)
    plain = watched.clone()
    watched.graph.outputs.extend(rounding.counts)
    places = {value.name or "": rounding.places[value] for value in rounding.counts}
    return clean(plain), watched, places if len(watched.graph.outputs) > outputs else {}


class _Rounding:
    def __init__(self, model: ir.Model, plan: NarrowPlan) -> None:
        self._graph, self._plan = model.graph, plan
        self._opset = model.graph.opset_imports.get("", 1)
        self._names = NameAuthority()
        for name in {value.name for value in every_value(model.graph) if value.name}:
            self._names.reserve(name)
        self._rounded: dict[ir.Value, ir.Value] = {}
        self.counts: list[ir.Value] = []
        self.places: dict[ir.Value, str] = {}

    def run(self, keep_io_types: bool) -> None:
        nodes = [node for place, node in enumerate(list(self._graph)) if place in self._plan.places]
        if not keep_io_types:
            self._narrow_inputs()
        for node in nodes:
            for place, value in enumerate(node.inputs):
                reads = value is not None and narrows(node, place, self._plan.dtype, self._opset)
                if reads and value is not None and is_float(value):
                    node.replace_input_with(place, self._round(value))
            for value in node.outputs:
                if is_float(value):
                    self._instead(value, self._round(value))
        if not keep_io_types:
            for place, value in enumerate(list(self._graph.outputs)):
                if is_float(value):
                    name = value.name or ""
                    self._round(value)
                    value.name = self._names.unique(f"{name}/float")
                    self._graph.outputs[place] = self._cast(value, self._plan.dtype, name)

    def _narrow_inputs(self) -> None:
        for value in self._graph.inputs:
            if is_float(value) and not value.is_initializer():
                users = list(value.uses())
                value.type = ir.TensorType(self._plan.dtype)
                wide = self._cast(value, FLOAT, self._names.unique(f"{value.name}/float"))
                self._rounded[wide] = wide
                for use in users:
                    use.node.replace_input_with(use.idx, wide)

    def _round(self, value: ir.Value) -> ir.Value:
        """The value through the type and back."""
        if value in self._rounded:
            return self._rounded[value]
        name = f"{value.name}/rounded"
        narrow = self._cast(value, self._plan.dtype, self._names.unique(f"{name}/down"))
        result = self._cast(narrow, FLOAT, self._names.unique(name))
        self._rounded[value] = self._rounded[result] = result
        if value.const_value is None:
            self._watch(value, result)
        return result

    def _instead(self, value: ir.Value, result: ir.Value) -> None:
        """Makes all but the rounding itself read the rounded value."""
        name, is_output = value.name or "", value.is_graph_output()
        own = {use.node for use in value.uses() if use.node.metadata_props.get(ROUNDING)}
        for use in list(value.uses()):
            if use.node not in own:
                use.node.replace_input_with(use.idx, result)
        if is_output:
            for place, item in enumerate(list(self._graph.outputs)):
                if item is value:
                    self._graph.outputs[place] = result
            value.name = self._names.unique(f"{name}/unrounded")
            result.name = name

    def _watch(self, value: ir.Value, result: ir.Value) -> None:
        """Counts what is finite in the value and infinite in the type."""
        if self._plan.dtype == ir.DataType.BFLOAT16 or self._opset < _IS_INF:
            return
        before, after = self._node("IsInf", value, ir.DataType.BOOL), self._node("IsInf", result, ir.DataType.BOOL)
        other = self._node("Xor", before, ir.DataType.BOOL, after)
        number = self._cast(other, FLOAT, self._names.unique(f"{value.name}/beyond"))
        count = self._node("ReduceSum", number, FLOAT, keepdims=0)
        self.counts.append(count)
        maker = value.producer()
        module = maker.metadata_props.get(f"{PREFIX}module") if maker is not None else None
        self.places[count] = f"{value.name!r}" + (f" in {module!r}" if module else "")

    def _cast(self, value: ir.Value, dtype: ir.DataType, name: str) -> ir.Value:
        return self._after(value, "Cast", [value], [ir.AttrInt64("to", dtype.value)], dtype, name, value.shape)

    def _node(self, op: str, value: ir.Value, dtype: ir.DataType, *others: ir.Value, **numbers: int) -> ir.Value:
        attributes = [ir.AttrInt64(key, number) for key, number in numbers.items()]
        name = self._names.unique(f"{value.name}/{op}")
        return self._after(others[-1] if others else value, op, [value, *others], attributes, dtype, name, None)

    def _after(
        self,
        value: ir.Value,
        op: str,
        inputs: list[ir.Value],
        attributes: list[ir.Attr],
        dtype: ir.DataType,
        name: str,
        shape: ir.Shape | None,
    ) -> ir.Value:
        result = ir.Value(name=name, type=ir.TensorType(dtype), shape=shape)
        node = ir.Node(
            "", op, inputs, attributes, outputs=[result], name=f"{name}/{op}/{ROUNDING}", metadata_props={ROUNDING: "1"}
        )
        maker = value.producer()
        if maker is not None and maker.graph is self._graph:
            self._graph.insert_after(maker, node)
        elif len(self._graph):
            self._graph.insert_before(self._graph[0], node)
        else:
            self._graph.append(node)
        return result
