"""Whole pipelines, machines, clusters and regressors of skl2onnx's graphs come back as scikit-learn's own."""

import numpy as np
import pytest

import onnxport
from tests.importers.sklearn_graphs import FLOAT, STRING, Graph, min_max, one_hot, scaler

pytest.importorskip("sklearn", reason="scikit-learn is an extra")
pd = pytest.importorskip("pandas", reason="pandas is an extra")
pytestmark = pytest.mark.sklearn

from sklearn.cluster import KMeans  # noqa: E402
from sklearn.compose import ColumnTransformer  # noqa: E402
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor  # noqa: E402
from sklearn.neural_network import MLPRegressor  # noqa: E402
from sklearn.pipeline import FeatureUnion, make_pipeline  # noqa: E402
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, StandardScaler  # noqa: E402
from sklearn.svm import SVC, OneClassSVM  # noqa: E402

from onnxport.sklearn import OnnxEstimator  # noqa: E402

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(80, 3)).astype(np.float32)
LABELS = np.digitize(ROWS[:, 0] + 0.5 * ROWS[:, 1] ** 2, [-0.3, 0.8])
TARGET = np.abs(ROWS[:, 0] + ROWS[:, 1] ** 2) + 0.1
TABLE = pd.DataFrame(
    {
        "age": RNG.uniform(18, 80, 80).astype(np.float32),
        "income": RNG.lognormal(0, 1, 80).astype(np.float32),
        "spare": RNG.normal(size=80).astype(np.float32),
        "city": RNG.choice(["berlin", "paris", "rome"], 80),
    }
)


def logistic(g, fitted, rows):
    many = len(fitted.classes_) > 2
    weights, biases = fitted.coef_, fitted.intercept_
    if not many:
        weights, biases = np.concatenate([-weights, weights]), np.concatenate([-biases, biases])
    return g.add(
        "LinearClassifier", rows, outputs=2, classlabels_ints=fitted.classes_.tolist(), intercepts=biases.tolist(),
        coefficients=weights.ravel().tolist(), post_transform="SOFTMAX" if many else "LOGISTIC",
    )  # fmt: skip


@pytest.mark.parametrize("remainder", ["drop", "passthrough"])
@pytest.mark.parametrize("labels", [LABELS, (LABELS > 0).astype(int)], ids=["three classes", "two classes"])
def test_columns_are_chosen_by_their_names(labels, remainder):
    columns = ColumnTransformer(
        [
            ("scaled", StandardScaler(), ["income", "age"]),
            ("city", OneHotEncoder(sparse_output=False, handle_unknown="ignore"), ["city"]),
            ("share", MinMaxScaler(), ["age"]),
        ],
        remainder=remainder,
    )
    truth = make_pipeline(columns, LogisticRegression()).fit(TABLE, labels)
    parts = columns.named_transformers_
    g = Graph(age=(FLOAT, 1), income=(FLOAT, 1), spare=(FLOAT, 1), city=(STRING, 1))
    scaled = scaler(g, parts["scaled"], g.add("Concat", "income", "age", axis=1))
    tables = [scaled, one_hot(g, parts["city"], ["city"]), min_max(g, parts["share"], "age")]
    tables += ["spare"] if remainder == "passthrough" else []
    label, scores = logistic(g, truth[-1], g.add("Concat", *tables, axis=1))
    rebuilt = onnxport.convert(g.model(label=label, probabilities=scores), to="sklearn")
    assert [type(step) for _, step in rebuilt.steps] == [ColumnTransformer, LogisticRegression]
    chosen = [(type(part).__name__, names) for _, part, names in rebuilt[0].transformers]
    assert chosen[:3] == [("StandardScaler", ["income", "age"]), ("OneHotEncoder", ["city"]), ("MinMaxScaler", ["age"])]
    assert rebuilt.feature_names_in_.tolist() == [*TABLE.columns]
    others = TABLE.assign(city=["oslo"] * 40 + ["rome"] * 40)
    for table in (TABLE, others[[*reversed(others.columns)]]):
        assert np.array_equal(rebuilt.predict(table), truth.predict(table))
        assert np.allclose(rebuilt.predict_proba(table), truth.predict_proba(table), atol=1e-5)


def test_columns_of_a_matrix_and_unions_of_all_of_them():
    truth = make_pipeline(
        ColumnTransformer([("a", StandardScaler(), [0, 2]), ("b", "passthrough", [1])]),
        FeatureUnion([("c", StandardScaler()), ("d", MinMaxScaler())]),
        LinearRegression(),
    ).fit(ROWS.astype(np.float64), TARGET)
    g = Graph()
    picked = [g.add("ArrayFeatureExtractor", "X", np.array(places)) for places in ([0, 2], [1])]
    table = g.add("Concat", scaler(g, truth[0].named_transformers_["a"], picked[0]), picked[1], axis=1)
    union = dict(truth[1].transformer_list)
    table = g.add("Concat", scaler(g, union["c"], table), min_max(g, union["d"], table), axis=1)
    product = g.add("MatMul", table, truth[-1].coef_[:, None])
    model = g.model(variable=g.add("Add", product, np.array([truth[-1].intercept_])))
    rebuilt = onnxport.convert(model, to="sklearn")
    assert [type(step) for _, step in rebuilt.steps] == [ColumnTransformer, FeatureUnion, LinearRegression]
    assert np.allclose(np.ravel(rebuilt.predict(ROWS)), truth.predict(ROWS), rtol=1e-4, atol=1e-5)


def test_picked_columns_come_back_as_columns_that_pass():
    g = Graph()
    rebuilt = onnxport.convert(g.model(variable=g.add("ArrayFeatureExtractor", "X", np.array([0, 2]))), to="sklearn")
    assert [item[1:] for item in rebuilt.transformers] == [("passthrough", [0, 2])]
    assert np.array_equal(rebuilt.transform(ROWS), ROWS[:, [0, 2]])


# Of two classes runtimes take the label from the probabilities and end these elsewhere than libsvm: such files run as they are.
MACHINES = [(kernel, classes, False) for kernel in ("rbf", "linear", "poly") for classes in (2, 3)]
MACHINES += [("rbf", 3, True), ("poly", 3, True)]


@pytest.mark.parametrize(("kernel", "classes", "probability"), MACHINES)
@pytest.mark.filterwarnings("ignore:.*probability.*:FutureWarning")
def test_machines_of_pairs_come_back(kernel, classes, probability):
    labels = np.minimum(LABELS, classes - 1)
    truth = SVC(kernel=kernel, decision_function_shape="ovo", random_state=0)
    if probability:
        truth.set_params(probability=True)
    truth.fit(ROWS.astype(np.float64), labels)
    given = {"prob_a": truth._probA.tolist(), "prob_b": truth._probB.tolist()} if probability else {}
    g = Graph()
    label, scores = g.add(
        "SVMClassifier", "X", outputs=2, classlabels_ints=truth.classes_.tolist(), kernel_type=kernel.upper(),
        coefficients=truth._dual_coef_.ravel().tolist(), kernel_params=[truth._gamma, truth.coef0, float(truth.degree)],
        rho=truth._intercept_.tolist(), support_vectors=truth.support_vectors_.ravel().tolist(), post_transform="NONE",
        vectors_per_class=truth.n_support_.tolist(), **given,
    )  # fmt: skip
    # libsvm and runtimes end probabilities at 1e-7 and 1.2e-7, which a proof tells apart
    rebuilt = onnxport.convert(g.model(label=label, probabilities=scores), to="sklearn", validate=not probability)
    assert type(rebuilt) is SVC
    assert rebuilt.kernel == kernel
    assert np.array_equal(rebuilt.predict(ROWS), truth.predict(ROWS))
    if probability:
        assert np.allclose(rebuilt.predict_proba(ROWS), truth.predict_proba(ROWS), atol=1e-4)
    else:
        assert np.allclose(rebuilt.decision_function(ROWS), truth.decision_function(ROWS), rtol=1e-3, atol=1e-4)


def test_a_machine_of_one_class_comes_back():
    truth = OneClassSVM(nu=0.3).fit(ROWS.astype(np.float64))
    g = Graph()
    scores = g.add(
        "SVMRegressor", "X", coefficients=truth.dual_coef_.ravel().tolist(), rho=truth.intercept_.tolist(),
        kernel_params=[truth._gamma, 0.0, 3.0], kernel_type="RBF", n_supports=len(truth.support_), post_transform="NONE",
        support_vectors=truth.support_vectors_.ravel().tolist(),
    )  # fmt: skip
    rebuilt = onnxport.convert(g.model(label=g.add("Cast", g.add("Sign", scores), to=7), scores=scores), to="sklearn")
    assert type(rebuilt) is OneClassSVM
    assert np.array_equal(rebuilt.predict(ROWS), truth.predict(ROWS))
    assert np.allclose(rebuilt.decision_function(ROWS), truth.decision_function(ROWS), atol=1e-4)


def test_centers_come_back():
    truth = KMeans(4, random_state=0, n_init=1).fit(ROWS)
    g = Graph()
    squares = g.add("ReduceSumSquare", "X", axes=[1], keepdims=1)
    zero = g.add("Mul", squares, np.zeros(1))
    product = g.add("Gemm", "X", truth.cluster_centers_, zero, alpha=-2.0, transB=1)
    distances = g.add("Add", np.sum(truth.cluster_centers_**2, axis=1), g.add("Add", squares, product))
    label = g.add("ArgMin", distances, axis=1, keepdims=0)
    rebuilt = onnxport.convert(g.model(label=label, scores=g.add("Sqrt", distances)), to="sklearn")
    assert type(rebuilt) is KMeans
    assert np.array_equal(rebuilt.predict(ROWS), truth.predict(ROWS))
    assert np.allclose(rebuilt.transform(ROWS), truth.transform(ROWS), atol=1e-4)


REGRESSORS = [
    ("linear", LinearRegression(), ()),
    ("log-linear", PoissonRegressor(), ("Exp",)),
    ("layers", MLPRegressor(hidden_layer_sizes=(4, 3), max_iter=20, random_state=0), ()),
]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("estimator", "behind"), [row[1:] for row in REGRESSORS], ids=[row[0] for row in REGRESSORS])
def test_regressors_come_back(estimator, behind):
    truth = estimator.fit(ROWS.astype(np.float64), TARGET)
    g, value = Graph(), "X"
    weights = getattr(truth, "coefs_", None) or [truth.coef_[:, None]]
    biases = getattr(truth, "intercepts_", None) or [np.array([truth.intercept_])]
    for place, (matrix, added) in enumerate(zip(weights, biases, strict=True)):
        value = g.add("Add", g.add("MatMul", value, matrix), added)
        value = g.add("Relu", value) if place < len(weights) - 1 else value
    for op in behind:
        value = g.add(op, value)
    rebuilt = onnxport.convert(g.model(variable=g.add("Reshape", value, np.array([-1, 1]))), to="sklearn")
    assert type(rebuilt) is type(truth)
    assert np.allclose(np.ravel(rebuilt.predict(ROWS)), truth.predict(ROWS), rtol=1e-4, atol=1e-5)


def test_shapes_that_only_look_alike_run_the_file():
    g = Graph()
    scaled = g.add("Mul", g.add("Add", "X", np.arange(3.0)), np.arange(1.0, 4.0))
    twice = g.add("Sin", scaled)
    rebuilt = onnxport.convert(g.model(variable=twice), to="sklearn", validate=False)
    assert isinstance(rebuilt, OnnxEstimator)
