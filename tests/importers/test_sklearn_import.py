"""ONNX models as scikit-learn's estimators: against the estimators that they come from, and scikit-learn's own checks."""

import copy
import pickle

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import onnxport

sklearn = pytest.importorskip("sklearn", reason="scikit-learn is an extra")
pytestmark = pytest.mark.sklearn

import pandas as pd  # noqa: E402
import scipy.sparse as sp  # noqa: E402
from scipy.special import softmax  # noqa: E402
from sklearn.base import clone, is_classifier  # noqa: E402
from sklearn.calibration import CalibratedClassifierCV  # noqa: E402
from sklearn.compose import make_column_transformer  # noqa: E402
from sklearn.ensemble import StackingClassifier, VotingClassifier  # noqa: E402
from sklearn.feature_extraction.text import TfidfVectorizer  # noqa: E402
from sklearn.frozen import FrozenEstimator  # noqa: E402
from sklearn.linear_model import LinearRegression, LogisticRegression  # noqa: E402
from sklearn.model_selection import cross_val_score  # noqa: E402
from sklearn.naive_bayes import GaussianNB  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import OneHotEncoder, StandardScaler  # noqa: E402
from sklearn.svm import LinearSVC  # noqa: E402
from sklearn.utils.estimator_checks import check_estimator  # noqa: E402

from onnxport.converters.from_onnx.sklearn import wrapped  # noqa: E402
from onnxport.sklearn import OnnxClassifier, OnnxEstimator, OnnxRegressor, OnnxTransformer  # noqa: E402

RNG = np.random.default_rng(0)
SAMPLES = RNG.normal(size=(60, 3))
NUMBERS = (SAMPLES @ [1.0, 2.0, -1.0] > 0).astype(int) + (SAMPLES[:, 0] > 1)
NAMES = np.array(["low", "middle", "high"])[NUMBERS]

ROWS = [
    (StandardScaler(), None, {}, OnnxTransformer, ["transform"]),
    (LinearRegression(), SAMPLES @ [1.0, 2.0, 3.0], {}, OnnxRegressor, ["predict"]),
    (LogisticRegression(), NAMES, {}, OnnxClassifier, ["predict", "predict_proba", "predict_log_proba"]),
    (LogisticRegression(), NAMES, {"zipmap": True}, OnnxClassifier, ["predict", "predict_proba"]),
    (LogisticRegression(), NUMBERS, {"zipmap": "columns"}, OnnxClassifier, ["predict", "predict_proba"]),
    (LinearSVC(), NUMBERS > 0, {"raw_scores": True}, OnnxClassifier, ["predict", "decision_function"]),
]


@pytest.mark.parametrize(("source", "target", "options", "kind", "methods"), ROWS)
def test_methods_agree_with_the_source(source, target, options, kind, methods):
    source = clone(source).fit(SAMPLES, target)
    hub = onnxport.convert(source, inputs=SAMPLES[:5], options=options)
    estimator = wrapped(hub.model)
    assert type(estimator) is kind
    assert onnxport.validate(hub, estimator).passed
    for item in (estimator, clone(estimator), copy.deepcopy(estimator), pickle.loads(pickle.dumps(estimator))):
        for method in methods:
            expected, result = getattr(source, method)(SAMPLES), getattr(item, method)(SAMPLES)
            assert result.shape == expected.shape
            if expected.dtype.kind in "fc":
                assert np.allclose(result, expected, rtol=1e-6, atol=1e-7)  # ZipMap's numbers are float32
            else:
                assert np.array_equal(result, expected)
        assert item.n_features_in_ == 3
    if kind is OnnxClassifier:
        assert np.array_equal(estimator.classes_, source.classes_)
    if target is not None:
        assert estimator.score(SAMPLES, target) == pytest.approx(source.score(SAMPLES, target))
    assert onnxport.convert(estimator, output_names=[f"o{i}" for i in range(len(hub.output_names))]).report.passed


# A graph that was fitted elsewhere learns nothing of the checks' own data, and takes as many columns as come.
TRAINS = "it learns nothing from the data of the check"
WIDTH = "the graph takes any number of columns"
LEARNING = (
    "check_regressors_train",
    "check_classifiers_one_label",
    "check_classifiers_classes",
    "check_classifiers_train",
)
SPARSE = ("check_estimator_sparse_array", "check_estimator_sparse_matrix")  # these want a column a class
EXPECTED = {
    **dict.fromkeys(("check_n_features_in_after_fitting", "check_n_features_in"), WIDTH),
    **dict.fromkeys(LEARNING, TRAINS),
}
GRAPHS = {
    "transformer": ("(double[n, k] transformed) { transformed = Relu(X) }", EXPECTED),
    "regressor": (
        "(double[n, 1] variable) { a = Constant<value = int64[1] {1}>() variable = ReduceMean(X, a) }",
        EXPECTED,
    ),
    "classifier": (
        "(int64[n] label, double[n, k] p) { p = Softmax<axis=1>(X) label = ArgMax<axis=1, keepdims=0>(X) }",
        EXPECTED | dict.fromkeys(SPARSE, TRAINS),
    ),
}


def graph(text):
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 18]> g {text}')


@pytest.mark.parametrize("kind", GRAPHS)
def test_the_checks_of_scikit_learn(kind):
    text, expected = GRAPHS[kind]
    estimator = wrapped(onnxport.model.as_onnx_model(graph(f"(double[n, k] X) => {text}")).model)
    results = check_estimator(estimator, expected_failed_checks=expected, on_skip=None)
    assert sum(item["status"] == "passed" for item in results) > 40


def test_inside_of_other_estimators():
    source = GaussianNB().fit(SAMPLES, NUMBERS)
    estimator = wrapped(onnxport.convert(source, inputs=SAMPLES[:5]).model)
    scaler = wrapped(onnxport.convert(StandardScaler().fit(SAMPLES), inputs=SAMPLES[:5]).model)
    expected = cross_val_score(FrozenEstimator(source), SAMPLES, NUMBERS, cv=3)
    assert np.array_equal(cross_val_score(estimator, SAMPLES, NUMBERS, cv=3), expected)
    for meta in (
        lambda inner: VotingClassifier([("a", FrozenEstimator(inner))], voting="soft"),
        lambda inner: StackingClassifier([("a", inner)], cv="prefit"),
        lambda inner: CalibratedClassifierCV(FrozenEstimator(inner), cv=3),
    ):
        own, theirs = (meta(item).fit(SAMPLES, NUMBERS) for item in (estimator, source))
        assert np.allclose(own.predict_proba(SAMPLES), theirs.predict_proba(SAMPLES))
    pipeline = make_pipeline(scaler, LogisticRegression()).fit(SAMPLES, NUMBERS)
    expected = make_pipeline(StandardScaler(), LogisticRegression()).fit(SAMPLES, NUMBERS)
    assert np.allclose(pipeline.predict_proba(SAMPLES), expected.predict_proba(SAMPLES))
    frame = scaler.set_output(transform="pandas").fit_transform(SAMPLES)
    assert list(frame.columns) == [f"onnxtransformer{i}" for i in range(3)]


def test_tables():
    people = pd.DataFrame({"age": [23.0, 41.0, 30.0, 65.0] * 3, "city": ["Bern", "Rome", "Rome", "Oslo"] * 3})
    columns = make_column_transformer((OneHotEncoder(sparse_output=False), ["city"]), remainder="passthrough")
    source = make_pipeline(columns, LogisticRegression(max_iter=1000)).fit(people, [0, 1, 1, 0] * 3)
    estimator = wrapped(onnxport.convert(source, inputs=people).model)
    assert list(estimator.feature_names_in_) == ["age", "city"]
    expected = source.predict_proba(people)
    tables = (
        people,
        people[["city", "age"]],
        people.to_dict("records"),
        people.to_numpy(),
        {k: people[k] for k in people},
    )
    for table in tables:
        assert np.allclose(estimator.predict_proba(table), expected)
    with pytest.raises(ValueError, match="columns are missing: city"):
        estimator.predict(people[["age"]])


def test_sparse_rows_and_documents():
    source = LogisticRegression().fit(SAMPLES, NUMBERS)
    estimator = wrapped(onnxport.convert(source, inputs=SAMPLES[:5].astype(np.float32)).model)
    assert np.allclose(estimator.predict_proba(sp.csr_matrix(SAMPLES)), source.predict_proba(SAMPLES), atol=1e-6)
    documents = ["a cat and a dog", "the dog barks", "a cat"] * 4
    words = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(documents, [0, 1, 0] * 4)
    reader = wrapped(onnxport.convert(words, inputs=documents).model)
    assert np.allclose(reader.predict_proba(documents), words.predict_proba(documents))
    with pytest.raises(ValueError, match="takes strings"):
        reader.predict(SAMPLES)


def test_a_fixed_batch_runs_block_by_block():
    text = "(float[2, 3] X) => (float[2, 3] y) { y = Exp(X) }"
    estimator = OnnxEstimator(graph(text))
    rows = SAMPLES[:5].astype(np.float32)
    assert np.allclose(estimator.predict(rows), np.exp(rows))


def test_outputs_that_the_user_names():
    net = graph("(float[n, 3] X) => (float[n, 3] p, float[n, 3] h) { h = Exp(X) p = Softmax<axis=1>(X) }")
    estimator = OnnxClassifier(net, outputs={"predict_proba": "p", "transform": "h"})
    rows = SAMPLES[:5].astype(np.float32)
    assert np.allclose(estimator.transform(rows), np.exp(rows))
    assert np.allclose(estimator.predict_proba(rows).sum(axis=1), 1)
    with pytest.raises(onnxport.OnnxportError, match="gives no 'q'"):
        OnnxClassifier(net, outputs={"predict_proba": "q"}).fit(rows)


def test_what_does_not_fit_is_refused():
    estimator = wrapped(onnxport.convert(StandardScaler().fit(SAMPLES), inputs=SAMPLES[:5]).model)
    with pytest.raises(ValueError, match="X has 2 features, but OnnxTransformer is expecting 3"):
        estimator.transform(SAMPLES[:, :2])
    with pytest.raises(ValueError, match="Convert your data"):
        estimator.transform([["a", "b", "c"]])
    with pytest.raises(ValueError, match="has no model"):
        OnnxEstimator().fit(SAMPLES)
    with pytest.raises(onnxport.UnsupportedOperator, match="without inputs"):
        onnxport.convert(graph("() => (float[1] y) { y = Constant<value = float[1] {1}>() }"), to="sklearn")


@pytest.mark.parametrize("zipmap", [False, True])
def test_labels_of_all_rows_in_one(zipmap):
    """skl2onnx writes the labels of quadratic discriminant analysis so: ArrayFeatureExtractor takes along the last axis."""
    end = "maps = ai.onnx.ml.ZipMap <classlabels_int64s = [3, 5, 8]> (p)" if zipmap else "maps = Identity(p)"
    text = f"""<ir_version: 8, opset_import: ["": 17, "ai.onnx.ml": 3]> g (float[n,3] x) => (int64[1,n] label, {{}} maps)
      <int64[3] classes = {{3, 5, 8}}> {{
      best = ArgMax <axis = 1> (x) label = ai.onnx.ml.ArrayFeatureExtractor(classes, best) p = Softmax(x) {end} }}"""
    proto = onnx.parser.parse_model(text.replace("{}", "float[n,3]"))
    if zipmap:
        number = helper.make_tensor_type_proto(TensorProto.FLOAT, None)
        rows = helper.make_sequence_type_proto(helper.make_map_type_proto(TensorProto.INT64, number))
        proto.graph.output[1].CopyFrom(helper.make_value_info("maps", rows))
    model = onnxport.convert(proto, to="sklearn")
    rows = np.random.default_rng(0).standard_normal((7, 3)).astype(np.float32)
    assert is_classifier(model)
    assert model.classes_.tolist() == [3, 5, 8]
    for some in (rows, rows[:1]):
        assert model.predict(some).tolist() == model.classes_[some.argmax(1)].tolist()
        np.testing.assert_allclose(model.predict_proba(some), softmax(some, axis=1), rtol=1e-5)


@pytest.mark.parametrize("scores, shape", [("Sigmoid (h)", "N, 3"), ("Unsqueeze (h, first)", "1, N, 3")])
def test_labels_of_several_targets_are_what_predict_gives(scores, shape):
    """Those of a multilabel classifier; of several targets scores are a table each, which no method gives as one."""
    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["": 17]> several (float[N, 3] x) => (int64[N, 3] label, float[{shape}] probabilities)
        {{first = Constant <value = int64[1] {{0}}> () zero = Constant <value = float {{0.0}}> () h = Neg (x)
          c = Greater (h, zero) label = Cast <to = 7> (c) probabilities = {scores}}}"""
    )
    x = np.random.default_rng(0).standard_normal((6, 3)).astype(np.float32)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    label, probabilities = session.run(None, {"x": x})
    estimator = onnxport.convert(model, to="sklearn", inputs=x)
    np.testing.assert_array_equal(estimator.predict(x), label)
    assert hasattr(estimator, "predict_proba") == (probabilities.ndim == 2)
