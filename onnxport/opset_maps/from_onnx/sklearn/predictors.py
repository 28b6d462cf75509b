"""Predictors as skl2onnx writes them in ONNX's own operators."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from sklearn.cluster import KMeans
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor, SGDClassifier
from sklearn.naive_bayes import BernoulliNB, CategoricalNB, ComplementNB, GaussianNB, MultinomialNB

from onnxport.opset_maps.from_onnx.sklearn import patterns
from onnxport.opset_maps.from_onnx.sklearn.chains import (
    Step,
    classes_of,
    named,
    predicts,
    reads_outputs,
)
from onnxport.opset_maps.from_onnx.sklearn.patterns import (
    Constant,
    Number,
    Op,
    Rows,
    label_of,
    matched,
    matched_all,
    op,
)
from onnxport.opset_maps.from_onnx.sklearn.transformers import ROWS, wide

_LINEAR = Op("Add", (op("MatMul", ROWS, Constant("coef")), Constant("intercept")), "scores")
_SCORES = Rows("scores")


def _two(shape: patterns.Shape) -> Op:
    """Beside a share its rest."""
    return op("Concat", op("Sub", Number(1), shape), shape)


_HUBER = op("Div", op("Add", op("Clip", _LINEAR, Number(-1), Number(1)), Number(1)), Number(2))
# Of several classes the graph's label is that of the greatest share, and shares that round to 1 are equal where scores are not.
_LOSSES: tuple[tuple[str, patterns.Shape], ...] = (
    ("hinge", _LINEAR),
    ("hinge", op("Concat", op("Mul", _LINEAR, Number(-1)), _LINEAR)),
    ("log_loss", _two(op("Sigmoid", _LINEAR))),
    ("modified_huber", _two(_HUBER)),
)


def _register_gradient_descent(loss: str, shape: patterns.Shape) -> None:
    @predicts(named(Rows("best")), shape)
    def classifier(bound: patterns.Bound) -> Any:
        model = SGDClassifier(loss=loss)
        model.coef_ = np.ascontiguousarray(np.asarray(bound["coef"], np.float64).T)
        model.intercept_, model.classes_ = wide(bound["intercept"]), classes_of(bound)
        model.n_features_in_ = model.coef_.shape[1]
        return model


for _loss, _shape in _LOSSES:
    _register_gradient_descent(_loss, _shape)

_SOFT = op("Sigmoid", _SCORES)


@predicts(named(_LINEAR), op("Softmax", _SCORES))
@predicts(named(_LINEAR), op("Div", _SOFT, op("ReduceSum", op("Abs", _SOFT))))
def logistic_regression(bound: patterns.Bound) -> Any:
    """Logistic regression in float64, for which ai.onnx.ml's classifier has no type."""
    coefficients, intercepts = np.asarray(bound["coef"], np.float64).T, wide(bound["intercept"])
    model = LogisticRegression()
    model.classes_ = classes_of(bound)
    if len(model.classes_) == 2:
        coefficients, intercepts = coefficients[1:], intercepts[1:]
    model.coef_, model.intercept_ = np.ascontiguousarray(coefficients), intercepts
    model.n_features_in_ = coefficients.shape[1]
    return model


@predicts(op("Add", op("MatMul", op("Sub", ROWS, Constant("mean")), Constant("coef")), Constant("intercept")))
@predicts(_LINEAR)
def linear_regression(bound: patterns.Bound) -> Any:
    """x coefficients' + intercepts; what is subtracted from x is part of the intercepts."""
    coefficients = _by_target(bound)
    intercepts = np.broadcast_to(wide(bound["intercept"]), (len(coefficients),))
    if "mean" in bound:
        intercepts = intercepts - coefficients @ wide(bound["mean"])
    model = LinearRegression()
    one = len(coefficients) == 1
    model.coef_ = coefficients[0] if one else coefficients
    model.intercept_ = float(intercepts[0]) if one else intercepts.copy()
    model.n_features_in_ = coefficients.shape[1]
    return model


@predicts(op("Exp", _LINEAR))
def log_linear_regression(bound: patterns.Bound) -> Any:
    """The exponential of a linear function: of a Poisson, gamma and Tweedie regression, which do not differ in it."""
    coefficients = _by_target(bound)
    if len(coefficients) != 1:
        return None
    model = PoissonRegressor()
    model.coef_, model.intercept_ = coefficients[0], float(wide(bound["intercept"])[0])
    model.n_features_in_ = coefficients.shape[1]
    model._base_loss = model._get_loss()
    return model


def _by_target(bound: patterns.Bound) -> np.ndarray:
    """A row of coefficients for each target."""
    matrix = np.asarray(bound["coef"], np.float64)
    return np.ascontiguousarray(matrix[None] if matrix.ndim == 1 else matrix.T)


_SQUARES = op("ReduceSumSquare", ROWS)
_GEMM = op("Gemm", ROWS, Constant("centers"), op("Mul", _SQUARES, Number(0)))
_DISTANCES = Op("Add", (Constant("squares"), op("Add", _SQUARES, _GEMM)), "distances")


@predicts(op("ArgMin", _DISTANCES), op("Sqrt", Rows("distances")))
def k_means(bound: patterns.Bound) -> Any:
    """The nearest center, and how far each is."""
    return _k_means(bound["centers"]), _k_means(np.asarray(bound["centers"], np.float64))


def _k_means(centers: np.ndarray) -> KMeans:
    """Centers in the type of the rows, which scikit-learn asks of them."""
    model = KMeans(len(centers))
    model.cluster_centers_, model._n_threads = np.array(centers, order="C"), 1
    model.n_features_in_, model._n_features_out = centers.shape[1], len(centers)
    return model


_JOINT = Rows("joint")
_PROBABILITIES = op("Exp", op("Sub", _JOINT, op("ReduceLogSumExp", _JOINT)))


def _bayes(*inputs: patterns.Shape, op_type: str = "Add") -> tuple[patterns.Shape, patterns.Shape]:
    return named(Op(op_type, inputs, "joint")), _PROBABILITIES


@predicts(*_bayes(op("MatMul", ROWS, Constant("shares")), Constant("priors")))
def multinomial_bayes(bound: patterns.Bound) -> Any:
    """Counts times the logarithms of each class's shares."""
    model = MultinomialNB()
    model.feature_log_prob_ = np.ascontiguousarray(np.asarray(bound["shares"], np.float64).T)
    return _with_priors(model, bound, model.feature_log_prob_.shape[1])


@predicts(*_bayes(ROWS, Constant("shares"), op_type="MatMul"))
def complement_bayes(bound: patterns.Bound) -> Any:
    """Counts times weights, without the classes' shares where there are several."""
    model = ComplementNB()
    model.feature_log_prob_ = np.ascontiguousarray(np.asarray(bound["shares"], np.float64).T)
    return _with_priors(model, bound, model.feature_log_prob_.shape[1])


_EXPONENT = op("Mul", op("ReduceSum", op("Div", op("Pow", op("Sub", op("Reshape", ROWS), Constant("means")), Number(2)),
                                         Constant("variances"))), Number(0.5))  # fmt: skip


@predicts(*_bayes(Constant("priors"), op("Sub", Constant("logs"), _EXPONENT)))
def gaussian_bayes(bound: patterns.Bound) -> Any:
    """Normal distributions of each class."""
    model = GaussianNB()
    means = np.asarray(bound["means"], np.float64)
    model.theta_ = means.reshape(-1, means.shape[-1])
    model.var_ = np.asarray(bound["variances"], np.float64).reshape(model.theta_.shape)
    model.class_prior_, model.epsilon_ = np.exp(wide(bound["priors"])), 0.0
    model.classes_, model.n_features_in_ = classes_of(bound), means.shape[-1]
    return model


_BITS = op("Greater", ROWS, Constant("level"))
_GAPS = (Constant("gaps"), Constant("absent"))


@predicts(*_bayes(op("Add", op("MatMul", op("Add", Number(0), _BITS), _GAPS[0]), _GAPS[1]), Constant("priors")))
@predicts(*_bayes(op("Add", op("MatMul", _BITS, _GAPS[0]), _GAPS[1]), Constant("priors")))
def bernoulli_bayes(bound: patterns.Bound) -> Any:
    """Whether each column is above a level; the graph holds the logarithms of odds."""
    level = wide(bound["level"])
    if len(set(level.tolist())) != 1:
        return None
    model = BernoulliNB(binarize=float(level[0]))
    gaps = np.asarray(bound["gaps"], np.float64).T
    model.feature_log_prob_ = -np.logaddexp(0.0, -gaps)
    return _with_priors(model, bound, gaps.shape[1])


@reads_outputs
def categorical_bayes(outputs: Sequence[ir.Value]) -> Iterator[Step]:
    """A table of each class's shares for each column."""
    if len(outputs) != 2:
        return
    shapes = _bayes(Rows("sum"), Constant("priors"))
    bound = matched_all(shapes, [label_of(outputs[0]), outputs[1]])
    node = bound["sum"].producer() if bound is not None else None
    if bound is None or node is None or node.op_type not in ("Sum", "Add"):
        return
    columns = [matched(_COLUMN, item) for item in node.inputs]
    known = [column for column in columns if column is not None]
    rows = {column["rows"] for column in known}
    places = [int(column["place"].reshape(-1)[0]) for column in known]
    if len(known) < len(columns) or len(rows) != 1 or places != list(range(len(known))):
        return
    model = CategoricalNB()
    model.feature_log_prob_ = [np.asarray(column["shares"], np.float64) for column in known]
    model.class_count_ = np.exp(wide(bound["priors"]))
    model.n_categories_ = np.array([table.shape[1] for table in model.feature_log_prob_])
    yield Step(_with_priors(model, bound, len(known)), (rows.pop(),))


_NUMBERS = op("Cast", op("ArrayFeatureExtractor", ROWS, Constant("place")))
_COLUMN = op("Transpose", op("ArrayFeatureExtractor", Constant("shares"), _NUMBERS))


def _with_priors(model: Any, bound: patterns.Bound, width: int) -> Any:
    model.classes_ = classes_of(bound)
    count = len(model.classes_)
    priors = wide(bound["priors"]) if "priors" in bound else np.full(count, -np.log(count))
    model.class_log_prior_, model.n_features_in_ = priors, width
    return model


_DECISION = Rows("decision")
_LIKELIHOOD = op("Exp", op("Sub", _DECISION, op("ReduceMax", _DECISION)))
_QUADRATIC = op("Mul", Number(-0.5), op("Add", op("Transpose", op("Reshape", Rows("norms"))), Constant("logs")))
_NORM = op("ReduceSum", op("Pow", op("MatMul", op("Sub", ROWS, Constant("mean")), Constant("rotation")), Number(2)))


@reads_outputs
def quadratic_discriminant(outputs: Sequence[ir.Value]) -> Iterator[Step]:
    """Normal distributions of each class, of any directions."""
    if len(outputs) != 2:
        return
    decision = Op("Add", (_QUADRATIC, Constant("priors")), "decision")
    shapes = named(decision), op("Div", _LIKELIHOOD, op("ReduceSum", _LIKELIHOOD))
    bound = matched_all(shapes, [label_of(outputs[0]), outputs[1]])
    node = bound["norms"].producer() if bound is not None else None
    if bound is None or node is None or node.op_type != "Concat":
        return
    norms = [matched(_NORM, item) for item in node.inputs]
    known = [norm for norm in norms if norm is not None]
    rows = {norm["rows"] for norm in known}
    if len(known) < len(norms) or len(rows) != 1:
        return
    model = QuadraticDiscriminantAnalysis()
    model.means_ = np.stack([wide(norm["mean"]) for norm in known])
    turned = [np.asarray(norm["rotation"], np.float64) for norm in known]
    model.scalings_ = [1.0 / np.sum(item**2, axis=0) for item in turned]
    model.rotations_ = [item * np.sqrt(scale) for item, scale in zip(turned, model.scalings_, strict=True)]
    model.priors_, model.classes_ = np.exp(wide(bound["priors"])), classes_of(bound)
    model.n_features_in_ = model.means_.shape[1]
    yield Step(model, (rows.pop(),))
