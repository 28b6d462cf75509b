"""Layers of perceptrons and nearest neighbours as skl2onnx writes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.preprocessing import LabelBinarizer

from onnxport.opset_maps.from_onnx.sklearn import patterns
from onnxport.opset_maps.from_onnx.sklearn.chains import Step, classes_of, named, reads_outputs
from onnxport.opset_maps.from_onnx.sklearn.patterns import (
    Constant,
    Number,
    Op,
    Rows,
    attribute,
    label_of,
    matched,
    matched_all,
    op,
)

_ACTIVATIONS = {"Relu": "relu", "Tanh": "tanh", "Sigmoid": "logistic"}
_LAYER = op("Add", op("MatMul", Rows(), Constant("weights")), Constant("biases"))
_LAST = Rows("last")


@dataclass(frozen=True)
class Layers:
    """The layers before a value, from the first one."""

    weights: list[np.ndarray]
    biases: list[np.ndarray]
    activation: str
    rows: ir.Value


def _layers(value: ir.Value) -> Layers | None:
    """Two linear functions or more, with one activation between all of them."""
    weights: list[np.ndarray] = []
    biases: list[np.ndarray] = []
    activations: set[str] = set()
    here, bound = value, matched(_LAYER, value)
    while bound is not None:
        weights.insert(0, np.asarray(bound["weights"], np.float64))
        biases.insert(0, np.asarray(bound["biases"], np.float64).reshape(-1))
        here = bound["rows"]
        node = here.producer()
        activation = _ACTIVATIONS.get(node.op_type) if node is not None else None
        behind = node.inputs[0] if node is not None and activation is not None else here
        bound = matched(_LAYER, behind) if behind is not None else None
        if bound is not None:
            activations.add(activation or "identity")
    fits = len(weights) > 1 and len(activations) == 1 and all(item.ndim == 2 for item in weights)
    return Layers(weights, biases, activations.pop(), here) if fits else None


def _perceptron(model: Any, layers: Layers, out: str) -> Step:
    model.set_params(hidden_layer_sizes=tuple(len(item) for item in layers.biases[:-1]), activation=layers.activation)
    model.coefs_, model.intercepts_ = layers.weights, layers.biases
    model.n_layers_, model.n_outputs_ = len(layers.weights) + 1, len(layers.biases[-1])
    model.out_activation_, model.n_features_in_ = out, len(layers.weights[0])
    return Step(model, (layers.rows,))


@reads_outputs
def perceptron_regressor(outputs: Sequence[ir.Value]) -> Iterator[Step]:
    """Layers whose last one is the result."""
    layers = _layers(outputs[0]) if len(outputs) == 1 else None
    if layers is not None:
        yield _perceptron(MLPRegressor(), layers, "identity")


@reads_outputs
def perceptron_classifier(outputs: Sequence[ir.Value]) -> Iterator[Step]:
    """Layers whose last one becomes the classes' shares."""
    if len(outputs) != 2:
        return
    share = op("Sigmoid", _LAST)
    kinds: tuple[tuple[str, patterns.Shape], ...] = (
        ("softmax", op("Softmax", _LAST)),
        ("logistic", op("Concat", op("Sub", Number(1), share), share)),
    )
    for out, shape in kinds:
        bound = matched_all((named(Rows("best")), shape), [label_of(outputs[0]), outputs[1]])
        layers = _layers(bound["last"]) if bound is not None else None
        if bound is not None and layers is not None:
            model = MLPClassifier()
            model.classes_ = classes_of(bound)
            model._label_binarizer = LabelBinarizer().fit(model.classes_)
            yield _perceptron(model, layers, out)


_SQUARES = op("Transpose", Op("Scan", (Rows(), Constant("fitted")), "scanned"))
_NEAREST = op("TopK", op("Sqrt", _SQUARES), Constant("count"))
_FOUND = op("ArrayFeatureExtractor", Constant("targets"), _NEAREST)


@reads_outputs
def neighbours_regressor(outputs: Sequence[ir.Value]) -> Iterator[Step]:
    """The mean of the nearest fitted rows' targets."""
    if len(outputs) != 1:
        return
    mean = matched(op("ReduceMean", _FOUND), outputs[0])
    weighed = matched(_WEIGHED_MEAN, outputs[0]) if mean is None else None
    for bound, weights in ((mean, "uniform"), (weighed, "distance")):
        if bound is not None and _is_euclidean(bound["scanned"]) and np.ndim(bound["targets"]) == 1:
            yield _fitted(KNeighborsRegressor, bound, weights, np.asarray(bound["targets"], np.float64))


@reads_outputs
def neighbours_classifier(outputs: Sequence[ir.Value]) -> Iterator[Step]:
    """The classes' shares among the nearest fitted rows."""
    if len(outputs) != 2:
        return
    votes = Rows("votes")
    shares = op("Div", votes, op("ReduceSum", votes))
    bound = matched_all((named(Rows("best")), shares), [label_of(outputs[0]), outputs[1]])
    node = bound["votes"].producer() if bound is not None else None
    if bound is None or node is None or node.op_type != "Concat":
        return
    for weights, shape in (("uniform", _VOTE), ("distance", _WEIGHED_VOTE)):
        columns = [matched(shape, item) for item in node.inputs]
        known = [column for column in columns if column is not None]
        if len(known) == len(columns) and known and _is_euclidean(known[0]["scanned"]):
            classes = classes_of(bound)
            numbers = np.asarray(known[0]["targets"]).reshape(-1).astype(np.int64)
            yield _fitted(KNeighborsClassifier, known[0], weights, classes[numbers])


_HITS = op("Equal", _FOUND, Constant("number"))
_WEIGHTS = op("Reciprocal", op("Max", op("Mul", _NEAREST, Number(-1)), Constant("least")))
_VOTE = op("ReduceSum", _HITS)
_WEIGHED_VOTE = op("ReduceSum", op("Mul", _HITS, _WEIGHTS))
_WEIGHED_MEAN = op("Div", op("ReduceSum", op("Mul", _FOUND, _WEIGHTS)), op("ReduceSum", _WEIGHTS))


def _fitted(kind: Any, bound: patterns.Bound, weights: str, targets: np.ndarray) -> Step:
    """Neighbours fitted on the rows that the graph holds."""
    model = kind(int(bound["count"].reshape(-1)[0]), weights=weights)
    model.fit(np.asarray(bound["fitted"], np.float64), targets)
    return Step(model, (bound["rows"],))


def _is_euclidean(value: ir.Value) -> bool:
    """Whether each step of a scan is the sum of squared differences."""
    node = value.producer()
    body = attribute(node, "body") if node is not None else None
    ops = [item.op_type for item in body if item.op_type != "Identity"] if body is not None else []
    return ops == ["Sub", "ReduceSumSquare"]
