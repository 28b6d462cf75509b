"""A seeded sample of the pipelines that people bring; scripts/conformance/pipelines.py runs all of them."""

import random
import warnings

import onnx
import onnx_ir
import pytest

pytest.importorskip("sklearn")
pytest.importorskip("pandas")
pytest.importorskip("polars")
pytestmark = pytest.mark.sklearn

import onnxport  # noqa: E402
from onnxport.model import OnnxModel  # noqa: E402
from scripts.conformance.pipelines import CASES, of_ours  # noqa: E402

# What went wrong once, and twenty others.
ALWAYS = (
    "nested_columns columns_of_small_types preparation_alone columns_left_out frames_inside pictures_flattened fixed_threshold"
).split()
BY_NAME = {item.name: item for item in CASES}
CHOSEN = [*ALWAYS, *random.Random(0).sample(sorted(set(BY_NAME) - set(ALWAYS)), 10)]


@pytest.mark.parametrize("name", CHOSEN)
def test_pipeline(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what scikit-learn says about small data is not at stake
        outcome = of_ours(BY_NAME[name])
    assert outcome.verdict == "right", outcome.reason


def test_names_are_told_apart():
    assert len(BY_NAME) == len(CASES) >= 60


@pytest.mark.parametrize("name", ["unknown_warned", "counted_words", "fixed_threshold", "columns_by_name"])
def test_validation_takes_all_rows(name):
    """None among words, and the rounding of large logarithms, on more rows than a user would give."""
    model, rows = BY_NAME[name].fitted(), BY_NAME[name].fresh()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert onnxport.convert(model, inputs=rows).report.passed


@pytest.mark.parametrize("name", ["fixed_threshold", "gaussian_process_classes", "scaled_logistic"])
def test_rounding_does_not_excuse_a_fault(name):
    model, rows = BY_NAME[name].fitted(), BY_NAME[name].fresh()
    proto = onnxport.convert(model, inputs=rows, validate=False).proto
    weights = max(
        proto.graph.initializer, key=lambda item: (item.data_type == onnx.TensorProto.DOUBLE, len(item.raw_data))
    )
    moved = onnx.numpy_helper.to_array(weights) * (1 + 1e-7)
    weights.CopyFrom(onnx.numpy_helper.from_array(moved, weights.name))
    assert not onnxport.validate(model, OnnxModel(onnx_ir.from_proto(proto)), inputs=rows).passed


def test_what_a_difference_behind_trees_loses_is_rounding():
    """Rows whose prediction is what a line leaves of the greater sums of trees that read the rows themselves."""
    from sklearn.datasets import load_iris
    from sklearn.ensemble import HistGradientBoostingRegressor, StackingRegressor
    from sklearn.linear_model import Ridge, RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    rows, target = load_iris(return_X_y=True)
    parts = [("line", make_pipeline(StandardScaler(), Ridge())), ("trees", HistGradientBoostingRegressor(max_iter=5))]
    model = StackingRegressor(parts, make_pipeline(StandardScaler(), RidgeCV()), passthrough=True).fit(rows, target)
    for start in (9, 18, 27, 0):
        converted = onnxport.convert(model, inputs=rows[start : start + 9])
        assert converted.report.passed
    model.final_estimator_[-1].coef_ = model.final_estimator_[-1].coef_ * (1 + 1e-9)
    assert not onnxport.validate(model, converted, inputs=rows[:9]).passed


@pytest.mark.parametrize("classes", [0, 2, 3])
def test_boosting_that_starts_from_a_line_has_the_lines_digits(classes):
    """scikit-learn fits the first estimator on float32 rows, and a linear one then computes in float32."""
    import numpy as np
    from sklearn.datasets import make_classification, make_regression
    from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor
    from sklearn.linear_model import LinearRegression, LogisticRegression

    if classes:
        rows, target = make_classification(200, 10, n_informative=6, n_classes=classes, random_state=0)
        model = GradientBoostingClassifier(n_estimators=3, init=LogisticRegression()).fit(rows, target)
    else:
        rows, target = make_regression(200, 10, n_informative=5, random_state=0)
        model = GradientBoostingRegressor(n_estimators=3, init=LinearRegression()).fit(rows, target)
    converted = onnxport.convert(model, inputs=3 * rows[:9])
    assert converted.report.passed
    model.init_.coef_ = model.init_.coef_ * np.float32(1 + 1e-4)
    assert not onnxport.validate(model, converted, inputs=rows[:9]).passed
