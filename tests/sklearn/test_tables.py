"""What users bring as rows: frames of pandas and polars with every kind of column, dictionaries, lists of labels."""

import numpy as np
import pytest

pytest.importorskip("sklearn")
pytestmark = pytest.mark.sklearn

import pandas as pd  # noqa: E402
import polars as pl  # noqa: E402
from sklearn.compose import make_column_selector, make_column_transformer  # noqa: E402
from sklearn.feature_extraction import DictVectorizer, FeatureHasher  # noqa: E402
from sklearn.feature_extraction.text import TfidfTransformer  # noqa: E402
from sklearn.impute import SimpleImputer  # noqa: E402
from sklearn.linear_model import LogisticRegression, Ridge, SGDClassifier  # noqa: E402
from sklearn.neighbors import (  # noqa: E402
    KNeighborsClassifier,
    KNeighborsTransformer,
    RadiusNeighborsClassifier,
    RadiusNeighborsTransformer,
)
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import (  # noqa: E402
    MaxAbsScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    QuantileTransformer,
    StandardScaler,
)
from sklearn.svm import LinearSVC  # noqa: E402

import onnxport  # noqa: E402
from onnxport.errors import InvalidInputError  # noqa: E402

COLUMNS = {
    "age": [1, 2, None, 4] * 10,
    "word": ["x", "y", None, "z"] * 10,
    "flag": [True, False] * 20,
    "weight": [0.5, 1.5, None, 3.0] * 10,
    "level": ["low", "high", "low", "high"] * 10,
}
LABELS = [0, 1, 0, 1] * 10


def nullable(columns):
    frame = pd.DataFrame(columns).astype({"age": "Int64", "word": "category", "flag": "boolean", "level": "string"})
    return frame.assign(level=frame["level"].astype(object))


FRAMES = {"polars": pl.DataFrame, "pandas": pd.DataFrame, "pandas, nullable and categorical": nullable}


def by_name():
    scaled = make_pipeline(SimpleImputer(), StandardScaler())
    return make_column_transformer(
        (scaled, ["age", "weight", "flag"]), (OneHotEncoder(handle_unknown="ignore"), ["word"])
    )


def by_slice():
    return make_column_transformer((SimpleImputer(), slice(0, 1)), (OrdinalEncoder(), [-1]), remainder="drop")


def by_callable():
    words = make_column_selector(pattern="level|word")
    return make_column_transformer((OneHotEncoder(), words), (SimpleImputer(strategy="median"), ["weight"]))


# scikit-learn's selector takes frames of pandas only
ROWS = [(kind, select) for kind in FRAMES for select in (by_name, by_slice, by_callable)]


@pytest.mark.parametrize(("kind", "select"), [row for row in ROWS if row != ("polars", by_callable)])
def test_frames(kind, select):
    frame = FRAMES[kind](COLUMNS)
    model = make_pipeline(select(), LogisticRegression()).fit(frame, LABELS)
    converted = onnxport.convert(model, inputs=frame[:9])
    assert converted.input_names == list(COLUMNS)
    assert converted.report.passed
    label, probabilities = converted(frame)
    assert label.tolist() == model.predict(frame).tolist()
    np.testing.assert_allclose(probabilities, model.predict_proba(frame), rtol=1e-9)
    assert [len(item) for item in converted(frame[:0])] == [0, 0]


def test_dictionaries():
    rows = [{"city": "ab"[i % 2], "size": float(i % 7)} if i % 5 else {"size": 1.0} for i in range(40)]
    model = make_pipeline(DictVectorizer(), LogisticRegression()).fit(rows, LABELS)
    converted = onnxport.convert(model, inputs=rows[:10])
    assert converted.report.passed
    np.testing.assert_allclose(converted(rows)[1], model.predict_proba(rows), rtol=1e-9)
    np.testing.assert_allclose(converted([{"city": "c"}])[1], model.predict_proba([{"city": "c"}]), rtol=1e-9)
    with pytest.raises(InvalidInputError, match="town"):
        converted([{"town": "a"}])


def test_a_feature_of_strings_and_numbers_is_refused():
    rows = [{"size": "big"}, {"size": 1.0}]
    model = DictVectorizer().fit(rows)
    with pytest.raises(InvalidInputError, match="'size'"):
        onnxport.convert(model, inputs=rows)


def test_features_that_are_not_named_by_strings_are_refused():
    rows = [{1: 1.0, 2: 200.0}, {1: 3.0, "a": 1.0}]
    with pytest.raises(InvalidInputError, match="1 is no string"):
        onnxport.convert(DictVectorizer(sort=False).fit(rows), inputs=rows)


def test_a_column_of_lists_is_left_out_and_refused_where_it_is_used():
    frame = pd.DataFrame({"size": [1.0, 2.0, 4.0], "words": [["a", "b"], ["c"], []]})
    without = make_column_transformer((StandardScaler(), ["size"])).fit(frame)
    converted = onnxport.convert(without, inputs=frame)
    assert converted.input_names == ["size"]
    np.testing.assert_allclose(converted(frame), without.transform(frame), rtol=1e-12)
    model = make_column_transformer((FeatureHasher(8, input_type="string"), "words")).fit(frame)
    with pytest.raises(onnxport.UnsupportedOperator, match="no column 'words' of a type"):
        onnxport.convert(model, inputs=frame)


@pytest.mark.parametrize("by_name", [True, False])
def test_a_dictionary_holds_matrices_of_columns_side_by_side(by_name):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(40, 3)), columns=["a", "b", "c"])
    frame["d"], frame["e"] = rng.choice(["x", "y"], 40), rng.choice(["u", "v", "w"], 40)
    numbers, words = (["c", "a"], ["e", "d"]) if by_name else ([2, 0], [4, 3])
    columns = make_column_transformer((StandardScaler(), numbers), (OneHotEncoder(), words))
    model = make_pipeline(columns, LogisticRegression()).fit(frame, LABELS[:40])
    given = {"numbers": frame[["a", "b", "c"]].to_numpy(), "words": frame[["d", "e"]].to_numpy(object)}
    converted = onnxport.convert(model, inputs={name: rows[:9] for name, rows in given.items()})
    assert converted.report.passed
    assert [list(value.shape or ())[1] for value in converted.model.graph.inputs] == [3, 2]
    np.testing.assert_allclose(converted(**given)[1], model.predict_proba(frame), rtol=1e-9)


@pytest.mark.parametrize("width", [3, 5])
@pytest.mark.parametrize(
    "model", [LogisticRegression(), make_pipeline(StandardScaler(), Ridge()), OneHotEncoder()], ids=str
)
def test_more_or_fewer_columns_than_fitted_are_refused(model, width):
    rows = np.random.default_rng(0).integers(0, 3, (12, 4)).astype(float)
    model = model.fit(rows, LABELS[:12])
    with pytest.raises(InvalidInputError, match=f"fitted on 4 columns, the inputs have {width}|{width} features"):
        onnxport.convert(model, inputs=np.ones((3, width)))


def test_a_matrix_of_strings_and_numbers_is_refused_with_the_way_out():
    rows = [["a", 1], ["b", 2]]
    with pytest.raises(onnxport.UnsupportedOperator, match="pass a DataFrame"):
        onnxport.convert(OneHotEncoder().fit(rows), inputs=rows)


@pytest.mark.parametrize(
    ("model", "rows"),
    [
        (DictVectorizer(), [{"a": 1, "b": "x"}, {"c": 2.0}]),
        (FeatureHasher(8, input_type="string"), [["a"], ["b", "c"]]),
        (StandardScaler(), [[1.0, 2.0], [3.0, 4.0]]),
    ],
)
def test_an_empty_list_is_no_rows(model, rows):
    converted = onnxport.convert(model.fit(rows), inputs=rows)
    assert converted([]).shape == (0, converted(rows).shape[1])


def test_missing_numbers_may_be_marked_by_pandas():
    table = pd.DataFrame({"a": pd.array([1, None, 4], dtype="Int64"), "b": pd.array([None, 1.5, 3], dtype="Float64")})
    model = SimpleImputer(missing_values=pd.NA).fit(table)
    np.testing.assert_array_equal(onnxport.convert(model, inputs=table)(table), model.transform(table))


def test_an_array_of_strings_and_numbers_is_refused_with_the_way_out():
    rows = np.array([["a", 1], ["b", 2]], object)
    with pytest.raises(onnxport.UnsupportedOperator, match="DataFrame"):
        onnxport.convert(OneHotEncoder().fit(rows), inputs=rows)


@pytest.mark.parametrize("labels", [["a", "b", "c"], [1, 2, 5], [1.5, 2.0, 3.0]])
@pytest.mark.parametrize(
    "encoder",
    [
        OneHotEncoder(handle_unknown="ignore", sparse_output=False),
        OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan),
    ],
)
def test_inverses_say_none_as_documented(encoder, labels):
    """Rows that stand for no category: scikit-learn's None is the word "None", or NaN beside numbers."""
    codes = encoder.fit([[item] for item in labels]).transform([[item] for item in labels])
    converted = onnxport.convert(encoder, inputs=codes, methods=["inverse_transform"])
    assert converted.report.passed
    assert converted(codes).ravel().tolist() == labels


def test_lists_of_other_things_than_strings_are_refused():
    rows = [[("a", 1), ("b", 2)], [("c", 1)]]
    model = FeatureHasher(8, input_type="pair").fit(rows)
    with pytest.raises(InvalidInputError, match="lists of strings"):
        onnxport.convert(model, inputs=rows)


def test_an_empty_string_in_lists_of_different_lengths_is_refused():
    model = FeatureHasher(8, input_type="string").fit([["a"]])
    converted = onnxport.convert(model, inputs=[["a", "b"], ["c"]])
    with pytest.raises(InvalidInputError, match="beyond their end"):
        converted([["a", "b"], [""]])


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (PolynomialFeatures(), "PolynomialFeatures.*other columns"),
        (QuantileTransformer(output_distribution="normal", n_quantiles=9), "QuantileTransformer.*zeros"),
        (TfidfTransformer(sublinear_tf=True), "TfidfTransformer.*zeros"),
    ],
)
def test_what_scikit_learn_reads_from_how_a_graph_is_stored_is_refused(step, said):
    rows = np.random.default_rng(0).normal(size=(20, 3))
    model = make_pipeline(KNeighborsTransformer(n_neighbors=3), step).fit(rows)
    with pytest.raises(onnxport.UnsupportedOperator, match=said):
        onnxport.convert(model, inputs=rows, validate=False)


@pytest.mark.parametrize(
    "graph",
    [KNeighborsTransformer(n_neighbors=15, mode="distance"), RadiusNeighborsTransformer(radius=2.5, mode="distance")],
    ids=str,
)
@pytest.mark.parametrize(
    "model",
    [
        KNeighborsClassifier(5, metric="precomputed"),
        RadiusNeighborsClassifier(2.0, metric="precomputed", outlier_label=0),
    ],
    ids=str,
)
def test_what_a_graph_of_distances_leaves_out_is_no_neighbour(graph, model):
    rng = np.random.default_rng(0)
    rows, fresh = rng.normal(size=(200, 3)), rng.normal(size=(40, 3))
    pipeline = make_pipeline(graph, model).fit(rows, np.digitize(rows[:, 0], [-0.5, 0.5]))
    label, probabilities = onnxport.convert(pipeline, inputs=rows)(fresh)
    assert label.tolist() == pipeline.predict(fresh).tolist()
    np.testing.assert_allclose(probabilities, pipeline.predict_proba(fresh), rtol=1e-9)


def test_a_sparse_matrix_of_distances_is_refused():
    rows = np.random.default_rng(0).normal(size=(40, 3))
    distances = KNeighborsTransformer(n_neighbors=9).fit_transform(rows)
    model = KNeighborsClassifier(5, metric="precomputed").fit(distances, LABELS)
    with pytest.raises(onnxport.UnsupportedOperator, match="precomputed"):
        onnxport.convert(model, inputs=distances)


def test_what_two_outputs_are_made_of_is_refused_by_name():
    rows = np.random.default_rng(0).normal(size=(40, 3))
    model = KNeighborsClassifier(metric=lambda a, b: np.abs(a - b).sum()).fit(rows, LABELS)
    with pytest.raises(onnxport.UnsupportedOperator, match="a function as metric"):
        onnxport.convert(model, inputs=rows)


def test_numbers_where_strings_were_fitted_are_refused_by_the_columns_name():
    frame = pd.DataFrame({"zip": ["1", "2", "3"] * 4})
    model = make_pipeline(OneHotEncoder(), LogisticRegression()).fit(frame, [0, 1, 0] * 4)
    with pytest.raises(onnxport.UnsupportedOperator, match="column 'zip' was fitted on strings.*Parquet"):
        onnxport.convert(model, inputs=frame.astype(int), validate=False)


WIDE = pd.DataFrame(
    {"n": np.arange(900) % 7 - 3.0, "zip": np.arange(900) % 450 * 10, "street": [f"s{i % 300}" for i in range(900)]}
)
SCORE = WIDE["n"] + WIDE["zip"] % 30 + (WIDE["street"] > "s2")


@pytest.mark.parametrize(
    "model",
    [
        LogisticRegression(),
        Ridge(),
        LinearSVC(random_state=0),
        make_pipeline(MaxAbsScaler(), SGDClassifier(loss="log_loss", random_state=0)),
    ],
    ids=str,
)
@pytest.mark.parametrize("classes", [2, 3])
def test_categories_by_the_hundred_before_a_product_are_gathered(model, classes):
    encoded = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["zip", "street"]), remainder=StandardScaler(), sparse_threshold=1.0
    )
    y = SCORE if isinstance(model, Ridge) else np.digitize(SCORE, [8, 16][: classes - 1])
    pipeline = make_pipeline(encoded, model).fit(WIDE, y)
    rows = WIDE.sample(40, random_state=0).reset_index(drop=True)
    rows.loc[:3, "zip"] = 7  # unknown
    method = "predict" if isinstance(model, Ridge) else "decision_function"
    hub = onnxport.convert(pipeline, inputs=rows, methods=[method], validate=False)
    np.testing.assert_allclose(np.squeeze(hub(rows)), getattr(pipeline, method)(rows), rtol=1e-9, atol=1e-12)
    shapes = [value.shape for node in hub.model.graph for value in node.outputs if value.shape is not None]
    widest = max(size for shape in shapes for size in shape[1:] if isinstance(size, int))
    assert (widest < 300) == (not hasattr(model, "steps"))  # a scaler in between is given the whole table
