"""Files of estimators: skops of scikit-learn and its neighbours, and nothing that could run code."""

import numpy as np
import pytest

pytest.importorskip("sklearn")
skops = pytest.importorskip("skops.io")
pytestmark = pytest.mark.sklearn

import scipy.sparse  # noqa: E402
import scipy.stats  # noqa: E402
from sklearn.ensemble import RandomForestClassifier  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import FunctionTransformer, StandardScaler  # noqa: E402

import onnxport  # noqa: E402
from onnxport.errors import InvalidModelError, UntrustedFileError  # noqa: E402

X = np.random.default_rng(0).normal(size=(80, 3))
Y = (X[:, 0] > 0).astype(int)


@pytest.mark.parametrize(
    ("package", "name", "options"),
    [
        ("xgboost", "XGBClassifier", {"n_estimators": 3}),
        ("lightgbm", "LGBMClassifier", {"n_estimators": 3, "verbose": -1}),
        ("catboost", "CatBoostClassifier", {"iterations": 3, "verbose": 0, "allow_writing_files": False}),
        ("imblearn.ensemble", "BalancedRandomForestClassifier", {"n_estimators": 3}),
    ],
)
def test_neighbours_of_scikit_learn_load(package, name, options, tmp_path):
    kind = getattr(pytest.importorskip(package), name)
    model = make_pipeline(StandardScaler(), kind(**options)).fit(X, Y)
    skops.dump(model, tmp_path / "model.skops")
    converted = onnxport.convert(tmp_path / "model.skops", inputs=X)
    assert converted(X)[0].tolist() == model.predict(X).tolist()


@pytest.mark.parametrize("function", [eval, exec, open, __import__])
def test_functions_of_python_are_not_loaded(function, tmp_path):
    skops.dump(FunctionTransformer(function), tmp_path / "model.skops")
    with pytest.raises(UntrustedFileError, match=function.__name__):
        onnxport.convert(tmp_path / "model.skops", inputs=X)


@pytest.mark.parametrize(
    "function",
    [
        scipy.sparse.save_npz,
        scipy.stats.expon(),
        np.load,
        np.save,
        np.savetxt,
        np.memmap,
        np.testing.measure,
        np.vectorize(np.fromfile),
        np.f2py.run_main,
    ],
)
def test_functions_that_do_more_than_compute_are_not_loaded(function, tmp_path):
    # one step can hand the next a text of the file's own: np.testing.measure would run it
    skops.dump(make_pipeline(FunctionTransformer(np.clip), FunctionTransformer(function)), tmp_path / "model.skops")
    with pytest.raises(UntrustedFileError, match="more than compute"):
        onnxport.convert(tmp_path / "model.skops", inputs=X)


@pytest.mark.parametrize("fault", ["children_right", "children_left", "feature"])
def test_trees_that_lead_out_of_themselves_are_refused(fault, tmp_path):
    model = RandomForestClassifier(3, max_depth=3, random_state=0).fit(X, Y)
    skops.dump(model, tmp_path / "model.skops")
    assert onnxport.convert(tmp_path / "model.skops", inputs=X).report.passed
    getattr(model.estimators_[1].tree_, fault)[0] = 1 << 30 if fault != "children_left" else 0
    skops.dump(make_pipeline(StandardScaler().fit(X), model), tmp_path / "model.skops")
    with pytest.raises(InvalidModelError, match="damaged or hostile"):
        onnxport.convert(tmp_path / "model.skops", inputs=X)
