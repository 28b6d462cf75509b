"""imbalanced-learn: pipelines with samplers and resampling ensembles, against the library's own inference on fresh rows."""

import numpy as np
import pytest

pytest.importorskip("sklearn")
pytest.importorskip("imblearn")
pytestmark = pytest.mark.sklearn

from imblearn import FunctionSampler  # noqa: E402
from imblearn.combine import SMOTEENN  # noqa: E402
from imblearn.ensemble import (  # noqa: E402
    BalancedBaggingClassifier,
    BalancedRandomForestClassifier,
    EasyEnsembleClassifier,
    RUSBoostClassifier,
)
from imblearn.over_sampling import SMOTE, RandomOverSampler  # noqa: E402
from imblearn.pipeline import Pipeline, make_pipeline  # noqa: E402
from imblearn.under_sampling import RandomUnderSampler, TomekLinks  # noqa: E402
from sklearn.compose import make_column_transformer  # noqa: E402
from sklearn.decomposition import PCA  # noqa: E402
from sklearn.ensemble import AdaBoostClassifier, RandomForestClassifier  # noqa: E402
from sklearn.linear_model import LogisticRegression, RidgeClassifier  # noqa: E402
from sklearn.model_selection import GridSearchCV  # noqa: E402
from sklearn.naive_bayes import GaussianNB  # noqa: E402
from sklearn.preprocessing import OneHotEncoder, StandardScaler  # noqa: E402
from sklearn.svm import LinearSVC  # noqa: E402
from sklearn.tree import DecisionTreeClassifier  # noqa: E402

import onnxport  # noqa: E402
from onnxport.converters.to_onnx.sklearn import export  # noqa: E402
from onnxport.request import Request  # noqa: E402
from tests.evidence import require_equal  # noqa: E402

METHODS = ("predict", "predict_proba", "predict_log_proba", "decision_function", "transform", "apply", "score_samples")


def rows(count=300, seed=0):
    return np.random.default_rng(seed).normal(size=(count, 5))


def labels(classes, text=False):
    """Few rows of the first class, most of the last."""
    noise = np.random.default_rng(1).normal(size=300)
    score = rows() @ [1.0, -2.0, 0.5, 1.5, 0.0] + 0.5 * noise
    result = np.digitize(score, [-2.0] if classes == 2 else [-3.0, 0.0])
    return np.array(["rare", "some", "many"])[result] if text else result


def compare(model, given, methods=METHODS):
    """Each method that the model has."""
    compared = [method for method in methods if hasattr(model, method)]
    for method in compared:
        converted = export(model, Request(inputs=given, methods=[method], target_opset=21))
        require_equal(model, converted, given, methods=[method])
    return compared


ENSEMBLES = [
    BalancedRandomForestClassifier(9, sampling_strategy="all", replacement=True, bootstrap=False, random_state=0),
    BalancedRandomForestClassifier(5, max_depth=3, class_weight="balanced", bootstrap=True, random_state=0),
    BalancedBaggingClassifier(n_estimators=4, random_state=0),
    BalancedBaggingClassifier(DecisionTreeClassifier(max_depth=3), n_estimators=4, max_features=0.6, random_state=0),
    BalancedBaggingClassifier(GaussianNB(), n_estimators=3, sampler=SMOTE(k_neighbors=2), random_state=0),
    BalancedBaggingClassifier(RidgeClassifier(), n_estimators=3, sampler=FunctionSampler(), random_state=0),
    BalancedBaggingClassifier(LinearSVC(), n_estimators=3, bootstrap_features=True, random_state=0),
    EasyEnsembleClassifier(n_estimators=2, estimator=AdaBoostClassifier(n_estimators=4), random_state=0),
    EasyEnsembleClassifier(n_estimators=2, estimator=RandomForestClassifier(4), random_state=0),
    RUSBoostClassifier(n_estimators=6, random_state=0),
    RUSBoostClassifier(DecisionTreeClassifier(max_depth=2), n_estimators=6, learning_rate=0.5, random_state=0),
]


@pytest.mark.sampled(0.3)
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("model", ENSEMBLES, ids=[f"{type(model).__name__}{i}" for i, model in enumerate(ENSEMBLES)])
def test_ensembles(model, classes, dtype):
    model.fit(rows(), labels(classes, text=classes == 3))
    assert {"predict", "predict_proba"} <= set(compare(model, rows(200, 1).astype(dtype)))


@pytest.mark.parametrize(
    ("model", "compared"),
    [
        (make_pipeline(SMOTE(random_state=0), LogisticRegression()), 4),
        (make_pipeline(StandardScaler(), TomekLinks(), PCA(3), SMOTEENN(random_state=0), GaussianNB()), 3),
        (make_pipeline(RandomUnderSampler(random_state=0), StandardScaler(), PCA(2)), 2),
        (make_pipeline(FunctionSampler(), LinearSVC()), 2),
        (
            Pipeline(
                [("over", RandomOverSampler(random_state=0)), ("scale", StandardScaler()), ("end", "passthrough")]
            ),
            1,
        ),
        (Pipeline([("none", None), ("over", RandomOverSampler(random_state=0)), ("end", LogisticRegression())]), 4),
        (make_pipeline(StandardScaler(), BalancedBaggingClassifier(n_estimators=2, random_state=0)), 3),
        (
            GridSearchCV(
                make_pipeline(SMOTE(random_state=0), LogisticRegression()), {"smote__k_neighbors": [2, 4]}, cv=2
            ),
            4,
        ),
    ],
)
def test_pipelines(model, compared):
    assert len(compare(model.fit(rows(), labels(3, text=True)), rows(200, 1))) >= compared


def test_a_table_of_text_and_numbers():
    pandas = pytest.importorskip("pandas")
    words = np.random.default_rng(2).choice(["a", "b", "c"], 300)
    table = pandas.DataFrame({"x": rows()[:, 0], "word": words.astype(object), "y": rows()[:, 1]})
    columns = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["word"]), (StandardScaler(), ["x", "y"])
    )
    model = make_pipeline(columns, RandomOverSampler(random_state=0), LogisticRegression()).fit(table, labels(2))
    fresh = table.tail(50).assign(word=np.random.default_rng(3).choice(["a", "b", "d"], 50).astype(object))
    assert len(compare(model, fresh)) >= 4


def test_convert_proves_it():
    model = make_pipeline(SMOTE(random_state=0), BalancedRandomForestClassifier(
        5, sampling_strategy="all", replacement=True, bootstrap=False, random_state=0
    )).fit(rows(), labels(3))  # fmt: skip
    result = onnxport.convert(model, inputs=rows(20, 1))
    assert result.output_names == ["label", "probabilities"]
    assert result.report.passed


class Other(RUSBoostClassifier):
    def predict(self, X):
        return super().predict(X)[::-1]


class Same(RUSBoostClassifier):
    """Nothing of its own."""


def test_a_class_of_ones_own():
    compare(Same(n_estimators=3, random_state=0).fit(rows(), labels(2)), rows(50, 1))
    other = Other(n_estimators=3, random_state=0).fit(rows(), labels(2))
    with pytest.raises(onnxport.UnsupportedOperator, match=r"Other\.predict"):
        export(other, Request(inputs=rows(5), methods=["predict"], target_opset=21))


def test_what_a_step_leaves_out_of_a_sparse_matrix_is_missing_behind_it():
    """XGBoost takes it so, as behind a step of scikit-learn's own pipeline."""
    xgboost = pytest.importorskip("xgboost", reason="XGBoost is an extra")
    codes = np.random.default_rng(0).integers(0, 4, (200, 3)).astype(float)
    trees = xgboost.XGBClassifier(n_estimators=4, max_depth=3)
    model = make_pipeline(OneHotEncoder(), RandomUnderSampler(random_state=0), trees)
    compare(model.fit(codes, codes[:, 0] + codes[:, 1] > 3), codes, ["predict"])
