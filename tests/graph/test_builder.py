"""The builder: schemas obeyed, types set, constants promoted, folded and shared, names kept."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from onnxport.converters.to_onnx.finish import finish
from onnxport.errors import MapEntryError, UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.graph.provenance import Source
from onnxport.graph.result_types import Expected
from onnxport.model import OnnxModel

FLOAT, DOUBLE, INT64, BOOL = ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.INT64, ir.DataType.BOOL


def builder(opset=21):
    op = OpBuilder(opset)
    return op, op.input("x", FLOAT, ["N", 3])


def finished(op, *outputs, names=None):
    names = names or [f"out_{i}" for i in range(len(outputs))]
    for name in names:
        op.names.reserve(name)
    model = OnnxModel(finish(op, outputs, names))
    onnx.checker.check_model(model.proto, full_check=True)
    return model


@pytest.mark.parametrize(
    ("write", "dtype", "shape"),
    [
        (lambda op, x: op.Relu(x), FLOAT, ["N", 3]),
        (lambda op, x: op.Cast(x, to=DOUBLE), DOUBLE, ["N", 3]),
        (lambda op, x: op.Shape(x), INT64, [2]),
        (lambda op, x: op.Less(x, 1), BOOL, ["N", 3]),
        (lambda op, x: op.Transpose(x, perm=[1, 0]), FLOAT, [3, "N"]),
        (lambda op, x: op.TopK(x, [2])[1], INT64, ["N", 2]),
        (lambda op, x: op.Reshape(x, [-1]), FLOAT, [None]),
        (lambda op, x: op.reduce("ReduceSum", x, [1], keepdims=False), FLOAT, ["N"]),
        (lambda op, x: op.split(x, [1, 2], 1)[1], FLOAT, ["N", 2]),
        (lambda op, x: op.ml.Binarizer(x, threshold=0.5), FLOAT, ["N", 3]),
    ],
)
@pytest.mark.parametrize("opset", [13, 17, 21, 26])
def test_types_and_shapes_are_set_as_nodes_are_made(write, dtype, shape, opset):
    op, x = builder(opset)
    value = write(op, x)
    assert value.dtype == dtype
    assert list(value.shape) == [ir.SymbolicDim(dim) if not isinstance(dim, int) else dim for dim in shape]


@pytest.mark.parametrize(
    ("write", "error", "words"),
    [
        (lambda op, x: op.Relu(x, slope=1), MapEntryError, "no attribute 'slope'"),
        (lambda op, x: op.Conv(x, np.ones((2, 2), np.float32), np.ones(2), 1), MapEntryError, "at most 3 inputs"),
        (lambda op, x: op.NoSuchOperator(x), MapEntryError, "no operator NoSuchOperator"),
        (lambda op, x: op.Attention(x, x, x), UnsupportedOperator, "from opset 23"),
        (lambda op, x: op.MatMul(x, np.ones((4, 4), np.float32)), MapEntryError, "MatMul"),
        (lambda op, x: op.typed(op.Relu(x), DOUBLE), MapEntryError, "the source gives DOUBLE"),
        (lambda op, x: op.typed(op.Relu(x), FLOAT, [2, 4]), MapEntryError, "the source gives"),
    ],
)
def test_what_the_schema_does_not_have_is_rejected(write, error, words):
    op, x = builder()
    with pytest.raises(error, match=words):
        write(op, x)


@pytest.mark.parametrize("dtype", [FLOAT, DOUBLE, ir.DataType.FLOAT16, INT64, ir.DataType.INT8])
def test_python_numbers_take_the_operands_type(dtype):
    op = OpBuilder(21)
    x = op.input("x", dtype, [2])
    assert op.Add(x, 2).dtype == dtype
    assert op.Mul(2, x).dtype == dtype


def test_whole_numbers_do_not_cut_a_constant():
    op = OpBuilder(21)
    x = op.input("x", ir.DataType.INT64, [2])
    op.Max(x, np.array([1.0, 2.0]))
    with pytest.raises(MapEntryError, match="cut to INT64"):
        op.Max(x, np.array([1.0, 2.5]))


def test_constants_are_folded_and_shared():
    op, x = builder()
    a = op.Add(op.const([1, 2]), 1)
    assert op.constant(a).tolist() == [2, 3]
    assert op.const([2, 3]) is a
    assert op.const(1.0) is not op.const(1)
    assert not op.nodes
    assert op.constant(op.Erf(op.const(0.0))) == 0.0
    assert op.constant(op.dim(x, 1)).tolist() == [3]


@pytest.mark.parametrize(
    ("write", "expected"),
    [
        (lambda op: op.Div(op.const([7, -7]), op.const([2, 2])), [3, -3]),
        (lambda op: op.Slice(op.const([0, 1, 2, 3]), [3], [-9], [0], [-1]), [3, 2, 1, 0]),
        (lambda op: op.Slice(op.const([0, 1, 2, 3]), [-3], [9]), [1, 2, 3]),
        (lambda op: op.Reshape(op.const([[1, 2], [3, 4]]), [0, -1]), [[1, 2], [3, 4]]),
        (lambda op: op.Gather(op.const([5, 6, 7]), [-1]), [7]),
        (lambda op: op.Range(0, 5, 2), [0, 2, 4]),
        (lambda op: op.Concat(op.const([1]), op.const([2]), axis=0), [1, 2]),
        (lambda op: op.Expand(op.const([1]), [2, 2]), [[1, 1], [1, 1]]),
    ],
)
def test_folding_gives_what_onnxruntime_gives(write, expected):
    op = OpBuilder(21)
    assert op.constant(write(op)).tolist() == expected


def test_parameters_are_never_folded_nor_copied():
    op, x = builder()
    weight = np.ones((3, 2), np.float32)
    value = op.initializer("layer.weight", ir.tensor(weight))
    assert op.constant(value) is None
    model = finished(op, op.MatMul(x, op.Neg(value)))
    tensor = model.model.graph.initializers["layer.weight"].const_value
    assert np.shares_memory(tensor.numpy(), weight)


def test_names_of_the_user_survive_exactly():
    op, x = builder()
    for name in ["Add", "same", "const"]:
        op.names.reserve(name)
    weight = op.initializer("Relu", ir.tensor(np.ones(3, np.float32)))
    assert op.initializer("same", ir.tensor(np.ones(3, np.float32))).name == "same_1"
    sum_ = op.Add(op.Add(x, weight), 1.0)
    model = OnnxModel(finish(op, [op.Relu(sum_), x, op.Relu(x)], ["Add", "same", "const"]))
    onnx.checker.check_model(model.proto, full_check=True)
    assert model.input_names == ["x"]
    assert model.output_names == ["Add", "same", "const"]
    assert "Relu" in model.model.graph.initializers


def test_an_output_that_is_input_weight_or_another_output():
    op, x = builder()
    weight = op.initializer("w", ir.tensor(np.full((3,), 2, np.float32)))
    y = op.Mul(x, weight)
    model = finished(op, y, x, y, weight, x)
    given = np.ones((2, 3), np.float32)
    results = model(given)
    for got, expected in zip(results, [given * 2, given, given * 2, np.full(3, 2), given], strict=True):
        np.testing.assert_array_equal(got, expected)


def test_bodies_see_outer_values_and_keep_identities():
    op, x = builder()
    condition = op.input("c", BOOL, [])
    y = op.If(condition, then_branch=op.body(lambda b: [b.Neg(x)]), else_branch=op.body(lambda b: [x]))
    model = finished(op, y)
    given = np.ones((2, 3), np.float32)
    assert model(given, np.array(True)).tolist() == (-given).tolist()
    assert model(given, np.array(False)).tolist() == given.tolist()


def test_loop_with_scan_output():
    op, x = builder()

    def step(body):
        body.input("i", INT64, [])
        going = body.input("going", BOOL, [])
        total = body.input("total", FLOAT, ["N", 3])
        total = body.Add(total, x)
        return [body.Identity(going), total, total]

    last, all_of_them = op.Loop(3, True, x, body=op.body(step), outputs=2)
    model = finished(op, last, all_of_them)
    given = np.ones((2, 3), np.float32)
    got = model(given)
    np.testing.assert_array_equal(got[0], given * 4)
    np.testing.assert_array_equal(got[1], np.stack([given * 2, given * 3, given * 4]))


def test_nodes_carry_their_source():
    op, x = builder()
    with op.at(Source("aten::relu", "act", "encoder.act", "model.py", 7), [Expected(FLOAT, ("N", 3))]):
        assert op.result.dtype == FLOAT
        y = op.Relu(x)
    metadata = y.producer().metadata_props
    assert metadata["onnxport.op"] == "aten::relu"
    assert metadata["onnxport.source"] == "model.py:7"
    with pytest.raises(MapEntryError, match="no type"):
        _ = op.result


@pytest.mark.parametrize(("opset", "version"), [(13, 7), (17, 8), (19, 9), (21, 10), (23, 10), (26, 10)])
def test_lowest_ir_version(opset, version):
    op, x = builder(opset)
    assert finished(op, op.Relu(x)).model.ir_version == version


def test_double_operands_refuse_constants_of_fewer_digits():
    op = OpBuilder(21)
    x = op.input("x", ir.DataType.DOUBLE, [2])
    assert op.LeakyRelu(x, alpha=0.25).dtype == ir.DataType.DOUBLE
    for refused in (lambda: op.LeakyRelu(x, alpha=0.1), lambda: op.Gelu(x), lambda: op.HardSwish(x)):
        with pytest.raises(UnsupportedOperator):
            refused()


def test_folded_operands_do_not_stay_in_the_model() -> None:
    op = OpBuilder(21)
    x = op.input("x", ir.DataType.INT64, [3])
    total = op.Add(x, op.Squeeze(op.const([[4, 5, 6]]), op.axes(0)))
    op.names.reserve("y")
    model = finish(op, [total], ["y"])
    assert [value.const_value.numpy().tolist() for value in model.graph.initializers.values()] == [[4, 5, 6]]
