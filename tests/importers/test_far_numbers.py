"""Imported operators on NaN, infinities and large numbers: each against onnxruntime's run of the file."""

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.evidence import require_import

NAN, INF = np.nan, np.inf
FAR = np.array([[NAN, 1, -2, 3], [INF, -INF, 0.5, -1.5], [1e30, -1e30, 2.5, 0], [-INF, 7, -88, 100]], np.float32)
OPERATORS = (
    "Abs Ceil Clip CumSum Elu Erf Exp Floor Gelu HardSigmoid HardSwish IsInf IsNaN LeakyRelu Mish ReduceLogSumExp ReduceMean "
    "ReduceSum Relu Round Selu Sigmoid Sign Softplus Softsign Sqrt Tanh ThresholdedRelu"
).split()
MORE = {"Clip": (np.float32(-1), np.float32(2)), "CumSum": (np.array(1),)}


def graph(operators: list[str]) -> onnx.ModelProto:
    """A graph that applies each operator to x."""
    nodes, constants = [], []
    for operator in operators:
        names = [f"{operator}.{i}" for i in range(len(MORE.get(operator, ())))]
        constants += [
            onnx.numpy_helper.from_array(np.asarray(value), name)
            for name, value in zip(names, MORE.get(operator, ()), strict=True)
        ]
        nodes.append(helper.make_node(operator, ["x", *names], [operator]))
    outputs = [helper.make_empty_tensor_value_info(operator) for operator in operators]
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [None, 4])
    model = helper.make_model(
        helper.make_graph(nodes, "far", [x], outputs, constants),
        opset_imports=[helper.make_opsetid("", 21)],
        ir_version=10,
    )
    return onnx.shape_inference.infer_shapes(model)


@pytest.mark.parametrize(
    "framework",
    [pytest.param(name, marks=getattr(pytest.mark, name)) for name in ("pytorch", "tensorflow", "keras")],
)
def test_far_numbers(framework):
    require_import(graph(OPERATORS), framework, (FAR,))
