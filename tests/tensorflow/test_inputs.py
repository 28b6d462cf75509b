"""Example inputs of TensorFlow and Keras models: one tensor in several places, dimensions that vary."""

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
keras = pytest.importorskip("keras")
pytestmark = [pytest.mark.tensorflow, pytest.mark.keras]

import onnxport  # noqa: E402
from onnxport.errors import InvalidInputError  # noqa: E402

X = tf.constant(np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32))
VARIABLE = tf.Variable(X)


class Apart(keras.layers.Layer):
    def call(self, a, b):
        return a - 2 * b


ROWS = [
    (lambda a, b: a - 2 * b, (X, X)),
    (tf.function(lambda a, b: a - 2 * b), (X, X)),
    (tf.function(lambda d: d["a"] - 2 * d["b"]), ({"a": X, "b": X},)),
    (tf.function(lambda a, b: a - 2 * b), (VARIABLE, VARIABLE)),
    (tf.function(lambda a: a - 2 * VARIABLE), (VARIABLE,)),
    (Apart(), (X, X)),
]


@pytest.mark.parametrize(("model", "inputs"), ROWS, ids=range(len(ROWS)))
def test_one_tensor_in_several_places_is_several_inputs(model, inputs):
    made = onnxport.convert(model, inputs=inputs)
    assert len(made.input_names) == len(tf.nest.flatten(inputs))
    a, b = np.ones((4, 3), np.float32), np.full((4, 3), 7, np.float32)
    if len(made.input_names) == 2:
        np.testing.assert_array_equal(made(a, b), a - 2 * b)
    assert onnxport.validate(model, made, inputs=inputs).passed


@tf.function(input_signature=[tf.TensorSpec((None, 3), tf.float32, name="x")])
def signed(x):
    return x * 2


def nested(d, e):
    return d["a"] * 2 + d["b"][0] - e


FUNCTIONAL = keras.Sequential([keras.Input((3,), name="x"), keras.layers.Dense(2)])
PARTS = {"a": X, "b": [X]}
ASKED = [
    (nested, (PARTS, X), {"d": {"a": {0: "n"}, "b": [{0: "n"}]}, "e": {0: "n"}}, [["n", 3]] * 3),
    (nested, (PARTS, X), ({"a": {1: "w"}, "b": [{1: "w"}]}, {1: "w", 0: 4}), [[4, "w"]] * 3),
    (Apart(), (X, X), {"a": {0: "n"}, "b": {0: "n"}}, [["n", 3]] * 2),
    (signed, (X,), {"x": {0: "rows"}}, [["rows", 3]]),
    (FUNCTIONAL, (X,), {"x": {0: "rows"}}, [["rows", 3]]),
]


@pytest.mark.parametrize(("model", "inputs", "asked", "dims"), ASKED, ids=range(len(ASKED)))
def test_dimensions_are_the_users(model, inputs, asked, dims):
    made = onnxport.convert(model, inputs=inputs, dynamic_shapes=asked)
    found = [[dim if isinstance(dim, int) else dim.value for dim in value.shape] for value in made.model.graph.inputs]
    assert found == dims


CONTRADICTED = [
    (nested, (PARTS, X), {"d": {"c": {0: "n"}}}, "no input 'd.c'; the inputs are d.a, d.b.0, e"),
    (nested, (PARTS, X), {"d": {0: "n"}}, "'d' is no tensor, its tensors are d.a, d.b.0"),
    (nested, (PARTS, X), {"e": [0]}, "'e' has 2 dimensions, the list"),
    (nested, (PARTS, X), {"e": {0: 3}}, "dimension 0 of 'e' is 4, not 3"),
    (nested, (PARTS, X), {"e": {2: "n"}}, "'e' has no dimension 2"),
    (nested, (PARTS, X), {"e": {0: "n", 1: "n"}}, "dimensions of one name are of one size"),
    (Apart(), (X, X), {"c": {0: "n"}}, "no input 'c'; the inputs are a, b"),
    (signed, (X,), {"x": {1: "w"}}, "fixed at 3 by the model's own signature"),
    (signed, (X,), {"y": {0: "w"}}, "no input 'y'; the inputs are x"),
    (signed, (X,), {"x": {0: 4}}, "dimension 0 of 'x' varies in the signature"),
    (FUNCTIONAL, (X,), {"x": {1: "w"}}, "fixed at 3"),
    (FUNCTIONAL, (X,), {"q": {0: "w"}}, "no input 'q'"),
]


@pytest.mark.parametrize(("model", "inputs", "asked", "message"), CONTRADICTED, ids=[row[3] for row in CONTRADICTED])
def test_dimensions_that_can_not_be_as_asked_are_refused(model, inputs, asked, message):
    with pytest.raises(InvalidInputError, match=message):
        onnxport.convert(model, inputs=inputs, dynamic_shapes=asked, validate=False)


OPTIONS = [
    (FUNCTIONAL, (X,), {"signature": "serving_default"}, "signature= means nothing for a Keras model"),
    (signed, (X,), {"methods": ["predict"]}, "methods= means nothing for a TensorFlow model"),
    (signed, (X,), {"output_names": ["x"]}, "'x' is the name of an input"),
    (signed, [(X,), (X[:2],)], {}, "inputs= holds 2 examples"),
]


@pytest.mark.parametrize(("model", "inputs", "options", "message"), OPTIONS, ids=[row[3] for row in OPTIONS])
def test_options_that_do_not_fit_are_refused(model, inputs, options, message):
    with pytest.raises(InvalidInputError, match=message):
        onnxport.convert(model, inputs=inputs, validate=False, **options)


RAGGED = tf.ragged.constant([[1.0, 2.0], [], [3.0]])
SPARSE = tf.sparse.from_dense([[1.0, 0.0, 2.0], [0.0, 0.0, 3.0]])
COMPOSITE = [
    (lambda r: tf.reduce_sum(r, 1), (RAGGED,), ["r.flat_values", "r.row_splits"], ["output"]),
    (
        lambda s, w: {"scores": tf.sparse.sparse_dense_matmul(s, w), "doubled": s * 2.0},
        (SPARSE, np.ones((3, 2), np.float32)),
        ["s.indices", "s.values", "s.dense_shape", "w"],
        ["doubled.indices", "doubled.values", "doubled.dense_shape", "scores"],
    ),
    (
        lambda x: (tf.RaggedTensor.from_nested_row_splits(x, [[0, 1, 3], [0, 2, 2, 4]]), x),
        (X[:, 0],),
        ["x"],
        ["output_0.flat_values", "output_0.row_splits_0", "output_0.row_splits_1", "output_1"],
    ),
]


@pytest.mark.parametrize(("model", "inputs", "names", "outputs"), COMPOSITE, ids=range(len(COMPOSITE)))
def test_ragged_and_sparse_tensors_are_their_components(model, inputs, names, outputs):
    dynamic = ({},) if len(outputs) == 4 and names == ["x"] else None
    made = onnxport.convert(model, inputs=inputs, dynamic_shapes=dynamic)
    assert (made.input_names, made.output_names) == (names, outputs)
    assert made.report.verdict == "passed"
