"""Quantised files train in PyTorch: a rounding passes on the gradient of what it rounds, as torch's fake quantisation does."""

import numpy as np
import onnx
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
    [(PAIR, lambda real: real), (MOVED, lambda real: real), (PRODUCT, product)],
    ids=["a pair", "a pair with moves between", "a product of quantised numbers"],
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


def test_what_is_no_number_is_quantised_as_before():
    """NaN and infinity have a place among the whole numbers, also while gradients are kept."""
    module = onnxport.convert(onnx.parser.parse_model(PAIR), to="pytorch", validate=False)
    x = torch.tensor(np.array([[np.inf, 1.0, -np.inf, 2.0]], np.float32))
    result = module(x)
    result.sum().backward()
    assert torch.equal(module(x).detach(), rounded(x * torch.tensor([0.5, -1.5, 2.0, 0.25]), 0.05, 128))
    assert torch.isfinite(dict(module.named_parameters())["w"].grad[1])
