"""The demo's models, trained for seconds on scikit-learn's digits, a made-up table and a made-up corpus."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_digits
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

SEED = 7


@dataclass(frozen=True)
class Trained:
    """A trained model and what to run it on.

    Attributes:
        title: what it is.
        framework: whose it is.
        model: the live model.
        inputs: example inputs, as `onnxport.convert` takes them.
        accuracy: share of right answers on data that it was not trained on.
        run: the model's own answer to `inputs`, for its latency.
    """

    title: str
    framework: str
    model: Any
    inputs: Any
    accuracy: float
    run: Callable[[], Any]


@dataclass(frozen=True)
class Split:
    """Samples and labels, the last fifth held back."""

    samples: Any
    labels: np.ndarray

    @property
    def cut(self) -> int:
        """Number of training samples."""
        return len(self.labels) * 4 // 5

    @property
    def train(self) -> tuple[Any, np.ndarray]:
        """Samples to learn from."""
        return self.samples[: self.cut], self.labels[: self.cut]

    @property
    def test(self) -> tuple[Any, np.ndarray]:
        """Samples held back."""
        return self.samples[self.cut :], self.labels[self.cut :]


def digits() -> Split:
    """1,797 images of 8 x 8 grey values from 0 to 1, shuffled."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(SEED).permutation(len(labels))
    return Split((images[order] / 16).astype(np.float32).reshape(-1, 8, 8), labels[order])


def table(rows: int = 600) -> Split:
    """Loans: numbers, categories and gaps in both; whether one is paid back depends on all of them."""
    rng = np.random.default_rng(SEED)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 80, rows).astype(np.float64),
            "income": rng.lognormal(10, 0.6, rows),
            "housing": rng.choice(["rent", "own", "free"], rows),
            "purpose": rng.choice(["car", "house", "studies", "other"], rows),
        }
    )
    score = (
        (frame["age"] - 45) / 20
        + np.log(frame["income"])
        - 10
        + (frame["housing"] == "own")
        - (frame["purpose"] == "car")
    )
    labels = np.where(score + rng.normal(0, 0.4, rows) > 0, "paid", "default")
    frame.loc[rng.random(rows) < 0.1, "age"] = np.nan
    frame.loc[rng.random(rows) < 0.1, "income"] = np.nan
    return Split(frame, labels)


def corpus(rows: int = 800, words: int = 24) -> Split:
    """Reviews as token ids, 0 for padding: words 1 to 24 are bad, 25 to 48 good, 49 to 96 say nothing."""
    rng = np.random.default_rng(SEED)
    labels = rng.integers(0, 2, rows)
    telling = 1 + rng.integers(0, 24, (rows, words)) + 24 * labels[:, None]
    tokens = np.where(rng.random((rows, words)) < 0.3, telling, rng.integers(49, 97, (rows, words)))
    length = rng.integers(6, words + 1, (rows, 1))
    return Split(np.where(np.arange(words) < length, tokens, 0).astype(np.int32), labels)


def _train_torch(title: str, model: Any, data: Split, epochs: int, rate: float) -> Trained:
    import torch

    samples, labels = (torch.from_numpy(part) for part in data.train)
    optimizer = torch.optim.AdamW(model.parameters(), rate)
    model.train()
    for _ in range(epochs):
        for batch in torch.randperm(len(labels)).split(64):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(samples[batch]), labels[batch]).backward()
            optimizer.step()
    model.eval()
    held_back, truth = (torch.from_numpy(part) for part in data.test)
    with torch.no_grad():
        accuracy = (model(held_back).argmax(1) == truth).float().mean().item()
    example = held_back[:8]

    def run() -> Any:
        with torch.no_grad():
            return model(example)

    return Trained(title, "pytorch", model, (example,), accuracy, run)


def torch_cnn() -> Trained:
    """Convolutions, batch norms, a residual connection."""
    import torch
    from torch import nn

    torch.manual_seed(SEED)

    class Residual(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.conv = nn.Conv2d(width, width, 3, padding=1, bias=False)
            self.norm = nn.BatchNorm2d(width)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(x + self.norm(self.conv(x)))

    model = nn.Sequential(
        nn.Unflatten(1, (1, 8)),
        nn.Conv2d(1, 24, 3, padding=1),
        nn.BatchNorm2d(24),
        nn.ReLU(),
        Residual(24),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(24 * 16, 10),
    )
    return _train_torch("CNN on digits", model, digits(), epochs=4, rate=3e-3)


def torch_transformer() -> Trained:
    """The rows of an image as tokens; self-attention over them."""
    import torch
    from torch import nn

    torch.manual_seed(SEED)

    class RowTransformer(nn.Module):
        def __init__(self, width: int = 32) -> None:
            super().__init__()
            self.embed = nn.Linear(8, width)
            self.position = nn.Parameter(torch.randn(8, width) * 0.1)
            layer = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.1, activation="gelu", batch_first=True)
            self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            self.head = nn.Linear(width, 10)

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            return self.head(self.encoder(self.embed(rows) + self.position).mean(1))

    return _train_torch("transformer on digits", RowTransformer(), digits(), epochs=6, rate=3e-3)


def keras_cnn() -> Trained:
    """Convolutions, batch norm, pooling, dropout."""
    import keras

    keras.utils.set_random_seed(SEED)
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1), name="image"),
            keras.layers.Conv2D(16, 3, padding="same", activation="relu"),
            keras.layers.BatchNormalization(),
            keras.layers.SeparableConv2D(32, 3, padding="same", activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            keras.layers.Dropout(0.2),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )
    data = Split(digits().samples[..., None], digits().labels)
    model.compile(keras.optimizers.Adam(5e-3), "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(*data.train, epochs=3, batch_size=64, verbose=0)
    _, accuracy = model.evaluate(*data.test, verbose=0)
    example = data.test[0][:8]
    return Trained("CNN on digits", "keras", model, (example,), accuracy, lambda: model(example))


def tensorflow_text() -> Trained:
    """Embeddings, the mean over the words that are no padding, two dense layers."""
    import tensorflow as tf

    tf.random.set_seed(SEED)

    class TextClassifier(tf.Module):
        def __init__(self, width: int = 16) -> None:
            super().__init__(name="text_classifier")
            self.table = tf.Variable(tf.random.normal((97, width), stddev=0.3), name="table")
            self.hidden = tf.Variable(tf.random.normal((width, width), stddev=0.3), name="hidden")
            self.out = tf.Variable(tf.random.normal((width, 2), stddev=0.3), name="out")
            self.bias = tf.Variable(tf.zeros(2), name="bias")

        @tf.function(input_signature=[tf.TensorSpec((None, None), tf.int32, name="tokens")])
        def __call__(self, tokens: Any) -> Any:
            mask = tf.cast(tf.not_equal(tokens, 0), tf.float32)[..., tf.newaxis]
            total = tf.reduce_sum(tf.gather(self.table, tokens) * mask, axis=1)
            mean = total / tf.maximum(tf.reduce_sum(mask, axis=1), 1.0)
            return {"scores": tf.nn.softmax(tf.nn.tanh(mean @ self.hidden) @ self.out + self.bias)}

    model, data = TextClassifier(), corpus()
    samples, labels = (tf.constant(part) for part in data.train)

    @tf.function
    def step() -> None:
        with tf.GradientTape() as tape:
            right = tf.gather(model(samples)["scores"], labels, batch_dims=1)
            loss = -tf.reduce_mean(tf.math.log(right))
        for variable, slope in zip(
            model.trainable_variables, tape.gradient(loss, model.trainable_variables), strict=True
        ):
            variable.assign_sub(2.0 * tf.convert_to_tensor(slope))

    for _ in range(150):
        step()
    held_back, truth = data.test
    accuracy = float(np.mean(np.argmax(model(held_back)["scores"], axis=1) == truth))
    example = tf.constant(held_back[:8])
    return Trained("text classifier", "tensorflow", model, (example,), accuracy, lambda: model(example))


def sklearn_mixed() -> Trained:
    """Imputers, scaling, one-hot encoding and gradient boosting on a table with names, words and gaps."""
    numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    categories = OneHotEncoder(handle_unknown="ignore")
    model = Pipeline(
        [
            (
                "columns",
                ColumnTransformer(
                    [("numbers", numbers, ["age", "income"]), ("words", categories, ["housing", "purpose"])]
                ),
            ),
            ("boosting", GradientBoostingClassifier(n_estimators=40, random_state=SEED)),
        ]
    )
    return _fit("pipeline on a mixed table", model, table())


def sklearn_numeric() -> Trained:
    """Scaling and logistic regression on the digits as plain numbers."""
    data = Split(digits().samples.reshape(-1, 64), digits().labels)
    return _fit("scaler + logistic regression", make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)), data)


def _fit(title: str, model: Any, data: Split) -> Trained:
    model.fit(*data.train)
    example = data.test[0][:8]
    return Trained(title, "sklearn", model, example, model.score(*data.test), lambda: model.predict_proba(example))


ALL: tuple[Callable[[], Trained], ...] = (
    torch_cnn,
    torch_transformer,
    keras_cnn,
    tensorflow_text,
    sklearn_mixed,
    sklearn_numeric,
)
