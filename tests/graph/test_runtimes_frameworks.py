"""Models of PyTorch, TensorFlow and Keras whose direct graphs onnxruntime does not load, proved in onnxruntime."""

import numpy as np
import onnx
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is an extra")
tf = pytest.importorskip("tensorflow")
keras = pytest.importorskip("keras")
pytestmark = [pytest.mark.pytorch, pytest.mark.tensorflow, pytest.mark.keras]

import torch.nn.functional as F  # noqa: E402

import onnxport  # noqa: E402

RNG = np.random.default_rng(0)
REALS, IMAGE = torch.from_numpy(RNG.normal(size=(3, 4)) * 3), torch.from_numpy(RNG.normal(size=(2, 4, 9, 8)))
SMALL, PIXELS = torch.arange(-6, 6).reshape(3, 4), RNG.uniform(size=(2, 5, 6, 3)).astype(np.float32)
HALF = torch.from_numpy(RNG.normal(size=(3, 4))).bfloat16()


def doubled(layer):
    return layer.double().eval()


PYTORCH = [
    *[
        (name, getattr(F, name), REALS, (13, 26))
        for name in "softplus softsign elu leaky_relu celu mish selu hardsigmoid hardswish gelu silu logsigmoid".split()
    ],
    *[(name, getattr(torch, name), REALS, (13, 26)) for name in "erf tan atan sinh cosh asinh cos".split()],
    ("silu-float", F.silu, REALS.float(), (24, 26)),
    ("det", torch.det, IMAGE[..., :8, :], (13, 26)),
    ("conv", doubled(torch.nn.Conv2d(4, 6, 3, 2, 1, 2, 2)), IMAGE, (13, 26)),
    ("conv3d", doubled(torch.nn.Conv3d(2, 3, 3, padding=1)), IMAGE[:, None].expand(-1, 2, -1, -1, -1), (21,)),
    ("depthwise", doubled(torch.nn.Conv2d(4, 8, 3, groups=4)), IMAGE, (21,)),
    ("transposed", doubled(torch.nn.ConvTranspose2d(4, 6, 3, 2, 1, output_padding=1, groups=2)), IMAGE, (13, 26)),
    ("average", lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), IMAGE, (13, 26)),
    ("adaptive", lambda x: F.adaptive_avg_pool2d(x, 1), IMAGE, (13, 26)),
    ("instance", F.instance_norm, IMAGE, (13, 26)),
    ("group", lambda x: F.group_norm(x, 2), IMAGE, (13, 26)),
    ("where-bool", lambda x: torch.where(x > 1, x > 2, x < -2), SMALL, (13, 26)),
    ("where-int16", lambda x: torch.where(x > 1, x, -x), SMALL.short(), (21,)),
    ("maximum-int16", lambda x: torch.maximum(x, x.flip(0)), SMALL.short(), (13, 26)),
    ("relu-int64", F.relu, SMALL, (13, 26)),
    ("unique-int32", torch.unique, SMALL.int(), (13, 26)),
    ("sum-bfloat16", lambda x: F.softmax(F.gelu(x + 2 * x) @ x.T, -1), HALF, (13, 21, 26)),
    ("conv-bfloat16", torch.nn.Conv2d(4, 6, 3).bfloat16().eval(), IMAGE.bfloat16(), (22,)),
    ("rand", lambda x: torch.rand_like(x).floor(), REALS.float(), (26,)),
]


@pytest.mark.sampled(0.5)
@pytest.mark.parametrize(
    ("model", "x", "opset"), [pytest.param(m, x, o, id=f"{name}-{o}") for name, m, x, opsets in PYTORCH for o in opsets]
)
def test_pytorch(model, x, opset):
    made = onnxport.convert(model, inputs=(x,), target_opset=opset)
    assert made.report.passed
    assert (made.session.backend, made.session.fallback_reason) == ("onnxruntime", "")


TENSORFLOW = [
    ("resize", lambda x: tf.image.resize(x, [7, 9]), PIXELS, (17, 18, 21, 26)),
    ("resize-of-shape", lambda x: tf.image.resize(x, 2 * tf.shape(x)[1:3]), PIXELS, (18, 26)),
    ("unique", lambda x: tf.unique(tf.reshape(x, [-1]))[0], np.asarray([3, 1, 3, 2], np.int32), (13, 26)),
    ("softplus", tf.nn.softplus, REALS.numpy(), (13, 26)),
    ("elu", tf.nn.elu, REALS.numpy(), (13, 26)),
    ("conv", lambda x: tf.nn.conv2d(x, np.ones((2, 2, 3, 4)), 1, "SAME"), PIXELS.astype(np.float64), (13, 26)),
    ("where-bool", lambda x: tf.where(x > 1, x > 2, x < -2), SMALL.numpy(), (13, 26)),
    ("bfloat16", lambda x: tf.cast(tf.cast(x, tf.bfloat16) + 1, tf.float32), PIXELS, (13, 26)),
]


@pytest.mark.parametrize(
    ("function", "x", "opset"),
    [pytest.param(f, x, o, id=f"{name}-{o}") for name, f, x, opsets in TENSORFLOW for o in opsets],
)
def test_tensorflow(function, x, opset):
    made = onnxport.convert(tf.function(function), inputs=(x,), target_opset=opset)
    assert made.report.passed
    assert (made.session.backend, made.session.fallback_reason) == ("onnxruntime", "")


@pytest.mark.parametrize("axis", [np.int32(1), np.asarray([1], np.int32), np.asarray([0, -1], np.int32)])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("function", [tf.reduce_sum, tf.reduce_mean, tf.reduce_max])
def test_reductions_over_axes_known_at_run_time_have_a_rank(function, axis, keepdims):
    signature = [tf.TensorSpec([None, 5, 6, 3], name="x"), tf.TensorSpec(axis.shape, tf.int32, name="axis")]
    model = tf.function(lambda x, axis: function(x, axis, keepdims=keepdims), input_signature=signature)
    made = onnxport.convert(model, inputs=(PIXELS, axis))
    onnx.checker.check_model(made.proto, full_check=True)
    assert made.report.passed
    assert made.session.backend == "onnxruntime"


def test_an_output_of_unknown_rank_is_said():
    signature = [tf.TensorSpec([6], name="x"), tf.TensorSpec([None], tf.int32, name="shape")]
    made = onnxport.convert(
        tf.function(lambda x, shape: tf.reshape(x, shape), input_signature=signature), validate=False
    )
    assert any("onnx.checker does not" in note for note in made.notes)
    assert made(np.arange(6.0, dtype=np.float32), np.asarray([3, 2], np.int32)).shape == (3, 2)


@pytest.mark.parametrize("opset", [18, 26])
@pytest.mark.parametrize(
    "layer",
    [
        keras.layers.UpSampling2D(2, interpolation="bilinear"),
        keras.layers.Resizing(7, 4),
        keras.layers.Resizing(7, 4, crop_to_aspect_ratio=True),
    ],
    ids=["UpSampling2D", "Resizing", "Resizing-aspect"],
)
def test_keras(layer, opset):
    model = keras.Sequential([keras.Input(PIXELS.shape[1:]), layer])
    made = onnxport.convert(model, inputs=(PIXELS,), target_opset=opset)
    assert made.report.passed
    assert (made.session.backend, made.session.fallback_reason) == ("onnxruntime", "")
