"""A model that TensorFlow traces in fixed sizes alone is converted in those of its example inputs, and the report says so."""

import keras
import numpy as np
import pytest

import onnxport
from onnxport.errors import TracingError

pytestmark = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow",
    reason="only TensorFlow traces a graph of fixed sizes; the other backends are rebuilt on it",
)
A = np.asarray([[12, -18, 0, 7], [-(2**31), 5, 2**31 - 1, 30]], np.int32)
B = np.asarray([[8, 27, 4, 1], [-1, 10, 3, -(2**31)]], np.int32)


def model(call=keras.ops.gcd, structure=list):
    inputs = keras.Input((4,), dtype="int32", name="a"), keras.Input((4,), dtype="int32", name="b")
    return keras.Model(structure(inputs), call(*inputs))


@pytest.mark.parametrize("given", [(A, B), {"b": B, "a": A}], ids=["in order", "by name"])
def test_the_sizes_of_the_example_are_taken(given):
    source = model()
    converted = onnxport.convert(source, inputs=given)
    assert converted.report.passed
    assert "all dimensions are fixed at an example's" in " ".join(converted.notes)
    np.testing.assert_array_equal(converted(A, B), keras.ops.convert_to_numpy(source([A, B])))
    assert [list(item.shape) for item in converted.model.graph.inputs] == [[2, 4]] * 2


def test_without_an_example_the_trace_fails():
    with pytest.raises(TracingError, match="partially known TensorShape"):
        onnxport.convert(model(), validate=False)


def test_what_fails_in_fixed_sizes_too_is_raised_as_it_was():
    def call(a, b):
        return keras.layers.Lambda(lambda x: keras.ops.isin(*x), output_shape=(4,))([a, b])

    with pytest.raises(TracingError, match="symbolic"):
        onnxport.convert(model(call), inputs=(A, B))


def upsampled(size=(None, None)):
    image = keras.Input((*size, 3), name="image")
    layer = keras.layers.UpSampling2D(2, interpolation="bilinear")  # Keras decides on the size, which must be known
    return keras.Model(image, layer(keras.layers.Conv2D(4, 3, padding="same")(image)))


@pytest.mark.parametrize(
    ("dynamic_shapes", "sizes"),
    [
        (None, ["batch", 8, 6, 3]),
        ({"image": {0: "rows"}}, ["rows", 8, 6, 3]),
        ({}, [2, 8, 6, 3]),
    ],
)
def test_the_batch_stays_open_where_it_can(dynamic_shapes, sizes):
    image = np.random.default_rng(0).standard_normal((2, 8, 6, 3), np.float32)
    converted = onnxport.convert(upsampled(), inputs=(image,), dynamic_shapes=dynamic_shapes)
    assert converted.report.passed
    assert "are fixed at an example's: TensorFlow can't trace" in " ".join(converted.notes)
    given = converted.proto.graph.input[0].type.tensor_type.shape.dim
    assert [item.dim_param or item.dim_value for item in given] == sizes


def test_the_layer_of_keras_that_needs_a_size_is_named():
    with pytest.raises(TracingError, match="UpSampling2D decides there on a size that is open: pass inputs="):
        onnxport.convert(upsampled(), validate=False)


def test_a_size_that_must_stay_open_is_not_fixed():
    image = np.zeros((2, 8, 6, 3), np.float32)
    with pytest.raises(TracingError, match="UpSampling2D"):
        onnxport.convert(upsampled(), inputs=(image,), dynamic_shapes={"image": {1: "height"}})
