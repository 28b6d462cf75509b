"""Damaged and hostile model files other than ONNX: ordinary ones, changed from a seed, and some written to do harm.

Each ordinary file is cut, has bytes changed, and is changed where it has a structure: a field of its JSON or protocol buffer,
a member of its archive, an array in its HDF5 store, a number in its text.
"""

from __future__ import annotations

import copy
import io
import json
import random
import re
import shutil
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from hostile_formats_built import built
from hostile_run import Attack, Places

ODD: tuple[Any, ...] = (
    None, True, -1, 0, 1, 2, 255, 1 << 20, 1 << 31, 1 << 40, (1 << 63) - 1, -(1 << 63), 1e308, -0.5, float("nan"), "", "x",
    "../../secret/data.bin", "/etc/hostname", "x" * 3000, "\n", "\ud83d\ude00", [], [[]], [1, 2], {}, {"class_name": "x"},
)  # fmt: skip
WORKER = "formats"
COMMANDS = ("onnx", "inspect", "validate")


@dataclass(frozen=True)
class Base:
    """An ordinary file or folder.

    Attributes:
        name: what its attacks are called after.
        path: where it stands.
        inputs: shapes of inputs that it takes.
        actions: what is tried.
    """

    name: str
    path: Path
    inputs: tuple[str, ...] = ()
    actions: tuple[str, ...] = COMMANDS


def attacks(places: Places, count: int, seed: int) -> Iterator[Attack]:
    """As many attacks as `count` over all formats, and those that are written to do harm."""
    yield from built(places)
    folder = places.root / "ordinary"
    folder.mkdir(exist_ok=True)
    bases = ordinary(folder)
    for number in range(count):
        base = bases[number % len(bases)]
        rng = random.Random(f"{seed}/{base.name}/{number}")
        kind = rng.choice(("bytes", "cut", "structure", "structure", "structure"))
        place = places.files / f"formats-{number:05}"
        place.mkdir()
        target = place / base.path.name
        shutil.copytree(base.path, target) if base.path.is_dir() else shutil.copyfile(base.path, target)
        try:
            changed(target, kind, rng)
        except (ValueError, TypeError, OverflowError):  # the odd value does not fit the field
            continue
        action = base.actions[number // len(bases) % len(base.actions)]
        yield Attack(f"{base.name}/{kind}/{number:05}", target, (action,), inputs=base.inputs, worker=WORKER)
        shutil.rmtree(place, ignore_errors=True)


def changed(path: Path, kind: str, rng: random.Random) -> None:
    """Damages a file, or one of a folder."""
    if path.is_dir():
        files = sorted(item for item in path.rglob("*") if item.is_file())
        path = rng.choice([*files, *(item for item in files if item.suffix == ".pb")])
    data = path.read_bytes()
    if kind == "structure":
        data = structured(path, data, rng)
    elif kind == "cut":
        data = data[: rng.randrange(len(data) + 1)]
    else:
        data = scratched(data, rng)
    path.write_bytes(data)


def scratched(data: bytes, rng: random.Random) -> bytes:
    """Some bytes changed, or a stretch zeroed, doubled or taken out."""
    found, size = bytearray(data), len(data)
    if not size:
        return data
    start = rng.randrange(size)
    stop = min(size, start + rng.choice((1, 4, 16, 64, 256)))
    match rng.randrange(4):
        case 0:
            found[start:stop] = bytes(stop - start)
        case 1:
            found[start:start] = found[start:stop]
        case 2:
            del found[start:stop]
        case _:
            for _ in range(rng.choice((1, 1, 2, 8, 32))):
                found[rng.randrange(size)] = rng.randrange(256)
    return bytes(found)


def structured(path: Path, data: bytes, rng: random.Random) -> bytes:
    """A field changed where the format has fields, else bytes."""
    suffix = path.suffix
    if zipfile.is_zipfile(io.BytesIO(data)):
        return in_archive(data, rng)
    if suffix in (".json",) or data[:1] == b"{":
        return in_json(data, rng)
    if path.name == "saved_model.pb" or suffix == ".pb":
        return in_message(path, data, rng)
    if data[:4] == b"\x89HDF":
        return in_store(data, rng)
    if suffix in (".txt", ".csv"):
        return in_text(data, rng)
    return scratched(data, rng)


def in_archive(data: bytes, rng: random.Random) -> bytes:
    """A member changed, taken out, doubled or renamed."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = [[item.filename, archive.read(item)] for item in archive.infolist()]
    chosen = rng.choice(members)
    for item in members:  # what is read first is changed more often
        if item[0].endswith((".json", "config.json")) and rng.random() < 0.5:
            chosen = item
    match rng.randrange(8):
        case 0:
            members.remove(chosen)
        case 1:
            chosen[0] = rng.choice(("../x", "/x", "x", chosen[0] + "/", "a\\b"))
        case 2:
            members.append([rng.choice(members)[0], scratched(chosen[1], rng)])
        case _:
            chosen[1] = structured(Path(chosen[0]), chosen[1], rng)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return buffer.getvalue()


def in_json(data: bytes, rng: random.Random) -> bytes:
    """A value replaced, taken out, doubled or moved."""
    try:
        found = json.loads(data)
    except ValueError:
        return scratched(data, rng)
    places = [*slots(found)]
    if not places:
        return json.dumps(rng.choice(ODD)).encode()
    for _ in range(rng.choice((1, 1, 1, 3))):
        owner, key = rng.choice(places)
        match rng.randrange(6):
            case 0 if isinstance(owner, dict):
                owner.pop(key, None)
            case 1 if isinstance(owner, list) and key < len(owner):
                owner.insert(key, copy.deepcopy(owner[key]))
            case 2:
                other, name = rng.choice(places)
                if (name in other) if isinstance(other, dict) else name < len(other):
                    put(owner, key, copy.deepcopy(other[name]))
            case _:
                value = owner.get(key) if isinstance(owner, dict) else owner[key] if key < len(owner) else None
                put(owner, key, text_changed(value, rng) if isinstance(value, str) else rng.choice(ODD))
    return json.dumps(found).encode()


def text_changed(text: str, rng: random.Random) -> Any:
    """Text with JSON inside changed as JSON; any other replaced."""
    if text[:1] in "[{" and text:
        return in_json(text.encode(), rng).decode()
    return rng.choice(ODD)


def put(owner: Any, key: Any, value: Any) -> None:
    if isinstance(owner, dict) or key < len(owner):
        owner[key] = value


def slots(found: Any) -> Iterator[tuple[Any, Any]]:
    """Every place of a value in nested JSON."""
    waiting = [found]
    while waiting:
        item = waiting.pop()
        keys = [*item] if isinstance(item, dict) else range(len(item)) if isinstance(item, list) else ()
        for key in keys:
            yield item, key
            waiting.append(item[key])


def in_message(path: Path, data: bytes, rng: random.Random) -> bytes:
    """A field of a protocol buffer changed, cleared or doubled."""
    import tensorflow as tf
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    kinds = {"fingerprint.pb": None, "saved_model.pb": SavedModel}
    kind = kinds.get(path.name, tf.compat.v1.GraphDef)
    if kind is None:
        return scratched(data, rng)
    message = kind()
    message.ParseFromString(data)
    for _ in range(rng.choice((1, 1, 2))):
        owner = message
        while True:
            fields = owner.ListFields()
            if not fields:
                break
            field, value = rng.choice(fields)
            inner = [value] if field.message_type and not hasattr(value, "__len__") else []
            if field.message_type and hasattr(value, "__len__"):
                inner = [*value.values()] if hasattr(value, "values") else [*value]
            inner = [item for item in inner if hasattr(item, "ListFields")]
            if inner and rng.random() < 0.93:
                owner = rng.choice(inner)
                continue
            field_changed(owner, field, value, rng)
            break
    return bytes(message.SerializeToString())


def field_changed(owner: Any, field: Any, value: Any, rng: random.Random) -> None:
    repeated = hasattr(value, "append") or hasattr(value, "add")
    if rng.random() < 0.25 or (field.message_type and not repeated):
        owner.ClearField(field.name)
    elif repeated and len(value):
        index = rng.randrange(len(value))
        if field.message_type:
            value.add().CopyFrom(value[index]) if rng.random() < 0.5 else value.__delitem__(index)
        elif field.cpp_type in (field.CPPTYPE_STRING,):
            value[index] = (
                rng.choice((b"x", b"", b"^x", b"/etc/hostname", b"x:9"))
                if isinstance(value[index], bytes)
                else rng.choice(("x", "", "^x", str(rng.choice(list(value))), "x:9:9"))
            )
        else:
            value[index] = rng.choice((0, 1, -1, 2, 99, 1 << 30))
    elif isinstance(value, bytes):
        setattr(owner, field.name, rng.choice((b"", b"x", value[: len(value) // 2], value + value, b"\xff" * 9)))
    elif isinstance(value, str):
        names = (
            "",
            "x",
            "Const",
            "Placeholder",
            "Reshape",
            "StatefulPartitionedCall",
            "While",
            "MatMul",
            "VarHandleOp",
            "Pad",
        )
        setattr(owner, field.name, rng.choice(names))
    elif isinstance(value, bool):
        setattr(owner, field.name, not value)
    elif isinstance(value, (int, float)):
        setattr(owner, field.name, rng.choice((0, 1, 2, 3, 7, 9, 19, 20, 21, 127, -1, 1 << 20, (1 << 31) - 1)))


def in_store(data: bytes, rng: random.Random) -> bytes:
    """An array or attribute of an HDF5 file replaced, taken out or reshaped."""
    import h5py

    buffer = io.BytesIO(data)
    with h5py.File(buffer, "r+") as store:
        if "model_config" in store.attrs and rng.random() < 0.5:
            text = store.attrs["model_config"]
            store.attrs["model_config"] = in_json(text.encode() if isinstance(text, str) else text, rng).decode()
        else:
            names: list[str] = []
            store.visit(names.append)
            name = rng.choice(names)
            kept = rng.random()
            del store[name]
            if kept < 0.7:
                shape = rng.choice(((), (0,), (1,), (3, 4), (4, 3), (1 << 10,)))
                store[name] = np.ones(shape, rng.choice(("f4", "f8", "i8", "S3", "c8", "?", "f2")))
    return buffer.getvalue()


def in_text(data: bytes, rng: random.Random) -> bytes:
    """Some number or word replaced, or a line taken out."""
    text = data.decode("utf-8", "replace")
    lines = text.split("\n")
    index = rng.randrange(len(lines))
    match rng.randrange(4):
        case 0:
            del lines[index]
        case 1:
            lines.insert(index, rng.choice(lines))
        case _:
            words = [*re.finditer(r"-?[\w.]+", text)]
            for _ in range(rng.choice((1, 1, 3))):
                word = rng.choice(words)
                odd = str(
                    rng.choice(
                        ("", "-1", "-7", "999", "1e400", "nan", "x", "2147483648", "-2147483649", "99999999999999")
                    )
                )
                if word.end() <= len(text):
                    text = text[: word.start()] + odd + text[word.end() :]
            return text.encode()
    return "\n".join(lines).encode()


def ordinary(folder: Path) -> list[Base]:
    """A file of every format, as its framework writes it."""
    makers: list[Callable[[Path], list[Base]]] = [_tensorflow, _pytorch, _keras, _sklearn, _boosters, _inputs]
    return [base for make in makers for base in make(folder)]


def _tensorflow(folder: Path) -> list[Base]:
    import tensorflow as tf

    class Words(tf.Module):
        def __init__(self, words: Path) -> None:
            super().__init__()
            whole, line = tf.lookup.TextFileIndex.WHOLE_LINE, tf.lookup.TextFileIndex.LINE_NUMBER
            self.table = tf.lookup.StaticHashTable(
                tf.lookup.TextFileInitializer(str(words), tf.string, whole, tf.int64, line), -1
            )
            self.weight = tf.Variable(tf.ones([3, 2]), name="weight")

        @tf.function(
            input_signature=[tf.TensorSpec([None, 3], name="x"), tf.TensorSpec([None], tf.string, name="words")]
        )
        def __call__(self, x: Any, words: Any) -> Any:
            y = tf.nn.relu(x @ self.weight)
            y = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 2.0), (0, y))[1]
            return {"y": y, "line": self.table.lookup(words)}

    (folder / "words.txt").write_text("one\ntwo\n")
    module = Words(folder / "words.txt")
    tf.saved_model.save(module, str(folder / "objects"), signatures=module.__call__)
    v1 = tf.compat.v1
    graph = tf.Graph()
    with graph.as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 8, 8, 2], name="x")
        weight = v1.get_variable("w", [3, 3, 2, 4])
        hidden = tf.nn.relu(tf.nn.conv2d(x, weight, 1, "SAME"))
        y = tf.reshape(tf.nn.max_pool2d(hidden, 2, 2, "SAME"), [-1, 64], name="y")
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, str(folder / "session"), {"x": x}, {"y": y})

    @tf.function(input_signature=[tf.TensorSpec([None, 6], name="x")])
    def frozen(x: Any) -> Any:
        x = tf.concat([x, tf.ones_like(x)], 1) @ tf.constant(np.eye(12, 5, dtype=np.float32))
        return tf.nn.softmax(tf.transpose(tf.pad(x, [[0, 0], [1, 1]]))[1:3])

    definition = frozen.get_concrete_function().graph.as_graph_def()
    (folder / "graph.pb").write_bytes(definition.SerializeToString())
    (folder / "model.tflite").write_bytes(b"\x1c\0\0\0TFL3" + bytes(range(256)) * 4)
    return [
        Base("savedmodel/objects", folder / "objects"),
        Base("savedmodel/session", folder / "session"),
        Base("graphdef/frozen", folder / "graph.pb"),
        Base("tflite/any", folder / "model.tflite"),
    ]


def _pytorch(folder: Path) -> list[Base]:
    import torch

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 3)
            self.norm = torch.nn.LayerNorm(3)

        def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
            y = self.norm(self.layer(x).relu())
            return {
                "y": y[:, : x.shape[1] - 2],
                "n": torch.arange(x.shape[0] // 2 + 1),
                "z": y.repeat(1, 2).softmax(-1),
            }

    program = torch.export.export(Net(), (torch.ones(5, 4),), dynamic_shapes=({0: torch.export.Dim.AUTO},))
    torch.export.save(program, folder / "model.pt2")
    torch.save(weights_module().state_dict(), folder / "weights.pt")
    from safetensors.torch import save_file

    save_file(weights_module().state_dict(), folder / "weights.safetensors")
    return [
        Base("pt2/program", folder / "model.pt2", ("5x4",)),
        Base("pt2/again", folder / "model.pt2", ("5x4",)),
        Base("weights/pt", folder / "weights.pt", actions=("weights",)),
        Base("weights/safetensors", folder / "weights.safetensors", actions=("weights",)),
    ]


def weights_module() -> Any:
    """The module that weights are loaded into."""
    import torch

    return torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))


def weights_model() -> Any:
    """The Keras model that weights are loaded into."""
    import keras

    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, name="dense")], name="model")


def _keras(folder: Path) -> list[Base]:
    import keras

    inputs = keras.Input((8, 8, 2), name="x")
    hidden = keras.layers.Conv2D(3, 3, activation="relu", name="conv")(inputs)
    hidden = keras.layers.BatchNormalization(name="norm")(hidden)
    hidden = keras.layers.Flatten(name="flat")(keras.layers.MaxPooling2D(name="pool")(hidden))
    model = keras.Model(
        inputs, keras.layers.Dense(2, activation="softmax", name="head")(keras.layers.Rescaling(1.0, 1.0)(hidden))
    )
    model.save(folder / "model.keras")
    words = keras.Sequential(
        [keras.Input((5,), dtype="int32"), keras.layers.Embedding(9, 4), keras.layers.LSTM(3), keras.layers.Dense(1)]
    )
    words.save(folder / "words.keras")
    model.save(folder / "model.h5")
    weights_model().save_weights(folder / "model.weights.h5")
    return [
        Base("keras/model", folder / "model.keras"),
        Base("keras/words", folder / "words.keras"),
        Base("h5/model", folder / "model.h5"),
        Base("weights/h5", folder / "model.weights.h5", actions=("weights",)),
    ]


def _sklearn(folder: Path) -> list[Base]:
    import skops.io
    from sklearn.compose import ColumnTransformer
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestRegressor
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
    from sklearn.svm import SVC

    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 4))
    y = (x[:, 0] > 0).astype(int) + (x[:, 1] > 0)
    table = ColumnTransformer(
        [("scale", StandardScaler(), [0, 1]), ("codes", OneHotEncoder(handle_unknown="ignore"), [2, 3])]
    )
    models = {
        "forest": RandomForestRegressor(3, max_depth=4, random_state=0).fit(x, y),
        "hist": HistGradientBoostingClassifier(max_iter=3).fit(x, y),
        "svc": SVC(probability=False).fit(x, y),
        "neighbours": KNeighborsClassifier(3, algorithm="kd_tree").fit(x, y),
        "pipeline": make_pipeline(FunctionTransformer(np.abs), table, LogisticRegression()).fit(np.abs(x).round(), y),
        "text": make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(["one two", "two three", "four"], [0, 1, 1]),
    }
    found = []
    for name, model in models.items():
        place = folder / f"{name}.skops"
        skops.io.dump(model, place)
        found.append(Base(f"skops/{name}", place, ("5x4",) if name != "text" else ()))
    return found


def _boosters(folder: Path) -> list[Base]:
    import lightgbm
    import xgboost

    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 4))
    y = (x[:, 0] + x[:, 1] > 0).astype(int)
    booster = xgboost.train({"objective": "binary:logistic", "max_depth": 3}, xgboost.DMatrix(x, y), 4)
    booster.save_model(folder / "xgboost.json")
    booster.save_model(folder / "xgboost.ubj")
    data = lightgbm.Dataset(np.c_[x, rng.integers(0, 5, 80)], y, categorical_feature=[4])
    options = {"objective": "binary", "verbose": -1, "min_data_in_leaf": 3, "min_data_per_group": 2, "cat_smooth": 1}
    lightgbm.train(options, data, 4).save_model(folder / "lightgbm.txt")
    return [
        Base("boosters/json", folder / "xgboost.json", ("5x4",)),
        Base("boosters/ubj", folder / "xgboost.ubj", ("5x4",)),
        Base("boosters/txt", folder / "lightgbm.txt", ("5x5",)),
    ]


def _inputs(folder: Path) -> list[Base]:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.savez(folder / "inputs.npz", x=x, ids=np.arange(3))
    np.savez_compressed(folder / "packed.npz", x=x)
    np.save(folder / "inputs.npy", x)
    (folder / "inputs.csv").write_text("a,b,c\n1,2.5,x\n3,,y\n")
    return [
        Base(f"inputs/{name}", folder / name, actions=("inputs",))
        for name in ("inputs.npz", "packed.npz", "inputs.npy", "inputs.csv")
    ]


def warmed() -> None:
    """Imports every framework and converts a model of each, so that what they take to start is not counted."""
    import tempfile

    import onnxport

    with tempfile.TemporaryDirectory() as folder:
        for base in ordinary(Path(folder)):
            act(base.actions[0], base.path, base.inputs) if base.actions != COMMANDS else None
            if base.actions == COMMANDS and base.path.suffix != ".tflite" and "text" not in base.name:
                from onnxport.cli.inputs import draw_inputs

                given = draw_inputs(base.inputs) if base.inputs else None
                onnxport.convert(base.path, inputs=given)


def act(action: str, path: Path, inputs: tuple[str, ...]) -> str:
    """Loads weights or example inputs as the command line does."""
    if action == "inputs":
        from onnxport.cli.inputs import read_inputs

        return type(read_inputs(path, table=False)).__name__
    from onnxport import frameworks
    from onnxport.cli.source import read_weights

    keras_file = path.name.endswith(".weights.h5")
    owner = frameworks.get("keras" if keras_file else "pytorch")
    read_weights(weights_model() if keras_file else weights_module(), owner, path)
    return "weights"
