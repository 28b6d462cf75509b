"""TensorFlow graphs that read, write or run Python, in themselves or when their resources are made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from hostile_formats_places import ACTIONS, Written, new_place


def graphs(folder: Path, secret: Path) -> Iterator[Written]:
    """Frozen graphs and SavedModels."""
    import tensorflow as tf

    canary, key = str(secret / "ran"), str(secret / "key.txt")
    raw = tf.raw_ops

    def after(*operations: Any) -> Callable[[Any], Any]:
        def body(x: Any) -> Any:
            with tf.control_dependencies([operation() for operation in operations]):
                return x * 2.0

        return body

    def printed(stream: str) -> Callable[[Any], Any]:
        def body(x: Any) -> Any:
            tf.print(x, output_stream=stream)
            return x * 2.0

        return body

    bodies: dict[str, Callable[[Any], Any]] = {
        "write": after(lambda: tf.io.write_file(canary, "x")),
        "read": lambda x: x + tf.cast(tf.strings.length(tf.io.read_file(key)), tf.float32),
        "list": lambda x: x + tf.cast(tf.size(tf.io.matching_files(f"{secret}/*")), tf.float32),
        "print": printed(f"file://{canary}"),
        "python": lambda x: tf.reshape(tf.py_function(lambda y: y, [x], tf.float32), [-1, 3]),
        "lines": lambda x: (
            x + tf.cast(tf.data.TextLineDataset(key).reduce(np.int64(0), lambda n, _: n + 1), tf.float32)
        ),
        "records": lambda x: (
            x + tf.cast(tf.data.TFRecordDataset(key).reduce(np.int64(0), lambda n, _: n + 1), tf.float32)
        ),
        "restore": lambda x: (
            x + raw.RestoreV2(prefix=key, tensor_names=["w"], shape_and_slices=[""], dtypes=[tf.float32])[0]
        ),
        "save": after(
            lambda: raw.SaveV2(prefix=canary, tensor_names=["w"], shape_and_slices=[""], tensors=[tf.ones(2)])
        ),
        "merge": after(lambda: raw.MergeV2Checkpoints(checkpoint_prefixes=[key], destination_prefix=canary)),
        "whole": lambda x: x + tf.cast(tf.size(raw.WholeFileReaderV2()), tf.float32),
        "fixed": lambda x: (
            x + tf.cast(tf.data.FixedLengthRecordDataset(key, 2).reduce(np.int64(0), lambda n, _: n + 1), tf.float32)
        ),
        "branch": lambda x: tf.cond(
            tf.reduce_sum(x) > 0, lambda: x + tf.cast(tf.strings.length(tf.io.read_file(key)), tf.float32), lambda: x
        ),
        "table": lambda x: x + tf.cast(_table_of(tf, key), tf.float32),
    }
    spec = [tf.TensorSpec([None, 3], tf.float32, name="x")]
    for name, body in bodies.items():
        function = tf.function(body, input_signature=spec)
        try:
            concrete = function.get_concrete_function()
        except Exception:  # not of this version of TensorFlow
            continue
        place = new_place(folder, "graph.pb")
        place.write_bytes(concrete.graph.as_graph_def().SerializeToString())
        yield f"graphdef/{name}", place, ACTIONS
        module = tf.Module()
        module.body = function
        place = new_place(folder, "model")
        try:
            tf.saved_model.save(module, str(place), signatures=function)
        except Exception:  # a table that nobody keeps can't be saved
            continue
        yield f"savedmodel/{name}", place, ACTIONS
    yield from _initialisers(folder, canary, key)


def _table_of(tf: Any, path: str) -> Any:
    table = tf.raw_ops.HashTableV2(key_dtype=tf.string, value_dtype=tf.int64)
    filled = tf.raw_ops.InitializeTableFromTextFileV2(table_handle=table, filename=path, key_index=-2, value_index=-1)
    with tf.control_dependencies([filled]):
        return tf.raw_ops.LookupTableSizeV2(table_handle=table)


def _initialisers(folder: Path, canary: str, key: str) -> Iterator[Written]:
    """SavedModels whose resources act when they are made."""
    import tensorflow as tf
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    class Words(tf.Module):
        def __init__(self, words: str) -> None:
            super().__init__()
            whole, line = tf.lookup.TextFileIndex.WHOLE_LINE, tf.lookup.TextFileIndex.LINE_NUMBER
            self.table = tf.lookup.StaticHashTable(
                tf.lookup.TextFileInitializer(words, tf.string, whole, tf.int64, line), -1
            )

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="words")])
        def __call__(self, words: Any) -> Any:
            return self.table.lookup(words)

    def constant(function: Any, name: str, text: str) -> None:
        node = function.node_def.add(name=name, op="Const")
        node.attr["dtype"].type = tf.string.as_datatype_enum
        node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(text))

    def writes(meta: Any) -> None:
        for function in meta.graph_def.library.function:
            constant(function, "where", canary)
            function.node_def.add(name="act", op="WriteFile", input=["where:output:0", "where:output:0"])

    def reads(meta: Any) -> None:
        for function in meta.graph_def.library.function:
            for node in function.node_def:
                if node.op == "InitializeTableFromTextFileV2":
                    constant(function, "where", key)
                    node.input[1] = "where:output:0"

    def asset(name: str) -> Callable[[Any], None]:
        return lambda meta: setattr(meta.asset_file_def[0], "filename", name)

    words = folder.parent / "words.txt"
    words.write_text("one\ntwo\n")
    edits: dict[str, Callable[[Any], None]] = {
        "initialiser writes": writes,
        "initialiser reads": reads,
        "asset absolute": asset(key),
        "asset above": asset(f"../../../../{Path(key).parent.name}/key.txt"),
    }
    for name, edit in edits.items():
        place = new_place(folder, "model")
        module = Words(str(words))
        tf.saved_model.save(module, str(place), signatures=module.__call__)
        message = SavedModel()
        message.ParseFromString((place / "saved_model.pb").read_bytes())
        edit(message.meta_graphs[0])
        (place / "saved_model.pb").write_bytes(message.SerializeToString())
        yield f"savedmodel/{name}", place, ACTIONS
    place = new_place(folder, "model")
    module = Words(str(words))
    tf.saved_model.save(module, str(place), signatures=module.__call__)
    (place / "assets" / "words.txt").unlink()
    (place / "assets" / "words.txt").symlink_to(key)
    yield "savedmodel/asset link", place, ACTIONS
