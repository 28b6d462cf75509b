"""Greatest elements of large images beside NaN and infinities: what TensorFlow gives, whichever way the graph takes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import onnxport
from onnxport.graph.bodies import bodies
from onnxport.graph.runtimes.pools import without_questions
from onnxport.model import OnnxModel

tf = pytest.importorskip("tensorflow", reason="TensorFlow is an extra")

pytestmark = pytest.mark.tensorflow

SHAPE = (2, 48, 47, 32)
FRAME = [[0, 0], [1, 1], [1, 2], [0, 0]]
RNG = np.random.default_rng(0)


def _convolved(x: Any) -> Any:
    """The image itself, from a convolution, so that the pool behind it reads channels first."""
    return tf.nn.depthwise_conv2d(x, tf.ones((1, 1, SHAPE[-1], 1)), [1, 1, 1, 1], "SAME")


def _pool(x: Any, kernel: int = 3, steps: int = 2, padding: str = "VALID") -> Any:
    return tf.nn.max_pool2d(x, kernel, steps, padding)


def _beside(x: Any) -> Any:
    pooled = _pool(x)
    return tf.concat([pooled, pooled * 0.5], -1)


POOLS: dict[str, Callable[[Any], Any]] = {
    "valid": _pool,
    "same": lambda x: _pool(x, padding="SAME"),
    "even": lambda x: _pool(x, 2),
    "behind Relu": lambda x: _pool(tf.nn.relu(x)),
    "of a framed image": lambda x: _pool(tf.pad(x, FRAME)),
    "of a framed image, no number below zero": lambda x: _pool(tf.pad(tf.nn.relu(x), FRAME)),
    "of an image framed by ones": lambda x: _pool(tf.pad(x, FRAME, constant_values=1.0)),
    "of a wide frame": lambda x: _pool(tf.pad(x, [[0, 0], [4, 3], [0, 0], [0, 0]])),
    "single elements": lambda x: _pool(x, 1, 1),
    "beside others": _beside,
}


def _images() -> dict[str, np.ndarray[Any, Any]]:
    numbers = RNG.normal(size=SHAPE).astype(np.float32)
    images = {"numbers": numbers, "below zero": -np.abs(numbers) - 1, "great": np.full(SHAPE, -3e38, np.float32)}
    for name, value in (("NaN", np.nan), ("infinity", np.inf), ("minus infinity", -np.inf)):
        for share in (0.3, 0.9):  # in each place of some windows, and in all places of some
            images[f"{name} {share}"] = np.where(RNG.uniform(size=SHAPE) < share, np.float32(value), numbers)
        last = numbers.copy()
        last[-1, -1, -1, -1] = value
        images[f"a single {name}"] = last
    images["all"] = RNG.choice(np.float32([np.nan, np.inf, -np.inf, 1, -1]), SHAPE, p=[0.6, 0.02, 0.3, 0.04, 0.04])
    return images


@pytest.mark.parametrize("name", POOLS)
def test_large_images(name: str) -> None:
    """Each image, of numbers and of others, gives TensorFlow's own elements."""
    function = tf.function(
        lambda x: POOLS[name](_convolved(x)), input_signature=[tf.TensorSpec((None, *SHAPE[1:]), tf.float32)]
    )
    model = onnxport.convert(function, validate=False)
    assert any(bodies(node) for node in model.model.graph), "the image is asked for NaN"
    plain = OnnxModel(without_questions(model.model))  # as importers take it
    assert not any(bodies(node) for node in plain.model.graph)
    for kind, image in _images().items():
        with np.errstate(all="ignore"):
            # Operator by operator: in a graph TensorFlow exchanges Relu and MaxPool, and gives 0 of nothing but NaN.
            wanted = POOLS[name](_convolved(tf.constant(image))).numpy()
            np.testing.assert_array_equal(model(image), wanted, err_msg=kind)
            np.testing.assert_array_equal(plain(image), wanted, err_msg=kind)


@pytest.mark.parametrize("opset", [13, 26])
def test_opsets(opset: int) -> None:
    """The oldest and the newest opset."""
    function = tf.function(
        lambda x: POOLS["same"](_convolved(x)), input_signature=[tf.TensorSpec((None, *SHAPE[1:]), tf.float32)]
    )
    assert onnxport.convert(function, target_opset=opset, inputs=(tf.constant(_images()["NaN 0.3"]),)).report.passed


@pytest.mark.filterwarnings("ignore")  # the quantiser's own
def test_quantised_to_operators(tmp_path: Path) -> None:
    """onnxruntime's quantiser takes the file as it is, though branches read what it quantises."""
    from onnxruntime import InferenceSession
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.sets = iter([{"x": image}])

        def get_next(self) -> dict[str, Any] | None:
            return next(self.sets, None)

    image = _images()["numbers"]
    kernel = RNG.normal(size=(1, 1, SHAPE[-1], 16)).astype(np.float32)

    def pooled(x: Any) -> Any:
        return POOLS["of a framed image"](tf.nn.conv2d(x, kernel, 1, "VALID"))

    onnxport.convert(pooled, inputs=(tf.constant(image),), validate=False).save(tmp_path / "model.onnx")
    paths = str(tmp_path / "model.onnx"), str(tmp_path / "quantised.onnx")
    quantize_static(*paths, Reader(), quant_format=QuantFormat.QOperator)
    results = [InferenceSession(path).run(None, {"x": image})[0] for path in paths]
    assert np.abs(results[0] - results[1]).max() < 0.05 * np.abs(results[0]).max()


def test_small_images() -> None:
    """Images for which Where takes no time worth asking are pooled without a question."""
    function = tf.function(
        lambda x: _pool(_convolved(x)), input_signature=[tf.TensorSpec((None, 8, 8, 32), tf.float32)]
    )
    assert not any(bodies(node) for node in onnxport.convert(function, validate=False).model.graph)


@pytest.mark.pytorch
def test_another_framework_takes_no_detour() -> None:
    """What is written around a defect of onnxruntime is not on the way to PyTorch."""
    pytest.importorskip("torch", reason="PyTorch is an extra")
    function = tf.function(
        lambda x: _pool(_convolved(tf.cos(x))), input_signature=[tf.TensorSpec((None, *SHAPE[1:]), tf.float32)]
    )
    module = onnxport.convert(function, to="pytorch", inputs=(tf.constant(_images()["numbers"]),))
    assert module.onnxport_report.passed
    assert "cond" not in module.code
    assert not [note for note in module.onnxport_report.notes if "for onnxruntime" in note]
