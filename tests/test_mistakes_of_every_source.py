"""More mistakes over all sources: the error holds the thing, its value, the user's line where there is one, and a way out."""

import numpy as np
import pytest

import onnxport
from onnxport.errors import InvalidInputError, OnnxportError, UnsupportedOperator

X = np.ones((3, 4), np.float32)
LINE = "test_mistakes_of_every_source.py:"


def torch_net(kind=""):
    import torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.dense, self.seen = torch.nn.Linear(4, 2), []

        def forward(self, x):
            if kind == "attribute":
                return self.missing(x)
            if kind == "endless":
                return self.forward(x)
            if kind == "file":
                return torch.load("nowhere.pt")
            if kind == "assert":
                assert x.sum() > 100, "too small"
            if kind == "list":
                self.seen.append(x)
            return self.dense(x)

    return Net().eval()


OPTIONS = [
    ({"input_names": ["a", "b"]}, ["input_names", "2 are given", "the model has 1 (x)"]),
    ({"input_names": "x"}, ["input_names='x'", "['x']"]),
    ({"output_names": ["a", "a"]}, ["output_names", "'a' is given twice"]),
    ({"target_opset": 12}, ["target_opset=12", "13 to 28"]),
    ({"target_opset": "17"}, ["target_opset='17'", "13 to 28"]),
    ({"to": "tflite"}, ["'tflite'", "one of", "keras"]),
    ({"dynamic_shapes": {"y": {0: "b"}}}, ["no input 'y'", "the inputs are x"]),
    ({"dynamic_shapes": {"x": {7: "b"}}}, ["'x' has no dimension 7", "2 dimensions"]),
    ({"dynamic_shapes": {"x": "batch"}}, ["'x' is given 'batch'", '{"x": {0: "batch"}}']),
    ({"dynamic_shapes": {"x": [0]}}, ["the list [0] names 1", '{"x": {0: "batch"}}']),
    ({"rtol": -1.0}, ["-1.0", "0 or more"]),
    ({"output": "nodir/x.onnx"}, ["no folder 'nodir'"]),
    ({"output": "x.pb"}, ["'x.pb'", "written as .onnx"]),
    ({"optimize": True}, ["optimize=True", "'inference'"]),
    ({"runtime": "tensorrt"}, ["runtime='tensorrt'", "'reference'"]),
    ({"strategy": "script"}, ["strategy='script'", "'trace'"]),
    ({"dtype": "fp16"}, ["dtype='fp16'", "'float16'"]),
    ({"signature": "serving_default"}, ["signature=", "only SavedModels"]),
    ({"methods": ["predict"]}, ["methods=", "only estimators"]),
    ({"runtimes": ["tensorrt"]}, ["no engine 'tensorrt'"]),
    ({"inputs_as_nchw": ["image"]}, ["image"]),
]


@pytest.mark.pytorch
@pytest.mark.parametrize("options, words", OPTIONS)
def test_an_option_is_answered_with_its_value(options, words, tmp_path, monkeypatch):
    torch = pytest.importorskip("torch", reason="PyTorch is an extra")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OnnxportError) as caught:
        onnxport.convert(torch_net(), **{"inputs": (torch.ones(3, 4),), **options})
    assert [word for word in words if word not in str(caught.value)] == []


@pytest.mark.pytorch
@pytest.mark.parametrize(
    "kind, words",
    [
        ("attribute", ["self.missing(x)", "no attribute 'missing'", "see that model(*inputs) runs"]),
        ("endless", ["self.forward(x)", "recursion", "see that model(*inputs) runs"]),
        ("file", ['torch.load("nowhere.pt")', "'nowhere.pt'", "see that model(*inputs) runs"]),
        ("assert", ['assert x.sum() > 100, "too small"', "too small"]),
    ],
)
def test_a_module_that_does_not_run_is_named_with_its_line(kind, words):
    torch = pytest.importorskip("torch", reason="PyTorch is an extra")
    with pytest.raises(InvalidInputError) as caught:
        onnxport.convert(torch_net(kind), inputs=(torch.ones(3, 4),))
    assert [word for word in [LINE, *words] if word not in str(caught.value)] == []


@pytest.mark.pytorch
def test_a_list_that_grows_is_a_note():
    torch = pytest.importorskip("torch", reason="PyTorch is an extra")
    model = onnxport.convert(torch_net("list"), inputs=(torch.ones(3, 4),))
    assert any("self.seen" in note for note in model.notes), model.notes


@pytest.mark.parametrize(
    "name, data, words",
    [
        ("bad.onnx", b"hello", ["'bad.onnx'", "no ONNX model"]),
        ("empty.onnx", b"", ["'empty.onnx'", "is empty"]),
        ("notes.txt", b"x", ["'notes.txt'", "LightGBM", "the word tree"]),
        ("bad.keras", b"PK nothing", ["'bad.keras'", "no zip archive"]),
        ("bad.pt2", b"zzz", ["'bad.pt2'", "no torch.export program"]),
    ],
)
def test_a_file_of_another_kind_is_named(name, data, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_bytes(data)
    with pytest.raises(OnnxportError) as caught:
        onnxport.convert(name)
    assert [word for word in words if word not in str(caught.value)] == []


@pytest.mark.tensorflow
def test_mistakes_of_tensorflow():
    tf = pytest.importorskip("tensorflow", reason="TensorFlow is an extra")
    spec = tf.TensorSpec((None, 4), name="x")
    rows = [
        (tf.function(lambda x: x), {}, ["without example inputs", "inputs=(...)"]),
        (
            tf.function(lambda x: x, input_signature=[spec]),
            {"inputs": (X[:, :3],)},
            ["'x' is float32[3, 3]", "float32[None, 4]"],
        ),
        (tf.function(lambda x: tf.py_function(lambda v: v, [x], tf.float32)), {"inputs": (X,)}, ["EagerPyFunc", LINE]),
    ]
    for model, options, words in rows:
        with pytest.raises((InvalidInputError, UnsupportedOperator)) as caught:
            onnxport.convert(model, **options)
        assert [word for word in words if word not in str(caught.value)] == []


@pytest.mark.sklearn
def test_mistakes_of_scikit_learn():
    pytest.importorskip("sklearn", reason="scikit-learn is an extra")
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    fitted = LogisticRegression().fit(np.random.default_rng(0).normal(size=(20, 4)), [0, 1] * 10)
    rows = [
        (LogisticRegression(), {"inputs": X}, ["LogisticRegression", "not fitted", "'fit'"]),
        (make_pipeline(LogisticRegression()), {"inputs": X}, ["Pipeline", "not fitted"]),
        (LogisticRegression, {"inputs": X}, ["LogisticRegression is a class", "LogisticRegression(...)"]),
        (fitted, {"inputs": X[:, :3]}, ["fitted on 4 columns", "have 3"]),
        (fitted, {"inputs": X[0]}, ["rows and columns", "the shape [4]"]),
        (fitted, {"inputs": X, "methods": ["transform"]}, ["no method 'transform'"]),
        (fitted, {"inputs": X, "options": {"zip_map": False}}, ["zip_map=False", "zipmap"]),
        (fitted, {"inputs": X * np.nan}, ["Input X contains NaN"]),
    ]
    for model, options, words in rows:
        with pytest.raises(OnnxportError) as caught:
            onnxport.convert(model, **options)
        assert [word for word in words if word not in str(caught.value)] == []
