"""Linear models and support vector machines of ai.onnx.ml; they compute in FLOAT."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, TypedDict, Unpack

import numpy as np
import onnx_ir as ir

from onnxport.errors import UnsupportedOperator
from onnxport.opset_maps.cases import f32
from onnxport.opset_maps.from_onnx.namespace import Namespace
from onnxport.opset_maps.from_onnx.primitives.control import Iteration
from onnxport.opset_maps.from_onnx.semantics.ml_scores import (
    add_second_class,
    as_float_rows,
    labels_of,
    ml_op,
    transformed,
)
from onnxport.opset_maps.from_onnx.values import Array, Ints, Reals, Strings, Tensor, known


def _float(values: Reals, shape: tuple[int, ...]) -> Array:
    return np.asarray(values, np.float32).reshape(shape)


def _product(xp: Namespace, rows: Tensor, matrix: Array) -> Tensor:
    """rows [n, features] times matrix [targets, features] transposed."""
    return xp.matmul(rows, xp.constant(np.ascontiguousarray(matrix.T)))


@ml_op(
    "LinearRegressor",
    "float[N, 2] y",
    "coefficients = [1.5, -2.0, 0.5, 0.25, 1.0, -1.0], intercepts = [0.5, -0.75], targets = 2",
    f32(5, 3),
)
def linear_regressor(
    xp: Namespace, x: Tensor, *, coefficients: Reals, intercepts: Reals = (), post_transform: str, targets: int
) -> Tensor:
    """x coefficients^T + intercepts."""
    scores = _product(xp, as_float_rows(xp, x), _float(coefficients, (targets, -1)))
    if len(intercepts) == targets:
        scores = xp.add(scores, xp.constant(_float(intercepts, (targets,))))
    return scores if targets == 1 and post_transform != "PROBIT" else transformed(xp, scores, post_transform)


class ClassNames(TypedDict, total=False):
    """The labels of a classifier, numbers or texts."""

    classlabels_ints: Ints
    classlabels_strings: Strings


def _labels(names: ClassNames) -> Sequence[Any]:
    return names.get("classlabels_strings") or names.get("classlabels_ints", ())


@ml_op(
    "LinearClassifier",
    "int64[N] label, float[N, 3] scores",
    "coefficients = [1.5, -2.0, 0.5, 0.25, 1.0, -1.0], intercepts = [0.5, -0.75, 0.1], "
    'classlabels_ints = [4, 2, 9], post_transform = "SOFTMAX"',
    f32(5, 2),
)
def linear_classifier(
    xp: Namespace,
    x: Tensor,
    *,
    coefficients: Reals,
    intercepts: Reals = (),
    multi_class: int = 0,
    post_transform: str = "NONE",
    **names: Unpack[ClassNames],
) -> tuple[Tensor, Tensor]:
    """The label of the greatest score, and the scores; a single score decides by its sign between two labels."""
    rows = as_float_rows(xp, x)
    labels = _labels(names)
    count = len(intercepts) or _rows_of(xp, rows, coefficients)
    scores = _product(xp, rows, _float(coefficients, (count, -1)))
    if len(intercepts):
        scores = xp.add(scores, xp.constant(_float(intercepts, (count,))))
    if count > 1:
        return labels_of(xp, xp.argmax(scores, 1), labels), transformed(xp, scores, post_transform)
    positive = xp.squeeze(xp.astype(xp.greater(scores, 0), ir.DataType.INT64), (1,))
    if len(labels) == 2:
        return labels_of(xp, positive, labels), add_second_class(xp, scores, post_transform, complement=True)
    label = labels_of(xp, positive, ("0", "1")) if names.get("classlabels_strings") else positive
    return label, transformed(xp, scores, post_transform) if post_transform == "PROBIT" else scores


def _rows_of(xp: Namespace, rows: Tensor, coefficients: Reals) -> int:
    features = xp.shape(rows)[1]
    if not known(features):
        raise UnsupportedOperator(
            "without intercepts the number of classes follows from that of the features, which is unknown"
        )
    return len(coefficients) // int(features)


class Machine(TypedDict, total=False):
    """Vectors, kernel and constants of a support vector machine; the kernel's parameters are gamma, coef0 and degree."""

    kernel_params: Reals
    kernel_type: str
    rho: Reals
    support_vectors: Reals


class ClassifyingMachine(Machine, ClassNames, total=False):
    """Those of one that classifies, and its labels."""


def _kernel(xp: Namespace, rows: Tensor, count: int, form: Machine) -> Tensor:
    """[rows, vectors]: the kernel of each row with each of `count` vectors."""
    vectors, kernel_type = _float(form.get("support_vectors", ()), (count, -1)), form.get("kernel_type", "LINEAR")
    gamma, coef0, degree = (*form.get("kernel_params", ()), *(0.0,) * 3)[:3]
    if kernel_type == "RBF":
        # Differences are squared, not products expanded, which would cancel for close points.
        apart = xp.subtract(xp.expand_dims(rows, [1]), xp.constant(vectors[None]))
        return xp.exp(xp.multiply(xp.sum(xp.square(apart), (2,)), -gamma))
    products = _product(xp, rows, vectors)
    if kernel_type == "LINEAR":
        return products
    inner = xp.add(xp.multiply(products, gamma), coef0)
    if kernel_type == "POLY":
        return xp.pow(inner, degree)
    if kernel_type == "SIGMOID":
        return xp.tanh(inner)
    raise UnsupportedOperator(f"kernel_type={kernel_type!r} is none of ONNX's")


@ml_op(
    "SVMRegressor",
    "float[N, 1] y",
    'coefficients = [1.5, -2.0], kernel_type = "RBF", kernel_params = [0.5, 0.0, 3.0], n_supports = 2, '
    "rho = [0.25], support_vectors = [1.0, 0.5, -1.0, 2.0]",
    f32(5, 2),
)
def svm_regressor(
    xp: Namespace,
    x: Tensor,
    *,
    coefficients: Reals,
    n_supports: int = 0,
    one_class: int = 0,
    post_transform: str = "NONE",
    **form: Unpack[Machine],
) -> Tensor:
    """Weighted sum of the kernels plus rho; a one-class machine gives its sign."""
    if post_transform != "NONE":
        raise UnsupportedOperator(f"post_transform={post_transform!r}, which onnxruntime ignores")
    rows = as_float_rows(xp, x)
    weights = _float(coefficients, (1, -1))
    if n_supports > 0:
        rows = _kernel(xp, rows, n_supports, form)
    scores = xp.add(_product(xp, rows, weights), float(np.float32(form.get("rho", (0.0,))[0])))
    return xp.where(xp.greater(scores, 0), xp.ones((), ir.DataType.FLOAT), -1.0) if one_class else scores


@ml_op(
    "SVMClassifier",
    "int64[N] label, float[N, 2] scores",
    'classlabels_ints = [0, 1], coefficients = [1.5, -2.0], kernel_type = "RBF", '
    "kernel_params = [0.5, 0.0, 3.0], rho = [0.25], support_vectors = [1.0, 0.5, -1.0, 2.0], "
    "vectors_per_class = [1, 1]",
    f32(5, 2),
)
def svm_classifier(
    xp: Namespace,
    x: Tensor,
    *,
    coefficients: Reals,
    post_transform: str = "NONE",
    prob_a: Reals = (),
    prob_b: Reals = (),
    vectors_per_class: Ints = (),
    **form: Unpack[ClassifyingMachine],
) -> tuple[Tensor, Tensor]:
    """libsvm's one-against-one classifier: label by votes; scores are those of the pairs, or probabilities coupled from them."""
    rows = as_float_rows(xp, x)
    labels, rho = _labels(form), form.get("rho", (0.0,))
    if not sum(vectors_per_class):
        return _linear_machine(xp, rows, coefficients, rho, labels, bool(prob_a), post_transform)
    kernels = _kernel(xp, rows, sum(vectors_per_class), form)
    classes = len(labels)
    pairs = [(i, j) for i in range(classes) for j in range(i + 1, classes)]
    duels = _product(xp, kernels, _pair_weights(coefficients, vectors_per_class, pairs))
    duels = xp.add(duels, xp.constant(_float(rho[: len(pairs)], (len(pairs),))))
    label = labels_of(xp, xp.argmax(_votes(xp, duels, pairs, classes), 1), labels)
    if prob_a:
        scores = _coupled(xp, _pair_probabilities(xp, duels, prob_a, prob_b), pairs, classes)
        return label, transformed(xp, scores, post_transform)
    if classes > 2:
        return label, transformed(xp, duels, post_transform)
    return label, add_second_class(xp, duels, post_transform, complement=post_transform != "NONE")


def _linear_machine(
    xp: Namespace, rows: Tensor, coefficients: Reals, rho: Reals, labels: Sequence[Any], proba: bool, transform: str
) -> tuple[Tensor, Tensor]:
    """liblinear's classifier: one weight vector a class and one rho for all."""
    weights = _float(coefficients, (len(labels), -1))
    scores = xp.add(_product(xp, rows, weights), float(np.float32(rho[0])))
    winner = xp.argmax(scores, 1)
    if len(labels) == 2 and not proba:
        peak = xp.max(scores, (1,))
        decided = xp.greater_equal(peak, 0.5) if (weights >= 0).all() else xp.greater(peak, 0.0)
        winner = xp.where(decided, 1, winner)
    if len(labels) > 1 or transform == "PROBIT":
        scores = transformed(xp, scores, transform)
    return labels_of(xp, winner, labels), scores


def _pair_weights(coefficients: Reals, per_class: Ints, pairs: Sequence[tuple[int, int]]) -> Array:
    """[pairs, vectors]: the dual coefficients of each pair of classes, zero for vectors of other classes.

    Coefficients are [classes - 1, vectors]; a vector of class i holds the one against class j in row j - 1 for j > i and in
    row j for j < i (libsvm, `sv_coef`).
    """
    vectors = sum(per_class)
    table = _float(coefficients, (-1, vectors))
    starts = np.r_[0, np.cumsum(per_class)]
    result = np.zeros((len(pairs), vectors), np.float32)
    for row, (i, j) in enumerate(pairs):
        result[row, starts[i] : starts[i + 1]] = table[j - 1, starts[i] : starts[i + 1]]
        result[row, starts[j] : starts[j + 1]] = table[i, starts[j] : starts[j + 1]]
    return result


def _votes(xp: Namespace, duels: Tensor, pairs: Sequence[tuple[int, int]], classes: int) -> Tensor:
    """FLOAT [rows, classes]: duels won; a duel is the first class's where its score is above 0."""
    first, second = np.zeros((2, classes, len(pairs)), np.float32)
    for column, (i, j) in enumerate(pairs):
        first[i, column], second[j, column] = 1, 1
    won = xp.astype(xp.greater(duels, 0), ir.DataType.FLOAT)
    lost = xp.subtract(xp.ones((), ir.DataType.FLOAT), won)
    return xp.add(_product(xp, won, first), _product(xp, lost, second))


def _pair_probabilities(xp: Namespace, duels: Tensor, prob_a: Reals, prob_b: Reals) -> Tensor:
    """Platt's probability of each pair's first class: 1 / (1 + exp(a score + b)), kept off 0 and 1 by 1e-7."""
    a, b = (xp.constant(_float(values, (len(values),))) for values in (prob_a, prob_b))
    chance = xp.sigmoid(xp.negative(xp.add(xp.multiply(duels, a), b)))
    return xp.clip(chance, 1e-7, float(np.float32(1) - np.float32(1e-7)))


_MAX_ROUNDS = 100


def _coupled(xp: Namespace, chances: Tensor, pairs: Sequence[tuple[int, int]], classes: int) -> Tensor:
    """Class probabilities of pairwise ones.

    Source: Wu, Lin, Weng, "Probability estimates for multi-class classification by pairwise coupling", JMLR 2004, algorithm 2,
    with libsvm's stopping rule; a row stops when it has converged, so that it gets the figures it would get alone.
    """
    zero = xp.multiply(xp.slice(chances, 1, 0, 1), 0.0)
    one = xp.add(zero, 1.0)
    r = {}
    for column, (i, j) in enumerate(pairs):
        r[i, j] = xp.slice(chances, 1, column, column + 1)
        r[j, i] = xp.subtract(one, r[i, j])
    q: dict[tuple[int, int], Tensor] = {}
    for i in range(classes):
        others = [j for j in range(classes) if j != i]
        q[i, i] = reduce(xp.add, [xp.square(r[j, i]) for j in others])
        q.update({(i, j): xp.negative(xp.multiply(r[j, i], r[i, j])) for j in others})
    columns = [xp.concat([q[i, j] for i in range(classes)], 1) for j in range(classes)]
    tolerance = 0.005 / classes

    def product(p: Tensor) -> Tensor:
        return reduce(xp.add, [xp.multiply(columns[j], xp.slice(p, 1, j, j + 1)) for j in range(classes)])

    def converged(p: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        qp = product(p)
        pqp = xp.sum(xp.multiply(p, qp), (1,), True)
        return qp, pqp, xp.less(xp.max(xp.abs(xp.subtract(qp, pqp)), (1,), True), tolerance)

    def round_(_: Tensor, __: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
        qp, pqp, done = converged(p)
        following = p
        for i in range(classes):
            own = q[i, i]
            here = xp.slice(qp, 1, i, i + 1)
            step = xp.divide(xp.subtract(pqp, here), own)
            unit = xp.constant(np.eye(classes, dtype=np.float32)[i : i + 1])
            following = xp.add(following, xp.multiply(step, unit))
            scale = xp.add(step, 1.0)
            pqp = xp.add(pqp, xp.multiply(step, xp.add(xp.multiply(step, own), xp.multiply(here, 2.0))))
            pqp = xp.divide(xp.divide(pqp, scale), scale)
            qp = xp.divide(xp.add(qp, xp.multiply(step, columns[i])), scale)
            following = xp.divide(following, scale)
        following = xp.where(done, p, following)
        return xp.logical_not(xp.min(done)), following

    start = xp.add(xp.concat([zero] * classes, 1), 1.0 / classes)
    return xp.loop(_MAX_ROUNDS, None, [start], Iteration(round_, 0, [None]))[0]
