"""Two states of the code side by side: time, memory and bytes of the same conversions.

``python -m scripts.bench.states OLD [--new NEW] [--pairs 9] [--match keras] [--ways convert,proof]`` takes the folders of two
checkouts (NEW is this one where it is left out). A process that has imported the framework alone forks one for each state in
turns, the first of a pair changing from pair to pair; that converts once and once more. A cell holds the medians of both
states and the median of the pairs' ratios. The way ``floor`` compares a conversion with getting the concrete function of a
Keras model.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from scripts.bench.models import keras_resnet50, resnet50, vit_b16

HERE = Path(__file__).parents[2]
# What of a child's figures is compared, in the order of the table's columns.
MEASURES = ("fresh cpu", "fresh wall", "warm cpu", "warm wall", "peak", "bytes")


def gpt() -> tuple[Any, Any]:
    """A GPT of four layers with causal attention, and token numbers."""
    import torch
    from torch import nn

    width, heads, words, length = 64, 4, 500, 64

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.mlp = nn.Sequential(
                nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width)
            )

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            batch, tokens, _ = x.shape
            qkv = self.qkv(self.before(x)).view(batch, tokens, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
            mixed = nn.functional.scaled_dot_product_attention(*qkv.unbind(0), is_causal=True)
            x = x + self.out(mixed.transpose(1, 2).reshape(batch, tokens, width))
            return x + self.mlp(self.after(x))

    class Gpt(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.positions = nn.Embedding(words, width), nn.Embedding(length, width)
            self.blocks, self.norm = nn.Sequential(*(Block() for _ in range(4))), nn.LayerNorm(width)
            self.head = nn.Linear(width, words, bias=False)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
            return self.head(self.norm(self.blocks(x)))

    torch.manual_seed(0)
    return Gpt().eval(), (torch.randint(0, words, (2, 16)),)


def mobilenet() -> tuple[Any, Any]:
    """MobileNetV2 of keras.applications with random weights, and an image batch."""
    import keras
    import numpy as np

    keras.utils.set_random_seed(0)
    images = np.random.default_rng(0).normal(size=(2, 224, 224, 3)).astype("float32")
    return keras.applications.MobileNetV2(weights=None), (images,)


def calibrated_mobilenet() -> tuple[Any, Any]:
    """The same with the statistics of these images in its batch norms, so that its result depends on what it is given."""
    import keras

    model, inputs = mobilenet()
    for layer in model.layers:
        if isinstance(layer, keras.layers.BatchNormalization):
            layer.momentum = 0.0
    model(inputs[0], training=True)
    return model, inputs


def dense() -> tuple[Any, Any]:
    """Two dense layers, and rows."""
    import keras
    import numpy as np

    keras.utils.set_random_seed(0)
    layers = [keras.layers.Dense(32, activation="relu"), keras.layers.Dense(4, activation="softmax")]
    rows = np.random.default_rng(0).normal(size=(2, 16)).astype("float32")
    return keras.Sequential([keras.Input((16,)), *layers]), (rows,)


def pipeline(name: str, **options: Any) -> Callable[[], tuple[Any, Any]]:
    """A scaler and an ensemble of `sklearn.ensemble`, fitted to random rows."""

    def build() -> tuple[Any, Any]:
        import numpy as np
        from sklearn import ensemble
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        rows = np.random.default_rng(0).normal(size=(400, 8))
        model = make_pipeline(StandardScaler(), getattr(ensemble, name)(random_state=0, **options))
        return model.fit(rows, (rows[:, 0] + rows[:, 1] > 0).astype(int)), rows[:50]

    return build


def small(path: str, **options: Any) -> Callable[[], tuple[Any, Any]]:
    """A small estimator by its path in scikit-learn, fitted to random rows, as often as makes a time that can be compared."""

    def build() -> tuple[Any, Any]:
        import numpy as np

        module, _, name = path.rpartition(".")
        rows = np.random.default_rng(0).normal(size=(400, 8))
        kind = getattr(importlib.import_module(f"sklearn.{module}"), name)
        return [kind(**options).fit(rows, (rows[:, 0] + rows[:, 1] > 0).astype(int))] * _TIMES, rows[:50]

    return build


_TIMES = 50
_SMALL: dict[str, dict[str, Any]] = {
    "preprocessing.StandardScaler": {},
    "linear_model.LogisticRegression": {},
    "linear_model.Ridge": {},
    "decomposition.PCA": {"n_components": 3},
    "svm.SVC": {},
    "naive_bayes.GaussianNB": {},
    "cluster.KMeans": {"n_clusters": 4, "n_init": 1, "random_state": 0},
    "tree.DecisionTreeClassifier": {"random_state": 0},
}
# By name the framework and how it is built.
MODELS: dict[str, tuple[str, Callable[[], tuple[Any, Any]]]] = {
    "ResNet-50": ("torch", resnet50),
    "ViT-B/16": ("torch", vit_b16),
    "GPT, 4 layers": ("torch", gpt),
    "Keras ResNet-50": ("keras", keras_resnet50),
    "Keras MobileNetV2": ("keras", mobilenet),
    "Keras MobileNetV2, calibrated": ("keras", calibrated_mobilenet),
    "Keras, 2 dense layers": ("keras", dense),
    "Scaler, RandomForest": ("sklearn.ensemble", pipeline("RandomForestClassifier", n_estimators=50)),
    "Scaler, GradientBoosting": ("sklearn.ensemble", pipeline("GradientBoostingClassifier", n_estimators=50)),
    **{f"{path}, {_TIMES} times": ("sklearn.ensemble", small(path, **options)) for path, options in _SMALL.items()},
}


def figures(model: str, way: str) -> dict[str, float]:
    """The figures of one model in this process, which has its framework but nothing of onnxport yet."""
    times: list[dict[str, float]] = []
    result: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        for _ in range(2):
            source, inputs = MODELS[model][1]()
            with _timed(times):
                if way == "floor":
                    _concrete(source, inputs)
                else:
                    import onnxport

                    for item in source if isinstance(source, list) else [source]:
                        onnxport.convert(item, inputs=inputs, validate=way == "proof", output=str(path))
        result["bytes"] = path.stat().st_size if path.exists() else 0
    for name, item in zip(("fresh", "warm"), times, strict=True):
        result.update({f"{name} {kind}": value for kind, value in item.items()})
    result["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return result


def _concrete(model: Any, inputs: Any) -> None:
    import tensorflow as tf

    specs = [tf.TensorSpec((None, *item.shape[1:]), tf.float32) for item in inputs]
    tf.function(model, input_signature=specs).get_concrete_function()


@contextlib.contextmanager
def _timed(times: list[dict[str, float]]) -> Iterator[None]:
    cpu, wall = time.process_time(), time.perf_counter()
    yield
    times.append({"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall})


def forked(tree: Path, model: str, way: str) -> dict[str, float]:
    """The figures under one state of the code, in a process of its own that begins as this one is."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            sys.path.insert(0, str(tree))
            text = json.dumps(figures(model, way))
        except BaseException as error:
            text = json.dumps({"error": repr(error)})
        os.write(writing, text.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        result = json.loads(answer.read())
    os.waitpid(child, 0)
    if "error" in result:
        raise RuntimeError(f"{model} by {tree}: {result['error']}")
    return result


def turns(sides: Sequence[tuple[Path, str]], model: str, count: int) -> list[list[dict[str, float]]]:
    """For each side, a tree and a way, the figures of `count` processes."""
    importlib.import_module(MODELS[model][0])
    results: list[list[dict[str, float]]] = [[] for _ in sides]
    for turn in range(count):
        for place in range(len(sides)) if turn % 2 == 0 else reversed(range(len(sides))):
            results[place].append(forked(sides[place][0], model, sides[place][1]))
    return results


def row(model: str, way: str, before: Sequence[dict[str, float]], after: Sequence[dict[str, float]]) -> list[str]:
    """One line of the table: the medians of both sides and of the ratios."""
    cells = [model, {"proof": "with proof", "convert": "alone"}.get(way, way)]
    for name in MEASURES:
        if not all(item[name] for item in before):
            cells.append("-")
            continue
        ratio = statistics.median(new[name] / old[name] for old, new in zip(before, after, strict=True))
        scale, digits, unit = {"peak": (1e-6, 0, "MB"), "bytes": (1e-3, 1, "kB")}.get(name, (1.0, 3, "s"))
        old, new = (f"{statistics.median(item[name] for item in side) * scale:.{digits}f}" for side in (before, after))
        cells.append(f"{old}, {new} {unit}: {ratio:.2f}")
    return cells


def main() -> None:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tree", type=Path, help="the earlier checkout")
    parser.add_argument("--new", type=Path, default=HERE, help="the later checkout")
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--match", default="", help="how the names of the models begin")
    parser.add_argument("--ways", default="convert,proof")
    asked = parser.parse_args()
    old, new = asked.tree.resolve(), asked.new.resolve()
    print("| model | |", " | ".join(MEASURES), "|\n|", " | ".join("---" for _ in range(2 + len(MEASURES))), "|")
    for model in MODELS:
        if model.lower().startswith(asked.match.lower()):
            for way in asked.ways.split(","):
                # the floor is a way of the new state alone: what it is beside getting the concrete function
                sides = [(new, "floor"), (new, "convert")] if way == "floor" else [(old, way), (new, way)]
                print("|", " | ".join(row(model, way, *turns(sides, model, asked.pairs))), "|", flush=True)


if __name__ == "__main__":
    main()
