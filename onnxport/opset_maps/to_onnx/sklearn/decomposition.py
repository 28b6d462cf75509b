"""Projections, clusters and small neural networks."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import built, f32, f64
from onnxport.opset_maps.maps import sklearn
from onnxport.opset_maps.to_onnx.sklearn.classes import both_classes, label_of_scores
from onnxport.opset_maps.to_onnx.sklearn.fitted import classifier, regressor, transformer
from onnxport.opset_maps.to_onnx.sklearn.table import Table, double, floating


@sklearn.lower(
    "PCA.transform",
    "IncrementalPCA.transform",
    "TruncatedSVD.transform",
    cases=[
        built(lambda: transformer("decomposition", "PCA", n_components=2), f64(5, 4), dynamic=True),
        built(lambda: transformer("decomposition", "PCA", n_components=3, whiten=True), f32(5, 4)),
        built(lambda: transformer("decomposition", "TruncatedSVD", n_components=2), f64(5, 4)),
    ],
)
def projection(op: OpBuilder, model: Any, x: Table) -> ir.Value:
    """X components' - mean components', whitened on request."""
    value = floating(op, x)
    dtype = np.result_type(value.dtype.numpy() if value.dtype else np.float64, model.components_.dtype)
    value = op.cast(value, ir.DataType.from_numpy(np.dtype(dtype)))
    weights = np.ascontiguousarray(model.components_.T.astype(dtype))
    result = op.MatMul(value, op.initializer(f"{type(model).__name__}.components", ir.tensor(weights)))
    if getattr(model, "mean_", None) is not None:
        result = op.Sub(result, (model.mean_.reshape(1, -1) @ model.components_.T).astype(dtype))
    if getattr(model, "whiten", False):
        scale = np.sqrt(model.explained_variance_)
        smallest = np.finfo(scale.dtype).eps
        result = op.Div(result, np.where(scale < smallest, smallest, scale).astype(dtype))
    return result


@sklearn.lower(
    "KMeans.transform",
    "MiniBatchKMeans.transform",
    cases=[built(lambda: transformer("cluster", "KMeans", n_clusters=3, n_init=1), f64(5, 4), dynamic=True)],
)
def kmeans_distances(op: OpBuilder, model: Any, x: Table) -> ir.Value:
    """Euclidean distance to each centre."""
    value = floating(op, x)
    return op.Sqrt(_squared_distances(op, value, model.cluster_centers_))


def _squared_distances(op: OpBuilder, x: ir.Value, centers: np.ndarray) -> ir.Value:
    gaps = op.Sub(op.Unsqueeze(x, op.axes(1)), op.const(centers[None], x.dtype))
    return op.reduce("ReduceSum", op.Mul(gaps, gaps), [2], keepdims=False)


@sklearn.lower(
    "KMeans.predict",
    "MiniBatchKMeans.predict",
    cases=[built(lambda: transformer("cluster", "KMeans", n_clusters=3, n_init=1), f64(5, 4))],
)
def kmeans_label(op: OpBuilder, model: Any, x: Table) -> ir.Value:
    """The number of the nearest centre, int32 as in scikit-learn."""
    distances = _squared_distances(op, floating(op, x), model.cluster_centers_)
    return op.cast(op.ArgMin(distances, axis=1, keepdims=0), ir.DataType.INT32)


_ACTIVATIONS = {"relu": "Relu", "tanh": "Tanh", "logistic": "Sigmoid"}


def _mlp(op: OpBuilder, model: Any, x: Table) -> ir.Value:
    value = floating(op, x)
    dtype = ir.DataType.from_numpy(model.coefs_[0].dtype)
    value = op.cast(value, dtype) if value.dtype != dtype and dtype == ir.DataType.DOUBLE else value
    for index, (weights, bias) in enumerate(zip(model.coefs_, model.intercepts_, strict=True)):
        layer = op.initializer(f"coefs.{index}", ir.tensor(np.ascontiguousarray(weights)))
        value = op.Add(op.MatMul(value, op.cast(layer, value.dtype or dtype)), op.const(bias, value.dtype))
        if index < len(model.coefs_) - 1 and model.activation != "identity":
            value = op.node(_ACTIVATIONS[model.activation], value)
    return value


@sklearn.lower(
    "MLPRegressor.predict",
    cases=[
        built(
            lambda: regressor("neural_network", "MLPRegressor", hidden_layer_sizes=(8,), max_iter=300, tol=1e-2),
            f64(5, 4),
        )
    ],
)
def mlp_value(op: OpBuilder, model: Any, x: Table) -> ir.Value:
    """Layer after layer; a vector for one output."""
    result = _mlp(op, model, x)
    return op.Squeeze(result, op.axes(1)) if model.n_outputs_ == 1 else result


@sklearn.lower(
    "MLPClassifier.predict_proba",
    cases=[
        built(
            lambda: classifier("neural_network", "MLPClassifier", hidden_layer_sizes=(8,), max_iter=300, tol=1e-2),
            f64(5, 4),
        ),
        built(
            lambda: classifier(
                "neural_network", "MLPClassifier", hidden_layer_sizes=(8,), max_iter=300, tol=1e-2, classes=2
            ),
            f64(5, 4),
        ),
    ],
)
def mlp_probabilities(op: OpBuilder, model: Any, x: Table) -> ir.Value:
    """Softmax, or for two classes the logistic function, of the last layer."""
    result = _mlp(op, model, x)
    if model.out_activation_ == "softmax":
        return op.Softmax(result, axis=1)
    probabilities = op.Sigmoid(result)
    return both_classes(op, op.Squeeze(probabilities, op.axes(1))) if model.n_outputs_ == 1 else probabilities


@sklearn.lower(
    "MLPClassifier.predict",
    cases=[
        built(
            lambda: classifier("neural_network", "MLPClassifier", hidden_layer_sizes=(8,), max_iter=300, tol=1e-2),
            f64(5, 4),
        )
    ],
)
def mlp_label(op: OpBuilder, model: Any, x: Table) -> ir.Value:
    """The class of the greatest probability."""
    return label_of_scores(op, model.classes_, op.call(model, "predict_proba", x))


@sklearn.lower(
    "GaussianNB.predict_joint_log_proba",
    cases=[built(lambda: classifier("naive_bayes", "GaussianNB"), f64(5, 4))],
)
def gaussian_joint(op: OpBuilder, model: Any, x: Table) -> ir.Value:
    """log prior - 1/2 sum log(2 pi var) - 1/2 sum (x - mean)^2 / var."""
    gaps = op.Sub(op.Unsqueeze(double(op, x), op.axes(1)), model.theta_[None])
    scaled = op.reduce("ReduceSum", op.Div(op.Mul(gaps, gaps), model.var_[None]), [2], keepdims=False)
    constant = np.log(model.class_prior_) - 0.5 * np.sum(np.log(2.0 * np.pi * model.var_), axis=1)
    return op.Add(op.Mul(scaled, -0.5), constant)


@sklearn.lower("GaussianNB.predict_proba", cases=[built(lambda: classifier("naive_bayes", "GaussianNB"), f64(5, 4))])
def gaussian_probabilities(op: OpBuilder, model: Any, x: Table) -> ir.Value:
    """Softmax of the joint log probabilities."""
    return op.Softmax(op.call(model, "predict_joint_log_proba", x), axis=1)


@sklearn.lower(
    "GaussianNB.predict", cases=[built(lambda: classifier("naive_bayes", "GaussianNB", text=True), f64(5, 4))]
)
def gaussian_label(op: OpBuilder, model: Any, x: Table) -> ir.Value:
    """The class of the greatest joint log probability."""
    return label_of_scores(op, model.classes_, op.call(model, "predict_joint_log_proba", x))
