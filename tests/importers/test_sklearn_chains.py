"""Graphs of ONNX-ML's operators as other converters write them, back to scikit-learn's estimators, against onnxruntime."""

import numpy as np
import onnx
import onnx.helper as make
import onnxruntime
import pytest

import onnxport

sklearn = pytest.importorskip("sklearn", reason="scikit-learn is an extra")
pytestmark = pytest.mark.sklearn

from onnxport.sklearn import OnnxEstimator  # noqa: E402

FLOAT, INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
ROWS = np.random.default_rng(0).normal(size=(30, 3)).astype(np.float32)
# x0 <= 0.25 ? (x2 <= -0.5 ? leaf 2 : leaf 3) : leaf 4, and a second tree x1 <= 0 ? leaf 1 : leaf 2
NODES = {
    "nodes_treeids": [0, 0, 0, 0, 0, 1, 1, 1],
    "nodes_nodeids": [0, 1, 2, 3, 4, 0, 1, 2],
    "nodes_featureids": [0, 2, 0, 0, 0, 1, 0, 0],
    "nodes_values": [0.25, -0.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
    "nodes_modes": ["BRANCH_LEQ", "BRANCH_LEQ", "LEAF", "LEAF", "LEAF", "BRANCH_LEQ", "LEAF", "LEAF"],
    "nodes_truenodeids": [1, 2, 0, 0, 0, 1, 0, 0],
    "nodes_falsenodeids": [4, 3, 0, 0, 0, 2, 0, 0],
}
LEAVES = {"treeids": [0, 0, 0, 1, 1], "nodeids": [2, 3, 4, 1, 2]}
TARGETS = {f"target_{name}": items for name, items in LEAVES.items()} | {"target_ids": [0] * 5, "n_targets": 1}
# of each leaf the shares of two of three classes
SHARES = {f"class_{name}": [item for item in items for _ in (0, 1)] for name, items in LEAVES.items()} | {
    "class_ids": [0, 2] * 5
}
WEIGHTS = [0.4375, 0.125, 0.25, 0.3125, 0.0]
PARTS = [part for weight in WEIGHTS for part in (0.5 - weight, weight)]
SCALER = ("Scaler", {"offset": [0.5, -1.0, 2.0], "scale": [2.0, 0.5, 1.0]})
REGRESSOR = ("LinearRegressor", {"coefficients": [1.0, -2.0, 0.5], "intercepts": [0.25]})
LABELS = {"classlabels_strings": ["high", "low", "mid"]}
THREE = {"coefficients": [1.0, -2.0, 0.5, 0.1, 0.2, 0.3, -1.0, 1.0, 0.0], "intercepts": [0.25, 0.0, -0.5]}
TWO = {"coefficients": [-1.0, 2.0, -0.5, 1.0, -2.0, 0.5], "intercepts": [-0.25, 0.25], "classlabels_ints": [3, 7]}
LOGISTIC = ("LinearClassifier", {**THREE, **LABELS, "post_transform": "SOFTMAX"})
VECTORS = {
    "n_supports": 2,
    "support_vectors": [1.0, 0.0, -1.0, 0.5, 0.5, 0.5],
    "coefficients": [1.0, -0.5],
    "rho": [0.1],
}

CASES = [
    ("StandardScaler", [SCALER]),
    ("Normalizer", [("Normalizer", {"norm": "L2"})]),
    ("Binarizer", [("Binarizer", {"threshold": 0.25})]),
    ("SimpleImputer", [("Imputer", {"imputed_value_floats": [1.0, 2.0, 3.0], "replaced_value_float": float("nan")})]),
    ("LinearRegression", [REGRESSOR]),
    ("Pipeline", [SCALER, REGRESSOR]),
    ("LogisticRegression", [LOGISTIC]),
    ("LogisticRegression", [("LinearClassifier", {**TWO, "post_transform": "LOGISTIC"})]),
    ("LinearSVC", [("LinearClassifier", {**THREE, **LABELS})]),
    ("Pipeline", [SCALER, LOGISTIC]),
    ("SVR", [("SVMRegressor", {**VECTORS, "kernel_type": "RBF", "kernel_params": [0.5, 0.0, 3.0]})]),
    ("RandomForestRegressor", [("TreeEnsembleRegressor", {**NODES, **TARGETS, "target_weights": WEIGHTS})]),
    (
        "GradientBoostingRegressor",
        [("TreeEnsembleRegressor", {**NODES, **TARGETS, "target_weights": WEIGHTS, "base_values": [2.0]})],
    ),
    (
        "RandomForestClassifier",
        [("TreeEnsembleClassifier", {**NODES, **SHARES, "class_weights": PARTS, "classlabels_int64s": [0, 1, 2]})],
    ),
]


def chain(steps, zipmap):
    """A model of nodes one behind the other; the last one's scores as maps with `zipmap`."""
    nodes, name = [], "X"
    for place, (op, attributes) in enumerate(steps):
        classifies = op.endswith("Classifier")
        last = place == len(steps) - 1
        outputs = (
            ["label", "scores" if zipmap else "probabilities"] if classifies else ["variable" if last else f"h{place}"]
        )
        nodes.append(make.make_node(op, [name], outputs, domain="ai.onnx.ml", **attributes))
        name = outputs[0]
    if nodes[-1].op_type.endswith("Classifier"):
        labels = {
            item.name: list(onnx.helper.get_attribute_value(item))
            for item in nodes[-1].attribute
            if "labels" in item.name
        }
        text = "classlabels_strings" in labels
        outs = [make.make_tensor_value_info("label", onnx.TensorProto.STRING if text else INT64, [None])]
        if zipmap:
            keys = {name.replace("classlabels_ints", "classlabels_int64s"): items for name, items in labels.items()}
            nodes.append(make.make_node("ZipMap", ["scores"], ["probabilities"], domain="ai.onnx.ml", **keys))
            maps = make.make_map_type_proto(
                onnx.TensorProto.STRING if text else INT64, make.make_tensor_type_proto(FLOAT, None)
            )
            outs.append(make.make_value_info("probabilities", make.make_sequence_type_proto(maps)))
        else:
            outs.append(make.make_tensor_value_info("probabilities", FLOAT, [None, len(next(iter(labels.values())))]))
    else:
        outs = [make.make_tensor_value_info("variable", FLOAT, [None, None])]
    graph = make.make_graph(nodes, "g", [make.make_tensor_value_info("X", FLOAT, [None, 3])], outs)
    opsets = [make.make_opsetid("", 15), make.make_opsetid("ai.onnx.ml", 1)]
    return make.make_model(graph, opset_imports=opsets, ir_version=8)


# Maps of probabilities, as skl2onnx writes them by default.
MAPPED = [
    (*row, True) for row in CASES if row[0] in ("LogisticRegression", "RandomForestClassifier") and len(row[1]) == 1
][::2]
EVERY = [*((*row, False) for row in CASES), *MAPPED]


@pytest.mark.parametrize(("name", "steps", "zipmap"), EVERY, ids=[f"{row[0]}-{i}" for i, row in enumerate(EVERY)])
def test_operators_become_estimators(name, steps, zipmap):
    classifies = steps[-1][0].endswith("Classifier")
    model = chain(steps, zipmap)
    rebuilt = onnxport.convert(model, to="sklearn")
    assert type(rebuilt).__name__ == name
    rows = np.where(ROWS > 1.5, np.nan, ROWS).astype(np.float32) if name == "SimpleImputer" else ROWS
    expected = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"X": rows})
    if not classifies:
        method = rebuilt.predict if hasattr(rebuilt, "predict") else rebuilt.transform
        assert np.allclose(np.reshape(method(rows), expected[0].shape), expected[0], rtol=1e-5, atol=1e-6)
        return
    assert np.array_equal(rebuilt.predict(rows), expected[0])
    scores = expected[1]
    if zipmap:
        scores = np.array([[row[key] for key in rebuilt.classes_.tolist()] for row in scores])
    given = rebuilt.predict_proba(rows) if hasattr(rebuilt, "predict_proba") else rebuilt.decision_function(rows)
    assert np.allclose(given, scores, rtol=1e-5, atol=1e-6)


def test_others_run_the_file():
    probit = [("LinearClassifier", {**THREE, **LABELS, "post_transform": "PROBIT"})]
    rebuilt = onnxport.convert(chain(probit, False), to="sklearn", validate=False)
    assert isinstance(rebuilt, OnnxEstimator)


def test_attributes_that_do_not_fit_together_are_not_followed():
    broken = {**NODES, **TARGETS, "target_weights": WEIGHTS, "nodes_truenodeids": [0] * 8}
    rebuilt = onnxport.convert(chain([("TreeEnsembleRegressor", broken)], False), to="sklearn", validate=False)
    assert isinstance(rebuilt, OnnxEstimator)


def parts_of(forest):
    """A forest of two classes as ONNX-ML's older ensemble: of each leaf the second class's share of all votes, in float32."""
    given = {f"nodes_{name}": [] for name in "treeids nodeids featureids values modes truenodeids falsenodeids".split()}
    given |= {f"class_{name}": [] for name in "treeids nodeids ids weights".split()}
    for number, member in enumerate(forest.estimators_):
        tree = member.tree_
        for node, (left, right) in enumerate(zip(tree.children_left, tree.children_right, strict=True)):
            leaf = left < 0
            row = (number, node, max(tree.feature[node], 0), np.float32(tree.threshold[node]))
            row = (*row, "LEAF" if leaf else "BRANCH_LEQ", max(left, 0), max(right, 0))
            for name, item in zip(list(given)[:7], row, strict=True):
                given[name].append(item)
            if leaf:
                part = np.float32(tree.value[node, 0, 1] / len(forest.estimators_))
                for name, item in zip(list(given)[7:], (number, node, 0, part), strict=True):
                    given[name].append(item)
    return given | {"classlabels_int64s": [0, 1]}


@pytest.mark.parametrize("seed", range(3))
def test_a_forest_whose_votes_tie_comes_back_and_names_the_same_classes(seed):
    from sklearn.datasets import make_classification
    from sklearn.ensemble import RandomForestClassifier

    rows, classes = make_classification(300, 3, n_informative=3, n_redundant=0, flip_y=0.3, random_state=seed)
    rows = rows.astype(np.float32)
    forest = RandomForestClassifier(20, random_state=seed).fit(rows, classes)
    imputer = ("Imputer", {"imputed_value_floats": [0.0] * 3, "replaced_value_float": float("nan")})
    model = chain([imputer, ("TreeEnsembleClassifier", parts_of(forest))], True)
    rebuilt = onnxport.convert(model, to="sklearn")
    assert type(rebuilt[-1]).__name__ == "RandomForestClassifier"
    far = np.random.default_rng(seed).normal(size=(2000, 3)).astype(np.float32)
    shares = forest.predict_proba(far)
    assert np.sum(shares[:, 0] == 0.5) > 10
    np.testing.assert_allclose(rebuilt.predict_proba(far), shares, rtol=0.0, atol=1e-15)
    assert np.array_equal(rebuilt.predict(far), forest.predict(far))
    rebuilt[-1].classes_ = np.array([1, 0])
    assert not onnxport.validate(model, rebuilt).passed
