"""Example inputs of a model of transformers, by the names of its parameters and the sizes in its configuration."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedConfig, PreTrainedModel

from onnxport.errors import InvalidInputError

BATCH, SEQUENCE, FRAMES = "batch_size", "sequence_length", "frames"
ROWS, LENGTH = 2, 5  # of the examples
_SAMPLES = 4320  # of a sound: a quarter of a second, an odd number of frames, which models that halve these fill up
_PICTURE = 224  # pixels, where no configuration tells
_FRAMES = 100
_WHOLE_FRAMES = 96  # for models that take several frames together and have no use for a rest
_BINS = (
    "feature_projection_input_dim",
    "num_mel_bins",
    "input_feat_per_channel",
    "feature_size",
    "num_mel_features",
    "input_dim",
)
_BOX = 1000  # pages are so wide and high (LayoutLM)

Dims = dict[int, str]  # names of the dimensions that vary


@dataclass(frozen=True)
class Drawn:
    """An example of one input."""

    tensor: torch.Tensor
    dims: Dims


class Sizes:
    """What a configuration and the files beside it tell of the inputs."""

    def __init__(self, config: PreTrainedConfig, folder: Path) -> None:
        self.config = config
        self._folder = folder

    @cached_property
    def vocabulary(self) -> int:
        """How many tokens there are, in the fewest rows of a table that any part of the configuration tells of."""
        return int(min(self._every("vocab_size"), default=100))

    @cached_property
    def kinds_of_token(self) -> int:
        """How many kinds of token there are (`token_type_ids`)."""
        return int(self._first("type_vocab_size", default=1) or 1)

    @cached_property
    def picture(self) -> tuple[int, int, int]:
        """Channels, height and width of a picture."""
        size = self._first("image_size", default=None)
        if size is None:
            processor = self._json("preprocessor_config.json")
            size = processor.get("crop_size") or processor.get("size") or _PICTURE
        if isinstance(size, Mapping):
            side = size.get("shortest_edge", size.get("longest_edge", _PICTURE))
            size = (size.get("height", side), size.get("width", side))
        height, width = (size, size) if isinstance(size, int) else tuple(size)[-2:]
        return int(self._first("num_channels", "in_channels", "in_chans", default=3)), int(height), int(width)

    @cached_property
    def frames(self) -> int:
        """How many pictures a video has, where the model takes these; else 0."""
        return int(self._first("num_frames", default=0) or 0)

    @cached_property
    def patch(self) -> int:
        """Width and height of a patch of a picture."""
        size = self._first("patch_size", default=16)
        return int(size if isinstance(size, int) else size[0])

    @cached_property
    def numbers_of_a_patch(self) -> list[int]:
        """How many numbers a patch may have that comes by itself: of one picture, or of as many as the model takes at a time."""
        channels = int(self._first("in_channels", "in_chans", "num_channels", default=3))
        times = int(self._first("temporal_patch_size", default=1))
        return list(dict.fromkeys([channels * times * self.patch**2, channels * self.patch**2]))

    @cached_property
    def features(self) -> tuple[int, int, bool]:
        """Bins of a spectrum, frames, and whether the bins come first."""
        bins = self.bins[0]
        longest = self._first("max_source_positions", default=None)
        if hasattr(self.config, "max_length") and hasattr(self.config, "frequency_stride"):
            return int(bins), int(self.config.max_length), False
        projected = any(hasattr(self.config, name) for name in ("conv_kernel_sizes", "feature_projection_input_dim"))
        bins_first = longest is not None and not projected
        return int(bins), 2 * int(longest) if bins_first else _FRAMES, bins_first

    @cached_property
    def bins(self) -> list[int]:
        """How many bins a spectrum may have, the likeliest first."""
        known = [*map(int, self._every(*_BINS)), 80]
        together = int(self._first("num_stacked_frames", default=1))
        return list(dict.fromkeys([bins * times for times in (together, 1) for bins in known]))

    def spectra(self, bins: int) -> Iterator[tuple[tuple[int, int], int, bool]]:
        """Shapes of a spectrum of so many bins, which axis of a batch of them its frames are, and whether these may vary."""
        longest = self._first("max_source_positions", default=None)
        if longest is not None:
            yield (bins, 2 * int(longest)), 2, False
        for frames in (_FRAMES, _WHOLE_FRAMES):
            yield (frames, bins), 1, True
            yield (bins, frames), 2, True

    @cached_property
    def series(self) -> tuple[int, int, int]:
        """Steps of a time series that a model reads, variables in a step (0: a number alone), and numbers that tell its time."""
        lags = getattr(self.config, "lags_sequence", None) or [0]
        single = not hasattr(self.config, "num_input_channels") and int(getattr(self.config, "input_size", 1)) == 1
        variables = 0 if single else int(self._first("num_input_channels", "input_size", default=1))
        return int(self.config.context_length) + max(lags), variables, int(self._first("num_time_features", default=0))

    @cached_property
    def page(self) -> int:
        """Width and height of a page, in the units of `bbox`."""
        return min(_BOX, int(self._first("max_2d_position_embeddings", default=_BOX)))

    @cached_property
    def sound_channels(self) -> int:
        """Channels of a sound where a model takes these as an axis, as those that encode sounds do; else 0."""
        encodes = any(hasattr(self.config, name) for name in ("codebook_size", "codebook_dim", "audio_channels"))
        return int(self._first("audio_channels", default=1)) if encodes and not hasattr(self.config, "conv_dim") else 0

    @cached_property
    def takes_audio_mask(self) -> bool:
        """Whether the preprocessor of the folder gives a mask beside a sound."""
        return bool(self._json("preprocessor_config.json").get("return_attention_mask", False))

    @cached_property
    def has_pictures(self) -> bool:
        """Whether the model looks at pictures."""
        return any(self._of(self.config, name) is not None for name in ("vision_config", "image_size", "patch_size"))

    def _first(self, *names: str, default: Any) -> Any:
        """The first of several settings of the configuration, or of those inside it: of text, pictures and sound."""
        return next(iter(self._every(*names)), default)

    def _every(self, *names: str) -> list[Any]:
        inner = (
            "text_config",
            "vision_config",
            "audio_config",
            "encoder",
            "encoder_config",
            "decoder",
            "backbone_config",
        )
        configs = [self.config, *(item for name in inner if (item := self._of(self.config, name)) is not None)]
        values = (self._of(config, name) for config in configs for name in names)
        return [value for value in values if value is not None]

    @staticmethod
    def _of(config: object, name: str) -> Any:
        return config.get(name) if isinstance(config, Mapping) else getattr(config, name, None)

    def _json(self, name: str) -> dict[str, Any]:
        try:
            content = json.loads((self._folder / name).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return content if isinstance(content, dict) else {}


def parameters(model: PreTrainedModel) -> list[str]:
    """Names of the parameters of a model's forward."""
    return list(inspect.signature(model.forward).parameters)


def required(model: PreTrainedModel) -> set[str]:
    """Names of those parameters of a model's forward that have no default."""
    items = inspect.signature(model.forward).parameters.values()
    return {item.name for item in items if item.default is item.empty}


def draw(name: str, sizes: Sizes, length: int = LENGTH) -> Drawn:
    """An example of the input `name`, the same each time.

    Raises:
        InvalidInputError: nothing is known of inputs of that name.
    """
    maker = _MAKERS.get(name)
    if maker is None:
        raise InvalidInputError(
            f"the model's main input {name!r} is of a kind that is not drawn: pass the model itself"
        )
    return maker(sizes, length, torch.Generator().manual_seed(len(name) + length))


def _ids(sizes: Sizes, length: int, draws: torch.Generator) -> Drawn:
    low = min(5, sizes.vocabulary - 1)  # the first tokens mark beginnings, ends and gaps
    tokens = torch.randint(low, sizes.vocabulary, (ROWS, length), generator=draws)
    return Drawn(tokens, {0: BATCH, 1: SEQUENCE})


def _mask(sizes: Sizes, length: int, draws: torch.Generator) -> Drawn:
    return Drawn(torch.ones(ROWS, length, dtype=torch.int64), {0: BATCH, 1: SEQUENCE})


def _kinds(sizes: Sizes, length: int, draws: torch.Generator) -> Drawn:
    kinds = torch.randint(0, sizes.kinds_of_token, (ROWS, length), generator=draws)
    return Drawn(kinds, {0: BATCH, 1: SEQUENCE})


def _places(sizes: Sizes, length: int, draws: torch.Generator) -> Drawn:
    return Drawn(torch.arange(length).repeat(ROWS, 1), {0: BATCH, 1: SEQUENCE})


def _boxes(sizes: Sizes, length: int, draws: torch.Generator) -> Drawn:
    corners = torch.randint(0, sizes.page, (ROWS, length, 2, 2), generator=draws).sort(dim=2).values
    return Drawn(corners.reshape(ROWS, length, 4), {0: BATCH, 1: SEQUENCE})


def _picture(sizes: Sizes, length: int, draws: torch.Generator) -> Drawn:
    if sizes.frames:
        return Drawn(torch.randn(ROWS, sizes.frames, *sizes.picture, generator=draws), {0: BATCH})
    return Drawn(torch.randn(ROWS, *sizes.picture, generator=draws), {0: BATCH})


def _picture_mask(sizes: Sizes, length: int, draws: torch.Generator) -> Drawn:
    return Drawn(torch.ones(ROWS, *sizes.picture[1:], dtype=torch.int64), {0: BATCH})


def _sound(sizes: Sizes, length: int, draws: torch.Generator) -> Drawn:
    if sizes.sound_channels:
        return Drawn(torch.randn(ROWS, sizes.sound_channels, _SAMPLES, generator=draws), {0: BATCH, 2: SEQUENCE})
    return Drawn(torch.randn(ROWS, _SAMPLES, generator=draws), {0: BATCH, 1: SEQUENCE})


def _spectrum(sizes: Sizes, length: int, draws: torch.Generator) -> Drawn:
    bins, frames, first = sizes.features
    shape = (ROWS, bins, frames) if first else (ROWS, frames, bins)
    dims = {0: BATCH} if first or hasattr(sizes.config, "max_length") else {0: BATCH, 1: SEQUENCE}
    return Drawn(torch.randn(shape, generator=draws), dims)


def _spectra(sizes: Sizes, length: int, draws: torch.Generator) -> Drawn:
    """Spectra under the name of waves, as the Audio Spectrogram Transformer has them, which no convolutions read."""
    if hasattr(sizes.config, "num_mel_bins") and not hasattr(sizes.config, "conv_dim"):
        return _spectrum(sizes, length, draws)
    return _sound(sizes, length, draws)


def _flat_patches(sizes: Sizes, length: int, draws: torch.Generator) -> Drawn:
    """Patches of a picture in a row, each behind its row and its column there (Pix2Struct)."""
    sides, channels = sizes.patch, sizes.picture[0]
    places = torch.stack([torch.arange(length), torch.arange(length)], -1).float().repeat(ROWS, 1, 1)
    patches = torch.randn(ROWS, length, sides * sides * channels, generator=draws)
    return Drawn(torch.cat([places, patches], -1), {0: BATCH, 1: SEQUENCE})


def _regions(setting: str, sizes: Sizes, length: int, draws: torch.Generator) -> Drawn:
    """A detector's results for regions of a picture, as many numbers as the configuration's `setting` (LXMERT)."""
    regions = torch.rand(ROWS, length + 1, int(getattr(sizes.config, setting)), generator=draws)
    return Drawn(regions, {0: BATCH, 1: "num_regions"})


def _series(what: str, sizes: Sizes, length: int, draws: torch.Generator) -> Drawn:
    """What is known of time series: values, which of them were observed, and numbers that tell the time."""
    steps, variables, features = sizes.series
    if what == "time":
        return Drawn(torch.randn(ROWS, steps, features, generator=draws), {0: BATCH})
    shape = (ROWS, steps, variables) if variables else (ROWS, steps)
    values = torch.ones(shape) if what == "observed" else torch.randn(shape, generator=draws)
    return Drawn(values, {0: BATCH})


_MAKERS: dict[str, Callable[[Sizes, int, torch.Generator], Drawn]] = {
    "attention_mask": _mask,
    "bbox": _boxes,
    "flattened_patches": _flat_patches,
    "input_features": _spectrum,
    "input_ids": _ids,
    "input_values": _spectra,
    "past_observed_mask": partial(_series, "observed"),
    "past_time_features": partial(_series, "time"),
    "past_values": partial(_series, "values"),
    "pixel_mask": _picture_mask,
    "pixel_values": _picture,
    "position_ids": _places,
    "token_type_ids": _kinds,
    "visual_feats": partial(_regions, "visual_feat_dim"),
    "visual_pos": partial(_regions, "visual_pos_dim"),
}


def plain_inputs(model: PreTrainedModel, sizes: Sizes) -> dict[str, Drawn]:
    """Examples of the inputs of one forward without a cache, in the order of its parameters."""
    names, named = parameters(model), model.main_input_name
    wanted = {named} if isinstance(named, str) else set(named)
    main = named if isinstance(named, str) else next(iter(named))
    if "input_ids" in names and (main == "input_ids" or main == "pixel_values"):
        wanted |= {"input_ids", "attention_mask"}
        wanted |= {"token_type_ids"} if sizes.kinds_of_token > 1 else set()
        wanted |= {"pixel_values"} if sizes.has_pictures else set()
        wanted |= {"visual_feats", "visual_pos"} if hasattr(sizes.config, "visual_feat_dim") else set()
        wanted |= {"bbox"} if hasattr(sizes.config, "max_2d_position_embeddings") else set()
    elif main == "pixel_values":
        wanted |= {"pixel_mask"}
    elif main == "past_values":
        wanted |= {"past_observed_mask", "past_time_features"} & required(model)
    elif sizes.takes_audio_mask and not (main == "input_features" and sizes.features[2]):
        wanted |= {"attention_mask"}
    drawn = {name: draw(name, sizes) for name in names if name in wanted}
    reads_to_end = model.config.is_encoder_decoder and not model.can_generate()
    end = getattr(model.config, "eos_token_id", None) if reads_to_end else None
    if "input_ids" in drawn and isinstance(end, int):  # up to which the model reads (BART's classifier)
        tokens = drawn["input_ids"].tensor
        drawn["input_ids"] = Drawn(torch.cat([tokens[:, :-1], torch.full((ROWS, 1), end)], 1), drawn["input_ids"].dims)
    if main in ("input_values", "input_features") and "attention_mask" in drawn:
        sound = drawn[main].tensor
        drawn["attention_mask"] = Drawn(torch.ones(sound.shape[:2], dtype=torch.int64), dict(drawn[main].dims))
    return {name: Drawn(_in_type(item.tensor, model.dtype), item.dims) for name, item in drawn.items()}


def _in_type(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Real numbers in the type of a model's weights."""
    return tensor.to(dtype) if tensor.is_floating_point() else tensor
