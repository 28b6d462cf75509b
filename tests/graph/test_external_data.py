"""Files: streamed, atomic, the same for the same model, external where asked."""

import copy
import os
import pickle
import resource
import signal
import subprocess
import sys
import textwrap

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from onnxport.converters.to_onnx.finish import finish
from onnxport.errors import InvalidModelError
from onnxport.graph import external_data
from onnxport.graph.builder import OpBuilder
from onnxport.model import OnnxModel
from onnxport.tracing.onnx import load_model


def small_model(size=600):
    op = OpBuilder(21)
    op.names.reserve("y")
    x = op.input("x", ir.DataType.FLOAT, ["N", 3])
    weight = op.initializer("w", ir.tensor(np.arange(3 * size, dtype=np.float32).reshape(3, size)))
    half = op.initializer("h", ir.tensor(np.ones(size, np.float16)))
    return OnnxModel(finish(op, [op.Add(op.MatMul(x, weight), op.Cast(half, to=ir.DataType.FLOAT))], ["y"]))


@pytest.mark.parametrize("external", [False, True, None])
def test_what_is_written_is_what_was_there(tmp_path, external):
    model = small_model()
    model.save(tmp_path / "m.onnx", external_data=external)
    onnx.checker.check_model(tmp_path / "m.onnx", full_check=True)
    assert bool(list(tmp_path.glob("m.onnx.*.data"))) == bool(external)
    again = OnnxModel.load(tmp_path / "m.onnx")
    given = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(again(given), model(given))
    np.testing.assert_array_equal(
        again.model.graph.initializers["w"].const_value, model.model.graph.initializers["w"].const_value
    )


@pytest.mark.parametrize("external", [False, True])
def test_equal_models_give_equal_bytes(tmp_path, external):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        small_model().save(tmp_path / folder / "m.onnx", external_data=external)
    first, second = ({path.name: path.read_bytes() for path in (tmp_path / folder).iterdir()} for folder in ("a", "b"))
    assert first == second
    assert len(first) == 1 + external


def test_streamed_file_equals_the_message():
    model = small_model()
    assert onnx.load_from_string(model.proto.SerializeToString()) == model.proto


@pytest.mark.parametrize("again", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies_and_pickles_hold_everything(again):
    model = small_model()
    given = np.ones((2, 3), np.float32)
    expected = model(given)
    copied = again(model)
    assert copied.proto == model.proto
    model.model.graph.initializers["w"].const_value = ir.tensor(np.zeros((3, 600), np.float32))
    np.testing.assert_array_equal(copied(given), expected)


@pytest.mark.parametrize("size_of_one_message", [0, 1 << 20])
def test_a_failed_write_leaves_nothing_and_keeps_the_old_file(tmp_path, size_of_one_message, monkeypatch):
    monkeypatch.setattr(external_data, "_ONE_MESSAGE_BYTES", size_of_one_message)
    target = tmp_path / "m.onnx"
    target.write_bytes(b"old")
    model = small_model()

    class Failing(ir.Tensor):
        def tofile(self, file):
            raise OSError("disk full")

        def tobytes(self):
            raise OSError("disk full")

    value = model.model.graph.initializers["w"]
    value.const_value = Failing(value.const_value.numpy(), name="w")
    with pytest.raises(OSError, match="disk full"):
        model.save(target)
    assert target.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["m.onnx"]


def test_a_killed_write_leaves_no_file_under_the_final_name(tmp_path):
    program = textwrap.dedent(
        f"""
        import os, signal
        import numpy as np, onnx_ir as ir
        from onnxport.graph import external_data
        from tests.graph.test_external_data import small_model
        external_data._ONE_MESSAGE_BYTES = 0
        model = small_model()
        class Killing(ir.Tensor):
            def tofile(self, file):
                file.write(b"half")
                file.flush()
                os.kill(os.getpid(), signal.SIGKILL)
        value = model.model.graph.initializers["w"]
        value.const_value = Killing(value.const_value.numpy(), name="w")
        model.save({str(tmp_path / "m.onnx")!r})
        """
    )
    done = subprocess.run([sys.executable, "-c", program], check=False)
    assert done.returncode == -signal.SIGKILL
    assert not (tmp_path / "m.onnx").exists()


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda data: data[: len(data) // 2], "truncated"),
        (lambda data: b"not a model at all", "no ONNX model"),
        (lambda data: b"", "is empty"),
        (lambda data: b"\x08\x08", "no graph"),
    ],
)
def test_damaged_files_are_named(tmp_path, damage, words):
    small_model().save(tmp_path / "m.onnx")
    (tmp_path / "bad.onnx").write_bytes(damage((tmp_path / "m.onnx").read_bytes()))
    with pytest.raises(InvalidModelError, match=words):
        load_model(tmp_path / "bad.onnx")


def test_external_data_stays_in_the_models_folder(tmp_path):
    (tmp_path / "inner").mkdir()
    small_model().save(tmp_path / "inner" / "m.onnx", external_data=True)
    proto = onnx.load(tmp_path / "inner" / "m.onnx", load_external_data=False)
    (place,) = (tmp_path / "inner").glob("*.data")
    data = place.read_bytes()
    place.write_bytes(data[:10])
    with pytest.raises(InvalidModelError, match="truncated"):
        load_model(tmp_path / "inner" / "m.onnx")
    (tmp_path / "m.onnx.data").write_bytes(data)
    for tensor in proto.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = "../m.onnx.data"
    (tmp_path / "inner" / "m.onnx").write_bytes(proto.SerializeToString())
    with pytest.raises(InvalidModelError, match="outside"):
        load_model(tmp_path / "inner" / "m.onnx")


def test_saving_takes_no_second_copy_of_the_weights(tmp_path):
    model = small_model(size=10_000_000)  # 120 MB
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    model.save(tmp_path / "m.onnx")
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 24 * 1024, f"peak memory grew by {grown} KiB while saving 140 MB"
