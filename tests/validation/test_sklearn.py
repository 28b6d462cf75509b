"""scikit-learn's own ways: labels at a tie, thresholds, missing values, tables of mixed columns."""

import re

import numpy as np
import onnx_ir as ir
import pytest

import onnxport
from onnxport.errors import InvalidInputError
from onnxport.model import OnnxModel
from onnxport.validation.evidence import Evidence, Pair, jumps
from tests.validation.graphs import graph

pytestmark = pytest.mark.sklearn

TREES = 18  # TreeEnsembleRegressor went with ai.onnx.ml 5
rng = np.random.default_rng(0)
TABLE = rng.standard_normal((60, 3))
TARGET = TABLE @ [1.0, -2.0, 0.5] + rng.standard_normal(60) * 0.1


def trees(op, x, estimators, scale, bias, shift=lambda thresholds: thresholds.astype(np.float32)):
    """Regression trees as TreeEnsembleRegressor; `shift` makes float32 thresholds of scikit-learn's float64 ones."""
    rows = {key: [] for key in ("tree", "node", "feature", "value", "mode", "true", "false", "weight", "missing")}
    for index, item in enumerate(estimators):
        tree = item.tree_
        for node in range(tree.node_count):
            leaf = tree.children_left[node] == -1
            rows["tree"].append(index)
            rows["node"].append(node)
            rows["feature"].append(0 if leaf else int(tree.feature[node]))
            rows["value"].append(0.0 if leaf else float(shift(tree.threshold[node : node + 1])[0]))
            rows["mode"].append("LEAF" if leaf else "BRANCH_LEQ")
            rows["true"].append(0 if leaf else int(tree.children_left[node]))
            rows["false"].append(0 if leaf else int(tree.children_right[node]))
            rows["missing"].append(0 if leaf else int(tree.missing_go_to_left[node]))
            rows["weight"].append(float(tree.value[node].ravel()[0]) * scale if leaf else None)
    leaves = [i for i, weight in enumerate(rows["weight"]) if weight is not None]
    return op.ml.TreeEnsembleRegressor(
        x,
        n_targets=1,
        nodes_missing_value_tracks_true=rows["missing"],
        base_values=[bias],
        nodes_treeids=rows["tree"],
        nodes_nodeids=rows["node"],
        nodes_featureids=rows["feature"],
        nodes_values=rows["value"],
        nodes_modes=rows["mode"],
        nodes_truenodeids=rows["true"],
        nodes_falsenodeids=rows["false"],
        target_treeids=[rows["tree"][i] for i in leaves],
        target_nodeids=[rows["node"][i] for i in leaves],
        target_ids=[0] * len(leaves),
        target_weights=[rows["weight"][i] for i in leaves],
    )


def rounded_down(thresholds):
    """The greatest float32 not above: x <= threshold then says the same for every float32 x."""
    nearest = thresholds.astype(np.float32)
    return np.where(nearest > thresholds, np.nextafter(nearest, np.float32(-np.inf)), nearest)


@pytest.mark.parametrize(
    ("shift", "passes"),
    [
        (rounded_down, True),
        (lambda t: np.nextafter(rounded_down(t), np.float32(np.inf)), False),
        (lambda t: np.floor(t), False),
    ],
)
def test_thresholds_are_tried_where_they_lie(shift, passes):
    from sklearn.ensemble import GradientBoostingRegressor

    model = GradientBoostingRegressor(n_estimators=10, random_state=0).fit(TABLE, TARGET)

    def write(op, x):
        stages = model.estimators_.ravel()
        return [trees(op, x, stages, model.learning_rate, float(model.init_.constant_.ravel()[0]), shift)]

    converted = graph(write, ("X", ir.DataType.FLOAT, ["N", 3]), names=("variable",), opset=TREES)
    report = onnxport.validate(model, converted, TABLE.astype(np.float32))
    assert any(item.name == "at thresholds" for item in report.sets) or sum(item.failed for item in report.sets) == 2
    assert report.passed == passes, report
    assert onnxport.validate(model, converted, TABLE).passed == passes  # float64 given, the graph takes float32


def test_a_leaf_off_by_a_hundredth_is_found():
    from sklearn.tree import DecisionTreeRegressor

    model = DecisionTreeRegressor(max_depth=4, random_state=0).fit(TABLE, TARGET)
    right = graph(
        lambda op, x: [trees(op, x, [model], 1.0, 0.0, rounded_down)],
        ("X", ir.DataType.FLOAT, ["N", 3]),
        names=("variable",),
        opset=TREES,
    )
    assert onnxport.validate(model, right, TABLE).passed
    node = right.model.graph[0]
    weights = list(node.attributes["target_weights"].value)
    weights[2] *= 1.01
    node.attributes["target_weights"] = ir.AttrFloat32s("target_weights", weights)
    assert not onnxport.validate(model, OnnxModel(right.model), TABLE).passed


def scaled_tree(scaler, tree):
    def write(op, x):
        mean, scale = (array.astype(np.float32) for array in (scaler.mean_, scaler.scale_))
        return [trees(op, op.Div(op.Sub(x, mean), scale), [tree], 1.0, 0.0, rounded_down)]

    return graph(write, ("X", ir.DataType.FLOAT, ["N", 3]), names=("variable",), opset=TREES)


def test_behind_a_scaler_only_rows_on_a_threshold_may_fall_to_either_side():
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.tree import DecisionTreeRegressor

    table = np.round(TABLE, 1) + 100  # thresholds lie between tenths, far from the rows
    model = make_pipeline(StandardScaler(), DecisionTreeRegressor(max_depth=4, random_state=0)).fit(table, TARGET)
    scaler, tree = model[0], model[1]
    assert onnxport.validate(model, scaled_tree(scaler, tree), table.astype(np.float32)).passed
    scaler.mean_ = scaler.mean_ + 0.3
    wrong = scaled_tree(scaler, tree)
    scaler.mean_ = scaler.mean_ - 0.3
    assert not onnxport.validate(model, wrong, table.astype(np.float32)).passed


def linear(model, flip=1.0):
    def write(op, x):
        scores = op.Gemm(x, model.coef_.T.astype(np.float32) * np.float32(flip), model.intercept_.astype(np.float32))
        label = op.Gather(op.const(model.classes_), op.ArgMax(scores, axis=1, keepdims=0, select_last_index=1))
        return [label, op.Softmax(scores, axis=1)]

    return graph(write, ("X", ir.DataType.FLOAT, ["N", 3]), names=("label", "probabilities"))


def _start_in_float32():
    from sklearn.ensemble import GradientBoostingRegressor
    from sklearn.linear_model import LinearRegression

    return GradientBoostingRegressor(n_estimators=5, init=LinearRegression()).fit(TABLE, 200 + 50 * TARGET)


def _trees_beside_kernels():
    from sklearn.ensemble import VotingClassifier
    from sklearn.gaussian_process import GaussianProcessClassifier
    from sklearn.tree import DecisionTreeClassifier

    labels = (TARGET > 0).astype(int)
    parts = [("tree", DecisionTreeClassifier(max_depth=2)), ("kernel", GaussianProcessClassifier())]
    return VotingClassifier(parts, voting="soft").fit(TABLE, labels)


@pytest.mark.parametrize("model", [_start_in_float32, _trees_beside_kernels])
def test_trees_do_not_hide_what_is_rounded_beside_them(model):
    """A first estimator in float32; small probabilities of a kernel beside a tree's."""
    fitted = model()
    method = "transform" if hasattr(fitted, "transform") else "predict"
    assert onnxport.convert(fitted, inputs=TABLE, methods=[method]).report.passed


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # codes need not have converged
def test_rounding_is_looked_for_in_nodes_of_several_results():
    from sklearn.decomposition import MiniBatchDictionaryLearning

    rows = np.random.default_rng(0).random((60, 5))
    options = {"positive_code": True, "transform_algorithm": "lasso_cd", "random_state": 0}
    model = MiniBatchDictionaryLearning(10, alpha=0.1, max_iter=5, positive_dict=True, fit_algorithm="cd", **options)
    model.fit(rows)
    np.testing.assert_allclose(onnxport.convert(model, inputs=rows)(rows), model.transform(rows), atol=1e-9)


@pytest.mark.parametrize("seed", [0, 5, *(pytest.param(seed, marks=pytest.mark.sampled(0)) for seed in (1, 2))])
def test_equally_near_neighbours_may_be_others(seed):
    """Of rows of counts, many are as near as each other: which of them scikit-learn takes hangs on the way through its tree."""
    from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

    rng = np.random.default_rng(seed)
    counts, target = rng.poisson(3, (400, 6)).astype(float), rng.integers(0, 3, 400)
    for model in (KNeighborsRegressor(7), KNeighborsClassifier(algorithm="brute")):
        assert onnxport.convert(model.fit(counts, target), inputs=counts[:40]).report.passed


@pytest.mark.parametrize(("given", "counts"), [(2.5, True), (1.0, True), (99.0, False), (np.nan, False)])
def test_a_tie_excuses_only_what_lies_among_the_choices(given, counts):
    twins = tuple(([("y", np.array([value, 5.0]))],) * 2 for value in (1.0, 3.0))
    pair = Pair("y", np.array([2.0, 5.0]), np.array([given, 6.0]), 0, 0)
    (choices,) = jumps(pair, Evidence(twins=twins))
    assert choices.tolist() == [given if counts else 2.0, 5.0]


def test_another_neighbour_that_is_not_as_near_is_found():
    from sklearn.neighbors import KNeighborsRegressor

    rng = np.random.default_rng(0)
    counts, target = rng.poisson(3, (400, 6)).astype(float), rng.normal(size=400)
    model, other = (KNeighborsRegressor(k).fit(counts, target) for k in (7, 6))
    converted = onnxport.convert(other, inputs=counts[:40], validate=False)
    assert not onnxport.validate(model, converted, inputs=counts[:40]).passed


@pytest.mark.parametrize("classes", [np.asarray([3, 5, 9]), np.asarray(["a", "b", "c"]), np.asarray([1.0, 2.0, 5.0])])
def test_a_label_may_differ_only_at_a_tie(classes):
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression().fit(TABLE, classes[np.digitize(TARGET, [-1, 1])])
    assert onnxport.validate(model, linear(model), TABLE).passed
    model.coef_[1], model.intercept_[1] = (
        model.coef_[0],
        model.intercept_[0],
    )  # classes 0 and 1 tie wherever both beat 2
    report = onnxport.validate(model, linear(model), TABLE)
    assert report.passed
    assert "within the margin" in str(report)
    wrong = onnxport.validate(model, linear(model, flip=-1.0), TABLE)
    assert not wrong.passed
    assert wrong.sets[0].outputs[0].verdict == "fail"


def test_neighbours_at_equal_distances_are_told_of():
    from sklearn.neighbors import KNeighborsRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MaxAbsScaler

    table = np.random.default_rng(0).integers(-1, 2, (200, 4)).astype(np.float64)
    target = np.arange(200.0)
    finder, other = (KNeighborsRegressor(k, algorithm="brute", metric="manhattan").fit(table, target) for k in (3, 2))
    converted = onnxport.convert(other, inputs=table[:50], validate=False)
    for model in (finder, make_pipeline(finder), make_pipeline(MaxAbsScaler(), finder).fit(table, target)):
        report = onnxport.validate(model, converted, inputs=table[:50])
        assert not report.passed
        assert re.search("equal distances.*validate=False", str(report))


def test_the_only_step_of_a_pipeline_is_asked_for_its_neighbours():
    from sklearn.neighbors import NearestNeighbors
    from sklearn.pipeline import make_pipeline

    model = make_pipeline(NearestNeighbors(n_neighbors=3)).fit(TABLE)
    assert onnxport.convert(model, inputs=TABLE[:9], methods=["kneighbors"]).report.passed


def test_missing_values_are_tried_where_the_estimator_takes_them():
    from sklearn.impute import SimpleImputer

    model = SimpleImputer().fit(TABLE)
    mean = model.statistics_.astype(np.float32)
    x = ("X", ir.DataType.FLOAT, ["N", 3])
    right = graph(lambda op, x: [op.Where(op.IsNaN(x), mean, x)], x, names=("variable",))
    wrong = graph(lambda op, x: [op.Where(op.IsNaN(x), mean * 1.01, x)], x, names=("variable",))
    assert onnxport.validate(model, right, TABLE).passed
    report = onnxport.validate(model, wrong, TABLE)
    assert [item.name for item in report.sets if not item.passed] == ["missing values"]


def test_a_data_frame_is_one_input_a_column():
    import pandas as pd
    from sklearn.compose import make_column_transformer
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    frame = pd.DataFrame({"size": TABLE[:, 0], "colour": rng.choice(["red", "green"], 60)})
    model = make_column_transformer((StandardScaler(), ["size"]), (OneHotEncoder(sparse_output=False), ["colour"])).fit(
        frame
    )
    scaler = model.transformers_[0][1]

    def write(op, size, colour, wrong=0.0):
        scaled = op.Div(op.Sub(size, scaler.mean_ + wrong), scaler.scale_)
        words = [
            op.Cast(op.Equal(colour, op.const(np.asarray([word], object))), to=ir.DataType.DOUBLE)
            for word in ("green", "red")
        ]
        return [op.Concat(scaled, *words, axis=1)]

    inputs = (("size", ir.DataType.DOUBLE, ["N", 1]), ("colour", ir.DataType.STRING, ["N", 1]))
    assert onnxport.validate(model, graph(write, *inputs, names=("variable",)), frame).passed
    wrong = graph(lambda op, *x: write(op, *x, wrong=1e-9), *inputs, names=("variable",))
    assert not onnxport.validate(model, wrong, frame).passed  # float64 is compared as float64


def test_two_estimators_take_the_same_data_frame():
    import pandas as pd
    from sklearn.compose import make_column_transformer
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    frame = pd.DataFrame({"size": TABLE[:, 0], "colour": pd.Categorical(["red", "green"] * 30)})

    def fitted(rows):
        return make_column_transformer((StandardScaler(), ["size"]), (OneHotEncoder(), ["colour"])).fit(rows)

    model = fitted(frame)
    assert onnxport.validate(model, fitted(frame), frame).passed
    assert not onnxport.validate(model, fitted(frame.assign(size=frame["size"] + 1e-9)), frame).passed
    runs = onnxport.convert(onnxport.convert(model, inputs=frame), to="sklearn")
    assert onnxport.validate(model, runs, frame).passed


def test_a_file_takes_a_data_frame_too():
    import pandas as pd

    frame = pd.DataFrame({"size": TABLE[:, 0], "weight": TABLE[:, 1]})
    inputs = (("size", ir.DataType.DOUBLE, ["N", 1]), ("weight", ir.DataType.DOUBLE, ["N", 1]))
    one = graph(lambda op, size, weight: [op.Add(size, weight)], *inputs, names=("y",))
    other = graph(lambda op, size, weight: [op.Sub(size, weight)], *inputs, names=("y",))
    assert onnxport.validate(one, one, inputs=frame).passed
    assert not onnxport.validate(one, other, inputs=frame).passed


@pytest.mark.parametrize("outputs", [("kneighbors_distances", "kneighbors_indices")])
def test_methods_are_called_by_the_names_of_the_outputs(outputs):
    from sklearn.neighbors import NearestNeighbors

    model = NearestNeighbors(n_neighbors=2).fit(TABLE)

    def write(op, x):
        data = op.const(TABLE)
        distances = op.reduce("ReduceL2", op.Sub(op.Unsqueeze(x, [1]), op.Unsqueeze(data, [0])), [2], keepdims=False)
        near, places = op.TopK(distances, [2], largest=0, outputs=2)
        return [near, places]

    converted = graph(write, ("X", ir.DataType.DOUBLE, ["N", 3]), names=outputs)
    assert onnxport.validate(model, converted, TABLE[:5] + 0.01, methods=["kneighbors"]).passed
    other = graph(write, ("X", ir.DataType.DOUBLE, ["N", 3]), names=("nothing", "known"))
    with pytest.raises(InvalidInputError, match="no method of NearestNeighbors"):
        onnxport.validate(model, other, TABLE[:5])
