"""Results that nothing else is computed from have shorter forms; all else keeps scikit-learn's own steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="scikit-learn is an extra")
pytestmark = pytest.mark.sklearn

from sklearn import ensemble  # noqa: E402
from sklearn.calibration import CalibratedClassifierCV  # noqa: E402
from sklearn.linear_model import LogisticRegression, SGDClassifier  # noqa: E402
from sklearn.neural_network import MLPClassifier  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402

import onnxport  # noqa: E402
from onnxport.opset_maps.to_onnx.sklearn.trees import tree_ensemble  # noqa: E402

_LABELS: dict[str, Any] = {
    "two": lambda s: (s > 0).astype(np.int64),
    "three": lambda s: np.digitize(s, [-1, 1]) * 5 - 3,
    "text": lambda s: np.array(["no", "yes"])[(s > 0).astype(int)],
    "objects": lambda s: np.array(["low", "middle", "high"], object)[np.digitize(s, [-1, 1])],
}


def _rows(count: int = 300, columns: int = 4) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(count, columns)).astype(np.float32)


def _score(x: np.ndarray) -> np.ndarray:
    return x @ np.linspace(1, -2, x.shape[1]).astype(np.float32)


def _operators(converted: Any) -> list[str]:
    return [node.op_type for node in converted.proto.graph.node]


@pytest.mark.parametrize("columns", [1, 4])
@pytest.mark.parametrize("labels", _LABELS)
@pytest.mark.parametrize("methods", [("predict", "predict_proba"), ("predict",), ("predict_proba",)])
def test_float32_linear_classifier_is_one_operator(columns: int, labels: str, methods: tuple[str, ...]) -> None:
    x = _rows(columns=columns)
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(x, _LABELS[labels](_score(x)))
    converted = onnxport.convert(model, inputs=x[:5], methods=list(methods))
    assert _operators(converted) == ["Sub", "LinearClassifier"]
    for rows in (x, x[:1], 50 * x):
        result = converted(rows)
        for method, got in zip(methods, result if len(methods) > 1 else [_only(result)], strict=True):
            expected = getattr(model, method)(rows)
            if method == "predict":
                assert got.tolist() == expected.tolist()
            else:
                assert got.dtype == expected.dtype
                np.testing.assert_allclose(got, expected, rtol=0, atol=3e-6)


def test_a_score_of_zero_is_the_first_class_and_no_rows_are_none() -> None:
    x = _rows()
    model = LogisticRegression().fit(x, _LABELS["two"](_score(x)))
    model.intercept_[:] = 0
    label, shares = onnxport.convert(model, inputs=x[:5])(np.zeros((2, 4), np.float32))
    assert label.tolist() == model.predict(np.zeros((2, 4), np.float32)).tolist() == [0, 0]
    assert shares.tolist() == [[0.5, 0.5]] * 2
    label, shares = onnxport.convert(model, inputs=x[:5])(x[:0])
    assert label.shape == (0,)
    assert shares.shape == (0, 2)


def test_weights_that_dividing_would_overflow_leave_the_rows_to_be_divided() -> None:
    x = _rows()
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(x, _LABELS["two"](_score(x)))
    model[0].scale_[0], model[1].coef_[0, 0] = 1e-30, 1e9
    converted = onnxport.convert(model, inputs=x[:5], validate=False)
    assert _operators(converted) == ["Sub", "Div", "LinearClassifier"]
    near = np.array(x, copy=True)
    near[:, 0] = np.float32(model[0].mean_[0])
    np.testing.assert_allclose(converted(near)[1], model.predict_proba(near), atol=3e-6)


_LOGISTIC = LogisticRegression()


@pytest.mark.parametrize(
    ("model", "asked"),
    [
        (_LOGISTIC, {"methods": ["predict", "decision_function"]}),
        (_LOGISTIC, {"methods": ["predict_log_proba"]}),
        (_LOGISTIC, {"methods": ["predict_proba", "predict_log_proba"]}),
        (_LOGISTIC, {"options": {"zipmap": True}}),
        (ensemble.VotingClassifier([("a", _LOGISTIC)], voting="soft"), {}),
        (CalibratedClassifierCV(_LOGISTIC, cv=2), {}),
        (SGDClassifier(loss="modified_huber", random_state=0), {}),
    ],
    ids=str,
)
def test_what_else_reads_keeps_the_steps(model: Any, asked: dict[str, Any]) -> None:
    x = _rows()
    converted = onnxport.convert(model.fit(x, _LABELS["two"](_score(x))), inputs=x[:5], **asked)
    assert "LinearClassifier" not in _operators(converted)


@pytest.mark.parametrize("kind", [np.float64, np.int64])
def test_wider_rows_keep_the_steps(kind: Any) -> None:
    x = (10 * _rows()).astype(kind)
    model = LogisticRegression().fit(x.astype(np.float64), _LABELS["two"](_score(x)))
    assert "LinearClassifier" not in _operators(onnxport.convert(model, inputs=x[:5]))


@pytest.mark.parametrize("labels", [np.array([False, True]), np.array([3, 7], np.int32), np.array([1.0, 2.0])])
def test_labels_of_other_types_keep_theirs(labels: np.ndarray) -> None:
    x = _rows()
    model = LogisticRegression().fit(x, labels[_LABELS["two"](_score(x))])
    converted = onnxport.convert(model, inputs=x[:5])
    label, _ = converted(x)
    assert label.dtype == labels.dtype
    assert label.tolist() == model.predict(x).tolist()


@pytest.mark.parametrize("labels", ["two", "text"])
def test_float32_perceptron_of_two_classes_ends_in_softmax(labels: str) -> None:
    x = _rows()
    model = MLPClassifier((5,), max_iter=300, tol=1e-2, random_state=0).fit(x, _LABELS[labels](_score(x)))
    converted = onnxport.convert(model, inputs=x[:5])
    assert _operators(converted)[5:7] == ["Softmax", "ArgMax"]
    for rows in (x, 40 * x, x[:1]):
        label, shares = converted(rows)
        assert label.tolist() == model.predict(rows).tolist()
        np.testing.assert_allclose(shares, model.predict_proba(rows), rtol=0, atol=3e-6)
    logs = onnxport.convert(model, inputs=x[:5], methods=["predict_log_proba"])
    assert "Softmax" not in _operators(logs)


@pytest.mark.filterwarnings("ignore:divide by zero")
@pytest.mark.parametrize("rate", [0.1, 1e4])
def test_boosted_logits_far_from_zero_give_zeros(rate: float) -> None:
    x = _rows().astype(np.float64)
    model = ensemble.GradientBoostingClassifier(n_estimators=5, random_state=0).fit(x, _LABELS["two"](_score(x)))
    model.learning_rate = rate
    converted = onnxport.convert(model, inputs=x[:5], methods=["predict_proba", "predict_log_proba"])
    assert ("Softmax" in _operators(converted)) == (rate < 1)
    shares, logs = converted(x)
    np.testing.assert_allclose(shares, model.predict_proba(x), rtol=1e-12)
    assert np.array_equal(shares[:, 0], 1 - shares[:, 1])
    np.testing.assert_allclose(logs, model.predict_log_proba(x), rtol=1e-9)


@pytest.mark.sampled(0.5)
@pytest.mark.parametrize("opset", [13, 17, 21])
@pytest.mark.parametrize("classes", [3, 5])
@pytest.mark.parametrize("part", [1 << 14, 40])
def test_shares_of_several_classes_are_summed_in_order(
    monkeypatch: pytest.MonkeyPatch, opset: int, classes: int, part: int
) -> None:
    monkeypatch.setattr(tree_ensemble, "_PART", part)
    x = np.round(_rows(), 1)  # few values: many equal shares
    y = np.random.default_rng(1).integers(0, classes, len(x))
    for model in (
        ensemble.RandomForestClassifier(30, max_depth=3, random_state=0).fit(x, y),
        ensemble.ExtraTreesClassifier(7, max_depth=2, random_state=0).fit(x, y),
    ):
        converted = onnxport.convert(model, inputs=x[:5], target_opset=opset)
        for count in (len(x), 1, 0):
            label, shares = converted(x[:count])
            assert shares.shape == (count, classes)
            assert label.shape == (count,)
            if count:
                assert np.array_equal(shares, model.predict_proba(x[:count]))
                assert np.array_equal(label, model.predict(x[:count]))


@pytest.mark.parametrize("part", [1 << 14, 100])
def test_means_of_trees(monkeypatch: pytest.MonkeyPatch, part: int) -> None:
    monkeypatch.setattr(tree_ensemble, "_PART", part)
    x = np.round(_rows(), 1)
    y = _LABELS["two"](_score(x) + np.random.default_rng(1).normal(size=len(x)))
    forest = ensemble.RandomForestClassifier(31, max_depth=4, random_state=0).fit(x, y)
    label, shares = onnxport.convert(forest, inputs=x[:5])(x)
    np.testing.assert_allclose(shares, forest.predict_proba(x), rtol=1e-12, atol=1e-15)
    assert np.array_equal(label, forest.predict(x))
    values = ensemble.RandomForestRegressor(31, max_depth=4, random_state=0).fit(x, _score(x))
    np.testing.assert_allclose(_only(onnxport.convert(values, inputs=x[:5])(x)), values.predict(x), rtol=1e-12)


def _only(values: Any) -> Any:
    return values[0] if isinstance(values, (tuple, list)) else values
