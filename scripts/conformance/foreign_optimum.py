"""Files of optimum's exporter for Hugging Face models: encoders, decoders with and without a cache, and both merged in one.

Runs in an environment of its own, since optimum pins another transformers: optimum 2.1, optimum-onnx 0.1, transformers 4.57.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from scripts.conformance.foreign_files import Write

_TEXT: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "vocab_size": 99,
}
_PICTURE = {**_TEXT, "image_size": 32, "patch_size": 8}
_PICTURE.pop("vocab_size")
_PAIR: dict[str, Any] = {
    "d_model": 32,
    **{
        f"{side}_{key}": size
        for side in ("encoder", "decoder")
        for key, size in (("layers", 1), ("attention_heads", 4), ("ffn_dim", 48))
    },
    "vocab_size": 99,
    "max_position_embeddings": 40,
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
    "decoder_start_token_id": 2,
}
_T5 = {
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 48,
    "num_layers": 2,
    "num_heads": 4,
    "vocab_size": 99,
    "decoder_start_token_id": 0,
}
_SOUND = {
    **_TEXT,
    "conv_dim": (8, 8),
    "conv_stride": (5, 2),
    "conv_kernel": (10, 3),
    "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
}
_KEYS = {**_TEXT, "num_key_value_heads": 2, "max_position_embeddings": 40}
_STAGES = {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1]}
_WRITES, _PAIRS, _CLASS, _SEES = (
    "text-generation-with-past",
    "text2text-generation-with-past",
    "text-classification",
    "image-classification",
)
_DECODERS = ("encoder_model", "decoder_model", "decoder_with_past_model", "decoder_model_merged")
# Class, configuration, task, and the files that it becomes.
FAMILIES: dict[str, tuple[str, dict[str, Any], str, Sequence[str]]] = {
    "bert": ("BertForQuestionAnswering", _TEXT, "question-answering", ("model",)),
    "distilbert": (
        "DistilBertForSequenceClassification",
        {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48, "vocab_size": 99},
        _CLASS,
        ("model",),
    ),
    "deberta": (
        "DebertaV2ForSequenceClassification",
        {**_TEXT, "relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_buckets": 8},
        _CLASS,
        ("model",),
    ),
    "gpt2": ("GPT2LMHeadModel", {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 99}, _WRITES, ("model",)),
    "llama": ("LlamaForCausalLM", _KEYS, _WRITES, ("model",)),
    "qwen2": ("Qwen2ForCausalLM", _KEYS, _WRITES, ("model",)),
    "mistral": ("MistralForCausalLM", {**_KEYS, "sliding_window": 4}, _WRITES, ("model",)),
    "phi": ("PhiForCausalLM", {**_TEXT, "max_position_embeddings": 40}, _WRITES, ("model",)),
    "bloom": (
        "BloomForCausalLM",
        {"hidden_size": 32, "n_layer": 2, "n_head": 4, "vocab_size": 99},
        _WRITES,
        ("model",),
    ),
    "t5": ("T5ForConditionalGeneration", _T5, _PAIRS, _DECODERS),
    "bart": ("BartForConditionalGeneration", _PAIR, _PAIRS, _DECODERS),
    "vit": ("ViTForImageClassification", _PICTURE, _SEES, ("model",)),
    "swin": (
        "SwinForImageClassification",
        {"image_size": 32, "patch_size": 4, "embed_dim": 16, "depths": [1, 1], "num_heads": [2, 2], "window_size": 4},
        _SEES,
        ("model",),
    ),
    "convnext": ("ConvNextForImageClassification", {**_STAGES, "image_size": 32}, _SEES, ("model",)),
    "resnet": ("ResNetForImageClassification", {**_STAGES, "embedding_size": 8}, _SEES, ("model",)),
    "segformer": (
        "SegformerForSemanticSegmentation",
        {**_STAGES, "num_attention_heads": [1, 2, 3, 4], "decoder_hidden_size": 16, "sr_ratios": [4, 2, 2, 1]},
        "semantic-segmentation",
        ("model",),
    ),
    "clip": (
        "CLIPModel",
        {"text_config": {**_TEXT, "max_position_embeddings": 20}, "vision_config": _PICTURE, "projection_dim": 16},
        "zero-shot-image-classification",
        ("model",),
    ),
    "wav2vec2": ("Wav2Vec2ForCTC", _SOUND, "automatic-speech-recognition", ("model",)),
}
_SIZES = {"channels": 3, "height": 32, "width": 32, "past": 3, "encoder_sequence": 5}
_SAMPLES, _LENGTH = 400, 4


def recipes() -> Iterator[tuple[str, Write]]:
    """Every file of every family."""
    for family, (*_, files) in FAMILIES.items():
        for file in files:
            yield f"optimum/{family} {file}", partial(write, family=family, file=file)


def write(path: Path, family: str, file: str) -> list[list[np.ndarray]]:
    """Writes one file of a family; its inputs are two draws, and one of another batch size."""
    shutil.copy(Path(exported(family).name, f"{file}.onnx"), path)
    return [inputs(path, 2, 0), inputs(path, 2, 1), inputs(path, 3, 2)]


@cache
def exported(family: str) -> tempfile.TemporaryDirectory[str]:
    """The folder that optimum writes of a family."""
    import torch
    import transformers
    from optimum.exporters.onnx import main_export

    name, options, task, _ = FAMILIES[family]
    kind = getattr(transformers, name)
    torch.manual_seed(0)
    folder: tempfile.TemporaryDirectory[str] = tempfile.TemporaryDirectory()
    with tempfile.TemporaryDirectory() as source:
        kind(kind.config_class(**options)).save_pretrained(source)
        main_export(source, folder.name, task=task, do_validation=False)
    return folder


def inputs(path: Path, rows: int, seed: int) -> list[np.ndarray]:
    """A draw of a file's inputs, their sizes by the names that optimum gives dimensions."""
    import onnxruntime

    rng = np.random.default_rng(seed)

    def drawn(item: Any) -> np.ndarray:
        shape = [size(dim, rows) for dim in item.shape]
        if item.type == "tensor(bool)":  # whether the branch with a cache runs
            return np.full(shape, seed != 1)
        if item.type == "tensor(float)":
            sound = len(shape) == 2
            return rng.standard_normal([rows, _SAMPLES] if sound else shape).astype(np.float32)
        if item.name.endswith("attention_mask"):
            return np.ones(shape, np.int64)
        ids = item.name.endswith("input_ids")
        return rng.integers(3, 24, shape) if ids else np.zeros(shape, np.int64)

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return [drawn(item) for item in session.get_inputs()]


def size(dim: int | str, rows: int) -> int:
    """The size of a dimension: ``past_sequence_length + sequence_length`` is the sum of two."""
    if isinstance(dim, int):
        return dim
    if "+" in dim:
        return sum(size(part.strip(), rows) for part in dim.split("+"))
    if dim.isdigit():
        return int(dim)
    return rows if "batch" in dim else next((n for word, n in _SIZES.items() if word in dim), _LENGTH)
