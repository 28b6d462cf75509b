"""Keras on the PyTorch backend, which is chosen before Keras is imported: each check runs in a process of its own."""

import os
import subprocess
import sys
import textwrap

import pytest

pytestmark = [pytest.mark.keras, pytest.mark.pytorch]

BEFORE = """
import numpy as np, keras, onnxport
from keras import layers

def told(model, **options):
    made = onnxport.convert(model, to="onnx", **options)
    assert made.report.verdict == "passed", made.report
    graph = made.model.graph
    return [(item.name, [str(size) for size in item.shape]) for item in (*graph.inputs, *graph.outputs)]

image = np.random.default_rng(0).uniform(0, 255, (2, 9, 8, 3)).astype(np.float32)
"""

ROWS = {
    "a functional model knows its inputs and the names of its results": """
        a, b = keras.Input((5, 4), name="a"), keras.Input((4,), name="b")
        pooled = layers.GlobalAveragePooling1D()(layers.MultiHeadAttention(2, 3)(a, a))
        model = keras.Model({"a": a, "b": b}, layers.Dense(2, name="head")(layers.Add()([pooled, b])))
        assert told(model) == [("a", ["batch", "5", "4"]), ("b", ["batch", "4"]), ("head", ["batch", "2"])]
        given = {"b": np.zeros((3, 4), np.float32) + 1, "a": np.random.default_rng(1).normal(size=(3, 5, 4)).astype("float32")}
        assert told(model, inputs=given)[0][0] == "a"
        """,
    "dimensions beside the batch stay open": """
        steps = keras.Input((None, 4), name="steps")
        model = keras.Model(steps, layers.Conv1D(3, 2)(steps))
        assert [shape[1].isdigit() for _, shape in told(model)] == [False, False]
        """,
    "a random layer is left out in inference": """
        pixels = keras.Input((9, 8, 3), name="pixels")
        model = keras.Model(pixels, layers.RandomZoom(0.5)(layers.RandomFlip()(pixels)))
        assert told(model, inputs=(image,))[0] == ("pixels", ["batch", "9", "8", "3"])
        made = onnxport.convert(model, to="onnx", inputs=(image,))
        np.testing.assert_array_equal(made(image), image)
        """,
    "a layer's inputs have the names of its call": """
        assert [name for name, _ in told(layers.Rescaling(1 / 255), inputs=(image,))] == ["inputs", "output"]
        """,
}


@pytest.mark.parametrize("code", ROWS.values(), ids=ROWS)
def test_on_the_torch_backend(code):
    program = BEFORE + textwrap.dedent(code)
    environment = {**os.environ, "KERAS_BACKEND": "torch"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
