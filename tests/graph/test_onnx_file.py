"""ONNX files are read without a copy of their weights, as protobuf reads them, and outlive what is written over them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from google.protobuf.message import DecodeError
from onnx import TensorProto, helper, numpy_helper

import onnxport
from onnxport.errors import InvalidModelError
from onnxport.tracing.onnx_file import Spans, read_file

RNG = np.random.default_rng(0)
KINDS = [TensorProto.FLOAT, TensorProto.BFLOAT16, TensorProto.DOUBLE, TensorProto.INT8, TensorProto.UINT64]
OTHERS = [TensorProto.BOOL, TensorProto.INT4, TensorProto.COMPLEX64, TensorProto.FLOAT8E4M3FN]


def whole(data: bytes, proto: onnx.ModelProto, spans: Spans) -> onnx.ModelProto:
    """The message with the data that were read apart."""
    for position, (offset, length) in spans.items():
        tensor = proto.graph.initializer[position]
        assert not tensor.HasField("raw_data")
        tensor.raw_data = data[offset : offset + length]
    return proto


def check(data: bytes, path: Path) -> Spans:
    """Checks that a file is read as protobuf reads it, or refused as it refuses."""
    path.write_bytes(data)
    try:
        expected = onnx.ModelProto.FromString(data)
    except DecodeError:
        with pytest.raises(DecodeError):
            read_file(path)
        return {}
    proto, spans = read_file(path)
    assert whole(data, proto, spans) == expected
    return spans


def model(sizes: tuple[int, ...] = (5000, 3, 9000)) -> onnx.ModelProto:
    """A sum of vectors, with tensors of many types beside them."""
    tensors = [numpy_helper.from_array(RNG.random(size, np.float32), f"w{size}") for size in sizes]
    for kind in (*KINDS, *OTHERS):
        dtype = helper.tensor_dtype_to_np_dtype(kind)
        tensors.append(numpy_helper.from_array(RNG.integers(0, 2, (80, 80)).astype(dtype), f"other{kind}"))
    tensors.append(helper.make_tensor("listed", TensorProto.FLOAT, [2000], RNG.random(2000).tolist()))
    nodes = [helper.make_node("ReduceSum", [f"w{size}"], [f"s{size}"], keepdims=0) for size in sizes]
    nodes.append(helper.make_node("Sum", ["x", *(f"s{size}" for size in sizes)], ["y"]))
    nodes.append(helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(RNG.random(4000))))
    ends = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, [2])] for name in "xy"]
    tensors[0].doc_string = "the first"
    opsets = [helper.make_opsetid("", 21)]
    return helper.make_model(helper.make_graph(nodes, "g", *ends, tensors), ir_version=10, opset_imports=opsets)


def test_data_are_read_apart(tmp_path: Path) -> None:
    proto = model()
    spans = check(proto.SerializeToString(), tmp_path / "m.onnx")
    # The types whose data are those of a NumPy array, from 4,096 bytes on.
    assert sorted(spans) == [0, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize("form", ["two graphs", "data twice", "data before the type", "text", "located"])
def test_other_forms_of_a_message(tmp_path: Path, form: str) -> None:
    proto = model()
    path = tmp_path / "m.onnx"
    if form == "two graphs":
        check(proto.SerializeToString() * 2, path)
    elif form == "text":
        onnx.save(proto, tmp_path / "m.textproto")
        assert read_file(tmp_path / "m.textproto") == (proto, {})
    elif form == "located":
        proto.graph.initializer[0].data_location = TensorProto.EXTERNAL
        assert 0 not in check(proto.SerializeToString(), path)
    else:
        part = onnx.TensorProto(raw_data=bytes(8000)).SerializeToString()
        tensor = proto.graph.initializer[0].SerializeToString()
        tensor = tensor + part if form == "data twice" else part + onnx.TensorProto(data_type=1).SerializeToString()
        graph = onnx.GraphProto(node=proto.graph.node).SerializeToString()
        size = len(tensor)
        graph += bytes([5 << 3 | 2, size & 127 | 128, size >> 7 & 127 | 128, size >> 14]) + tensor
        size = len(graph)
        message = onnx.ModelProto(ir_version=10).SerializeToString()
        check(message + bytes([7 << 3 | 2, size & 127 | 128, size >> 7 & 127 | 128, size >> 14]) + graph, path)


def test_damaged_files_read_as_protobuf_reads_them(tmp_path: Path) -> None:
    data = model((3000,)).SerializeToString()
    apart = 0
    for _ in range(300):
        damaged = bytearray(data)
        for _ in range(RNG.integers(1, 4)):
            damaged[RNG.integers(len(data))] = RNG.integers(256)
        cut = len(data) if RNG.random() < 0.7 else RNG.integers(len(data))
        apart += bool(check(bytes(damaged[:cut]), tmp_path / "m.onnx"))
    assert apart  # some were read so


def test_data_of_another_length_are_refused(tmp_path: Path) -> None:
    proto = model((5000,))
    proto.graph.initializer[0].dims[:] = [4999]
    onnx.save(proto, tmp_path / "m.onnx")
    with pytest.raises(InvalidModelError, match=r"initializer 'w5000': 20000 bytes of data for 4999 elements of FLOAT"):
        onnxport.OnnxModel.load(tmp_path / "m.onnx")


def test_a_model_outlives_what_is_written_over_its_file(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(model(), path)
    x = np.ones(2, np.float32)
    loaded, converted = onnxport.OnnxModel.load(path), onnxport.convert(path, validate=False)
    assert loaded.model.graph.initializers["w5000"].const_value.doc_string == "the first"  # type: ignore[union-attr]
    expected = onnxport.OnnxModel.load(path)(x)
    path.write_bytes(bytes(path.stat().st_size))
    np.testing.assert_array_equal(loaded(x), expected)
    np.testing.assert_array_equal(converted(x), expected)


@pytest.mark.parametrize("framework", ["pytorch", "tensorflow", "keras", "sklearn"])
def test_an_imported_model_outlives_what_is_written_over_its_file(tmp_path: Path, framework: str) -> None:
    path = tmp_path / "m.onnx"
    weight = numpy_helper.from_array(RNG.random((64, 64), np.float32), "w")
    ends = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 64])] for name in "xy"]
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Relu", ["p"], ["y"])]
    graph = helper.make_graph(nodes, "g", *ends, [weight])
    onnx.save(helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21)]), path)
    x = RNG.random((3, 64), np.float32)
    live = onnxport.convert(path, to=framework)
    given = x
    if framework == "pytorch":
        import torch

        given = torch.from_numpy(x)  # type: ignore[assignment]
    path.write_bytes(bytes(path.stat().st_size))
    result = live.predict(given) if framework == "sklearn" else live(given)
    result = result.detach() if framework == "pytorch" else result
    np.testing.assert_allclose(np.asarray(result), np.maximum(x @ numpy_helper.to_array(weight), 0), rtol=1e-5)
