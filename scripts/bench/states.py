"""Two states of the code side by side: time, memory and bytes of the same conversions.

``python -m scripts.bench.states OLD [NEW] [--pairs 9] [--match KERAS] [--ways convert,proof]`` takes the folders of two checkouts
(NEW is this one where it is left out). Each conversion runs in a process of its own, old and new in turns, the first of a
pair exchanged from pair to pair. A cell is the median over the pairs of new / old.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import resource
import statistics
import subprocess
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


MODELS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "ResNet-50": resnet50,
    "ViT-B/16": vit_b16,
    "GPT, 4 layers": gpt,
    "Keras ResNet-50": keras_resnet50,
    "Keras MobileNetV2": mobilenet,
    "Keras, 2 dense layers": dense,
    "Scaler, RandomForest": pipeline("RandomForestClassifier", n_estimators=50),
    "Scaler, GradientBoosting": pipeline("GradientBoostingClassifier", n_estimators=50),
}


def one(model: str, way: str) -> dict[str, Any]:
    """The figures of one model in this process."""
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        times = []
        for turn in range(3):
            converted, inputs = MODELS[model]()
            with _timed(times):
                import onnxport

                if way == "floor":
                    _concrete(converted, inputs)
                else:
                    onnxport.convert(
                        converted, inputs=inputs, validate=way == "proof", output=None if turn else str(path)
                    )
        if path.exists():
            result.update(bytes=path.stat().st_size, sha=hashlib.sha256(path.read_bytes()).hexdigest())
    result.update({f"fresh {kind}": times[0][kind] for kind in ("cpu", "wall")})
    result.update({f"warm {kind}": min(item[kind] for item in times[1:]) for kind in ("cpu", "wall")})
    result["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    result["modules"] = sum(name.partition(".")[0] == "onnxport" for name in sys.modules)
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


def run(tree: Path, model: str, way: str) -> dict[str, Any]:
    """The figures of one model under one state of the code, in a process of its own."""
    # This folder stands behind the tree: the package is the tree's, this script ours.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(tree), str(HERE)))}
    command = [sys.executable, "-W", "ignore", "-m", "scripts.bench.states", "--one", model, "--ways", way]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tree, env=environment)
    if done.returncode:
        raise RuntimeError(f"{model} by {tree}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def pairs(trees: Sequence[Path], model: str, way: str, count: int) -> list[list[dict[str, Any]]]:
    """For each tree the figures of `count` processes."""
    results: list[list[dict[str, Any]]] = [[] for _ in trees]
    for turn in range(count):
        for side in range(len(trees)) if turn % 2 == 0 else reversed(range(len(trees))):
            results[side].append(run(trees[side], model, way))
    return results


def row(model: str, way: str, before: Sequence[dict[str, Any]], after: Sequence[dict[str, Any]]) -> list[str]:
    """One line of the table: medians of the ratios, and of the old and the new figure."""
    cells = [model, "with proof" if way == "proof" else "alone"]
    for name in MEASURES:
        ratio = statistics.median(new[name] / old[name] for old, new in zip(before, after, strict=True))
        scale, unit = {"peak": (1e-6, "MB"), "bytes": (1e-3, "kB")}.get(name, (1.0, "s"))
        medians = (statistics.median(item[name] * scale for item in side) for side in (before, after))
        text = " -> ".join(f"{number:.0f}" if unit != "s" else f"{number:.2f}" for number in medians)
        cells.append(f"{text} {unit} ({ratio:.2f})")
    return cells


def main() -> None:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trees", nargs="*", type=Path)
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--match", default="")
    parser.add_argument("--ways", default="convert,proof")
    parser.add_argument("--one")
    asked = parser.parse_args()
    if asked.one:
        print(json.dumps(one(asked.one, asked.ways)))
        return
    trees = [tree.resolve() for tree in (*asked.trees, HERE)[:2]]
    print("| model | |", " | ".join(MEASURES), "|\n|", " | ".join("---" for _ in range(2 + len(MEASURES))), "|")
    for model in MODELS:
        if asked.match.lower() in model.lower():
            for way in asked.ways.split(","):
                before, after = pairs(trees, model, way, asked.pairs)
                print("|", " | ".join(row(model, way, before, after)), "|", flush=True)


if __name__ == "__main__":
    main()
