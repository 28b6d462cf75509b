"""A folder of transformers to ONNX: its model is built without memory, taken apart into files, each by the driver of PyTorch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from onnxport.converters.to_onnx import pytorch
from onnxport.converters.to_onnx.functions import with_functions
from onnxport.converters.to_onnx.huggingface_genai import GENAI, genai_config
from onnxport.converters.to_onnx.precision import Lowered, lowered
from onnxport.errors import InvalidInputError, TracingError
from onnxport.graph import decisions
from onnxport.model import OnnxModel
from onnxport.model_folder import OnnxFolder
from onnxport.request import BITS, Request
from onnxport.tracing.huggingface.examples import SEQUENCE
from onnxport.tracing.huggingface.folder import Choice, HuggingFaceFolder
from onnxport.tracing.huggingface.parts import DECODER, MODEL, PAST, STEP, TOTAL, Part
from onnxport.tracing.huggingface.quiet import quiet
from onnxport.tracing.pytorch_state import unchanged


def export(folder: HuggingFaceFolder, request: Request) -> OnnxFolder:
    """The files that a folder's model becomes, not validated; weights are read when they are written.

    Raises:
        InvalidModelError: the folder lacks weights, or holds others than its model has.
        InvalidInputError: an option does not fit the model.
        TracingError: torch.export can't trace the model.
        UnsupportedOperator: operators without an ONNX form, all of them.
    """
    if request.inputs is not None:
        raise InvalidInputError("inputs= means nothing for a Hugging Face folder: they follow from its configuration")
    kind = "float32" if request.dtype in BITS else request.dtype
    weights = None if request.weights is None else Path(request.weights)
    folder.chosen(Choice(request.task, kind, weights, bool(request.keep_io_types)))
    with unchanged(), quiet():
        converted = _converted(folder.parts(), request)
    smaller: dict[str, Lowered] = {}
    if request.dtype in BITS:
        smaller = _smaller(converted, request)
        converted |= {name: item.result for name, item in smaller.items()}
    if request.functions is not None:
        converted = _with_functions(converted, request.functions)
    about = f"{folder.kind.__name__} for {folder.task.full_name}, weights in {str(folder.dtype).removeprefix('torch.')}"
    notes = [about, *folder.built.notes]
    for name, model in converted.items():
        notes += [f"{name}: {note}" if len(converted) > 1 else note for note in model.notes]
    result = OnnxFolder(converted, folder.companions(), notes=tuple(notes), runtime=request.runs_in)
    result.smaller = smaller
    if folder.task.full_name == "text-generation-with-past" and MODEL in converted:
        text = genai_config(f"{MODEL}.onnx", converted[MODEL], folder.built.model)
        result.texts |= {} if text is None else {GENAI: text}
    return result


def _converted(parts: list[Part], request: Request) -> dict[str, OnnxModel]:
    """The model of each part.

    Where a prompt could only be of one length, the step alone is written, which reads a prompt token by token.
    """
    converted: dict[str, OnnxModel] = {}
    for part in parts:
        model, lost = _export(part, request)
        if part.name == DECODER and SEQUENCE in lost:
            continue
        model.notes = (*model.notes, *filter(None, [part.note]))
        name = MODEL if part.name == STEP and DECODER not in converted else part.name
        if name != part.name:
            model.notes = (*model.notes, "the model reads one token at a time, a prompt too; its states begin as zeros")
        converted[name] = model
    return converted


def _export(part: Part, request: Request) -> tuple[OnnxModel, list[str]]:
    """With all dimensions that usually vary, else with fewer of them; names of those that do not."""
    first: Exception | None = None
    for inputs, dims in _fewer(part):
        try:
            wanted = Request(
                target_opset=request.target_opset,
                optimize=request.optimize,
                inputs=inputs,
                runtime=request.runtime,
                functions=request.functions,
                dynamic_shapes=dims,
            )
            model = pytorch.export(part.module, wanted)
        except (TracingError, InvalidInputError) as error:
            first = first or error
            continue
        _keep_lengths(model, part)
        lost = sorted({name for axes in part.dims.values() for name in axes.values()} - _names(dims))
        if lost:
            model.notes = (*model.notes, f"the trace needs a fixed {', '.join(lost)}")
        return model, lost
    assert first is not None
    raise first


def _keep_lengths(model: OnnxModel, part: Part) -> None:
    """Leaves out sizes for the proof at which the mask is not as long as what was read and what is new."""
    sizes = {
        dim: part.inputs[name].shape[axis]
        for name, axes in part.dims.items()
        if isinstance(part.inputs[name], torch.Tensor)
        for axis, dim in axes.items()
    }
    if TOTAL not in sizes or not any(TOTAL in map(str, item.shape or ()) for item in model.model.graph.inputs):
        return  # the trace itself declares it as a sum
    new = sizes.get(SEQUENCE, 1)
    sizes[PAST] = sizes[TOTAL] - new
    others = [sizes | item for item in decisions.read(model.model.metadata_props)]
    kept = [item for item in others if item[TOTAL] == item[PAST] + item.get(SEQUENCE, 1)]
    if len(kept) < len(others):
        model.model.metadata_props[decisions.OTHER_SIZES] = decisions.written(kept)


def _smaller(converted: dict[str, OnnxModel], request: Request) -> dict[str, Lowered]:
    """The files whose weights can be in few bits, in these; some file has to."""
    results: dict[str, Lowered] = {}
    refused: list[InvalidInputError] = []
    for name, model in converted.items():
        try:
            results[name] = lowered(model, request, typed=True)
        except InvalidInputError as error:
            refused.append(error)
    if not results:
        raise refused[0]
    return results


def _with_functions(converted: dict[str, OnnxModel], wanted: str | Sequence[type | str]) -> dict[str, OnnxModel]:
    """The files with functions, those that call no module of a wanted class as they are; some file has to."""
    results: dict[str, OnnxModel] = {}
    refused: list[InvalidInputError] = []
    for name, model in converted.items():
        try:
            results[name] = with_functions(model, wanted)
        except InvalidInputError as error:
            refused.append(error)
            results[name] = model
    if len(refused) == len(converted):
        raise refused[0]
    return results


def _fewer(part: Part) -> Iterator[tuple[dict[str, Any], dict[str, dict[int, str]]]]:
    """Examples and the dimensions that vary: all, rows alone, or lengths alone, of one row."""
    yield part.inputs, part.dims
    batch = {name: {axis: dim for axis, dim in axes.items() if axis == 0} for name, axes in part.dims.items()}
    if batch != part.dims:
        yield part.inputs, batch
    plain = all(isinstance(item, torch.Tensor) for item in part.inputs.values())
    if plain and "pixel_values" in part.inputs and not set(part.inputs) - {"pixel_values"}:
        yield {name: item[:1] for name, item in part.inputs.items()}, {}
    elif (
        plain and "pixel_values" in part.inputs and "input_ids" in part.inputs
    ):  # one picture after the other in Python
        lengths = {name: {axis: dim for axis, dim in axes.items() if axis} for name, axes in part.dims.items()}
        yield {name: item[:1] for name, item in part.inputs.items()}, lengths


def _names(dims: dict[str, dict[int, str]]) -> set[str]:
    return {name for axes in dims.values() for name in axes.values()}
