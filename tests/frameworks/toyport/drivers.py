"""The drivers: a toy model to ONNX, and a graph to a toy model."""

import onnx_ir as ir

from onnxport.converters.to_onnx.finish import finish
from onnxport.converters.to_onnx.refusals import Refusals
from onnxport.errors import InvalidInputError, Unsupported, UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.graph.provenance import Source
from onnxport.model import OnnxModel
from toyport.model import Toy
from toyport.operators import from_onnx, to_onnx


def export(model, request):
    if not isinstance(request.inputs, tuple) or len(request.inputs) != 1:
        raise InvalidInputError("a toy model takes one input: inputs=(x,)")
    (example,) = request.inputs
    op = OpBuilder(request.opset)
    name, *_ = request.input_names or ("x",)
    value = op.input(name, ir.DataType.from_numpy(example.dtype), ["batch", *example.shape[1:]])
    refused = Refusals("toy")
    for place, (operator, weights) in enumerate(model.steps):
        entry = to_onnx.find(operator)
        if entry is None:
            refused.add(operator, where=f"step {place}")
            continue
        with op.at(Source(operator, f"{place}.{operator}")):
            operands = [op.initializer(f"{place}.weight", ir.tensor(weight)) for weight in weights]
            value = entry.function(op, value, *operands)
    refused.raise_all()
    notes = []
    finished = finish(op, [value], [*(request.output_names or ("output",))], runtime=request.runtime, notes=notes)
    return OnnxModel(finished, notes=tuple(notes), runtime=request.runs_in)


def build(model):
    graph = model.graph
    (value,) = (item for item in graph.inputs if item.name not in graph.initializers)
    steps, refused = [], []
    for node in graph:
        entry = from_onnx.find(node.domain, node.op_type, graph.opset_imports[node.domain])
        weights = [item.const_value.numpy() for item in node.inputs if item.const_value is not None]
        if entry is None or node.inputs[0] is not value or len(weights) != len(node.inputs) - 1:
            refused.append(Unsupported("onnx", node.op_type, where=node.name or ""))
            continue
        steps.append(entry.function(None, *weights))
        value = node.outputs[0]
    if refused:
        raise UnsupportedOperator.of(refused, way_out="add a mapping with onnxport.register_from_onnx('toy', ...)")
    return Toy(*steps)
