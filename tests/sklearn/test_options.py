"""Options of an estimator's conversion: its outputs in other forms, and those of its steps; validated all the same."""

import numpy as np
import onnx
import pytest

pytest.importorskip("sklearn")
pytestmark = pytest.mark.sklearn

from sklearn.compose import ColumnTransformer  # noqa: E402
from sklearn.datasets import load_iris  # noqa: E402
from sklearn.decomposition import PCA, KernelPCA  # noqa: E402
from sklearn.ensemble import RandomForestClassifier  # noqa: E402
from sklearn.gaussian_process import GaussianProcessClassifier  # noqa: E402
from sklearn.linear_model import LogisticRegression, Ridge  # noqa: E402
from sklearn.pipeline import Pipeline  # noqa: E402
from sklearn.preprocessing import MinMaxScaler, StandardScaler  # noqa: E402

import onnxport  # noqa: E402
from onnxport.errors import InvalidInputError, UnsupportedOperator  # noqa: E402

X, Y = load_iris(return_X_y=True)
NAMES = load_iris().target_names


def pipeline(labels=Y):
    columns = ColumnTransformer([("num", StandardScaler(), [0, 1]), ("rest", MinMaxScaler(), [2, 3])])
    return Pipeline([("prep", columns), ("pca", PCA(3)), ("model", LogisticRegression(max_iter=300))]).fit(X, labels)


@pytest.fixture(scope="module")
def model():
    return pipeline()


@pytest.fixture(scope="module")
def named():
    return pipeline(NAMES[Y])


def converted(model, options, **more):
    found = onnxport.convert(model, inputs=X, options=options, **more)
    assert found.report.passed
    onnx.checker.check_model(found.proto, full_check=True)
    return found


def test_labels_in_every_form(model, named):
    assert converted(named, {"labels": "ints"})(X)[0].tolist() == model.predict(X).tolist()
    assert converted(named, {"labels": "strings"})(X)[0].tolist() == named.predict(X).tolist()
    assert converted(model, {"labels": "strings"})(X)[0].tolist() == [str(item) for item in model.predict(X)]


def test_no_label_and_raw_scores(model):
    found = converted(model, {"label": False, "raw_scores": True})
    assert found.output_names == ["scores"]
    np.testing.assert_allclose(found(X), model.decision_function(X), rtol=1e-9)


def test_options_by_the_class_of_a_step(model):
    options = {LogisticRegression: {"label": False}, StandardScaler: {"output": True}, "PCA": {"output": True}}
    assert converted(model, options).output_names == ["probabilities", "prep.num", "pca"]


def test_versions_of_both_domains(model):
    forest = RandomForestClassifier(3, random_state=0).fit(X, Y)
    found = onnxport.convert(forest, inputs=X.astype(np.float32), target_opset={"": 21, "ai.onnx.ml": 3})
    assert found.report.passed
    assert {item.domain: item.version for item in found.proto.opset_import} == {"": 21, "ai.onnx.ml": 3}
    with pytest.raises(InvalidInputError, match="'ai.onnx.ml' at 2: the model has it at 3"):
        onnxport.convert(found, target_opset={"ai.onnx.ml": 2})


def test_the_last_steps_options_are_the_models(model):
    assert converted(model, {"model": {"label": False}}).output_names == ["probabilities"]
    assert converted(model, {"Pipeline": {"label": False}}).output_names == ["probabilities"]


@pytest.mark.parametrize("names", [False, True])
def test_zipmap(model, named, names, tmp_path):
    estimator = named if names else model
    found = converted(estimator, {"zipmap": True})
    path = tmp_path / "model.onnx"
    found.save(path)
    label, maps = onnxport.model.OnnxModel.load(path)(X)
    expected = estimator.predict_proba(X)
    assert label.tolist() == estimator.predict(X).tolist()
    assert list(maps[0]) == estimator.classes_.tolist()
    np.testing.assert_allclose([list(row.values()) for row in maps], expected, rtol=1e-6)


def test_a_column_for_each_class(named):
    found = converted(named, {"zipmap": "columns"})
    assert found.output_names == ["label", *(f"probabilities_{name}" for name in NAMES)]
    np.testing.assert_allclose(np.stack(found(X)[1:], axis=1), named.predict_proba(X), rtol=1e-9)


def test_outputs_of_steps(model):
    found = converted(model, {"pca": {"output": True}, "prep__num": {"output": "scaled"}})
    assert found.output_names == ["label", "probabilities", "pca", "scaled"]
    _, _, reduced, scaled = found(X)
    np.testing.assert_allclose(reduced, model[:-1].transform(X), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(scaled, model["prep"].named_transformers_["num"].transform(X[:, :2]), rtol=1e-9)


def test_output_names_are_the_users(model):
    found = converted(model, {"pca": {"output": True}}, output_names=["y", "p", "z"])
    assert found.output_names == ["y", "p", "z"]
    assert onnxport.validate(model, found, inputs=X).passed


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ({"output_names": ["y", "y"]}, "output_names: 'y' is given twice"),
        ({"output_names": ["X", "p"]}, "'X' is the name of an input"),
        ({"input_names": ["y"], "output_names": ["y", "p"]}, "both hold 'y'"),
    ],
)
def test_names_that_can_not_all_be_given_are_refused(model, names, said):
    with pytest.raises(InvalidInputError, match=said):
        onnxport.convert(model, inputs=X, **names)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"zipmaps": True}, "zipmaps"),
        ({"zipmap": "rows"}, "'rows'"),
        ({"scaler": {"output": True}}, "'scaler'"),
        ({"pca": {"raw_scores": True}}, "raw_scores"),
        ({3: {"zipmap": True}}, "3 is no name.*'zipmap': True.*StandardScaler: "),
        ({Ridge: {"zipmap": True}}, "no step of Pipeline is a Ridge"),
        ({"Ridge": {"zipmap": True}}, "no step 'Ridge'; Pipeline has prep, pca, model"),
    ],
)
def test_an_option_that_is_none_is_refused_by_its_name(model, options, said):
    with pytest.raises(InvalidInputError, match=said):
        onnxport.convert(model, inputs=X, options=options)


@pytest.mark.parametrize("steps", [[], [("scale", StandardScaler())]])
def test_pairs_of_classes_that_vote_give_a_label_alone(steps):
    model = GaussianProcessClassifier(optimizer=None, multi_class="one_vs_one")
    model = Pipeline([*steps, ("model", model)]).fit(X[::3], Y[::3])
    model = model if steps else model[-1]
    found = converted(model, None)
    assert found.output_names == ["label"]
    assert found(X).tolist() == model.predict(X).tolist()
    with pytest.raises(UnsupportedOperator, match="one_vs_one.*methods="):
        converted(model, None, methods=["predict_proba"])


def test_a_way_back_that_was_not_fitted_is_refused_by_the_arguments_name():
    model = KernelPCA(2, kernel="rbf").fit(X)
    with pytest.raises(UnsupportedOperator, match="fit_inverse_transform=False"):
        onnxport.convert(model, inputs=X[:5, :2], methods=["inverse_transform"])


def test_options_for_what_has_no_classes_are_refused():
    with pytest.raises(InvalidInputError, match="zipmap"):
        onnxport.convert(Ridge().fit(X, Y), inputs=X, options={"zipmap": True})
    two = LogisticRegression().fit(X, Y > 0)
    with pytest.raises(UnsupportedOperator, match="one score a row"):
        onnxport.convert(two, inputs=X, options={"zipmap": True, "raw_scores": True})
