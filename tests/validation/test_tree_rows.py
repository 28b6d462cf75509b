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
