"""genai_config.json: what onnxruntime-genai reads of a folder, beside the tokenizer's files, to run the decoder in it."""

from __future__ import annotations

import json
from collections.abc import Mapping

import onnx_ir as ir
from transformers import GenerationConfig, PreTrainedModel

from onnxport.model import OnnxModel

GENAI = "genai_config.json"
_PAST, _PRESENT = "past_key_values.%d.{}", "present.%d.{}"
_ANY = 1 << 15  # tokens, where a configuration sets no bound


def genai_config(file: str, model: OnnxModel, source: PreTrainedModel) -> str | None:
    """The text of genai_config.json for a decoder with keys and values; None where onnxruntime-genai has no such cache.

    It takes a key and a value for each layer, all of one size, and no other state.
    """
    cached = {str(item.name): item.shape for item in model.model.graph.inputs if "." in str(item.name)}
    count = len(cached) // 2
    wanted = {_PAST.format(what) % i for what in ("key", "value") for i in range(count)}
    shapes = {(shape[1], shape[3]) for shape in cached.values() if isinstance(shape, ir.Shape) and len(shape) == 4}
    if not count or set(cached) != wanted or len(shapes) != 1:
        return None
    heads, size = shapes.pop()
    if not isinstance(heads, int) or not isinstance(size, int):
        return None
    text, given = source.config.get_text_config(decoder=True), GenerationConfig.from_model_config(source.config)
    longest = getattr(text, "max_position_embeddings", None) or _ANY
    ends = given.eos_token_id if isinstance(given.eos_token_id, list) else [given.eos_token_id]
    ends = [item for item in ends if isinstance(item, int)]
    bos = given.bos_token_id if isinstance(given.bos_token_id, int) else 0
    padding = next(item for item in (given.pad_token_id, *ends, 0) if isinstance(item, int))
    decoder = {
        "session_options": {"log_id": "onnxruntime-genai", "provider_options": []},
        "filename": file,
        "head_size": size,
        "hidden_size": text.hidden_size,
        "num_attention_heads": text.num_attention_heads,
        "num_hidden_layers": count,
        "num_key_value_heads": heads,
        "inputs": _named(model.input_names, "past", _PAST),
        "outputs": _named(model.output_names, "present", _PRESENT),
    }
    content = {
        "model": {
            "type": "decoder",
            "bos_token_id": bos,
            "eos_token_id": ends if len(ends) != 1 else ends[0],
            "pad_token_id": padding,
            "context_length": longest,
            "vocab_size": text.vocab_size,
            "decoder": decoder,
        },
        "search": {"do_sample": False, "max_length": longest, "past_present_share_buffer": False},
    }
    return json.dumps(content, indent=2)


def _named(names: list[str], which: str, pattern: str) -> Mapping[str, str]:
    plain = {name: name for name in names if "." not in name}
    return {**plain, **{f"{which}_{what}_names": pattern.format(what) for what in ("key", "value")}}
