"""debug and a failing proof over TFLite files: every operator on the interpreter's own values, the tensor of the wrong one."""

import numpy as np
import onnx
import pytest

import onnxport
from onnxport.converters.debugging import debug

tf = pytest.importorskip("tensorflow", reason="TensorFlow is an extra")
pytestmark = pytest.mark.tensorflow

from tests.tensorflow.lite_files import function_of, written  # noqa: E402

RNG = np.random.default_rng(0)
X = RNG.random((1, 8, 8, 1), dtype=np.float32)
KERNEL, DENSE = (RNG.normal(size=size).astype(np.float32) for size in ((3, 3, 1, 4), (144, 3)))


def network(x):
    x = tf.nn.relu(tf.nn.conv2d(x, KERNEL, 1, "VALID") + tf.constant([0.1, -0.2, 0.3, 0.4]))
    return tf.reshape(x, [1, 144]) @ DENSE


def whole(converter):
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    images = np.random.default_rng(1).random((4, *X.shape), dtype=np.float32)
    converter.representative_dataset = lambda: ([image] for image in images)


@pytest.mark.parametrize("setup", [lambda converter: None, whole], ids=["real numbers", "whole numbers"])
def test_every_operator_agrees_with_the_file_or_is_the_wrong_one(setup, tmp_path):
    file = written(tmp_path / "net.tflite", function_of(network, list(X.shape)), setup=setup)
    model = onnxport.convert(file, inputs=(X,))
    right = debug(file, model, (X,))
    assert len(right.operators) >= 3
    assert [item for item in right.operators if item.differs] == []
    proto = onnx.ModelProto()
    proto.CopyFrom(model.proto)
    next(node for node in proto.graph.node if node.op_type == "Relu").op_type = "Abs"
    wrong = debug(file, proto, (X,))
    assert wrong.failed
    named = [item.where for item in wrong.operators if item.differs]
    assert len(named) == 1
    assert "Relu" in named[0]
    report = onnxport.validate(file, proto, inputs=(X,))
    assert report.divergence is not None
    assert report.divergence.where == named[0]
