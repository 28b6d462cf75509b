"""What becomes a file of its own: a module, example inputs, and the dimensions that vary."""

from __future__ import annotations

import inspect
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils import _pytree as pytree
from transformers import DynamicCache, EncoderDecoderCache, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput

from onnxport.errors import InvalidInputError
from onnxport.graph.cache_names import is_cache
from onnxport.tracing.huggingface.examples import (
    BATCH,
    LENGTH,
    ROWS,
    SEQUENCE,
    Drawn,
    Sizes,
    draw,
    parameters,
    plain_inputs,
)
from onnxport.tracing.huggingface.modalities import MODALITIES, PICTURES, Modality, with_marks
from onnxport.tracing.huggingface.states import fits, states_of_any_prompt
from onnxport.tracing.huggingface.tasks import PAIRED, Task, holds
from onnxport.tracing.pytorch_classes import register_caches
from onnxport.tracing.pytorch_deferred import weight_of
from onnxport.tracing.pytorch_modules import with_forward

MODEL, ENCODER, DECODER, STEP = "model", "encoder_model", "decoder_model", "decoder_with_past_model"
# Names of dimensions, as optimum writes them.
PAST, TOTAL, IMAGES = "past_sequence_length", "total_sequence_length", "image_batch_size"
SOURCE, DECODED, DECODED_PAST = "encoder_sequence_length", "decoder_sequence_length", "past_decoder_sequence_length"
_PAST_LENGTH, _NEW, _SOURCE_LENGTH = 4, 3, 6  # of the examples, all different
# A model is run for the shapes of its cache up to this size of its weights; a larger one with sizes alone.
_RUN_LIMIT = 1 << 30


class CacheError(InvalidInputError):
    """A cache is wanted of a model that gives none."""


@dataclass(frozen=True)
class Part:
    """One file."""

    name: str  # without its suffix
    module: torch.nn.Module
    inputs: dict[str, Any]  # example inputs by parameter, in the order of the signature
    dims: dict[str, dict[int, str]]  # names of the dimensions that vary
    note: str = ""  # for its report


def parts_of(model: PreTrainedModel, task: Task, sizes: Sizes) -> list[Part]:
    """The files that a model becomes, in the order in which they run.

    Raises:
        InvalidInputError: the model keeps no cache, or takes inputs that are not drawn.
    """
    register_caches()
    keep_cache(model, task.past)
    if model.config.is_encoder_decoder and model.can_generate():
        return _encoder_and_decoder(model, task, sizes)
    drawn = plain_inputs(model, sizes)
    if "position_ids" in parameters(model) and task.name == "text-generation":
        drawn["position_ids"] = draw("position_ids", sizes)
    drawn = {name: drawn[name] for name in parameters(model) if name in drawn}
    drawn |= _placeholders(model, drawn)
    if holds(type(model), PAIRED) and "pixel_values" in drawn:
        pictures = drawn["pixel_values"]
        more = torch.cat([pictures.tensor, pictures.tensor[:1].flip(-1)])
        drawn["pixel_values"] = Drawn(more, {**pictures.dims, 0: IMAGES})
    if task.past:
        return _with_cache(model, sizes, drawn)
    modality = MODALITIES.get(task.name)
    if modality is not None and modality.is_apart(type(model)):
        _check_whole(model, drawn, modality)
    return [_part(MODEL, model, drawn)]


def _check_whole(model: PreTrainedModel, drawn: Mapping[str, Drawn], modality: Modality) -> None:
    """Refuses one file of a model that takes more than pictures or sounds and tokens, such as sizes.

    Raises:
        InvalidInputError: it does not run on these alone.
    """
    try:
        _outputs(model, {key: item.tensor for key, item in drawn.items()})
    except InvalidInputError as error:
        raise InvalidInputError(f"{error}. Files of its parts: --task {modality.task}-with-past") from error


def _placeholders(model: PreTrainedModel, drawn: Mapping[str, Drawn]) -> dict[str, Drawn]:
    """Tokens with the marks that stand for a picture, as many of them as the model puts numbers in their places."""
    mark = PICTURES.mark(model.config)
    if mark is None or not {"input_ids", "pixel_values"} <= set(drawn):
        return {}
    try:
        with FakeTensorMode(allow_non_fake_inputs=True) as mode, torch.no_grad():
            features = model.get_image_features(mode.from_tensor(drawn["pixel_values"].tensor))
    except Exception:  # pictures that come with sizes or in parts: an error of the model's own, when it runs
        return {}
    given = getattr(features, "pooler_output", features)
    count = sum(item.numel() // item.shape[-1] for item in given) if isinstance(given, Sequence) else 0
    if isinstance(given, torch.Tensor):
        count = given.numel() // given.shape[-1]
    tokens = drawn["input_ids"]
    marked = with_marks(tokens.tensor, mark, count // ROWS)
    placed = {"input_ids": Drawn(marked, tokens.dims)}
    if "attention_mask" in drawn:
        placed["attention_mask"] = Drawn(torch.ones_like(marked), drawn["attention_mask"].dims)
    return placed


def in_float32(part: Part) -> Part:
    """A part that takes and gives float32, whatever its weights are in."""
    dtypes = [item.dtype for item in pytree.tree_leaves(part.inputs)]

    def forward(model: Any, original: Any, **inputs: Any) -> Any:
        leaves, tree = pytree.tree_flatten(inputs)
        taken = [item.to(dtype) for item, dtype in zip(leaves, dtypes, strict=True)]
        return _wide(original(model, **pytree.tree_unflatten(taken, tree)))

    inputs: dict[str, Any] = _wide(part.inputs)
    return Part(part.name, reshaped(part.module, forward, list(inputs)), inputs, part.dims, part.note)


def _wide(values: Any) -> Any:
    return pytree.tree_map_only(torch.Tensor, lambda item: item.float() if item.is_floating_point() else item, values)


def keep_cache(model: PreTrainedModel, keep: bool) -> None:
    """Has a model give a cache, or none."""
    configs = [model.config, *(getattr(model.config, name, None) for name in model.config.sub_configs)]
    for config in configs:
        if config is not None and hasattr(config, "use_cache"):
            config.use_cache = keep


def _part(name: str, module: torch.nn.Module, drawn: Mapping[str, Drawn]) -> Part:
    inputs = {key: item.tensor for key, item in drawn.items()}
    return Part(name, module, inputs, {key: dict(item.dims) for key, item in drawn.items()})


def _with_cache(model: PreTrainedModel, sizes: Sizes, prompt: Mapping[str, Drawn]) -> list[Part]:
    """One file for a cache of keys and values, which may be empty; for other states one for the prompt and one for a step."""
    name, cache = filled(model, {key: draw(key, sizes, _PAST_LENGTH).tensor for key in prompt})
    held = {path.rpartition(".")[2] for path in paths_of(cache)}
    if held <= {"key", "value"}:
        if type(cache) is DynamicCache:  # without the windows of single layers, which forget
            _, cache = filled(model, {"input_ids": draw("input_ids", sizes, _PAST_LENGTH).tensor, name: DynamicCache()})
        return [_step(MODEL, model, sizes, prompt, name, cache, _NEW)]
    first = {key: draw(key, sizes, LENGTH) for key in prompt}
    if not held & {"key", "value"}:
        prompt = {key: item for key, item in prompt.items() if key == "input_ids"}
    decoder = reshaped(model, partial(_from_the_beginning, name), list(first)) if fits(cache) else model
    return [_part(DECODER, decoder, first), _step(STEP, model, sizes, prompt, name, cache, 1)]


def _from_the_beginning(name: str, model: Any, original: Any, **inputs: Any) -> Any:
    return original(model, **inputs, **{name: states_of_any_prompt(model.config)})


def _step(
    part: str, model: PreTrainedModel, sizes: Sizes, prompt: Mapping[str, Drawn], name: str, cache: Any, new: int
) -> Part:
    """New tokens behind a cache of others."""
    drawn = {key: draw(key, sizes, new) for key in prompt}
    if "attention_mask" in drawn:
        mask = draw("attention_mask", sizes, _PAST_LENGTH + new).tensor
        drawn["attention_mask"] = Drawn(mask, {0: BATCH, 1: TOTAL})
    if "position_ids" in drawn:
        places = torch.arange(_PAST_LENGTH, _PAST_LENGTH + new).repeat(ROWS, 1)
        drawn["position_ids"] = Drawn(places, drawn["position_ids"].dims)
    if new == 1:
        drawn = {
            key: Drawn(item.tensor, {axis: dim for axis, dim in item.dims.items() if dim != SEQUENCE})
            for key, item in drawn.items()
        }
    plain = _part(part, model, drawn)
    inputs, dims = {**plain.inputs, name: cache}, {**plain.dims, name: {0: BATCH, 2: PAST}}
    order = [key for key in parameters(model) if key in inputs]
    return Part(part, model, {key: inputs[key] for key in order}, {key: dims[key] for key in order})


def filled(model: PreTrainedModel, inputs: Mapping[str, Any]) -> tuple[str, Any]:
    """The cache that a model gives, and the name of the parameter that takes it."""
    outputs = _outputs(model, inputs)
    names = parameters(model)
    for name, item in outputs.items():
        if is_cache(type(item)) and name in names:
            return name, item
    raise CacheError(f"{type(model).__name__} gives no cache that it takes: convert it for a task without 'with-past'")


def _outputs(model: PreTrainedModel, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    """The model's outputs; random numbers of their shapes where its weights stand for others.

    Raises:
        InvalidInputError: it does not run.
    """
    try:
        return _run(model, inputs)
    except Exception as error:  # whatever the model's code raises
        raise InvalidInputError(
            f"{type(model).__name__} of this configuration does not run on example inputs ({', '.join(inputs)}): "
            f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        ) from error


def _run(model: PreTrainedModel, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    with torch.no_grad():
        if all(weight_of(item) is None for item in model.parameters()):
            return dict(model(**inputs))
        if sum(item.numel() * item.element_size() for item in model.parameters()) <= _RUN_LIMIT:
            outputs = dict(model(**inputs))
        else:
            with FakeTensorMode(allow_non_fake_inputs=True) as mode:
                fakes = pytree.tree_map_only(torch.Tensor, mode.from_tensor, dict(inputs))
                outputs = dict(model(**fakes))
    draws = torch.Generator().manual_seed(0)

    def drawn(item: torch.Tensor) -> torch.Tensor:
        if isinstance(item, FakeTensor):
            item = torch.zeros(item.shape, dtype=item.dtype)
        return torch.randn(item.shape, generator=draws).to(item.dtype) if item.is_floating_point() else item

    real: Mapping[str, Any] = pytree.tree_map_only(torch.Tensor, drawn, outputs)
    return real


def paths_of(cache: object) -> list[str]:
    """Where the tensors of a cache stand in it."""
    pairs, _ = pytree.tree_flatten_with_path(cache)
    return [".".join(str(getattr(key, "key", key)) for key in path) for path, _ in pairs]


def _encoder_and_decoder(model: PreTrainedModel, task: Task, sizes: Sizes) -> list[Part]:
    drawn = {
        name: Drawn(item.tensor, {axis: SOURCE if dim == SEQUENCE else dim for axis, dim in item.dims.items()})
        for name, item in _encoder_inputs(model, sizes).items()
    }
    encoder = reshaped(model, _encode, list(drawn))
    parts = [_part(ENCODER, encoder, drawn)]
    tokens = Drawn(draw("input_ids", sizes, _NEW).tensor, {0: BATCH, 1: DECODED})
    start = {name: item.tensor for name, item in drawn.items()}
    outputs = _outputs(model, {**start, "decoder_input_ids": tokens.tensor})
    hidden = Drawn(outputs["encoder_last_hidden_state"], {0: BATCH, 1: SOURCE})
    first = {"input_ids": tokens, "encoder_hidden_states": hidden}
    masked = "attention_mask" in drawn and drawn["attention_mask"].tensor.shape[1] == hidden.tensor.shape[1]
    mask = {"encoder_attention_mask": drawn["attention_mask"]} if masked else {}
    if not hidden_varies(drawn):
        hidden = Drawn(hidden.tensor, {0: BATCH})
        first["encoder_hidden_states"] = hidden
    names = [*mask, *first]
    parts.append(_part(DECODER, reshaped(model, _decode, names), {**mask, **first}))
    if task.past:
        parts.append(_decoder_step(model, mask, outputs, sizes))
    return parts


def hidden_varies(drawn: Mapping[str, Drawn]) -> bool:
    """Whether the length of what an encoder reads varies."""
    return any(SOURCE in item.dims.values() for item in drawn.values())


def _encoder_inputs(model: PreTrainedModel, sizes: Sizes) -> dict[str, Drawn]:
    """Examples of what the encoder reads."""
    drawn = plain_inputs(model, sizes)
    takes = inspect.signature(model.get_encoder().forward).parameters
    open_ended = any(item.kind is item.VAR_KEYWORD for item in takes.values())
    names = [name for name in drawn if name == model.main_input_name or name in takes or open_ended]
    longer = {name: draw(name, sizes, _SOURCE_LENGTH) for name in names if drawn[name].dims.get(1) == SEQUENCE}
    sounds = model.main_input_name in ("input_values", "input_features")
    return {name: drawn[name] if sounds else longer.get(name, drawn[name]) for name in names}


def _decoder_step(model: PreTrainedModel, mask: dict[str, Drawn], outputs: Mapping[str, Any], sizes: Sizes) -> Part:
    cache = outputs.get("past_key_values")
    if not isinstance(cache, EncoderDecoderCache):
        raise CacheError(f"{type(model).__name__} gives no cache: convert it for a task without 'with-past'")
    token = Drawn(draw("input_ids", sizes, 1).tensor, {0: BATCH})
    names = [*mask, "input_ids", "past_key_values"]
    plain = _part(STEP, reshaped(model, _decode, names), {**mask, "input_ids": token})
    cached = {0: BATCH, 2: DECODED_PAST}
    return Part(
        STEP, plain.module, {**plain.inputs, "past_key_values": cache}, {**plain.dims, "past_key_values": cached}
    )


def reshaped(model: torch.nn.Module, forward: Any, names: list[str]) -> torch.nn.Module:
    """The model with a forward that takes inputs of these names."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    signature = inspect.Signature([inspect.Parameter(name, kind) for name in names])
    forward = _Bound(forward, type(model).forward, tuple(names))
    return with_forward(model, types.MethodType(forward.function(), model), signature)


@dataclass(frozen=True)
class _Bound:
    """A forward of ours over the model's own."""

    call: Any
    original: Any
    names: tuple[str, ...]

    def function(self) -> Any:
        """A plain function, as a method is bound from."""
        call, original, names = self.call, self.original, self.names

        def forward(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
            return call(self, original, **{**dict(zip(names, args, strict=False)), **kwargs})

        return forward


def _encode(model: Any, _: Any, **inputs: Any) -> dict[str, torch.Tensor]:
    return {"last_hidden_state": model.get_encoder()(**inputs)[0]}


class _Encoded(BaseModelOutput):
    """What an encoder gives: `None` for what is not there, which classes of a model's own have (Moonshine's mask)."""

    def __getattr__(self, name: str) -> None:
        if name.startswith("__"):
            raise AttributeError(name)


def _decode(
    model: Any,
    original: Any,
    input_ids: torch.Tensor,
    encoder_hidden_states: torch.Tensor | None = None,
    encoder_attention_mask: torch.Tensor | None = None,
    past_key_values: Any = None,
) -> dict[str, Any]:
    """One run of the decoder; what has been read of the encoder stands in the cache."""
    if encoder_hidden_states is None:
        keys = past_key_values.cross_attention_cache.layers[0].keys
        encoder_hidden_states = keys.new_zeros((keys.shape[0], keys.shape[2], 1))
    optional = {} if encoder_attention_mask is None else {"attention_mask": encoder_attention_mask}
    outputs = original(
        model,
        decoder_input_ids=input_ids,
        encoder_outputs=_Encoded(last_hidden_state=encoder_hidden_states),
        past_key_values=past_key_values,
        **optional,
    )
    given = outputs.past_key_values
    if given is None:
        return {"logits": outputs.logits}
    if past_key_values is None:
        return {"logits": outputs.logits, "past_key_values": given}
    layers = enumerate(given.self_attention_cache.layers)  # what was read of the encoder stays as it came
    return {
        "logits": outputs.logits,
        "present": {str(i): {"decoder": {"key": layer.keys, "value": layer.values}} for i, layer in layers},
    }
