"""Estimators to ONNX and back: of the same class, with the same parameters, predicting what the source predicts."""

import json

import numpy as np
import onnx
import pandas as pd
import pytest

import onnxport

sklearn = pytest.importorskip("sklearn", reason="scikit-learn is an extra")
pytestmark = pytest.mark.sklearn

from sklearn.compose import ColumnTransformer  # noqa: E402
from sklearn.decomposition import PCA  # noqa: E402
from sklearn.feature_extraction.text import TfidfVectorizer  # noqa: E402
from sklearn.impute import KNNImputer, SimpleImputer  # noqa: E402
from sklearn.linear_model import LogisticRegression  # noqa: E402
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline  # noqa: E402
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler  # noqa: E402
from sklearn.tree import DecisionTreeClassifier  # noqa: E402

from onnxport.graph.fitted import ESTIMATOR, NOT_IN_FILES, lengthened  # noqa: E402
from onnxport.opset_maps.to_onnx.sklearn.fitted import classifier, data, regressor, transformer, unfitted  # noqa: E402
from onnxport.sklearn import OnnxEstimator  # noqa: E402

ROWS = np.random.default_rng(7).normal(size=(40, 4))
FEW = {"n_estimators": 3, "random_state": 0}
SOURCES = [
    *(
        (transformer, name, {})
        for name in "StandardScaler MinMaxScaler MaxAbsScaler RobustScaler Normalizer Binarizer".split()
    ),
    (transformer, "PCA", {"n_components": 2, "whiten": True}),
    (transformer, "TruncatedSVD", {"n_components": 2}),
    (transformer, "PolynomialFeatures", {"degree": 3}),
    (transformer, "SimpleImputer", {"strategy": "median"}),
    (transformer, "KMeans", {"n_clusters": 3, "n_init": 1}),
    (transformer, "IsolationForest", {"n_estimators": 4, "random_state": 0}),
    *((regressor, name, {}) for name in "LinearRegression Ridge Lasso ElasticNet HuberRegressor SVR".split()),
    (regressor, "KNeighborsRegressor", {"n_neighbors": 3, "weights": "distance"}),
    (regressor, "RandomForestRegressor", FEW),
    (regressor, "ExtraTreesRegressor", FEW),
    (regressor, "GradientBoostingRegressor", FEW),
    (regressor, "DecisionTreeRegressor", {"max_depth": 4}),
    (regressor, "PoissonRegressor", {"positive": True}),
    *((classifier, "LogisticRegression", {"classes": n, "C": 0.5, "text": True}) for n in (2, 3)),
    (classifier, "SVC", {"gamma": 0.3}),
    (classifier, "SVC", {"classes": 2, "kernel": "poly"}),
    *(
        (classifier, name, {})
        for name in "LinearSVC RidgeClassifier SGDClassifier GaussianNB BernoulliNB MLPClassifier".split()
    ),
    (classifier, "MultinomialNB", {"positive": True}),
    (classifier, "KNeighborsClassifier", {"n_neighbors": 4}),
    (classifier, "LinearDiscriminantAnalysis", {"classes": 2}),
    (classifier, "RandomForestClassifier", {**FEW, "classes": 2}),
    (classifier, "ExtraTreesClassifier", FEW),
    (classifier, "GradientBoostingClassifier", FEW),
]


def there_and_back(source, rows, tmp_path, **options):
    onnxport.convert(source, inputs=rows, output=tmp_path / "model.onnx", **options)
    return onnxport.convert(tmp_path / "model.onnx", to="sklearn")


def agree(source, rebuilt, rows):
    """That the methods whose results the file has give the same."""
    methods = [name for name in ("predict", "predict_proba", "transform") if hasattr(source, name)]
    methods = methods[:-1] if len(methods) > 1 and methods[-1] == "transform" else methods
    for method in methods:
        expected, result = (getattr(item, method)(rows) for item in (source, rebuilt))
        expected, result = (item.toarray() if hasattr(item, "toarray") else item for item in (expected, result))
        if expected.dtype.kind == "f":
            assert np.allclose(result, expected, rtol=1e-9, atol=1e-11), method
        else:
            assert np.array_equal(result, expected), method


def plain(params):
    return {name: repr(value) for name, value in params.items() if name not in NOT_IN_FILES}  # NaN is not itself


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("maker", "name", "options"), SOURCES, ids=[f"{row[1]}-{i}" for i, row in enumerate(SOURCES)])
def test_there_and_back(maker, name, options, tmp_path):
    source = maker(name, **options)
    rows = np.abs(ROWS) if options.get("positive") else ROWS
    rebuilt = there_and_back(source, rows, tmp_path)
    assert type(rebuilt) is type(source)
    assert plain(rebuilt.get_params()) == plain(source.get_params())
    agree(source, rebuilt, rows)
    have_alike_arrays(source, rebuilt)


def have_alike_arrays(source, rebuilt):
    """That the fitted arrays that came back have the source's shapes, types and numbers."""
    for name, value in vars(rebuilt).items():
        given = getattr(source, name, None)
        if isinstance(value, np.ndarray) and isinstance(given, np.ndarray) and value.dtype.kind in "fiubU":
            assert (value.shape, value.dtype) == (given.shape, given.dtype), name
            known = ~np.isnan(value) if value.dtype.kind == "f" else np.ones(value.shape, bool)
            close = (
                value[known] == given[known] if value.dtype.kind != "f" else np.isclose(value, given, rtol=1e-12)[known]
            )
            assert close.all(), name


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64, np.uint64])
@pytest.mark.parametrize(
    "numbers", [range(90, 120), range(120, 90, -1), [100] * 5 + [90, 101] * 9, [7] * 20, [*range(100)] * 3]
)
def test_whole_numbers_come_back(numbers, dtype, tmp_path):
    source = StandardScaler().fit(ROWS)
    source.numbers_ = np.array([*numbers], dtype)
    source.table_ = np.array([[*numbers] * 2] * 2, dtype)
    rebuilt = there_and_back(source, ROWS, tmp_path)
    for given, result in ((source.numbers_, rebuilt.numbers_), (source.table_, rebuilt.table_)):
        assert (result.dtype, result.shape, result.tolist()) == (given.dtype, given.shape, given.tolist())


def test_a_pipeline_of_columns_keeps_their_names(tmp_path):
    rng = np.random.default_rng(0)
    people = pd.DataFrame(
        {"age": rng.normal(40, 9, 60), "pay": rng.normal(size=60), "city": rng.choice(["Bern", "Rome"], 60)}
    )
    people.loc[3, "pay"] = np.nan
    numbers = Pipeline([("fill", SimpleImputer()), ("scale", StandardScaler())])
    columns = ColumnTransformer([("num", numbers, ["age", "pay"]), ("cat", OneHotEncoder(), ["city"])])
    source = Pipeline([("columns", columns), ("model", LogisticRegression())]).fit(people, people["age"] > 40)
    rebuilt = there_and_back(source, people, tmp_path)
    assert isinstance(rebuilt, Pipeline)
    assert list(rebuilt[:-1].get_feature_names_out()) == list(source[:-1].get_feature_names_out())
    assert list(rebuilt.feature_names_in_) == ["age", "pay", "city"]
    agree(source, rebuilt, people)


def test_documents(tmp_path):
    documents = ["a cat and a dog", "the dog barks", "a cat", "no bird"] * 3
    source = make_pipeline(TfidfVectorizer(sublinear_tf=True), LogisticRegression()).fit(documents, [0, 1, 0, 1] * 3)
    rebuilt = there_and_back(source, documents, tmp_path, validate=False)
    assert isinstance(rebuilt, Pipeline)
    assert rebuilt[0].vocabulary_ == source[0].vocabulary_
    agree(source, rebuilt, documents)


def test_unions_and_what_they_hold(tmp_path):
    source = FeatureUnion([("scale", StandardScaler()), ("pca", PCA(2))], transformer_weights={"pca": 0.5}).fit(data())
    rebuilt = there_and_back(source, ROWS, tmp_path)
    assert [type(part) for _, part in rebuilt.transformer_list] == [StandardScaler, PCA]
    agree(source, rebuilt, ROWS)
    assert np.allclose(
        rebuilt.transformer_list[1][1].inverse_transform(ROWS[:, :2]),
        source.transformer_list[1][1].inverse_transform(ROWS[:, :2]),
    )


def test_what_only_the_fit_knew_is_not_invented(tmp_path):
    source = classifier("DecisionTreeClassifier", max_depth=3)
    rebuilt = there_and_back(source, ROWS, tmp_path)
    assert isinstance(rebuilt, DecisionTreeClassifier)
    assert np.isnan(rebuilt.feature_importances_).any()
    assert np.array_equal(rebuilt.apply(ROWS), source.apply(ROWS))


def test_a_missing_value_is_tried_where_it_asks_for_what_the_graph_does_not_hold(tmp_path):
    rows = np.where(ROWS > 1.2, np.nan, ROWS)
    source = KNNImputer(add_indicator=True).fit(rows)
    rebuilt = there_and_back(source, rows, tmp_path)
    assert np.allclose(rebuilt.transform(rows), source.transform(rows))


def test_a_split_by_missing_values_alone_is_infinite(tmp_path):
    rows = np.where(ROWS[:, :1] > 0, np.nan, 1.0)
    source = DecisionTreeClassifier().fit(rows, np.isnan(rows[:, 0]))
    assert np.isinf(source.tree_.threshold).any()
    rebuilt = there_and_back(source, rows, tmp_path)
    assert isinstance(rebuilt, DecisionTreeClassifier)
    agree(source, rebuilt, rows)


def test_an_attribute_that_can_not_be_read_leaves_the_file_without_a_record():
    class Hostile(dict):
        def items(self):
            raise OSError

    source = classifier("LogisticRegression")
    source.notes_ = Hostile()
    hub = onnxport.convert(source, inputs=ROWS)
    assert ESTIMATOR not in hub.model.metadata_props
    assert isinstance(onnxport.convert(hub, to="sklearn"), OnnxEstimator)


def test_numbers_that_the_graph_does_not_hold_leave_the_file_to_run(tmp_path):
    source = unfitted("SVC", kernel="linear").fit(data(), data()[:, 0] > 0)
    rebuilt = there_and_back(source, ROWS, tmp_path)
    assert isinstance(rebuilt, OnnxEstimator)
    assert "SVC" in " ".join(rebuilt.notes)
    assert any("SVC" in note for note in rebuilt.onnxport_report.notes)
    assert np.array_equal(rebuilt.predict(ROWS), source.predict(ROWS))


def changed(model, change):
    record = json.loads(model.metadata_props[ESTIMATOR])
    change(record)
    model.metadata_props[ESTIMATOR] = json.dumps(record)


def placed(record, name, **changes):
    record["fitted"][name] = lengthened(record["fitted"][name]) | changes


def deep(record):
    value = 1
    for _ in range(400):
        value = {"l": [value]}
    record["fitted"]["deep_"] = value


SIZES = ("n_components_", "n_features_in_")
MACHINE = ("dual_coef_", "_dual_coef_", "intercept_", "_intercept_", "support_", "support_vectors_", "n_iter_")


@pytest.mark.parametrize(
    ("source", "names"),
    [
        (transformer("PCA", n_components=2), SIZES),
        (transformer("PCA", n_components=0.9, whiten=True), SIZES),
        *((classifier("SVC", classes=count), MACHINE) for count in (2, 3)),
        (regressor("SVR"), MACHINE),
    ],
    ids=lambda item: type(item).__name__ if hasattr(item, "fit") else "",
)
def test_what_a_record_leaves_out_is_set_again(source, names, tmp_path):
    rebuilt = there_and_back(source, ROWS, tmp_path)
    assert type(rebuilt) is type(source)
    for name in names:
        given, back = getattr(source, name), getattr(rebuilt, name)
        assert np.shape(back) == np.shape(given), name
        np.testing.assert_allclose(back, given, rtol=1e-12, atol=1e-14, err_msg=name)


def test_a_record_whose_places_are_written_at_length_is_read():
    source = transformer("PCA", n_components=2)
    hub = onnxport.convert(source, inputs=ROWS)

    def at_length(record):
        fitted = {name: lengthened(item) for name, item in record["fitted"].items()}
        record["fitted"] = {**fitted, "n_components_": 2, "n_features_in_": 4, "_fit_svd_solver": "full"}
        assert [type(fitted[name]) for name in ("mean_", "components_")] == [dict, dict]

    changed(hub.model, at_length)
    rebuilt = onnxport.convert(hub, to="sklearn")
    assert isinstance(rebuilt, PCA)
    agree(source, rebuilt, ROWS)


def test_the_weights_of_two_classes_stand_in_the_file_once():
    source = classifier("SVC", classes=2)
    graph = onnxport.convert(source, inputs=ROWS).model.graph
    held = sum(value.const_value.size for value in graph.initializers.values())
    assert held <= source.support_vectors_.size + 2 * len(source.support_) + 8  # vectors, their squares, weights


def test_booleans_and_named_parts_are_read_again(tmp_path):
    source = regressor("HuberRegressor")
    rebuilt = there_and_back(source, ROWS, tmp_path)
    assert rebuilt.outliers_.dtype == bool
    assert np.array_equal(rebuilt.outliers_, source.outliers_)
    assert 0 < source.outliers_.sum() < len(source.outliers_)
    text = onnx.load(tmp_path / "model.onnx").metadata_props
    assert not any("true" in item.value for item in text if item.key == ESTIMATOR)
    parts = [("line", unfitted("Ridge")), ("none", "drop"), ("tree", unfitted("DecisionTreeRegressor", max_depth=2))]
    source = unfitted("VotingRegressor", estimators=parts).fit(data(), data()[:, 0])
    rebuilt = there_and_back(source, ROWS, tmp_path)
    assert list(rebuilt.named_estimators_) == ["line", "none", "tree"]
    assert rebuilt.named_estimators_.tree is rebuilt.estimators_[1]
    agree(source, rebuilt, ROWS)


@pytest.mark.parametrize(
    ("name", "options", "told"),
    [
        ("SVC", {"kernel": "linear"}, {"class": "SVC", "lost": True}),
        ("HistGradientBoostingRegressor", {"max_iter": 2}, {"class": "HistGradientBoostingRegressor"}),
    ],
)
def test_the_record_of_what_can_not_be_rebuilt_names_its_class_alone(name, options, told):
    source = make_pipeline(StandardScaler(), unfitted(name, **options)).fit(data(), data()[:, 0] > 0)
    hub = onnxport.convert(source, inputs=ROWS)
    assert json.loads(hub.model.metadata_props[ESTIMATOR]) == told
    rebuilt = onnxport.convert(hub, to="sklearn")
    assert isinstance(rebuilt, OnnxEstimator)
    assert name in " ".join(rebuilt.notes)


HOSTILE = {
    "a class that is no estimator": lambda record: record.update({"class": "system"}),
    "a class of another package": lambda record: record.update({"class": "os.system"}),
    "a method as an attribute": lambda record: record["fitted"].update({"predict": 1}),
    "a dunder": lambda record: record["fitted"].update({"__class__": "str"}),
    "a parameter that writes files": lambda record: record["params"].update({"n_jobs": 4096}),
    "an unknown parameter": lambda record: record["params"].update({"hook": "x"}),
    "a constant that is not there": lambda record: placed(record, "coef_", of="nothing"),
    "another shape": lambda record: placed(record, "coef_", shape=[99, 4]),
    "an array of objects by type": lambda record: placed(record, "coef_", shape=[3, 4], dtype="V8"),
    "memory": lambda record: record["fitted"].update({"coef_": {"a": {"shape": [1 << 40], "dtype": "<f8", "fill": 0}}}),
    "a short form of no name": lambda record: record["fitted"].update({"coef_": [["eval"], 1]}),
    "an empty short form": lambda record: record["fitted"].update({"coef_": []}),
    "booleans of more elements than bits": lambda record: record["fitted"].update(
        {"coef_": {"bits": "ff", "shape": [1 << 50]}}
    ),
    "booleans of negative size": lambda record: record["fitted"].update({"coef_": {"bits": "ff", "shape": [-4]}}),
    "an unknown form": lambda record: record["fitted"].update({"coef_": {"eval": "1"}}),
    "depth": deep,
    "other numbers": lambda record: record["fitted"].update(
        {"intercept_": {"a": {"shape": [3], "dtype": "<f8", "fill": 1}}}
    ),
    "a pattern of many values": lambda record: record["fitted"].update(
        {"coef_": {"l": {"pattern": {"l": [0] * 4096}, "count": 4096, "columns": []}}}
    ),
    "a pattern in which a place is missing": lambda record: record["fitted"].update(
        {"coef_": {"l": {"pattern": {"f": {"?": 1}}, "count": 1, "columns": [["1"]]}}}
    ),
    "steps that are no numbers": lambda record: record["fitted"].update({"coef_": {"steps": ["x"]}}),
    "many steps": lambda record: record["fitted"].update(
        {"coef_": {"steps": {"pattern": 1, "count": 1 << 40, "columns": []}}}
    ),
    "no object": lambda record: record.update({"fitted": 3}),
}


@pytest.mark.parametrize("attack", HOSTILE)
def test_a_hostile_record_is_not_followed(attack):
    source = classifier("LogisticRegression")
    hub = onnxport.convert(source, inputs=ROWS, validate=False)
    changed(hub.model, HOSTILE[attack])
    rebuilt = onnxport.convert(hub, to="sklearn", validate=False)
    assert isinstance(rebuilt, OnnxEstimator)
    assert rebuilt.notes
    assert np.array_equal(rebuilt.predict(ROWS), source.predict(ROWS))


def test_a_hostile_tree_is_not_followed():
    source = classifier("DecisionTreeClassifier", max_depth=3)
    hub = onnxport.convert(source, inputs=ROWS, validate=False)
    changed(hub.model, lambda record: record["fitted"]["tree_"]["tree"].update({"shape": [1, 1, 3]}))
    assert isinstance(onnxport.convert(hub, to="sklearn", validate=False), OnnxEstimator)


@pytest.mark.parametrize("kind", [OneHotEncoder, OrdinalEncoder])
def test_an_encoder_of_words_that_refuses_others_comes_back(kind):
    """Each column has words of its own: rows that mix them are refused by the encoder."""
    rng = np.random.default_rng(0)
    rows = np.stack([rng.choice(["red", "green", "blue"], 50), rng.choice(["s", "m", "l", "xl"], 50)], axis=1).astype(
        object
    )
    fitted = kind().fit(rows)
    back = onnxport.convert(onnxport.convert(fitted, inputs=rows[:10]), to="sklearn", validate=False)
    assert type(back) is kind
    np.testing.assert_array_equal(as_array(back.transform(rows)), as_array(fitted.transform(rows)))


def as_array(result):
    return result.toarray() if hasattr(result, "toarray") else np.asarray(result)
