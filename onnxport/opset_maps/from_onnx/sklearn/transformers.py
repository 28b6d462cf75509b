"""Scalers, projections and powers as skl2onnx writes them in ONNX's own operators."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    MinMaxScaler,
    Normalizer,
    PolynomialFeatures,
    PowerTransformer,
    StandardScaler,
)

from onnxport.opset_maps.from_onnx.sklearn import patterns
from onnxport.opset_maps.from_onnx.sklearn.chains import Step, attributes_of, reads_step, transforms
from onnxport.opset_maps.from_onnx.sklearn.patterns import (
    Constant,
    Number,
    Op,
    Rows,
    attribute,
    carried,
    constant_of,
    matched,
    op,
)

ROWS = Rows()


def wide(values: Any) -> np.ndarray:
    """Fitted numbers of one row, as scikit-learn keeps them."""
    return np.asarray(values, np.float64).reshape(-1)


def standard_scaler(offset: np.ndarray, scale: np.ndarray) -> StandardScaler:
    """(x - offset) * scale."""
    width = max(len(scale), len(offset))
    model = StandardScaler()
    model.scale_ = 1.0 / np.broadcast_to(scale, (width,))
    model.mean_, model.var_ = np.broadcast_to(offset, (width,)).copy(), model.scale_**2
    model.n_features_in_ = width
    return model


_MIN_MAX = op("Add", op("Mul", ROWS, Constant("scale")), Constant("shift"))


@transforms(op("Clip", _MIN_MAX, Constant("low"), Constant("high")), _MIN_MAX)
def min_max_scaler(bound: patterns.Bound) -> Any:
    """x * scale + shift, with the range of the limits where it clips."""
    clips = "low" in bound
    low, high = (float(wide(bound["low"])[0]), float(wide(bound["high"])[0])) if clips else (0.0, 1.0)
    if low >= high:
        return None
    model = MinMaxScaler((low, high), clip=clips) if clips else MinMaxScaler()
    model.scale_, model.min_ = wide(bound["scale"]), wide(bound["shift"])
    model.data_range_ = (high - low) / model.scale_
    model.data_min_ = (low - model.min_) / model.scale_
    model.data_max_ = model.data_min_ + model.data_range_
    model.n_features_in_, model.n_samples_seen_ = len(model.scale_), 0
    return model


@transforms(op("Div", ROWS, op("Sqrt", op("ReduceSumSquare", ROWS))))
def normalizer(bound: patterns.Bound) -> Any:
    """Rows of length 1."""
    return Normalizer()


@transforms(op("Where", op("Less", ROWS, Constant("level")), Number(0), Number(1)))
def binarizer(bound: patterns.Bound) -> Any:
    """1 above a threshold."""
    return Binarizer(threshold=float(wide(bound["level"])[0]))


_CENTRED = op("Sub", ROWS, Constant("mean"))


@transforms(
    op("Div", op("MatMul", _CENTRED, Constant("matrix")), Constant("deviations")),
    op("MatMul", _CENTRED, Constant("matrix")),
)
def principal_components(bound: patterns.Bound) -> Any:
    """Rows less their mean, along orthogonal directions; with their deviations they are whitened."""
    components = np.asarray(bound["matrix"], np.float64).T
    if components.ndim != 2 or not _is_orthonormal(components):
        return None
    model = PCA(len(components), whiten="deviations" in bound)
    model.components_, model.mean_ = np.ascontiguousarray(components), wide(bound["mean"])
    deviations = wide(bound["deviations"]) if "deviations" in bound else np.full(len(components), np.nan)
    model.explained_variance_ = deviations**2
    model.n_components_, model.n_features_in_ = components.shape
    return model


@transforms(op("MatMul", ROWS, Constant("matrix")))
def projection(bound: patterns.Bound) -> Any:
    """Orthogonal directions without a mean are of TruncatedSVD; others are a product with a matrix."""
    matrix = np.asarray(bound["matrix"], np.float64)
    if matrix.ndim != 2:
        return None
    if not _is_orthonormal(matrix.T):
        return FunctionTransformer(np.dot, kw_args={"b": matrix})
    model = TruncatedSVD(matrix.shape[1])
    model.components_ = np.ascontiguousarray(matrix.T)
    model.n_features_in_ = len(matrix)
    return model


def _is_orthonormal(components: np.ndarray) -> bool:
    return np.allclose(components @ components.T, np.eye(len(components)), atol=1e-4)


_ONES = op("Div", ROWS, ROWS)  # which skl2onnx makes of the rows


def _imputed(shape: patterns.Shape) -> Op:
    return op("Imputer", shape)


def _power(base: patterns.Shape, log: patterns.Shape, side: str, swapped: bool = False) -> Op:
    """(base ** power - 1) / power where that is no 0, else the logarithm; `swapped`, the other side of 0."""
    power = Constant(f"power{side}")
    raised = op("Pow", base, power)
    above = op("Sub", _ONES, raised) if swapped else op("Sub", raised, _ONES)
    first = op("Mul", _imputed(op("Div", above, power)), Constant(f"used{side}"))
    return op("Add", first, op("Mul", log, Constant(f"logs{side}")))


_POSITIVE, _NEGATIVE = op("Add", ROWS, _ONES), op("Sub", _ONES, ROWS)
_NEGATIVES = op("Less", ROWS, op("Sub", ROWS, ROWS))
_YEO_JOHNSON = op(
    "Add",
    op("Mul", _imputed(_power(_POSITIVE, op("Log", _POSITIVE), "")), op("Not", _NEGATIVES)),
    op("Mul", _imputed(_power(_NEGATIVE, op("Neg", op("Log", _NEGATIVE)), " below", True)), _NEGATIVES),
)
_BOX_COX = _power(ROWS, _imputed(op("Log", ROWS)), "")


def _scaled(shape: patterns.Shape) -> Op:
    return Op("Scaler", (shape,), "scaled")


@transforms(_scaled(_YEO_JOHNSON), _YEO_JOHNSON)
def yeo_johnson(bound: patterns.Bound) -> Any:
    """A power of each column, of both signs; the graph makes 0 of missing values, which scikit-learn's leaves."""
    powers, below = wide(bound["power"]), wide(bound["power below"])
    powers = np.where(wide(bound["used"]) != 0, powers, 0.0)
    powers = np.where((wide(bound["used below"]) != 0) & (wide(bound["used"]) != 0), 2.0 - below, powers)
    imputer = SimpleImputer(strategy="constant", fill_value=0.0).fit(np.zeros((1, len(powers))))
    return Step(_power_transformer(bound, "yeo-johnson", powers), (bound["rows"],), fills=imputer)


@transforms(_scaled(_BOX_COX), _BOX_COX)
def box_cox(bound: patterns.Bound) -> Any:
    """A power of each column of positive numbers."""
    return _power_transformer(bound, "box-cox", np.where(wide(bound["used"]) != 0, wide(bound["power"]), 0.0))


def _power_transformer(bound: patterns.Bound, method: str, powers: np.ndarray) -> Any:
    scales = "scaled" in bound
    model = PowerTransformer(method, standardize=scales)
    model.lambdas_, model.n_features_in_ = powers, len(powers)
    if scales:
        given = attributes_of(bound["scaled"].producer())
        model._scaler = standard_scaler(wide(given["offset"]), wide(given["scale"]))
    return model


@transforms(Op("Normalizer", (op("Mul", ROWS, Constant("idf")),), "scaled"), op("Mul", ROWS, Constant("idf")))
def inverse_frequencies(bound: patterns.Bound) -> Any:
    """Counts of words times how rare these are, in rows of length 1 or as they are."""
    norm = None if "scaled" not in bound else str(attribute(bound["scaled"].producer(), "norm", "MAX")).lower()
    idf = wide(bound["idf"])
    if norm not in (None, "l1", "l2") or len(idf) < 2:
        return None
    model = TfidfTransformer(norm=norm)
    model.idf_, model.n_features_in_ = idf, len(idf)
    return model


@reads_step
def polynomial_features(value: ir.Value) -> Step | None:
    """Products of columns beside each other."""
    node = value.producer()
    if node is None or node.op_type != "Concat":
        return None
    columns = [
        matched(op("ReduceProd", op("ArrayFeatureExtractor", ROWS, Constant("columns"))), v) for v in node.inputs
    ]
    bias = bool(columns) and columns[0] is None and _is_of_ones(node.inputs[0])
    products = columns[1:] if bias else columns
    if not products or any(item is None or item["rows"] is not products[0]["rows"] for item in products):  # type: ignore[index]
        return None
    terms = [tuple(item["columns"].reshape(-1).tolist()) for item in products if item is not None]
    degrees = {len(term) for term in terms}
    width = sum(len(term) == 1 for term in terms)
    if min(degrees) != 1 or max(degrees) > 8:
        return None
    repeats = any(len(set(term)) < len(term) for term in terms)
    model = PolynomialFeatures(max(degrees), interaction_only=not repeats and max(degrees) > 1, include_bias=bias)
    model.fit(np.zeros((1, width)))
    combinations = model._combinations(
        width, model._min_degree, model._max_degree, model.interaction_only, model.include_bias
    )
    rows = products[0]["rows"]  # type: ignore[index]
    return Step(model, (rows,)) if [term for term in combinations if term] == terms else None


def _is_of_ones(value: ir.Value | None) -> bool:
    node = carried(value).producer() if value is not None else None
    if node is None or node.op_type != "ConstantOfShape":
        return value is not None and constant_of(value) is not None
    filled = attribute(node, "value")
    return filled is not None and bool((filled.numpy() == 1).all())


@transforms(
    op("Div", op("Sub", ROWS, Constant("offset")), Constant("scale")),
    op("Div", ROWS, Constant("scale")),
)
def scaled(bound: patterns.Bound) -> Any:
    """A scaler in float64, for which ai.onnx.ml's has no type; shapes that hold this one stand before it."""
    scale = wide(bound["scale"])
    return standard_scaler(wide(bound["offset"]) if "offset" in bound else np.zeros(len(scale)), 1.0 / scale)
