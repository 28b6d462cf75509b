"""What importing a file into Keras and TensorFlow takes, beside what the framework takes to build the same model itself.

``python -m scripts.bench.imported_keras [MODEL ...]`` writes the section.
"""

from __future__ import annotations

import copy
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import onnxport
from scripts.bench.imported import SECONDS_A_BYTE, SECONDS_A_NODE
from scripts.bench.page import number, table, write_section

MODELS = ("MobileNetV2", "ResNet50", "DenseNet121", "EfficientNetB0", "ConvNeXtTiny", "NASNetMobile", "Xception")
RUNS = 3
SIDE = 96


def least(make: Callable[[], Any]) -> float:
    """Processor seconds of the fastest of some runs."""
    times = []
    for _ in range(RUNS):
        started = time.process_time()
        make()
        times.append(time.process_time() - started)
    return min(times)


def row(name: str) -> list[str]:
    """A line of the table."""
    import keras
    import tensorflow as tf

    model = getattr(keras.applications, name)(weights=None, input_shape=(SIDE, SIDE, 3), classes=10)
    hub = onnxport.convert(model, validate=False)
    nodes = len(hub.model.graph)
    held = (item.const_value for item in hub.model.graph.initializers.values())
    allowed = SECONDS_A_NODE * nodes + SECONDS_A_BYTE * sum(item.nbytes for item in held if item is not None)
    config, weights, kind = model.get_config(), model.get_weights(), type(model)

    def built() -> None:
        kind.from_config(copy.deepcopy(config)).set_weights(weights)  # it takes its argument apart

    def traced() -> None:
        tf.function(model, input_signature=[tf.TensorSpec([None, SIDE, SIDE, 3])]).get_concrete_function()

    cells = [name, str(nodes), number(allowed, 2, " s")]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        hub.save(path)
        for to, own in (("keras", built), ("tensorflow", traced)):
            ours = least(lambda to=to: onnxport.convert(path, to=to, validate=False))  # type: ignore[misc]
            theirs = least(own)
            cells += [number(ours, 2, " s"), number(theirs, 2, " s"), number(ours / theirs)]
    return cells


def main(names: list[str]) -> None:
    """Measures and writes the section."""
    warnings.simplefilter("ignore")
    row(MODELS[0])  # imports and first calls do not count
    rows = []
    for name in names or MODELS:
        rows.append(row(name))
        print(" | ".join(rows[-1]), flush=True)
    head = (
        "model",
        "nodes",
        "1 ms a node + 1 s a GB",
        "to Keras",
        "from_config",
        "ratio",
        "to TensorFlow",
        "tracing",
        "ratio",
    )
    text = (
        "Models of keras.applications with random weights to a file and back, without validation; processor time, the least "
        f"of {RUNS} runs. Beside the import stands what the framework takes for the same model: Keras for `from_config` and "
        "`set_weights`, TensorFlow for tracing the Keras model as a function. That is more than the allowance of the third "
        "column, which PyTorch's imports keep (Latency of imported modules).\n\n"
    )
    text += table(head, rows)
    if not names:
        write_section("Imports beside the framework's own building", text, "tensorflow-cpu", "keras")


if __name__ == "__main__":
    main(sys.argv[1:])
