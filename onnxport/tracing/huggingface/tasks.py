"""What a model of a folder is for, and which class of transformers it is; both from transformers' own tables."""

from __future__ import annotations

import difflib
import inspect
from dataclasses import dataclass
from typing import Any

import transformers
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.models.auto import modeling_auto

from onnxport.errors import InvalidInputError, InvalidModelError, UntrustedFileError
from onnxport.tracing.huggingface.modalities import MODALITIES, PICTURES, SOUNDS

WITH_PAST = "-with-past"
PAIRED = "zero-shot-image-classification"  # each picture with each text, of which there may be more or fewer
# The tables of transformers that hold the classes for a task, the first in which a class stands decides what it is for.
_TABLES = {
    PICTURES.task: ("IMAGE_TEXT_TO_TEXT",),
    SOUNDS.task: ("MULTIMODAL_LM",),
    "text-generation": ("CAUSAL_LM",),
    "text2text-generation": ("SEQ_TO_SEQ_CAUSAL_LM",),
    "automatic-speech-recognition": ("SPEECH_SEQ_2_SEQ", "CTC"),
    "fill-mask": ("MASKED_LM",),
    "text-classification": ("SEQUENCE_CLASSIFICATION",),
    "token-classification": ("TOKEN_CLASSIFICATION",),
    "question-answering": ("QUESTION_ANSWERING",),
    "image-classification": ("IMAGE_CLASSIFICATION",),
    "object-detection": ("OBJECT_DETECTION",),
    "image-segmentation": (
        "IMAGE_SEGMENTATION",
        "SEMANTIC_SEGMENTATION",
        "UNIVERSAL_SEGMENTATION",
        "INSTANCE_SEGMENTATION",
    ),
    "depth-estimation": ("DEPTH_ESTIMATION",),
    "audio-classification": ("AUDIO_CLASSIFICATION",),
    PAIRED: ("ZERO_SHOT_IMAGE_CLASSIFICATION",),
}
_FEATURES = "feature-extraction"
# Tasks whose models write a sequence token by token, and can keep a cache of what they have read.
_GENERATING = frozenset({"text-generation", "text2text-generation", "automatic-speech-recognition", *MODALITIES})
_SYNONYMS = {
    "causal-lm": "text-generation",
    "default": _FEATURES,
    "masked-lm": "fill-mask",
    "semantic-segmentation": "image-segmentation",
    "seq2seq": "text2text-generation",
    "seq2seq-lm": "text2text-generation",
    "sequence-classification": "text-classification",
    "speech-recognition": "automatic-speech-recognition",
}
TASKS = tuple(sorted([*_TABLES, _FEATURES, *(f"{name}{WITH_PAST}" for name in _GENERATING)]))


@dataclass(frozen=True)
class Task:
    """What a model is converted for."""

    name: str  # without the ending that asks for a cache
    past: bool  # a cache comes in and goes out

    @property
    def full_name(self) -> str:
        """The name as it is given on the command line."""
        return f"{self.name}{WITH_PAST}" if self.past else self.name


def checked(task: str | None) -> None:
    """Refuses a task that is none.

    Raises:
        InvalidInputError: there is no such task.
    """
    if task is not None:
        _parsed(task)


def task_and_class(config: PreTrainedConfig, task: str | None) -> tuple[Task, type[PreTrainedModel]]:
    """The task, by default that of the class which the configuration names, and the class to build.

    Raises:
        InvalidInputError: there is no such task, or transformers has no class of the model's type for it.
        InvalidModelError: the configuration names no class that transformers has.
        UntrustedFileError: the class stands in Python files of the folder.
    """
    named = (getattr(config, "architectures", None) or [None])[0]
    if task is None:
        kind = _class_of(config, named)
        name = _own_task(kind, config)
        return Task(name, name in _GENERATING and _keeps_past(kind, config, name)), kind
    wanted = _parsed(task)
    hears = wanted.name == SOUNDS.task and SOUNDS.is_apart(_class_of(config, named))
    if wanted.name != _FEATURES and (hears or named in _classes(wanted.name)):
        return wanted, _class_of(config, named)
    table = _MODELS if wanted.name == _FEATURES else _merged(wanted.name)
    choice = table.get(config.model_type)
    if choice is None:
        own = next((item for item in _TABLES if named in _classes(item)), None)
        hint = "" if own is None else f"; {named} is for {own}"
        raise InvalidInputError(
            f"task={task!r}: transformers has no class of {config.model_type!r} models for it{hint}"
        )
    return wanted, _class_of(config, choice if isinstance(choice, str) else choice[0])


def _own_task(kind: type[PreTrainedModel], config: PreTrainedConfig) -> str:
    """What a class is for.

    Raises:
        InvalidInputError: it writes about sounds, which it takes in a way that is not known.
    """
    of_class = (item for item in _TABLES if item != SOUNDS.task and kind.__name__ in _classes(item))
    name = next(of_class, SOUNDS.task if kind.__name__ in _classes(SOUNDS.task) else _FEATURES)
    names = set(inspect.signature(kind.forward).parameters)
    hears = "input_ids" in names and not names.isdisjoint(SOUNDS.main) and not config.is_encoder_decoder
    if hears and name in _GENERATING - {PICTURES.task}:
        if SOUNDS.is_apart(kind):
            return SOUNDS.task
        raise InvalidInputError(
            f"{kind.__name__} takes sounds beside tokens in a way that is not known. Files of its text alone: "
            f"--task {name}{WITH_PAST}; else convert the model itself, with inputs"
        )
    return name


def holds(kind: type[PreTrainedModel], name: str) -> bool:
    """Whether a class is one for a task."""
    return kind.__name__ in _classes(name)


def _parsed(task: str) -> Task:
    past = task.endswith(WITH_PAST)
    name = task.removesuffix(WITH_PAST)
    name = _SYNONYMS.get(name, name)
    full = f"{name}{WITH_PAST}" if past else name
    if full not in TASKS:
        near = difflib.get_close_matches(full, TASKS, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise InvalidInputError(f"task={task!r}: one of {', '.join(TASKS)}{hint}")
    return Task(name, past)


def _keeps_past(kind: type[PreTrainedModel], config: PreTrainedConfig, name: str) -> bool:
    """Whether a model is usually wanted with a cache: one that generates, and takes what is no token apart, if any."""
    modality = MODALITIES.get(name)
    alone = modality is None or bool(config.is_encoder_decoder) or modality.is_apart(kind)
    return bool(kind.can_generate()) and alone


def _class_of(config: PreTrainedConfig, name: str | None) -> type[PreTrainedModel]:
    if name is None:
        raise InvalidModelError(
            "config.json names no class in 'architectures': give a task, --task text-generation for one"
        )
    kind = getattr(transformers, name, None)
    if isinstance(kind, type) and issubclass(kind, PreTrainedModel):
        return kind
    if getattr(config, "auto_map", None):
        raise UntrustedFileError(
            f"{name} stands in Python files of the folder, which onnxport does not run: build the model yourself and pass it "
            "to onnxport.convert"
        )
    raise InvalidModelError(f"transformers {transformers.__version__} has no class {name!r}")


def _merged(name: str) -> dict[str, Any]:
    tables = [getattr(modeling_auto, f"MODEL_FOR_{table}_MAPPING_NAMES", {}) for table in _TABLES[name]]
    return {kind: item for table in reversed(tables) for kind, item in table.items()}


_MODELS: dict[str, Any] = dict(modeling_auto.MODEL_MAPPING_NAMES)


def _classes(name: str) -> set[str]:
    tables = [getattr(modeling_auto, f"MODEL_FOR_{table}_MAPPING_NAMES", {}) for table in _TABLES[name]]
    items = [item for table in tables for item in table.values()]
    return {kind for item in items for kind in ((item,) if isinstance(item, str) else item)}
