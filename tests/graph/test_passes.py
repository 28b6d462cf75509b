"""Passes keep the numbers and the names, and do what their docstring says."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from onnxport.converters.to_onnx.finish import finish
from onnxport.graph.builder import OpBuilder
from onnxport.graph.passes.bake import bake
from onnxport.graph.passes.cleanup import clean
from onnxport.model import OnnxModel

FLOAT = ir.DataType.FLOAT


def convolution(bias, final):
    rng = np.random.default_rng(0)
    op = OpBuilder(21)
    op.names.reserve("y")
    x = op.input("x", FLOAT, ["N", 3, 8, 8])
    weight = op.initializer("conv.weight", ir.tensor(rng.normal(size=(4, 3, 3, 3)).astype(np.float32)))
    b = op.initializer("conv.bias", ir.tensor(rng.normal(size=4).astype(np.float32))) if bias else None
    norm = [op.initializer(f"bn.{i}", ir.tensor(rng.uniform(0.5, 2, 4).astype(np.float32))) for i in range(4)]
    y = op.BatchNormalization(op.Conv(x, weight, b), *norm, epsilon=1e-3)
    if not final:
        head = op.initializer("head.weight", ir.tensor(rng.normal(size=(2, 4)).astype(np.float32)))
        y = op.MatMul(op.reduce("ReduceMean", y, [2, 3], keepdims=False), op.Transpose(head, perm=[1, 0]))
    return OnnxModel(finish(op, [y], ["y"]))


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("final", [False, True])
def test_baking_keeps_the_numbers(bias, final):
    given = np.random.default_rng(1).normal(size=(2, 3, 8, 8)).astype(np.float32)
    expected = convolution(bias, final)(given)
    baked = OnnxModel(bake(convolution(bias, final).model))
    onnx.checker.check_model(baked.proto, full_check=True)
    types = {node.op_type for node in baked.model.graph}
    assert not types & {"BatchNormalization", "Transpose"}
    assert baked.output_names == ["y"]
    np.testing.assert_allclose(baked(given), expected, rtol=1e-4, atol=1e-5)


def test_baking_keeps_a_scalar_a_scalar():
    op = OpBuilder(21)
    op.names.reserve("y")
    x, weight = op.input("x", FLOAT, [2]), op.initializer("weight", ir.tensor(np.float32(3)))
    baked = OnnxModel(bake(finish(op, [op.Add(x, op.Unsqueeze(op.Neg(weight), op.axes(0)))], ["y"])))
    assert all(value.const_value.shape == value.shape for value in baked.model.graph.initializers.values())
    np.testing.assert_array_equal(baked(np.float32([3, 4])), [0, 1])
    op = OpBuilder(21)
    op.names.reserve("y")
    x, weight = op.input("x", FLOAT, []), op.initializer("weight", ir.tensor(np.float32(3)))
    assert OnnxModel(bake(finish(op, [op.Add(x, op.Neg(weight))], ["y"])))(np.float32(4)).shape == ()


@pytest.mark.parametrize(("runtime", "drawn"), [("onnxruntime", "RandomUniformLike"), ("reference", "Bernoulli")])
def test_equal_random_nodes_stay_two(runtime, drawn):
    op = OpBuilder(21)
    for name in ("a", "b"):
        op.names.reserve(name)
    x = op.input("x", FLOAT, [1000])
    model = OnnxModel(finish(op, [op.Bernoulli(x), op.Bernoulli(x)], ["a", "b"], runtime=runtime))
    assert sum(node.op_type == drawn for node in model.model.graph) == 2


def test_what_only_the_body_of_an_unused_node_reads_is_not_computed():
    op = OpBuilder(21)
    op.names.reserve("y")
    x, flag = op.input("x", FLOAT, ["N"]), op.input("flag", ir.DataType.BOOL, [])
    exp, log = op.Exp(x), op.Log(x)

    def inner(b, value):
        return b.body(lambda c: [c.Neg(value)])

    def chosen(b):
        return [b.If(flag, then_branch=inner(b, exp), else_branch=inner(b, x))]

    op.If(flag, then_branch=op.body(chosen), else_branch=inner(op, x))
    used = op.If(flag, then_branch=inner(op, log), else_branch=inner(op, x))
    model = OnnxModel(finish(op, [used], ["y"]))
    assert [node.op_type for node in model.model.graph] == ["Log", "If"]
    np.testing.assert_allclose(model(np.full(2, 2, np.float32), np.array(True)), -np.log([2, 2]), rtol=1e-6)


def test_repeated_subexpressions_become_one():
    op = OpBuilder(21)
    op.names.reserve("y")
    x = op.input("x", FLOAT, ["N"])
    model = OnnxModel(finish(op, [op.Add(op.Exp(x), op.Exp(x))], ["y"]))
    assert [node.op_type for node in model.model.graph] == ["Exp", "Add"]


def test_subexpressions_whose_operands_an_identity_tells_apart_become_one():
    op = OpBuilder(21)
    op.names.reserve("y")
    x = op.input("x", FLOAT, ["N"])
    model = OnnxModel(finish(op, [op.Add(op.Exp(x), op.Exp(op.Identity(x)))], ["y"]))
    assert [node.op_type for node in model.model.graph] == ["Exp", "Add"]


@pytest.mark.parametrize("width", [1, 5])
@pytest.mark.parametrize("operator", ["Mul", "Div"])
@pytest.mark.parametrize("after", [False, True])
def test_a_float64_scale_beside_a_product_keeps_its_digits(width, operator, after):
    rng = np.random.default_rng(0)
    weight, given = rng.normal(size=(width, width)), rng.normal(size=(4, width))
    op = OpBuilder(21)
    op.names.reserve("y")
    x = op.input("x", ir.DataType.DOUBLE, ["N", width])
    scaled = op.node(operator, op.MatMul(x, weight) if after else x, 0.2)
    model = OnnxModel(finish(op, [scaled if after else op.MatMul(scaled, weight)], ["y"]))
    onnx.checker.check_model(model.proto, full_check=True)
    factor = 0.2 if operator == "Mul" else 5.0
    np.testing.assert_allclose(model(given), given @ weight * factor, rtol=1e-14)


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("index", [[1, 0, 1], [[1], [0]], 1])
def test_rows_of_strings_are_gathered_whole(axis, index):
    data = np.array([f"{i}" for i in range(24)], object).reshape(4, 2, 3)
    op = OpBuilder(21)
    op.names.reserve("y")
    x = op.input("x", ir.DataType.STRING, [4, "n", 3])
    found = OnnxModel(finish(op, [op.Gather(x, np.array(index), axis=axis)], ["y"]))(data)
    assert found.tolist() == np.take(data, index, axis=axis).tolist()


# onnxruntime 1.31 moves such factors, one after another, into a float32 attribute of the product.
@pytest.mark.parametrize("before", [[0.2], [0.2, 4.0], [16777213.0, 16777215.0], [2.0**-80, 2.0**-80]], ids=str)
@pytest.mark.parametrize("after", [[], [4.0, 0.7]], ids=str)
@pytest.mark.parametrize("columns", [1, 3])
def test_scales_of_float64_products_keep_their_digits(before, after, columns):
    rng = np.random.default_rng(0)
    given, weight = rng.normal(size=(5, columns)), rng.normal(size=(columns, 2))
    op = OpBuilder(21)
    op.names.reserve("y")
    x = op.input("x", ir.DataType.DOUBLE, ["N", columns])
    for factor in before:
        x = op.Mul(x, op.const(np.array([factor])))
    y = op.MatMul(x, op.const(weight))
    for factor in after:
        y = op.Div(y, op.const(np.float64(factor)))
    model = OnnxModel(finish(op, [y], ["y"]))
    np.testing.assert_allclose(model(given), given * np.prod(before) @ weight / np.prod(after), rtol=1e-13)


# Shapes of the operands as they are multiplied; where one is turned, it is given with its axes in another order.
@pytest.mark.parametrize("through", ["nothing", "Cast", "Mul", "Concat"])
@pytest.mark.parametrize(
    ("left", "perm", "right"),
    [
        ((3, 4), [1, 0], (4,)),
        ((2, 3, 4), [0, 2, 1], (4,)),
        ((3, 4), [0, 1], (4,)),
        ((0, 4), [0, 1], (4,)),
        ((3, 0), [0, 1], (0,)),
        ((2, 3, 4), [1, 0, 2], (4,)),
        ((2, 3, 4), [1, 0, 2], (4, 5)),
        ((2, 3, 4), [1, 2, 0], (4, 5)),
        ((2, 3, 2, 4), [1, 2, 0, 3], (4, 5)),
        ((2, 3, 4), [1, 0, 2], (2, 4, 5)),
    ],
    ids=str,
)
def test_products_behind_a_transposition(left, perm, right, through):
    rng = np.random.default_rng(0)
    weight, given = rng.normal(size=right).astype(np.float32), rng.normal(size=left).astype(np.float32)
    op = OpBuilder(21)
    op.names.reserve("y")
    x = op.input("x", ir.DataType.DOUBLE if through == "Cast" else FLOAT, [None] * len(left))
    turned = op.Transpose(x, perm=perm)
    if through == "Concat":
        turned = op.Concat(turned, turned, axis=-2)
        weight = np.concatenate([weight] * len(right), -1) if len(right) == 3 else weight
    turned = op.Mul(turned, 2.0) if through == "Mul" else op.cast(turned, FLOAT)
    model = OnnxModel(finish(op, [op.MatMul(turned, op.const(weight))], ["y"]))
    onnx.checker.check_model(model.proto, full_check=True)
    expected = given.astype(float)
    expected = np.concatenate([expected] * 2, -2) if through == "Concat" else expected * (2 if through == "Mul" else 1)
    found = model(given.transpose(np.argsort(perm)).astype(np.float64 if through == "Cast" else np.float32))
    np.testing.assert_allclose(found, expected @ weight, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("perm", [[1, 0, 2], [1, 2, 0]], ids=str)
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_products_of_half_precision_behind_a_transposition(perm, dtype):
    rng = np.random.default_rng(0)
    weight, given = rng.normal(size=(4, 5)).astype(np.float16), rng.normal(size=(2, 3, 4)).astype(dtype)
    op = OpBuilder(21)
    op.names.reserve("y")
    x = op.input("x", ir.DataType.from_numpy(np.dtype(dtype)), ["a", "b", "c"])
    turned = op.cast(op.Transpose(x, perm=perm), ir.DataType.FLOAT16)
    model = OnnxModel(finish(op, [op.MatMul(turned, op.const(weight))], ["y"]))
    found = model(given.transpose(np.argsort(perm)))
    np.testing.assert_allclose(found, given.astype(np.float16).astype(float) @ weight, rtol=2e-3, atol=2e-3)


def test_equal_nodes_are_one_also_beside_bodies_of_many_operators():
    model = ir.from_onnx_text(
        """<ir_version: 8, opset_import: ["": 17]> main (float[3] x, bool c) => (float[3] y) {
            a = Exp (x) b = Exp (x) s = Add (a, b)
            t = If (c) <then_branch = one () => (float[3] u) {u1 = Neg (x) u2 = Abs (u1) u = Sqrt (u2)},
                        else_branch = two () => (float[3] v) {v1 = Sin (x) v2 = Cos (v1) v = Tanh (v2)}>
            y = Sub (s, t) }"""
    )
    assert [node.op_type for node in clean(model).graph] == ["Exp", "Add", "If", "Sub"]
