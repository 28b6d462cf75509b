"""The tables: one operator, and what it is on the other side."""

from onnxport.opset_maps.registry import OpsetMap, Semantics

to_onnx = OpsetMap("toy")
from_onnx = Semantics()


@to_onnx.lower("project")
def project(op, x, weight):
    """MatMul."""
    return op.MatMul(x, weight)


@to_onnx.lower("shift")
def shift(op, x, weight):
    """Add."""
    return op.Add(x, weight)


@to_onnx.lower("scale")
def scale(op, x, weight):
    """Mul."""
    return op.Mul(x, weight)


@to_onnx.lower("rectify")
def rectify(op, x):
    """Relu."""
    return op.Relu(x)


@from_onnx.op("MatMul", versions=(1, 9, 13))
def matmul(xp, weight):
    return "project", weight


@from_onnx.op("Add", versions=(7, 13, 14))
def add(xp, weight):
    return "shift", weight


@from_onnx.op("Mul", versions=(7, 13, 14))
def mul(xp, weight):
    return "scale", weight


@from_onnx.op("Relu", versions=(6, 13, 14))
def relu(xp):
    return "rectify"
