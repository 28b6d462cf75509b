"""Weights stand in the layout that their operators take, under their names, and come back as they were."""

import io
import json

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnxruntime.quantization import QuantType, quantize_dynamic

from onnxport.converters.to_onnx.finish import finish
from onnxport.graph.builder import OpBuilder
from onnxport.graph.moved import MOVES, Move, MovedTensor, restored
from onnxport.graph.passes.weight_moves import MergeWeightMovesPass, with_source_weights
from onnxport.model import OnnxModel
from tests.graph.written import moved_constants

FLOAT, INT64 = ir.DataType.FLOAT, ir.DataType.INT64
RNG = np.random.default_rng(0)
WIDE = RNG.normal(size=(300, 260)).astype(np.float32)  # more elements than a constant that is written twice may have


def weight(op, shape_or_array, name="w"):
    array = shape_or_array
    if not isinstance(array, np.ndarray):
        array = RNG.normal(size=array).astype(np.float32)
    return op.initializer(name, ir.Tensor(array))


def images(op):
    return op.input("x", FLOAT, [2, 4, 6, 6]), RNG.normal(size=(2, 4, 6, 6)).astype(np.float32)


def rows(op, width):
    return op.input("x", FLOAT, [3, 2, width]), RNG.normal(size=(3, 2, width)).astype(np.float32)


def tokens(op):
    return op.input("x", INT64, [3, 2]), RNG.integers(-300, 300, (3, 2))


def kernel(op):
    x, given = images(op)
    return op.Conv(x, op.Transpose(weight(op, (3, 2, 4, 5)), perm=[3, 2, 0, 1])), given


def depthwise(op):
    x, given = images(op)
    moved = op.Reshape(op.Transpose(weight(op, (3, 2, 4, 2)), perm=[2, 3, 0, 1]), [8, 1, 3, 2])
    return op.Conv(x, moved, group=4), given


def vector(op):
    x, given = images(op)
    w = weight(op, (4,))
    return op.Mul(x, op.Unsqueeze(op.Unsqueeze(w, [1]), [2])), given


def linear(op):
    x, given = rows(op, 260)
    return op.MatMul(x, op.Transpose(weight(op, WIDE), perm=[1, 0])), given


def tied(op):
    x, given = tokens(op)
    w = weight(op, WIDE)
    return op.MatMul(op.Relu(op.Gather(w, x, axis=0)), op.Transpose(w, perm=[1, 0])), given


def tied_dynamic(op):
    x = op.input("x", INT64, ["n", "m"])
    w = weight(op, WIDE)
    given = RNG.integers(-300, 300, (3, 2))
    return op.MatMul(op.Relu(op.Gather(w, x, axis=0)), op.Transpose(w, perm=[1, 0])), given


def shared(op):
    x = op.input("x", FLOAT, [2, 260])
    w = weight(op, WIDE)
    both = op.Add(op.Gemm(x, w, transB=1), op.MatMul(x, op.Transpose(w, perm=[1, 0])))
    return both, RNG.normal(size=(2, 260)).astype(np.float32)


def several_layouts(op):
    x, given = images(op)
    w = weight(op, (6, 6))
    return op.Add(op.Mul(x, op.Reshape(w, [1, 1, 6, 6])), op.MatMul(x, op.Transpose(w, perm=[1, 0]))), given


GRAPHS = {
    item.__name__: item for item in (kernel, depthwise, vector, linear, tied, tied_dynamic, shared, several_layouts)
}


def written(build):
    op = OpBuilder(21)
    op.names.reserve("y")
    y, given = build(op)
    return op, y, given


@pytest.fixture(params=GRAPHS)
def graph(request):
    """The finished model, its input, what it computes without the pass, and its parameter."""
    state = RNG.bit_generator.state
    op, y, given = written(GRAPHS[request.param])
    untouched = ir.Model(op.graph([y], name="g", output_names=["y"]), ir_version=10)
    expected = OnnxModel(untouched)(given)
    source = next(value for value in op.initializers if value.name == "w").const_value.numpy().copy()
    RNG.bit_generator.state = state
    op, y, _ = written(GRAPHS[request.param])
    return request.param, OnnxModel(finish(op, [y], ["y"])), given, expected, source


def test_no_move_of_a_weight_is_left_and_the_numbers_stay(graph, tmp_path):
    name, model, given, expected, source = graph
    assert moved_constants(model.model) == []
    apart = name in ("several_layouts", "tied", "tied_dynamic", "shared")  # stand as in the source
    assert apart or MOVES in model.model.graph.initializers["w"].const_value.metadata_props
    for external in (False, True):
        model.save(tmp_path / "m.onnx", external_data=external)
        onnx.checker.check_model(str(tmp_path / "m.onnx"), full_check=True)
        again = OnnxModel.load(tmp_path / "m.onnx")
        np.testing.assert_allclose(again(given), expected, rtol=1e-5, atol=1e-5)
        back = with_source_weights(again.model)
        np.testing.assert_array_equal(back.graph.initializers["w"].const_value.numpy(), source)
        np.testing.assert_allclose(OnnxModel(back)(given), expected, rtol=1e-5, atol=1e-5)
        assert list(again.model.graph.initializers["w"].shape) != list(source.shape) or apart


def test_a_tied_matrix_stands_once():
    op, y, _ = written(tied)
    model = finish(op, [y], ["y"])
    assert [value.name for value in model.graph.initializers.values() if value.shape.rank() == 2] == ["w"]
    assert [node.op_type for node in model.graph] == ["Gather", "Relu", "Reshape", "Gemm", "Reshape"]


def test_a_weight_that_is_an_output_or_an_input_stays():
    op = OpBuilder(21)
    op.names.reserve("y")
    x, w = op.input("x", FLOAT, [2, 3]), weight(op, (4, 3))
    model = finish(op, [op.MatMul(x, op.Transpose(w, perm=[1, 0]))], ["y"])
    model = with_source_weights(model)
    model.graph.inputs.append(model.graph.initializers["w"])
    MergeWeightMovesPass()(model)
    assert [node.op_type for node in model.graph] == ["Transpose", "MatMul"]


def test_the_elements_are_written_without_a_whole_copy():
    source = ir.Tensor(np.zeros((1 << 10, 1 << 12), np.float32))
    source.numpy()[3, 5] = 7
    pieces = []
    MovedTensor.of(source, [Move("Transpose", (1, 0))]).tofile(type("File", (), {"write": pieces.append}))
    assert max(map(len, pieces)) <= 1 << 21
    assert sum(map(len, pieces)) == source.nbytes
    np.testing.assert_array_equal(np.frombuffer(b"".join(pieces), np.float32).reshape(1 << 12, 1 << 10)[5, 3], 7)


@pytest.mark.parametrize(
    "dtype", [ir.DataType.BFLOAT16, ir.DataType.FLOAT8E4M3FN, ir.DataType.BOOL, ir.DataType.DOUBLE]
)
def test_bytes_are_those_of_the_moved_array(dtype):
    array = np.arange(6).reshape(2, 3).astype(dtype.numpy())
    moved = MovedTensor.of(ir.Tensor(array, dtype=dtype), [Move("Transpose", (1, 0)), Move("Reshape", (1, 3, 2))])
    file = io.BytesIO()
    moved.tofile(file)
    assert file.getvalue() == moved.tobytes() == np.ascontiguousarray(array.T).tobytes()
    np.testing.assert_array_equal(restored(moved)[0].numpy(), array)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8])
@pytest.mark.parametrize(
    ("shape", "order"),
    [
        ((1500, 130), (1, 0)),
        ((65, 2100), (1, 0)),
        ((3, 5, 70, 130), (3, 2, 0, 1)),
        ((3, 5, 70, 1), (2, 3, 0, 1)),
        ((2, 1100, 67), (2, 0, 1)),
        ((2, 40, 67), (0, 2, 1)),
        ((70, 1, 1300), (2, 1, 0)),
        ((0, 7), (1, 0)),
        ((9,), (0,)),
    ],
)
def test_arrays_of_any_order_are_written_as_they_are_read(shape, order, dtype):
    array = np.random.default_rng(0).integers(0, 255, shape).astype(dtype)
    moved = MovedTensor.of(ir.Tensor(array), [Move("Transpose", order)])
    file = io.BytesIO()
    moved.tofile(file)
    assert file.getvalue() == np.ascontiguousarray(array.transpose(order)).tobytes()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[1]",
        json.dumps({"shape": [2, 3], "moves": [["Transpose", 1, 1]]}),
        json.dumps({"shape": [2, 3], "moves": [["Transpose", 0, 1]]}),
        json.dumps({"shape": [3, 3], "moves": [["Reshape", 3, 2]]}),
        json.dumps({"shape": [-3, -2], "moves": [["Reshape", 3, 2]]}),
        json.dumps({"shape": [2, 3], "moves": [["Gather", 3, 2]]}),
        json.dumps({"shape": [2, 3], "moves": [["Transpose", True, 0]]}),
        json.dumps({"shape": "23", "moves": [["Transpose", 1, 0]]}),
        json.dumps({"shape": [2, 3], "moves": [3]}),
        pytest.param('{"shape":' + "[" * 100_000, id="deep"),
        pytest.param(json.dumps({"shape": [3, 2, *[1] * 1000], "moves": [["Reshape", 3, 2]]}), id="many axes"),
        pytest.param(json.dumps({"shape": [3, 2], "moves": [["Reshape", 3, 2]] * 1000}), id="many moves"),
    ],
)
def test_a_mark_of_someone_else_changes_nothing(text):
    tensor = ir.Tensor(np.zeros((3, 2), np.float32), metadata_props={MOVES: text})
    assert restored(tensor) == (tensor, [])


def test_the_runtimes_quantiser_takes_the_weights(tmp_path):
    op, y, given = written(linear)
    model = OnnxModel(finish(op, [y], ["y"]))
    model.save(tmp_path / "m.onnx")
    quantize_dynamic(tmp_path / "m.onnx", tmp_path / "q.onnx", weight_type=QuantType.QInt8)
    quantised = OnnxModel.load(tmp_path / "q.onnx")
    assert "MatMulInteger" in {node.op_type for node in quantised.model.graph}
    np.testing.assert_allclose(quantised(given), model(given), atol=0.05 * np.abs(model(given)).max())
