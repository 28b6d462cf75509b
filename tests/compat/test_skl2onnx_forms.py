"""What skl2onnx gives beside the label, and types and rows as its documentation has them: against the estimator itself."""

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest

from onnxport.compat.skl2onnx import convert_sklearn, supported_converters, to_onnx
from onnxport.compat.skl2onnx.common.data_types import (
    DictionaryType,
    DoubleTensorType,
    FloatTensorType,
    FloatType,
    Int64TensorType,
    Int64Type,
    SequenceType,
    StringTensorType,
    guess_tensor_type,
)
from onnxport.compat.skl2onnx.common.shape_calculator import calculate_linear_classifier_output_shapes

pytest.importorskip("sklearn", reason="scikit-learn is an extra")
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_iris
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Perceptron, RidgeClassifier, SGDClassifier
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.svm import SVC, LinearSVC

pytestmark = pytest.mark.sklearn
X, Y = load_iris(return_X_y=True)
X = X.astype(np.float32)
TWO = np.where(Y > 0, "yes", "no")


def results(proto, feeds):
    """The outputs by name; maps as a matrix, their keys beside it."""
    onnx.checker.check_model(proto, full_check=True)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    return dict(zip([item.name for item in session.get_outputs()], session.run(None, feeds), strict=True))


@pytest.mark.parametrize(
    "model", [SVC(), SGDClassifier(random_state=0), Perceptron(), make_pipeline(StandardScaler(), SVC())]
)
@pytest.mark.parametrize("labels", [Y, TWO], ids=["three", "two"])
def test_without_probabilities_the_scores_stand_for_them(model, labels):
    """By class as scikit-learn's decision function has them, of two classes the first by its negative."""
    model.fit(X, labels)
    scores = model.decision_function(X)
    scores = scores if scores.ndim == 2 else np.stack([-scores, scores], 1)
    maps = results(to_onnx(model, X[:1]), {"X": X})
    assert list(maps) == ["output_label", "output_probability"]
    assert maps["output_label"].tolist() == model.predict(X).tolist()
    assert list(maps["output_probability"][0]) == model.classes_.tolist()
    np.testing.assert_allclose([list(row.values()) for row in maps["output_probability"]], scores, rtol=1e-4, atol=1e-4)
    matrix = results(to_onnx(model, X[:1], options={id(model): {"zipmap": False}}), {"X": X})
    assert list(matrix) == ["label", "probabilities"]
    np.testing.assert_allclose(matrix["probabilities"], scores, rtol=1e-4, atol=1e-4)
    columns = results(to_onnx(model, X[:1], options={id(model): {"zipmap": "columns"}}), {"X": X})
    kind = "i" if labels is Y else "s"
    assert list(columns) == ["output_label", *(f"{kind}{item}" for item in model.classes_)]
    np.testing.assert_allclose(np.stack(list(columns.values())[1:], 1), scores, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("model", [LinearSVC(random_state=0), RidgeClassifier()])
def test_linear_scores_are_a_matrix(model):
    model.fit(X, TWO)
    one = results(to_onnx(model, X[:1]), {"X": X})
    assert list(one) == ["label", "probabilities"]
    np.testing.assert_allclose(one["probabilities"], model.decision_function(X)[:, None], rtol=1e-4, atol=1e-4)
    both = results(to_onnx(model, X[:1], options={"raw_scores": True}), {"X": X})
    np.testing.assert_allclose(both["probabilities"][:, 0], -model.decision_function(X), rtol=1e-4, atol=1e-4)


def test_raw_scores_stand_for_probabilities_by_class():
    model = LogisticRegression(max_iter=300).fit(X, TWO)
    options = {id(model): {"raw_scores": True, "zipmap": False}}
    raw = results(convert_sklearn(model, initial_types=[("X", FloatTensorType([None, 4]))], options=options), {"X": X})
    np.testing.assert_allclose(raw["probabilities"][:, 1], model.decision_function(X), rtol=1e-4, atol=1e-4)
    assert list(results(to_onnx(model, X[:1], options={"zipmap": "columns"}), {"X": X})) == [
        "output_label",
        "sno",
        "syes",
    ]


def test_rows_are_drawn_of_what_encoders_know():
    """By default an encoder refuses a word that it has not seen."""
    table = pd.DataFrame(
        {"town": ["Ulm", "Bonn", "Ulm", "Kiel"] * 5, "level": [3, 7, 9, 3] * 5, "age": np.float32([1, 2, 3, 4] * 5)}
    )
    words = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder())
    columns = ColumnTransformer(
        [("w", words, ["town"]), ("o", OrdinalEncoder(), [1]), ("n", StandardScaler(), ["age"])]
    )
    model = make_pipeline(columns, LogisticRegression()).fit(table, [0, 1, 1, 0] * 5)
    types = [
        ("town", StringTensorType([None, 1])),
        ("level", Int64TensorType([None, 1])),
        ("age", FloatTensorType([None, 1])),
    ]
    proto = convert_sklearn(model, initial_types=types, options={id(model): {"zipmap": False}})
    feeds = {name: table[[name]].to_numpy(object if name == "town" else None) for name in table}
    np.testing.assert_allclose(results(proto, feeds)["probabilities"], model.predict_proba(table), rtol=1e-4, atol=1e-5)


def test_a_matrix_of_words_is_drawn_of_them_too():
    words = np.array([["red", "S"], ["blue", "M"], ["red", "L"]] * 4, object)
    model = make_union(OrdinalEncoder(), OneHotEncoder()).fit(words)
    proto = to_onnx(model, initial_types=[("words", StringTensorType([None, 2]))])
    (found,) = results(proto, {"words": words}).values()
    np.testing.assert_allclose(found, model.transform(words).toarray())


@pytest.mark.parametrize(
    ("shape", "written"), [([1, 4], 1), (["rows", 4], "rows"), ([None, None], None), ([None, 4], None)]
)
def test_the_number_of_rows_is_the_types(shape, written):
    model = StandardScaler().fit(X)
    proto = convert_sklearn(model, "scaler", [("input", FloatTensorType(shape))])
    rows, columns = proto.graph.input[0].type.tensor_type.shape.dim
    assert columns.dim_value == 4
    assert written is None or (rows.dim_value or rows.dim_param) == written
    x = X[:1]
    np.testing.assert_allclose(*results(proto, {"input": x}).values(), model.transform(x), rtol=1e-5, atol=1e-6)


def test_what_makes_up_for_another_converter_changes_nothing():
    """Texts are split, and numbers scaled, as scikit-learn does it."""
    texts = ["a good film", "one bad-tempered film!", "fine plot"] * 3
    model = TfidfVectorizer(ngram_range=(1, 2)).fit(texts)
    options = {TfidfVectorizer: {"separators": [" ", "!"], "tokenexp": None}}
    proto = convert_sklearn(model, initial_types=[("input", StringTensorType([None]))], options=options)
    (found,) = results(proto, {"input": np.array(texts, object)}).values()
    np.testing.assert_allclose(found, model.transform(texts).toarray(), rtol=1e-5, atol=1e-6)
    scaler = StandardScaler().fit(X)
    versions = {"": 17, "com.microsoft": 1}
    scaled = to_onnx(scaler, X[:1], options={StandardScaler: {"div": "div_cast"}}, target_opset=versions)
    np.testing.assert_allclose(*results(scaled, {"X": X}).values(), scaler.transform(X), rtol=1e-4, atol=1e-5)


def test_types_and_names_that_programs_import():
    assert {"SklearnLogisticRegression", "SklearnKMeans"} <= set(supported_converters())
    assert "LogisticRegression" in supported_converters(from_sklearn=True)
    assert isinstance(guess_tensor_type(X), FloatTensorType)
    assert isinstance(guess_tensor_type(DoubleTensorType([None, 2])), DoubleTensorType)
    assert SequenceType(DictionaryType(Int64Type(), FloatType())).element_type.value_type.numpy is np.float32
    with pytest.raises(ValueError, match="shapes follow from the graph"):
        calculate_linear_classifier_output_shapes(FunctionTransformer())
