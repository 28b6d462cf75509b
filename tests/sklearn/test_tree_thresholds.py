"""Trees decide as scikit-learn does for rows on a threshold, one unit beside it, and missing values."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest

pytest.importorskip("sklearn")
pytestmark = pytest.mark.sklearn

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from sklearn.ensemble import (  # noqa: E402
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
)
from sklearn.tree import DecisionTreeRegressor  # noqa: E402

import onnxport  # noqa: E402
from onnxport.opset_maps.to_onnx.sklearn.trees import tree_ensemble  # noqa: E402

KINDS = {
    "tree": lambda seed: DecisionTreeRegressor(max_depth=6, random_state=seed),
    "forest": lambda seed: RandomForestClassifier(5, max_depth=5, random_state=seed),
    "extra": lambda seed: ExtraTreesRegressor(4, max_depth=5, random_state=seed),
    "boosted": lambda seed: GradientBoostingClassifier(n_estimators=4, random_state=seed),
    "histogram": lambda seed: HistGradientBoostingRegressor(max_iter=5, min_samples_leaf=3, random_state=seed),
}
MISSING = ("tree", "forest", "extra", "histogram")


def thresholds(model):
    """Every threshold of the model's trees, float64."""
    if hasattr(model, "_predictors"):
        return np.concatenate([tree.nodes["num_threshold"] for stage in model._predictors for tree in stage])
    trees = [model] if hasattr(model, "tree_") else list(np.ravel(model.estimators_))
    return np.concatenate([item.tree_.threshold[item.tree_.children_left >= 0] for item in trees])


def beside(values):
    """The values, their neighbours in both precisions, and what float32 makes of them."""
    narrow = values.astype(np.float32)
    around = [np.nextafter(narrow, np.float32(side)) for side in (-np.inf, np.inf)]
    fine = [np.nextafter(values, side) for side in (-np.inf, np.inf)]
    return np.concatenate([values, narrow, *around, *fine]).astype(np.float64)


@given(st.sampled_from(sorted(KINDS)), st.integers(0, 2**16), st.sampled_from([None, 1, 2]), st.booleans())
@settings(max_examples=60, deadline=None)
def test_rows_on_and_beside_thresholds_go_the_same_way(kind, seed, digits, gaps):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(80, 3)) * [1.0, 100.0, 1e-3]
    x = x if digits is None else np.round(x, digits)
    if gaps and kind in MISSING:
        x[rng.random(x.shape) < 0.1] = np.nan
    y = np.nan_to_num(x[:, 0]) + rng.normal(size=80) > 0
    model = KINDS[kind](seed).fit(x, y if kind in ("forest", "boosted") else y + rng.normal(size=80))
    finite = thresholds(model)
    edges = beside(finite[np.abs(finite) < 1e30])  # a split by missing values alone has an infinite one
    rows = rng.choice(edges, size=(200, 3)) if len(edges) else rng.normal(size=(200, 3))
    if gaps and kind in MISSING:
        rows[rng.random(rows.shape) < 0.1] = np.nan
    method = "predict_proba" if hasattr(model, "predict_proba") else "predict"
    for dtype in (np.float64, np.float32):
        given_rows = rows.astype(dtype)
        converted = onnxport.convert(model, inputs=given_rows[:2], methods=[method], validate=False)
        expected = getattr(model, method)(given_rows)
        np.testing.assert_allclose(converted(given_rows), expected, rtol=1e-9 if dtype == np.float64 else 1e-6)


MANY = np.concatenate(
    [np.random.default_rng(0).integers(0, 5, size=(300, 1)), np.random.default_rng(1).normal(size=(300, 3))], axis=1
)
SCORE = MANY[:, 1] + (MANY[:, 0] % 2) * MANY[:, 2]
PARTS = {
    "forest": (RandomForestClassifier(12, max_depth=5, random_state=0), SCORE > 0),
    "forest of 3 classes": (RandomForestClassifier(12, max_depth=5, random_state=0), np.digitize(SCORE, [-0.5, 0.5])),
    "forest of 2 targets": (ExtraTreesRegressor(12, max_depth=5, random_state=0), np.stack([SCORE, SCORE**2], axis=1)),
    "boosted": (GradientBoostingClassifier(n_estimators=8, random_state=0), np.digitize(SCORE, [-0.5, 0.5])),
    "histogram": (
        HistGradientBoostingClassifier(max_iter=8, categorical_features=[0], random_state=0),
        np.digitize(SCORE, [-0.5, 0.5]),
    ),
}


@pytest.mark.parametrize("title", PARTS)
def test_large_ensembles_are_sums_of_parts(monkeypatch, title):
    monkeypatch.setattr(tree_ensemble, "_LARGE", 16)
    monkeypatch.setattr(tree_ensemble, "_PART", 10)
    model, y = PARTS[title]
    holes = MANY if "boosted" in title else np.where(np.random.default_rng(2).random(MANY.shape) < 0.1, np.nan, MANY)
    model.fit(holes, y)
    method = "predict_proba" if hasattr(model, "classes_") else "predict"
    hub = onnxport.convert(model, inputs=holes[:2], methods=[method], validate=False)
    assert sum(node.op_type == "TreeEnsemble" for node in hub.model.graph) > 3
    np.testing.assert_allclose(hub(holes), getattr(model, method)(holes), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(
    "kind, methods", [("boosted", ["predict_proba"]), ("boosted", ["apply"]), ("forest", ["predict"])]
)
@pytest.mark.parametrize("opset", [13, None])
def test_only_trees_of_models_that_take_missing_values_have_a_side_for_them(kind, methods, opset):
    rows = np.random.default_rng(0).normal(size=(120, 4))
    model = KINDS[kind](0).fit(rows, rows[:, 0] > 0.3)
    if kind == "boosted":
        with pytest.raises(ValueError, match="NaN"):
            model.predict(rows * np.nan)
    graph = onnxport.convert(model, inputs=rows[:2], methods=methods, target_opset=opset, validate=False).model.graph
    (trees,) = (node for node in graph if node.op_type.startswith("TreeEnsemble"))
    assert ("nodes_missing_value_tracks_true" in trees.attributes) == (kind == "forest")
    if trees.op_type == "TreeEnsemble":  # of the older operator ONNX infers nothing
        proto = ir.to_proto(ir.Model(graph, ir_version=10))
        del proto.graph.value_info[:]
        whole = onnx.shape_inference.infer_shapes(proto, strict_mode=True)
        of_onnx = {item.name: item for item in whole.graph.value_info}[trees.outputs[0].name].type.tensor_type
        dims = [dim.dim_value for dim in of_onnx.shape.dim]
        assert (of_onnx.elem_type, dims[1:]) == (trees.outputs[0].dtype, list(trees.outputs[0].shape[1:]))
