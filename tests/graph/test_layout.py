"""Transposes pushed toward the outputs, batch normalization recognised: same numbers, fewer nodes, user's names kept."""

from collections import Counter

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from onnxport.converters.to_onnx.finish import finish
from onnxport.graph.builder import OpBuilder
from onnxport.graph.passes.batch_norm import RecogniseBatchNormPass
from onnxport.graph.passes.layout import PushTransposesPass
from onnxport.model import OnnxModel

FLOAT = ir.DataType.FLOAT
FIRST, LAST = [0, 3, 1, 2], [0, 2, 3, 1]
RNG = np.random.default_rng(0)


def weight(op, name, *shape):
    return op.initializer(name, ir.tensor(RNG.uniform(0.5, 1.5, shape).astype(np.float32)))


def conv(op, x, name="w", kernel=1):
    """A channels-last convolution of 3 channels, between transposes."""
    y = op.Conv(op.Transpose(x, perm=FIRST), weight(op, name, 3, 3, kernel, kernel), kernel_shape=[kernel, kernel])
    return op.Transpose(y, perm=LAST)


def normalized(op, x, scale=True, shift=True):
    factor = op.Reciprocal(op.Sqrt(op.Add(weight(op, "variance", 3), 1e-3)))
    if scale:
        factor = op.Mul(factor, weight(op, "scale", 3))
    mean = weight(op, "mean", 3)
    rest = op.Sub(weight(op, "shift", 3), op.Mul(mean, factor)) if shift else op.Mul(op.Neg(mean), factor)
    return op.Add(op.Mul(x, factor), rest)


# Each writes between two convolutions; with how many transposes of activations are left.
CHAINS = {
    "nothing": (lambda op, x: x, 2),
    "unary": (lambda op, x: op.Relu(op.Sigmoid(x)), 2),
    "bias": (lambda op, x: op.Add(x, weight(op, "bias", 3)), 2),
    "scalar": (lambda op, x: op.Mul(x, 2.0), 2),
    "full constant": (lambda op, x: op.Add(x, weight(op, "table", 1, 5, 6, 3)), 2),
    "residual": (lambda op, x: op.Add(x, op.Relu(x)), 2),
    "concat and split": (lambda op, x: op.split(op.Concat(x, op.Neg(x), axis=-1), [3, 3], 3)[1], 2),
    "pad": (lambda op, x: op.Pad(x, [0, 1, 0, 0, 0, 2, 1, 0]), 2),
    "slice": (lambda op, x: op.Slice(x, [1], [3], [2]), 2),
    "keep reduced": (lambda op, x: op.Mul(x, op.reduce("ReduceMean", x, [1, 2], keepdims=True)), 2),
    "gather rows": (lambda op, x: op.Gather(x, [2, 0, 0], axis=1), 2),
    "squeeze and back": (lambda op, x: op.Unsqueeze(op.Squeeze(op.Slice(x, [1], [2], [1]), [1]), [1]), 2),
    "batch norm": (lambda op, x: normalized(op, x), 2),
    "batch norm without scale": (lambda op, x: normalized(op, x, scale=False), 2),
    "batch norm without shift": (lambda op, x: normalized(op, x, shift=False), 2),
    "squeeze and excite": (
        lambda op, x: op.Mul(
            x, op.Reshape(op.Sigmoid(op.reduce("ReduceMean", x, [1, 2], keepdims=False)), [2, 1, 1, 3])
        ),
        2,
    ),
    "shape": (lambda op, x: op.Mul(x, op.Cast(op.Gather(op.Shape(x), 3, axis=0), to=FLOAT)), 2),
    "softmax stays": (lambda op, x: op.Softmax(x, axis=-1), 4),
}


def written(build, opset=21, *, rewrite=True, static=False):
    op = OpBuilder(opset)
    global RNG
    RNG = np.random.default_rng(0)
    x = op.input("x", FLOAT, [2 if static else "N", 5, 6, 3])
    outputs = build(op, x)
    names = [f"y{i}" for i in range(len(outputs))]
    for name in names:
        op.names.reserve(name)
    rewrites = (RecogniseBatchNormPass(op.names), PushTransposesPass(op.names)) if rewrite else ()
    model = OnnxModel(finish(op, outputs, names, rewrites=rewrites))
    onnx.checker.check_model(model.proto, full_check=True)
    return model


def outputs_of(model):
    x = np.random.default_rng(1).normal(size=(2, 5, 6, 3)).astype(np.float32)
    found = model(x)
    return found if isinstance(found, tuple) else (found,)


def transposes(model):
    return sum(node.op_type == "Transpose" and not node.inputs[0].is_initializer() for node in model.model.graph)


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("opset", [13, 21])
def test_same_numbers_and_no_transposes_between_convolutions(name, opset):
    step, left = CHAINS[name]

    def build(op, x):
        return [conv(op, step(op, conv(op, x)), "w2")]

    plain, pushed = written(build, opset, rewrite=False), written(build, opset)
    assert transposes(pushed) == left
    assert pushed.output_names == plain.output_names
    for a, b in zip(outputs_of(plain), outputs_of(pushed), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-5)


def test_intermediate_outputs_keep_names_and_numbers():
    def build(op, x):
        first = conv(op, x)
        second = op.Relu(first)
        return [first, second, conv(op, second, "w2"), op.reduce("ReduceMean", second, [1, 2], keepdims=False)]

    plain, pushed = written(build, rewrite=False), written(build)
    assert pushed.output_names == ["y0", "y1", "y2", "y3"]
    for a, b in zip(outputs_of(plain), outputs_of(pushed), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-6)


def test_transposes_that_cancel_onto_an_input_leave_it_its_name():
    model = written(lambda op, x: [op.Transpose(op.Transpose(x, perm=FIRST), perm=LAST)])
    assert (model.input_names, model.output_names) == (["x"], ["y0"])
    (y,) = outputs_of(model)
    assert y.shape == (2, 5, 6, 3)


def test_a_bias_becomes_the_convolutions_and_batch_norm_one_node():
    def build(op, x):
        return [op.Relu(normalized(op, op.Add(conv(op, x), weight(op, "bias", 3))))]

    model = written(build)
    counts = Counter(node.op_type for node in model.model.graph)
    assert counts == {"Transpose": 2, "Conv": 1, "BatchNormalization": 1, "Relu": 1}
    assert next(node for node in model.model.graph if node.op_type == "Conv").inputs[2].name == "bias"


def test_other_arithmetic_is_left_alone():
    def build(op, x):
        factor = op.Reciprocal(op.Sqrt(op.Add(weight(op, "variance", 3), 1e-3)))
        return [
            op.Add(op.Mul(x, factor), op.Sub(weight(op, "shift", 3), op.Mul(weight(op, "mean", 3), op.Neg(factor))))
        ]

    assert "BatchNormalization" not in {node.op_type for node in written(build).model.graph}


def test_weights_are_not_changed():
    plain = written(lambda op, x: [normalized(op, conv(op, x))], rewrite=False)
    pushed = written(lambda op, x: [normalized(op, conv(op, x))])
    for name in ("w", "mean", "variance", "scale", "shift"):
        a, b = (model.model.graph.initializers[name].const_value.numpy() for model in (plain, pushed))
        np.testing.assert_array_equal(a, b)
