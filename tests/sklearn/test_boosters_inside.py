"""XGBoost, LightGBM and CatBoost inside scikit-learn's estimators, behind sparse matrices, and asked for their raw scores."""

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="scikit-learn is an extra")
# the libraries' own warnings: deprecated options, feature names
pytestmark = [pytest.mark.sklearn, pytest.mark.filterwarnings("ignore")]

import onnxport  # noqa: E402
from tests.sklearn.boosters import fitted, table, targets  # noqa: E402


@pytest.mark.parametrize(
    ("library", "name"),
    [("xgboost", "XGBClassifier"), ("lightgbm", "LGBMClassifier"), ("catboost", "CatBoostClassifier")],
)
@pytest.mark.parametrize("outer", ["pipeline", "columns", "voting", "calibrated", "rest", "stacked"])
def test_inside_an_estimator_of_scikit_learn(library, name, outer):
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.compose import make_column_transformer
    from sklearn.ensemble import StackingClassifier, VotingClassifier
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    inner = fitted(library, name, "three")
    inner = type(inner)(
        **{key: item for key, item in inner.get_params().items() if key != "objective" and item is not None}
    )
    x, y = np.nan_to_num(table()[0]), targets()["three"]
    x = x.astype(np.float32)
    model = {
        "pipeline": lambda: make_pipeline(StandardScaler(), inner),
        "columns": lambda: make_pipeline(
            make_column_transformer((StandardScaler(), [0, 1, 2]), (OneHotEncoder(handle_unknown="ignore"), [3])), inner
        ),
        "voting": lambda: VotingClassifier([("a", inner), ("b", inner)], voting="soft"),
        "calibrated": lambda: CalibratedClassifierCV(inner, cv=2),
        "rest": lambda: OneVsRestClassifier(inner),
        "stacked": lambda: StackingClassifier([("a", inner)], inner, cv=2),
    }[outer]().fit(x, y)
    label, shares = onnxport.convert(model, inputs=x, validate=False)(x)
    np.testing.assert_allclose(shares, model.predict_proba(x), rtol=2e-5, atol=2e-6)
    assert label.tolist() == model.predict(x).tolist()


@pytest.mark.parametrize(
    ("library", "name", "options"),
    [
        ("catboost", "CatBoostClassifier", {}),
        ("lightgbm", "LGBMClassifier", {}),
        ("xgboost", "XGBRegressor", {"objective": "reg:quantileerror", "quantile_alpha": [0.2, 0.8]}),
    ],
)
def test_several_targets_one_by_one(library, name, options):
    """Where an estimator says more than one number a row, scikit-learn puts these first."""
    from sklearn.multioutput import MultiOutputClassifier, MultiOutputRegressor

    outer = MultiOutputClassifier if name.endswith("Classifier") else MultiOutputRegressor
    x, y = table()[0], np.stack([targets()["three"], targets()["three"][::-1]], axis=1)
    inner = fitted(library, name, "three" if name.endswith("Classifier") else "number", **options)
    model = outer(inner).fit(x, y)
    converted = onnxport.convert(model, inputs=x, methods=["predict"])
    np.testing.assert_allclose(converted(x), model.predict(x), rtol=1e-5, strict=True)


@pytest.mark.sampled(0.3)
@pytest.mark.parametrize("library", ["xgboost", "lightgbm", "catboost"])
@pytest.mark.parametrize("first", ["tfidf", "onehot", "union", "bins", "chosen"])
def test_what_a_sparse_matrix_leaves_out(library, first):
    """XGBoost takes it for missing, the others for zero."""
    from sklearn.ensemble import BaggingClassifier
    from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
    from sklearn.feature_selection import SelectKBest
    from sklearn.pipeline import make_pipeline, make_union
    from sklearn.preprocessing import KBinsDiscretizer, OneHotEncoder, StandardScaler

    name = {"xgboost": "XGBClassifier", "lightgbm": "LGBMClassifier", "catboost": "CatBoostClassifier"}[library]
    inner = type(fitted(library, name, "two"))(n_estimators=5, **({"verbose": -1} if library == "lightgbm" else {}))
    if library == "catboost":
        inner.set_params(verbose=0, allow_writing_files=False)
    rng = np.random.default_rng(0)
    words = np.array("red green blue black white big small".split())
    texts = np.array([" ".join(rng.choice(words, rng.integers(1, 9))) for _ in range(200)], object)
    numbers = rng.integers(0, 5, (200, 3)).astype(np.float32)
    model, x = {
        "tfidf": lambda: (make_pipeline(TfidfVectorizer(), inner), texts),
        "onehot": lambda: (make_pipeline(OneHotEncoder(), BaggingClassifier(inner, 2, max_features=0.6)), numbers),
        "union": lambda: (make_pipeline(make_union(CountVectorizer(), TfidfVectorizer()), inner), texts),
        "bins": lambda: (make_pipeline(KBinsDiscretizer(3, encode="onehot-dense"), inner), numbers),
        "chosen": lambda: (
            make_pipeline(CountVectorizer(), StandardScaler(with_mean=False), SelectKBest(k=4), inner),
            texts,
        ),
    }[first]()
    y = np.array(["red" in text for text in texts]).astype(int) if x is texts else (x[:, 0] > 1).astype(int)
    model.fit(x, y)
    label, shares = onnxport.convert(model, inputs=x, validate=False)(x)
    np.testing.assert_allclose(shares, model.predict_proba(x), rtol=2e-5, atol=2e-6)
    assert label.tolist() == model.predict(x).tolist()


@pytest.mark.parametrize("library", ["xgboost", "lightgbm", "catboost"])
def test_rows_of_a_sparse_matrix(library):
    """Validated as they are given: what they leave out is missing for XGBoost."""
    from scipy.sparse import csr_matrix

    name = {"xgboost": "XGBRegressor", "lightgbm": "LGBMRegressor", "catboost": "CatBoostRegressor"}[library]
    x = np.nan_to_num(table(0)[0])
    model = fitted(library, name, "number").fit(csr_matrix(x), x[:, 0] + (x[:, 5] == 0))
    converted = onnxport.convert(model, inputs=csr_matrix(x[:50]))
    assert converted.report.passed
    np.testing.assert_allclose(converted(x), model.predict(csr_matrix(x)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("outer", ["alone", "pipeline", "search", "sampled"])
@pytest.mark.parametrize(
    ("library", "name", "asked"),
    [
        ("xgboost", "XGBClassifier", {"output_margin": True}),
        ("lightgbm", "LGBMClassifier", {"raw_score": True}),
        ("catboost", "CatBoostClassifier", {"prediction_type": "RawFormulaVal"}),
    ],
)
def test_raw_scores(library, name, asked, outer):
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    x = np.nan_to_num(table()[0])
    for target in ("two", "three"):
        inner = fitted(library, name, target)
        model = {
            "alone": lambda inner=inner: inner,
            "pipeline": lambda inner=inner: make_pipeline(StandardScaler(), inner),
            "search": lambda inner=inner: GridSearchCV(make_pipeline(StandardScaler(), inner), {}, cv=2),
            "sampled": lambda inner=inner: sampled(inner),
        }[outer]()
        model.fit(x, targets()[target])
        label, scores = onnxport.convert(model, inputs=x, options={"raw_scores": True})(x)
        expected = getattr(model, "best_estimator_", model).predict(x, **asked)
        assert scores.shape == expected.shape
        assert scores.dtype == expected.dtype
        np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=1e-6)
        assert label.tolist() == model.predict(x).tolist()


def sampled(inner):
    pipeline = pytest.importorskip("imblearn.pipeline", reason="imbalanced-learn is an extra")
    over = pytest.importorskip("imblearn.over_sampling", reason="imbalanced-learn is an extra").RandomOverSampler(
        random_state=0
    )
    return pipeline.make_pipeline(over, inner)


def test_raw_scores_of_others_are_refused_by_name():
    from sklearn.naive_bayes import GaussianNB

    x = np.nan_to_num(table()[0])
    model = GaussianNB().fit(x, targets()["two"])
    with pytest.raises(onnxport.errors.InvalidInputError, match="GaussianNB has no raw scores"):
        onnxport.convert(model, inputs=x, methods=["raw_scores"])
