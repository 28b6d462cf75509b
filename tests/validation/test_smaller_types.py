"""float16 and bfloat16 files of float32 models: what is computed in them, what is not, and that a wrong one fails."""

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

import onnxport
from onnxport.cli.foreign_options import translated
from onnxport.converters.to_onnx import precision
from onnxport.errors import InvalidInputError, ValidationError
from onnxport.graph.passes.narrow import NarrowTensor
from onnxport.validation.runners import bind
from onnxport.validation.runners.base import Binding
from tests.validation.graphs import graph

RNG = np.random.default_rng(0)
WEIGHT = RNG.normal(size=(8, 8)).astype(np.float32)
X = RNG.normal(size=(3, 8)).astype(np.float32)
LOWEST = float(np.finfo(np.float32).min)


def dense(op, x):
    return op.Softmax(op.Tanh(op.MatMul(x, op.initializer("weight", ir.tensor(WEIGHT)))), axis=-1)


def masked(op, x):
    """Attention's mask: a row with nothing to attend to is uniform, as in float32."""
    hidden = op.Less(op.Mul(x, op.const(np.float32(0.0))), op.const(np.float32(1.0)))
    scores = op.Add(
        op.MatMul(x, op.initializer("weight", ir.tensor(WEIGHT))), op.Where(hidden, np.float32(LOWEST), np.float32(0))
    )
    return op.Softmax(scores, axis=-1)


def normed(op, x):
    """A norm whose epsilon is 0 in float16: rows of zeros are zeros."""
    mean = op.reduce("ReduceMean", op.Mul(x, x), [-1], keepdims=True)
    return op.Relu(op.Div(x, op.Sqrt(op.Add(mean, op.const(np.float32(1e-12))))))


def far(op, x):
    """Squares beyond float16's range on the way to a root within it."""
    big = op.Mul(x, np.float32(1000.0))
    return op.Sqrt(op.reduce("ReduceSum", op.Mul(big, big), [-1], keepdims=True))


def listed(op, x):
    """A sequence of tensors keeps their type."""
    return op.Relu(op.ConcatFromSequence(op.SplitToSequence(op.Relu(x), axis=0, keepdims=1), axis=0))


def chosen(op, x):
    """The bodies of an If read what is narrow outside of them."""
    inner, positive = op.Tanh(x), op.Greater(op.reduce("ReduceSum", x, None, keepdims=False), np.float32(0))
    branches = [op.body(lambda b: [b.Neg(inner)]), op.body(lambda b: [b.Mul(inner, inner)])]
    return op.Relu(op.If(positive, then_branch=branches[0], else_branch=branches[1]))


def model(call):
    return graph(call, ("x", ir.DataType.FLOAT, ["N", 8]))


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_file_in_a_smaller_type(dtype, keep, tmp_path):
    small = onnxport.convert(model(dense), inputs=(X,), dtype=dtype, keep_io_types=keep, output=tmp_path / "a.onnx")
    assert small.report.passed
    proto = onnx.load(tmp_path / "a.onnx")
    onnx.checker.check_model(proto, full_check=True)
    kind = getattr(onnx.TensorProto, dtype.upper())
    assert {item.name: item.data_type for item in proto.graph.initializer}["weight"] == kind
    ends = {item.type.tensor_type.elem_type for item in (*proto.graph.input, *proto.graph.output)}
    assert ends == {onnx.TensorProto.FLOAT if keep else kind}
    assert any("is computed in" in note or "are computed in" in note for note in small.notes)
    assert any(f"{dtype} against float32" in note for note in small.report.notes)
    if keep:
        result = onnxruntime.InferenceSession(tmp_path / "a.onnx").run(None, {"x": X})[0]
        np.testing.assert_allclose(result, model(dense)(X), rtol=0.05)
        assert not np.array_equal(result, model(dense)(X))


@pytest.mark.parametrize("call", [masked, normed, far, listed, chosen])
def test_what_is_not_safe_in_float16_stays(call):
    x = np.concatenate([X, np.zeros((1, 8), np.float32)])
    small = onnxport.convert(model(call), inputs=(x,), dtype="float16", keep_io_types=True)
    np.testing.assert_allclose(small(x), model(call)(x), rtol=5e-3, atol=1e-3 if call is chosen else 1e-6)


def test_numbers_of_the_user_beyond_the_range_are_refused():
    steep = model(lambda op, x: op.Mul(op.Relu(op.Mul(x, np.float32(3e4))), np.float32(1e-4)))
    with pytest.raises(InvalidInputError, match="leaves float16's range"):
        onnxport.convert(steep, inputs=(np.full((2, 8), 5, np.float32),), dtype="float16", keep_io_types=True)
    assert onnxport.convert(steep, inputs=(X / 4,), dtype="float16", keep_io_types=True).report.passed


def test_wrong_numbers_fail(monkeypatch):
    of = NarrowTensor.of
    monkeypatch.setattr(
        NarrowTensor, "of", lambda tensor, dtype: of(ir.tensor(tensor.numpy() * np.float32(1.1)), dtype)
    )
    with pytest.raises(ValidationError):
        onnxport.convert(model(dense), inputs=(X,), dtype="float16", keep_io_types=True)


def test_the_rounded_source_runs_in_float64_and_with_moves_of_its_own():
    fine = precision.lowered(model(dense), precision.Request(dtype="float16", keep_io_types=True), typed=True)
    runner = bind(fine.source, "onnx", Binding((X,)))
    (_, own), (_, wide), (_, moved) = runner.run([X])[0], runner.run_float64([X])[0], runner.run_moved([X], 1, 0)[0]
    exact = np.tanh(X.astype(np.float64) @ WEIGHT)
    exact = np.exp(exact) / np.exp(exact).sum(-1, keepdims=True)
    np.testing.assert_allclose(wide, exact, rtol=1e-12)
    assert np.abs(own - exact).max() > 1e-5
    assert 1e-5 < np.abs(moved - own).max() < 1e-2


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"keep_io_types": True}, "means nothing without dtype="),
        ({"dtype": "float16", "to": "pytorch"}, "dtype= means nothing for an ONNX model to PyTorch"),
        ({"dtype": "float32"}, "dtype='float32'"),
        ({"dtype": "half"}, "dtype='half': one of"),
    ],
    ids=str,
)
def test_refused(options, says):
    with pytest.raises(InvalidInputError, match=says):
        onnxport.convert(model(dense), inputs=(X,), validate=False, **options)


def test_a_model_without_float32_is_refused():
    whole = graph(lambda op, x: op.Neg(x), ("x", ir.DataType.INT64, ["N"]))
    with pytest.raises(InvalidInputError, match="computes nothing in float32"):
        onnxport.convert(whole, dtype="float16", validate=False)


def test_tf2onnx_spelling():
    assert translated(["folder", "--fp16"]) == ["folder", "--dtype=float16"]
