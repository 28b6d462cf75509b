"""Estimators with many fitted rows look at new rows in blocks: any number of rows, none too, in every opset."""

import numpy as np
import onnx
import pytest

pytest.importorskip("sklearn")
pytestmark = pytest.mark.sklearn

from sklearn import gaussian_process, impute, neighbors, svm  # noqa: E402

from onnxport.converters.to_onnx.sklearn import export  # noqa: E402
from onnxport.opset_maps.to_onnx.sklearn.estimators import svm as vectors  # noqa: E402
from onnxport.request import Request  # noqa: E402

FITTED = np.random.default_rng(0).normal(size=(300, 4))
CLASSES, VALUES = np.arange(300) % 3, np.sin(FITTED[:, 0]) + FITTED[:, 1]

ROWS = [
    (neighbors.NearestNeighbors(), "kneighbors", None),
    (neighbors.NearestNeighbors(algorithm="brute"), "kneighbors", None),
    (neighbors.NearestNeighbors(metric="manhattan"), "kneighbors", None),
    (neighbors.KNeighborsClassifier(weights="distance"), "predict_proba", CLASSES),
    (neighbors.RadiusNeighborsClassifier(3.0, outlier_label=0), "predict_proba", CLASSES),
    (neighbors.RadiusNeighborsRegressor(5.0, weights="distance"), "predict", VALUES),
    (neighbors.RadiusNeighborsRegressor(0.8), "predict", CLASSES),
    (neighbors.KernelDensity(), "score_samples", None),
    (impute.KNNImputer(), "transform", None),
    (impute.KNNImputer(weights="distance", add_indicator=True), "transform", None),
    (neighbors.LocalOutlierFactor(novelty=True), "decision_function", None),
    (svm.SVC(), "decision_function", CLASSES),
    (svm.SVR(kernel="poly"), "predict", VALUES),
    (gaussian_process.GaussianProcessRegressor(optimizer=None), "predict", VALUES),
    (gaussian_process.GaussianProcessClassifier(optimizer=None), "predict_proba", CLASSES > 0),
]


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")  # scikit-learn's, of NaN among integers
@pytest.mark.sampled(0.5)
@pytest.mark.parametrize("opset", [13, 21, 26])
@pytest.mark.parametrize(("model", "method", "target"), ROWS, ids=[f"{row[0]}.{row[1]}" for row in ROWS])
def test_number_of_rows(model, method, target, opset, monkeypatch):
    monkeypatch.setattr(vectors, "_LARGE", 256)
    fitted, rows = FITTED, np.random.default_rng(1).normal(size=(200, 4))
    if isinstance(model, impute.KNNImputer):
        fitted, rows = (np.where(np.random.default_rng(2).random(x.shape) < 0.2, np.nan, x) for x in (fitted, rows))
        rows[:64, 1:] = 0.5  # a few rows of the first block lack a number
    model.fit(fitted, target)
    converted = export(model, Request(inputs=rows, methods=[method], target_opset=opset))
    onnx.checker.check_model(converted.proto, full_check=True)
    for count in (200, 65, 64, 63, 1):
        expected, got = getattr(model, method)(rows[:count]), converted(rows[:count])
        pairs = zip(expected, got, strict=True) if isinstance(expected, tuple) else [(expected, got)]
        for one, other in pairs:
            assert other.shape == one.shape
            np.testing.assert_allclose(other, one, rtol=1e-9, atol=1e-9)
    none = converted(rows[:0])
    assert [len(item) for item in (none if isinstance(none, tuple) else (none,))] == [0] * len(converted.output_names)


@pytest.mark.parametrize("gamma", [0.3, 30.0])  # with and without the vectors' own factor in the weights
def test_few_vectors_take_all_rows_at_once(gamma):
    machine = svm.SVC(gamma=gamma).fit(FITTED, CLASSES)
    rows = np.random.default_rng(1).normal(size=(200, 4)) * np.linspace(0.1, 30, 200)[:, None]
    converted = export(machine, Request(inputs=rows, methods=["decision_function"]))
    assert not any(node.op_type == "If" for node in converted.proto.graph.node)
    np.testing.assert_allclose(converted(rows), machine.decision_function(rows), rtol=1e-9, atol=1e-9)
