"""Operators of ai.onnx.ml in the importers, against onnxruntime."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import onnxport
from tests.evidence import require_import
from tests.importers.onnx_cases import DOUBLE, FLOAT, INT64, STRING, Node

ML = "ai.onnx.ml"
TRANSFORMS = ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT"]
R = np.random.default_rng(7)


def floats(*shape: int) -> np.ndarray:
    return R.normal(size=shape).astype(np.float32)


def strings(*items: str) -> np.ndarray:
    return np.asarray(items, object)


X = floats(9, 4)
X_NAN = X.copy()
X_NAN[::3, 1] = np.nan
X_NAN[1::3, 0] = np.nan


def ml(op: str, inputs: Any, outputs: Any = (FLOAT,), ml: int = 3, **attributes: Any) -> Node:
    inputs = inputs if isinstance(inputs, (list, tuple)) else [inputs]
    return Node(op, inputs, outputs, attributes, ML, 21 if ml > 3 else 17, ml)


def forest(
    trees: int, depth: int, features: int, modes: list[str], targets: int, prefix: str, rng: Any, **options: Any
) -> dict[str, Any]:
    """Attributes of random complete trees, nodes numbered by level, thresholds and leaf weights drawn."""
    rows: dict[str, list[Any]] = {
        key: [] for key in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")
    }
    leaves: dict[str, list[Any]] = {key: [] for key in ("treeids", "nodeids", "ids", "weights")}
    inner = 2**depth - 1
    for tree in range(trees):
        for node in range(2 * inner + 1):
            leaf = node >= inner
            value = (
                0.0
                if leaf
                else float(np.float32(rng.choice([-1, 0, 0.5, 1]) if options.get("discrete") else rng.normal()))
            )
            for key, item in zip(
                rows,
                (tree, node, 0 if leaf else int(rng.integers(features)), value, "LEAF" if leaf else str(rng.choice(modes)),
                 0 if leaf else 2 * node + 1, 0 if leaf else 2 * node + 2),
                strict=True,
            ):  # fmt: skip
                rows[key].append(item)
            if leaf:
                for target in options.get("voted", range(targets)):
                    if options.get("sparse") and rng.random() < 0.4:
                        continue
                    weight = rng.normal() if not options.get("positive") else rng.random() / trees
                    for key, item in zip(leaves, (tree, node, target, float(np.float32(weight))), strict=True):
                        leaves[key].append(item)
    found = {f"nodes_{key}": items for key, items in rows.items()}
    if options.get("missing"):
        found["nodes_missing_value_tracks_true"] = [int(rng.integers(2)) for _ in rows["modes"]]
    return found | {f"{prefix}_{key}": items for key, items in leaves.items()}


def regressors() -> list[Any]:
    rows = []
    all_modes = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]
    discrete = R.choice([-1, 0, 0.5, 1], (9, 4)).astype(np.float32)
    for how, targets in itertools.product(["SUM", "AVERAGE", "MIN", "MAX"], [1, 3]):
        attributes = forest(5, 3, 4, ["BRANCH_LEQ"], targets, "target", R)
        rows.append(ml("TreeEnsembleRegressor", X, n_targets=targets, aggregate_function=how, **attributes))
        base = [0.25, -1.0, 2.0][:targets]
        rows.append(
            ml("TreeEnsembleRegressor", X, n_targets=targets, aggregate_function=how, base_values=base, **attributes)
        )
    for mode in all_modes:
        rows.append(
            ml("TreeEnsembleRegressor", discrete, n_targets=2, **forest(3, 3, 4, [mode], 2, "target", R, discrete=True))
        )
    rows.append(
        ml("TreeEnsembleRegressor", discrete, n_targets=2, **forest(4, 4, 4, all_modes, 2, "target", R, discrete=True))
    )
    for mode in all_modes:
        rows.append(
            ml("TreeEnsembleRegressor", X_NAN, n_targets=1, **forest(4, 3, 4, [mode], 1, "target", R, missing=True))
        )
    rows.append(ml("TreeEnsembleRegressor", X_NAN, n_targets=1, **forest(4, 3, 4, all_modes, 1, "target", R)))
    for transform in TRANSFORMS[:4]:
        rows.append(
            ml(
                "TreeEnsembleRegressor",
                X,
                n_targets=3,
                post_transform=transform,
                **forest(3, 2, 4, ["BRANCH_LEQ"], 3, "target", R),
            )
        )
        rows.append(
            ml(
                "TreeEnsembleRegressor",
                X,
                n_targets=1,
                post_transform=transform,
                **forest(3, 2, 4, ["BRANCH_LEQ"], 1, "target", R),
            )
        )
    probit = forest(3, 2, 4, ["BRANCH_LEQ"], 2, "target", R, positive=True)
    rows.append(ml("TreeEnsembleRegressor", X, n_targets=2, post_transform="PROBIT", **probit))
    rows.append(ml("TreeEnsembleRegressor", X, n_targets=1, **forest(3, 0, 4, ["BRANCH_LEQ"], 1, "target", R)))
    for how in ("SUM", "MIN", "MAX"):
        sparse = forest(6, 2, 4, ["BRANCH_LEQ"], 3, "target", R, sparse=True)
        rows.append(ml("TreeEnsembleRegressor", X, n_targets=3, aggregate_function=how, **sparse))
    double = forest(4, 3, 4, ["BRANCH_LEQ"], 2, "target", R)
    for key in ("nodes_values", "target_weights"):
        double[f"{key}_as_tensor"] = numpy_helper.from_array(np.asarray(double.pop(key), np.float64) / 3, key)
    rows.append(ml("TreeEnsembleRegressor", X.astype(np.float64), n_targets=2, **double))
    return rows


def classifiers() -> list[Any]:
    rows = []
    both = (INT64, FLOAT)
    for transform in TRANSFORMS[:4]:
        for base in (None, [0.1, -0.2, 0.3]):
            extra = {} if base is None else {"base_values": base}
            attributes = forest(5, 3, 4, ["BRANCH_LEQ"], 3, "class", R)
            rows.append(
                ml(
                    "TreeEnsembleClassifier",
                    X,
                    both,
                    classlabels_int64s=[2, 5, 9],
                    post_transform=transform,
                    **attributes,
                    **extra,
                )
            )
        for base, voted, positive in itertools.product((None, [0.2], [0.2, 0.4]), ((0,), (1,), (0, 1)), (True, False)):
            extra = {} if base is None else {"base_values": base}
            attributes = forest(5, 2, 4, ["BRANCH_LEQ"], 2, "class", R, voted=voted, positive=positive)
            rows.append(
                ml(
                    "TreeEnsembleClassifier",
                    X,
                    both,
                    classlabels_int64s=[0, 1],
                    post_transform=transform,
                    **attributes,
                    **extra,
                )
            )
    attributes = forest(5, 3, 4, ["BRANCH_LEQ"], 3, "class", R, sparse=True)
    rows.append(ml("TreeEnsembleClassifier", X, both, classlabels_int64s=[0, 1, 2], **attributes))
    rows.append(ml("TreeEnsembleClassifier", X, (STRING, FLOAT), classlabels_strings=["a", "b", "c"], **attributes))
    two = forest(5, 3, 4, ["BRANCH_LEQ"], 2, "class", R, voted=(0,))
    rows.append(ml("TreeEnsembleClassifier", X, (STRING, FLOAT), classlabels_strings=["no", "yes"], **two))
    rows.append(ml("TreeEnsembleClassifier", X, both, classlabels_int64s=[7, 3], **two))
    return rows


def ensembles() -> list[Any]:
    """TreeEnsemble of version 5: inner nodes and leaves apart, modes as numbers, sets of members."""
    rows = []
    for dtype, how, transform, targets in itertools.product((np.float32, np.float64), range(4), range(3), (1, 2)):
        inner = 7
        trees = 2
        modes = R.integers(0, 6, inner * trees).astype(np.uint8)
        offset = np.repeat(np.arange(trees), inner)
        local = np.tile(np.arange(inner), trees)
        is_leaf = local * 2 + 1 >= inner
        child = np.where(is_leaf, offset * 8 + (local * 2 + 1 - inner), offset * inner + local * 2 + 1)
        rows.append(
            ml(
                "TreeEnsemble",
                R.choice([-1, 0, 0.5, 1], (6, 4)).astype(dtype),
                (DOUBLE if dtype == np.float64 else FLOAT,),
                ml=5,
                aggregate_function=how,
                post_transform=transform,
                n_targets=targets,
                tree_roots=[0, inner],
                nodes_modes=numpy_helper.from_array(modes),
                nodes_featureids=R.integers(0, 4, inner * trees).tolist(),
                nodes_splits=numpy_helper.from_array(R.choice([-1, 0, 0.5, 1], inner * trees).astype(dtype)),
                nodes_truenodeids=child.tolist(),
                nodes_trueleafs=is_leaf.astype(int).tolist(),
                nodes_falsenodeids=(child + 1).tolist(),
                nodes_falseleafs=is_leaf.astype(int).tolist(),
                leaf_targetids=R.integers(0, targets, 16).tolist(),
                leaf_weights=numpy_helper.from_array(R.normal(size=16).astype(dtype)),
            )
        )
    rows.append(
        ml(
            "TreeEnsemble",
            np.array([[1.2, 3.4, -0.12], [1.66, 12, 7]], np.float32).reshape(-1, 1),
            ml=5,
            n_targets=4,
            aggregate_function=1,
            post_transform=0,
            tree_roots=[0],
            nodes_modes=numpy_helper.from_array(np.array([0, 6, 6], np.uint8)),
            nodes_featureids=[0, 0, 0],
            nodes_splits=numpy_helper.from_array(np.array([11, 232344.0, np.nan], np.float32)),
            nodes_truenodeids=[1, 0, 1],
            nodes_trueleafs=[0, 1, 1],
            nodes_falsenodeids=[2, 2, 3],
            nodes_falseleafs=[1, 0, 1],
            leaf_targetids=[0, 1, 2, 3],
            leaf_weights=numpy_helper.from_array(np.array([1, 10, 1000, 100], np.float32)),
            membership_values=numpy_helper.from_array(np.array([1.2, 3.7, 8, 9, np.nan, 12, 7, np.nan], np.float32)),
        )
    )
    return rows


def linear_models() -> list[Any]:
    rows = []
    three = {"coefficients": floats(12).tolist(), "intercepts": [0.1, -0.2, 0.3]}
    one = {"coefficients": floats(4).tolist(), "intercepts": [0.1]}
    whole = R.integers(-5, 5, (6, 4))
    for transform in TRANSFORMS[:4]:
        rows.append(
            ml("LinearClassifier", X, (INT64, FLOAT), classlabels_ints=[4, 6, 5], post_transform=transform, **three)
        )
        rows.append(
            ml("LinearClassifier", X, (STRING, FLOAT), classlabels_strings=["a", "b"], post_transform=transform, **one)
        )
        rows.append(ml("LinearRegressor", X, targets=3, post_transform=transform, **three))
    for inputs in (X.astype(np.float64), whole, whole.astype(np.int32)):
        rows.append(ml("LinearClassifier", inputs, (INT64, FLOAT), classlabels_ints=[0, 1, 2], **three))
    rows.append(ml("LinearRegressor", X, coefficients=three["coefficients"], targets=3))
    rows.append(ml("LinearRegressor", X, **one))
    vectors = floats(6 * 4).tolist()
    kernels = [("LINEAR", [0.0] * 3), ("RBF", [0.3, 0.0, 3.0]), ("POLY", [0.2, 1.0, 3.0]), ("SIGMOID", [0.1, 0.2, 3.0])]
    for kernel, parameters in kernels:
        shared = {"kernel_type": kernel, "kernel_params": parameters, "support_vectors": vectors}
        for one_class in (0, 1):
            rows.append(
                ml(
                    "SVMRegressor",
                    X,
                    coefficients=floats(6).tolist(),
                    rho=[0.3],
                    n_supports=6,
                    one_class=one_class,
                    **shared,
                )
            )
        duels = {"coefficients": floats(12).tolist(), "rho": [0.1, -0.2, 0.3], "vectors_per_class": [2, 1, 3]}
        pair = {"coefficients": floats(6).tolist(), "rho": [0.1], "vectors_per_class": [2, 4]}
        for transform in TRANSFORMS[:4]:
            rows.append(
                ml(
                    "SVMClassifier",
                    X,
                    (INT64, FLOAT),
                    classlabels_ints=[4, 6, 5],
                    post_transform=transform,
                    **duels,
                    **shared,
                )
            )
            rows.append(
                ml(
                    "SVMClassifier",
                    X,
                    (STRING, FLOAT),
                    classlabels_strings=["a", "b"],
                    post_transform=transform,
                    **pair,
                    **shared,
                )
            )
        rows.append(
            ml(
                "SVMClassifier",
                X,
                (INT64, FLOAT),
                classlabels_ints=[0, 1, 2],
                prob_a=[-1.0, -2.0, -0.5],
                prob_b=[0.1, 0.2, 0.0],
                **duels,
                **shared,
            )
        )
        rows.append(
            ml(
                "SVMClassifier",
                X,
                (INT64, FLOAT),
                classlabels_ints=[0, 1],
                prob_a=[-1.0],
                prob_b=[0.1],
                **pair,
                **shared,
            )
        )
    liblinear = {"coefficients": floats(12).tolist(), "rho": [0.1], "kernel_params": [0.0] * 3}
    rows.append(ml("SVMClassifier", X, (INT64, FLOAT), classlabels_ints=[0, 1, 2], **liblinear))
    rows.append(
        ml(
            "SVMClassifier",
            X,
            (INT64, FLOAT),
            classlabels_ints=[0, 1],
            **{**liblinear, "coefficients": floats(8).tolist()},
        )
    )
    rows.append(ml("SVMRegressor", X, coefficients=floats(4).tolist(), rho=[0.3], kernel_params=[0.0] * 3))
    return rows


def feature_transforms() -> list[Any]:
    zero = X.copy()
    zero[2] = 0
    whole = R.integers(-3, 3, (5, 4))
    words = strings("a", "b", "zz", "a", "ü").reshape(-1, 1)
    many = [f"w{i}" for i in range(40)]
    rows = [ml("Scaler", x, offset=offset, scale=scale)
            for x in (X, X.astype(np.float64), whole)
            for offset, scale in (([0.5], [2.0]), ([0.5, 1.0, 2.0, -1.0], [1.0, 2.0, 3.0, 4.0]))]  # fmt: skip
    rows += [ml("Normalizer", x, norm=norm) for x in (X, zero, whole) for norm in ("MAX", "L1", "L2")]
    rows += [ml("Binarizer", X, threshold=t) for t in (0.0, 0.3)]
    rows += [
        ml("Imputer", X_NAN, imputed_value_floats=v, replaced_value_float=float("nan"))
        for v in ([9.0], [1.0, 2.0, 3.0, 4.0])
    ]
    rows += [
        ml("Imputer", whole, (INT64,), imputed_value_int64s=v, replaced_value_int64=2) for v in ([9], [1, 2, 3, 4])
    ]
    rows += [
        ml("ArrayFeatureExtractor", [X, np.array([2, 0])]),
        ml("ArrayFeatureExtractor", [floats(5), np.array([2, 0, 2])]),
    ]
    rows += [ml("FeatureVectorizer", [X, floats(9, 2)], inputdimensions=[4, 2])]
    rows += [
        ml("LabelEncoder", words, (INT64,), keys_strings=["a", "ü"], values_int64s=[5, 6], default_int64=-7),
        ml(
            "LabelEncoder",
            strings(*many, "none", "w3").reshape(-1, 1),
            (INT64,),
            keys_strings=many,
            values_int64s=list(range(40)),
        ),
        ml("LabelEncoder", words, (FLOAT,), keys_strings=["a", "b"], values_floats=[0.5, 6.0], default_float=-7.0),
        ml("LabelEncoder", whole, (STRING,), keys_int64s=[-1, 2], values_strings=["n", "p"]),
        ml("LabelEncoder", whole, (INT64,), keys_int64s=[-1, 2], values_int64s=[11, 12]),
        ml("LabelEncoder", X_NAN, (STRING,), keys_floats=[float("nan"), 2.0], values_strings=["none", "p"]),
        ml("LabelEncoder", X_NAN, (STRING,), ml=4, keys_floats=[float("nan"), 2.0], values_strings=["none", "p"]),
        ml("LabelEncoder", np.arange(-2, 50), (INT64,), keys_int64s=list(range(40)), values_int64s=list(range(40, 0, -1))),
        ml("LabelEncoder", words, (FLOAT,), ml=4, keys_tensor=numpy_helper.from_array(strings("a", "b")),
           values_tensor=numpy_helper.from_array(np.array([3.5, 4.5], np.float32)),
           default_tensor=numpy_helper.from_array(np.array([-1.5], np.float32))),
        ml("OneHotEncoder", words, cats_strings=["b", "a", "zz"]),
        ml("OneHotEncoder", whole, cats_int64s=[2, -1]),
        ml("CategoryMapper", words, (INT64,), cats_strings=["a", "ü"], cats_int64s=[4, 5]),
        ml("CategoryMapper", whole, (STRING,), cats_strings=["a", "ü"], cats_int64s=[-1, 2]),
    ]  # fmt: skip
    rows += [ml("LabelEncoder", words, (INT64,), ml=1, classes_strings=["zz", "a"])]
    return rows


ROWS = regressors() + classifiers() + ensembles() + linear_models() + feature_transforms()
IDS = [f"{i}-{row.op}" for i, row in enumerate(ROWS)]


def as_specified(row: Node) -> onnx.ModelProto:
    """The model, with the post-transform of a TreeEnsemble by an operator of its own: onnxruntime takes one for another."""
    transform = row.attributes.get("post_transform") if row.op == "TreeEnsemble" else 0
    if not transform:
        return row.model()
    model = replace(row, attributes={**row.attributes, "post_transform": 0}).model()
    model.graph.node[0].output[0] = "scores"
    model.graph.node.append(helper.make_node({1: "Softmax", 2: "Sigmoid"}[transform], ["scores"], ["y0"]))
    return model


@pytest.mark.sampled(0.1)
@pytest.mark.tensorflow
@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_tensorflow(row: Node) -> None:
    require_import(row.ir(), "tensorflow", tuple(row.arrays()), by=as_specified(row))


@pytest.mark.sklearn
@pytest.mark.parametrize(
    "to", [pytest.param("pytorch", marks=pytest.mark.pytorch), pytest.param("tensorflow", marks=pytest.mark.tensorflow)]
)
@pytest.mark.parametrize("labels", [[3, 7], ["no", "yes"]])
def test_a_zipmap_is_a_vector_for_each_label(to, labels, tmp_path):
    linear = pytest.importorskip("sklearn.linear_model")
    x = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
    model = linear.LogisticRegression().fit(x, np.array(labels)[(x[:, 0] > 0).astype(int)])
    path = tmp_path / "model.onnx"
    onnxport.convert(model, inputs=x, options={"zipmap": True}, output=path)
    module = onnxport.convert(path, to=to, inputs=(x,))
    assert module.onnxport_report.passed
    tensor = __import__("torch").tensor(x) if to == "pytorch" else x
    maps = module(tensor)[1]
    assert list(maps) == labels
    np.testing.assert_allclose(
        np.stack([np.asarray(maps[key]) for key in labels], axis=1), model.predict_proba(x), rtol=1e-5
    )


@pytest.mark.parametrize(
    "to", [pytest.param(name, marks=getattr(pytest.mark, name)) for name in ("pytorch", "tensorflow", "keras")]
)
@pytest.mark.parametrize("dtype", [np.int64, np.float32])
def test_a_category_unknown_to_an_encoder_is_an_error(to, dtype):
    known, unknown = np.array([[3], [0], [-1]], dtype), np.array([[3], [5], [0]], dtype)
    row = ml("OneHotEncoder", [known], cats_int64s=[3, -1, 0], zeros=0)
    module = require_import(row.ir(), to, (known,))
    given = __import__("torch").from_numpy(unknown) if to == "pytorch" else unknown
    with pytest.raises(Exception, match=r"index 3 is out of bounds|indices\[1,0\] = 3 is not in"):
        module(given)
