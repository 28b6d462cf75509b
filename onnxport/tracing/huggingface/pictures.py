"""A model that writes about pictures: a file for what it sees, one for its table of tokens, one for its decoder with a cache.

The three have the names that are usual for them on the Hugging Face Hub. What the first gives stands in the places of the marks
among what the second gives, before the third.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from transformers import DynamicCache, PreTrainedConfig, PreTrainedModel

from onnxport.errors import InvalidInputError
from onnxport.tracing.huggingface.examples import BATCH, ROWS, SEQUENCE, Drawn, Sizes, draw, parameters
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
from onnxport.tracing.huggingface.tasks import mark_of
from onnxport.tracing.pytorch_classes import register_caches

VISION, EMBEDDING, DECODER_MERGED = "vision_encoder", "embed_tokens", "decoder_model_merged"
_PAST_LENGTH, _NEW = 4, 3  # of the examples
_GRID = (8, 12)  # patches of a picture that comes in patches, by height and width: whole blocks of 4
_PIECES = 5  # that a picture is cut into, at most


class InnerPictures(InvalidInputError):
    """What is seen goes elsewhere than among the tokens."""


def _more_of_it(model: object, names: list[str]) -> InnerPictures:
    return InnerPictures(
        f"{type(model).__name__} takes more of a picture than stands among its tokens, {', '.join(names)}: files for its "
        "parts would write something else. Convert its parts as modules"
    )


@dataclass(frozen=True)
class Pictures:
    """A picture as a model takes it."""

    values: Drawn
    fixed: dict[str, torch.Tensor]  # its sizes, which a file holds as they are


def has_three_axes(config: PreTrainedConfig) -> bool:
    """Whether places of tokens are of three axes: time, height and width."""
    rotary = getattr(config.get_text_config(decoder=True), "rope_parameters", None) or {}
    return "mrope_section" in rotary


def picture_parts(model: PreTrainedModel, sizes: Sizes) -> list[Part]:
    """The three files of a model, in the order in which they run.

    Raises:
        CacheError: the model keeps other states than keys and values.
        InvalidInputError: it takes pictures of a form that is not known.
    """
    register_caches()
    keep_cache(model, True)
    pictures = pictures_of(model, sizes)
    _check_together(model, sizes, pictures)
    vision = Part(
        VISION,
        reshaped(model, partial(_seen, pictures.fixed), ["pixel_values"]),
        {"pixel_values": pictures.values.tensor},
        {"pixel_values": dict(pictures.values.dims)},
        ", ".join(
            f"the trace holds for pictures of {name}={size.tolist()} alone" for name, size in pictures.fixed.items()
        ),
    )
    tokens = draw("input_ids", sizes)
    table = Part(
        EMBEDDING, reshaped(model, _embedded, ["input_ids"]), {"input_ids": tokens.tensor}, {"input_ids": tokens.dims}
    )
    return [vision, table, _decoder(model, sizes)]


def pictures_of(model: PreTrainedModel, sizes: Sizes) -> Pictures:
    """The first form of pictures that the model takes.

    Raises:
        InvalidInputError: it takes none of those that are known.
    """
    first: Exception | None = None
    for form in _forms(model, sizes):
        try:
            with torch.no_grad():
                seen(model, form.values.tensor, form.fixed)
        except InnerPictures:
            raise
        except Exception as error:  # whatever the model's code raises
            first = first or error
            continue
        return form
    raise InvalidInputError(
        f"{type(model).__name__} takes pictures of a form that is not known: pass the model itself, with inputs. "
        f"{type(first).__name__}: {first}"
    ) from first


class _Reached(Exception):
    """The layers of the text are reached."""


def _check_together(model: PreTrainedModel, sizes: Sizes, pictures: Pictures) -> None:
    """Refuses a model whose text's layers take something else beside pictures than they take beside tokens alone.

    Raises:
        InnerPictures: they do, or the model does not run on a picture among tokens.
    """
    mark, tokens = mark_of(model.config), draw("input_ids", sizes).tensor
    with torch.no_grad():
        count = len(seen(model, pictures.values.tensor, pictures.fixed))
    rows = 1 if not pictures.values.dims else ROWS
    if mark is None:
        raise InnerPictures(f"{type(model).__name__}: its configuration names no token for pictures")
    words = torch.where(tokens[:rows] == mark, mark - 1 if mark else 1, tokens[:rows])
    tokens = torch.cat([words[:, :1], torch.full((rows, count // rows), mark), words[:, 1:]], 1)
    places = torch.arange(tokens.shape[1]).repeat(rows, 1)
    shared = {"attention_mask": torch.ones_like(tokens), "use_cache": False}
    if "position_ids" in parameters(model):
        shared["position_ids"] = places.repeat(3, 1, 1) if has_three_axes(model.config) else places
    kinds = {"mm_token_type_ids": (tokens == mark).int()} if "mm_token_type_ids" in parameters(model) else {}
    pictured = {"input_ids": tokens, "pixel_values": pictures.values.tensor, **pictures.fixed, **kinds}
    whole = _taken_by_layers(model, {**pictured, **shared})
    with torch.no_grad():
        embedded = model.get_input_embeddings()(tokens)
    apart = _taken_by_layers(model, {"inputs_embeds": embedded, **shared})
    names = [name for name in whole.keys() | apart.keys() if not _alike(whole.get(name), apart.get(name))]
    if names:
        raise _more_of_it(model, sorted(names))


def _taken_by_layers(model: PreTrainedModel, inputs: dict[str, Any]) -> dict[str, Any]:
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
        raise InnerPictures(f"{type(model).__name__} does not run on a picture among tokens: {error}") from error
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


def _forms(model: PreTrainedModel, sizes: Sizes) -> Iterator[Pictures]:
    takes = inspect.signature(model.get_image_features).parameters
    draws = torch.Generator().manual_seed(5)
    channels, height, width = sizes.picture

    def numbers(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=draws).to(model.dtype)

    if "image_grid_thw" in takes:
        grid = torch.tensor([[1, *_GRID]])
        for features in sizes.numbers_of_a_patch:
            yield Pictures(Drawn(numbers(int(grid.prod()), features), {}), {"image_grid_thw": grid})
        return
    needs_sizes = "image_sizes" in takes
    fixed = {"image_sizes": torch.tensor([[height, width]])} if needs_sizes else {}
    rows, dims = (1, {}) if needs_sizes else (ROWS, {0: BATCH})
    yield Pictures(Drawn(numbers(rows, channels, height, width), dims), fixed)
    for pieces in range(1, _PIECES + 1):
        yield Pictures(Drawn(numbers(rows, pieces, channels, height, width), dims), fixed)


_INNER = frozenset("last_hidden_state pooler_output hidden_states attentions image_hidden_states image_embeds".split())


def seen(model: Any, pixel_values: torch.Tensor, fixed: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """What a model sees in pictures, a row for each mark among the tokens.

    Raises:
        InnerPictures: inner layers of its decoder take more of it.
    """
    given = model.get_image_features(pixel_values, **fixed)
    more = [name for name in (given if isinstance(given, Mapping) else ()) if name not in _INNER]
    if more:
        raise _more_of_it(model, more)
    features = getattr(given, "pooler_output", given)
    features = torch.cat(list(features), 0) if isinstance(features, (list, tuple)) else features
    return features.flatten(0, -2)


def _seen(fixed: Mapping[str, torch.Tensor], model: Any, _: Any, pixel_values: torch.Tensor) -> dict[str, torch.Tensor]:
    return {"image_features": seen(model, pixel_values, fixed)}


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
