"""XGBoost, LightGBM and CatBoost: their own numbers on random rows, on and beside thresholds, with missing values."""

import json

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="scikit-learn is an extra")
# the libraries' own warnings: deprecated options, feature names
pytestmark = [pytest.mark.sklearn, pytest.mark.filterwarnings("ignore")]

import onnxport  # noqa: E402
from onnxport.converters.to_onnx.sklearn import export  # noqa: E402
from onnxport.errors import InvalidModelError  # noqa: E402
from onnxport.request import Request  # noqa: E402
from onnxport.tracing.sklearn_boosters import as_estimator  # noqa: E402
from tests.evidence import require_equal  # noqa: E402
from tests.sklearn.boosters import fitted, frame, table  # noqa: E402

METHODS = ("predict", "predict_proba", "predict_log_proba", "decision_function", "apply")


def thresholds(model):
    """Every number that the model's trees compare with."""
    if hasattr(model, "get_borders"):
        return np.concatenate([np.asarray(item, np.float64) for item in model.get_borders().values()])
    if hasattr(model, "booster_"):
        lines = model.booster_.model_to_string().splitlines()
        parts = [np.array(line[10:].split(), np.float64) for line in lines if line.startswith("threshold=")]
        return np.concatenate([*parts, [0.0]])
    booster = json.loads(bytes(model.get_booster().save_raw("json")))["learner"]["gradient_booster"]
    trees = booster.get("gbtree", booster)["model"].get("trees", [])
    return np.concatenate([*(np.asarray(tree["split_conditions"], np.float64) for tree in trees), [0.0]])


def rows_for(model, gaps=0.15):
    """The rows of training and rows of numbers on and beside thresholds and beside zero."""
    result = thresholds(model)
    result = result[np.abs(result) < 1e30]
    narrow = result.astype(np.float32)
    beside = [np.nextafter(narrow, np.float32(side)) for side in (-np.inf, np.inf)]
    fine = [np.nextafter(result, side) for side in (-np.inf, np.inf)]
    zero = [0.0, -0.0, 1e-36, -1e-36, float(np.float32(1e-35)), -float(np.float32(1e-35)), 2e-35]
    edges = np.concatenate([result, narrow, *beside, *fine, zero]).astype(np.float64)
    rng = np.random.default_rng(1)
    rows = rng.choice(edges, size=(1000, 6))
    rows[rng.random(rows.shape) < gaps] = np.nan
    return np.concatenate([table()[0], rows])


def compare(model, method, rows, opset):
    converted = export(model, Request(inputs=rows, methods=[method], target_opset=opset))
    require_equal(model, converted, rows, methods=[method])
    given, expected = converted(rows[:1]), np.asarray(getattr(model, method)(rows[:1]))
    assert expected.dtype.kind in "OU" or given.dtype == expected.dtype


def own_objective(y, p):
    return p - y, np.ones_like(y)


FOREST = {"boosting_type": "rf", "subsample": 0.6, "subsample_freq": 1}
MODELS = [
    ("xgboost", "XGBRegressor", "number", {}),
    ("xgboost", "XGBRegressor", "number", {"base_score": 12.5, "tree_method": "exact", "gamma": 0.5}),
    ("xgboost", "XGBRegressor", "number", {"grow_policy": "lossguide", "max_leaves": 9, "n_estimators": 1}),
    ("xgboost", "XGBRegressor", "number", {"missing": -1.0}),
    ("xgboost", "XGBRegressor", "number", {"booster": "dart", "rate_drop": 0.4, "normalize_type": "forest"}),
    ("xgboost", "XGBRegressor", "number", {"booster": "gblinear", "max_depth": None}),
    ("xgboost", "XGBRegressor", "number", {"objective": own_objective}),
    ("xgboost", "XGBRegressor", "number", {"objective": "reg:quantileerror", "quantile_alpha": [0.1, 0.5, 0.9]}),
    ("xgboost", "XGBRegressor", "share", {"objective": "reg:logistic"}),
    ("xgboost", "XGBRegressor", "constant", {}),
    ("xgboost", "XGBRegressor", "never", {"objective": "binary:logistic"}),
    *[
        ("xgboost", "XGBRegressor", "positive", {"objective": item})
        for item in "reg:gamma reg:tweedie count:poisson survival:cox reg:squaredlogerror reg:absoluteerror".split()
    ],
    ("xgboost", "XGBRegressor", "numbers", {}),
    ("xgboost", "XGBRegressor", "numbers", {"multi_strategy": "multi_output_tree"}),
    ("xgboost", "XGBRegressor", "numbers", {"booster": "gblinear", "max_depth": None}),
    ("xgboost", "XGBRFRegressor", "number", {}),
    ("xgboost", "XGBClassifier", "three", {}),
    ("xgboost", "XGBClassifier", "three", {"objective": "multi:softmax", "num_parallel_tree": 2}),
    ("xgboost", "XGBClassifier", "three", {"multi_strategy": "multi_output_tree"}),
    ("xgboost", "XGBClassifier", "three", {"booster": "gblinear", "max_depth": None}),
    ("xgboost", "XGBClassifier", "three", {"early_stopping_rounds": 2, "n_estimators": 90, "fit": "stopped early"}),
    ("xgboost", "XGBClassifier", "labels", {}),
    ("xgboost", "XGBClassifier", "two", {"base_score": 0.9}),
    ("xgboost", "XGBClassifier", "two", {"objective": "binary:hinge"}),
    ("xgboost", "XGBClassifier", "two", {"objective": "binary:logitraw"}),
    ("xgboost", "XGBClassifier", "two", {"objective": "multi:softprob", "num_class": 2}),
    ("xgboost", "XGBRFClassifier", "two", {}),
    ("xgboost", "XGBRanker", "three", {"fit": {"qid": np.repeat(np.arange(30), 10)}}),
    ("lightgbm", "LGBMRegressor", "number", {}),
    ("lightgbm", "LGBMRegressor", "number", {"zero_as_missing": True}),
    ("lightgbm", "LGBMRegressor", "number", {"use_missing": False}),
    ("lightgbm", "LGBMRegressor", "number", {"boosting_type": "dart", "boost_from_average": False}),
    ("lightgbm", "LGBMRegressor", "number", {"reg_sqrt": True}),
    ("lightgbm", "LGBMRegressor", "number", {"linear_tree": True}),
    ("lightgbm", "LGBMRegressor", "number", {"objective": own_objective}),
    ("lightgbm", "LGBMRegressor", "positive", FOREST),
    ("lightgbm", "LGBMRegressor", "share", {"objective": "cross_entropy"}),
    ("lightgbm", "LGBMRegressor", "share", {"objective": "cross_entropy_lambda"}),
    ("lightgbm", "LGBMRegressor", "constant", {}),
    *[
        ("lightgbm", "LGBMRegressor", "positive", {"objective": item})
        for item in "regression_l1 huber fair quantile mape poisson gamma tweedie".split()
    ],
    ("lightgbm", "LGBMClassifier", "words", {}),
    ("lightgbm", "LGBMClassifier", "three", {"objective": "multiclassova", "sigmoid": 1.7, "zero_as_missing": True}),
    ("lightgbm", "LGBMClassifier", "three", FOREST),
    ("lightgbm", "LGBMClassifier", "three", {"early_stopping_round": 2, "n_estimators": 90, "fit": "stopped early"}),
    ("lightgbm", "LGBMClassifier", "two", {"sigmoid": 0.3}),
    ("lightgbm", "LGBMClassifier", "two", {"objective": own_objective}),
    ("lightgbm", "LGBMClassifier", "two", FOREST),
    ("lightgbm", "LGBMRanker", "three", {"fit": {"group": [10] * 30}}),
    ("catboost", "CatBoostRegressor", "number", {}),
    ("catboost", "CatBoostRegressor", "number", {"nan_mode": "Max"}),
    ("catboost", "CatBoostRegressor", "number", {"grow_policy": "Depthwise"}),
    ("catboost", "CatBoostRegressor", "number", {"grow_policy": "Lossguide", "nan_mode": "Max"}),
    ("catboost", "CatBoostRegressor", "positive", {"loss_function": "Poisson"}),
    ("catboost", "CatBoostRegressor", "positive", {"loss_function": "Tweedie:variance_power=1.5"}),
    ("catboost", "CatBoostRegressor", "number", {"loss_function": "RMSEWithUncertainty"}),
    ("catboost", "CatBoostRegressor", "number", {"loss_function": "MultiQuantile:alpha=0.2,0.8"}),
    ("catboost", "CatBoostRegressor", "numbers", {"loss_function": "MultiRMSE", "ignored_features": [0]}),
    ("catboost", "CatBoostClassifier", "words", {}),
    ("catboost", "CatBoostClassifier", "three", {"loss_function": "MultiClassOneVsAll"}),
    ("catboost", "CatBoostClassifier", "three", {"grow_policy": "Lossguide"}),
    ("catboost", "CatBoostClassifier", "three", {"class_names": [0, 7, 2, 1]}),
    ("catboost", "CatBoostClassifier", "three", {"classes_count": 5, "loss_function": "MultiClassOneVsAll"}),
    ("catboost", "CatBoostClassifier", "three", {"early_stopping_rounds": 2, "iterations": 90, "fit": "stopped early"}),
    ("catboost", "CatBoostClassifier", "two", {}),
    ("catboost", "CatBoostClassifier", "two", {"loss_function": "CrossEntropy"}),
    ("catboost", "CatBoostClassifier", "labels", {"loss_function": "MultiLogloss"}),
    ("catboost", "CatBoostRanker", "three", {"loss_function": "YetiRank", "fit": {"group_id": np.repeat(range(30), 10)}}),
]  # fmt: skip


@pytest.mark.sampled(0.3)
@pytest.mark.parametrize(("library", "name", "target", "options"), MODELS)
def test_rows_on_and_beside_thresholds(library, name, target, options):
    model = fitted(library, name, target, **options)
    rows = rows_for(model)
    for method in METHODS:
        if not hasattr(model, method) or (method == "apply" and options.get("booster") == "gblinear"):
            continue
        for dtype in (np.float64, np.float32):
            for opset in (13, 21):
                compare(model, method, rows.astype(dtype), opset)


@pytest.mark.parametrize(("library", "name"), [("xgboost", "XGBRegressor"), ("lightgbm", "LGBMRegressor")])
@pytest.mark.parametrize("onehot", [1, 200])
def test_codes_of_categories(library, name, onehot):
    module = pytest.importorskip(library, reason="each of scikit-learn's neighbours is an extra")
    rng = np.random.default_rng(0)
    x = np.stack([rng.normal(size=600), rng.integers(0, 90, 600), rng.integers(0, 5, 600)], axis=1)
    y = x[:, 0] + x[:, 1] % 7 - 2 * (x[:, 2] == 3)
    x[rng.random(x.shape) < 0.1] = np.nan
    if library == "xgboost":
        kinds = {"enable_categorical": True, "feature_types": ["q", "c", "c"], "max_cat_threshold": 80}
        model = module.XGBRegressor(n_estimators=12, max_cat_to_onehot=onehot, **kinds).fit(x, y)
    else:
        options = {"min_data_per_group": 2, "cat_smooth": 1, "verbose": -1}
        model = module.LGBMRegressor(n_estimators=12, max_cat_to_onehot=onehot, **options)
        model.fit(x, y, categorical_feature=[1, 2])
    odd = rng.choice([-1, -0.5, 0.5, 1.7, 2.999, 31, 32, 63, 64, 91, 1000, 3, 4], size=x.shape)
    rows = np.where(rng.random(x.shape) < 0.3, odd, x)
    for dtype in (np.float64, np.float32):
        compare(model, "predict", rows.astype(dtype), 21)
    with pytest.raises(onnxport.UnsupportedOperator, match="ask for target_opset=21"):
        compare(model, "predict", rows, 20)


def columns_of(rows):
    """What the graph's inputs are given: the values, not the codes."""
    return {name: np.asarray(rows[name])[:, None] for name in rows.columns}


@pytest.mark.parametrize(
    ("library", "name", "options"),
    [
        ("xgboost", "XGBRegressor", {"enable_categorical": True, "max_cat_to_onehot": 1}),
        ("lightgbm", "LGBMRegressor", {"min_data_per_group": 2, "verbose": -1}),
    ],
)
def test_categories_of_a_frame_come_as_they_are(library, name, options):
    module = pytest.importorskip(library, reason="each of scikit-learn's neighbours is an extra")
    rows, y = frame()
    model = getattr(module, name)(n_estimators=10, **options).fit(rows, y)
    converted = onnxport.convert(model, inputs=rows, validate=False)
    np.testing.assert_allclose(converted(**columns_of(rows)), model.predict(rows), rtol=1e-5)


def test_categories_that_are_booleans():
    lightgbm, pandas = (
        pytest.importorskip("lightgbm", reason="LightGBM is an extra"),
        pytest.importorskip("pandas", reason="pandas comes with the extra sklearn"),
    )
    rows, y = frame()
    yes = pandas.Categorical.from_codes(rows.i % 3 - 1, [False, True])
    model = lightgbm.LGBMRegressor(n_estimators=10, verbose=-1)
    converted = onnxport.convert(model.fit(rows.assign(yes=yes), y), inputs=rows.assign(yes=yes))
    assert converted.report.passed


def test_lightgbm_without_the_places_of_the_categories():
    lightgbm = pytest.importorskip("lightgbm", reason="LightGBM is an extra")
    rows, y = frame()
    rows = rows.assign(word=rows.word.cat.as_ordered(), number=rows.number.cat.as_ordered())[["a", "number", "i"]]
    model = lightgbm.LGBMRegressor(n_estimators=3, verbose=-1).fit(rows, y)
    with pytest.raises(onnxport.UnsupportedOperator, match=r"categorical_feature=\[\] names 0 columns where .* had 1"):
        onnxport.convert(model, inputs=rows)


def test_xgboost_cuts_words_that_are_not_ascii():
    xgboost = pytest.importorskip("xgboost", reason="XGBoost is an extra")
    rows, y = frame()
    rows["word"] = rows.word.cat.rename_categories({"zz": "élan"})
    model = xgboost.XGBRegressor(n_estimators=3, enable_categorical=True).fit(rows, y)
    with pytest.raises(onnxport.UnsupportedOperator, match=r"does not hold the categories of the columns \[1\]"):
        onnxport.convert(model, inputs=rows)


@pytest.mark.parametrize("onehot", [2, 10])
def test_catboost_keeps_hashes_of_categories(onehot):
    catboost = pytest.importorskip("catboost", reason="CatBoost is an extra")
    rows, y = frame()
    rows = rows.assign(word=np.asarray(rows.word.astype(object).fillna("none")))[["a", "word"]]
    options = {"cat_features": ["word"], "verbose": 0, "allow_writing_files": False}
    model = catboost.CatBoostRegressor(iterations=5, one_hot_max_size=onehot, **options).fit(rows, y)
    with pytest.raises(
        onnxport.UnsupportedOperator, match=r"split_type='(OneHotFeature|OnlineCtr)' asks for categories"
    ):
        onnxport.convert(model, inputs=rows)


@pytest.mark.parametrize("kind", ["text", "embedding"])
def test_catboost_does_not_tell_how_it_reads_text(kind):
    catboost = pytest.importorskip("catboost", reason="CatBoost is an extra")
    rows, y = frame()
    rows["word"] = [f"a {item}" if kind == "text" else [1.0, len(str(item))] for item in rows.word]
    options = {f"{kind}_features": ["word"], "verbose": 0, "allow_writing_files": False}
    model = catboost.CatBoostClassifier(iterations=2, **options).fit(rows[["a", "word"]], y > 1)
    with pytest.raises(onnxport.UnsupportedOperator, match=rf"{kind}_features=\[1\] have no mapping"):
        onnxport.convert(model, inputs=rows[["a"]])


@pytest.mark.parametrize("order", [["i", "b", "a"], ["more", "b", "a", "i"], ["b", "a"]], ids=str)
def test_catboost_knows_columns_by_their_names(order):
    catboost = pytest.importorskip("catboost", reason="CatBoost is an extra")
    rows = frame()[0].assign(b=frame()[1], more=1.0)
    few = {"iterations": 5, "verbose": 0, "allow_writing_files": False, "ignored_features": ["i"]}
    model = catboost.CatBoostRegressor(**few).fit(rows[["a", "b", "i"]], rows.a + rows.b)
    converted = onnxport.convert(model, inputs=rows[order])
    np.testing.assert_allclose(converted(rows[order]), model.predict(rows[["a", "b", "i"]]), rtol=1e-9)


def test_catboost_sums_of_models():
    catboost = pytest.importorskip("catboost", reason="CatBoost is an extra")
    parts = [fitted("catboost", "CatBoostRegressor", "number", depth=depth) for depth in (2, 4)]
    model = catboost.sum_models(parts, weights=[1, 0.5])
    compare(model, "predict", rows_for(parts[1]), 21)


def test_catboost_threshold_of_probability():
    pytest.importorskip("catboost", reason="CatBoost is an extra")
    model = fitted("catboost", "CatBoostClassifier", "two")
    model.set_probability_threshold(0.3)
    compare(model, "predict", rows_for(model), 21)


def test_a_model_without_trees_is_refused():
    xgboost = pytest.importorskip("xgboost", reason="XGBoost is an extra")
    x, y = table()
    model = xgboost.XGBClassifier(n_estimators=0).fit(x, y > 0)
    with pytest.raises(onnxport.UnsupportedOperator, match="n_estimators=0"):
        onnxport.convert(model, inputs=x)


def test_a_class_that_overrides_a_method_is_refused():
    xgboost = pytest.importorskip("xgboost", reason="XGBoost is an extra")

    class Mine(xgboost.XGBRegressor):
        def predict(self, X, **options):
            return 2 * super().predict(X, **options)

    x, y = table()
    with pytest.raises(onnxport.UnsupportedOperator, match=r"Mine\.predict"):
        onnxport.convert(Mine(n_estimators=2).fit(x, y), inputs=x)


NATIVE = [(library, name, target, options) for library, name, target, options in MODELS if library != "catboost"]


def native(library, model):
    return model.get_booster() if library == "xgboost" else model.booster_


@pytest.mark.parametrize(("library", "name", "target", "options"), NATIVE)
def test_boosters_without_an_estimator(library, name, target, options):
    model = fitted(library, name, target, **options)
    booster = as_estimator(native(library, model))
    rows = rows_for(model)
    for dtype in (np.float64, np.float32):
        compare(booster, "predict", rows.astype(dtype), 21)


@pytest.mark.parametrize(
    ("library", "name", "suffix"),
    [("xgboost", "XGBClassifier", "ubj"), ("xgboost", "XGBRegressor", "json"), ("lightgbm", "LGBMClassifier", "txt")],
)
def test_files_of_boosters(tmp_path, library, name, suffix):
    model = fitted(library, name, "three" if name.endswith("Classifier") else "number")
    path = tmp_path / f"model.{suffix}"
    native(library, model).save_model(str(path))
    rows = rows_for(model)
    converted = onnxport.convert(path, inputs=rows)
    require_equal(as_estimator(native(library, model)), converted, rows, methods=["predict"])
    assert onnxport.validate(native(library, model), converted, inputs=rows[:40]).passed
    path.write_bytes(b"not a model")
    reason = {"xgboost": "no file of xgboost's", "lightgbm": "which begin with the word tree"}[library]
    with pytest.raises(InvalidModelError, match=reason):
        onnxport.convert(path, inputs=rows)


@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
def test_boosters_of_frames(library):
    pandas = pytest.importorskip("pandas", reason="frames are pandas'")
    module = pytest.importorskip(library, reason="each of scikit-learn's neighbours is an extra")
    x, y = table()
    frame = pandas.DataFrame(x, columns=[f"c{i}" for i in range(6)])
    frame["colour"] = pandas.Categorical(np.array(["red", "blue", "green"])[np.arange(len(y)) % 3])
    if library == "xgboost":
        booster = module.train({"max_depth": 4}, module.DMatrix(frame, y, enable_categorical=True), 8)
    else:
        booster = module.train({"min_data_in_leaf": 5, "verbose": -1}, module.Dataset(frame, y), 8)
    converted = onnxport.convert(booster, inputs=frame)
    require_equal(as_estimator(booster), converted, frame, methods=["predict"])
