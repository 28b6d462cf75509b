"""Mistakes with files that hold nothing, tables of the wrong form, arrays of the wrong shape: the value and one way out."""

import numpy as np
import pytest

import onnxport
from onnxport.errors import OnnxportError

X = np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32)
LINE = "test_mistakes_with_data.py:"
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 3\n"


def refused(model, options, words):
    with pytest.raises(OnnxportError) as caught:
        onnxport.convert(model, **options)
    assert [word for word in words if word not in str(caught.value)] == [], str(caught.value)
    assert len(str(caught.value).splitlines()) <= 3


@pytest.mark.pytorch
@pytest.mark.tensorflow
@pytest.mark.keras
@pytest.mark.sklearn
@pytest.mark.parametrize("suffix", [".onnx", ".pt2", ".keras", ".h5", ".pb", ".tflite", ".skops", ".joblib"])
@pytest.mark.parametrize(
    "data, words", [(b"", ["is empty: it holds 0 bytes"]), (POINTER, ["is a pointer of Git LFS", "git lfs pull"])]
)
def test_a_file_that_is_not_there_yet_is_named(suffix, data, words, tmp_path):
    for package in ("torch", "tensorflow", "keras", "sklearn"):
        pytest.importorskip(package, reason="an extra")
    place = tmp_path / f"net{suffix}"
    place.write_bytes(data)
    options = {"inputs": X, "allow_pickle": True} if suffix in (".skops", ".joblib") else {}
    refused(place, options, [f"net{suffix}'", *words])


@pytest.mark.pytorch
def test_what_is_no_file_is_named():
    pytest.importorskip("torch", reason="PyTorch is an extra")
    graph = onnxport.convert(__import__("torch").nn.ReLU(), inputs=(X,)).proto
    refused("~/net.onnx", {}, ["'~/net.onnx'", "os.path.expanduser"])
    refused(graph.SerializeToString(), {}, ["bytes are no model", "onnx.load_model_from_string(data)"])
    refused(graph.graph, {"to": "pytorch"}, ["GraphProto is no ONNX model", "onnx.helper.make_model(graph)"])


@pytest.mark.sklearn
def test_tables_and_classes_that_are_none():
    pytest.importorskip("sklearn", reason="scikit-learn is an extra")
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    class Own:
        def fit(self, X, y=None):
            return self

        def predict(self, X):
            return X[:, 0]

        def get_params(self, deep=True):
            return {}

    fitted = LogisticRegression().fit(X, X[:, 0] > 0)
    refused(fitted, {"inputs": X[0]}, ["the shape [4]", "one row is X.reshape(1, -1)"])
    refused(fitted, {"inputs": X[None]}, ["the shape [1, 30, 4]"])
    refused(Own(), {"inputs": X}, ["Own is no estimator", "sklearn.base.BaseEstimator", "register_to_onnx('sklearn'"])
    refused(make_pipeline(StandardScaler(), Own()).fit(X), {"inputs": X}, ["a step of it is none", "BaseEstimator"])


@pytest.mark.keras
def test_shapes_that_a_model_of_keras_does_not_take():
    """But for a last axis of 1, which Keras adds or drops."""
    keras = pytest.importorskip("keras", reason="Keras is an extra")
    model = keras.Sequential([keras.Input((8, 8, 3), name="image"), keras.layers.Flatten(), keras.layers.Dense(2)])
    image = np.ones((2, 8, 8, 3), np.float32)
    takes = "the model takes float32[any, 8, 8, 3]"
    refused(model, {"inputs": (image[0],)}, ["'image' is float32[8, 8, 3]", takes, "x[None] is a batch"])
    refused(model, {"inputs": (image.transpose(0, 3, 1, 2),)}, ["'image' is float32[2, 3, 8, 8]", takes])
    column = keras.Sequential([keras.Input((1,), name="age"), keras.layers.Dense(2)])
    for shape in ((5,), (5, 1), (5, 1, 1)):
        assert onnxport.convert(column, inputs=(np.ones(shape, np.float32),)).report.passed
    refused(column, {"inputs": (np.ones((5, 2), np.float32),)}, ["'age' is float32[5, 2]", "float32[any, 1]"])


@pytest.mark.tensorflow
def test_numpy_in_a_function_of_tensorflow_is_named_with_the_user_s_line():
    """Not with the line of NumPy that fails."""
    tf = pytest.importorskip("tensorflow", reason="TensorFlow is an extra")

    @tf.function
    def spectrum(x):
        return np.fft.fft(x).real

    refused(spectrum, {"inputs": (X,)}, [LINE, "np.fft.fft(x).real", "NumPy has no part in a graph"])


def test_a_function_is_named_without_its_address():
    def compute(x):
        return x

    refused(compute, {"inputs": ("text",)}, ["compute is a plain callable", "pass inputs=(...) as"])
