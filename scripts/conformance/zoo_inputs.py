"""Inputs of a model of transformers, from the parameters of its ``forward`` and the sizes in its configuration."""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

ROWS, LENGTH, TARGET = 2, 7, 3
SAMPLES, FRAMES, VIDEO = 4000, 64, 4
_MEDIA = ("pixel_values", "input_features", "input_values", "audio_values", "flattened_patches")


_FEATURES = ("num_mel_bins", "feature_size", "input_dim", "n_mels", "mel_bins")


@dataclass(frozen=True)
class Inputs:
    """Keyword arguments of a call."""

    tensors: dict[str, Any]


def candidates(model: Any) -> Iterator[Inputs]:
    """Arguments that may fit, the most complete first; of some, forms that differ between architectures."""
    parameters = inspect.signature(model.forward).parameters
    required = [
        name
        for name, item in parameters.items()
        if item.default is item.empty and item.kind not in (item.VAR_KEYWORD, item.VAR_POSITIONAL)
    ]
    main = getattr(model, "main_input_name", "input_ids")
    if not isinstance(main, str):
        required, main = list(dict.fromkeys([*required, *main])), main[0]
    decoder = ["decoder_input_ids"] if getattr(model.config, "is_encoder_decoder", False) else []
    plain = [name for name in (main, "input_ids") if name in parameters]
    media = [name for name in _MEDIA if name in parameters]
    boxes = ["bbox"] if "bbox" in parameters else []
    # A model of pictures and texts tells by token types which tokens see those behind them.
    types = [name for name in ("token_type_ids",) if name in parameters and "pixel_values" in parameters]
    seen: list[tuple[str, ...]] = []
    noise = [name for name in parameters if name.startswith("noise") and not name.endswith("scale")]
    for names in (
        *([[*required, main, *noise]] if noise else []),
        [*required, main, *(("attention_mask", *types) if main == "input_ids" else ()), *boxes, *decoder],
        [*required, *plain, *media[:1], *decoder],
        [*required, *plain, *media[:1], "image_attention_mask", "visual_feats", "visual_pos"],
        [*required, main, *decoder],
        [*required, *media[:1]],
        ["input_ids", "attention_mask"],
        ["states", "actions", "rewards", "returns_to_go", "timesteps", "attention_mask"],
    ):
        wanted = tuple(dict.fromkeys(name for name in names if name in parameters))
        if wanted and wanted not in seen:
            seen.append(wanted)
            yield from _forms(model, wanted)


def _forms(model: Any, names: tuple[str, ...]) -> Iterator[Inputs]:
    forms = [list(_tensors(model, name)) for name in names]
    if all(forms):
        for combination in itertools.islice(itertools.product(*forms), 12):
            yield Inputs(dict(zip(names, combination, strict=True)))


def setting(config: Any, *names: str, otherwise: Any = None) -> Any:
    """The first of some settings that a configuration, or one inside it, has."""
    for name in names:
        value = vars(config).get(config.attribute_map.get(name, name))
        if value is not None:
            return value
    inner = [item for item in vars(config).values() if hasattr(item, "attribute_map")]
    found = (setting(item, *names) for item in inner)
    return next((value for value in found if value is not None), otherwise)


def _side(value: Any) -> tuple[int, int]:
    if isinstance(value, dict):
        value = [value.get("height", 64), value.get("width", 64)]
    return (int(value[0]), int(value[1])) if isinstance(value, (list, tuple)) else (int(value), int(value))


def _tensors(model: Any, name: str) -> Iterator[Any]:
    """Forms of one argument; none where its name says nothing."""
    import torch

    config = model.config
    draw = torch.Generator().manual_seed(len(name))

    def numbers(*shape: int) -> Any:
        return torch.randn(*shape, generator=draw)

    def whole(low: int, high: int, *shape: int) -> Any:
        return torch.randint(low, high, shape, generator=draw)

    vocabulary = int(setting(config, "vocab_size", otherwise=60))
    high, low = max(min(vocabulary, 60), 2), 3 if vocabulary > 6 else 0
    mels = int(setting(config, *_FEATURES, otherwise=80))
    channels = int(setting(config, "num_channels", "in_channels", "in_chans", otherwise=3))
    frames = 2 * int(setting(config, "max_source_positions", otherwise=FRAMES // 2))
    if re.fullmatch(r"(\w+_)?input_ids|input_sequences?|token_ids|\w*prompt_ids", name):
        length = TARGET if name.startswith("decoder") else LENGTH
        yield whole(low, high, ROWS, length)
        books = setting(config, "num_codebooks", "n_codebooks")
        if books:
            yield whole(low, high, ROWS, length, int(books))
            yield whole(low, high, ROWS, int(books), length)
            yield whole(low, high, ROWS * int(books), length)
            yield whole(low, high, ROWS, length, int(books) + 1)  # of a text beside the sounds
    elif name.endswith("attention_mask") and "pixel" not in name:
        yield torch.ones(ROWS, LENGTH, dtype=torch.int64)
    elif name in ("bbox", "boxes"):
        yield whole(0, 30, ROWS, LENGTH, 4).sort(-1).values
        yield torch.rand(ROWS, LENGTH, 4, generator=draw).sort(-1).values
    elif name == "token_type_ids":
        yield torch.zeros(ROWS, LENGTH, dtype=torch.int64)
    elif name == "image_attention_mask":
        yield torch.ones(ROWS, LENGTH, VIDEO, dtype=torch.int64)
    elif name in ("visual_feats", "visual_pos", "state"):
        sizes = {"visual_feats": "visual_feat_dim", "visual_pos": "visual_pos_dim", "state": "max_state_dim"}
        width = int(setting(config, sizes[name], otherwise=4))
        yield numbers(ROWS, width) if name == "state" else numbers(ROWS, LENGTH, width)
    elif name == "flattened_patches":  # each behind its row and column
        sides = _side(setting(config, "patch_size", otherwise=16))
        places = torch.stack([torch.arange(LENGTH), torch.arange(LENGTH)], -1).repeat(ROWS, 1, 1)
        yield torch.cat([places, numbers(ROWS, LENGTH, sides[0] * sides[1] * channels)], -1)
    elif re.match(r"(prompt_)?pixel_values|images$|prompt_masks$", name):
        height, width = _side(setting(config, "image_size", "img_size", "input_size", otherwise=64))
        frame = int(setting(config, "num_frames", otherwise=VIDEO))
        for high_, wide in dict.fromkeys([(height, width), (64, 64), (224, 224)]):
            yield numbers(ROWS, channels, high_, wide)
            yield numbers(ROWS, frame, channels, high_, wide)
        yield numbers(ROWS, 2, channels, 64, 64)  # pairs of images
    elif name in ("input_features", "audio_features", "input_audio_embeds"):
        yield numbers(ROWS, mels, frames)
        yield numbers(ROWS, frames, mels)
        yield numbers(ROWS, mels, 2 * FRAMES + 72)
        yield numbers(ROWS, 1, 4 * FRAMES, mels)
        for other in ("input_dim", "feature_projection_input_dim"):
            if setting(config, other):
                yield numbers(ROWS, frames, int(setting(config, other)))
                yield numbers(ROWS, frames, 2 * int(setting(config, other)))  # two frames in one
    elif name in ("input_values", "audio_values", "waveform", "padded_audio"):
        if mels != 80:
            yield numbers(ROWS, int(setting(config, "max_length", otherwise=FRAMES)), mels)
        yield numbers(ROWS, SAMPLES)
        yield numbers(ROWS, 1, SAMPLES)
        yield numbers(ROWS, FRAMES, mels)
    elif name in ("audio_codes", "codes"):
        yield whole(0, 30, ROWS, int(setting(config, "num_codebooks", "n_codebooks", otherwise=8)), LENGTH)
    elif name in ("spectrogram", "inputs", "hidden_states"):
        yield numbers(ROWS, LENGTH, int(setting(config, "hidden_size", "d_model", "model_in_dim", otherwise=64)))
        yield numbers(ROWS, SAMPLES)
    elif name == "noise":  # a number for each patch
        side = _side(setting(config, "image_size", otherwise=64))
        patch = _side(setting(config, "patch_size", otherwise=16))
        yield numbers(ROWS, (side[0] // patch[0]) * (side[1] // patch[1]))
    elif name == "noise_sequence":
        yield numbers(ROWS, frames, int(setting(config, "model_in_channels", otherwise=64)))
    elif name == "task_inputs":
        yield whole(low, high, ROWS, int(setting(config, "task_seq_len", otherwise=LENGTH)))
    elif name == "inputs_embeds":
        yield numbers(ROWS, LENGTH, int(setting(config, "hidden_size", "d_model", otherwise=64)))
    elif name in ("past_values", "past_observed_mask", "past_time_features", "future_values", "future_time_features"):
        yield from _series(config, name, numbers)
    elif name in ("states", "actions", "rewards", "returns_to_go"):
        width = {"states": "state_dim", "actions": "act_dim"}.get(name, "")
        yield numbers(ROWS, LENGTH, int(setting(config, width, otherwise=1)))
    elif name in ("timestamps", "timesteps") or name.endswith("position_ids"):
        yield torch.arange(LENGTH).repeat(ROWS, 1)


def _series(config: Any, name: str, numbers: Any) -> Iterator[Any]:
    """Arguments of models of time series, as long as the configuration says."""
    import torch

    context = int(setting(config, "context_length", otherwise=32))
    ahead = int(setting(config, "prediction_length", otherwise=8))
    lags = max(setting(config, "lags_sequence", otherwise=[0]) or [0])
    length = ahead if name.startswith("future") else context + lags
    features = int(setting(config, "num_time_features", otherwise=0))
    variables = int(setting(config, "num_input_channels", "input_size", otherwise=1))
    if "time_features" in name:
        yield numbers(ROWS, length, max(features, 0))
        return
    shape = (ROWS, length, variables) if variables > 1 else (ROWS, length)
    yield torch.ones(*shape) if "mask" in name else numbers(*shape)
    yield torch.ones(ROWS, length, 1) if "mask" in name else numbers(ROWS, length, 1)
