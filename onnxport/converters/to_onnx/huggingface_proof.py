"""The proof of a folder's conversion: each file against its part of the model, and the tokens that they write together."""

from __future__ import annotations

import inspect
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from transformers import GenerationConfig, GenerationMixin, PreTrainedModel

from onnxport.converters.precision_proof import quality
from onnxport.converters.to_onnx.huggingface_layers import prove_by_layers, rounded_parameters
from onnxport.errors import InvalidInputError, first_line
from onnxport.model import OnnxModel
from onnxport.model_folder import OnnxFolder
from onnxport.request import Request
from onnxport.tracing.huggingface.examples import draw, parameters
from onnxport.tracing.huggingface.folder import HuggingFaceFolder
from onnxport.tracing.huggingface.modalities import MODALITIES, Modality, features, form_of, with_marks
from onnxport.tracing.huggingface.multimodal import DECODER_MERGED, EMBEDDING, has_three_axes
from onnxport.tracing.huggingface.parts import DECODER, ENCODER, MODEL, STEP, Part
from onnxport.tracing.huggingface.quiet import quiet
from onnxport.tracing.pytorch_state import unchanged
from onnxport.validation import settled
from onnxport.validation.comparison import OutputReport
from onnxport.validation.decoding import (
    Prompt,
    WithMarks,
    decoded,
    judged_tokens,
    reads_single_tokens,
    run,
    transcribed,
)
from onnxport.validation.parties import Party, Tolerance
from onnxport.validation.proof import compare, versions
from onnxport.validation.records import SetReport, Side
from onnxport.validation.report import Report
from onnxport.validation.runners.base import Binding
from onnxport.validation.runners.pytorch import bind, to_numpy

# Beyond this size of the weights neither side is held in memory as a whole.
WHOLE_LIMIT = 1 << 29
_TOKENS = 8  # that are written in a proof
_PROMPT = 5


def prove_folder(folder: HuggingFaceFolder, hub: OnnxFolder, request: Request, tolerance: Tolerance) -> Report:
    """The report of a conversion; an `UnprovedWarning` names what of it is neither proved nor refuted.

    Raises:
        ValidationError: numbers or tokens differ; it carries the report.
    """
    known, source = versions("huggingface", "onnx"), Side("huggingface", folder.kind.__name__)
    with unchanged(), quiet():
        if folder.weight_bytes() > WHOLE_LIMIT:
            layers, note = prove_by_layers(folder, _in_files(folder.parts(), hub), hub, tolerance)
            converted = Side("onnx", ", ".join(f"{name}.onnx" for name in hub.parts), "onnxruntime")
            return settled(Report(source, converted, tuple(layers), (*hub.notes, note), known))
        model = folder.loaded()
        parts = _in_files(folder.parts(model), hub)
        for part in parts:
            for parameter, rounded in rounded_parameters(part, hub.smaller.get(part.name)):
                parameter.data = rounded()
        reports = [(part.name, _of_part(part, hub, tolerance)) for part in parts]
        apart = folder.task.name == "text-generation" and not folder.task.past and _writes_otherwise(model, folder)
        decoding = None if apart else _decoding(model, folder, hub, parts)
        tokens = [] if decoding is None else [decoding.report(*case) for case in decoding.cases]
    several = len(parts) > 1
    sets = [_named(item, name if several else "") for name, report in reports for item in report.sets]
    first = reports[0][1]
    remarks = [note for name, report in reports for note in report.notes]
    for part in parts:
        if part.name in hub.smaller:
            example = bind(part.module, Binding(part.inputs)).example
            given = dict(zip(example.names, example.leaves, strict=True)) if example is not None else {}
            leaves = {name: given[name] for name in hub.parts[part.name].input_names}
            remarks += quality(hub.smaller[part.name], leaves, request.dtype or "")
    remarks += [] if decoding is None else decoding.remarks
    if apart:
        remarks.append(
            "generate of this model gives it other tokens than those that stand there: decoding was not tried"
        )
    notes = tuple(dict.fromkeys([*hub.notes, *remarks]))
    unloaded = next((report.not_loaded for _, report in reports if report.not_loaded), "")
    divergence = next((report.divergence for _, report in reports if report.divergence is not None), None)
    return settled(Report(source, first.converted, (*sets, *tokens), notes, known, divergence, unloaded))


def _in_files(parts: Sequence[Part], hub: OnnxFolder) -> list[Part]:
    """The parts under the names of the files that were written."""
    renamed = [replace(part, name=MODEL) if part.name == STEP and STEP not in hub.parts else part for part in parts]
    return [_as_traced(part, hub.parts[part.name]) for part in renamed if part.name in hub.parts]


def _as_traced(part: Part, converted: OnnxModel) -> Part:
    """A part with one row of its examples where its file takes one alone."""
    shapes = {value.name: value.shape for value in converted.model.graph.inputs}
    rows = {name: shape[0] for name in part.inputs if (shape := shapes.get(name)) is not None and len(shape)}
    if not rows or any(size != 1 for size in rows.values()):
        return part
    return replace(part, inputs={name: item[:1] if name in rows else item for name, item in part.inputs.items()})


def _of_part(part: Part, hub: OnnxFolder, tolerance: Tolerance) -> Report:
    converted = hub.parts[part.name]
    left, right = (
        Party(part.module, "pytorch", type(part.module).__name__),
        Party(converted, "onnx", f"{part.name}.onnx"),
    )
    return compare(left, right, Binding(part.inputs), graph=converted.plain, tolerance=tolerance)


def _named(item: SetReport, name: str) -> SetReport:
    if not name:
        return item
    outputs = tuple(replace(output, name=f"{name}: {output.name}") for output in item.outputs)
    return replace(item, name=f"{name}: {item.name}", outputs=outputs)


def _decoding(
    model: PreTrainedModel, folder: HuggingFaceFolder, hub: OnnxFolder, parts: Sequence[Part]
) -> _Decoding | None:
    """Greedy decoding of one row, of three, and of a batch with padding, against `generate`; None where nothing is written."""
    if ENCODER in hub.parts:
        return _Transcribing(model, folder, hub, parts[0])
    if folder.task.name == "text-generation":
        return None if _is_of_one_length(hub) else _Continuing(model, folder, hub)
    return _Describing(model, folder, hub, MODALITIES[folder.task.name]) if DECODER_MERGED in hub.parts else None


def _writes_otherwise(model: PreTrainedModel, folder: HuggingFaceFolder) -> bool:
    """Whether `generate` puts tokens of its own behind those that stand there, as XLNet's does for the one to come."""
    tokens = draw("input_ids", folder.sizes, _PROMPT).tensor
    try:
        given = model.prepare_inputs_for_generation(tokens, attention_mask=torch.ones_like(tokens), use_cache=False)
    except Exception:  # whatever the model's code raises: it raises it again when it generates
        return False
    taken = given.get("input_ids")
    return taken is not None and not torch.equal(taken, tokens)


def _takes_padding(hub: OnnxFolder) -> bool:
    """Whether every file that reads a prompt takes a mask; one that reads token by token holds no gaps apart."""
    part = hub.parts[MODEL] if MODEL in hub.parts else hub.parts[DECODER]
    return "attention_mask" in part.input_names and not reads_single_tokens(part)


def _is_of_one_length(hub: OnnxFolder) -> bool:
    """Whether the model reads prompts of one length alone, to which nothing can be appended."""
    value = next((item for item in next(iter(hub.parts.values())).model.graph.inputs if item.name == "input_ids"), None)
    size = None if value is None or value.shape is None else value.shape[1]
    return isinstance(size, int) and size > 1


class _Decoding:
    """Both sides of greedy decoding.

    Attributes:
        cases: what is decoded: a name, the number of rows, and how many tokens of the first one are left out.
        remarks: what the report is to note.
    """

    cases: Sequence[tuple[str, int, int]] = (("greedy decoding, batch 1", 1, 0), ("greedy decoding, batch 3", 3, 0))

    def __init__(self, model: PreTrainedModel, folder: HuggingFaceFolder, hub: OnnxFolder) -> None:
        self._model, self._folder, self._hub = model, folder, hub
        given = model.generation_config
        text = model.config.get_text_config(decoder=True)
        start = (given.decoder_start_token_id, getattr(text, "decoder_start_token_id", None), given.bos_token_id, 0)
        self._start = next(int(item) for item in start if isinstance(item, int))
        pad = given.pad_token_id
        self._settings = GenerationConfig(
            max_new_tokens=self._count(text),
            do_sample=False,
            num_beams=1,
            pad_token_id=pad if isinstance(pad, int) else 0,
            decoder_start_token_id=self._start,
            use_cache=folder.task.past,
            return_dict_in_generate=True,
            output_scores=True,
        )
        model.generation_config = GenerationConfig()
        self.remarks: list[str] = []

    def report(self, name: str, rows: int, padded: int) -> SetReport:
        """What both sides write."""
        inputs = self.inputs(rows, padded)
        started = time.perf_counter()
        result = self._generated(inputs)
        middle = time.perf_counter()
        count = len(result.scores)
        expected = result.sequences[:, -count:].numpy()
        described = tuple(
            (key, str(item.dtype).removeprefix("torch."), tuple(item.shape)) for key, item in inputs.items()
        )
        try:
            written = self.written({key: _array(item) for key, item in inputs.items()}, count)
        except Exception as error:  # whatever the runtime raises
            reason = f"the converted model can't run: {type(error).__name__}: {error}"
            return SetReport(name, described, (), middle - started, time.perf_counter() - middle, reason)
        scores = np.stack([_array(item) for item in result.scores])
        outputs: tuple[OutputReport, ...] = (judged_tokens(expected, scores, written),)
        return SetReport(name, described, outputs, middle - started, time.perf_counter() - middle)

    def _generated(self, inputs: dict[str, Any]) -> Any:
        """What `generate` gives: without a cache where transformers makes none that fits the model.

        Raises:
            InvalidInputError: it fails without one too.
        """
        while True:
            try:
                with torch.no_grad():
                    return GenerationMixin.generate(self._model, **inputs, generation_config=self._settings)
            except Exception as error:  # of transformers' own loop, or of the model
                reason, name = f"{type(error).__name__}: {first_line(error)}", type(self._model).__name__
                if not self._settings.use_cache:
                    raise InvalidInputError(
                        f"generate of {name} itself fails ({reason}), so that no tokens can be compared; "
                        "validate=False converts without a proof"
                    ) from error
            self._settings.use_cache = False
            self.remarks.append(f"generate of {name} fails with a cache ({reason}): the tokens are those without")

    def inputs(self, rows: int, padded: int) -> dict[str, Any]:
        """What is to be continued or transcribed."""
        raise NotImplementedError

    def written(self, inputs: dict[str, np.ndarray], count: int) -> np.ndarray:
        """The tokens that the files write."""
        raise NotImplementedError

    def _count(self, text: Any) -> int:
        longest = getattr(text, "max_position_embeddings", None) or getattr(text, "max_target_positions", None)
        return _TOKENS if not isinstance(longest, int) else max(1, min(_TOKENS, longest - _PROMPT))


class _Continuing(_Decoding):
    def __init__(self, model: PreTrainedModel, folder: HuggingFaceFolder, hub: OnnxFolder) -> None:
        super().__init__(model, folder, hub)
        if _takes_padding(hub):
            self.cases = (*self.cases, ("greedy decoding, padded at the left", 3, 2))

    def inputs(self, rows: int, padded: int) -> dict[str, Any]:
        """Tokens, and a mask that leaves out some at the left of the first row."""
        tokens = draw("input_ids", self._folder.sizes, _PROMPT).tensor
        tokens = torch.cat([tokens, tokens[:1].flip(1)])[:rows]
        mask = torch.ones_like(tokens)
        mask[0, :padded] = 0
        return {"input_ids": tokens, "attention_mask": mask}

    def written(self, inputs: dict[str, np.ndarray], count: int) -> np.ndarray:
        """By the one file, or by that of the prompt and that of a step."""
        parts = self._hub.parts
        first = parts[MODEL] if MODEL in parts else parts[DECODER]
        return decoded(first, parts.get(STEP), Prompt(inputs["input_ids"], inputs["attention_mask"]), count)


class _Describing(_Decoding):
    """A picture or a sound for each prompt, whose marks stand behind its first token."""

    def __init__(self, model: PreTrainedModel, folder: HuggingFaceFolder, hub: OnnxFolder, modality: Modality) -> None:
        super().__init__(model, folder, hub)
        self._modality = modality
        mark = modality.mark(model.config)
        assert mark is not None
        self._mark = mark
        self.cases = (
            (f"greedy decoding with a {modality.noun}, batch 1", 1, 0),
            (f"greedy decoding with {modality.noun}s, batch 3", 3, 0),
        )

    def inputs(self, rows: int, padded: int) -> dict[str, Any]:
        """Tokens with marks, and pictures or sounds, each somewhat fainter than the one before."""
        form = form_of(self._model, self._folder.sizes, self._modality)
        one = {name: item.tensor[:1] if item.dims else item.tensor for name, item in form.inputs.items()}
        each = [
            {name: item * (1.0 - 0.25 * row) if item.is_floating_point() else item for name, item in one.items()}
            for row in range(rows)
        ]
        with torch.no_grad():
            count = len(features(self._model, self._modality, {**one, **form.fixed}))
        words = draw("input_ids", self._folder.sizes, _PROMPT).tensor
        tokens = with_marks(torch.cat([words, words[:1].flip(1)])[:rows], self._mark, count)
        sizes = {name: item.repeat(rows, 1) for name, item in form.fixed.items()}
        kinds = {"mm_token_type_ids": (tokens == self._mark).int()}
        kinds = kinds if "mm_token_type_ids" in parameters(self._model) else {}
        inputs = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), **sizes, **kinds}
        self._places = self._of_three_axes(inputs) if has_three_axes(self._model.config) else None
        self._each = [{name: _array(item) for name, item in single.items()} for single in each]
        return {**inputs, **{name: torch.cat([single[name] for single in each]) for name in one}}

    def _of_three_axes(self, inputs: dict[str, torch.Tensor]) -> np.ndarray:
        """The places of a prompt's tokens, as the model itself counts them."""
        inner: Any = getattr(self._model, "model", self._model)
        count = inner.get_rope_index
        takes = inspect.signature(count).parameters
        return _array(count(**{name: item for name, item in inputs.items() if name in takes})[0])

    def written(self, inputs: dict[str, np.ndarray], count: int) -> np.ndarray:
        """By the three files, a picture or a sound at a time."""
        parts = self._hub.parts
        first = parts[self._modality.file]
        rows = np.concatenate([run(first, _typed(first, item))[self._modality.output] for item in self._each])
        decoder = WithMarks(parts[EMBEDDING], parts[DECODER_MERGED], rows, self._mark, self._places)
        return decoded(decoder, None, Prompt(inputs["input_ids"], inputs["attention_mask"]), count)


class _Transcribing(_Decoding):
    def __init__(self, model: PreTrainedModel, folder: HuggingFaceFolder, hub: OnnxFolder, encoder: Part) -> None:
        super().__init__(model, folder, hub)
        self._example = encoder.inputs

    def inputs(self, rows: int, padded: int) -> dict[str, Any]:
        """What the encoder reads."""
        kind = self._model.dtype
        typed = {name: item.to(kind) if item.is_floating_point() else item for name, item in self._example.items()}
        return {name: torch.cat([item, item[:1].flip(1)])[:rows] for name, item in typed.items()}

    def written(self, inputs: dict[str, np.ndarray], count: int) -> np.ndarray:
        """By encoder and decoder."""
        parts = self._hub.parts
        taken = _typed(parts[ENCODER], inputs)
        return transcribed(parts[ENCODER], parts[DECODER], parts.get(STEP), taken, self._start, count)


def _typed(part: OnnxModel, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Inputs in the types that a file takes."""
    kinds = {str(value.name): value.dtype for value in part.model.graph.inputs if value.dtype is not None}
    return {name: item.astype(kinds[name].numpy()) if name in kinds else item for name, item in inputs.items()}


def _array(tensor: torch.Tensor) -> np.ndarray:
    array: np.ndarray = to_numpy(tensor)
    return array
