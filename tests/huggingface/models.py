"""Folders of small models with random weights, as transformers itself writes them."""

import os
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is an extra")
transformers = pytest.importorskip("transformers", reason="transformers is an extra")

COMMON = {"vocab_size": 60, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
TEXT = {
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
}
HEADS = {"num_key_value_heads": 4, "head_dim": 4}
WINDOWED = {"num_key_value_heads": 2, "sliding_window": 4}
T5_SIZES = {"d_model": 16, "d_kv": 4, "d_ff": 24, "num_layers": 2, "num_heads": 4, "decoder_start_token_id": 0}
WHISPER_SIZES = {f"{side}_{what}": 2 for side in ("encoder", "decoder") for what in ("layers", "attention_heads")}
WHISPER_SIZES |= {"d_model": 16, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "num_mel_bins": 8}
WHISPER_SIZES |= {"max_source_positions": 10, "max_target_positions": 32, "decoder_start_token_id": 3}
BART_SIZES = {f"{side}_{what}": 2 for side in ("encoder", "decoder") for what in ("layers", "attention_heads")}
BART_SIZES |= {"d_model": 16, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "decoder_start_token_id": 2}
PICTURE = {"image_size": 16, "patch_size": 8, "num_labels": 3}
HEARING = {"num_mel_bins": 8, "encoder_layers": 1, "encoder_attention_heads": 2, "encoder_ffn_dim": 16, "d_model": 16}
WAVES = {"conv_dim": [8, 8], "conv_stride": [5, 4], "conv_kernel": [10, 4], "num_feat_extract_layers": 2}
WAVES |= {"num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 4, "mask_time_prob": 0.0}
RESNET = {
    "embedding_size": 8,
    "hidden_sizes": [8, 8],
    "depths": [1, 1],
    "layer_type": "basic",
    "out_features": ["stage2"],
}

SIZES: dict[str, dict[str, Any]] = {
    "LlamaForCausalLM": {**COMMON, **TEXT, "num_key_value_heads": 2},
    "MistralForCausalLM": {**COMMON, **TEXT, **WINDOWED},
    "MixtralForCausalLM": {**COMMON, **TEXT, "num_key_value_heads": 2, "num_local_experts": 4},
    "BertForSequenceClassification": {**COMMON, **TEXT, "num_labels": 3},
    "BertForMaskedLM": {**COMMON, **TEXT},
    "BertModel": {**COMMON, **TEXT},
    "T5ForConditionalGeneration": {**COMMON, **T5_SIZES},
    "BartForConditionalGeneration": {**COMMON, **BART_SIZES},
    "BartForSequenceClassification": {**COMMON, **BART_SIZES, "num_labels": 3},
    "MarianMTModel": {**COMMON, **BART_SIZES, "forced_eos_token_id": None},
    "RwkvForCausalLM": {**COMMON, "hidden_size": 16, "num_hidden_layers": 2, "context_length": 16},
    "CLIPModel": {
        "text_config": {**COMMON, **TEXT, "max_position_embeddings": 16},
        "vision_config": {**TEXT, **PICTURE},
        "projection_dim": 8,
    },
    "LlavaForConditionalGeneration": {
        "text_config": {"model_type": "llama", **COMMON, **TEXT},
        "vision_config": {"model_type": "clip_vision_model", **TEXT, **PICTURE},
        "image_token_id": 5,
    },
    "Qwen2VLForConditionalGeneration": {
        "text_config": {**COMMON, **TEXT, "num_key_value_heads": 2}
        | {"rope_parameters": {"rope_type": "default", "mrope_section": [1, 1, 0], "rope_theta": 1e4}},
        "vision_config": {"depth": 1, "embed_dim": 16, "hidden_size": 16, "num_heads": 2, "patch_size": 4},
        "image_token_id": 5,
        "video_token_id": 6,
    },
    "SmolVLMForConditionalGeneration": {
        "text_config": {"model_type": "llama", **COMMON, **TEXT},
        "vision_config": {**TEXT, **PICTURE},
        "image_token_id": 5,
        "scale_factor": 2,
    },
    "VoxtralForConditionalGeneration": {
        "text_config": {"model_type": "llama", **COMMON, **TEXT, **HEADS},
        "audio_config": {
            **TEXT,
            "vocab_size": 60,
            "num_mel_bins": 8,
            "max_source_positions": 16,
            "intermediate_size": 64,
        },
        "audio_token_id": 5,
    },
    "GraniteSpeechForConditionalGeneration": {
        "text_config": {"model_type": "granite", **COMMON, **TEXT, **HEADS},
        "encoder_config": {
            "input_dim": 8,
            "num_layers": 1,
            "hidden_dim": 16,
            "feedforward_mult": 2,
            "num_heads": 2,
            "dim_head": 8,
            "output_dim": 10,
            "context_size": 8,
            "max_pos_emb": 16,
        },
        "projector_config": {"model_type": "blip_2_qformer", **TEXT, "encoder_hidden_size": 16},
        "audio_token_index": 5,
        "downsample_rate": 2,
        "window_size": 4,
        "has_lora_adapter": False,
    },
    "GlmAsrForConditionalGeneration": {
        "text_config": {"model_type": "llama", **COMMON, **TEXT, **HEADS},
        "audio_config": {**TEXT, "num_mel_bins": 8, "intermediate_size": 64, "max_position_embeddings": 60},
        "audio_token_id": 5,
    },
    "Qwen3ASRForConditionalGeneration": {
        "text_config": {"model_type": "qwen3", **COMMON, **TEXT, "num_key_value_heads": 2, "head_dim": 8},
        "audio_config": {**HEARING, "output_dim": 16, "downsample_hidden_size": 8},
        "audio_token_id": 5,
        "timestamp_token_id": 6,
        "pad_token_id": 0,
        "eos_token_id": 59,
    },
    "Qwen2AudioForConditionalGeneration": {
        "text_config": {"model_type": "qwen2", **COMMON, **TEXT, **HEADS},
        "audio_config": {**HEARING, "max_source_positions": 16},
        "audio_token_index": 5,
    },
    "ParakeetForCTC": {
        "vocab_size": 20,
        "pad_token_id": 0,
        "encoder_config": {
            **TEXT,
            "num_mel_bins": 16,
            "conv_kernel_size": 9,
            "subsampling_conv_channels": 8,
        },
    },
    "Qwen3VLForConditionalGeneration": {
        "text_config": {**COMMON, **TEXT, "num_key_value_heads": 2, "head_dim": 8}
        | {"rope_parameters": {"rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 1e4}},
        "vision_config": {"depth": 2, "hidden_size": 16, "intermediate_size": 24, "num_heads": 2, "patch_size": 4}
        | {"out_hidden_size": 16, "num_position_embeddings": 64, "deepstack_visual_indexes": [0]},
        "image_token_id": 5,
        "video_token_id": 6,
    },
    "MoonshineForConditionalGeneration": {**COMMON, "hidden_size": 16, "intermediate_size": 24}
    | {f"{side}_num_{what}": 2 for side in ("encoder", "decoder") for what in ("hidden_layers", "attention_heads")},
    "VideoMAEModel": {**TEXT, "image_size": 16, "patch_size": 8, "num_frames": 4},
    "PatchTSTForPrediction": {"num_input_channels": 3, "context_length": 16, "patch_length": 4, "patch_stride": 4}
    | {"d_model": 16, "num_attention_heads": 2, "ffn_dim": 24, "num_hidden_layers": 1, "prediction_length": 4},
    "TimeSeriesTransformerModel": {"prediction_length": 4, "context_length": 8, "lags_sequence": [1, 2]}
    | {"num_time_features": 2, "d_model": 16, "encoder_layers": 1, "decoder_layers": 1},
    "SEWForCTC": {**COMMON, **TEXT, **WAVES},
    "XLNetLMHeadModel": {"vocab_size": 60, "d_model": 16, "n_layer": 1, "n_head": 2, "d_inner": 24},
    "Pix2StructForConditionalGeneration": {
        "text_config": {**COMMON, **T5_SIZES, "hidden_size": 16},
        "vision_config": {"hidden_size": 16, "patch_embed_hidden_size": 768, "d_ff": 24, "d_kv": 4}
        | {"num_hidden_layers": 1, "num_attention_heads": 2, "seq_len": 32},
    },
    "WhisperForConditionalGeneration": {**COMMON, **WHISPER_SIZES},
    "ViTForImageClassification": {**TEXT, **PICTURE},
    "JambaForCausalLM": {**COMMON, **TEXT, "num_key_value_heads": 2, "num_experts": 2, "attn_layer_period": 2}
    | {"attn_layer_offset": 1, "use_mamba_kernels": False, "mamba_d_state": 4},
    "MambaForCausalLM": {**COMMON, "hidden_size": 16, "num_hidden_layers": 2, "state_size": 4},
    "Wav2Vec2ForCTC": {**COMMON, **TEXT, **WAVES},
    "RobertaForCausalLM": {**COMMON, **TEXT, "type_vocab_size": 2},
    "ConvBertForMaskedLM": {**COMMON, **TEXT, "embedding_size": 16, "conv_kernel_size": 3},
    "DetrForObjectDetection": {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "num_queries": 4}
    | {f"{side}_{what}": 8 for side in ("encoder", "decoder") for what in ("ffn_dim", "attention_heads")}
    | {"backbone_config": {"model_type": "resnet", **RESNET}, "use_timm_backbone": False, "num_labels": 3},
    "DacModel": {"encoder_hidden_size": 4, "downsampling_ratios": [2, 4], "decoder_hidden_size": 16}
    | {"n_codebooks": 2, "codebook_size": 16, "codebook_dim": 4, "upsampling_ratios": [4, 2]},
    "Lfm2ForCausalLM": {**COMMON, **TEXT, "num_key_value_heads": 2, "conv_L_cache": 4}
    | {"layer_types": ["conv", "full_attention"]},
}


def live(name: str, **sizes: Any) -> Any:
    """A model by the name of its class."""
    torch.manual_seed(0)
    kind = getattr(transformers, name)
    return kind(kind.config_class(**{**SIZES[name], **sizes})).eval()


def folder(place: Path, name: str, *, dtype: Any = None, shard: str = "1GB", **sizes: Any) -> str:
    """The folder of such a model."""
    model = live(name, **sizes)
    if dtype is not None:
        model = model.to(dtype)
    model.save_pretrained(place / name, max_shard_size=shard)
    return os.fspath(place / name)
