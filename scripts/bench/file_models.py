"""Models whose files are held against the peers': keras.applications and classes of transformers, random weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from scripts.bench.jobs import ours, peer_keras

_SMALL = {"hidden_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 512}
_TEXT = {"vocab_size": 1000, **_SMALL}
_CACHELESS = {"vocab_size": 1000, "use_cache": False}
_GROUPED = {**_CACHELESS, **_SMALL, "num_key_value_heads": 2}

# Class, its configuration's class, what it is configured with, its input.
_TRANSFORMERS: dict[str, tuple[str, dict[str, Any], str]] = {
    "BertModel": ("BertConfig", _TEXT, "input_ids"),
    "BertForMaskedLM": ("BertConfig", _TEXT, "input_ids"),
    "DistilBertModel": (
        "DistilBertConfig",
        {"vocab_size": 1000, "dim": 128, "n_layers": 4, "n_heads": 4, "hidden_dim": 512},
        "input_ids",
    ),
    "RobertaForSequenceClassification": ("RobertaConfig", _TEXT, "input_ids"),
    "ElectraModel": ("ElectraConfig", {**_TEXT, "embedding_size": 64}, "input_ids"),
    "GPT2LMHeadModel": ("GPT2Config", {**_CACHELESS, "n_embd": 128, "n_layer": 4, "n_head": 4}, "input_ids"),
    "OPTForCausalLM": (
        "OPTConfig",
        {**_CACHELESS, "hidden_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4, "ffn_dim": 512}
        | {"word_embed_proj_dim": 128},
        "input_ids",
    ),
    "LlamaForCausalLM": ("LlamaConfig", _GROUPED, "input_ids"),
    "Qwen2ForCausalLM": ("Qwen2Config", _GROUPED, "input_ids"),
    "T5EncoderModel": (
        "T5Config",
        {"vocab_size": 1000, "d_model": 128, "d_kv": 32, "d_ff": 512, "num_layers": 4, "num_heads": 4},
        "input_ids",
    ),
    "ViTModel": ("ViTConfig", _SMALL, "pixel_values"),
    "DeiTForImageClassification": ("DeiTConfig", _SMALL, "pixel_values"),
    "SwinModel": ("SwinConfig", {"embed_dim": 48, "depths": [2, 2, 2], "num_heads": [2, 4, 8]}, "pixel_values"),
    "ConvNextForImageClassification": (
        "ConvNextConfig",
        {"depths": [2, 2, 4, 2], "hidden_sizes": [48, 96, 192, 384]},
        "pixel_values",
    ),
    "ResNetForImageClassification": (
        "ResNetConfig",
        {"depths": [2, 2, 2, 2], "hidden_sizes": [64, 128, 256, 512], "layer_type": "basic"},
        "pixel_values",
    ),
    "MobileNetV2ForImageClassification": ("MobileNetV2Config", {}, "pixel_values"),
    "MobileViTForImageClassification": ("MobileViTConfig", {"image_size": 224}, "pixel_values"),
    "SegformerModel": ("SegformerConfig", {}, "pixel_values"),
    "RegNetModel": (
        "RegNetConfig",
        {"depths": [1, 2, 4, 2], "hidden_sizes": [32, 64, 160, 384], "groups_width": 16},
        "pixel_values",
    ),
}
_KERAS = (
    "MobileNet MobileNetV2 MobileNetV3Small MobileNetV3Large NASNetMobile EfficientNetB0 EfficientNetV2B0 EfficientNetV2S "
    "DenseNet121 ResNet50 ResNet50V2 InceptionV3 InceptionResNetV2 Xception ConvNeXtTiny"
).split()


@dataclass(frozen=True)
class Model:
    """How a model is built, with its inputs, and how either side writes its file."""

    build: Callable[[], tuple[Any, Any]]
    ours: Callable[[Any, Any, str], None]
    peer: Callable[[Any, Any, str], None]


def _keras(name: str) -> Model:
    def build() -> tuple[Any, Any]:
        import keras
        import numpy as np

        keras.utils.set_random_seed(0)
        options = {"input_shape": (224, 224, 3)} if name.startswith("MobileNetV3") else {}
        model = getattr(keras.applications, name)(weights=None, **options)
        return model, (np.zeros((1, *model.inputs[0].shape[1:]), np.float32),)

    return Model(build, ours, peer_keras)


def _transformer(name: str, config: str, options: dict[str, Any], given: str) -> Model:
    def build() -> tuple[Any, Any]:
        import torch
        import transformers

        torch.manual_seed(0)
        model = getattr(transformers, name)(getattr(transformers, config)(**options)).eval()
        return model, {given: torch.randint(1, 900, (2, 64)) if given == "input_ids" else torch.randn(2, 3, 224, 224)}

    return Model(build, _ours_torch, _peer_torch)


def _ours_torch(model: Any, inputs: Any, path: str) -> None:
    import onnxport

    onnxport.convert(model, kwargs=inputs, validate=False, output=path)


def _peer_torch(model: Any, inputs: Any, path: str) -> None:
    import torch

    batch = {name: {0: torch.export.Dim("batch")} for name in inputs}
    torch.onnx.export(
        model, (), kwargs=inputs, dynamo=True, dynamic_shapes=batch, opset_version=21, verbose=False
    ).save(path)


GROUPS: dict[str, list[str]] = {
    "keras.applications": _KERAS,
    "transformers, small configurations": list(_TRANSFORMERS),
}
MODELS: dict[str, Model] = {
    **{name: _keras(name) for name in _KERAS},
    **{name: _transformer(name, *row) for name, row in _TRANSFORMERS.items()},
}
