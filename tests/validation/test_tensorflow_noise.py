"""TensorFlow's runs with noise, in the graph and in the bodies of its loops."""

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow", reason="TensorFlow is an extra")

from onnxport.validation.runners import tensorflow as runners  # noqa: E402
from onnxport.validation.runners.base import Binding  # noqa: E402

pytestmark = pytest.mark.tensorflow
FAR = np.linspace(-16, -12, 64).astype(np.float32)


def looped(x):
    return tf.while_loop(lambda i, _: i < 1, lambda i, y: (i + 1, tf.sigmoid(y)), (tf.constant(0), x))[1]


def moved(call):
    runner = runners.bind(tf.function(call), Binding((FAR,), None))
    return runner.run([FAR])[0][1], [runner.run_moved([FAR], 1, seed)[0][1] for seed in range(3)]


@pytest.mark.parametrize("call", [tf.sigmoid, tf.nn.softplus, lambda x: tf.math.expm1(x / 1e4), looped])
def test_a_small_value_beside_1_moves_by_a_unit_of_1(call):
    plain, runs = moved(call)
    unit = np.finfo(np.float32).eps
    assert all(0.1 * unit < np.abs(run - plain).max() < 1.1 * unit for run in runs)
    assert not np.array_equal(runs[0], runs[1])


@pytest.mark.parametrize("call", [lambda x: tf.sqrt(tf.nn.softplus(x - 4)), lambda x: tf.math.log(tf.sigmoid(x - 4))])
def test_no_probability_moves_below_0(call):
    _, runs = moved(call)
    assert all(np.isfinite(run).all() for run in runs)
