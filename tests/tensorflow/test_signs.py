"""Singular vectors and eigenvectors convert where no sign of theirs reaches an output, and are refused where one does."""

import numpy as np
import pytest
import tensorflow as tf

import onnxport
from onnxport.errors import UnsupportedOperator

X = np.random.default_rng(0).normal(size=(2, 4, 3)).astype(np.float32)


def function(call):
    return tf.function(call, input_signature=[tf.TensorSpec([None, 4, 3])], autograph=False)


def shrunk(x, full=False):
    s, u, v = tf.linalg.svd(x, full_matrices=full)
    return tf.matmul(u[..., :3] if full else u * tf.nn.relu(s - 0.1)[..., None, :], v, adjoint_b=True)


def projected(x):
    values, vectors = tf.linalg.eigh(tf.matmul(x, x, transpose_a=True))
    scaled = tf.matmul(tf.linalg.diag(tf.tanh(values)), vectors, transpose_b=True)
    return tf.matmul(tf.linalg.matrix_transpose(scaled), tf.linalg.matrix_transpose(vectors))


@pytest.mark.parametrize("call", [tf.linalg.pinv, shrunk, projected], ids=["pinv", "shrunk", "projected"])
def test_what_no_sign_changes_converts(call):
    model = onnxport.convert(function(call), inputs=(X,))
    assert model.report.passed
    np.testing.assert_allclose(model(X), call(tf.constant(X)), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: tf.linalg.svd(x)[1],
        lambda x: tf.abs(tf.linalg.svd(x)[2]),
        lambda x: tf.matmul(tf.linalg.svd(x)[2], tf.linalg.svd(x)[2]),
        lambda x: tf.matmul(x, tf.linalg.svd(x)[2]),
        lambda x: tf.matmul(*tf.linalg.svd(x)[1:]),
        lambda x: tf.matmul(x, tf.matmul(tf.linalg.svd(x)[2], tf.linalg.diag(tf.ones([3]), k=0))),
        lambda x: shrunk(x, full=True),
    ],
)
def test_what_a_sign_changes_is_refused(call):
    with pytest.raises(UnsupportedOperator, match="the signs of eigenvectors and singular vectors"):
        onnxport.convert(function(call), inputs=(X,))


def test_eigenvalues_without_an_order_are_refused_by_their_reason():
    square = tf.function(tf.linalg.eigvals, input_signature=[tf.TensorSpec([3, 3])], autograph=False)
    with pytest.raises(UnsupportedOperator, match="LAPACK's choice"):
        onnxport.convert(square, inputs=(X[0, :3],))
