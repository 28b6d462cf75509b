"""Models in whose graphs wrong conversions are planted: small ones of each framework, and the demo's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

import onnxport


@dataclass(frozen=True)
class Subject:
    """A model and its right graph.

    Attributes:
        name: what it is.
        framework: of the live model; ``"onnx"`` where the graph itself is the source.
        model: the source.
        inputs: example inputs.
        graph: the right graph.
    """

    name: str
    framework: str
    model: Any
    inputs: Any
    graph: onnx.ModelProto


def _subjects(name: str, framework: str, model: Any, inputs: Any) -> Iterator[Subject]:
    """The live model as a source, and its graph as one."""
    graph = onnxport.convert(model, inputs=inputs, validate=False).proto
    yield Subject(name, framework, model, inputs, graph)
    yield Subject(name, "onnx", graph, None, graph)


def small(*frameworks: str) -> Iterator[Subject]:
    """Models of a few layers, by default of all frameworks."""
    for framework, models in _small_models().items():
        if frameworks and framework not in frameworks:
            continue
        for name, model, inputs in models():
            yield from _subjects(name, framework, model, inputs)


def _small_models() -> dict[str, Callable[[], Iterator[tuple[str, Any, Any]]]]:
    return {
        "pytorch": _torch_models,
        "keras": keras_models,
        "tensorflow": _tensorflow_models,
        "sklearn": _sklearn_models,
    }


def demo() -> Iterator[Subject]:
    """The demo's models, trained."""
    from examples.demo.models import ALL

    for make in ALL:
        trained = make()
        yield from _subjects(f"demo: {trained.title}", trained.framework, trained.model, trained.inputs)


def _torch_models() -> Iterator[tuple[str, Any, Any]]:
    import torch
    from torch import nn

    torch.manual_seed(0)

    class Heads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.LayerNorm(8))
            self.first, self.second = nn.Linear(8, 4), nn.Linear(8, 4)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
            hidden = self.body(x)
            scores = self.first(hidden)
            return torch.softmax(scores, 1), self.second(hidden).clamp(-1, 1), scores.argmax(1)

    class Lookup(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.head = nn.Embedding(20, 6), nn.Linear(6, 3)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return torch.sigmoid(self.head(self.table(ids).mean(1)))

    conv = nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 3, 2)
    )
    heads = Heads()
    conv[1].running_mean.normal_()
    conv[1].running_var.uniform_(0.5, 2)
    for norm in (conv[1], heads.body[2]):  # of ones and zeros many changes change nothing
        nn.init.uniform_(norm.weight, 0.5, 2)
        nn.init.normal_(norm.bias)
    yield "several heads", heads.eval(), (torch.randn(5, 6),)
    yield "convolutions", conv.eval(), (torch.randn(2, 2, 8, 8),)
    yield "embedding", Lookup().eval(), (torch.randint(0, 20, (4, 7)),)


def keras_models() -> Iterator[tuple[str, Any, Any]]:
    import keras

    keras.utils.set_random_seed(0)
    layers, draw = keras.layers, np.random.default_rng(0)
    model = keras.Sequential(
        [keras.Input((6,)), layers.Dense(8, "tanh"), layers.LayerNormalization(), layers.Dense(3, "softmax")]
    )
    model.set_weights(
        [draw.uniform(0.5, 1.5, item.shape) * draw.choice([-1, 1], item.shape) for item in model.get_weights()]
    )
    yield "dense", model, (draw.standard_normal((4, 6)).astype(np.float32),)


def _tensorflow_models() -> Iterator[tuple[str, Any, Any]]:
    import tensorflow as tf

    draw = np.random.default_rng(0)
    first, second = (draw.standard_normal(shape).astype(np.float32) for shape in ((6, 8), (8, 4)))

    @tf.function(input_signature=[tf.TensorSpec([None, 6], tf.float32, name="x")])
    def net(x: Any) -> Any:
        hidden = tf.nn.elu(x @ first)
        return {
            "scores": tf.nn.softmax(hidden @ second),
            "top": tf.reduce_max(hidden, axis=1),
            "mean": tf.reduce_mean(x, 1),
        }

    yield "two products", net, (draw.standard_normal((4, 6)).astype(np.float32),)


def _sklearn_models() -> Iterator[tuple[str, Any, Any]]:
    from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    draw = np.random.default_rng(0)
    rows = draw.standard_normal((120, 4))
    target = rows @ [1.0, -2.0, 0.5, 0.1] + draw.standard_normal(120) * 0.1
    labels = np.digitize(target, [-1, 1])
    yield "forest", RandomForestClassifier(6, max_depth=4, random_state=0).fit(rows, labels), rows
    yield "boosting", GradientBoostingRegressor(n_estimators=8, random_state=0).fit(rows, target), rows
    yield "scaled regression", make_pipeline(StandardScaler(), LogisticRegression()).fit(rows, labels), rows
