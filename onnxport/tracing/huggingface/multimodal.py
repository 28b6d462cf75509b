"""A model that writes about pictures or sounds: a file for these, one for its table of tokens, one for its decoder with a cache.

The three have the names that are usual for them on the Hugging Face Hub. What the first gives stands in the places of the marks
among what the second gives, before the third.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from transformers import DynamicCache, PreTrainedConfig, PreTrainedModel

from onnxport.tracing.huggingface.examples import BATCH, ROWS, SEQUENCE, Drawn, Sizes, draw, parameters
from onnxport.tracing.huggingface.modalities import (
    Form,
    InnerFeatures,
    Modality,
    features,
    form_of,
    more_of_it,
    with_marks,
)
from onnxport.tracing.huggingface.parts import (
    PAST,
    TOTAL,
    CacheError,
    Part,
    filled,
    keep_cache,
    paths_of,
    reshaped,
)
from onnxport.tracing.pytorch_classes import register_caches

EMBEDDING, DECODER_MERGED = "embed_tokens", "decoder_model_merged"
_PAST_LENGTH, _NEW = 4, 3  # of the examples


def has_three_axes(config: PreTrainedConfig) -> bool:
    """Whether places of tokens are of three axes: time, height and width."""
    rotary = getattr(config.get_text_config(decoder=True), "rope_parameters", None) or {}
    return "mrope_section" in rotary


def multimodal_parts(model: PreTrainedModel, sizes: Sizes, modality: Modality) -> list[Part]:
    """The three files of a model, in the order in which they run.

    Raises:
        CacheError: the model keeps other states than keys and values.
        InvalidInputError: it takes pictures or sounds of a form that is not known.
    """
    register_caches()
    keep_cache(model, True)
    form = form_of(model, sizes, modality)
    _check_together(model, sizes, modality, form)
    first = Part(
        modality.file,
        reshaped(model, partial(_perceived, modality, form.fixed), list(form.inputs)),
        {name: item.tensor for name, item in form.inputs.items()},
        {name: dict(item.dims) for name, item in form.inputs.items()},
        f"the trace holds for {modality.noun}s of {form.note} alone" if form.fixed else "",
    )
    tokens = draw("input_ids", sizes)
    table = Part(
        EMBEDDING, reshaped(model, _embedded, ["input_ids"]), {"input_ids": tokens.tensor}, {"input_ids": tokens.dims}
    )
    return [first, table, _decoder(model, sizes)]


class _Reached(Exception):
    """The layers of the text are reached."""


def _check_together(model: PreTrainedModel, sizes: Sizes, modality: Modality, form: Form) -> None:
    """Refuses a model whose text's layers take something else beside marks than they take beside tokens alone.

    Raises:
        InnerFeatures: they do, or the model does not run on a picture or a sound among tokens.
    """
    mark = modality.mark(model.config)
    with torch.no_grad():
        count = len(features(model, modality, form.tensors))
    rows = form.rows
    if mark is None:
        raise InnerFeatures(f"{type(model).__name__}: its configuration names no token for {modality.noun}s")
    tokens = with_marks(draw("input_ids", sizes).tensor[:rows], mark, count // rows)
    places = torch.arange(tokens.shape[1]).repeat(rows, 1)
    shared = {"attention_mask": torch.ones_like(tokens), "use_cache": False}
    if "position_ids" in parameters(model):
        shared["position_ids"] = places.repeat(3, 1, 1) if has_three_axes(model.config) else places
    kinds = {"mm_token_type_ids": (tokens == mark).int()} if "mm_token_type_ids" in parameters(model) else {}
    whole = _taken_by_layers(model, modality, {"input_ids": tokens, **form.tensors, **kinds, **shared})
    with torch.no_grad():
        embedded = model.get_input_embeddings()(tokens)
    apart = _taken_by_layers(model, modality, {"inputs_embeds": embedded, **shared})
    names = [name for name in whole.keys() | apart.keys() if not _alike(whole.get(name), apart.get(name))]
    if names:
        raise more_of_it(model, modality, sorted(names))


def _taken_by_layers(model: PreTrainedModel, modality: Modality, inputs: dict[str, Any]) -> dict[str, Any]:
    """What the text's model and the first of its layers take, but for the rows themselves."""
    taken: dict[str, Any] = {}
    text = model.get_decoder()
    names = list(inspect.signature(type(text.layers[0]).forward).parameters)[2:]  # behind the layer and the rows

    def entered(_: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        taken.update({name: item for name, item in kwargs.items() if item is not None})

    def reached(_: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        taken.update({**dict(zip(names, args[1:], strict=False)), **kwargs})
        raise _Reached

    handles = [
        text.register_forward_pre_hook(entered, with_kwargs=True),
        text.layers[0].register_forward_pre_hook(reached, with_kwargs=True),
    ]
    try:
        with torch.no_grad():
            model(**inputs)
    except _Reached:
        pass
    except Exception as error:  # whatever the model's code raises
        raise InnerFeatures(
            f"{type(model).__name__} does not run on a {modality.noun} among tokens: {error}"
        ) from error
    finally:
        for handle in handles:
            handle.remove()
    return {name: item for name, item in taken.items() if name not in ("hidden_states", "inputs_embeds", "input_ids")}


def _alike(one: object, other: object) -> bool:
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return one.shape == other.shape and torch.equal(one, other)
    if isinstance(one, (tuple, list)) and isinstance(other, (tuple, list)):
        return len(one) == len(other) and all(map(_alike, one, other))
    return type(one) is type(other)


def _perceived(
    modality: Modality, fixed: Mapping[str, torch.Tensor], model: Any, _: Any, **inputs: torch.Tensor
) -> dict[str, torch.Tensor]:
    return {modality.output: features(model, modality, {**inputs, **fixed})}


def _embedded(model: Any, _: Any, input_ids: torch.Tensor) -> dict[str, torch.Tensor]:
    return {"inputs_embeds": model.get_input_embeddings()(input_ids)}


def _decoder(model: PreTrainedModel, sizes: Sizes) -> Part:
    """The decoder, which takes rows of the table and of what was seen behind a cache that may be empty."""
    before = draw("input_ids", sizes, _PAST_LENGTH).tensor
    name, cache = filled(model, {"input_ids": before, "past_key_values": DynamicCache()})
    if not {path.rpartition(".")[2] for path in paths_of(cache)} <= {"key", "value"}:
        raise CacheError(
            f"{type(model).__name__} keeps other states than keys and values: convert it for a task without 'with-past'"
        )
    draws = torch.Generator().manual_seed(7)
    width = int(model.config.get_text_config(decoder=True).hidden_size)
    rows = Drawn(torch.randn(ROWS, _NEW, width, generator=draws).to(model.dtype), {0: BATCH, 1: SEQUENCE})
    drawn = {"inputs_embeds": rows}
    mask = draw("attention_mask", sizes, _PAST_LENGTH + _NEW).tensor
    drawn["attention_mask"] = Drawn(mask, {0: BATCH, 1: TOTAL})
    if "position_ids" in parameters(model):
        places = torch.arange(_PAST_LENGTH, _PAST_LENGTH + _NEW).repeat(ROWS, 1)
        drawn["position_ids"] = Drawn(places, {0: BATCH, 1: SEQUENCE})
        if has_three_axes(model.config):
            drawn["position_ids"] = Drawn(places.repeat(3, 1, 1), {1: BATCH, 2: SEQUENCE})
    inputs: dict[str, Any] = {**{key: item.tensor for key, item in drawn.items()}, name: cache}
    dims = {**{key: dict(item.dims) for key, item in drawn.items()}, name: {0: BATCH, 2: PAST}}
    return Part(DECODER_MERGED, reshaped(model, _continued, list(inputs)), inputs, dims)


def _continued(model: Any, original: Any, **inputs: Any) -> dict[str, Any]:
    outputs = original(model, **inputs)
    return {"logits": outputs.logits, "past_key_values": outputs.past_key_values}
