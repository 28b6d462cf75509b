"""Latency of our files against the peers' in onnxruntime, and of imported PyTorch modules against the originals."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnxruntime

import onnxport
from examples.demo import models
from examples.demo.matrix import graph_inputs, name
from scripts.bench.clock import BLOCK_SECONDS, repeats
from scripts.bench.models import resnet50, vit_b16
from scripts.bench.page import number, table, write_section

BLOCKS = 15


def alternate(calls: Sequence[Callable[[], Any]]) -> list[float]:
    """Seconds a call: the callables take turns in blocks, and each one's median over the blocks counts."""
    times: list[list[float]] = [[] for _ in calls]
    counts = [repeats(call) for call in calls]
    for _ in range(BLOCKS):
        for call, count, found in zip(calls, counts, times, strict=True):
            started = time.perf_counter()
            for _ in range(count):
                call()
            found.append((time.perf_counter() - started) / count)
    return [statistics.median(found) for found in times]


def session(path: str, *, profile: str = "") -> onnxruntime.InferenceSession:
    """A session of one thread; with a `profile` it writes down its operators' times, under that prefix."""
    options = onnxruntime.SessionOptions()
    if profile:
        options.enable_profiling, options.profile_file_prefix = True, profile
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def peer_file(trained: models.Trained, path: str) -> None:
    """Writes the peer's conversion of a demo model."""
    if trained.framework == "pytorch":
        import torch

        batch = tuple({0: torch.export.Dim("batch")} for _ in trained.inputs)
        torch.onnx.export(
            trained.model, trained.inputs, dynamo=True, dynamic_shapes=batch, opset_version=21, verbose=False
        ).save(path)
    elif trained.framework == "sklearn":
        import skl2onnx

        options = {type(trained.model.steps[-1][1]): {"zipmap": False}}
        proto = skl2onnx.to_onnx(trained.model, trained.inputs, options=options, target_opset={"": 21, "ai.onnx.ml": 5})
        with open(path, "wb") as file:
            file.write(proto.SerializeToString())
    else:
        import tensorflow as tf
        import tf2onnx

        if trained.framework == "keras":
            signature = [tf.TensorSpec((None, *trained.inputs[0].shape[1:]), tf.float32)]
            function = tf.function(trained.model, input_signature=signature)
        else:
            function, signature = trained.model.__call__, trained.model.__call__.input_signature
        tf2onnx.convert.from_function(function, input_signature=list(signature), opset=18, output_path=path)


def call_of(ran: onnxruntime.InferenceSession, arrays: Sequence[np.ndarray]) -> Callable[[], Any]:
    """A call of a session on arrays in the order of its inputs."""
    feed = {
        item.name: array.astype(np.float64 if item.type == "tensor(double)" else np.float32)
        if array.dtype.kind == "f"
        else array
        for item, array in zip(ran.get_inputs(), arrays, strict=True)
    }
    return lambda: ran.run(None, feed)


def files() -> tuple[list[tuple[str, ...]], list[str]]:
    """Rows of the demo's models, and why a row is missing."""
    rows, reasons = [], []
    with tempfile.TemporaryDirectory() as folder:
        for train in models.ALL:
            trained = train()
            try:
                hub = onnxport.convert(trained.model, inputs=trained.inputs, validate=False)
                hub.save(own := os.path.join(folder, "own.onnx"))
                arrays = graph_inputs(hub, trained.inputs)
                calls = [call_of(session(own), arrays)]
                try:
                    peer_file(trained, other := os.path.join(folder, "peer.onnx"))
                    calls.append(call_of(session(other), arrays))
                except Exception as error:  # a peer that fails is a row without a ratio
                    reasons.append(f"- {name(trained)}, peer: {type(error).__name__}: {str(error).splitlines()[0]}\n")
                times = alternate(calls)
            except onnxport.OnnxportError as error:
                reasons.append(f"- {name(trained)}: {error}\n")
                continue
            theirs = times[1] if len(times) > 1 else None
            rows.append(
                (
                    name(trained),
                    number(1000 * times[0], 3, " ms"),
                    number(1000 * theirs if theirs else None, 3, " ms"),
                    number(times[0] / theirs if theirs else None),
                )
            )
    return rows, reasons


def modules() -> tuple[list[tuple[str, ...]], list[str]]:
    """Rows of PyTorch modules that went to ONNX and back."""
    import torch

    torch.set_num_threads(1)
    demo = [
        (name(trained), trained.model, trained.inputs) for trained in (models.torch_cnn(), models.torch_transformer())
    ]
    large = [("ResNet-50", *resnet50()), ("ViT-B/16", *vit_b16())]
    rows, reasons = [], []
    for title, module, inputs in (*demo, *large):
        try:
            again = onnxport.convert(
                onnxport.convert(module, inputs=inputs, validate=False), to="pytorch", validate=False
            )
        except onnxport.OnnxportError as error:
            reasons.append(f"- {title}: {error}\n")
            continue
        with torch.no_grad():
            original, imported = alternate([lambda m=module, x=inputs: m(*x), lambda m=again, x=inputs: m(*x)])
        rows.append(
            (title, number(1000 * original, 3, " ms"), number(1000 * imported, 3, " ms"), number(imported / original))
        )
    return rows, reasons


def main() -> None:
    """Measures and writes the sections."""
    how = f"One thread; the two take turns in {BLOCKS} blocks of {BLOCK_SECONDS} s, the median block counts."
    rows, reasons = files()
    text = f"The demo's models on eight samples in onnxruntime. {how} The peer is torch.onnx, tf2onnx or skl2onnx.\n\n"
    text += table(("model", "onnxport", "peer", "onnxport / peer"), rows)
    text += "\nNot measured:\n" + "".join(reasons) if reasons else ""
    write_section("Latency of files", text, "onnxruntime", "torch", "onnxscript", "tf2onnx", "skl2onnx")
    rows, reasons = modules()
    text = f"A PyTorch module to ONNX and back, against the original, both eager. {how}\n\n"
    text += table(("module", "original", "imported", "imported / original"), rows)
    text += "\nNot measured:\n" + "".join(reasons) if reasons else ""
    write_section("Latency of imported modules", text, "torch")


if __name__ == "__main__":
    main()
