"""Linear models of ai.onnx.ml, whose weights are attributes: layers with weights that are trained and loaded."""

import numpy as np
import onnx
import onnxruntime
import pytest

import onnxport

WEIGHTS = "coefficients = [1.5, -2.0, 0.5, 0.25, 1.0, -1.0], intercepts = [0.5, -0.75, 0.1]"
# Nodes, the type of x, and the layer's name.
MODELS = {
    "words": (
        f'l, y = M.LinearClassifier <classlabels_strings = ["a", "c", "b"], {WEIGHTS}> (x)',
        "float",
        "LinearClassifier",
    ),
    "numbers": (
        f'l, y = M.LinearClassifier <classlabels_ints = [4, 2, 9], post_transform = "SOFTMAX", {WEIGHTS}> (x)',
        "double",
        "LinearClassifier",
    ),
    "places": (
        f'l, y = M.LinearClassifier <classlabels_ints = [0, 1, 2], post_transform = "LOGISTIC", {WEIGHTS}> (x)',
        "int64",
        "LinearClassifier",
    ),
    "regressor": (
        f"y = M.LinearRegressor <targets = 3, {WEIGHTS}> (x) place = ArgMax <axis = 1, keepdims = 0> (y) l = Neg (place)",
        "float",
        "LinearRegressor",
    ),
}


def graph(name):
    nodes, kind, _ = MODELS[name]
    label = "string" if "strings" in nodes else "int64"
    text = f"g ({kind}[N, 2] x) => ({label}[N] l, float[N, 3] y) {{{nodes.replace('M.', 'ai.onnx.ml.')}}}"
    return onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["": 17, "ai.onnx.ml": {1 if name == "words" else 3}]> {text}'
    )


def expected(name):
    model = graph(name)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    x = (np.random.default_rng(0).standard_normal((7, 2)) * 3).astype(MODELS[name][1].replace("float", "float32"))
    return model, x, session.run(None, {"x": x})


@pytest.mark.pytorch
@pytest.mark.parametrize("name", MODELS)
def test_a_linear_model_is_a_linear_layer(name):
    import torch

    model, x, (label, scores) = expected(name)
    net = onnxport.convert(model, to="pytorch")
    assert net.onnxport_report.passed
    layer = net.get_submodule(MODELS[name][2])
    assert isinstance(layer, torch.nn.Linear)
    assert list(net.state_dict()) == [f"{MODELS[name][2]}.weight", f"{MODELS[name][2]}.bias"]
    results = net(torch.from_numpy(x))
    np.testing.assert_array_equal(np.asarray(results[0]), label)
    np.testing.assert_allclose(results[1].detach(), scores, rtol=1e-5, atol=1e-6)
    results[1].square().sum().backward()
    assert all(bool(item.grad.abs().sum() > 0) for item in net.parameters())


@pytest.mark.keras
@pytest.mark.parametrize("name", ["numbers", "regressor"])
def test_a_linear_model_is_a_dense_layer(name):
    import keras

    model, x, (label, scores) = expected(name)
    net = onnxport.convert(model, to="keras", validate=False)
    assert [tuple(layer.kernel.shape) for layer in net.layers if isinstance(layer, keras.layers.Dense)] == [(2, 3)]
    results = net(x)
    np.testing.assert_array_equal(np.asarray(results[0]), label)
    np.testing.assert_allclose(np.asarray(results[1]), scores, rtol=1e-5, atol=1e-6)
