"""Weights of products in int8 and int4: the file against the source whose weights are rounded alike."""

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

import onnxport
from onnxport.converters.to_onnx import precision
from onnxport.errors import InvalidInputError, UnsupportedOperator, ValidationError
from onnxport.graph.bit_blocks import BitBlocks
from tests.validation.graphs import graph

RNG = np.random.default_rng(0)
FIRST, SECOND = RNG.normal(size=(40, 70)).astype(np.float32), RNG.normal(size=(40, 32)).astype(np.float32)
X = RNG.normal(size=(3, 70)).astype(np.float32)


def two_products(op, x):
    """A Gemm of a transposed weight with a bias, then a MatMul."""
    first = op.Gemm(
        x, op.initializer("first", ir.tensor(FIRST)), op.initializer("bias", ir.tensor(FIRST[:, 0])), transB=1
    )
    return op.MatMul(op.Relu(first), op.initializer("second", ir.tensor(SECOND)))


def model(call=two_products, opset=21):
    return graph(call, ("x", ir.DataType.FLOAT, ["N", 70]), opset=opset)


def rounded(weight, bits, size):
    """Each block of a column in steps of its own, written without the package: no number is further off than a step."""
    return BitBlocks(ir.tensor(weight), bits, size).rounded()


@pytest.mark.parametrize(("bits", "size", "opset"), [(4, 32, 21), (8, 16, 13), (4, 128, 26)])
def test_a_file_for_onnxruntime(bits, size, opset, tmp_path):
    options = {"block_size": size}
    small = onnxport.convert(
        model(opset=opset), inputs=(X,), dtype=f"int{bits}", options=options, output=tmp_path / "a.onnx"
    )
    assert small.report.passed
    proto = onnx.load(tmp_path / "a.onnx")
    onnx.checker.check_model(proto)
    assert [node.op_type for node in proto.graph.node] == ["MatMulNBits", "Add", "Relu", "MatMulNBits"]
    hidden = np.maximum(X @ rounded(FIRST.T, bits, size) + FIRST[:, 0], 0)
    result = onnxruntime.InferenceSession(tmp_path / "a.onnx").run(None, {"x": X})[0]
    np.testing.assert_allclose(result, hidden @ rounded(SECOND, bits, size), rtol=1e-4, atol=1e-4)
    assert any(f"int{bits} against float32" in note for note in small.report.notes)
    back = onnxport.convert(small, "pytorch", validate=False)
    torch = pytest.importorskip("torch", reason="PyTorch is an extra")
    np.testing.assert_allclose(back(torch.from_numpy(X)).detach().numpy(), result, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("bits", [4, 8])
def test_the_reference_form(bits):
    hub = model()
    hub.runtime = "reference"
    request = precision.Request(dtype=f"int{bits}", runtime="reference")
    lowered = precision.lowered(hub, request, typed=True)
    onnx.checker.check_model(lowered.result.proto, full_check=True)
    assert {node.op_type for node in lowered.result.model.graph} == {"DequantizeLinear", "Gemm", "Relu", "MatMul"}
    assert onnxport.validate(lowered.source, lowered.result, inputs=(X,)).passed


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("shape", [(16, 1), (33, 5), (64, 700)])
def test_no_weight_is_further_off_than_its_step(bits, shape):
    weight = (RNG.normal(size=shape) * np.geomspace(1e-3, 1e3, shape[1])).astype(np.float32)
    weight[:, 0] = 0
    for transposed, tensor in ((False, weight), (True, np.ascontiguousarray(weight.T))):
        blocks = BitBlocks(ir.tensor(tensor), bits, 16, transposed)
        off = np.abs(blocks.rounded() - tensor)
        off = off.T if transposed else off
        steps = np.abs(np.repeat(blocks.scales(), 16, axis=1)[:, : shape[0]].T)
        assert np.all(off <= steps * 1.0001)
        assert np.all(off[:, 0] == 0)
        nearest = np.abs(weight).max(0) / (2 ** (bits - 1) - 1) / 2
        assert np.sqrt(np.square(off).mean()) <= np.sqrt(np.square(nearest).mean())


def test_wrong_packing_fails(monkeypatch):
    packed = BitBlocks.packed
    monkeypatch.setattr(BitBlocks, "packed", lambda self: np.roll(packed(self), 1, axis=-1))
    with pytest.raises(ValidationError):
        onnxport.convert(model(), inputs=(X,), dtype="int4")


def test_weights_that_others_read_stay():
    def tied(op, ids):
        table = op.initializer("table", ir.tensor(FIRST))
        inner = op.MatMul(op.Gather(table, ids, axis=0), op.initializer("head", ir.tensor(FIRST.T.copy())))
        return op.Add(inner, op.Gemm(op.Gather(table, ids, axis=0), table, transB=1))

    small = onnxport.convert(graph(tied, ("ids", ir.DataType.INT64, ["N"])), inputs=(np.arange(3),), dtype="int4")
    assert "table" in small.model.graph.initializers
    assert "head.blocks" in small.model.graph.initializers
    assert any("table" in note for note in small.notes)


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"dtype": "int4", "options": {"block_size": 33}}, InvalidInputError, "block_size=33: one of 16"),
        ({"options": {"block_size": 32}}, InvalidInputError, "means nothing without dtype='int4'"),
        ({"dtype": "int4", "options": {"zipmap": True}}, InvalidInputError, "options= means nothing"),
        ({"dtype": "int4", "keep_io_types": True}, InvalidInputError, "keep_io_types= means nothing"),
        ({"dtype": "nf4"}, InvalidInputError, "for another scheme"),
    ],
    ids=str,
)
def test_refused(options, error, says):
    with pytest.raises(error, match=says):
        onnxport.convert(model(), inputs=(X,), validate=False, **options)


def test_no_blocks_in_old_opsets():
    hub = model(opset=20)
    hub.runtime = "reference"
    with pytest.raises(UnsupportedOperator, match="from opset 21"):
        precision.lowered(hub, precision.Request(dtype="int4", runtime="reference"), typed=True)
    with pytest.raises(InvalidInputError, match="no MatMul or Gemm"):
        onnxport.convert(model(lambda op, x: op.Relu(x)), inputs=(X,), dtype="int8", validate=False)
