"""Models on no rows at all, where runtimes and reductions have their edges."""

import numpy as np
import pytest
import tensorflow as tf

import onnxport

_IDS = np.asarray([0, 0, 1, 3, 3], np.int32)


@pytest.mark.parametrize("name", ["segment_sum", "segment_mean", "segment_max", "segment_prod"])
def test_segments(name):
    signature = [tf.TensorSpec([None, 4]), tf.TensorSpec([None], tf.int32)]
    model = tf.function(lambda x, ids: getattr(tf.math, name)(x, ids), input_signature=signature)
    converted = onnxport.convert(model, inputs=(np.ones((5, 4), np.float32), _IDS))
    x, ids = np.ones((0, 4), np.float32), _IDS[:0]
    assert converted(x, ids).shape == model(x, ids).shape == (0, 4)


def test_a_product_by_einsum():
    signature = [tf.TensorSpec([None, 3, 2, 4]), tf.TensorSpec([None, 5, 2, 4])]
    model = tf.function(lambda q, k: tf.einsum("bqhd,bkhd->bhqk", q, k), input_signature=signature)
    given = [np.ones((2, 3, 2, 4), np.float32), np.ones((2, 5, 2, 4), np.float32)]
    converted = onnxport.convert(model, inputs=tuple(given))
    assert converted(*(item[:0] for item in given)).shape == (0, 2, 3, 5)
