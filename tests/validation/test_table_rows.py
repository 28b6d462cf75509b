"""Rows that nobody gave: what is wrong with a table's file shows on them, of however few rows the user gives."""

import copy

import numpy as np
import onnx
import pytest
from onnx import helper

import onnxport
from onnxport.validation.runners.sklearn_categories import categories_by_column

pytestmark = pytest.mark.sklearn

rng = np.random.default_rng(0)
TABLE = rng.standard_normal((200, 3)).astype(np.float32)
TARGET = (TABLE[:, 0] + TABLE[:, 1] * TABLE[:, 2] > 0).astype(int) + (TABLE[:, 2] > 1)


def names(report):
    return [item.name for item in report.sets]


def with_a_node(estimator, inputs, op, path):
    """The file of a transformer whose result goes through one more operator."""
    onnxport.convert(estimator, inputs=inputs, validate=False, output=str(path))
    model = onnx.load(path)
    output = model.graph.output[0]
    model.graph.node.append(helper.make_node(op, [output.name], ["changed"]))
    output.name = "changed"
    onnx.save(model, path)
    return path


@pytest.mark.parametrize("count", [1, 3])
def test_numbers_of_another_sign_than_the_given_ones_are_tried(count, tmp_path):
    from sklearn.preprocessing import MaxAbsScaler

    scaler, given = MaxAbsScaler().fit(TABLE), np.abs(TABLE[:count])
    assert onnxport.convert(scaler, inputs=given).report.passed
    assert not onnxport.validate(scaler, with_a_node(scaler, given, "Abs", tmp_path / "abs.onnx"), given).passed


def test_a_source_that_takes_no_negative_numbers_gets_none():
    from sklearn.naive_bayes import MultinomialNB

    counts = rng.poisson(3, (60, 4)).astype(np.float32)
    report = onnxport.convert(MultinomialNB().fit(counts, np.arange(60) % 3), inputs=counts[:2]).report
    assert report.passed
    assert "other rows" in names(report)


def swapped(encoder, column):
    """A copy whose last two categories of a column stand for each other."""
    other = copy.deepcopy(encoder)
    values = other.categories_[column]
    values[-2:] = values[-2:][::-1].copy()
    return other


@pytest.mark.parametrize("column", [0, 1])
@pytest.mark.parametrize("kind", [object, str, float])
def test_every_category_is_asked_for(column, kind):
    from sklearn.preprocessing import OrdinalEncoder

    words = np.array([["1", "20"], ["2", "20"], ["3", "30"], ["4", "400"], ["5", "5000"]])
    table = words.astype(np.float32 if kind is float else kind)
    given = np.array(table[:1].tolist(), table.dtype if kind is float else kind)  # as narrow as its own words
    encoder = OrdinalEncoder().fit(table)
    assert onnxport.convert(encoder, inputs=given).report.passed
    other = onnxport.convert(swapped(encoder, column), inputs=given, validate=False)
    assert onnxport.validate(encoder, other, given).verdict == "failed"


def test_the_columns_of_encoders_are_known_by_name_number_and_slice():
    import pandas as pd
    from sklearn.compose import ColumnTransformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

    frame = pd.DataFrame({"age": [1.0, 2.0], "town": ["a", "b"], "code": [7, 9], "size": ["s", "m"]})
    encoders = [
        ("scale", StandardScaler(), ["age"]),
        ("one", OneHotEncoder(), ["town"]),
        ("two", OrdinalEncoder(), [2]),
    ]
    mixed = make_pipeline(ColumnTransformer([*encoders, ("three", OneHotEncoder(), slice("size", None))])).fit(frame)
    known = {column: values.tolist() for column, values in categories_by_column(mixed, 4).items()}
    assert known == {1: ["a", "b"], 2: [7, 9], 3: ["m", "s"]}


@pytest.mark.parametrize(("stage", "class_", "leaf"), [(0, 0, 0), (0, 1, 6), (3, 1, 0)])
def test_a_leaf_of_a_class_is_no_tie(stage, class_, leaf):
    """A choice of the likeliest class excuses no other probability, also where rows lie at thresholds."""
    from sklearn.ensemble import GradientBoostingClassifier

    model = GradientBoostingClassifier(n_estimators=4, random_state=0).fit(TABLE, TARGET)
    other = copy.deepcopy(model)
    tree = other.estimators_[stage, class_].tree_
    leaves = np.flatnonzero(tree.children_left == -1)
    tree.value[leaves[leaf]] += 0.05
    assert onnxport.convert(model, inputs=TABLE[:3]).report.passed
    file = onnxport.convert(other, inputs=TABLE[:3], validate=False)
    assert onnxport.validate(model, file, TABLE[:3]).verdict == "failed"


def test_more_rows_than_a_file_takes_one_way_are_tried():
    """Our files of neighbours have two ways, of up to 64 rows and of more: both are taken."""
    from sklearn.neighbors import KNeighborsRegressor

    report = onnxport.convert(KNeighborsRegressor().fit(TABLE, TABLE[:, 0]), inputs=TABLE[:2]).report
    assert max(item.inputs[0][2][0] for item in report.sets) > 64


@pytest.mark.parametrize("options", [{}, {"kernel": "epanechnikov", "bandwidth": 0.5}, {"algorithm": "ball_tree"}])
@pytest.mark.parametrize("scale", [1, 1000])
def test_a_density_far_from_all_points_is_measured_against_their_plain_sum(options, scale):
    """scikit-learn's tree of points loses up to all digits there: the file, which adds them up, is right."""
    from sklearn.neighbors import KernelDensity

    points = TABLE.astype(np.float64) * scale
    model = KernelDensity(**options).fit(points)
    assert onnxport.convert(model, inputs=points[:1]).report.passed
    other = onnxport.convert(KernelDensity(**options).fit(points[:-1]), inputs=points[:1], validate=False)
    assert onnxport.validate(model, other, points[-1:]).verdict == "failed"


def test_a_mean_of_float32_has_the_digits_of_float32():
    from sklearn.neighbors import RadiusNeighborsRegressor

    model = RadiusNeighborsRegressor(2.0).fit(TABLE, TABLE[:, 0])
    assert onnxport.convert(model, inputs=TABLE[:1]).report.passed


def fitted_labels(kind):
    """An estimator that gives labels alone, and its array of weights."""
    if kind == "centres":
        from sklearn.cluster import KMeans

        return KMeans(4, random_state=0).fit(TABLE), "cluster_centers_"
    from sklearn.linear_model import RidgeClassifier

    labels = (TABLE.sum(axis=1) > 0).astype(int) + (0 if kind == "two labels" else TABLE[:, 0] > 0.5)
    return RidgeClassifier().fit(TABLE, labels), "coef_"


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("kind", ["two labels", "labels", "centres"])
def test_a_boundary_of_labels_that_moved_is_seen(kind, place):
    """Of few rows hardly any lies so near a boundary that its label tells."""
    estimator, weights = fitted_labels(kind)
    given, moved = TABLE[:2], copy.deepcopy(estimator)
    getattr(moved, weights).reshape(-1, 3)[-1, place] += 0.02
    report = onnxport.convert(estimator, inputs=given).report
    assert report.passed
    assert "at boundaries" in names(report)
    other = onnxport.convert(moved, inputs=given, validate=False)
    assert onnxport.validate(estimator, other, given).verdict == "failed"


def test_boundaries_lie_between_rows_whose_words_stay():
    from onnxport.validation.input_sets.boundaries import rows_at_boundaries

    numbers, words = np.linspace(-1, 1, 20)[:, None], np.resize(np.array([["a"], ["b"]], object), (20, 1))
    low, kept = rows_at_boundaries(
        lambda leaves: [(leaves[0][:, 0] > np.where(leaves[1][:, 0] == "a", 0.3, -0.4))],
        (numbers, words),
        np.random.default_rng(0),
    )
    limits = np.where(kept[:, 0] == "a", 0.3, -0.4)
    assert set(kept[:, 0].tolist()) == {"a", "b"}
    assert np.abs(low[:, 0] - limits).max() < 2 / 4096
    assert rows_at_boundaries(lambda leaves: [np.zeros(len(leaves[0]))], (numbers, words), rng) is None


def test_boundaries_are_looked_for_between_few_of_many_rows():
    """The pairs of all rows that a user gives can be millions."""
    from onnxport.validation.input_sets.boundaries import rows_at_boundaries

    seen = []

    def labels_of(leaves):
        seen.append(len(leaves[0]))
        return [leaves[0][:, 0] > 0.3]

    assert rows_at_boundaries(labels_of, (np.linspace(-1, 1, 2000)[:, None],), np.random.default_rng(0)) is not None
    assert max(seen) <= 128
