"""Files of skl2onnx: estimators as they come, classifiers with ZipMap and without."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import all_estimators

from scripts.conformance.foreign_files import Write

ROWS = 40
OPSETS = (15, 17, 21)
# Constructor arguments that an estimator needs or that keep it small.
_SMALL = {"n_estimators": 4, "max_iter": 60, "n_components": 2, "n_init": 1, "n_quantiles": 20}
_NONE_LEFT = {"Lasso", "LassoLars", "MultiTaskLasso", "QuantileRegressor"}  # their alpha of 1 leaves no coefficient
_TEXT = ("CountVectorizer", "TfidfVectorizer")


def _built(name: str, kind: type) -> Any:
    import inspect

    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.tree import DecisionTreeClassifier

    names = inspect.signature(kind.__init__).parameters  # type: ignore[misc]
    values: dict[str, Any] = {key: value for key, value in _SMALL.items() if key in names}
    if name in _NONE_LEFT:
        values["alpha"] = 0.01
    if "random_state" in names:
        values["random_state"] = 0
    if "estimators" in names:
        pair = (
            (LogisticRegression(), DecisionTreeClassifier(max_depth=2))
            if "Classifier" in name
            else (Ridge(), Ridge(2.0))
        )
        values["estimators"] = [("a", pair[0]), ("b", pair[1])]
    elif names.get("estimator") is not None and names["estimator"].default is inspect.Parameter.empty:
        values["estimator"] = Ridge() if "Regress" in name else LogisticRegression()
    return kind(**values)


def _tables(kind: str) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((60, 4)).astype(np.float32)
    y = x[:, 0] + 0.5 * x[:, 1] ** 2
    return (x, np.digitize(y, [-0.3, 0.6])) if kind in ("classifier", "transformer") else (x, y)


def _write(name: str, kind: str, zipmap: bool, opset: int, path: Path) -> Sequence[Sequence[np.ndarray]]:
    import skl2onnx
    from skl2onnx.common.data_types import FloatTensorType, StringTensorType

    made = _built(name, dict(all_estimators())[name])
    rng = np.random.default_rng(3)
    options = {id(made): {"zipmap": zipmap}} if kind == "classifier" else None
    if name in _TEXT:
        texts = ["the cat sat on a mat", "a dog ate the cat", "mats and dogs", "the bird flew over the dog"]
        made.fit(texts)
        proto = skl2onnx.convert_sklearn(
            made, initial_types=[("text", StringTensorType([None, 1]))], target_opset=opset
        )
        path.write_bytes(proto.SerializeToString())
        rows = np.array(texts, dtype=object)[:, None]
        return [[rows], [rows[::-1]], [rows[:1]]]
    x, y = _tables(kind)
    if name.startswith(
        (
            "Multinomial",
            "Complement",
            "Categorical",
            "Poisson",
            "Gamma",
            "AdditiveChi2",
            "Ordinal",
            "OneHot",
            "NMF",
            "MiniBatchNMF",
            "LatentDirichlet",
        )
    ):
        x = np.abs(np.round(2 * x))
    if name.startswith(("Poisson", "Gamma", "Tweedie")):
        y = np.abs(y) + 0.1
    if name.startswith(("Multi", "RegressorChain", "ClassifierChain")) and name not in ("MultinomialNB",):
        y = np.stack([y, y[::-1]], axis=1)
    if name == "IsotonicRegression":
        x = x[:, :1]
    made.fit(x, y)
    proto = skl2onnx.convert_sklearn(
        made,
        initial_types=[("X", FloatTensorType([None, x.shape[1]]))],
        target_opset={"": opset, "ai.onnx.ml": 3},
        options=options,
    )
    path.write_bytes(proto.SerializeToString())
    return [[x[:ROWS]], [x[rng.permutation(len(x))[:ROWS]]], [x[:7]]]


def recipes() -> Iterator[tuple[str, Write]]:
    """Every estimator of scikit-learn: what skl2onnx or scikit-learn does not take is left out when it is written."""
    index = 0
    for kind in ("classifier", "regressor", "transformer", "cluster", "outlier_detector"):
        for name, made in all_estimators(kind if kind != "outlier_detector" else None):
            if kind == "outlier_detector" and name not in ("IsolationForest", "LocalOutlierFactor", "OneClassSVM"):
                continue
            if "Dummy" in name or not hasattr(made, "fit"):
                continue
            opset = OPSETS[index % len(OPSETS)]
            index += 1
            for zipmap in (True, False) if kind == "classifier" else (False,):
                label = f"skl2onnx{' with ZipMap' if zipmap else ''}/{name}_{opset}"
                yield label, lambda path, a=(name, kind, zipmap, opset): _write(*a, path)  # type: ignore[misc]
