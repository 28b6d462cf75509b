"""A folder of transformers: its configuration, what it is for, and its model with or without the memory of its weights."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoConfig, PreTrainedConfig, PreTrainedModel

from onnxport.errors import InvalidInputError, InvalidModelError, UntrustedFileError
from onnxport.tracing.huggingface.building import Built, build
from onnxport.tracing.huggingface.checkpoint import WEIGHT_FILES, Stored, read_checkpoint
from onnxport.tracing.huggingface.examples import Sizes
from onnxport.tracing.huggingface.modalities import MODALITIES
from onnxport.tracing.huggingface.multimodal import multimodal_parts
from onnxport.tracing.huggingface.parts import CacheError, Part, in_float32, parts_of
from onnxport.tracing.huggingface.tasks import Task, task_and_class
from onnxport.tracing.trust.faults import reading

CONFIG = "config.json"
# Files of a folder that hold weights or code: no part of what a converted model needs.
_LEFT = (
    ".safetensors",
    ".bin",
    ".pt",
    ".pth",
    ".h5",
    ".msgpack",
    ".ckpt",
    ".gguf",
    ".onnx",
    ".onnx_data",
    ".data",
    ".py",
)
_LEFT_NAMES = (*WEIGHT_FILES, "README.md", ".gitattributes")


@dataclass(frozen=True)
class Choice:
    """What the user chose of a folder's conversion."""

    task: str | None = None
    dtype: str | None = None
    weights: Path | None = None
    keep_io_types: bool = False  # float32 comes in and goes out whatever the weights are in


class HuggingFaceFolder:
    """A folder that holds config.json and weights; nothing is read but the configuration until it is asked for."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.choice = Choice()

    def chosen(self, choice: Choice) -> None:
        """Takes the user's choices."""
        self.choice = choice
        for name in ("config", "_task_and_class", "stored", "built"):
            self.__dict__.pop(name, None)

    @cached_property
    def config(self) -> PreTrainedConfig:
        """The configuration.

        Raises:
            InvalidModelError: it is missing or of no type that transformers has.
            UntrustedFileError: its class stands in Python files of the folder.
        """
        plain = self._plain_config()
        kind = plain.get("model_type")
        if kind not in _known_types():
            if plain.get("auto_map"):
                raise UntrustedFileError(
                    f"{str(self.path)!r}: models of type {kind!r} are described by Python files of the folder, which "
                    "onnxport does not run: build the model yourself and pass it to onnxport.convert"
                )
            if kind is None:
                raise InvalidModelError(
                    f"{str(self.path / CONFIG)!r} names no model_type, as transformers' configurations do"
                )
            raise InvalidModelError(
                f"{str(self.path)!r}: transformers {transformers.__version__} knows no model_type {kind!r}: install one that does"
            )
        with reading(f"{str(self.path / CONFIG)!r} is no configuration of transformers"):
            config = AutoConfig.from_pretrained(self.path, local_files_only=True, trust_remote_code=False)
        quantized = getattr(config, "quantization_config", None)
        if quantized:
            method = quantized.get("quant_method") if isinstance(quantized, Mapping) else type(quantized).__name__
            raise InvalidModelError(
                f"{str(self.path)!r} holds quantised weights ({method}): convert the original folder"
            )
        return config

    @property
    def task(self) -> Task:
        """What the model is converted for."""
        return self._task_and_class[0]

    @property
    def kind(self) -> type[PreTrainedModel]:
        """The class of the model."""
        return self._task_and_class[1]

    @cached_property
    def stored(self) -> Mapping[str, Stored]:
        """The weights in the folder's files, none of them read."""
        return read_checkpoint(self.path, self.choice.weights)

    @property
    def sizes(self) -> Sizes:
        """Sizes of inputs."""
        return Sizes(self.config, self.path)

    @cached_property
    def dtype(self) -> torch.dtype:
        """Element type of the weights: the user's, else that which the folder names, else that of its first weight."""
        named = self.choice.dtype or getattr(self.config, "dtype", None)
        if named is None:
            floats = (item.dtype for item in self.stored.values() if item.dtype.is_floating_point)
            named = next(floats, torch.float32)
        dtype = getattr(torch, named) if isinstance(named, str) else named
        if dtype not in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
            raise InvalidInputError(f"dtype={self.choice.dtype!r}: the weights are in {dtype}; choose dtype='float32'")
        return dtype

    @cached_property
    def built(self) -> Built:
        """The model without the memory of its weights."""
        return build(self.kind, self.config, self.stored, self.dtype, self._arguments)

    def parts(self, model: PreTrainedModel | None = None) -> list[Part]:
        """The files that the model becomes, `model` if given; else their weights are read when they are written.

        A cache is left out where the model has none that it takes, unless the user asked for it.
        """
        model = self.built.model if model is None else model
        try:
            parts = self._parts(model)
        except CacheError:
            if self.choice.task is not None:
                raise
            self._task_and_class = replace(self.task, past=False), self.kind
            parts = self._parts(model)
        return [in_float32(part) for part in parts] if self.choice.keep_io_types else parts

    def _parts(self, model: PreTrainedModel) -> list[Part]:
        modality = MODALITIES.get(self.task.name)
        if modality is not None and self.task.past and not model.config.is_encoder_decoder:
            return multimodal_parts(model, self.sizes, modality)
        return parts_of(model, self.task, self.sizes)

    def loaded(self) -> PreTrainedModel:
        """The model with its weights, as transformers itself loads it."""
        arguments: dict[str, Any] = {"dtype": self.dtype, "local_files_only": True, "config": self.config}
        arguments |= self._arguments
        if self.choice.weights is not None:
            state = {name: item.tensor() for name, item in self.stored.items()}
            model = self.kind.from_pretrained(None, state_dict=state, **arguments)
        else:
            model = self.kind.from_pretrained(self.path, **arguments)
        return model.eval()

    def weight_bytes(self) -> int:
        """Size of the weights in the type that is written."""
        parameters = {id(item): item for item in self.built.model.parameters()}
        return sum(item.numel() * item.element_size() for item in parameters.values())

    def companions(self) -> list[Path]:
        """Files beside the weights: configurations, those of tokenizers and preprocessors."""
        files = [item for item in sorted(self.path.iterdir()) if item.is_file() and item.name not in _LEFT_NAMES]
        kept = [item for item in files if not item.name.endswith(_LEFT) and not item.name.endswith(".index.json")]
        return [item for item in kept if not item.name.startswith(".")]

    @cached_property
    def _task_and_class(self) -> tuple[Task, type[PreTrainedModel]]:
        return task_and_class(self.config, self.choice.task)

    @property
    def _arguments(self) -> dict[str, Any]:
        """Arguments of the class: a model whose pooler was not saved is built without one."""
        pools = "add_pooling_layer" in inspect.signature(self.kind.__init__).parameters
        if not pools or any("pooler" in name.split(".") for name in self.stored):
            return {}
        return {"add_pooling_layer": False}

    def _plain_config(self) -> dict[str, Any]:
        place = self.path / CONFIG
        with reading(f"{str(place)!r} can't be read"):
            content = json.loads(place.read_text(encoding="utf-8"))
        if not isinstance(content, dict):
            raise InvalidModelError(f"{str(place)!r} is no configuration of transformers")
        return content


def _known_types() -> set[str]:
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    return set(CONFIG_MAPPING_NAMES)


def load(path: str | os.PathLike[str], *, allow_pickle: bool = False, allow_code: bool = False) -> HuggingFaceFolder:
    """The model in a folder; its weights are read when they are needed.

    Raises:
        InvalidModelError: the configuration is missing, or names no model that transformers has.
        UntrustedFileError: the model's class stands in Python files of the folder.
    """
    folder = HuggingFaceFolder(path)
    folder.config  # noqa: B018
    return folder
