"""Models for the proof to be tried on: small ones of each framework, the demo's, and right ones that are hard to compare."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

import onnxport

IMPORTS = ("onnx", "pytorch", "tensorflow", "keras")


@dataclass(frozen=True)
class Subject:
    """A model and its right graph.

    Attributes:
        name: what it is.
        framework: of the live model; ``"onnx"`` where the graph itself is the source.
        model: the source.
        inputs: example inputs.
        graph: the right graph.
        targets: frameworks that changed graphs are rebuilt in.
    """

    name: str
    framework: str
    model: Any
    inputs: Any
    graph: onnx.ModelProto
    targets: tuple[str, ...]


@dataclass(frozen=True)
class Right:
    """A right conversion: the proof must pass.

    Attributes:
        name: what it is.
        pair: the frameworks.
        source: the model.
        converted: what it was converted to.
        inputs: given inputs; None to draw them.
        seed: of the draw.
    """

    name: str
    pair: str
    source: Any
    converted: Any
    inputs: Any
    seed: int


def _subjects(
    name: str, framework: str, model: Any, inputs: Any, targets: tuple[str, ...] = IMPORTS
) -> Iterator[Subject]:
    """The live model as a source, and its graph as one."""
    graph = onnxport.convert(model, inputs=inputs, validate=False).proto
    yield Subject(name, framework, model, inputs, graph, targets)
    if framework != "sklearn":
        yield Subject(name, "onnx", graph, None, graph, targets[1:])


def small() -> list[Subject]:
    """Models of a few layers."""
    found: list[Subject] = []
    for name, model, inputs in _torch_models():
        found += _subjects(name, "pytorch", model, inputs)
    for name, model, inputs in _keras_models():
        found += _subjects(name, "keras", model, inputs, ("onnx", "keras", "tensorflow"))
    for name, model, inputs in _tensorflow_models():
        found += _subjects(name, "tensorflow", model, inputs, ("onnx", "tensorflow", "pytorch"))
    for name, model, inputs in _sklearn_models():
        found += _subjects(name, "sklearn", model, inputs, ("onnx",))
    return found


def demo() -> list[Subject]:
    """The demo's models, trained."""
    from examples.demo.models import ALL

    found: list[Subject] = []
    for make in ALL:
        trained = make()
        targets = ("onnx",) if trained.framework == "sklearn" else ("onnx", "pytorch")
        found += _subjects(trained.title, trained.framework, trained.model, trained.inputs, targets)
    return found


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
    for norm in (conv[1],):
        norm.running_mean.normal_()
        norm.running_var.uniform_(0.5, 2)
    yield "several heads", Heads().eval(), (torch.randn(5, 6),)
    yield "convolutions", conv.eval(), (torch.randn(2, 2, 8, 8),)
    yield "embedding", Lookup().eval(), (torch.randint(0, 20, (4, 7)),)


def _keras_models() -> Iterator[tuple[str, Any, Any]]:
    import keras

    keras.utils.set_random_seed(0)
    layers = keras.layers
    yield (
        "dense",
        keras.Sequential(
            [keras.Input((6,)), layers.Dense(8, "tanh"), layers.LayerNormalization(), layers.Dense(3, "softmax")]
        ),
        (np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32),),
    )


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


def rights(seeds: int) -> Iterator[Right]:
    """Right conversions of models that are hard to compare, with given and drawn inputs."""
    for name, model, draw in _hard_torch():
        converted = onnxport.convert(model, inputs=draw(0), validate=False)
        imported = onnxport.convert(converted, to="pytorch", validate=False)
        for seed in range(seeds):
            yield Right(name, "pytorch to onnx", model, converted, draw(seed), seed)
            yield Right(name, "onnx to pytorch", converted, imported, None, seed)
    for name, model, inputs in _keras_models():
        converted = onnxport.convert(model, inputs=inputs, validate=False)
        for seed in range(seeds):
            given = (np.random.default_rng(seed).standard_normal((3, 6)).astype(np.float32) * 10**seed,)
            yield Right(name, "keras to onnx", model, converted, given, seed)
    for name, model, table in _hard_sklearn():
        converted = onnxport.convert(model, inputs=table(0), validate=False)
        for seed in range(seeds):
            yield Right(name, "sklearn to onnx", model, converted, table(seed), seed)


def _hard_torch() -> Iterator[tuple[str, Any, Callable[[int], Any]]]:
    import torch
    from torch import nn

    torch.manual_seed(0)

    def numbers(
        *shape: int, scale: float = 1.0, offset: float = 0.0, dtype: Any = torch.float32
    ) -> Callable[[int], Any]:
        def draw(seed: int) -> Any:
            made = torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
            return ((made * scale + offset).to(dtype),)

        return draw

    class Of(nn.Module):
        def __init__(self, call: Callable[..., Any], *parts: nn.Module) -> None:
            super().__init__()
            self.call, self.parts = call, nn.ModuleList(parts)

        def forward(self, x: torch.Tensor) -> Any:
            return self.call(x, *self.parts)

    def deep() -> nn.Module:
        return nn.Sequential(*(item for _ in range(12) for item in (nn.Linear(16, 16), nn.Tanh(), nn.LayerNorm(16))))

    def inside(x: torch.Tensor, part: nn.Module) -> torch.Tensor:
        return part(x.half()).float()

    yield "a norm of large numbers", nn.LayerNorm(16), numbers(4, 16, offset=1e4)
    yield "a sum that cancels", Of(lambda x: (x + 1e6).sum(1, keepdim=True) - 64e6), numbers(4, 64)
    yield "a variance of large numbers", Of(lambda x: (x * x).mean(1) - x.mean(1) ** 2), numbers(4, 64, offset=300.0)
    yield (
        "half precision",
        nn.Sequential(nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 4)).half(),
        numbers(4, 32, dtype=torch.half),
    )
    yield "half precision inside", Of(inside, nn.Linear(16, 8).half()), numbers(4, 16)
    yield "a deep network", deep(), numbers(4, 16)
    yield "softmax of large logits", Of(lambda x: torch.softmax(x * 40, 1)), numbers(4, 16)
    yield "a gated recurrence", Of(lambda x, part: part(x)[0], nn.GRU(5, 7, 2, batch_first=True)), numbers(2, 20, 5)
    yield (
        "a long memory",
        Of(lambda x, part: part(x)[0], nn.LSTM(5, 7, bidirectional=True, batch_first=True)),
        numbers(2, 9, 5),
    )
    yield "places of the largest", Of(lambda x: torch.topk(x.round(decimals=1), 3)[0]), numbers(4, 12)
    yield "a small column", Of(lambda x: x * torch.tensor([1e9, 1.0, 1e-6])), numbers(4, 3)
    yield "logarithms of probabilities", Of(lambda x: torch.log_softmax(x * 10, 1)), numbers(4, 10)
    yield "a long product", nn.Linear(2000, 3), numbers(3, 2000)


def _hard_sklearn() -> Iterator[tuple[str, Any, Callable[[int], Any]]]:
    from sklearn.decomposition import PCA
    from sklearn.ensemble import GradientBoostingClassifier, RandomForestRegressor
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.neighbors import KNeighborsRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    draw = np.random.default_rng(0)
    rows = draw.standard_normal((150, 4))
    counts = draw.poisson(3, (150, 4)).astype(float)
    target, labels = rows.sum(1), (rows.sum(1) > 0).astype(int)

    def of(table: np.ndarray) -> Callable[[int], Any]:
        return lambda seed: table[np.random.default_rng(seed).integers(0, len(table), 20)]

    yield "ties among neighbours", KNeighborsRegressor(5).fit(counts, target), of(counts)
    yield "a forest", RandomForestRegressor(10, random_state=0).fit(rows, target), of(rows)
    yield "boosting", GradientBoostingClassifier(n_estimators=10, random_state=0).fit(rows, labels), of(rows)
    yield "a process", GaussianProcessRegressor().fit(rows, target), of(rows)
    yield "kernels", SVC(probability=False).fit(rows, labels), of(rows)
    yield "components far from zero", make_pipeline(StandardScaler(), PCA(2)).fit(rows + 1e5), of(rows + 1e5)
