"""Operators recognised in a framework's arithmetic: the same numbers in fewer nodes; what only looks alike stays."""

import math
from collections import Counter

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from onnxport.converters.to_onnx.finish import finish
from onnxport.graph.builder import OpBuilder
from onnxport.graph.passes.gelu import RecogniseGeluPass
from onnxport.graph.passes.layer_norm import RecogniseLayerNormPass, RecogniseRmsNormPass
from onnxport.graph.passes.pads import MergePadsPass
from onnxport.graph.passes.products import RecogniseProductsPass
from onnxport.graph.passes.reshapes import MergeReshapesPass
from onnxport.model import OnnxModel
from onnxport.opset_maps.lowerings import special

FLOAT = ir.DataType.FLOAT
RNG = np.random.default_rng(0)
ROOT = np.float32(0.70710677)
GIVEN = RNG.normal(size=(2, 4, 5, 6)).astype(np.float32)


def vector(op, name, *shape):
    return op.initializer(name, ir.tensor(RNG.uniform(0.5, 1.5, shape).astype(np.float32)))


def gelu(op, x, root=ROOT, half=0.5):
    return op.Mul(op.Mul(x, half), special.erfc(op, op.Mul(op.Neg(x), root)))


def gelu_outside(op, x):
    return op.Mul(special.erfc(op, op.Neg(op.Mul(x, np.float32(0.70710677)))), op.Mul(0.5, x))


def gelu_of_tanh(op, x, cube=None, factor=0.044715):
    inner = op.Mul(op.Add(x, op.Mul(cube(op, x) if cube else op.Pow(x, 3.0), factor)), math.sqrt(2 / math.pi))
    return op.Mul(op.Mul(x, 0.5), op.Add(op.Tanh(inner), 1.0))


def cubed(op, x):
    return op.Mul(op.Mul(x, x), x)


def norm(op, x, *, axes=(3,), sizes=(6,), scale=True, shift=True, minus=False, of=None):
    mean = op.reduce("ReduceMean", x, list(axes), keepdims=True)
    gap = op.Sub(x, mean)
    variance = op.reduce("ReduceMean", op.Mul(gap, gap), list(axes), keepdims=True)
    m = op.Reciprocal(op.Sqrt(op.Add(variance, 1e-3)))
    if scale:
        m = op.Mul(m, vector(op, "scale", *sizes))
    beta = vector(op, "shift", *sizes)
    if minus:
        return op.Add(op.Mul(x, m), op.Sub(beta, op.Mul(mean, m)))
    rest = op.Mul(op.Neg(of if of is not None else mean), m)
    return op.Add(op.Mul(x, m), op.Add(rest, beta) if shift else rest)


def rms_norm(op, x, *, axes=(3,), sizes=(6,), of=None):
    square = op.Mul(x, x if of is None else of)
    mean = op.reduce("ReduceMean", square, list(axes), keepdims=True)
    return op.Mul(vector(op, "scale", *sizes), op.Mul(x, op.Reciprocal(op.Sqrt(op.Add(mean, 1e-3)))))


def product(op, x, back=(-1, 4, 5, 3)):
    flat = op.Reshape(x, [-1, 6])
    return op.Reshape(op.MatMul(flat, vector(op, "w", 6, 3)), list(back))


def dynamic_product(op, x, places=(0, 1, 2)):
    sizes = op.Cast(op.Shape(x), to=ir.DataType.INT32)
    free = op.Gather(sizes, list(places), axis=0)
    count = op.ReduceProd(op.Cast(free, to=ir.DataType.INT64), keepdims=1)
    flat = op.Reshape(x, op.Concat(count, [6], axis=0))
    back = op.Cast(op.Concat(free, op.const(np.array([3], np.int32)), axis=0), to=ir.DataType.INT64)
    result = op.Reshape(op.MatMul(flat, vector(op, "w", 6, 3)), back)
    return op.typed(result, FLOAT, [None, None, None, 3])


def squeeze(op, x):
    mean = op.reduce("ReduceMean", x, [2, 3], keepdims=False)
    return op.Transpose(op.Reshape(mean, [-1, 1, 1, 4]), perm=[0, 3, 1, 2])


def padded(op, x, value=0.0, amounts=(0, 0, 1, 0, 0, 0, 2, 1), mode="constant", **form):
    image = op.Pad(x, list(amounts), value, mode=mode)
    return op.Conv(image, vector(op, "w", 3, 4 + amounts[1], 2, 3), kernel_shape=[2, 3], **form)


def padded_behind(op, x, perm, amounts, channels, **form):
    image = op.Transpose(op.Pad(x, list(amounts)), perm=perm)
    return op.Conv(image, vector(op, "w", 3, channels, 2, 3), kernel_shape=[2, 3], **form)


def _pads(names):
    return MergePadsPass()


# What is written, the pass, the shape that the graph declares, the operators that are left, of those that are counted.
BATCH, FREE = ["n", 4, 5, 6], ["n", "a", "b", 6]
ROWS = {
    "gelu": (gelu, RecogniseGeluPass, BATCH, {"Gelu": 1}),
    "gelu the other way round": (gelu_outside, RecogniseGeluPass, BATCH, {"Gelu": 1}),
    "gelu of tanh": (gelu_of_tanh, RecogniseGeluPass, BATCH, {"Gelu": 1, "Tanh": 0}),
    "gelu of tanh and products": (
        lambda op, x: gelu_of_tanh(op, x, cubed),
        RecogniseGeluPass,
        FREE,
        {"Gelu": 1, "Tanh": 0},
    ),
    "gelu of tanh, another factor": (
        lambda op, x: gelu_of_tanh(op, x, factor=0.05),
        RecogniseGeluPass,
        BATCH,
        {"Gelu": 0, "Tanh": 1},
    ),
    "another root": (lambda op, x: gelu(op, x, np.float32(0.7)), RecogniseGeluPass, BATCH, {"Gelu": 0}),
    "another factor": (lambda op, x: gelu(op, x, half=0.25), RecogniseGeluPass, BATCH, {"Gelu": 0}),
    "norm": (norm, RecogniseLayerNormPass, BATCH, {"LayerNormalization": 1, "ReduceMean": 0}),
    "norm of two axes": (
        lambda op, x: norm(op, x, axes=(2, 3), sizes=(5, 6)),
        RecogniseLayerNormPass,
        BATCH,
        {"LayerNormalization": 1, "ReduceMean": 0},
    ),
    "norm, shift minus": (
        lambda op, x: norm(op, x, minus=True),
        RecogniseLayerNormPass,
        FREE,
        {"LayerNormalization": 1, "ReduceMean": 0},
    ),
    "plain norm": (
        lambda op, x: norm(op, x, scale=False, shift=False),
        RecogniseLayerNormPass,
        BATCH,
        {"LayerNormalization": 1, "ReduceMean": 0},
    ),
    "norm of inner axes": (
        lambda op, x: norm(op, x, axes=(1,), sizes=(1, 4, 1, 1)),
        RecogniseLayerNormPass,
        BATCH,
        {"LayerNormalization": 0, "ReduceMean": 2},
    ),
    "norm, a scale for one axis of two": (
        lambda op, x: norm(op, x, axes=(2, 3), sizes=(6,)),
        RecogniseLayerNormPass,
        BATCH,
        {"LayerNormalization": 0, "ReduceMean": 2},
    ),
    "norm less another mean": (
        lambda op, x: norm(op, x, of=op.reduce("ReduceMean", op.Abs(x), [3], keepdims=True)),
        RecogniseLayerNormPass,
        BATCH,
        {"LayerNormalization": 0, "ReduceMean": 3},
    ),
    "root mean square": (rms_norm, RecogniseRmsNormPass, FREE, {"Pow": 1, "Div": 1, "Reciprocal": 0, "Mul": 1}),
    "root mean of another product": (
        lambda op, x: rms_norm(op, x, of=op.Abs(x)),
        RecogniseRmsNormPass,
        BATCH,
        {"Pow": 0, "Div": 0, "Reciprocal": 1},
    ),
    "root mean square of an inner axis": (
        lambda op, x: rms_norm(op, x, axes=(1,)),
        RecogniseRmsNormPass,
        BATCH,
        {"Pow": 0, "Div": 0, "Reciprocal": 1},
    ),
    "product": (product, RecogniseProductsPass, BATCH, {"Reshape": 0, "MatMul": 1}),
    "product, other sizes": (
        lambda op, x: product(op, x, (-1, 5, 4, 3)),
        RecogniseProductsPass,
        BATCH,
        {"Reshape": 2, "MatMul": 1},
    ),
    "product of sizes at run time": (dynamic_product, RecogniseProductsPass, FREE, {"Reshape": 0, "Shape": 0}),
    "product of swapped sizes at run time": (
        lambda op, x: dynamic_product(op, x, (1, 0, 2)),
        RecogniseProductsPass,
        FREE,
        {"Reshape": 2},
    ),
    "squeeze": (squeeze, MergeReshapesPass, BATCH, {"Reshape": 0, "Transpose": 0, "ReduceMean": 1}),
    "reshapes": (
        lambda op, x: op.Reshape(op.Unsqueeze(op.Reshape(x, [-1, 20, 6]), [1]), [-1, 4, 30]),
        MergeReshapesPass,
        BATCH,
        {"Reshape": 1, "Unsqueeze": 0},
    ),
    "a real transpose": (
        lambda op, x: op.Transpose(op.Reshape(x, [-1, 20, 6]), perm=[0, 2, 1]),
        MergeReshapesPass,
        BATCH,
        {"Reshape": 1, "Transpose": 1},
    ),
    "transposes": (
        lambda op, x: op.Transpose(op.Transpose(x, perm=[0, 2, 3, 1]), perm=[0, 3, 2, 1]),
        MergeReshapesPass,
        BATCH,
        {"Transpose": 1},
    ),
    "there and back": (
        lambda op, x: op.Relu(op.Transpose(op.Transpose(op.Neg(x), perm=[0, 2, 3, 1]), perm=[0, 3, 1, 2])),
        MergeReshapesPass,
        FREE,
        {"Transpose": 0},
    ),
    "reshaped and back": (
        lambda op, x: op.Relu(op.Reshape(op.Reshape(op.Neg(x), [-1, 6]), [-1, 4, 5, 6])),
        MergeReshapesPass,
        BATCH,
        {"Reshape": 0},
    ),
    "pad": (lambda op, x: padded(op, x), _pads, BATCH, {"Pad": 0, "Conv": 1}),
    "pad and own pads": (lambda op, x: padded(op, x, pads=[1, 0, 2, 1]), _pads, BATCH, {"Pad": 0}),
    "pad of channels last": (
        lambda op, x: padded_behind(op, x, [0, 3, 1, 2], (0, 1, 2, 0, 0, 0, 1, 0), 6, pads=[1, 0, 2, 1]),
        _pads,
        FREE,
        {"Pad": 0, "Transpose": 1},
    ),
    "pad of channels that come last": (
        lambda op, x: padded_behind(op, x, [0, 3, 1, 2], (0, 0, 0, 1, 0, 0, 0, 1), 8),
        _pads,
        BATCH,
        {"Pad": 1},
    ),
    "pad of VALID": (lambda op, x: padded(op, x, auto_pad="VALID"), _pads, BATCH, {"Pad": 0}),
    "pad of SAME": (lambda op, x: padded(op, x, auto_pad="SAME_UPPER"), _pads, BATCH, {"Pad": 1}),
    "pad of ones": (lambda op, x: padded(op, x, 1.0), _pads, BATCH, {"Pad": 1}),
    "pad of channels": (lambda op, x: padded(op, x, amounts=(0, 1, 0, 0, 0, 0, 1, 0)), _pads, BATCH, {"Pad": 1}),
    "pad that cuts": (lambda op, x: padded(op, x, amounts=(0, 0, -1, 0, 0, 0, 1, 0)), _pads, BATCH, {"Pad": 1}),
    "pad, reflected": (lambda op, x: padded(op, x, mode="reflect"), _pads, BATCH, {"Pad": 1}),
    "a mean whose sizes others than its axes get": (
        lambda op, x: op.Reshape(op.reduce("ReduceMean", x, [1, 2], keepdims=False), [-1, 6, 1, 1]),
        MergeReshapesPass,
        BATCH,
        {"Reshape": 1, "ReduceMean": 1},
    ),
}


def model(build, passes, shape, opset):
    op = OpBuilder(opset)
    x = op.input("x", FLOAT, shape)
    return OnnxModel(finish(op, [build(op, x)], [op.names.unique("y")], rewrites=[item(op.names) for item in passes]))


@pytest.mark.parametrize("opset", [17, 21])
@pytest.mark.parametrize("name", ROWS)
def test_the_numbers_stay(name, opset):
    build, recognise, shape, left = ROWS[name]
    state = RNG.bit_generator.state
    expected = model(build, (), shape, opset)(GIVEN)
    RNG.bit_generator.state = state
    rewritten = model(build, (recognise,), shape, opset)
    onnx.checker.check_model(rewritten.proto, full_check=True)
    got = rewritten(GIVEN)
    assert (got.shape, got.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=2e-6)
    counts = Counter(node.op_type for node in rewritten.model.graph)
    if opset < 20 and "Gelu" in left:
        tanh = "Tanh" in left
        left = {"Gelu": 0, "Tanh": 1} if tanh else {"Gelu": 0, "Erf": left["Gelu"]}
    assert {operator: counts[operator] for operator in left} == left


def test_a_norm_of_opset_13_stays():
    assert "LayerNormalization" not in {
        n.op_type for n in model(norm, (RecogniseLayerNormPass,), BATCH, 13).model.graph
    }


@pytest.mark.parametrize(
    ("axes", "sizes", "whole"), [((3,), (6,), 1), ((2, 3), (5, 6), 1), ((2, 3), (6,), 0), ((3,), (1,), 0)]
)
def test_a_root_mean_square_is_an_operator_from_opset_23(axes, sizes, whole):
    op = OpBuilder(23)
    scale = RNG.uniform(0.5, 1.5, sizes).astype(np.float32)
    x = op.input("x", FLOAT, BATCH)
    mean = op.reduce("ReduceMean", op.Mul(x, x), list(axes), keepdims=True)
    result = op.Mul(op.Mul(x, op.Reciprocal(op.Sqrt(op.Add(mean, 1e-3)))), op.initializer("scale", ir.tensor(scale)))
    made = OnnxModel(finish(op, [result], [op.names.unique("y")], rewrites=[RecogniseRmsNormPass(op.names)]))
    assert sum(node.op_type == "RMSNormalization" for node in made.model.graph) == whole
    wide = GIVEN.astype(np.float64)
    expected = wide / np.sqrt((wide**2).mean(axes, keepdims=True) + 1e-3) * scale
    np.testing.assert_allclose(made(GIVEN), expected, rtol=1e-6)
