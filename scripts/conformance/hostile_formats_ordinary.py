"""An ordinary file of every format other than ONNX, as its framework writes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

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
    converter = tf.lite.TFLiteConverter.from_concrete_functions([frozen.get_concrete_function()], frozen)
    (folder / "model.tflite").write_bytes(converter.convert())
    return [
        Base("savedmodel/objects", folder / "objects"),
        Base("savedmodel/session", folder / "session"),
        Base("graphdef/frozen", folder / "graph.pb"),
        Base("tflite/model", folder / "model.tflite"),
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
