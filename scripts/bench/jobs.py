"""What is measured, each in a process of its own: ``python -m scripts.bench.jobs MEASURE MODEL WAY`` prints one JSON object."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from scripts.bench.models import KERAS, TORCH

OPSET = 21


def floor_torch(model: Any, inputs: Any, path: str) -> None:
    """torch.export alone, with the batch dynamic as our own trace has it."""
    import torch

    torch.export.export(model, inputs, dynamic_shapes=({0: torch.export.Dim.AUTO},), strict=False)


def floor_keras(model: Any, inputs: Any, path: str) -> None:
    """The concrete function alone."""
    import tensorflow as tf

    tf.function(
        model, input_signature=[tf.TensorSpec((None, *inputs[0].shape[1:]), tf.float32)]
    ).get_concrete_function()


def ours(model: Any, inputs: Any, path: str) -> None:
    """onnxport, without validation."""
    import onnxport

    onnxport.convert(model, inputs=inputs, validate=False, output=path or None)


def peer_torch(model: Any, inputs: Any, path: str) -> None:
    """torch.onnx."""
    import torch

    batch = ({0: torch.export.Dim("batch")},)
    program = torch.onnx.export(model, inputs, dynamo=True, dynamic_shapes=batch, opset_version=OPSET, verbose=False)
    if path:
        program.save(path)


def peer_keras(model: Any, inputs: Any, path: str) -> None:
    """tf2onnx."""
    import tensorflow as tf
    import tf2onnx

    signature = [tf.TensorSpec((None, *inputs[0].shape[1:]), tf.float32)]
    function = tf.function(model, input_signature=signature)
    tf2onnx.convert.from_function(function, input_signature=signature, opset=18, output_path=path or None)


WAYS: dict[str, Callable[[Any, Any, str], None]] = {
    "floor torch": floor_torch,
    "floor keras": floor_keras,
    "ours": ours,
    "peer torch": peer_torch,
    "peer keras": peer_keras,
}


def conversion(build: Callable[[], Any], way: Callable[[Any, Any, str], None], warm: int) -> dict[str, Any]:
    """CPU seconds of the first conversion in the process, and the least of `warm` further ones."""
    times = []
    for _ in range(1 + warm):
        model, inputs = build()
        started = time.process_time()
        way(model, inputs, "")
        times.append(time.process_time() - started)
    return {"fresh": times[0], "warm": min(times[1:], default=None)}


def memory(build: Callable[[], Any], way: Callable[[Any, Any, str], None], small: Callable[[], Any]) -> dict[str, Any]:
    """Peak memory of conversion and saving over the live model; a small model goes first, so that imports do not count."""
    with tempfile.TemporaryDirectory() as folder:
        way(*small(), os.path.join(folder, "small.onnx"))
        model, inputs = build()
        before = _status("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")  # sets the peak back to what is in use now
        way(model, inputs, os.path.join(folder, "model.onnx"))
        peak = _status("VmHWM") - before
    weights = model.parameters() if hasattr(model, "parameters") else model.weights
    size = sum(item.nbytes if hasattr(item, "nbytes") else item.numpy().nbytes for item in weights)
    return {"peak": peak, "weights": size}


def _status(field: str) -> int:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) * 1024


def run(measure: str, model: str, way: str, warm: int = 2) -> dict[str, Any]:
    """Runs one job in a fresh process; ``{"error": reason}`` where it can't."""
    command = [sys.executable, "-m", "scripts.bench.jobs", measure, model, way, str(warm)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or ["killed"])[-1]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def main() -> None:
    """One job, as the command line says."""
    measure, model, way, warm = sys.argv[1:]
    build = {**TORCH, **KERAS}[model]
    if model in TORCH:
        import torch

        torch.set_num_threads(1)
    if measure == "conversion":
        found = conversion(build, WAYS[way], int(warm))
    else:
        small = TORCH["MLP, 10 layers"] if model in TORCH else _small_keras
        found = memory(build, WAYS[way], small)
    print(json.dumps(found))


def _small_keras() -> tuple[Any, tuple[Any, ...]]:
    import keras
    import numpy as np

    layers = [
        keras.Input((8, 8, 3)),
        keras.layers.Conv2D(4, 3),
        keras.layers.BatchNormalization(),
        keras.layers.Flatten(),
    ]
    return keras.Sequential([*layers, keras.layers.Dense(3)]), (np.zeros((2, 8, 8, 3), np.float32),)


if __name__ == "__main__":
    main()
