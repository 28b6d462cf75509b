"""SavedModels and frozen graphs that nobody vouches for: nothing of theirs runs, and what is damaged is said so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel
from typer.testing import CliRunner

import onnxport
from onnxport.cli.main import app
from onnxport.errors import InvalidModelError, UntrustedFileError

SPEC = tf.TensorSpec([None, 3], tf.float32, name="x")


def saved(folder: Path, body: Callable[[Any], Any]) -> Path:
    """A SavedModel of one function."""
    module = tf.Module()
    module.body = tf.function(body, input_signature=[SPEC])
    tf.saved_model.save(module, str(folder), signatures=module.body)
    return folder


def frozen(folder: Path, body: Callable[[Any], Any]) -> Path:
    """A frozen graph of one function."""
    graph = tf.function(body, input_signature=[SPEC]).get_concrete_function().graph.as_graph_def()
    place = folder / "graph.pb"
    place.write_bytes(graph.SerializeToString())
    return place


def writes(canary: Path) -> Callable[[Any], Any]:
    def body(x: Any) -> Any:
        with tf.control_dependencies([tf.io.write_file(str(canary), "here")]):
            return x * 2.0

    return body


def reads(canary: Path) -> Callable[[Any], Any]:
    return lambda x: x + tf.cast(tf.strings.length(tf.io.read_file(str(canary))), tf.float32)


def lists(canary: Path) -> Callable[[Any], Any]:
    return lambda x: x + tf.cast(tf.size(tf.io.matching_files(f"{canary}*")), tf.float32)


def prints(canary: Path) -> Callable[[Any], Any]:
    def body(x: Any) -> Any:
        tf.print(x, output_stream=f"file://{canary}")
        return x * 2.0

    return body


def calls(canary: Path) -> Callable[[Any], Any]:
    return lambda x: tf.reshape(tf.py_function(lambda y: y, [x], tf.float32), [-1, 3])


def lines(canary: Path) -> Callable[[Any], Any]:
    return lambda x: (
        x + tf.cast(tf.data.TextLineDataset(str(canary)).reduce(np.int64(0), lambda n, _: n + 1), tf.float32)
    )


def restores(canary: Path) -> Callable[[Any], Any]:
    return lambda x: (
        x + tf.raw_ops.RestoreV2(prefix=str(canary), tensor_names=["w"], shape_and_slices=[""], dtypes=[tf.float32])[0]
    )


ACTS = [writes, reads, lists, prints, calls, lines, restores]


def test_a_constant_of_another_type_than_its_node_is_refused(tmp_path: Path) -> None:
    """TensorFlow 2.21 aborts on it where the shape of a result follows from the constant."""
    path = frozen(tmp_path, lambda x: tf.transpose(x, [1, 0]))
    graph = tf.compat.v1.GraphDef.FromString(path.read_bytes())
    (node,) = (node for node in graph.node if node.name.endswith("perm"))
    node.attr["value"].tensor.dtype = tf.float32.as_datatype_enum
    path.write_bytes(graph.SerializeToString())
    with pytest.raises(InvalidModelError, match="not of the type that the node gives"):
        onnxport.convert(path)


@pytest.mark.parametrize("kind", [saved, frozen])
@pytest.mark.parametrize("act", ACTS)
def test_operators_that_act_are_refused_by_name(tmp_path: Path, act: Any, kind: Any) -> None:
    canary = tmp_path / "canary"
    path = kind(tmp_path / "model" if kind is saved else tmp_path, act(canary))
    rows = (np.ones((2, 3), np.float32),)
    for read in (lambda: onnxport.convert(path, inputs=rows), lambda: onnxport.validate(path, path, inputs=rows)):
        with pytest.raises(UntrustedFileError, match=r"operator \w+ \(node '.*'.*allow_code"):
            read()
    inspected = CliRunner().invoke(app, ["inspect", str(path)])
    assert inspected.exit_code == 2
    assert "--allow-code" in inspected.output
    assert not canary.exists()


def test_a_consent_loads_what_acts(tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    path = saved(tmp_path / "model", writes(canary))
    model = onnxport.convert(path, validate=False, allow_code=True)
    x = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(model(x), x * 2)


class WithTable(tf.Module):
    """Words and their lines in a file."""

    def __init__(self, words: str) -> None:
        super().__init__()
        whole, line = tf.lookup.TextFileIndex.WHOLE_LINE, tf.lookup.TextFileIndex.LINE_NUMBER
        source = tf.lookup.TextFileInitializer(words, tf.string, whole, tf.int64, line)
        self.table = tf.lookup.StaticHashTable(source, -1)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="words")])
    def __call__(self, words: Any) -> Any:
        return self.table.lookup(words)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    (tmp_path / "words.txt").write_text("one\ntwo\n")
    tf.saved_model.save(WithTable(str(tmp_path / "words.txt")), str(tmp_path / "model"))
    return tmp_path / "model"


def edited(folder: Path, edit: Callable[[Any], None]) -> Path:
    place = folder / "saved_model.pb"
    message = SavedModel()
    message.ParseFromString(place.read_bytes())
    edit(message.meta_graphs[0])
    place.write_bytes(message.SerializeToString())
    return folder


def test_a_table_from_the_models_own_asset_loads(table: Path) -> None:
    model = onnxport.convert(table, inputs=(np.array(["two", "?"], object),))
    np.testing.assert_array_equal(model(np.array(["one", "two"], object)), [0, 1])


@pytest.mark.parametrize("name", ["/etc/hostname", "../../words.txt"])
def test_assets_outside_of_the_folder_are_refused(table: Path, name: str) -> None:
    def edit(meta: Any) -> None:
        meta.asset_file_def[0].filename = name

    with pytest.raises(UntrustedFileError, match=r"the asset .* outside"):
        onnxport.convert(edited(table, edit), inputs=(np.array(["two"], object),))


def test_a_text_file_named_in_the_graph_is_refused(table: Path) -> None:
    def edit(meta: Any) -> None:
        for function in meta.graph_def.library.function:
            for node in function.node_def:
                if node.op == "InitializeTableFromTextFileV2":
                    other = function.node_def.add(name="other", op="Const")
                    other.attr["dtype"].type = tf.string.as_datatype_enum
                    other.attr["value"].tensor.CopyFrom(tf.make_tensor_proto("/etc/hostname"))
                    node.input[1] = "other:output:0"

    with pytest.raises(UntrustedFileError, match="reads a file that is no asset"):
        onnxport.convert(edited(table, edit), inputs=(np.array(["two"], object),))


def recursion(definition: Any) -> None:
    for function in definition.library.function:
        node = function.node_def.add(name="again", op="StatefulPartitionedCall")
        node.attr["f"].func.name = function.signature.name


def vast_constant(definition: Any) -> None:
    node = definition.node.add(name="vast", op="Const")
    node.attr["dtype"].type = tf.float32.as_datatype_enum
    node.attr["value"].tensor.dtype = tf.float32.as_datatype_enum
    node.attr["value"].tensor.tensor_shape.dim.add(size=1 << 38)
    node.attr["value"].tensor.float_val.append(1.0)


@pytest.mark.parametrize(
    ("change", "message"), [(recursion, "calls itself"), (vast_constant, "constants take")], ids=["recursion", "vast"]
)
def test_graphs_that_would_never_end_are_refused(tmp_path: Path, change: Any, message: str) -> None:
    path = saved(tmp_path / "model", lambda x: x * 2.0)
    with pytest.raises(InvalidModelError, match=message):
        onnxport.convert(edited(path, lambda meta: change(meta.graph_def)))


@pytest.mark.parametrize("kind", [saved, frozen])
@pytest.mark.parametrize(
    "grow",
    [
        lambda x: x + tf.reduce_sum(tf.fill([1 << 20, 1 << 20], 1.0)),
        lambda x: x + tf.reduce_sum(tf.tile(tf.ones_like(x)[0], [1 << 31])),
        lambda x: x + tf.reduce_sum(tf.random.uniform([1 << 31])),
        lambda x: x + tf.cast(tf.range(1 << 40)[-1], tf.float32),
    ],
)
def test_tensors_from_nothing_are_refused(tmp_path: Path, grow: Any, kind: Any) -> None:
    path = kind(tmp_path / "model" if kind is saved else tmp_path, grow)
    with pytest.raises(InvalidModelError, match="from nothing"):
        onnxport.convert(path)


@pytest.mark.parametrize("damage", [b"", b"\x00" * 40, b"not a model"])
def test_files_that_are_no_models_say_so(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / "saved_model.pb").write_bytes(damage)
    (tmp_path / "graph.pb").write_bytes(damage)
    for path in (tmp_path, tmp_path / "graph.pb"):
        with pytest.raises(InvalidModelError, match="model"):
            onnxport.convert(path)
