"""Quantised files train in PyTorch: a rounding passes on the gradient of what it rounds, as torch's fake quantisation does."""

import numpy as np
import onnx
import onnxruntime
import pytest

import onnxport

torch = pytest.importorskip("torch", reason="PyTorch is an extra")
pytestmark = pytest.mark.pytorch

HEAD = """<ir_version: 8, opset_import: ["": 17]> g (float[N, 4] x) => (float[N, c] y)
<float[4] w = {0.5, -1.5, 2.0, 0.25}, float s = {0.05}, uint8 z = {128}, float t = {0.02}, int8 v = {3}, float u = {0.1},
 uint8 o = {100}, int8[4, 3] k = {1, -2, 3, 4, 5, -6, 7, 8, 9, -10, 11, 12}> """
PAIR = HEAD + "{ m = Mul(x, w) q = QuantizeLinear(m, s, z) y = DequantizeLinear(q, s, z) }"
MOVED = (
    HEAD
    + """{ m = Mul(x, w) q = QuantizeLinear(m, s, z) r = Transpose <perm = [1, 0]> (q)
    f = Flatten <axis = 1> (r) b = Transpose <perm = [1, 0]> (f) y = DequantizeLinear(b, s, z) }"""
)
PICKED = (
    HEAD
    + """{ m = Mul(x, w) q = QuantizeLinear(m, s, z) i = Constant <value = int64 {2}> () r = Gather <axis = 1> (q, i)
    d = DequantizeLinear(r, s, z) a = Constant <value = int64[1] {1}> () y = Unsqueeze(d, a) }"""
)
PRODUCT = (
    HEAD
    + """{ m = Mul(x, w) q = QuantizeLinear(m, s, z)
    p = QLinearMatMul(q, s, z, k, t, v, u, o) y = DequantizeLinear(p, u, o) }"""
)


def rounded(x, scale, zero):
    return torch.fake_quantize_per_tensor_affine(x, scale, zero, 0, 255)


def product(real):
    weight = torch.tensor([[1.0, -2, 3], [4, 5, -6], [7, 8, 9], [-10, 11, 12]])
    return rounded(real @ ((weight - 3) * 0.02), 0.1, 100)


@pytest.mark.parametrize(
    ("text", "after"),
    [
        (PAIR, lambda real: real),
        (MOVED, lambda real: real),
        (PICKED, lambda real: real[:, 2:3]),
        (PRODUCT, product),
    ],
    ids=["a pair", "a pair with moves between", "a column that is picked", "a product of quantised numbers"],
)
def test_a_weight_has_the_gradient_of_fake_quantisation(text, after):
    """One element lies beyond the type's limits: it has no gradient."""
    model = onnx.parser.parse_model(text)
    module = onnxport.convert(model, to="pytorch", validate=False)
    x = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    x[0, 2] = 40.0
    weight = torch.tensor([0.5, -1.5, 2.0, 0.25], requires_grad=True)
    expected = after(rounded(x * weight, 0.05, 128))
    result = module(x)
    torch.testing.assert_close(result, expected, rtol=1e-6, atol=1e-6)
    direction = torch.randn(result.shape, generator=torch.Generator().manual_seed(1))
    (result * direction).sum().backward()
    (expected * direction).sum().backward()
    parameters = dict(module.named_parameters())
    torch.testing.assert_close(parameters["w"].grad, weight.grad, rtol=1e-5, atol=1e-5)
    with torch.no_grad():
        assert torch.equal(module(x), result)


def test_what_is_no_number_is_onnxruntimes_also_while_gradients_are_kept():
    """NaN, infinity, and a scale that is infinite: each has its place among the whole numbers."""
    x = torch.tensor(np.array([[np.inf, np.nan, -np.inf, 2.0]], np.float32))
    for text in (PAIR, PAIR.replace("float s = {0.05}", "float s = {inf}").replace("y = Deq", "e = Deq") + ""):
        text = text.replace("e = DequantizeLinear(q, s, z)", "y = DequantizeLinear(q, t, z)")
        model = onnx.parser.parse_model(text)
        module = onnxport.convert(model, to="pytorch", validate=False)
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        (expected,) = session.run(None, {"x": x.numpy()})
        result = module(x)
        np.testing.assert_array_equal(result.detach().numpy(), expected)
        result.sum().backward()
        assert torch.isfinite(dict(module.named_parameters())["w"].grad[3])


@pytest.mark.tensorflow
@pytest.mark.parametrize("target", ["tensorflow", "keras"])
def test_what_is_no_number_is_onnxruntimes_in_other_frameworks(target):
    pytest.importorskip("tensorflow", reason="TensorFlow is an extra")
    model = onnx.parser.parse_model(PAIR)
    x = np.array([[np.inf, np.nan, -np.inf, 2.0]], np.float32)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    result = onnxport.convert(model, to=target, validate=False)(x)
    np.testing.assert_array_equal(np.asarray(result), session.run(None, {"x": x})[0])
