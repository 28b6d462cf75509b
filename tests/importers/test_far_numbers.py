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


@pytest.mark.parametrize(
    "framework",
    [pytest.param(name, marks=getattr(pytest.mark, name)) for name in ("pytorch", "tensorflow", "keras")],
)
def test_products_of_several_operands_are_taken_from_the_left(framework):
    """In another order the infinities of some rows would be NaN."""
    operator = 'Einsum <equation = "...i,oij,...j->...o"> (x, w, z)'
    signature = "g (float[N, 2] x, float[4, 2, 3] w, float[N, 3] z) => (float[N, 4] y)"
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {signature} {{y = {operator}}}')
    weights = np.random.default_rng(0).standard_normal((4, 2, 3)).astype(np.float32)
    x = np.array([[INF, 1], [1, -INF], [1, 2], [0.3, 0.7]], np.float32)
    z = np.array([[1, 2, 3], [-1, 2, 3], [INF, 1, 2], [1, -INF, -0.5]], np.float32)
    require_import(model, framework, (x, weights, z))
