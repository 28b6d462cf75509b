"""Suppression of all classes together, of as many boxes as a run gives: of none, and of equal scores."""

import numpy as np
import pytest
import tensorflow as tf

import onnxport

BOXES = np.sort(np.random.default_rng(0).uniform(size=(2, 9, 1, 2, 2)).astype(np.float32), axis=-2).reshape(2, 9, 1, 4)
SCORES = np.random.default_rng(1).uniform(size=(2, 9, 3)).astype(np.float32)


@pytest.mark.parametrize("count", [0, 1, 9])
def test_boxes_that_a_run_counts(count):
    specs = [tf.TensorSpec([None, None, 1, 4]), tf.TensorSpec([None, None, 3])]

    @tf.function(input_signature=specs, autograph=False)
    def best(boxes, scores):
        return tuple(tf.image.combined_non_max_suppression(boxes, scores, 3, 6, 0.5, 0.1))

    model = onnxport.convert(best, inputs=(BOXES, SCORES))
    given = BOXES[:, :count], SCORES[:, :count]
    for result, expected in zip(model(*given), best(*map(tf.constant, given)), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_scores_that_saturate_leave_the_order_open(seed):
    head = tf.random.stateless_normal([4, 9], (seed, 1))

    @tf.function(input_signature=[tf.TensorSpec([None, None, 4])], autograph=False)
    def detector(features):
        values = tf.linalg.matmul(features, head)
        corner, size = tf.tanh(values[..., :2]), 0.1 * tf.sigmoid(values[..., 2:4])
        boxes = tf.concat([corner - size, corner + size], -1)
        scores = tf.sigmoid(values[..., 4:])
        return tuple(tf.image.combined_non_max_suppression(boxes[:, :, None], scores, 10, 20, 0.5, 0.3))

    assert onnxport.convert(detector).report.passed
