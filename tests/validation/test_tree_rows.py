"""A threshold that moved is seen, in every kind of trees, on given and on drawn inputs."""

import numpy as np
import onnx
import pytest

pytest.importorskip("sklearn")
pytestmark = pytest.mark.sklearn

from sklearn.ensemble import (  # noqa: E402
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
)
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor  # noqa: E402

import onnxport  # noqa: E402

rng = np.random.default_rng(0)
X = (rng.standard_normal((200, 4)) * [1, 50, 1e-2, 3]).astype(np.float32)
Y = X @ np.asarray([1, 0.02, 70, 0.4], np.float32) + 0.3 * rng.standard_normal(200).astype(np.float32)
MODELS = {
    "tree": DecisionTreeRegressor(max_depth=4, random_state=0),
    "forest": RandomForestClassifier(5, max_depth=4, random_state=0),
    "histogram": HistGradientBoostingRegressor(max_iter=4, random_state=0),
    "boosted": GradientBoostingRegressor(n_estimators=4, random_state=0),
    "scaled": make_pipeline(StandardScaler(), DecisionTreeClassifier(max_depth=4, random_state=0)),
}
LEVELS = ("nodes_splits", "nodes_values", "nodes_values_as_tensor")


def moved(proto: onnx.ModelProto, share: float, place: int) -> onnx.ModelProto:
    """The model with one threshold moved by a share of its column's range."""
    changed = onnx.ModelProto.FromString(proto.SerializeToString())
    node = next(node for node in changed.graph.node if node.op_type.startswith("TreeEnsemble"))
    attributes = {item.name: item for item in node.attribute}
    item = next(attributes[name] for name in LEVELS if name in attributes)
    levels = onnx.numpy_helper.to_array(item.t).copy() if item.HasField("t") else np.asarray(item.floats, np.float32)
    columns = np.asarray(attributes["nodes_featureids"].ints)
    levels[place] += share * np.ptp(X[:, columns[place]])
    if item.HasField("t"):
        item.t.CopyFrom(onnx.numpy_helper.from_array(levels))
    else:
        item.floats[:] = levels
    return changed


@pytest.mark.parametrize("name", MODELS)
def test_a_moved_threshold_is_seen(name):
    model = MODELS[name]
    model.fit(X, Y > 0 if hasattr(model, "classes_") or "Class" in str(type(model)) or name == "scaled" else Y)
    right = onnxport.convert(model, inputs=X[:30])
    for place, share in ((0, 0.05), (1, 0.05), (0, 0.01)):
        for inputs in (X[:30], None):
            assert not onnxport.validate(model, moved(right.proto, share, place), inputs).passed, (place, share)
    assert onnxport.validate(model, right).passed


def test_a_column_of_labels_in_place_of_a_row_is_seen():
    model = MODELS["forest"].fit(X, Y > 0)
    proto = onnx.ModelProto.FromString(onnxport.convert(model, inputs=X[:30]).proto.SerializeToString())
    node = next(node for node in proto.graph.node if node.op_type == "ArgMax")
    next(item for item in node.attribute if item.name == "keepdims").i = 1
    for value in (*proto.graph.output, *proto.graph.value_info):
        value.type.tensor_type.ClearField("shape")
    assert not onnxport.validate(model, proto, X[:30]).passed
    assert not onnxport.validate(model, proto).passed


@pytest.mark.parametrize("dtype", [onnx.TensorProto.INT64, onnx.TensorProto.FLOAT])
def test_a_moved_threshold_of_whole_numbers_is_seen(dtype):
    def stump(level):
        node = onnx.helper.make_node("TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", n_targets=1,
            nodes_treeids=[0] * 3, nodes_nodeids=[0, 1, 2], nodes_featureids=[1, 0, 0], nodes_values=[level, 0.0, 0.0],
            nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"], nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[2, 0, 0],
            target_treeids=[0, 0], target_nodeids=[1, 2], target_ids=[0, 0], target_weights=[1.0, 5.0])  # fmt: skip
        infos = [("x", dtype, ["N", 3]), ("y", onnx.TensorProto.FLOAT, ["N", 1])]
        x, y = (onnx.helper.make_tensor_value_info(*item) for item in infos)
        imports = [onnx.helper.make_opsetid("", 21), onnx.helper.make_opsetid("ai.onnx.ml", 3)]
        return onnx.helper.make_model(
            onnx.helper.make_graph([node], "g", [x], [y]), opset_imports=imports, ir_version=9
        )

    assert onnxport.validate(stump(70.5), stump(71.5)).verdict == "failed"
    assert onnxport.validate(stump(70.5), stump(70.5)).verdict != "failed"


def detour(graph, place):
    """The graph with one value through float16."""
    changed = onnx.ModelProto.FromString(graph.SerializeToString())
    del changed.graph.value_info[:]
    name, changed.graph.node[place].output[0] = changed.graph.node[place].output[0], "wide"
    for source, result, kind in (
        ("narrow", name, onnx.TensorProto.FLOAT),
        ("wide", "narrow", onnx.TensorProto.FLOAT16),
    ):
        changed.graph.node.insert(place + 1, onnx.helper.make_node("Cast", [source], [result], to=kind))
    return changed


@pytest.mark.parametrize("scaled", [False, True], ids=["copied", "scaled"])
@pytest.mark.parametrize("name", ["boosted", "forest"])
def test_features_that_pass_through_float16_are_seen(name, scaled):
    rows = X.astype(np.float64)
    trees = MODELS[name]
    model = make_pipeline(StandardScaler(), trees) if scaled else trees
    model.fit(rows, Y > 0 if name == "forest" else Y)
    right = onnxport.convert(model, inputs=rows[:30]).proto
    place = next(i for i, node in enumerate(right.graph.node) if node.op_type == "Cast")
    assert onnxport.validate(model, detour(right, place)).verdict == "failed"
    assert onnxport.validate(right, detour(right, place)).verdict == "failed"
    assert onnxport.validate(model, right).passed


@pytest.mark.parametrize("first", [0, *(pytest.param(first, marks=pytest.mark.sampled(0)) for first in range(1, 6))])
def test_leaves_that_only_some_words_lead_to_are_seen(first):
    import pandas as pd
    from sklearn.compose import make_column_transformer
    from sklearn.preprocessing import OneHotEncoder

    table = pd.DataFrame({"size": X[:, 0].astype(float), "colour": rng.choice(["red", "green", "blue"], len(X))})
    target = np.where(table["colour"] == "red", 3.0, np.where(table["colour"] == "blue", -1.0, 0.0)) + table["size"]
    encoded = make_column_transformer((OneHotEncoder(), ["colour"]), remainder="passthrough")
    trees = GradientBoostingRegressor(n_estimators=1, max_depth=4, random_state=0)
    model = make_pipeline(encoded, trees).fit(table, target)
    right = onnxport.convert(model, inputs=table[:20])
    node = next(i for i, node in enumerate(right.proto.graph.node) if node.op_type.startswith("TreeEnsemble"))
    place = next(i for i, item in enumerate(right.proto.graph.node[node].attribute) if item.name == "leaf_weights")
    weights = onnx.numpy_helper.to_array(right.proto.graph.node[node].attribute[place].t)
    for leaf in np.flatnonzero(weights)[first::6]:
        changed, numbers = onnx.ModelProto.FromString(right.proto.SerializeToString()), weights.copy()
        numbers[leaf] *= 1.01
        changed.graph.node[node].attribute[place].t.CopyFrom(onnx.numpy_helper.from_array(numbers))
        assert onnxport.validate(model, changed).verdict == "failed", leaf
