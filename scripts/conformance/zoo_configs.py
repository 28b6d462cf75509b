"""Tiny configurations of transformers' models, made of each configuration class's own fields; no model is known by name.

Widths are divided by the square of what heads are divided by, so that ``hidden_size = heads * head_dim`` goes on to hold and
sizes that are equal stay equal. Layers, experts, vocabularies and images are cut to a few. What a class derives of its other
fields (declared as None) is left to it.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

VOCABULARY, FIRST_TOKEN = 128, 100
POSITIONS, FRAMES = 512, 64
FEW = 4  # experts, images a side
STEPS = 3  # of a decoder's loop in Python

_TOKEN = re.compile(r"token_(id|ids|index)$|^(pad|bos|eos|sep)_(id|index)$|token_type_id$")
_LAYERS = re.compile(
    r"^((num|n)_(\w+_)?(layers?|blocks?)|(\w+_)?(layers|depth|num_layers|num_blocks|num_hidden_layers)|n_layer|depths?)$"
)
_NOT_LAYERS = re.compile(
    r"adapter|conv_layers|residual|feat|max_window|shared|postnet|lstm|dense|tdnn|pyramid|nextn|mtp"
)
_DEPTHS = re.compile(r"^(\w*depths?|blocks_per_stage|\w*num_blocks|\w*numb_of_layers|layers|\w*block_repeats)$")
_HEADS = re.compile(
    r"(^|_)(num|n)_(\w+_)?heads?(_per_stage)?$|attention_heads$|^(n_head|num_kv|multi_query_group_num)$|kv_heads$"
)
_HEAD_SIZE = re.compile(
    r"head_dim$|^d_kv$|dim_head$|d_head$|rotary_dim$|head_size$|key_size$|value_size$|attention_key_channels"
)
_GROUPS = re.compile(r"(^|_)groups?$|num_norm_groups")
_WIDTH = re.compile(
    r"hidden|_dims?$|^dims?$|dim_|embd|embed|width|channels?|filters|d_model|d_ff|ffn|inner|intermediate|units|rank$|latent|"
    r"projection|feature_size|neck|mlp_dim|d_embed|adapter_size|bottleneck|proj_size|output_size|input_size|neurons|planes"
)
_EXPERTS = re.compile(r"experts?(_num)?$")
_NOT_WIDTH = re.compile(
    r"kernel|window|stride|pool|block_size|grid|image|patch|_act|layers|(^|_)num_(?!filters|channels|hidden_ch)|(^|_)n_(?!embd|inner|hidden)|dropout|stage\d|"
    r"max_|position|vocab|token|ratio|scale|rate|length|buckets|levels|height|temperature|act_dim|pos_feats|in_chans"
)
# Of experts; a sparse attention's index_topk stays: of few keys, scores behind a ReLU are equal, and any of them may be taken.
_TOP = re.compile(r"per_tok$|^top_?k$|^moe_k$|moe_top_?k$|num_selected|(?<!index)_topk$")
_PERIOD = re.compile(r"(pattern|interval|period|frequency|sparse_step|layer_freq|every_n\w*|interleave_\w*step)$")
_OFFSET = re.compile(r"offset$|dense_replace$|num_dense\w*|num_hash_layers")
_PLACES = re.compile(
    r"indexes$|indices$|layer_index$|layer_ids?$|feature_layers?$|insert_layer|only_layers$|attention_blocks$|layers_idx$|layer_idxs$"
)
_PICTURE = re.compile(r"(image|img|input|crop)_size$")


# What classes leave to the user beside numbers of tokens and widths.
_LEFT_OPEN: dict[str, Callable[[dict[str, Any]], Any]] = {
    "default_language": lambda held: next(iter(held.get("languages") or ()), None),
    "num_key_value_heads": lambda held: 2,
    "attn_layer_indices": lambda held: [1],
    "vocabulary_map": lambda held: {"<image>": 4},
    "sliding_window": lambda held: 8,
    "layer_types": lambda held: ["full_attention"] * 2,
}


@dataclass(frozen=True)
class Recipe:
    """What heads, their sizes and widths are divided by, and whether layers are left out and pictures are smaller."""

    heads: int
    widths: int
    sizes: int
    shallow: bool = True
    filled: bool = False  # also with numbers for tokens and widths that the class leaves out


SMALLER = Recipe(8, 64, 8)  # for what is large by the first of the others
RECIPES = (
    Recipe(4, 16, 4),
    Recipe(2, 4, 2),
    Recipe(1, 4, 1),
    Recipe(8, 8, 1),
    Recipe(1, 1, 1),
    Recipe(1, 4, 1, shallow=False),
    Recipe(4, 16, 4, filled=True),
    Recipe(4, 4, 1, filled=True),
)


@dataclass
class Shrinker:
    """Makes tiny configurations of one model: the same token has the same number wherever it stands."""

    recipe: Recipe
    tokens: dict[int, int] = field(default_factory=dict)

    def tiny(self, default: Any) -> Any:
        """A small configuration of the class of `default`, an instance with the values of its own."""
        kind = type(default)
        values: dict[str, Any] = {}
        held = _values(default)
        count, kept = self._layers(default)
        for item in dataclasses.fields(default):
            if item.name not in held:
                continue
            value = held[item.name]
            declared = item.default
            if _is_configuration(value):
                values[item.name] = self.tiny(value)
            elif isinstance(value, (list, tuple)) and value and all(map(_is_configuration, value)):
                values[item.name] = [self.tiny(one) for one in value]
            elif declared is None and isinstance(value, dict) and "mrope_section" in value:
                values[item.name] = self._dictionary(value)
            elif declared is None and isinstance(value, str):  # set by the configuration around this one
                values[item.name] = value
            elif declared is None and item.name != "attention_types" and not (item.name.startswith("_out") and value):
                values |= {item.name: few} if value is None and (few := self._missing(item.name, held)) else {}
            elif item.name.startswith("_out"):
                places = self._backbone(item.name, value, default)
                if places is not None:
                    values[item.name.lstrip("_")] = places
            else:
                small = self._value(item.name, value, count, kept, default)
                if small is not value or small != declared:
                    values[item.name] = small
        return kind(**values)

    def _missing(self, name: str, held: dict[str, Any]) -> Any:
        """A value for a setting that a class leaves to the user."""
        if name == "head_dim" and isinstance(held.get("hidden_size"), int):
            heads = max(int(held.get("num_attention_heads", 1)) // self.recipe.heads, 1)
            return held["hidden_size"] // self.recipe.widths // heads
        if re.search(r"^(num_experts_per_tok|top_k|top_k_experts)$", name):
            return 2
        if name == "n_shared_experts":
            return 1
        if re.search(r"^(n_routed|num|num_local)_experts$", name):
            return FEW
        if self.recipe.filled and name in ("pad_token_id", "mask_token_id"):
            return 1 if name == "pad_token_id" else 2
        if self.recipe.filled and name == "moe_intermediate_size":
            return 32
        if self.recipe.filled and name in _LEFT_OPEN:
            return _LEFT_OPEN[name](held)
        return {"vocab_size": VOCABULARY, "prediction_length": 4}.get(name)

    def _layers(self, default: Any) -> tuple[int | None, int]:
        """How many layers the model has, and how many stay: enough for every kind of layer it has."""
        held = _values(default)
        names = ("num_hidden_layers", "n_layer", "num_layers", "n_layers", "depth", "encoder_layers")
        count = next((held[name] for name in names if isinstance(held.get(name), int)), None)
        if count is None or not self.recipe.shallow:
            return count, 2 if self.recipe.shallow else 1 << 20
        kept = 2
        for value in held.values():
            if isinstance(value, (list, tuple)) and len(value) == count and all(isinstance(x, str) for x in value):
                kept = max(kept, max(list(value).index(kind) for kind in set(value)) + 1)
        for name, value in held.items():  # kinds of layers that repeat
            if (
                re.search(r"(block|layer)\w*(types|pattern)$", name)
                and isinstance(value, (list, tuple))
                and len(value) < count
            ):
                kept = max(kept, len(value))
        places = held.get("_out_indices")
        kept = max(kept, len(places) if places else 0)
        return count, min(kept, count, 8)

    def _backbone(self, name: str, value: Any, default: Any) -> Any:
        """The stages that a backbone gives: as they are where it has a few, else as many layers from the first."""
        count, kept = self._layers(default)
        if count is None:
            return list(value) if name == "_out_features" else None
        return [f"stage{i + 1}" for i in range(kept - len(value), kept)] if name == "_out_features" else None

    def _value(self, name: str, value: Any, count: int | None, kept: int, default: Any) -> Any:
        if isinstance(value, float) and name.startswith(
            "noise_scale"
        ):  # of speech: what is drawn anew can't be compared
            return 0.0
        if isinstance(value, bool) or value is None or isinstance(value, (str, float)):
            return value
        if isinstance(value, dict):
            return self._dictionary(value)
        if isinstance(value, (list, tuple)):
            return self._list(name, value, count, kept, default)
        return self._number(name, value, kept, default) if isinstance(value, int) else value

    def _list(self, name: str, value: Any, count: int | None, kept: int, default: Any) -> Any:
        if _PLACES.search(name) and all(isinstance(x, int) and not isinstance(x, bool) for x in value):
            return type(value)(dict.fromkeys(min(x, kept - 1) for x in value))
        if count is not None and len(value) == count and count > kept:
            value = value[:kept]
            if all(isinstance(x, int) and not isinstance(x, bool) for x in value):
                return type(value)(self._number(name, x, kept, default) for x in value)
            return value
        if count is not None and name == "attention_types":
            return [[kinds, max(kept // len(kinds), 1)] for kinds, _ in value]
        if name.endswith("mrope_section"):
            return type(value)(max(x // self.recipe.sizes, 1) for x in value)
        return type(value)(self._value(name, x, None, kept, default) for x in value)

    def _number(self, name: str, value: int, kept: int, default: Any) -> int:
        for pattern, small in (
            (_TOKEN, self._token),
            (_PLACES, lambda x: min(x, kept - 1)),
            (_PERIOD, lambda x: min(x, 2)),
            (_OFFSET, lambda x: min(x, 1)),
            (_TOP, lambda x: min(x, 2)),
            (_EXPERTS, lambda x: min(x, FEW)),
        ):
            if pattern.search(name):
                return small(value)
        if name in ("n_group", "topk_group"):
            return min(value, 2 if name == "n_group" else 1)
        if (
            "vocab" in name
            or "codebook_size" in name
            or name in ("num_embeddings", "num_codevectors_per_group", "n_words")
        ):
            return min(value, VOCABULARY)
        if _DEPTHS.search(name) or (_LAYERS.search(name) and not _NOT_LAYERS.search(name)):
            return min(value, kept if _LAYERS.search(name) or not self.recipe.shallow else 2)
        if _PICTURE.search(name):
            return self._picture(value, default)
        if name in ("max_source_positions",):
            return min(value, FRAMES)
        if re.search(r"max_\w*position|n_positions|n_ctx|context_length|max_seq", name):
            return min(value, POSITIONS)
        if name == "max_text_length":  # steps of a loop that a value may end early
            return min(value, STEPS)
        if re.search(r"num_(object_)?queries$|num_denoising|num_proposals", name):
            return min(value, 10)
        if _HEADS.search(name):
            return max(value // self.recipe.heads, 1)
        if _HEAD_SIZE.search(name):
            return value // self.recipe.sizes if value >= 4 * self.recipe.sizes else value
        if _GROUPS.search(name):
            return max(value // self.recipe.widths, 1)
        if _WIDTH.search(name) and not _NOT_WIDTH.search(name) and value >= 32:
            return _divided(value, self.recipe.widths)
        return value

    def _token(self, value: int) -> int:
        if value < FIRST_TOKEN:
            return value
        return self.tokens.setdefault(value, FIRST_TOKEN + len(self.tokens))

    def _picture(self, value: int, default: Any) -> int:
        if not self.recipe.shallow:
            return value
        patch = vars(default).get("patch_size")
        patch = patch[0] if isinstance(patch, (list, tuple)) else patch
        return min(value, FEW * patch if isinstance(patch, int) and patch >= 8 else 64)

    def _dictionary(self, value: dict[Any, Any]) -> dict[Any, Any]:
        sections = value.get("mrope_section")
        if not sections:
            return value
        return {**value, "mrope_section": [max(x // self.recipe.sizes, 1) for x in sections]}


def _divided(width: int, by: int) -> int:
    """A smaller width; one that does not divide evenly becomes a multiple of 8, which grouped products ask for."""
    return width // by if width % by == 0 or width < 8 * by else width // by // 8 * 8


def _values(config: Any) -> dict[str, Any]:
    """What a configuration holds for each parameter of its class, also under another name."""
    held, other = vars(config), type(config).attribute_map
    names = {item.name: other.get(item.name, item.name) for item in dataclasses.fields(config) if item.init}
    return {name: held[key] for name, key in names.items() if key in held}


def _is_configuration(value: object) -> bool:
    from transformers import PreTrainedConfig

    return isinstance(value, PreTrainedConfig)


def configurations(kind: type, large: Callable[[Any], bool]) -> Iterator[Any]:
    """Tiny configurations of a class, in the order in which they are tried; `large` tells those that make large models."""
    for recipe in RECIPES:
        config = _tiny(kind, recipe)
        if config is not None and recipe is RECIPES[0] and large(config):
            smaller = _tiny(kind, SMALLER)
            yield from () if smaller is None else (smaller,)
        yield from () if config is None else (config,)


def _tiny(kind: type, recipe: Recipe) -> Any:
    try:
        return Shrinker(recipe).tiny(kind())
    except Exception:  # sizes that the class itself refuses
        return None
