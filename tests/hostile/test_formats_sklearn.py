"""Files of estimators and boosters that nobody vouches for: no function that acts, no array that leads out of itself."""

from __future__ import annotations

import json
import operator
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn")
skops = pytest.importorskip("skops.io")
pytestmark = pytest.mark.sklearn

from sklearn.cluster import BisectingKMeans, KMeans  # noqa: E402
from sklearn.datasets import dump_svmlight_file  # noqa: E402
from sklearn.ensemble import HistGradientBoostingClassifier, StackingClassifier  # noqa: E402
from sklearn.feature_extraction.text import TfidfVectorizer  # noqa: E402
from sklearn.linear_model import LogisticRegression  # noqa: E402
from sklearn.metrics.pairwise import rbf_kernel  # noqa: E402
from sklearn.neighbors import KNeighborsClassifier  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import FunctionTransformer, SplineTransformer, StandardScaler  # noqa: E402
from sklearn.svm import SVC  # noqa: E402
from sklearn.tree import export_graphviz  # noqa: E402

import onnxport  # noqa: E402
from onnxport.errors import InvalidModelError, UntrustedFileError  # noqa: E402
from onnxport.tracing.sklearn import load  # noqa: E402

X = np.random.default_rng(0).normal(size=(80, 3))
Y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0)


def edited(model: Any, folder: Path, edit: Callable[[list[dict[str, Any]]], None]) -> Path:
    """The model's file with other nodes in its schema."""
    plain, place = folder / "plain.skops", folder / "model.skops"
    skops.dump(model, plain)
    with zipfile.ZipFile(plain) as old, zipfile.ZipFile(place, "w") as new:
        for item in old.infolist():
            data = old.read(item)
            if item.filename == "schema.json":
                schema = json.loads(data)
                edit(list(nodes(schema)))
                data = json.dumps(schema).encode()
            new.writestr(item.filename, data)
    return place


def nodes(item: Any) -> Any:
    if isinstance(item, dict):
        if "__loader__" in item:
            yield item
        for child in item.values():
            yield from nodes(child)
    elif isinstance(item, list):
        for child in item:
            yield from nodes(child)


@pytest.mark.parametrize(
    "function",
    [
        dump_svmlight_file,
        partial(dump_svmlight_file, f="canary"),
        export_graphviz,
        np.zeros(3).tofile,
        operator.methodcaller("tofile", "canary"),
        operator.attrgetter("__class__"),
        np.tile,
        np.memmap,
        json.loads,
    ],
    ids=["writes", "partial", "graphviz", "method", "methodcaller", "attrgetter", "grows", "memmap", "foreign"],
)
def test_functions_outside_of_the_list_are_refused(function: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        skops.dump(FunctionTransformer(function), tmp_path / "model.skops")
    except Exception:  # what skops itself does not write
        pytest.skip("skops does not write this function")
    for act in (onnxport.convert, lambda path, **options: onnxport.validate(path, path, **options)):
        with pytest.raises(UntrustedFileError, match="--allow-code"):
            act(tmp_path / "model.skops", inputs=X)
    assert not (tmp_path / "canary").exists()


@pytest.mark.parametrize("function", [np.log1p, np.nan_to_num, partial(np.clip, a_min=0, a_max=1)])
def test_functions_that_compute_load(function: Any, tmp_path: Path) -> None:
    model = make_pipeline(FunctionTransformer(function), StandardScaler()).fit(np.abs(X))
    skops.dump(model, tmp_path / "model.skops")
    converted = onnxport.convert(tmp_path / "model.skops", inputs=np.abs(X))
    np.testing.assert_allclose(converted(np.abs(X)), model.transform(np.abs(X)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("model", [StackingClassifier([("a", LogisticRegression()), ("b", SVC())]), BisectingKMeans(2)])
def test_what_scikit_learn_keeps_inside_loads(model: Any, tmp_path: Path) -> None:
    skops.dump(model.fit(X, Y > 0), tmp_path / "model.skops")
    np.testing.assert_array_equal(load(tmp_path / "model.skops").predict(X), model.predict(X))


def test_kernels_that_compute_load(tmp_path: Path) -> None:
    model = SVC(kernel=rbf_kernel).fit(X, Y)
    skops.dump(model, tmp_path / "model.skops")
    assert onnxport.validate(tmp_path / "model.skops", model, X).passed


@pytest.mark.parametrize(
    ("loader", "named"),
    [
        ("ListNode", "sklearn.datasets._samples_generator.make_blobs"),
        ("TupleNode", "sklearn.utils._bunch.bunch"),
        ("DictNode", "sklearn.datasets._base.clear_data_home"),
        ("DictNode", "collections.UserDict"),
        ("NdArrayNode", "numpy.fromfile"),
        ("NdArrayNode", "numpy.memmap"),
    ],
)
def test_nodes_call_no_function(loader: str, named: str, tmp_path: Path) -> None:
    def edit(found: list[dict[str, Any]]) -> None:
        node = next(item for item in found if item["__loader__"] == loader)
        node["__module__"], _, node["__class__"] = named.rpartition(".")

    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, Y)
    with pytest.raises(UntrustedFileError, match=named.rpartition(".")[2]):
        onnxport.convert(edited(model, tmp_path, edit), inputs=X)


def test_losses_call_no_function(tmp_path: Path) -> None:
    def edit(found: list[dict[str, Any]]) -> None:
        node = next(item for item in found if item["__loader__"] == "LossNode")
        node["__module__"], node["__class__"] = "sklearn.datasets._base", "Load"

    model = HistGradientBoostingClassifier(max_iter=2).fit(X, Y)
    with pytest.raises(UntrustedFileError, match="Load"):
        onnxport.convert(edited(model, tmp_path, edit), inputs=X)


@pytest.mark.parametrize("said", ["filename", "file"])
def test_vectorizers_open_no_files(said: str, tmp_path: Path) -> None:
    model = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(["one two", "two three"], [0, 1])
    model[0].input = said
    skops.dump(model, tmp_path / "model.skops")
    with pytest.raises(InvalidModelError, match="reads its documents from files"):
        onnxport.convert(tmp_path / "model.skops", inputs=["/etc/hostname"])


@pytest.mark.parametrize(
    ("pattern", "fine"),
    [(r"(?u)\b\w\w+\b", True), (r"[a-z]+|\d{2,4}", True), (r"(\w+)+\d", False), ("(a|ab)*c", False)],
)
def test_patterns_that_may_never_end_are_refused(pattern: str, fine: bool, tmp_path: Path) -> None:
    texts = ["one two 11", "two three 12"]
    model = make_pipeline(TfidfVectorizer(token_pattern=r"(?u)\b\w\w+\b"), LogisticRegression()).fit(texts, [0, 1])
    model[0].token_pattern = pattern
    skops.dump(model, tmp_path / "model.skops")
    if fine:
        load(tmp_path / "model.skops")
        return
    with pytest.raises(InvalidModelError, match="may never end"):
        load(tmp_path / "model.skops")


def hist(field: str, value: int) -> Any:
    model = HistGradientBoostingClassifier(max_iter=2).fit(X, Y)
    tree = model._predictors[0][0]
    tree.nodes[field][0] = value
    return model


def svc(name: str, value: Any) -> Any:
    model = SVC().fit(X, Y)
    setattr(model, name, value(getattr(model, name)))
    return model


def clusters() -> Any:
    model = KMeans(2, n_init=1, random_state=0).fit(X)
    model.cluster_centers_ = model.cluster_centers_[:, :1]
    return model


def splines() -> Any:
    model = SplineTransformer().fit(X)
    model.bsplines_[0].c = model.bsplines_[0].c[:1]
    return model


@pytest.mark.parametrize(
    "model",
    [
        lambda: hist("left", 1 << 20),
        lambda: hist("right", 0),
        lambda: hist("feature_idx", 99),
        lambda: svc("_n_support", lambda counts: counts * 1000),
        lambda: svc("_dual_coef_", lambda weights: weights[:, :2]),
        lambda: svc("_intercept_", lambda values: values[:1]),
        lambda: svc("support_vectors_", lambda vectors: vectors[:, :1]),
        clusters,
        splines,
    ],
)
def test_arrays_that_do_not_fit_are_refused(model: Any, tmp_path: Path) -> None:
    skops.dump(make_pipeline(StandardScaler().fit(X), model()), tmp_path / "model.skops")
    with pytest.raises(InvalidModelError, match="damaged or hostile"):
        onnxport.convert(tmp_path / "model.skops", inputs=X)


@pytest.mark.parametrize("kind", ["kd_tree", "ball_tree"])
def test_search_trees_load(kind: str, tmp_path: Path) -> None:
    model = KNeighborsClassifier(3, algorithm=kind).fit(X, Y)
    skops.dump(model, tmp_path / "model.skops")
    assert onnxport.validate(tmp_path / "model.skops", model, X).passed


def xgboost_file(folder: Path, suffix: str) -> Path:
    package = pytest.importorskip("xgboost")
    booster = package.train({"objective": "binary:logistic", "max_depth": 3}, package.DMatrix(X, Y > 0), 3)
    booster.save_model(folder / f"model{suffix}")
    return folder / f"model{suffix}"


def lightgbm_file(folder: Path) -> Path:
    package = pytest.importorskip("lightgbm")
    data = package.Dataset(X, Y > 0)
    package.train({"objective": "binary", "verbose": -1, "min_data_in_leaf": 3}, data, 3).save_model(
        folder / "model.txt"
    )
    return folder / "model.txt"


@pytest.mark.parametrize("suffix", [".json", ".ubj"])
def test_files_of_xgboost_load(suffix: str, tmp_path: Path) -> None:
    place = xgboost_file(tmp_path, suffix)
    assert onnxport.convert(place, inputs=X).report.passed
    place.write_bytes(place.read_bytes()[:-40])
    with pytest.raises(InvalidModelError, match="truncated"):
        onnxport.convert(place, inputs=X)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("left_children", 99999, "child"),
        ("left_children", 0, "child"),
        ("split_indices", 77, "column"),
        ("split_conditions", None, "length"),
    ],
)
def test_trees_of_xgboost_lead_to_leaves(field: str, value: Any, message: str, tmp_path: Path) -> None:
    place = xgboost_file(tmp_path, ".json")
    model = json.loads(place.read_text())
    tree = model["learner"]["gradient_booster"]["model"]["trees"][1]
    tree[field] = [value, *tree[field][1:]] if value is not None else tree[field][:-1]
    place.write_text(json.dumps(model))
    with pytest.raises(InvalidModelError, match=message):
        onnxport.convert(place, inputs=X)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("left_child", "9999", "child"),
        ("right_child", "0", "child"),
        ("split_feature", "77", "column"),
        ("threshold", "", "length"),
        ("num_leaves", "99", "length"),
        ("num_cat", "3", "KeyError"),
    ],
)
def test_trees_of_lightgbm_lead_to_leaves(field: str, value: str, message: str, tmp_path: Path) -> None:
    place = lightgbm_file(tmp_path)
    assert onnxport.convert(place, inputs=X).report.passed
    lines = place.read_text().split("\n")
    index = next(i for i, line in enumerate(lines) if line.startswith(f"{field}="))
    rest = lines[index].partition("=")[2].split(" ")[1:]
    changed = " ".join([value, *rest]).strip()
    width = len(lines[index]) - len(field) - 1  # the place of each tree stands in the file
    lines[index] = f"{field}={changed}"
    sizes = next(i for i, line in enumerate(lines) if line.startswith("tree_sizes="))
    first, *others = lines[sizes].partition("=")[2].split(" ")
    lines[sizes] = f"tree_sizes={int(first) + len(changed) - width} {' '.join(others)}"
    place.write_text("\n".join(lines))
    with pytest.raises(InvalidModelError, match=message):
        onnxport.convert(place, inputs=X)


def test_a_list_of_values_without_a_byte_is_no_ubjson():
    """``[$Z#L`` and a number: as many nulls as it says, from fourteen bytes."""
    from onnxport.tracing.trust.sklearn_ubjson import decoded

    assert decoded(b"{i\x01a[#i\x02i\x01Zi\x01b[$i#i\x02\x03\x04}")["a"] == [1, None]
    with pytest.raises(ValueError, match="without a byte"):
        decoded(b"[$Z#L" + (1 << 40).to_bytes(8, "big"))
