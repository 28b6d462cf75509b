"""Graphs that onnxruntime's optimisers wrote have a float64 form, which agrees with what onnxruntime computes of them."""

import numpy as np
import onnx
import onnxruntime
import pytest

from onnxport.validation.runners.onnx_wide import WideGraph

CONV = "com.microsoft.FusedConv <pads = [1, 1, 1, 1], {}> (x, w, b{})"
NODES = {
    "layer normalization before its opset": "y = LayerNormalization <axis = -1, epsilon = 0.01> (x, s, s)",
    "a convolution with a limit": "y = " + CONV.format('activation = "Clip", activation_params = [-0.5, 0.5]', ""),
    "a convolution and a sum": "y = " + CONV.format('activation = "Relu"', ", x"),
    "a convolution with a slope": "y = " + CONV.format('activation = "LeakyRelu", activation_params = [0.3]', ""),
    "the tanh form of gelu": "y = com.microsoft.FastGelu (x, s)",
}


@pytest.mark.parametrize("node", NODES.values(), ids=NODES)
def test_the_float64_form_is_the_same_function(node):
    text = f"""<ir_version: 8, opset_import: ["": 13, "com.microsoft": 1]>
    g (float[2, 3, 5, 6] x, float[3, 3, 3, 3] w, float[3] b, float[6] s) => (float[2, 3, 5, 6] y) {{ {node} }}"""
    model = onnx.parser.parse_model(text)
    rng = np.random.default_rng(0)
    shapes = {item.name: [size.dim_value for size in item.type.tensor_type.shape.dim] for item in model.graph.input}
    feeds = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (wide,) = WideGraph(model).run(feeds)
    assert wide.dtype == np.float64
    np.testing.assert_allclose(wide, session.run(None, feeds)[0], rtol=2e-5, atol=2e-6)
