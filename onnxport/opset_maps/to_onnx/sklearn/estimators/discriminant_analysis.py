"""Discriminant analysis and nearest centroids."""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array
from onnxport.opset_maps.to_onnx.sklearn.arrays.distances import distances, product_squares
from onnxport.opset_maps.to_onnx.sklearn.classes import label_of_scores, take_class
from onnxport.opset_maps.to_onnx.sklearn.entries import cases, lower, lower_fitted
from onnxport.opset_maps.to_onnx.sklearn.fitted import classifier
from onnxport.opset_maps.to_onnx.sklearn.tables.table import Table, called, doubles, numbers


@lower_fitted("LinearDiscriminantAnalysis.predict_log_proba", classifier)
def linear_log_probabilities(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """Logarithm of the probabilities, zeros raised to the smallest normal number."""
    result = called(op, model, "predict_proba", x)
    least = np.finfo(result.dtype).smallest_normal
    return np.log(np.where(result == 0.0, least, result))


@lower_fitted("LinearDiscriminantAnalysis.transform", classifier, {}, {"solver": "eigen"}, {"n_components": 1})
def linear_transform(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """Rows on the discriminant axes."""
    rows = numbers(op, x)
    if model.solver == "svd":
        rows = rows - model.xbar_
    return rows @ model.scalings_[:, : model._max_components]


def discriminant_scores(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """Scores of the classes, [N, K], of a quadratic discriminant analysis or a nearest centroid."""
    if hasattr(model, "centroids_"):
        scale = np.where(model.within_class_std_dev_ != 0, model.within_class_std_dev_, 1.0)
        distance = distances(doubles(op, x) / scale, model.centroids_ / scale, model.metric)
        return -(distance**2) + 2.0 * np.log(model.class_prior_)
    rows = numbers(op, x)
    norms = []
    for mean, rotation, scaling in zip(model.means_, model.rotations_, model.scalings_, strict=True):
        turned = (rows - mean) @ (rotation * scaling**-0.5)
        norms.append(np.sum(turned**2, axis=1))
    volume = np.asarray([np.sum(np.log(scaling)) for scaling in model.scalings_])
    return -0.5 * (np.stack(norms, axis=1) + volume) + np.log(model.priors_)


@lower(
    "DiscriminantAnalysisPredictionMixin QuadraticDiscriminantAnalysis NearestCentroid.decision_function",
    cases(classifier, "QuadraticDiscriminantAnalysis", {}, {"classes": 2}),
    cases(classifier, "NearestCentroid", {}, {"shrink_threshold": 0.2}),
)
def discriminant_decision(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """Scores of the classes; for two their difference."""
    scores = discriminant_scores(op, model, x)
    return scores[:, 1] - scores[:, 0] if len(model.classes_) == 2 else scores


@lower(
    "DiscriminantAnalysisPredictionMixin.predict",
    cases(classifier, "QuadraticDiscriminantAnalysis", {"text": True}, {"classes": 2}),
)
def discriminant_label(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The class of the greatest score."""
    return label_of_scores(model.classes_, discriminant_scores(op, model, x))


@lower(
    "DiscriminantAnalysisPredictionMixin NearestCentroid.predict_log_proba",
    cases(classifier, "QuadraticDiscriminantAnalysis", {}, {"classes": 2}),
)
def discriminant_log_probabilities(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """Logarithm of the softmax of the scores."""
    scores = discriminant_scores(op, model, x)
    likelihood = scores - np.max(scores, axis=1, keepdims=True)
    return likelihood - np.log(np.sum(np.exp(likelihood), axis=1, keepdims=True))


@lower(
    "DiscriminantAnalysisPredictionMixin NearestCentroid.predict_proba",
    cases(classifier, "QuadraticDiscriminantAnalysis", {}, {"classes": 2}),
)
def discriminant_probabilities(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """Softmax of the scores."""
    return np.exp(discriminant_log_probabilities(op, model, x))


@lower_fitted("NearestCentroid.predict", classifier, {}, {"metric": "manhattan"}, {"priors": "empirical"})
def centroid_label(op: OpBuilder, model: BaseEstimator, x: Table) -> Array:
    """The class of the nearest centroid, or where the classes differ in size of the greatest score."""
    if not np.isclose(model.class_prior_, 1 / len(model.classes_)).all():
        return discriminant_label(op, model, x)
    if model.metric not in ("euclidean", "manhattan"):
        raise UnsupportedOperator(f"NearestCentroid: metric={model.metric!r} has no mapping")
    rows = doubles(op, x)
    centroids = np.asarray(model.centroids_, np.float64)
    near = product_squares(rows, centroids) if model.metric == "euclidean" else distances(rows, centroids, model.metric)
    return take_class(model.classes_, np.argmin(near, axis=1))
