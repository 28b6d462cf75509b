"""Model files other than ONNX that are written to do harm: to run code, to read or write files, to take memory without end.

What they would write is called ``ran`` in the folder that is watched; what they would read stands there too.
"""

from __future__ import annotations

import io
import json
import marshal
import pickle
import zipfile
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from hostile_run import Attack, Places

ACTIONS = ("onnx", "inspect", "validate")


def built(places: Places) -> Iterator[Attack]:
    """Attacks with canaries in the places that are watched."""
    folder = places.files / "built"
    folder.mkdir()
    makers: list[Callable[[Path, Path], Iterator[tuple[str, Path, tuple[str, ...]]]]] = [
        _graphs, _archives, _keras_files, _stores, _estimators, _pickles, _bombs,
    ]  # fmt: skip
    for make in makers:
        for number, (name, path, actions) in enumerate(make(folder, places.secret)):
            places.touched()  # what writing the attack itself touched
            shapes = ("5x4",) if path.suffix in (".pt2", ".skops") else ()
            yield Attack(
                f"{name.partition('/')[0]}/hostile/{number:03}-{name}", path, actions, inputs=shapes, worker="formats"
            )


def _place(folder: Path, name: str) -> Path:
    place = folder / f"{len(list(folder.iterdir())):04}" / name
    place.parent.mkdir()
    return place


class Payload:
    """Unpickling it writes a file."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> Any:
        return exec, (f"open({str(self.canary)!r}, 'w').close()",)


def _graphs(folder: Path, secret: Path) -> Iterator[tuple[str, Path, tuple[str, ...]]]:
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
        place = _place(folder, "graph.pb")
        place.write_bytes(concrete.graph.as_graph_def().SerializeToString())
        yield f"graphdef/{name}", place, ACTIONS
        module = tf.Module()
        module.body = function
        place = _place(folder, "model")
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


def _initialisers(folder: Path, canary: str, key: str) -> Iterator[tuple[str, Path, tuple[str, ...]]]:
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
        place = _place(folder, "model")
        module = Words(str(words))
        tf.saved_model.save(module, str(place), signatures=module.__call__)
        message = SavedModel()
        message.ParseFromString((place / "saved_model.pb").read_bytes())
        edit(message.meta_graphs[0])
        (place / "saved_model.pb").write_bytes(message.SerializeToString())
        yield f"savedmodel/{name}", place, ACTIONS
    place = _place(folder, "model")
    module = Words(str(words))
    tf.saved_model.save(module, str(place), signatures=module.__call__)
    (place / "assets" / "words.txt").unlink()
    (place / "assets" / "words.txt").symlink_to(key)
    yield "savedmodel/asset link", place, ACTIONS


def _archives(folder: Path, secret: Path) -> Iterator[tuple[str, Path, tuple[str, ...]]]:
    import torch

    canary = secret / "ran"
    code = f"open({str(canary)!r}, 'w').close()"

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 3)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return self.layer(x), torch.arange(x.shape[0] // 2 + 1)

    source = folder.parent / "net.pt2"
    program = torch.export.export(Net(), (torch.ones(5, 4),), dynamic_shapes=({0: torch.export.Dim.AUTO},))
    torch.export.save(program, source)
    with zipfile.ZipFile(source) as archive:
        records = {item.filename.partition("/")[2]: archive.read(item) for item in archive.infolist()}

    def written(changed: dict[str, bytes]) -> Path:
        place = _place(folder, "model.pt2")
        with zipfile.ZipFile(place, "w") as archive:
            for name, data in changed.items():
                archive.writestr(f"model/{name}", data)
        return place

    def pickled() -> bytes:
        buffer = io.BytesIO()
        torch.save(((Payload(canary),), {}), buffer)
        return buffer.getvalue()

    text = records["models/model.json"].decode()
    found = json.loads(text)
    node = found["graph_module"]["graph"]["nodes"][0]
    for target in (
        "torch.os.system", "torch.load", "torch.hub.load", "torch.ops.load_library", "torch.ops.aten.from_file.default",
        "torch.ops.aten.save.default", "_operator.methodcaller", "_operator.attrgetter", "torch.serialization.load",
        "torch.ops.higher_order.print", "torch.ops.higher_order.aoti_call_delegate", "torch.ops.debugprims.load_tensor.default",
        "math.factorial", "torchx.os.system", "torch.ops.aten.__class__", "torch.jit.load", "torch._C._jit_unpickle",
    ):  # fmt: skip
        said = [{"name": "", "arg": {"as_string": f"touch {canary}"}, "kind": 1}]
        changed = json.loads(text)
        changed["graph_module"]["graph"]["nodes"][0] = {**node, "target": target, "inputs": said}
        yield "pt2/target", written({**records, "models/model.json": json.dumps(changed).encode()}), ACTIONS
    for old, new in (
        ('"guards_code": []', f'"guards_code": {json.dumps([code])}'),
        ('"guards_code": []', f'"guards_code": {json.dumps([f"L.__class__ or {code}"])}'),
        ('"name": "x"', json.dumps({"name": f"x, y={code}"})[1:-1]),
        ('"layer.weight"', json.dumps(f'w") or {code} or getattr(self, "w')),
        ('"forward_arg_names": ["x"]', json.dumps({"forward_arg_names": [f"x={code}"]})[1:-1]),
        ("Symbol('", f"{code} or Symbol('"),
        ("Integer(2)", f"Integer({code})"),
        ("Integer(2)", "Pow(Integer(9), Integer(999999999))"),
        ("Integer(2)", f"Symbol({json.dumps(code)})".replace('"', '\\"')),
        ('"verifiers": ["TRAINING"]', '"verifiers": ["../x"]'),
        ("builtins.tuple", "collections.defaultdict"),
        ('"as_ints": []', '"as_ints": [1099511627776]'),
    ):
        if old in text:
            yield "pt2/text", written({**records, "models/model.json": text.replace(old, new).encode()}), ACTIONS
    for name in (
        "data/weights/model.pt", "data/constants/model.pt", "data/sample_inputs/model.pt", "data/constants/opaque_obj_0",
        "data/constants/custom_obj_0", "data/aotinductor/model/model.so", "data/aotinductor/model/model.wrapper.so",
    ):  # fmt: skip
        data = pickled() if name.endswith(".pt") else pickle.dumps(Payload(canary))
        yield "pt2/record", written({**records, name: data}), ACTIONS
    for kind in ("weights", "constants"):
        config = json.loads(records[f"data/{kind}/model_{kind}_config.json"])
        entry = next(iter(config["config"].values()), {"path_name": "tensor_0", "is_param": False, "tensor_meta": None})
        config["config"]["layer.weight"] = {**entry, "use_pickle": True}
        changed = {**records, f"data/{kind}/model_{kind}_config.json": json.dumps(config).encode()}
        changed[f"data/{kind}/{entry['path_name']}"] = pickled()
        yield "pt2/pickle", written(changed), ACTIONS
    place = _place(folder, "old.pt2")
    with zipfile.ZipFile(place, "w") as archive:
        archive.writestr("version", "8.20")
        archive.writestr("serialized_exported_program.json", text)
        for name in ("state_dict", "constants", "example_inputs"):
            archive.writestr(f"serialized_{name}.pt", pickled())
    yield "pt2/old", place, ACTIONS
    place = _place(folder, "weights.pt")
    place.write_bytes(pickled())
    yield "weights/pickle", place, ("weights",)
    place = _place(folder, "weights.pt")
    place.write_bytes(pickle.dumps({"0.weight": Payload(canary)}))
    yield "weights/old pickle", place, ("weights",)


def _keras_files(folder: Path, secret: Path) -> Iterator[tuple[str, Path, tuple[str, ...]]]:
    import keras

    canary, key = secret / "ran", secret / "key.txt"
    body = compile(f"lambda x: open({str(canary)!r}, 'w') and x", "x", "eval").co_consts[0]
    code = b64encode(marshal.dumps(body)).decode()
    fresh = {
        "class_name": "__lambda__",
        "config": {"code": code, "value": [code, None, None], "defaults": None, "closure": None},
    }
    pickled = b64encode(pickle.dumps(Payload(canary))).decode()

    def function(module: str, name: str) -> dict[str, Any]:
        return {"module": module, "class_name": "function", "config": name, "registered_name": name}

    def layer(kind: str, module: str = "keras.layers", **config: Any) -> dict[str, Any]:
        return {
            "module": module,
            "class_name": kind,
            "config": {"name": "bad", **config},
            "registered_name": None,
            "name": "bad",
        }

    bad: list[dict[str, Any]] = [
        layer("Lambda", function=fresh),
        layer("Lambda", function=[code, None, None], function_type="lambda"),
        layer("Lambda", function=function("os", "system")),
        layer("Dense", units=2, activation=fresh),
        layer("Dense", units=2, activation=function("keras.utils", "get_file")),
        layer("Dense", units=2, activation=function("keras.config", "enable_unsafe_deserialization")),
        layer("Dense", units=2, kernel_initializer=function("builtins", "exec")),
        layer("StringLookup", vocabulary=str(key)),
        layer("IntegerLookup", vocabulary=str(key)),
        layer("TextVectorization", vocabulary=str(key)),
        layer("TFSMLayer", filepath=str(secret)),
        layer("TorchModuleWrapper", module={"class_name": "__bytes__", "config": {"value": pickled}}),
        layer("TorchModuleWrapper", module=pickled),
        layer("JaxLayer", call_fn=fresh),
        layer("load_model", module="keras.models", filepath=str(key)),
        layer("get_file", module="keras.utils", origin=f"file://{key}"),
        layer("Popen", module="subprocess", args=["touch", str(canary)]),
        layer("antigravity", module="antigravity"),
        layer("TextLineDataset", module="tensorflow.data", filenames=str(key)),
        layer("Embedding", input_dim=1 << 34, output_dim=64),
        layer("Dense", units=1 << 30),
        layer("TimeDistributed", layer=layer("Lambda", function=fresh)),
        layer(
            "Wrapper",
            layer={"class_name": "__typespec__", "spec_name": "x", "module": "os", "config": [], "registered_name": ""},
        ),
    ]
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)], name="model")
    model.save(folder.parent / "plain.keras")
    model.save(folder.parent / "plain.h5")
    with zipfile.ZipFile(folder.parent / "plain.keras") as archive:
        parts = {item.filename: archive.read(item) for item in archive.infolist()}
    for item in bad:
        config = json.loads(parts["config.json"])
        config["config"]["layers"][1] = item
        place = _place(folder, "model.keras")
        with zipfile.ZipFile(place, "w") as archive:
            for name, data in {**parts, "config.json": json.dumps(config).encode()}.items():
                archive.writestr(name, data)
        yield "keras/configuration", place, ACTIONS
        import h5py

        place = _place(folder, "model.h5")
        place.write_bytes((folder.parent / "plain.h5").read_bytes())
        with h5py.File(place, "r+") as store:
            config = json.loads(store.attrs["model_config"])
            config["config"]["layers"][1] = item
            store.attrs["model_config"] = json.dumps(config)
        yield "h5/configuration", place, ACTIONS


def _stores(folder: Path, secret: Path) -> Iterator[tuple[str, Path, tuple[str, ...]]]:
    import h5py
    import keras

    data = str(secret / "data.bin")
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, name="dense")], name="model")

    def external(store: Any, name: str) -> None:
        store[name] = h5py.ExternalLink(data, "/")

    def raw(store: Any, name: str) -> None:
        store.create_dataset(name, (4, 3), "f4", external=[(data, 0, 48)])

    def virtual(store: Any, name: str) -> None:
        layout = h5py.VirtualLayout((4, 3), "f4")
        layout[:] = h5py.VirtualSource(data, "x", (4, 3))
        store.create_virtual_dataset(name, layout)

    def soft(store: Any, name: str) -> None:
        store[name] = h5py.SoftLink("/")

    def packed(store: Any, name: str) -> None:
        store.create_dataset(name, (1 << 36,), "f4", chunks=(1 << 20,), compression="gzip")

    for change in (external, raw, virtual, soft, packed):
        for replace in (False, True):
            for suffix in (".h5", ".weights.h5", ".keras"):
                place = _place(folder, f"model{suffix}")
                inner = place if suffix != ".keras" else place.with_suffix(".weights.h5")
                model.save(place) if suffix == ".h5" else model.save_weights(inner)
                with h5py.File(inner, "r+") as store:
                    names: list[str] = []
                    store.visititems(
                        lambda name, item, names=names: names.append(name) if isinstance(item, h5py.Dataset) else None
                    )
                    if replace:
                        del store[names[-1]]
                    change(store, names[-1] if replace else "other")
                if suffix == ".keras":
                    model.save(folder.parent / "plain.keras")
                    with zipfile.ZipFile(folder.parent / "plain.keras") as old, zipfile.ZipFile(place, "w") as archive:
                        for item in old.infolist():
                            held = inner.read_bytes() if item.filename == "model.weights.h5" else old.read(item)
                            archive.writestr(item.filename, held)
                    inner.unlink()
                kind = {".h5": "h5", ".weights.h5": "weights", ".keras": "keras"}[suffix]
                yield f"{kind}/{change.__name__}", place, ("weights",) if kind == "weights" else ACTIONS


def _estimators(folder: Path, secret: Path) -> Iterator[tuple[str, Path, tuple[str, ...]]]:
    import skops.io
    from sklearn.datasets import dump_svmlight_file, load_files
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer
    from sklearn.tree import export_graphviz

    canary = str(secret / "ran")
    for function in (
        dump_svmlight_file,
        load_files,
        export_graphviz,
        np.save,
        np.savetxt,
        np.load,
        np.fromfile,
        np.memmap,
    ):
        for options in ({}, {"f": canary}, {"file": canary}, {"fname": canary}, {"filename": canary, "mode": "w+"}):
            place = _place(folder, "model.skops")
            skops.io.dump(make_pipeline(FunctionTransformer(function, kw_args=options)), place)
            yield "skops/function", place, ACTIONS
    place = _place(folder, "model.skops")
    skops.io.dump(CountVectorizer(input="filename", vocabulary={"a": 0}), place)
    yield "skops/filename", place, ACTIONS
    skops.io.dump(make_pipeline(FunctionTransformer(np.abs, kw_args={"x": [1, 2]})), folder.parent / "plain.skops")
    with zipfile.ZipFile(folder.parent / "plain.skops") as archive:
        text = archive.read("schema.json").decode()
    for module, name in (
        ("os", "system"), ("builtins", "exec"), ("subprocess", "Popen"), ("sklearn.datasets._base", "clear_data_home"),
        ("sklearn.utils._testing", "raises"), ("numpy", "memmap"), ("numpy.testing._private.utils", "measure"),
        ("antigravity", "x"),
    ):  # fmt: skip
        for loader in (
            "ListNode",
            "TupleNode",
            "DictNode",
            "ObjectNode",
            "FunctionNode",
            "TypeNode",
            "PartialNode",
            "LossNode",
        ):
            schema = json.loads(text)
            waiting = [schema]
            while waiting:
                item = waiting.pop()
                if isinstance(item, dict):
                    if item.get("__loader__") in (loader, "FunctionNode"):
                        item.update(__module__=module, __class__=name, __loader__=loader)
                        break
                    waiting += item.values()
                elif isinstance(item, list):
                    waiting += item
            place = _place(folder, "model.skops")
            with zipfile.ZipFile(place, "w") as archive:
                archive.writestr("schema.json", json.dumps(schema))
            yield "skops/node", place, ACTIONS[:1]


def _pickles(folder: Path, secret: Path) -> Iterator[tuple[str, Path, tuple[str, ...]]]:
    canary = secret / "ran"
    for suffix in (".pkl", ".pickle", ".joblib"):
        place = _place(folder, f"model{suffix}")
        place.write_bytes(pickle.dumps(Payload(canary)))
        yield "pickle/plain", place, ACTIONS
    held = np.empty(1, object)
    held[0] = Payload(canary)
    place = _place(folder, "inputs.npy")
    np.save(place, held, allow_pickle=True)
    yield "inputs/pickle", place, ("inputs",)
    place = _place(folder, "inputs.npz")
    np.savez(place, x=held)
    yield "inputs/pickle", place, ("inputs",)


def _bombs(folder: Path, secret: Path) -> Iterator[tuple[str, Path, tuple[str, ...]]]:
    """Files that unpack, nest or multiply to more than a machine has."""
    zeros = bytes(64 << 20)
    parts = {
        "model.keras": ("config.json", ACTIONS),
        "model.pt2": ("model/archive_format", ACTIONS),
        "model.skops": ("schema.json", ACTIONS),
        "inputs.npz": ("x.npy", ("inputs",)),
        "weights.pt": ("model/data.pkl", ("weights",)),
    }
    for name, (part, actions) in parts.items():
        place = _place(folder, name)
        with (
            zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
            archive.open(part, "w") as stream,
        ):
            for _ in range(12):
                stream.write(zeros)
        yield f"{place.suffix[1:]}/packed", place, actions
        place = _place(folder, name)
        with zipfile.ZipFile(place, "w") as archive:
            archive.writestr(part, "[" * 200_000)
        yield f"{place.suffix[1:]}/nested", place, actions
        place = _place(folder, name)
        with zipfile.ZipFile(place, "w") as archive:
            archive.writestr(f"../../{secret.name}/ran", "x")
            archive.writestr(part, "{}")
        yield f"{place.suffix[1:]}/leads out", place, actions
    for suffix in (".json", ".txt", ".ubj"):
        place = _place(folder, f"model{suffix}")
        place.write_bytes(b"[" * 300_000)
        yield "boosters/nested", place, ACTIONS
    place = _place(folder, "model.ubj")
    place.write_bytes(b"{L" + bytes(7) + b"\x01x[$D#L" + b"\x7f" + b"\xff" * 7)
    yield "boosters/vast", place, ACTIONS
