"""The proof of a model whose weights do not fit in memory: both sides run layer by layer, with all of the weights."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from onnxport.converters.to_onnx.precision import Lowered
from onnxport.graph.moved import restored
from onnxport.graph.passes.weight_bits import rounded_tensor
from onnxport.graph.pieces import run_in_pieces
from onnxport.model_folder import OnnxFolder
from onnxport.tracing.huggingface.folder import HuggingFaceFolder
from onnxport.tracing.huggingface.parts import Part
from onnxport.tracing.huggingface.streaming import weights_while_running
from onnxport.tracing.pytorch_deferred import weight_of
from onnxport.validation.comparison import OutputReport, is_floating, judge
from onnxport.validation.parties import Tolerance
from onnxport.validation.records import SetReport
from onnxport.validation.runners.base import Binding
from onnxport.validation.runners.pytorch import PytorchRunner, bind
from onnxport.validation.tolerance import EXACT, derived, epsilon, from_user

_WIDER = {"bfloat16": np.float32, "float16": np.float32, "float32": np.float64}


def prove_by_layers(
    folder: HuggingFaceFolder, parts: Sequence[Part], hub: OnnxFolder, tolerance: Tolerance
) -> tuple[list[SetReport], str]:
    """What both sides give on the example inputs of each part, and what is to be noted of it."""
    several = len(hub.parts) > 1
    sets = [_of_part(folder, part, hub, tolerance, several) for part in parts]
    size = folder.weight_bytes() / 1e9
    note = (
        f"the weights take {size:.1f} GB: model and file ran layer by layer with all of them, on the example inputs alone; "
        "no tokens were decoded"
    )
    return sets, note


def _of_part(folder: HuggingFaceFolder, part: Part, hub: OnnxFolder, tolerance: Tolerance, several: bool) -> SetReport:
    converted = hub.parts[part.name]
    runner = bind(part.module, Binding(part.inputs))
    assert runner.example is not None
    leaves = list(runner.example.leaves)
    started = time.perf_counter()
    instead = {weight_of(item): read for item, read in rounded_parameters(part, hub.smaller.get(part.name))}
    with weights_while_running(folder.built.model, instead=instead):
        expected = runner.run(leaves)
    seconds = time.perf_counter() - started
    truth = _truth(folder, runner, leaves, instead) or [None] * len(expected)
    started = time.perf_counter()
    names = dict(zip(runner.example.names, leaves, strict=True))
    results = run_in_pieces(converted.model, {name: names[name] for name in converted.input_names})
    label = f"{part.name}: " if several else ""
    outputs = tuple(
        _judged(f"{label}{name}", source, results[name], exact, runner, tolerance)
        for name, (_, source), exact in zip(converted.output_names, expected, truth, strict=True)
    )
    described = tuple((name, str(item.dtype), tuple(item.shape)) for name, item in names.items())
    return SetReport(f"{label}layer by layer", described, outputs, seconds, time.perf_counter() - started)


def rounded_parameters(
    part: Part, smaller: Lowered | None
) -> list[tuple[torch.nn.Parameter, Callable[[], torch.Tensor]]]:
    """The parameters of a part whose weights are in few bits, and what gives them as these bits have them."""
    named = dict(part.module.named_parameters(remove_duplicate=False))
    blocks = smaller.rounded if smaller is not None else {}
    return [(named[name], partial(_as_in_file, rounded_tensor(name, item))) for name, item in blocks.items()]


def _as_in_file(tensor: ir.TensorProtocol) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(restored(tensor)[0].numpy()))


def _truth(
    folder: HuggingFaceFolder, runner: PytorchRunner, leaves: Sequence[Any], instead: Mapping[Any, Any]
) -> list[Any] | None:
    """The outputs in the next wider type; None where the model insists on its own."""
    wide = [item.astype(_WIDER[str(item.dtype)]) if str(item.dtype) in _WIDER else item for item in leaves]
    try:
        with weights_while_running(folder.built.model, wider=True, instead=instead):
            return [value for _, value in runner.run(wide)]
    except Exception:  # a type named in the model's code clashes with the wider one: any error at all
        return None


def _judged(
    name: str, source: np.ndarray, result: np.ndarray, truth: Any, runner: PytorchRunner, tolerance: Tolerance
) -> OutputReport:
    if not is_floating(source.dtype):
        return judge(name, source, result, EXACT)
    if tolerance.given:
        return judge(name, source, result, from_user(tolerance.rtol, tolerance.atol, source))
    wide = None if truth is None else np.asarray(truth, np.float64)
    length = runner.numerics.length
    return judge(name, source, result, derived(source, eps=epsilon(source.dtype), length=length, truth=wide))
