"""What models of text take beside tokens, pictures or sounds, and the forms in which they take it."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from transformers import PreTrainedConfig, PreTrainedModel

from onnxport.errors import InvalidInputError
from onnxport.tracing.huggingface.examples import BATCH, FRAMES, ROWS, Drawn, Sizes

_GRID = (8, 12)  # patches of a picture that comes in patches, by height and width: whole blocks of 4
_PIECES = 5  # that a picture is cut into, at most
_MASKS = ("input_features_mask", "feature_attention_mask", "attention_mask", "padding_mask")  # of a sound
_INNER = frozenset(
    "last_hidden_state pooler_output hidden_states attentions image_hidden_states image_embeds attention_mask".split()
)


class InnerFeatures(InvalidInputError):
    """What is seen or heard goes elsewhere than among the tokens."""


@dataclass(frozen=True)
class Modality:
    """What stands among tokens, and how transformers names it."""

    noun: str
    task: str
    method: str  # of a model: gives the rows that stand in the places of the marks
    main: tuple[str, ...]  # the method's own parameter, one of these
    marks: tuple[str, ...]  # settings that tell the mark, one of these
    file: str
    output: str

    def mark(self, config: PreTrainedConfig) -> int | None:
        """The token in whose places it stands."""
        marks = (getattr(config, name, None) for name in self.marks)
        return next((mark for mark in marks if isinstance(mark, int)), None)

    def is_apart(self, kind: type[PreTrainedModel]) -> bool:
        """Whether a class computes it apart from the rest, and the rest goes by the order of tokens alone."""
        names = inspect.signature(kind.forward).parameters
        return hasattr(kind, self.method) and "inputs_embeds" in names and "token_type_ids" not in names


PICTURES = Modality(
    "picture",
    "image-text-to-text",
    "get_image_features",
    ("pixel_values",),
    ("image_token_id", "image_token_index"),
    "vision_encoder",
    "image_features",
)
SOUNDS = Modality(
    "sound",
    "audio-text-to-text",
    "get_audio_features",
    ("input_features", "input_values"),
    ("audio_token_id", "audio_token_index"),
    "audio_encoder",
    "audio_features",
)
MODALITIES = {item.task: item for item in (PICTURES, SOUNDS)}


@dataclass(frozen=True)
class Form:
    """An example of what a model sees or hears, as it takes it."""

    inputs: dict[str, Drawn]
    fixed: dict[str, torch.Tensor]  # its sizes, or which of its frames count, which a file holds as they are

    @property
    def tensors(self) -> dict[str, torch.Tensor]:
        """The inputs and what is fixed."""
        return {**{name: item.tensor for name, item in self.inputs.items()}, **self.fixed}

    @property
    def note(self) -> str:
        """What a file holds as it is."""
        items = ((name, item.tolist() if item.numel() < 8 else "1 throughout") for name, item in self.fixed.items())
        return ", ".join(f"{name}={value}" for name, value in items)

    @property
    def rows(self) -> int:
        """How many pictures or sounds these are."""
        return ROWS if any(item.dims for item in self.inputs.values()) else 1


def form_of(model: PreTrainedModel, sizes: Sizes, modality: Modality) -> Form:
    """The first form that the model takes.

    Raises:
        InvalidInputError: it takes none of those that are known.
    """
    first: Exception | None = None
    for form in _forms(model, sizes, modality):
        try:
            with torch.no_grad():
                features(model, modality, form.tensors)
            if not form.fixed and modality is SOUNDS:
                form = _decided(model, form)
        except InnerFeatures:
            raise
        except Exception as error:  # whatever the model's code raises
            first = first or error
            continue
        return form
    raise InvalidInputError(
        f"{type(model).__name__} takes {modality.noun}s of a form that is not known: pass the model itself, with inputs. "
        f"{type(first).__name__}: {first}"
    ) from first


def features(model: PreTrainedModel, modality: Modality, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    """What a model sees in pictures or hears in sounds, a row for each mark among the tokens.

    Raises:
        InnerFeatures: inner layers of its decoder take more of it.
    """
    given = getattr(model, modality.method)(**inputs)
    more = [name for name in (given if isinstance(given, dict) else ()) if name not in _INNER]
    if more:
        raise more_of_it(model, modality, more)
    rows = getattr(given, "pooler_output", given)
    rows = torch.cat(list(rows), 0) if isinstance(rows, (list, tuple)) else rows
    return rows.flatten(0, -2)


def _decided(model: PreTrainedModel, form: Form) -> Form:
    """A form whose mask may be any, or one whole sound where the model's Python code goes by the numbers of the mask."""
    masks = [name for name in form.inputs if name in _MASKS]
    if not masks:
        return form
    whole = {name: Drawn(item.tensor[:1], {}) for name, item in form.inputs.items()}
    try:
        with FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv()) as mode, torch.no_grad():
            features(model, SOUNDS, {name: mode.from_tensor(item) for name, item in form.tensors.items()})
    except Exception:  # whatever torch raises where Python asks for a value
        inputs = {name: item for name, item in whole.items() if name not in masks}
        return Form(inputs, {name: whole[name].tensor for name in masks})
    return form


def more_of_it(model: object, modality: Modality, names: list[str]) -> InnerFeatures:
    """The error of a model that takes more than the rows."""
    return InnerFeatures(
        f"{type(model).__name__} takes more of a {modality.noun} than stands among its tokens, {', '.join(names)}: files "
        "for its parts would write something else. Convert its parts as modules"
    )


def with_marks(tokens: torch.Tensor, mark: int, count: int) -> torch.Tensor:
    """Tokens, with so many marks behind the first of each row and none elsewhere."""
    words = torch.where(tokens == mark, mark - 1 if mark else 1, tokens)
    return torch.cat([words[:, :1], torch.full((len(words), count), mark), words[:, 1:]], 1)


def _forms(model: PreTrainedModel, sizes: Sizes, modality: Modality) -> Iterator[Form]:
    takes = _parameters(model, modality.method)
    draws = torch.Generator().manual_seed(5)

    def numbers(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=draws).to(model.dtype)

    if modality is SOUNDS:
        yield from _sounds(takes, sizes, numbers)
        return
    channels, height, width = sizes.picture
    if "image_grid_thw" in takes:
        grid = torch.tensor([[1, *_GRID]])
        for count in sizes.numbers_of_a_patch:
            yield Form({"pixel_values": Drawn(numbers(int(grid.prod()), count), {})}, {"image_grid_thw": grid})
        return
    needs_sizes = "image_sizes" in takes
    fixed = {"image_sizes": torch.tensor([[height, width]])} if needs_sizes else {}
    rows, dims = (1, {}) if needs_sizes else (ROWS, {0: BATCH})
    yield Form({"pixel_values": Drawn(numbers(rows, channels, height, width), dims)}, fixed)
    for pieces in range(1, _PIECES + 1):
        yield Form({"pixel_values": Drawn(numbers(rows, pieces, channels, height, width), dims)}, fixed)


def _sounds(takes: Collection[str], sizes: Sizes, numbers: Any) -> Iterator[Form]:
    """Spectra, bins first or frames first, and which frames count where the model asks."""
    main = next((name for name in SOUNDS.main if name in takes), SOUNDS.main[0])
    mask = next((name for name in _MASKS if name in takes), None)
    for bins in sizes.bins:
        for shape, axis, varies in sizes.spectra(bins):
            dims = {0: BATCH, axis: FRAMES} if varies else {0: BATCH}
            inputs = {main: Drawn(numbers(ROWS, *shape), dims)}
            if mask is not None:
                frames = shape[axis - 1]
                ones = torch.ones(ROWS, frames, dtype=torch.int64)
                inputs[mask] = Drawn(ones, {0: BATCH, 1: FRAMES} if varies else {0: BATCH})
            yield Form(inputs, {})


def _parameters(model: Any, method: str) -> Collection[str]:
    """Names of the parameters of a method, of the inner model's where it passes all on."""
    names = inspect.signature(getattr(model, method)).parameters
    inner = getattr(model, "model", None)
    if any(item.kind is item.VAR_POSITIONAL for item in names.values()) and hasattr(inner, method):
        return inspect.signature(getattr(inner, method)).parameters
    return names
