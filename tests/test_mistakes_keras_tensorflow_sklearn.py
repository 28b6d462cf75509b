"""Common mistakes with models of Keras, TensorFlow and scikit-learn: the error holds the thing, its value and the way out."""

import numpy as np
import pytest

import onnxport
from onnxport.errors import InvalidInputError, InvalidModelError, OnnxportError, TracingError

X = np.ones((3, 4), np.float32)
WIDE = np.ones((3, 5), np.float32)


def check(model, kwargs, words, errors):
    with pytest.raises(errors) as caught:
        onnxport.convert(model, **kwargs)
    assert [word for word in words if word not in str(caught.value)] == []
    assert len(str(caught.value).splitlines()) <= 3


def layer_of(keras, body):
    """A model of one layer of the user's."""

    class Own(keras.layers.Layer):
        def call(self, x):
            return body(x)

    class Whole(keras.Model):
        def __init__(self):
            super().__init__()
            self.own = Own()

        def call(self, x):
            return self.own(x)

    return Whole()


@pytest.fixture(scope="module")
def keras_models():
    keras = pytest.importorskip("keras", reason="Keras is an extra")
    first, second = keras.Input((4,), name="first"), keras.Input((4,), name="second")
    return {
        "dense": keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)]),
        "two": keras.Model([first, second], keras.layers.Add()([first, second])),
        "numpy": layer_of(keras, lambda x: keras.ops.convert_to_numpy(x) * 2),
        "unbuilt": keras.Sequential([keras.layers.Dense(2)], name="head"),
        "class": keras.Sequential,
        "symbolic": first,
    }


@pytest.mark.keras
@pytest.mark.parametrize(
    ("name", "kwargs", "words"),
    [
        ("dense", {"inputs": (WIDE,)}, ["is float32[3, 5]", "the model takes float32[any, 4]"]),
        ("two", {"inputs": (X,)}, ["takes 2 inputs (first, second), 1 were given"]),
        ("two", {"inputs": {"first": X, "third": X}}, ["takes inputs first, second", "given were first, third"]),
        ("unbuilt", {}, ["'head' does not know its inputs", "pass inputs=(...)"]),
        ("class", {"inputs": (X,)}, ["Sequential is a class", "Sequential(...)"]),
        (
            "numpy",
            {"inputs": (X,)},
            ["sklearn.py:", "convert_to_numpy(x) * 2", "to a numpy array", "no part in a graph"],
        ),
        ("dense", {"input_signature": None}, ["input_signature", "tf2onnx.convert", "inputs=(x,)", "dynamic_shapes="]),
        ("dense", {"opset": 13}, ["'opset'", "target_opset="]),
    ],
)
def test_a_mistake_with_keras_is_named_with_the_way_out(keras_models, name, kwargs, words):
    check(keras_models[name], kwargs, words, (InvalidInputError, InvalidModelError, TracingError, TypeError))


@pytest.mark.keras
def test_an_input_of_keras_that_is_no_array_is_named(keras_models):
    check(keras_models["dense"], {"inputs": (keras_models["symbolic"],)}, ["KerasTensor", "array"], InvalidInputError)


@pytest.mark.keras
@pytest.mark.parametrize("dtype", [np.float64, np.int32])
def test_a_functional_model_brings_its_inputs_to_their_type(keras_models, dtype):
    """Keras does so itself: Functional.call converts each input to the type of its `keras.Input`."""
    assert onnxport.convert(keras_models["dense"], inputs=(X.astype(dtype),)).report.passed


@pytest.mark.keras
def test_a_file_of_weights_alone_is_named(keras_models, tmp_path):
    keras_models["dense"].save_weights(tmp_path / "a.weights.h5")
    check(tmp_path / "a.weights.h5", {}, ["holds no Keras model", "load_weights"], InvalidModelError)


@pytest.fixture(scope="module")
def tensorflow_models(tmp_path_factory):
    tf = pytest.importorskip("tensorflow", reason="TensorFlow is an extra")

    class Served(tf.Module):
        def __init__(self):
            super().__init__()
            self.w = tf.Variable(tf.ones((4, 2)))

        @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="x")])
        def serve(self, x):
            return x @ self.w

    class Empty(tf.Module):
        pass

    def free(x):
        return tf.matmul(x, tf.ones((4, 2)))

    folder = tmp_path_factory.mktemp("saved") / "model"
    tf.saved_model.save(Served(), str(folder))
    return {
        "function": tf.function(free),
        "signature": tf.function(free, input_signature=[tf.TensorSpec([None, 4], tf.float32)]),
        "numpy": tf.function(lambda x: x.numpy()),
        "variable": tf.function(lambda x: tf.Variable(1.0) * x),
        "sizes": tf.function(lambda x: tf.matmul(x, tf.ones((3, 3)))),
        "empty": Empty(),
        "folder": folder,
        "nothing": folder.parent,
        "spec": tf.TensorSpec([None, 4], tf.float32),
    }


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("name", "kwargs", "words"),
    [
        ("numpy", {"inputs": (X,)}, ["sklearn.py:", "x.numpy()", "AttributeError", "NumPy has no part in a graph"]),
        ("variable", {"inputs": (X,)}, ["sklearn.py:", "tf.Variable(1.0) * x", "Make variables once, outside"]),
        ("sizes", {"inputs": (X,)}, ["sklearn.py:", "tf.ones((3, 3))", "are 4 and 3", "inputs that fit it"]),
        (
            "function",
            {"inputs": (X,), "kwargs": {"z": X}},
            ["unexpected keyword argument 'z'", "as the function itself"],
        ),
        ("function", {}, ["without example inputs", "inputs=(...)", "input_signature"]),
        ("signature", {"inputs": (WIDE,)}, ["'x' is float32[3, 5]", "float32[None, 4]"]),
        ("signature", {"inputs": (X.astype(np.float64),)}, ["'x' is float64[3, 4]", "float32[None, 4]"]),
        ("signature", {"inputs": (X, X)}, ["takes x: float32[None, 4]", "2 positional ones"]),
        ("folder", {"inputs": {"y": X}}, ["takes x: float32[None, 4]", "given were y"]),
        ("folder", {"signature": "predict"}, ["'predict'", "serving_default"]),
        ("nothing", {}, ["no SavedModel", "saved_model.pb"]),
        ("empty", {"inputs": (X,)}, ["Empty has neither __call__ nor a tf.function"]),
    ],
)
def test_a_mistake_with_tensorflow_is_named_with_the_way_out(tensorflow_models, name, kwargs, words):
    check(tensorflow_models[name], kwargs, words, (InvalidInputError, InvalidModelError, TracingError))


@pytest.mark.tensorflow
def test_a_specification_stands_for_an_example(tensorflow_models):
    """As tf2onnx's `input_signature` has it: dimensions that are None vary."""
    model = onnxport.convert(tensorflow_models["function"], inputs=(tensorflow_models["spec"],))
    assert model.report.passed
    assert [str(dim) for dim in model.model.graph.inputs[0].shape] == ["batch", "4"]
    check(
        tensorflow_models["function"], {"inputs": {"x": tensorflow_models["spec"]}}, ["TensorSpec"], InvalidInputError
    )


@pytest.fixture(scope="module")
def estimators():
    pytest.importorskip("sklearn", reason="scikit-learn is an extra")
    import pandas as pd
    from sklearn.linear_model import LogisticRegression

    table = pd.DataFrame(np.random.default_rng(0).random((20, 4)), columns=list("abcd"))
    labels = np.arange(20) % 2
    named = LogisticRegression().fit(table, labels)
    fitted = LogisticRegression().fit(table.to_numpy(), labels)
    return {
        "fitted": (fitted, X),
        "renamed": (named, table.rename(columns={"a": "z"})),
        "fewer": (named, table[["b", "c"]]),
        "unfitted": (LogisticRegression(), X),
        "class": (LogisticRegression, X),
        "wide": (fitted, WIDE),
        "one": (fitted, X[0]),
    }


@pytest.mark.sklearn
@pytest.mark.parametrize(
    ("name", "kwargs", "words"),
    [
        ("renamed", {}, ["feature names", "unseen at fit time: - z", "missing: - a"]),
        ("fewer", {}, ["fitted on 4 columns, the inputs have 2"]),
        ("unfitted", {}, ["not fitted yet", "'fit'"]),
        ("class", {}, ["LogisticRegression is a class", "LogisticRegression(...)"]),
        ("wide", {}, ["fitted on 4 columns, the inputs have 5"]),
        ("one", {}, ["rows and columns", "the shape [4]"]),
        ("fitted", {"methods": ["classify"]}, ["LogisticRegression has no method 'classify'"]),
        ("fitted", {"dynamic_shapes": {"x": {0: "n"}}}, ["dynamic_shapes=", "number of samples varies always"]),
        ("fitted", {"initial_types": []}, ["initial_types", "convert_sklearn", "inputs="]),
    ],
)
def test_a_mistake_with_an_estimator_is_named_with_the_way_out(estimators, name, kwargs, words):
    model, inputs = estimators[name]
    check(model, {"inputs": inputs, **kwargs}, words, (OnnxportError, TypeError))
