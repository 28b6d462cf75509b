"""Right conversions that are hard to compare: float16, sums that cancel, ties, large numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import onnxport
from scripts.conformance.mutants_subjects import keras_models


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


def rights(seeds: int, names: frozenset[str] = frozenset()) -> Iterator[Right]:
    """Right conversions of models that are hard to compare, with given and drawn inputs; by default of all of them."""
    for name, model, draw in _hard_torch():
        if names and name not in names:
            continue
        converted = onnxport.convert(model, inputs=draw(0), validate=False)
        imported = onnxport.convert(converted, to="pytorch", validate=False)
        for seed in range(seeds):
            yield Right(name, "pytorch to onnx", model, converted, draw(seed), seed)
            yield Right(name, "onnx to pytorch", converted, imported, None, seed)
    for name, model, inputs in () if names else keras_models():
        converted = onnxport.convert(model, inputs=inputs, validate=False)
        for seed in range(seeds):
            given = (np.random.default_rng(seed).standard_normal((3, 6)).astype(np.float32) * 10**seed,)
            yield Right(name, "keras to onnx", model, converted, given, seed)
    for name, model, table in _hard_sklearn():
        if names and name not in names:
            continue
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
