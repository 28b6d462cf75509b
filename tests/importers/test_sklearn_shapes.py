"""Sub-graphs as skl2onnx writes them come back as the estimators that they were written from."""

import pickle

import numpy as np
import onnx.numpy_helper as arrays
import pytest

import onnxport
from tests.importers.sklearn_graphs import FLOAT, Graph, min_max, one_hot, scaler

pytest.importorskip("sklearn", reason="scikit-learn is an extra")
pytestmark = pytest.mark.sklearn

from sklearn.decomposition import PCA, TruncatedSVD  # noqa: E402
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis  # noqa: E402
from sklearn.linear_model import SGDClassifier  # noqa: E402
from sklearn.naive_bayes import BernoulliNB, GaussianNB, MultinomialNB  # noqa: E402
from sklearn.neural_network import MLPClassifier  # noqa: E402
from sklearn.preprocessing import (  # noqa: E402
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
)

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(80, 3)).astype(np.float32)
COUNTS = RNG.integers(0, 5, size=(80, 3)).astype(np.float32)
LABELS = np.digitize(ROWS[:, 0] + 0.5 * ROWS[:, 1] ** 2, [-0.3, 0.8])
TEXTS = np.array(["high", "low", "mid"])[LABELS]


def clipped(g, fitted):
    return g.add("Clip", min_max(g, fitted), np.float32(0), np.float32(1))


def pca(g, fitted):
    product = g.add("MatMul", g.add("Sub", "X", fitted.mean_), fitted.components_.T)
    return g.add("Div", product, np.sqrt(fitted.explained_variance_)) if fitted.whiten else product


def svd(g, fitted):
    return g.add("MatMul", "X", fitted.components_.T)


def box_cox(g, fitted, rows="X"):
    one, power = g.add("Div", rows, rows), fitted.lambdas_
    raised = g.add("Div", g.add("Sub", g.add("Pow", rows, power), one), power)
    first = g.add("Mul", imputed(g, raised, np.inf), np.ones_like(power))
    logs = g.add("Mul", imputed(g, g.add("Log", rows), np.nan), np.zeros_like(power))
    return scaler(g, fitted._scaler, g.add("Add", first, logs))


def yeo_johnson(g, fitted, rows="X"):
    one, power = g.add("Div", rows, rows), fitted.lambdas_
    negative = g.add("Less", rows, g.add("Sub", rows, rows))
    sides = []
    for sign, base, powers in ((1, g.add("Add", rows, one), power), (-1, g.add("Sub", one, rows), 2 - power)):
        raised, log = g.add("Pow", base, powers), g.add("Log", base)
        above = g.add("Sub", raised, one) if sign > 0 else g.add("Sub", one, raised)
        first = g.add("Mul", imputed(g, g.add("Div", above, powers), np.inf), np.ones_like(power))
        logs = g.add("Mul", log if sign > 0 else g.add("Neg", log), np.zeros_like(power))
        mask = g.add("Not", negative) if sign > 0 else negative
        both = imputed(g, g.add("Add", first, logs), np.nan)
        sides.append(g.add("Mul", both, g.add("Cast", mask, to=FLOAT)))
    return scaler(g, fitted._scaler, g.add("Add", *sides))


def imputed(g, value, replaced):
    return g.add("Imputer", value, imputed_value_floats=[0.0], replaced_value_float=replaced)


def polynomial(g, fitted):
    terms = [np.flatnonzero(row).repeat(row[row > 0]) for row in fitted.powers_]
    parts = [g.add("ReduceProd", g.add("ArrayFeatureExtractor", "X", term), axes=[1]) for term in terms if len(term)]
    ones = g.add("ConstantOfShape", g.add("Shape", parts[0]), value=arrays.from_array(np.ones(1, np.float32)))
    return g.add("Concat", ones, *parts, axis=1)


def ordinal(g, fitted):
    parts = []
    for place, items in enumerate(fitted.categories_):
        column = g.add("ArrayFeatureExtractor", "X", np.array(place))
        encoded = g.add("LabelEncoder", column, keys_floats=items.tolist(), values_int64s=list(range(len(items))))
        parts.append(g.add("Reshape", encoded, np.array([-1, 1])))
    return g.add("Cast", g.add("Concat", *parts, axis=1), to=FLOAT)


TRANSFORMERS = [
    ("min-max", MinMaxScaler(), min_max, ROWS),
    ("min-max that clips", MinMaxScaler(clip=True), clipped, ROWS),
    ("components", PCA(2), pca, ROWS),
    ("whitened components", PCA(2, whiten=True), pca, ROWS),
    ("components without a mean", TruncatedSVD(2, random_state=0), svd, ROWS),
    ("Box-Cox", PowerTransformer("box-cox"), box_cox, np.abs(ROWS) + 0.1),
    ("polynomials", PolynomialFeatures(2), polynomial, ROWS),
    ("polynomials of different columns", PolynomialFeatures(3, interaction_only=True), polynomial, ROWS),
    ("one-hot", OneHotEncoder(sparse_output=False), one_hot, COUNTS),
    ("one-hot less the first", OneHotEncoder(sparse_output=False, drop="first"), one_hot, COUNTS),
    ("ordinal", OrdinalEncoder(), ordinal, COUNTS),
]


@pytest.mark.parametrize(
    ("estimator", "written", "rows"), [row[1:] for row in TRANSFORMERS], ids=[r[0] for r in TRANSFORMERS]
)
def test_transformers_come_back(estimator, written, rows):
    fitted = estimator.fit(rows.astype(np.float64))
    graph = Graph()
    known = not hasattr(fitted, "categories_")  # runtimes and scikit-learn refuse others, which a proof draws
    converted = onnxport.convert(graph.model(variable=written(graph, fitted)), to="sklearn", validate=known)
    rebuilt = pickle.loads(pickle.dumps(converted))
    assert type(rebuilt) is type(fitted)
    told = {"clip", "whiten", "method", "degree", "interaction_only", "drop", "handle_unknown", "n_components"}
    assert {k: v for k, v in rebuilt.get_params().items() if k in told} == {
        k: v for k, v in fitted.get_params().items() if k in told
    }
    assert np.allclose(rebuilt.transform(rows), fitted.transform(rows), rtol=1e-4, atol=1e-5)


def test_missing_values_are_filled_before_powers_as_the_graph_fills_them():
    fitted = PowerTransformer().fit(ROWS.astype(np.float64))
    graph = Graph()
    rebuilt = onnxport.convert(graph.model(variable=yeo_johnson(graph, fitted)), to="sklearn")
    assert [type(step).__name__ for _, step in rebuilt.steps] == ["SimpleImputer", "PowerTransformer"]
    assert np.allclose(rebuilt.transform(ROWS), fitted.transform(ROWS), atol=1e-4)


def linear(g, fitted):
    return g.add("Add", g.add("MatMul", "X", fitted.coef_.T), fitted.intercept_)


def descent(g, fitted):
    scores = linear(g, fitted)
    return scores, scores


def logistic_descent(g, fitted):
    share = g.add("Sigmoid", linear(g, fitted))
    both = g.add("Concat", g.add("Sub", np.ones(1), share), share, axis=1)
    return both, both


def perceptron(g, fitted):
    value = "X"
    for place, (weights, biases) in enumerate(zip(fitted.coefs_, fitted.intercepts_, strict=True)):
        value = g.add("Add", g.add("MatMul", value, weights), biases[None])
        value = g.add("Tanh", value) if place < len(fitted.coefs_) - 1 else value
    return value


def softmax_perceptron(g, fitted):
    shares = g.add("Softmax", perceptron(g, fitted))
    return shares, shares


def bayes(g, joint):
    total = g.add("Reshape", g.add("ReduceLogSumExp", joint, axes=[1], keepdims=0), np.array([-1, 1]))
    return joint, g.add("Exp", g.add("Sub", joint, total))


def multinomial(g, fitted):
    return bayes(g, g.add("Add", g.add("MatMul", "X", fitted.feature_log_prob_.T), fitted.class_log_prior_[None]))


def bernoulli(g, fitted):
    bits = g.add("Cast", g.add("Greater", "X", np.float32([fitted.binarize])), to=FLOAT)
    absent = g.add("Log", g.add("Sub", np.float32(1), g.add("Exp", fitted.feature_log_prob_.T)))
    product = g.add("MatMul", bits, g.add("Sub", fitted.feature_log_prob_.T, absent))
    total = g.add("ReduceSum", absent, np.array([0]))
    return bayes(g, g.add("Add", g.add("Add", product, total), fitted.class_log_prior_[None]))


def gaussian(g, fitted):
    squares = g.add(
        "Pow", g.add("Sub", g.add("Reshape", "X", np.array([-1, 1, 3])), fitted.theta_[None]), np.float32(2)
    )
    terms = g.add("ReduceSum", g.add("Div", squares, fitted.var_[None]), np.array([2]), keepdims=0)
    logs = -0.5 * np.sum(np.log(2 * np.pi * fitted.var_), axis=1)[None]
    return bayes(
        g, g.add("Add", np.log(fitted.class_prior_)[None], g.add("Sub", logs, g.add("Mul", terms, np.float32(0.5))))
    )


def discriminant(g, fitted):
    norms = []
    for mean, turn, scale in zip(fitted.means_, fitted.rotations_, fitted.scalings_, strict=True):
        product = g.add("MatMul", g.add("Sub", "X", mean), turn * scale**-0.5)
        norms.append(g.add("ReduceSum", g.add("Pow", product, np.float32(2)), np.array([1]), keepdims=1))
    table = g.add("Transpose", g.add("Reshape", g.add("Concat", *norms, axis=0), np.array([3, -1])), perm=[1, 0])
    logs = np.array([np.sum(np.log(scale)) for scale in fitted.scalings_])
    decision = g.add("Add", g.add("Mul", np.float32(-0.5), g.add("Add", table, logs)), np.log(fitted.priors_))
    likely = g.add("Exp", g.add("Sub", decision, g.add("ReduceMax", decision, axes=[1])))
    return decision, g.add("Div", likely, g.add("ReduceSum", likely, np.array([1]), keepdims=1))


CLASSIFIERS = [
    ("hinge", SGDClassifier(random_state=0), descent, ROWS, LABELS),
    ("hinge of texts", SGDClassifier(random_state=0), descent, ROWS, TEXTS),
    ("two classes", SGDClassifier(loss="log_loss", random_state=0), logistic_descent, ROWS, LABELS > 0),
    ("layers", MLPClassifier((5, 4), activation="tanh", max_iter=20, random_state=0), softmax_perceptron, ROWS, LABELS),
    ("layers of texts", MLPClassifier((4,), activation="tanh", max_iter=20), softmax_perceptron, ROWS, TEXTS),
    ("counts", MultinomialNB(), multinomial, COUNTS, LABELS),
    ("bits", BernoulliNB(binarize=0.25), bernoulli, ROWS, TEXTS),
    ("normal", GaussianNB(), gaussian, ROWS, LABELS),
    ("normal of any directions", QuadraticDiscriminantAnalysis(), discriminant, ROWS, LABELS),
]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("estimator", "written", "rows", "labels"), [row[1:] for row in CLASSIFIERS], ids=[row[0] for row in CLASSIFIERS]
)
def test_classifiers_come_back(estimator, written, rows, labels):
    labels = labels.astype(int) if labels.dtype == bool else labels
    fitted = estimator.fit(rows.astype(np.float64), labels)
    graph = Graph()
    best, scores = written(graph, fitted)
    graph.texts = labels.dtype.kind == "U"
    model = graph.model(label=graph.label(best, fitted.classes_), probabilities=scores)
    rebuilt = pickle.loads(pickle.dumps(onnxport.convert(model, to="sklearn")))
    assert type(rebuilt) is type(fitted)
    assert np.array_equal(rebuilt.classes_, fitted.classes_)
    assert np.array_equal(rebuilt.predict(rows), fitted.predict(rows))
    method = "predict_proba" if hasattr(fitted, "predict_proba") else "decision_function"
    assert np.allclose(getattr(rebuilt, method)(rows), getattr(fitted, method)(rows), rtol=1e-4, atol=1e-5)
