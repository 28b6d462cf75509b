"""Which framework an object or file belongs to."""

from dataclasses import replace

import numpy as np
import pytest

from onnxport import frameworks
from onnxport.errors import InvalidModelError


@pytest.mark.parametrize(
    ("name", "expected"), [("torch", "pytorch"), ("tf", "tensorflow"), ("scikit-learn", "sklearn")]
)
def test_aliases(name, expected):
    assert frameworks.get(name).name == expected


def test_unknown_framework_names_the_known_ones():
    with pytest.raises(ValueError, match=r"'caffe'.*pytorch"):
        frameworks.get("caffe")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.onnx", "onnx"),
        ("a.pt2", "pytorch"),
        ("a.keras", "keras"),
        ("a.H5", "keras"),
        ("a.pb", "tensorflow"),
        ("a.skops", "sklearn"),
    ],
)
def test_files_by_suffix(tmp_path, name, expected):
    (tmp_path / name).write_bytes(b"")
    assert frameworks.of_path(tmp_path / name) == expected


def test_files_that_say_nothing(tmp_path):
    (tmp_path / "model.dat").write_bytes(b"")
    (tmp_path / "model.pt").write_bytes(b"")
    (tmp_path / "folder").mkdir()
    for place, words in [
        ("model.dat", "suffix"),
        ("model.pt", "--weights model.pt"),
        ("folder", "no SavedModel"),
        ("absent.onnx", "no file"),
    ]:
        with pytest.raises(InvalidModelError, match=words):
            frameworks.of_path(tmp_path / place)
    (tmp_path / "folder" / "saved_model.pb").write_bytes(b"")
    assert frameworks.of_path(tmp_path / "folder") == "tensorflow"


def test_our_own_model():
    import onnx_ir as ir

    from onnxport.model import OnnxModel

    graph = ir.Graph([], [], nodes=[], opset_imports={"": 21}, name="empty")
    assert frameworks.of_object(OnnxModel(ir.Model(graph, ir_version=10))) == "onnx"


def test_objects_that_are_no_model():
    with pytest.raises(InvalidModelError, match="no model of a framework"):
        frameworks.of_object(3)


@pytest.mark.pytorch
def test_pytorch_objects():
    torch = pytest.importorskip("torch", reason="PyTorch is an extra")

    class Mine(torch.nn.Linear):
        pass

    assert frameworks.of_object(Mine(2, 2)) == "pytorch"
    assert frameworks.of_object(lambda x: x, [torch.ones(2)]) == "pytorch"


@pytest.mark.keras
def test_keras_before_tensorflow():
    keras = pytest.importorskip("keras")
    import tensorflow as tf

    assert frameworks.of_object(keras.Sequential([keras.layers.Dense(1)])) == "keras"
    assert frameworks.of_object(tf.Module()) == "tensorflow"
    assert frameworks.of_object(tf.function(lambda x: x)) == "tensorflow"
    assert frameworks.of_object(lambda x: x, [np.ones(2), tf.ones(2)]) == "tensorflow"


@pytest.mark.sklearn
def test_sklearn_and_what_only_looks_like_it():
    linear = pytest.importorskip("sklearn.linear_model")

    class Duck:
        def fit(self):
            pass

        def get_params(self):
            pass

    assert frameworks.of_object(linear.Ridge()) == "sklearn"
    assert frameworks.of_object(Duck()) == "sklearn"


def test_a_framework_is_started_once():
    starts = []
    framework = replace(frameworks.get("sklearn"), start=lambda: starts.append(1))
    for _ in range(3):
        frameworks.require(framework)
    assert starts == [1]
