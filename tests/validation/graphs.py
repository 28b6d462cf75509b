"""Graphs written by hand, which proofs are tried on."""

from onnxport.converters.to_onnx.finish import finish
from onnxport.graph.builder import OpBuilder
from onnxport.model import OnnxModel


def graph(write, *inputs, names=("output",), opset=21):
    """The model that ``write(op, *inputs)`` gives; inputs are (name, dtype, shape)."""
    op = OpBuilder(opset)
    values = [op.input(*item) for item in inputs]
    for name in names:
        op.names.reserve(name)
    results = write(op, *values)
    return OnnxModel(finish(op, results if isinstance(results, (list, tuple)) else [results], list(names)))
