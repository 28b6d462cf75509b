"""More common mistakes, of every source: each answer has what is wrong, its value and a way out, in three lines at most."""

import zipfile

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import onnxport
from onnxport.errors import OnnxportError

pytest.importorskip("sklearn", reason="scikit-learn is an extra")
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, StandardScaler

keras = pytest.importorskip("keras", reason="Keras is an extra")
tf = pytest.importorskip("tensorflow", reason="TensorFlow is an extra")
torch = pytest.importorskip("torch", reason="PyTorch is an extra")
pytestmark = [pytest.mark.keras, pytest.mark.tensorflow, pytest.mark.pytorch, pytest.mark.sklearn]
X = np.random.default_rng(0).random((6, 4)).astype(np.float32)
T = torch.from_numpy(X)
TABLE = pd.DataFrame(X, columns=list("abcd"))
linear = torch.nn.Linear(4, 2)
added = tf.function(lambda x: x + 1)


class Scaled(torch.nn.Module):
    def forward(self, x, *, scale=1.0):
        return x * scale


class Own(keras.Model):
    def call(self, x, training=False):
        return x


def layers():
    return torch.nn.ModuleList([linear])


def chosen():
    """A pipeline that goes by the names of columns."""
    columns = ColumnTransformer([("s", StandardScaler(), ["a", "b"])], remainder="passthrough")
    return make_pipeline(columns, LogisticRegression()).fit(TABLE, X[:, 0] > 0.5)


def batches():
    return tf.data.Dataset.from_tensor_slices(X).batch(2)


def loader():
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(T))


WORDS = np.array(["a", "b"])
KNOWN = OneHotEncoder().fit(pd.DataFrame({"town": ["Ulm"]}))
# What is passed to onnxport.convert, and words of the answer.
MISTAKES = {
    "a loader": (lambda: (linear, {"inputs": loader()}), ["inputs= is a DataLoader", "inputs=next(iter(batches))"]),
    "a tf.data set": (
        lambda: (added, {"inputs": batches()}),
        ["inputs= is a BatchDataset", "inputs=next(iter(batches))"],
    ),
    "a list of layers": (lambda: (layers(), {"inputs": (T,)}), ["ModuleList holds modules", "torch.nn.Sequential"]),
    "layers without inputs": (lambda: (layers(), {}), ["ModuleList holds modules and computes nothing"]),
    "a tensor": (lambda: (T, {}), ["a Tensor of [6, 4] is no model", "pass the module itself"]),
    "words for numbers": (
        lambda: (linear, {"inputs": (WORDS,)}),
        ["'input' is an array of texts, [2]", "weights are float32"],
    ),
    "numbers in lists": (lambda: (linear, {"inputs": ([[1.0, 2.0]],)}), ["'input.0.0' is float 1.0", "pass tensors"]),
    "a keyword that is none": (
        lambda: (Scaled(), {"inputs": (T,), "kwargs": {"factor": 2.0}}),
        ["forward(x, *, scale=1.0)", "unexpected keyword argument 'factor'"],
    ),
    "labels in the batch": (
        lambda: (linear, {"inputs": {"input": T, "labels": T}}),
        ["'labels'", "given: 'input', 'labels'"],
    ),
    "a name for all dimensions": (
        lambda: (linear, {"inputs": (T,), "dynamic_shapes": "n"}),
        ["dynamic_shapes='n'", '0: "batch"'],
    ),
    "a size of the weights": (
        lambda: (linear, {"inputs": (T,), "dynamic_shapes": {"input": {1: "n"}}}),
        ["dimension 1 of 'input' to be 4", "leave the dimension out"],
    ),
    "a framework mistyped": (lambda: (linear, {"to": "kreas"}), ["unknown framework 'kreas': did you mean 'keras'?"]),
    "a list for a tuple": (lambda: (added, {"inputs": [X]}), ["A list is one argument", "inputs=(x,)"]),
    "a class of one's own by a wrong name": (lambda: (Own(), {"inputs": {"a": X}}), ["argument: 'x'", "Given are 'a'"]),
    "a sparse matrix for a layer": (
        lambda: (keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)]), {"inputs": scipy.sparse.csr_matrix(X)}),
        ["holds a csr_matrix", "give an array, numpy.zeros((6, 4), 'float32')"],
    ),
    "sparse where dense is needed": (
        lambda: (MinMaxScaler().fit(X), {"inputs": scipy.sparse.csr_matrix(X)}),
        ["dense data is required", "given: float32[6, 4]"],
    ),
    "other columns": (
        lambda: (chosen(), {"inputs": TABLE.set_axis(list("wxyz"), axis=1)}),
        ["columns are missing", "given: w float32[6, 1], x float32[6, 1]", "that the model itself runs on"],
    ),
    "a column less": (
        lambda: (chosen(), {"inputs": TABLE[["a", "b", "d"]]}),
        ["no column 'c'", "they have 'a', 'b', 'd'"],
    ),
    "columns of other lengths": (
        lambda: (chosen(), {"inputs": {"a": [1.0], "b": [1.0, 2.0], "c": [1.0], "d": [1.0]}}),
        ["of the same length", "given: a float64[1, 1], b float64[2, 1]"],
    ),
    "a column alone": (
        lambda: (StandardScaler().fit(X[:, :1]), {"inputs": TABLE["a"]}),
        ["shape [6]", "series.to_frame()"],
    ),
    "a word that is not known": (
        lambda: (KNOWN, {"inputs": pd.DataFrame({"town": ["Kiel"]})}),
        ["unknown categories ['Kiel']"],
    ),
    "a method mistyped": (
        lambda: (LogisticRegression().fit(X, X[:, 0] > 0.5), {"inputs": X, "methods": ["predict_prob"]}),
        ["LogisticRegression has no method 'predict_prob': did you mean 'predict_proba'?"],
    ),
    "a smaller type for an estimator": (
        lambda: (StandardScaler().fit(X), {"inputs": X, "dtype": "float16"}),
        ["dtype= means nothing for an estimator", "convert the ONNX model with it in a second step"],
    ),
    "a history": (lambda: (keras.callbacks.History(), {}), ["History is no Keras model or layer"]),
    "a constant": (lambda: (tf.constant([1.0]), {}), ["nothing to trace", "the function or module that computes"]),
}


@pytest.mark.parametrize("name", MISTAKES)
@pytest.mark.filterwarnings("ignore")
def test_a_mistake_is_named_with_the_way_out(name):
    model, options = MISTAKES[name][0]()
    with pytest.raises(OnnxportError) as caught:
        onnxport.convert(model, **options)
    text = str(caught.value)
    assert [word for word in MISTAKES[name][1] if word not in text] == [], text
    assert len(text.splitlines()) <= 3
    assert "Traceback" not in text


def archive(path):
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("readme.txt", "hello")


# The file, what is written to it, and words of the answer on the command line.
FILES = [
    (
        "page.onnx",
        lambda path: path.write_text("<!DOCTYPE html><p>404"),
        ["'page.onnx' is a page of HTML", "fetch the file"],
    ),
    ("page.keras", lambda path: path.write_text("\n<html>"), ["'page.keras' is a page of HTML"]),
    ("other.pt2", archive, ["'other.pt2' is truncated or no torch.export program: file in archive"]),
    ("other.keras", archive, ["'other.keras' is damaged", "config.json"]),
]


@pytest.mark.parametrize("name, write, words", FILES, ids=[row[0] for row in FILES])
def test_a_file_of_another_thing_is_named(run, tmp_path, name, write, words):
    write(tmp_path / name)
    done = run("convert", name, "--to", "pytorch" if name.endswith(".onnx") else "onnx")
    assert (done.code, done.out) == (2, "")
    assert [word for word in words if word not in done.err] == [], done
    assert done.err.count("\n") == 1


def test_examples_are_asked_for_by_the_options_of_the_command(run, tmp_path):
    (tmp_path / "own_models.py").write_text("import keras\nnet = keras.Sequential([keras.layers.Dense(2, name='d')])\n")
    done = run("convert", "own_models:net", "-o", "net.onnx")
    assert done.code == 2
    assert "give" in done.err
    assert "--input-shape" in done.err
    assert "inputs=(...)" not in done.err
